"""What is permuted between two texts: documents, groups, groups and pseudo-groups, or draws.

Answers to the same prompts are permuted within these: see `prompts`.

*documents*: neither text has groups. All documents are permuted.

*groups*: both have groups. Whole groups are permuted, as many to either side as there are. Exact
for every measure, where groups of both texts are alike under the null hypothesis. Where the mean
numbers of documents a group differ by more than a factor of 2, a text that has nearly as many
effective groups as documents (90%) is taken for one of independent documents: swaps or draws.

Of both of these a unit changes sides with units of its size alone, so that every randomization has
texts as long as the data: the size is its tokens where words are counted, whose expected distances
depend on them, and of groups else their documents that have what is compared. Units are sorted by
size and cut into strata of 16, at most 32: exact where units of one size are alike under the null
hypothesis. Where strata leave a ratio of more than 1.1 (of documents 1.25) between both texts, or
fewer than 10 units that can change sides, there is no verdict.

*swaps*: the reference has groups, the samples are independent documents. These are dealt at random
to pseudo-groups, one for each group of the reference and of as many documents (in proportion, where
the texts do not have as many). A randomization swaps each group with its pseudo-group with
probability one half. Documents of the smaller text weigh more, so that both sides weigh as much.

*draws*: the samples have groups (several answers of a prompt), the reference is independent
documents. A statistic is averaged over `GROUP_DRAWS` fixed draws of one document per group. Units
(groups of the samples, documents of the reference) are dealt at random to as many pairs of blocks
as the text of fewer units has; every draw takes one unit of each block and one document of it. A
randomization swaps the blocks of a pair with probability one half, in all draws alike. Under the
null hypothesis the documents of one draw are independent draws of one distribution, so that one
draw alone has an exact test for every measure. The average is asymptotic in the number of blocks: a
swap changes the sign of what a pair adds to the difference of the two distributions, in all draws
at once, so that random signs keep its covariances over draws, however alike the documents of a
group are and however many units either text has (permuted units would not: the mean of a group
varies less than a document). P-values are never averaged.

Source of swaps: Canay, Romano and Shaikh (2017). Randomization tests under an approximate symmetry
assumption. Econometrica 85. They are asymptotic in the number of groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from beyond_perplexity.random_streams import stream
from beyond_perplexity.verdicts import reason

# Below these nothing is claimed; they were fixed before any text was measured with them.
EFFECTIVE_GROUPS = 20  # of a text with groups, for any verdict
HALVINGS = 7  # over which the held-out distance is taken
SIZE_RATIO = 1.1  # of the sizes of two texts inside of strata, beyond which units are not alike
MANY_SIZES = 2  # of mean group sizes, beyond which nearly single documents lose their groups
STRATUM = 16  # units of a stratum of sizes, on average
STRATA = 32  # strata at most
LEAST_MOVED = 10  # units of either text that can change sides, for a verdict
NEARLY_SINGLE = 0.9  # effective groups a document, above which each document is a group of its own
GROUP_DRAWS = 20  # of one document per group, over which a statistic is averaged
SPLIT_RANKS = 30  # in either half, for a fit of Zipf's law
OCCURRENCES = 10  # in one half, of a rank that Zipf's law is fitted to
DOCUMENTS_AT_LENGTHS = 20  # of either text at lengths that both have, for a verdict on types
# Documents beside groups whose mean curves are tested: of fewer, t at places where few have
# anything but 0 is larger than swaps make it, as these mix both texts (p <= .05 in .19 of the cases
# with 30, in .08 with 100, in .06 with 230).
DOCUMENTS_OF_CURVES = 150
VERDICT_LEVELS = (0.05, 0.005)  # of one star and of two
SIDE_BY_SIDE = 32  # randomizations at a time: 32 numbers of 16 bits are a line of the cache
Scheme = Literal["documents", "groups", "swaps", "draws", "prompts"]
Groups = tuple[np.ndarray | None, np.ndarray | None]


class CommonGroups(tuple[np.ndarray, np.ndarray]):
    """Groups of both texts that are the same ones and say themselves what is permuted."""

    def permuted(self, *, of_words: bool) -> PermutedUnits:
        """Say what tests permute, of words or of numbers of documents."""
        raise NotImplementedError


def side_by_side(n: int) -> Iterator[range]:
    """Cut items 0 to n - 1 into those that are drawn together."""
    return (range(k, min(k + SIDE_BY_SIDE, n)) for k in range(0, n, SIDE_BY_SIDE))


def check_group_codes(groups: Groups, n_documents: tuple[int, int]) -> None:
    """Refuse groups that are not one for each document."""
    for codes, n in zip(groups, n_documents, strict=True):
        if codes is not None and len(codes) != n:
            raise ValueError(f"{len(codes)} groups of {n} documents; give one for each")


def scheme_of(groups: Groups) -> Scheme:
    """Return how two texts with these groups are randomized."""
    if isinstance(groups, CommonGroups):
        return "prompts"
    if groups[0] is None:
        return "documents" if groups[1] is None else "draws"
    return "swaps" if groups[1] is None else "groups"


def alike_groups(groups: Groups, n_documents: tuple[int, int]) -> Groups:
    """Take a text that nearly is for independent documents, beside larger groups."""
    one, two = groups
    if isinstance(groups, CommonGroups) or one is None or two is None:
        return groups
    sizes = [np.unique(codes, return_counts=True)[1] for codes in (one, two)]
    means = [n / max(len(own), 1) for own, n in zip(sizes, n_documents, strict=True)]
    if max(means) <= MANY_SIZES * min(means):
        return groups
    single = [effective_groups(own) >= NEARLY_SINGLE * own.sum() for own in sizes]
    return None if single[0] else one, None if single[1] else two


def effective_groups(weights: np.ndarray) -> float:
    """Return (Σ w)² / Σ w² of weights (G,): so many equal groups vary as much; 0 for no group.

    References
    ----------
    Kish (1965). Survey sampling.

    Examples
    --------
    >>> effective_groups(np.array([10, 10, 10])), effective_groups(np.array([28, 1, 1]))
    (3.0, 1.1450381679389312)
    """
    weights = np.asarray(weights, float)
    total = weights.sum()
    return float(total**2 / np.sum(weights**2)) if total else 0.0


def group_sums(groups: np.ndarray | None, values: np.ndarray) -> np.ndarray:
    """Add up values (D,) over groups (D,) from 0 on; of documents without groups as they are."""
    if groups is None:
        return values.astype(float)
    return np.bincount(groups, values)


def whole_groups(groups: np.ndarray, order: np.ndarray, n: int, beyond: float = 0.0) -> np.ndarray:
    """Take whole groups in an order, up to n documents: bool, (D,).

    `beyond`: share of the last group that may lie beyond n; one half for as many documents as come
    nearest to n.
    """
    sizes = np.bincount(groups, minlength=len(order))
    chosen = np.zeros(len(order), bool)
    chosen[order[np.cumsum(sizes[order]) - beyond * sizes[order] <= n]] = True
    return chosen[groups]


class DocumentLabels:
    """Labels of one permutation, block after block: `n_ones` ones, all subsets equally likely."""

    def __init__(self, rng: np.random.Generator, n_ones: int, n_zeros: int) -> None:
        self._rng = rng
        self._ones = n_ones
        self._zeros = n_zeros

    def next_block(self, n: int) -> np.ndarray:
        """Label the next n documents: bool, shape (n,)."""
        rng = self._rng
        ones = int(rng.hypergeometric(self._ones, self._zeros, n))
        bias = round(256 * ones / n)
        self._ones -= ones
        self._zeros -= n - ones
        # Coins of nearly the right bias, a bit each for one half, else a byte; then documents of
        # the surplus side, chosen at random, are turned until the number is right. Given their
        # number all subsets are equally likely: so is the result.
        if bias == 128:
            packed = np.frombuffer(rng.bytes((n + 7) // 8), np.uint8)
            labels = np.unpackbits(packed, count=n).view(bool)
        else:
            labels = np.frombuffer(rng.bytes(n), np.uint8) < bias
        while surplus := int(np.count_nonzero(labels)) - ones:
            drawn = rng.integers(n, size=4 * abs(surplus) + 8)
            turned = drawn[labels[drawn] == (surplus > 0)][: abs(surplus)]
            labels[turned] = surplus < 0
        return labels


@dataclass(frozen=True)
class Strata:
    """Units of both texts, sorted by size and cut: `order` (U,), and where each begins, (S,)."""

    order: np.ndarray
    starts: np.ndarray
    n_first: np.ndarray  # units of the first text in each: (S,)
    sizes: np.ndarray  # of the units: (U,)
    what: str  # units of one size, in words
    most: float = SIZE_RATIO  # of the sizes of both texts inside of strata

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, what: str) -> Strata:
        """Cut units of two texts by their sizes, (G,) and (H,); equal ones stay together."""
        sizes = np.concatenate([first, second]).astype(float)
        order = np.argsort(sizes, kind="stable")
        n = min(STRATA, max(1, len(sizes) // STRATUM))
        wanted = sizes[order[np.arange(n) * len(sizes) // n]]
        starts = np.unique(np.searchsorted(sizes[order], wanted))
        n_first = np.add.reduceat((order < len(first)).astype(np.int64), starts)
        return cls(order, starts, n_first, sizes, what)

    @cached_property
    def _totals(self) -> np.ndarray:
        return np.diff(self.starts, append=len(self.order))

    @cached_property
    def _drawn_first(self) -> tuple[np.ndarray, np.ndarray]:
        """Of places, stratum after stratum: the stratum, and whether they are first ones, (U,)."""
        own = np.repeat(np.arange(len(self.starts)), self._totals)
        return own, np.arange(len(own)) - self.starts[own] < self.n_first[own]

    def label(self, rng: np.random.Generator) -> np.ndarray:
        """Draw which units are on the first side, as many of each stratum as are: bool, (U,)."""
        stratum, first = self._drawn_first
        shuffled = np.lexsort((rng.random(len(stratum)), stratum))  # inside of strata
        labels = np.empty(len(first), bool)
        labels[self.order[shuffled]] = first
        return labels

    @cached_property
    def moved(self) -> int:
        """Units of either text that can change sides, without those of size 0."""
        held, first = self.sizes[self.order] > 0, self.order < self.n_first.sum()
        sides = (np.add.reduceat(held & own, self.starts, dtype=int) for own in (first, ~first))
        return int(np.minimum(*sides).sum())

    @property
    def unlike(self) -> str:
        """The `reason` why units of about one size cannot be permuted, or nothing."""
        if self.moved < LEAST_MOVED:
            return reason("few_moved", moved=self.moved, what=self.what, least=LEAST_MOVED)
        return self.unlike_in(self.sizes, self.what)

    def unlike_in(self, sizes: np.ndarray, what: str) -> str:
        """Say the same where strata leave too large a ratio of another size, (U,)."""
        ratio = self._ratio(sizes)
        if ratio <= self.most:
            return ""
        return reason("unlike_sizes", what=what, ratio=ratio, most=self.most)

    def _ratio(self, sizes: np.ndarray) -> float:
        """Return the ratio of the sizes (U,) of both texts inside of strata, at least 1."""
        means = np.add.reduceat(sizes[self.order], self.starts) / self._totals
        expected = self.n_first @ means, (self._totals - self.n_first) @ means
        both = zip(np.split(sizes, [self.n_first.sum()]), expected, strict=True)
        found = [own.sum() / x if x else 1.0 for own, x in both]
        return float(max(found) / min(found)) if min(found) > 0 else np.inf


@dataclass(frozen=True)
class PermutedUnits:
    """Units of both texts, numbered together."""

    # ``groups``, ``swaps``, ``draws`` or ``prompts``; ``documents`` where each is a unit
    scheme: Scheme
    # The unit of each document of the reference and of the samples
    codes: tuple[np.ndarray, np.ndarray]
    n: tuple[int, int]  # Units of the reference (the first numbers) and of the samples
    # What a document of either text counts; at least 1, and 1 for one of them
    weights: tuple[float, float]
    strata: Strata | None = None  # of documents or groups, which are permuted inside of them

    @property
    def unlike(self) -> str:
        """The `reason` why units of about one size cannot be permuted, or nothing."""
        return "" if self.strata is None else self.strata.unlike

    def labels(self, n: int, seed: int) -> Iterator[np.ndarray]:
        """Draw which units are on the side of the reference: of the next w of n, bool, (U, w).

        Number b draws from the stream (`seed`, ``"permutation/units"``, b), so that all measures
        share them; of draws the next `SIDE_BY_SIDE` ones do together.
        """
        for items in side_by_side(n):
            if self.scheme == "draws":
                rng = stream(seed, "permutation/units", items.start)
                shape = self.n[0], SIDE_BY_SIDE
                kept = rng.integers(2, size=shape, dtype=bool)[:, : len(items)]
                yield np.concatenate([kept, ~kept])
                continue
            yield np.stack([self._label(stream(seed, "permutation/units", b)) for b in items], 1)

    def _label(self, rng: np.random.Generator) -> np.ndarray:
        if self.strata is not None:
            return self.strata.label(rng)
        if self.scheme in ("swaps", "prompts"):
            kept = rng.integers(2, size=self.n[0]).astype(bool)
            return np.concatenate([kept, ~kept])
        labels = np.zeros(sum(self.n), bool)
        labels[rng.permutation(len(labels))[: self.n[0]]] = True
        return labels


def permuted_units(
    groups: Groups,
    n_documents: tuple[int, int],
    seed: int,
    lengths: tuple[np.ndarray, np.ndarray] | None = None,
) -> PermutedUnits | None:
    """Say what is permuted; None where it is every single document, or one of a draw.

    With the `lengths` of documents, (D,), among units of the same total of them. The pseudo-groups
    are dealt from the stream (`seed`, ``"pseudo_groups"``).
    """
    if isinstance(groups, CommonGroups):
        return groups.permuted(of_words=lengths is not None)
    scheme, (first, second) = scheme_of(groups), groups
    if scheme == "draws" or (scheme == "documents" and lengths is None):
        return None  # draws have units of their own: see `GroupDraws`
    if first is None:
        assert lengths is not None
        strata = Strata.of(*lengths, "documents of one length")
        return replace(single_documents(n_documents), strata=strata)
    n_groups = int(first.max(initial=-1)) + 1
    if second is None:
        second = _deal(np.bincount(first), n_documents[1], seed)
        ratio, n = n_documents[1] / n_documents[0], (n_groups, n_groups)
        weights = max(1.0, ratio), max(1.0, 1 / ratio)
        return PermutedUnits(scheme, (first, second + n_groups), n, weights)
    sizes = lengths or (np.ones(n_documents[0]), np.ones(n_documents[1]))
    what = "groups of as many " + ("documents" if lengths is None else "tokens")
    strata = Strata.of(group_sums(first, sizes[0]), group_sums(second, sizes[1]), what)
    n = n_groups, int(second.max(initial=-1)) + 1
    return PermutedUnits(scheme, (first, second + n_groups), n, (1.0, 1.0), strata)


def single_documents(n_documents: tuple[int, int]) -> PermutedUnits:
    """Make every document a unit of its own, where neither text has groups."""
    n, m = n_documents
    return PermutedUnits("documents", (np.arange(n), np.arange(m) + n), (n, m), (1.0, 1.0))


@dataclass(frozen=True)
class GroupDraws:
    """Draws of one document per group, beside single documents; see the module."""

    groups: np.ndarray  # The group of each document of the samples, from 0 on without gaps
    n_reference: int  # Documents of the reference
    # Blocks are dealt from the stream (`seed`, ``"group_draws/blocks"``, text), draw d from
    # (`seed`, ``"group_draws"``, d)
    seed: int
    # Where blocks are of units of about one length: the lengths of the documents of both texts
    lengths: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def blocks(self) -> int:
        """Pairs of blocks P: units of the text that has fewer."""
        return min(self.n_reference, int(self.groups.max(initial=-1)) + 1)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the documents of each draw, by block: of reference and samples, (P,) each."""
        sizes = np.bincount(self.groups)
        starts, by_group = np.cumsum(sizes) - sizes, np.argsort(self.groups, kind="stable")
        dealt = [
            stream(self.seed, "group_draws/blocks", sample_set).permutation(n)
            for sample_set, n in enumerate((self.n_reference, len(sizes)))
        ]
        if self.lengths is not None:
            means = self.lengths[0], group_sums(self.groups, self.lengths[1]) / sizes
            by_length = (x[own].argsort(kind="stable") for x, own in zip(means, dealt, strict=True))
            dealt = [own[order] for own, order in zip(dealt, by_length, strict=True)]
        for number in range(GROUP_DRAWS):
            rng = stream(self.seed, "group_draws", number)
            reference, unit = (_one_of_each(own, self.blocks, rng) for own in dealt)
            index = (rng.random(self.blocks) * sizes[unit]).astype(np.int64)
            yield reference, by_group[starts[unit] + index]

    def units(self, drawn: tuple[np.ndarray, np.ndarray]) -> PermutedUnits:
        """Return the units of a draw, whose documents are in the order of their text."""
        first, second = (np.argsort(indices) for indices in drawn)
        n = self.blocks
        return PermutedUnits("draws", (first, second + n), (n, n), (1.0, 1.0))


def group_draws(
    groups: Groups,
    n_documents: tuple[int, int],
    seed: int,
    lengths: tuple[np.ndarray, np.ndarray] | None = None,
) -> GroupDraws:
    """Return the draws of two texts of which the second alone has groups."""
    assert groups[1] is not None
    return GroupDraws(groups[1], n_documents[0], seed, lengths)


def _one_of_each(units: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a unit of each of n blocks, into which units (U,) are cut: (n,)."""
    ends = np.arange(n + 1) * len(units) // n
    return units[ends[:-1] + (rng.random(n) * np.diff(ends)).astype(np.int64)]


def _deal(sizes: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Deal n documents to pseudo-groups in proportion to sizes (G,): int64, shape (n,)."""
    ends = np.cumsum(sizes) * n / sizes.sum()
    dealt = np.empty(n, np.int64)
    dealt[stream(seed, "pseudo_groups").permutation(n)] = np.searchsorted(ends, np.arange(n) + 0.5)
    return dealt
