"""Shared n-grams: how many of a document's n-grams stand in another document of its text too.

Of two documents that are cut to N words it is the number of the n-grams that both have, each once,
by N - n + 1; of a text the mean over all pairs of documents of different groups, or of answers to
different prompts. It does not depend on the number of documents. A model that writes the same
phrases in all of them shares more than people, which no measure of one document sees. After
Hurlbert (1971), The nonconcept of species diversity, Ecology 52. D documents, G n-grams, U units, w
randomizations at a time, K lengths of n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from beyond_perplexity.inference.permuted_units import PermutedUnits
from beyond_perplexity.inference.prompts import clusters_of
from beyond_perplexity.tendencies.definitions import SHARED_NGRAMS, TENDENCIES
from beyond_perplexity.tendencies.document_statistics import ABSENT, chosen_size, first_tokens
from beyond_perplexity.tendencies.statistics import Histogram
from beyond_perplexity.tendencies.tokens import TokenBatch, string_hashes

MOST_COMPARED = 2_000  # documents of either text that are compared, spread over it
_ROUNDING = 1e-12  # a difference below is one of equal texts


def compared_size(held: Histogram) -> int:
    """Choose how many words of documents are compared, by the lengths of the reference."""
    return chosen_size(TENDENCIES[SHARED_NGRAMS].sizes, held.lengths, held.counts)


def beginnings(batch: TokenBatch, size: int) -> np.ndarray:
    """Hash the first tokens of documents, `ABSENT` in shorter ones: int32, (D, size)."""
    kept, ids = first_tokens(batch, size)
    found = np.full((len(kept), size), ABSENT, np.int32)
    found[kept] = (string_hashes(batch.types) >> np.uint64(33)).astype(np.int32)[ids]
    return found


def spread_over(kept: np.ndarray) -> np.ndarray:
    """Keep `MOST_COMPARED` of the documents that are kept, bool, (D,), at equal steps."""
    own, found = np.flatnonzero(kept), np.zeros(len(kept), bool)
    found[own[np.linspace(0, len(own) - 1, min(len(own), MOST_COMPARED)).astype(int)]] = True
    return found


def _ngrams(tokens: np.ndarray, longest: int) -> Iterator[csr_array]:
    """Yield which n-grams documents (D, N) have, of each length: ones, (D, G)."""
    words: np.ndarray = np.unique(tokens, return_inverse=True)[1].reshape(tokens.shape)
    codes = np.zeros((len(words), words.shape[1] + 1), words.dtype)  # of no word
    for n in range(longest):
        longer = codes[:, :-1] * (words.max(initial=0) + 1) + words[:, n:]
        codes = np.unique(longer, return_inverse=True)[1].reshape(longer.shape)
        ends = np.arange(len(codes) + 1) * codes.shape[1]
        found = csr_array((np.ones(codes.size), codes.flatten(), ends))  # sorted in place
        found.sum_duplicates()
        found.data[:] = 1
        yield found


def _members(codes: np.ndarray, weights: np.ndarray, n: int) -> csr_array:
    """Weigh documents (D,) in their units: (U, D)."""
    return csr_array((weights, (codes, np.arange(len(codes)))), shape=(n, len(codes)))


def shared_by_document(tokens: np.ndarray, codes: np.ndarray, longest: int) -> np.ndarray:
    """Compute the pseudo-values of documents: float64, (D, K), whose mean is that of the text.

    A document adds to the mean, to first order, what it shares with those of other groups.

    Parameters
    ----------
    tokens : numpy.ndarray of int, shape (D, N)
    codes : numpy.ndarray of int, shape (D,)
        The group of each document, from 0 on.
    longest : int
        Words K of an n-gram at most.

    Examples
    --------
    >>> shared_by_document(np.array([[1, 2, 3], [4, 1, 2]]), np.arange(2), 2).mean(axis=0)
    array([0.66666667, 0.5       ])
    """
    found, sizes = [], np.bincount(codes)
    beside = len(codes) - sizes[codes]  # documents of other groups
    members = _members(codes, np.ones(len(codes)), len(sizes))
    for n, held in enumerate(_ngrams(tokens, longest), start=1):
        of_groups = members @ held  # (U, G)
        shared = held @ of_groups.sum(axis=0) - (held * of_groups[codes]).sum(axis=1)
        with np.errstate(invalid="ignore"):
            mean = shared.sum() / beside.sum()
            added = 2 * len(codes) * (shared - mean * beside) / beside.sum()
        found.append((mean + added) / (tokens.shape[1] - n + 1))
    return np.stack(found, axis=1)


@dataclass(frozen=True)
class _Across:
    """What units of different clusters have in common: of sums (U, G) and `clusters` (U,)."""

    sums: csr_array
    clusters: np.ndarray

    @cached_property
    def _within(self) -> csr_array:
        """What units of one cluster have in common: (U, U)."""
        rows = np.repeat(self.clusters, np.diff(self.sums.indptr)).astype(np.int64)
        keys, own = np.unique(rows * self.sums.shape[1] + self.sums.indices, return_inverse=True)
        shape = self.sums.shape[0], len(keys)  # a key is of one n-gram and one cluster
        apart = csr_array((self.sums.data, own, self.sums.indptr), shape=shape)
        return apart @ apart.T

    def total(self, sides: np.ndarray) -> np.ndarray:
        """Add up the products of sums over ordered pairs of units on a side, bool, (U, w): (w,)."""
        own = sides.astype(float)
        every = np.sum((self.sums.T @ own) ** 2, axis=0)
        return np.asarray(every - np.sum(own * (self._within @ own), axis=0))


def permuted_shares(
    tokens: tuple[np.ndarray, np.ndarray], units: PermutedUnits, longest: int, n: int, seed: int
) -> dict[str, np.ndarray]:
    """Compare what documents share in both texts under randomizations and, last, as they are.

    Of documents (D, N) and (E, N), whose units are those of `units`: ``max_difference`` and ``t``,
    the largest in standard deviations, (n + 1,) each. Answers to one prompt are not compared.
    """
    codes, total, every = np.concatenate(units.codes), sum(units.n), np.concatenate(tokens)
    members = _members(codes, np.repeat(units.weights, [*map(len, tokens)]), total)
    labels = [*units.labels(n, seed), (np.arange(total) < units.n[0])[:, None]]
    clusters, found = clusters_of(units), []
    documents = _Across(csr_array(members.sum(axis=1)[:, None]), clusters)
    pairs = [(documents.total(side), documents.total(~side)) for side in labels]
    for words, held in enumerate(_ngrams(every, longest), start=1):
        of_units = (members @ held).tocsc()
        several = np.diff(of_units.indptr) > 1  # of one unit alone none is shared
        shared = _Across(of_units[:, several].tocsr(), clusters)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = [
                shared.total(~side) / beside - shared.total(side) / own
                for side, (own, beside) in zip(labels, pairs, strict=True)
            ]
        found.append(np.abs(np.concatenate(drawn)) / (every.shape[1] - words + 1))
    both = np.stack(found)  # (K, n + 1)
    both[both < _ROUNDING] = 0
    with np.errstate(invalid="ignore"):
        scores = np.nan_to_num(both / np.sqrt(np.mean(both**2, axis=1, keepdims=True)))
    return {"max_difference": both.max(axis=0), "t": scores.max(axis=0)}
