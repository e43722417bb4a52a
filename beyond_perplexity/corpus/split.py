"""Which split a document belongs to: a property of its page, not of the corpus around it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from beyond_perplexity.options import Limited, Share

SPLITS = ("train", "valid", "test")


def hash_uniform(name: str) -> float:
    """Hash a name to [0, 1).

    Parameters
    ----------
    name : str
        The title of a page, or the text of a document without one.

    Returns
    -------
    float
        The first 53 bits of the name's BLAKE2b digest as a fraction; uniform over names.
    """
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2.0**53


@dataclass(frozen=True)
class SplitShares(Limited):
    """Shares of the pages that go to each split.

    The split of a page depends on its title and the shares alone: all documents of a page share
    it, and a bigger dump keeps it.

    Parameters
    ----------
    train, valid, test : float
        Shares, not negative, that sum to 1.

    Raises
    ------
    ValueError
        When they are no shares or do not sum to 1.
    """

    train: Share = 0.7
    valid: Share = 0.1
    test: Share = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.train + self.valid + self.test
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"the shares of train, valid and test sum to {total:g}, not to 1")

    def choose(self, name: str) -> str:
        """Return the split of the page or document with this name."""
        position = hash_uniform(name)
        if position < self.train:
            return "train"
        return "valid" if position < self.train + self.valid or not self.test else "test"
