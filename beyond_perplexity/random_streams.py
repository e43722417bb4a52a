"""Counter-based random streams: a number never depends on how the work was cut.

Every document, permutation, bootstrap resample and training step draws from a stream of its own,
keyed by (seed, purpose, item). So shard size, batch size, number of workers, order and restarts do
not change a result.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def stream_key(seed: int, purpose: str) -> int:
    """Hash (seed, purpose) to the first word of a Philox key, 64 unsigned bits."""
    digest = hashlib.blake2b(f"{seed}\x1f{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def stream(seed: int, purpose: str, item: int = 0) -> np.random.Generator:
    """Open the random stream of one item.

    Parameters
    ----------
    seed : int
        The seed of the run.
    purpose : str
        What the numbers are for; different purposes give independent streams.
    item : int
        Index of the document, permutation, step, ...; not negative.

    Returns
    -------
    numpy.random.Generator
        A Philox 4x64-10 generator with the key (hash of seed and purpose, item) and counter 0.

    References
    ----------
    Salmon, Moraes, Dror, Shaw (2011). Parallel random numbers: as easy as 1, 2, 3.
    """
    key = np.array([stream_key(seed, purpose), item], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(cast("np.random.SeedSequence", _Key(key))))


class _Key(ISeedSequence):
    """A key in the place of a seed: beside a key, NumPy would draw a seed that is of no use."""

    def __init__(self, key: np.ndarray) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Return the key, which has two words."""
        return self._key
