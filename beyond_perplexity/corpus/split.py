"""Which split a document belongs to: a property of its own, not of the corpus around it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.options import Section, Share

SPLITS = ("train", "valid", "test")
SENTENCES = "-sentences"  # ends the name of what has the sentences of a corpus as its documents


def hash_uniform(name: str) -> float:
    """Hash a name to [0, 1): the first 53 bits of its BLAKE2b digest; uniform over names."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2.0**53


@dataclass(frozen=True)
class SplitOptions(Section):
    """What goes to each split.

    The split of a unit depends on its hash and the shares alone, so that a bigger dump keeps it.

    Parameters
    ----------
    unit : "document" or "page"
        What is dealt to the splits. document, by title and text before cleaning: as if all were
        shuffled and then split, so that paragraphs of a page are in training and in test. page, by
        title: all of a page is in one split. A document without a title is a page of its own.
    train : float
        Share for training.
    valid : float
        Share for validation.
    test : float
        Share that samples are compared with; the three add up to one.

    Raises
    ------
    ValueError
        When they are no shares or do not sum to 1.
    """

    unit: Literal["document", "page"] = "document"
    train: Share = 0.7
    valid: Share = 0.1
    test: Share = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.train + self.valid + self.test
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"the shares of train, valid and test sum to {total:g}, not to 1")

    def choose(self, title: str, text: str) -> str:
        """Return the split of a document by the title of its page and its text before cleaning."""
        if self.unit == "page":
            position = hash_uniform(title or text)
        else:
            # no text has a line feed: no other title and text give the same string
            position = hash_uniform(f"{title}\n{text}" if title else text)
        if position < self.train:
            return "train"
        return "valid" if position < self.train + self.valid or not self.test else "test"
