"""Measures of models that are functions of sums over test documents, and so can be resampled.

G groups of documents, M models, R resamples, P parts, K counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from beyond_perplexity.inference.exchanged_units import effective_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.semantics.bleu import bleu_of

_BLOCK = 64  # resamples that are held at once


@dataclass(frozen=True, eq=False)
class DocumentSums:
    """Sums of one measure over groups of documents.

    Attributes
    ----------
    measure, subject, title : str
        Its key, the subject that it belongs to, what it is called.
    higher : bool
        Whether more is better.
    models : list of str
    groups : ndarray of int64, shape (G,)
        Keys, sorted.
    numerators, denominators : ndarray of float64, shape (G, M)
        Of a ratio of sums.
    counts : ndarray of float64, shape (G, M, K), or None
        Of corpus BLEU of order `order`.
    """

    measure: str
    subject: str
    title: str
    higher: bool
    models: list[str]
    groups: np.ndarray
    numerators: np.ndarray
    denominators: np.ndarray
    counts: np.ndarray | None = None
    order: int = 0

    @property
    def effective(self) -> float:
        """Effective number of groups, by the sizes of the first model."""
        return effective_groups(self.denominators[:, 0])

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the measure where groups count so often: weights (R, G) give (R, M)."""
        if self.counts is not None:
            total = np.tensordot(weights, self.counts, 1)
            return bleu_of(total, self.order)
        held = np.where(np.isfinite(self.numerators), self.numerators, 0.0)
        above, below = weights @ held, weights @ self.denominators
        infinite = weights @ ~np.isfinite(self.numerators).astype(bool)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: np.ndarray = above / below
        return np.where(infinite > 0, math.inf, found)


def resample_weights(groups: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each group is drawn in some resamples of all, float64, (r, G).

    A resample has a random stream of its own, the same for all measures.
    """
    for first in range(0, resamples, _BLOCK):
        rows = range(first, min(resamples, first + _BLOCK))
        yield np.stack([_drawn(groups, row, seed) for row in rows])


def _drawn(groups: int, row: int, seed: int) -> np.ndarray:
    drawn = stream(seed, "relations/documents", row).integers(0, groups, groups)
    return np.bincount(drawn, minlength=groups).astype(float)


def resampled_values(
    held: Sequence[DocumentSums], resamples: int, seed: int
) -> dict[str, np.ndarray]:
    """Compute measures in resamples of the documents (or groups of them) of all of them together.

    Parameters
    ----------
    held : sequence of DocumentSums
    resamples : int
        R.
    seed : int

    Returns
    -------
    dict of str to ndarray of float64, shape (R, M)
        By the key of the measure. A row is of the same documents in all of them.
    """
    if not held:
        return {}
    union = np.unique(np.concatenate([one.groups for one in held]))
    places = {one.measure: np.searchsorted(union, one.groups) for one in held}
    parts: dict[str, list[np.ndarray]] = {one.measure: [] for one in held}
    for weights in resample_weights(len(union), resamples, seed):
        for one in held:
            parts[one.measure].append(one.values(weights[:, places[one.measure]]))
    return {name: np.concatenate(found) for name, found in parts.items()}
