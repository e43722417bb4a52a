"""Documents as vectors: of one text, and of two that are compared.

D numbers of a vector, n documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from beyond_perplexity.inference.exchanged_units import Groups
from beyond_perplexity.tendencies.embeddings.kernel import gaussian_kernel, median_distance


class TextEncoder(Protocol):
    """What makes vectors of texts.

    Attributes
    ----------
    truncated : int
        Texts so far of which not all was read.
    """

    truncated: int

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors, float32, (n, D): rows of NaN for texts that it can make nothing of."""


@dataclass(frozen=True)
class EmbeddedText:
    """Documents of a text as vectors.

    Attributes
    ----------
    vectors : numpy.ndarray of float32, shape (n, D)
        Of the documents.
    groups : numpy.ndarray of int, shape (n,), or None
        The group of each, from 0 on without gaps; None where each is independent.
    n_documents : int
        Documents of the text that they were drawn from.
    cut : int
        How many were longer than the encoder reads.
    left_out : int
        Documents that were drawn, and that the encoder could make nothing of.
    """

    vectors: np.ndarray
    groups: np.ndarray | None
    n_documents: int
    cut: int = 0
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.vectors)

    def first(self, n: int) -> EmbeddedText:
        """Return the first n documents, or the first whole groups, as near to n as can be.

        Documents lie in a random order where a text was drawn so.
        """
        if self.groups is None:
            kept = np.arange(len(self)) < n
        else:
            _, place, sizes = np.unique(self.groups, return_index=True, return_counts=True)
            order = np.argsort(place)
            ends = np.cumsum(sizes[order])
            taken = order[ends - sizes[order] / 2 <= n]
            kept = np.isin(self.groups, taken)
        groups = None if self.groups is None else _numbered(self.groups[kept])
        return EmbeddedText(self.vectors[kept], groups, self.n_documents, self.cut, self.left_out)


def _numbered(groups: np.ndarray) -> np.ndarray:
    """Give groups (n,) the numbers from 0 on without gaps."""
    found: np.ndarray = np.unique(groups, return_inverse=True)[1]
    return found


def embedded_text(
    texts: Sequence[str], groups: np.ndarray | None, n_documents: int, encoder: TextEncoder
) -> EmbeddedText:
    """Embed documents.

    Parameters
    ----------
    texts : sequence of str
        The documents that were drawn, their tokens joined by blanks.
    groups : numpy.ndarray of int, shape (n,), or None
        The group of each.
    n_documents : int
        Documents of the text that they were drawn from.
    encoder : TextEncoder
        What makes vectors of them.
    """
    before = encoder.truncated
    vectors = np.asarray(encoder.encode(texts), np.float32)
    known = np.all(np.isfinite(vectors), axis=1)
    return EmbeddedText(
        vectors[known],
        None if groups is None else _numbered(groups[known]),
        n_documents,
        encoder.truncated - before,
        int(np.sum(~known)),
    )


@dataclass(frozen=True)
class EmbeddedPair:
    """Two texts whose documents are vectors of one encoder.

    Attributes
    ----------
    reference, samples : EmbeddedText
        The texts.
    bandwidth : float
        Of the kernel.
    reason : str
        Why no verdict is possible, where none is.
    """

    reference: EmbeddedText
    samples: EmbeddedText
    bandwidth: float
    reason: str = field(default="")

    @classmethod
    def of(
        cls,
        reference: EmbeddedText,
        samples: EmbeddedText,
        further: EmbeddedText | None = None,
        reason: str = "",
    ) -> EmbeddedPair:
        """Choose the bandwidth: of further human text, so that one kernel serves all samples.

        Without such text it is that of both texts pooled; see `kernel`.
        """
        pooled = np.concatenate([reference.vectors, samples.vectors])
        known = further is not None and len(further) > 1
        bandwidth = median_distance(further.vectors if known and further else pooled)
        return cls(reference, samples, bandwidth, reason)

    @cached_property
    def kernel(self) -> np.ndarray:
        """The kernel of all documents, those of the reference first: float64, (n + m, n + m)."""
        both = np.concatenate([self.reference.vectors, self.samples.vectors])
        return gaussian_kernel(both, self.bandwidth)

    @property
    def groups(self) -> Groups:
        """The groups of both."""
        return self.reference.groups, self.samples.groups

    @property
    def n_documents(self) -> tuple[int, int]:
        """Documents of the reference n and of the samples m that are compared."""
        return len(self.reference), len(self.samples)

    @property
    def document_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """What each document counts among those of its group: 1."""
        return np.ones(len(self.reference)), np.ones(len(self.samples))

    def n_groups(self, body: int) -> int | None:
        """Count the groups of a body; None where it has none."""
        groups = self.groups[body]
        return None if groups is None else len(np.unique(groups))
