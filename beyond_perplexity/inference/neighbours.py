"""Whether documents that stand side by side resemble each other more than random pairs do.

Tests take documents for exchangeable. Paragraphs of a page, answers to one prompt and repeated
texts are not, and a file in their order betrays them. The statistic is the mean cosine of adjacent
documents, or the correlation of adjacent numbers by their ranks; the test is exact for independent
documents of any kind and length in a random order (what is sorted has neighbours that are alike).

V types, n documents of a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from beyond_perplexity.inference.correlations import average_ranks
from beyond_perplexity.random_streams import stream
from beyond_perplexity.verdicts import joined_facts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NEIGHBOUR_BLOCK = 1_000  # documents that are permuted among each other, at most
NEIGHBOUR_LEVEL = 0.001
NEIGHBOURS = 4_000  # documents whose order is tested
_COPIED = 0.01  # of the long documents: more copies are no chance
_LONG = 40  # bytes from which on a text is not repeated by chance
_RUNS = 40  # runs of documents that are offered as groups: a test needs 20
_PERMUTATIONS = 1_999
_FREQUENT = 0.5  # a word in more of the documents tells little of any


class NeighbourTest(NamedTuple):
    """The mean cosine of adjacent documents, or the rank correlation of adjacent numbers, and that
    of random pairs; NaN of fewer than two.

    The p-value is one-sided, and NaN with fewer than three documents.
    """

    similarity: float
    expected: float
    p_value: float

    @property
    def alike(self) -> bool:
        """Whether adjacent documents are more alike than random ones, at `NEIGHBOUR_LEVEL`."""
        return self.p_value <= NEIGHBOUR_LEVEL

    def told(self, n: int, name: str, option: str) -> str:
        """Say what was found in n documents and what is to be done; empty where they differ.

        `name` is the statistic's, `option` what takes documents in a row as a group.
        """
        if not self.alike:
            return ""
        told = f"{name} {self.similarity:.3f}, of random pairs {self.expected:.3f}"
        todo, size = "name their groups", -(-n // _RUNS)
        if size > 1:
            todo += f", or take {size:,} documents in a row as one ({option} {size})"
        return f"documents side by side are alike ({told}, p = {self.p_value:.2g}): {todo}"


def told_of_copies(keys: np.ndarray, what: str) -> str:
    """Say which share of the documents of `what` or more repeat an earlier one, by their keys,
    (D,); empty where that may be chance."""
    share = 1 - len(np.unique(keys)) / len(keys) if len(keys) else 0.0
    if share <= _COPIED:
        return ""
    return (
        f"{share:.1%} of the documents of {what} or more repeat an earlier one: where a text was "
        "copied, not written anew, leave copies out or name them as groups"
    )


@lru_cache(1)  # all models and their pairs have as many documents
def _orders(n: int, *items: int) -> np.ndarray:
    """Draw orders of n documents behind their own one, (B + 1, n), by a stream named by items."""
    rng = stream(items[0], "neighbours", *items[1:])
    return np.stack([np.arange(n), *(rng.permutation(n) for _ in range(_PERMUTATIONS))])


def number_test(values: np.ndarray, seed: int = 0) -> NeighbourTest:
    """Test the same of a number a document, float, (D,): Spearman's correlation with the next one.

    Of at most `NEIGHBOURS` documents, in blocks that all are permuted alike by the stream (`seed`,
    ``"neighbours"``).
    """
    n = min(len(values), NEIGHBOUR_BLOCK)
    if n < 3 or np.isnan(values).any():
        return NeighbourTest(math.nan, math.nan, math.nan)
    kept = values[: min(len(values), NEIGHBOURS) // n * n].reshape(-1, n)
    ranks = average_ranks(kept.T).T - (n + 1) / 2
    orders, sums = _orders(n, seed), np.zeros(_PERMUTATIONS + 1)
    for block in ranks:
        moved = block[orders]
        sums += np.einsum("bi,bi->b", moved[:, :-1], moved[:, 1:])
    spread = float(np.square(ranks).sum()) or 1.0
    p_value = float(np.mean(sums >= sums[0] - 1e-9 * spread))
    return NeighbourTest(float(sums[0]) / spread, -1 / n, p_value)


def told_of_scores(rates: np.ndarray, keys: np.ndarray, sizes: np.ndarray) -> str:
    """Say what a score a byte, (D,), tells of documents without groups, of so many bytes and with
    keys of their texts; empty where they do not seem to depend on each other."""
    beside = number_test(rates).told(len(rates), "rank correlation", "group size")
    beside += " (documents that were sorted are alike without groups)" * bool(beside)
    return joined_facts(beside, told_of_copies(keys[sizes >= _LONG], f"{_LONG} bytes"))


def _cosines(counts: csr_matrix) -> np.ndarray:
    """Return the cosines (n, n) of documents by their words, rarer ones weighing more."""
    held = (counts > 0).astype(float).tocsc()
    n, documents = held.shape[0], np.diff(held.indptr)
    kept = (documents > 1) & (documents <= max(2, _FREQUENT * n))
    held = held[:, kept].multiply(np.log(n / documents[kept])).tocsr()
    norms = np.sqrt(held.multiply(held).sum(axis=1)).A1
    held = held.multiply(1 / np.where(norms > 0, norms, 1)[:, None]).tocsr()
    return (held @ held.T).toarray()


def neighbour_test(blocks: Iterable[csr_matrix], seed: int = 0) -> NeighbourTest:
    """Test whether adjacent documents are more alike than random pairs.

    Parameters
    ----------
    blocks : iterable of scipy.sparse.csr_matrix, shape (n, V)
        How often each document has each word, in the order of the file, `NEIGHBOUR_BLOCK` documents
        a block; words may be numbered anew in each block. Only whether a word is there counts, and
        words of more than half of the documents do not.
    seed : int
        Block b is permuted by the stream (`seed`, ``"neighbours"``, b).

    Returns
    -------
    NeighbourTest

    References
    ----------
    Wald and Wolfowitz (1943). An exact test for randomness in the non-parametric case based on
    serial correlation. Annals of Mathematical Statistics 14.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> alone = csr_matrix(np.eye(8))
    >>> twice = csr_matrix(np.repeat(np.eye(8), 2, axis=0))
    >>> neighbour_test([alone]).p_value, neighbour_test([twice]).p_value
    (1.0, 0.0005)
    """
    sums, pairs, everything = np.zeros(_PERMUTATIONS + 1), 0, 0.0
    for number, counts in enumerate(blocks):
        n = counts.shape[0]
        if n < 2:
            continue
        cosines, orders = _cosines(counts), _orders(n, seed, number)
        sums += cosines[orders[:, :-1], orders[:, 1:]].sum(axis=1)
        everything += float(cosines.sum() - np.trace(cosines)) / n  # of n − 1 random pairs
        pairs += n - 1
    if not pairs:
        return NeighbourTest(math.nan, math.nan, math.nan)
    p_value = float(np.mean(sums >= sums[0] - 1e-9)) if pairs > 1 else math.nan
    return NeighbourTest(float(sums[0]) / pairs, everything / pairs, p_value)
