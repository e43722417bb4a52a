"""The beams of every instance: what beam marginalization sums, and what lies outside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.reading.side_files import read_beside
from beyond_perplexity.importance.reading.weights import WeightReader

BEAM_COLUMNS = {
    "instance_id": pa.int64(),
    "beam_size": pa.int64(),
    "rank": pa.int64(),
    "n_tokens": pa.int64(),
    "log_p": pa.float64(),
    "latent_hash": pa.int64(),
}


class Beams:
    """The beams of all instances of a reader.

    Parameters
    ----------
    paths : sequence of path
        Parquet files of schema ``beams``, cut in any way.
    reader : WeightReader
        The samples of the same instances.

    Attributes
    ----------
    settings : list of dict
        The ``beam_size`` that there are, ascending.

    Raises
    ------
    InputError
        When a row is not as it must be, or an instance lacks a beam or samples.
    """

    def __init__(self, paths: Sequence[str | Path], reader: WeightReader) -> None:
        self._score = reader.log_p
        wanted = {**BEAM_COLUMNS, self._score: pa.float64()}
        columns = read_beside(paths, wanted, "beams", reader)
        order = np.lexsort((columns["rank"], columns["instance_id"], columns["beam_size"]))
        self._columns = {name: column[order] for name, column in columns.items()}
        sizes = np.unique(columns["beam_size"]).tolist()
        self.settings = [{"beam_size": size} for size in sizes]
        self._check_unique()
        self._bounds = {size: self._find(size, reader.instance_ids) for size in sizes}

    def _check_unique(self) -> None:
        keys = np.stack([self._columns[name] for name in ("beam_size", "instance_id", "rank")])
        twice = (keys[:, 1:] == keys[:, :-1]).all(0)
        if twice.any():
            size, instance, rank = keys[:, int(np.argmax(twice))]
            raise InputError(
                f"beams: instance {instance}, beam size {size}, rank {rank} is there twice; "
                "give every file once"
            )

    def _find(self, size: int, instance_ids: np.ndarray) -> np.ndarray:
        """Return where the beam of each instance starts and ends, (N, 2)."""
        first, last = np.searchsorted(self._columns["beam_size"], [size, size + 1])
        held = self._columns["instance_id"][first:last]
        bounds = first + np.stack(
            [np.searchsorted(held, instance_ids, side) for side in ("left", "right")], 1
        )
        empty = bounds[:, 0] == bounds[:, 1]
        if empty.any():
            raise InputError(
                f"beams: instance {instance_ids[int(np.argmax(empty))]} has no beam of size "
                f"{size}; give all the files of beams"
            )
        return bounds

    def beam(self, size: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return log p and hashes, (k,), of a beam of the instance with an index of the reader."""
        part = slice(*self._bounds[size][index])
        return self._columns[self._score][part], self._columns["latent_hash"][part]
