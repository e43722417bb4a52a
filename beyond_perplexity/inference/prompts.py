"""Answers of two texts to the same prompts: labels are permuted within each prompt.

Given its prompt, what people and a model answer are draws of one distribution under the null
hypothesis, whatever prompts are of. What these differ in is the same on both sides of every
randomization, and the test is exact for every statistic but those of documents that are long
enough, which weigh as much on both sides as they do in the texts (`counted_units`). As many answers
of both texts are drawn from each prompt, at random: one each is a pair, which is swapped with
probability one half; of several all labels of the prompt are permuted. Prompts of one group (an
author, an article) are swapped together, which takes one answer each.

Tests of words are of answers that are cut to equal lengths (`shortest`): those of a prompt are
paired at random, each pair is cut to one token less than the shorter one has, and pairs are
swapped. Where only lengths differ, so that a longer answer would have gone on as a shorter one
began, what is left of a pair is exchangeable, and all randomizations have as many tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from beyond_perplexity.inference.halves import Halving
from beyond_perplexity.inference.p_values import TIE
from beyond_perplexity.inference.permuted_units import (
    EFFECTIVE_GROUPS,
    CommonGroups,
    Groups,
    PermutedUnits,
    Strata,
)
from beyond_perplexity.random_streams import stream

PromptCodes = tuple[np.ndarray, np.ndarray]  # of each document of both texts: (D,) and (E,)


class Prompts(CommonGroups):
    """The prompt of each document of both texts, or the group that its prompt is of.

    Document k of pair `pairs` (D,) of either text; `units` (D,) are the prompts of the pairs, or
    their groups, from 0 on without gaps; groups of prompts change sides as a whole.
    """

    pairs: PromptCodes
    units: np.ndarray
    whole: bool

    @classmethod
    def of(cls, pairs: PromptCodes, units: np.ndarray, whole: bool) -> Self:
        """Take the pair of each document, and the prompt of each pair, or its group: (D,)."""
        made = cls((units[pairs[0]], units[pairs[1]]))
        made.pairs, made.units, made.whole = pairs, units, whole
        return made

    def permuted(self, *, of_words: bool) -> PermutedUnits:
        """Say what tests permute: answers by prompt, or groups; for words pairs, or groups."""
        n, size, strata = int(self.units.max(initial=-1)) + 1, len(self.units), None
        codes = self[:2] if self.whole else self.pairs
        if n < size and not self.whole:
            order = np.argsort(np.tile(self.units, 2), kind="stable")
            sizes = np.bincount(self.units)
            starts = 2 * (np.cumsum(sizes) - sizes)
            of_prompts = Strata(order, starts, sizes, np.ones(2 * size), "answers")
            n, strata = size, None if of_words else of_prompts
        return PermutedUnits("prompts", (codes[0], codes[1] + n), (n, n), (1.0, 1.0), strata)

    def drawn(self, most: int, rng: np.random.Generator) -> tuple[PromptCodes, Prompts]:
        """Draw whole prompts or groups with at most so many pairs: documents and their prompts."""
        kept = drawn_units(np.bincount(self.units), most, rng)[self.units]
        numbers = np.cumsum(kept) - 1
        first, second = (np.flatnonzero(kept[codes]) for codes in self.pairs)
        pairs = numbers[self.pairs[0][first]], numbers[self.pairs[1][second]]
        units = np.unique(self.units[kept], return_inverse=True)[1]
        return (first, second), Prompts.of(pairs, units, self.whole)


def drawn_units(sizes: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Draw whole units of these sizes, (U,), with at most so much in all: bool, (U,)."""
    order = rng.permutation(len(sizes))
    return np.isin(np.arange(len(sizes)), order[np.cumsum(sizes[order]) <= most])


def shortest(codes: PromptCodes, lengths: PromptCodes) -> PromptCodes:
    """Say to how many tokens the documents of either text, (D,) and (E,), are cut, by their code.

    One less than the shortest of one code has, as its last token is what ended it; at least 1.
    """
    least = np.full(max(int(own.max(initial=-1)) for own in codes) + 1, np.iinfo(np.int64).max)
    for own, held in zip(codes, lengths, strict=True):
        np.minimum.at(least, own, held)
    least = np.maximum(least - 1, 1)
    return least[codes[0]], least[codes[1]]


def _ranks(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Put documents (D,) of each code in random order: from 0 on, (D,)."""
    order = np.lexsort((rng.random(len(codes)), codes))
    sizes = np.bincount(codes)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks


class Answers(NamedTuple):
    """Which documents answer a prompt of both texts, as many of either; see `answers_of`."""

    kept: PromptCodes  # bool
    prompts: Prompts  # of those that are kept
    counts: np.ndarray  # answers to each prompt, before any is left out: (2, P)


def answers_of(codes: PromptCodes, groups: Groups, seed: int) -> Answers:
    """Draw as many answers of both texts to each prompt, and pair them at random.

    Parameters
    ----------
    codes : tuple of numpy.ndarray of int, shape (D,) and (E,)
        The prompt of each document of both texts, numbered together from 0 on.
    groups : tuple of two numpy.ndarray of int, shape (D,) and (E,), or None
        The group of the prompt of each document, numbered together; either may have them alone.
    seed : int
        Text b draws from the stream (`seed`, ``"prompts/answers"``, b).

    Returns
    -------
    Answers
        `kept` are the documents that are compared; their `prompts` are groups for
        `permutation_test` and `held_out_total_variation`.

    Raises
    ------
    ValueError
        When a prompt is of two groups, or there are groups and several answers to a prompt.

    Examples
    --------
    >>> asked = np.arange(30)
    >>> human, model = np.append(asked, 0), asked[5:]
    >>> found = answers_of((human, model), (None, None), 0)
    >>> found.kept[0].sum(), found.kept[1].sum(), len(found.prompts.units)
    (np.int64(25), np.int64(25), 25)
    """
    n = max(int(own.max(initial=-1)) + 1 for own in codes)
    counts = np.stack([np.bincount(own, minlength=n) for own in codes])
    sizes = counts.min(axis=0)  # (P,)
    above = _group_of_prompts(codes, groups, n)
    if above is not None and sizes.max(initial=0) > 1:
        raise ValueError(
            f"{int((sizes > 1).sum())} prompts have several answers of both texts; groups of "
            "prompts change sides as a whole only with one answer each"
        )
    starts, kept, pairs = np.cumsum(sizes) - sizes, [], []
    for number, own in enumerate(codes):
        ranks = _ranks(own, stream(seed, "prompts/answers", number))
        kept.append(ranks < sizes[own])
        pairs.append((starts[own] + ranks)[kept[-1]])
    units = np.repeat(np.arange(n) if above is None else above, sizes)
    units = np.unique(units, return_inverse=True)[1]
    prompts = Prompts.of((pairs[0], pairs[1]), units, above is not None)
    return Answers((kept[0], kept[1]), prompts, counts)


def _group_of_prompts(codes: PromptCodes, groups: Groups, n: int) -> np.ndarray | None:
    """Return the group of each of n prompts from those of its documents, -1 where it has none."""
    both = zip(codes, groups, strict=True)
    given = [(own, held) for own, held in both if held is not None]
    if not given:
        return None
    prompts, held = (np.concatenate(parts) for parts in zip(*given, strict=True))
    least, most = np.full(n, np.iinfo(np.int64).max), np.full(n, -1)
    np.minimum.at(least, prompts, held)
    np.maximum.at(most, prompts, held)
    if wrong := int((least < most).sum()):
        raise ValueError(f"{wrong} prompts are of two groups each; give a prompt one group")
    return most


@dataclass(frozen=True)
class PromptHalving(Halving):
    """Halves of the reference within prompts, and as many samples; `groups` are the prompts."""

    @cached_property
    def _sizes(self) -> np.ndarray:
        """Answers of a prompt in each part: (P,)."""
        return answers_in_halves(*(np.bincount(x) for x in self.groups if x is not None))

    @cached_property
    def is_possible(self) -> bool:
        """Whether enough prompts have two answers of the reference."""
        return int((self._sizes > 0).sum()) >= EFFECTIVE_GROUPS

    def parts(self, number: int) -> tuple[list[np.ndarray], np.random.Generator]:
        """Draw a split: documents of both halves and of the samples, in random order each."""
        rng, found = stream(self.seed, "prompts/halves", number), []
        for own, n in zip(self.groups, (2, 1), strict=True):
            assert own is not None
            part = _ranks(own, rng) // np.maximum(self._sizes[own], 1)
            part[self._sizes[own] == 0] = n
            found += [rng.permutation(np.flatnonzero(part == k)) for k in range(n)]
        return found, rng


def answers_in_halves(human: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Return how many answers of a prompt are in halves of people's and of a model's, (P,) each."""
    n = max(len(human), len(model))
    return np.minimum(*(np.pad(x, (0, n - len(x))) for x in (human // 2, model)))


def clusters_of(units: PermutedUnits) -> np.ndarray:
    """Give answers to one prompt, or group of prompts, one number, other units their own: (U,)."""
    if units.scheme != "prompts":
        return np.arange(sum(units.n))
    found = np.tile(np.arange(units.n[0]), 2)
    if (strata := units.strata) is not None:
        found[strata.order] = np.repeat(np.arange(len(strata.starts)), 2 * strata.n_first)
    return found


def permuted_paired_t(
    x: np.ndarray, y: np.ndarray, units: PermutedUnits, n: int, seed: int
) -> np.ndarray:
    """Compute t of a difference of means under n randomizations and, last, of the data: (n + 1,).

    With sums S and numbers N of the values of a prompt, or group, on either side, m = sum S / sum N
    and residuals r = (S2 - m2 N2) / sum N2 - (S1 - m1 N1) / sum N1 of C prompts, t = (m2 - m1) /
    sqrt(C / (C - 1) * sum r^2), which is Student's paired t for one value each. Source: Janssen
    (1999), Testing nonparametric statistical functionals with applications to rank tests.
    """
    from scipy.sparse import csr_matrix  # late, as everywhere in this package

    size, clusters = sum(units.n), clusters_of(units)
    codes, places = np.concatenate(units.codes), np.arange(size)
    held = np.bincount(codes, np.concatenate([x, y]), size), np.bincount(codes, minlength=size)
    sums = [csr_matrix((own, (clusters, places))) for own in held]  # (C, U) each
    own = (places < units.n[0])[:, None]  # (U, 1)
    found = []
    for labels in chain(units.labels(n, seed), [own]):
        both = [[matrix @ side.astype(float) for matrix in sums] for side in (labels, ~labels)]
        found.append(paired_t(np.array(both)))
    return np.concatenate(found)


def paired_t(sides: np.ndarray) -> np.ndarray:
    """Compute that t from S and N of both sides, (2, 2, C, w): (w,)."""
    sums, sizes = sides[:, 0], sides[:, 1]  # (2, C, w)
    totals, n = sizes.sum(axis=1, keepdims=True), sides.shape[2]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums.sum(axis=1, keepdims=True) / totals
        residuals = np.diff((sums - means * sizes) / totals, axis=0)[0]
        variance = np.divide(n, n - 1) * np.sum(residuals**2, axis=0)  # of one prompt unknown
        difference, rounding = means[1, 0] - means[0, 0], TIE * np.abs(means).max(axis=0)[0]
        # Where all prompts differ alike, no randomization but that of the data may be as far.
        t = difference / np.maximum(np.sqrt(variance), rounding)
    return np.where(np.abs(difference) <= rounding, difference * 0, t)
