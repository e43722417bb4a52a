"""Distances between random halves of a human text, and between such halves and cut samples.

This is the floor without further human text. In every split all groups of the reference are dealt
at random to two halves of as many groups each, and documents are left out at random inside of
groups where a half has more of them than the other one, or than there are samples; samples are cut
likewise. Of documents without groups as many are drawn. Words are then taken at the tokens of the
smallest of the three parts. Of samples with groups beside single documents of the reference one
random document of each group is taken, as in their tests. Every split draws new parts, so that
neither the order of a file nor the fortune of one draw matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.document_draws import documents_within
from beyond_perplexity.tendencies.document_measures import CellComparison, cell_comparisons
from beyond_perplexity.tendencies.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.tendencies.inference.units import (
    Groups,
    effective_groups,
    group_sums,
    scheme_of,
)
from beyond_perplexity.tendencies.measured import MeasureKey, is_distance
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.unigrams import SIDE_BY_SIDE
from beyond_perplexity.tendencies.word_measures import compared_words

_BODIES = (0, 0, 1)  # what the two halves and the cut samples are parts of


class HalfDraws(NamedTuple):
    """Distances of random splits.

    Attributes
    ----------
    human : mapping of (tendency, measure) to numpy.ndarray of float64, shape (B,)
        Between the halves of each split.
    against : the same, shape (2 E,)
        Between either half and the cut samples, of the first E splits.
    """

    human: dict[MeasureKey, np.ndarray]
    against: dict[MeasureKey, np.ndarray]


def _narrowed(codes: np.ndarray | None) -> np.ndarray | None:
    """Hold group numbers in 16 bits where they fit: these are sorted ten times as fast."""
    if codes is None or codes.max(initial=0) >= 2**16:
        return codes
    return codes.astype(np.uint16)


class PairOfDocuments(Protocol):
    """What must be known of two texts to halve one and cut the other: see `pairs.BodyPair`."""

    @property
    def groups(self) -> Groups:
        """The group of each document of both, (D,), or None."""

    @property
    def n_documents(self) -> tuple[int, int]:
        """Documents of both."""

    @property
    def document_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """What each document of both counts, (D,)."""

    def n_groups(self, body: int) -> int | None:
        """Count the groups of a body; None where it has none."""


@dataclass(frozen=True)
class Halving:
    """How the reference of a pair is halved and its samples are cut.

    Attributes
    ----------
    pair : PairOfDocuments
        The texts.
    seed : int
        Split b draws from the stream (`seed`, ``"floor/parts"``, b).
    """

    pair: PairOfDocuments
    seed: int

    @cached_property
    def _codes(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        return _narrowed(self.pair.groups[0]), _narrowed(self.pair.groups[1])

    @cached_property
    def _draws(self) -> bool:
        """Whether a random document of each group of the samples is taken."""
        return scheme_of(self.pair.groups) == "draws"

    @cached_property
    def groups_of_a_part(self) -> int:
        """Groups of either half, and of samples that have groups; 0 for documents alone."""
        reference, samples = (self.pair.n_groups(body) for body in (0, 1))
        if reference is None:
            return samples or 0
        return reference // 2 if samples is None else min(reference // 2, samples)

    @cached_property
    def has_enough_groups(self) -> bool:
        """Whether a half has enough effective groups on average."""
        codes = self.pair.groups[0]
        if codes is None:
            return True
        effective = effective_groups(group_sums(codes, self.pair.document_lengths[0]))
        share = self.groups_of_a_part / max(self.pair.n_groups(0) or 0, 1)
        return effective * share >= EFFECTIVE_GROUPS

    def parts(self, number: int) -> tuple[list[np.ndarray], np.random.Generator]:
        """Draw a split.

        Parameters
        ----------
        number : int
            Of the split.

        Returns
        -------
        parts : list of three numpy.ndarray of int64, shape (m,)
            Documents of the halves of the reference and of the cut samples, as many each.
        rng : numpy.random.Generator
            For what else is drawn of this split.
        """
        rng = stream(self.seed, "floor/parts", number)
        dealt = [*self._dealt(0, 2, rng), *self._dealt(1, 1, rng)]
        m = min(map(len, dealt))
        return [
            self._thinned(body, held, m, rng) for body, held in zip(_BODIES, dealt, strict=True)
        ], rng

    def _dealt(self, body: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Deal a body to n parts, in random order; of documents all parts have as many."""
        order = rng.permutation(self.pair.n_documents[body])
        codes = self._codes[body]
        if codes is None:
            size = len(order) // n
            return [order[part * size : (part + 1) * size] for part in range(n)]
        if self._draws:
            return [order[np.sort(np.unique(codes[order], return_index=True)[1])]]
        n_groups, size = int(codes.max(initial=0)) + 1, self.groups_of_a_part
        part_of = np.full(n_groups, n)
        part_of[rng.permutation(n_groups)[: n * size]] = np.repeat(np.arange(n), size)
        place = part_of[codes[order]]
        return [order[place == part] for part in range(n)]

    def _thinned(
        self, body: int, documents: np.ndarray, m: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Keep m documents of a part in random order; of groups the same share of each."""
        codes = self._codes[body]
        if codes is None or self._draws or len(documents) == m:
            return documents[:m]
        by_group = documents[np.argsort(codes[documents], kind="stable")]
        places = ((np.arange(m) + rng.random()) * (len(documents) / m)).astype(np.int64)
        return rng.permutation(by_group[np.minimum(places, len(documents) - 1)])


class _Histograms:
    """Documents of the three parts by cell, and their distances."""

    def __init__(self, pair: BodyPair, options: MeasurementOptions, seed: int) -> None:
        self._seed = seed
        self._sizes = [body.n_documents for body in pair.bodies]
        self._held: list[tuple[CellComparison, tuple[np.ndarray, ...]]] = []
        grouped = scheme_of(pair.groups) != "documents"
        for cells in cell_comparisons(pair, options):
            places = (cells.place(0), cells.place(1)) if grouped else ()
            self._held.append((cells, places))

    def distances(
        self, parts: list[np.ndarray], number: int, found: dict[MeasureKey, list[float]]
    ) -> dict[MeasureKey, list[float]]:
        """Append the distance between the halves to `found`; return those to the samples."""
        against = {}
        for cells, places in self._held:
            if places:
                counts = [
                    _count(places[body][held], len(cells.counts[body]))
                    for body, held in zip(_BODIES, parts, strict=True)
                ]
            else:
                counts = self._drawn(cells, [len(held) for held in parts], number)
            values = [
                cells.evaluate(counts[first], counts[second])
                for first, second in ((0, 1), (0, 2), (1, 2))
            ]
            for name in filter(is_distance, values[0]):
                key = cells.tendency, name
                found[key].append(float(values[0][name]))
                against[key] = [float(values[1][name]), float(values[2][name])]
        return against

    def _drawn(self, cells: CellComparison, sizes: list[int], number: int) -> list[np.ndarray]:
        """Draw documents that stand alone: without replacement, by cell.

        They are not those whose words are counted, which no measure needs.
        """
        rng = stream(self._seed, f"floor/cells/{cells.tendency}", number)
        left = [
            np.append(counts, n - counts.sum())
            for counts, n in zip(cells.counts, self._sizes, strict=True)
        ]
        found = []
        for body, size in zip(_BODIES, sizes, strict=True):
            drawn = rng.multivariate_hypergeometric(left[body], size)
            left[body] = left[body] - drawn
            found.append(drawn[:-1])
        return found


def _count(places: np.ndarray, n: int) -> np.ndarray:
    """Count documents by cell (n,); those with place -1 are in none."""
    return np.bincount(places + 1, minlength=n + 1)[1:]


def _words(
    pair: BodyPair, splits: Iterable[tuple[list[np.ndarray], np.random.Generator]]
) -> list[np.ndarray]:
    """Count the types of each part of some splits at equal tokens: (V, w) each."""
    assert pair.documents is not None
    held = list(splits)
    sizes = [body.n_documents for body in pair.bodies]
    labels = [np.zeros((sizes[body], len(held)), bool) for body in _BODIES]
    for column, (parts, rng) in enumerate(held):
        lengths = [pair.document_lengths[b][x] for b, x in zip(_BODIES, parts, strict=True)]
        tokens = min(int(own.sum(dtype=np.int64)) for own in lengths)
        for label, part, own in zip(labels, parts, lengths, strict=True):
            label[part[documents_within(own, tokens, rng)], column] = True
    return [
        pair.documents.sums_of(body, label, np.arange(sizes[body]))
        for body, label in zip(_BODIES, labels, strict=True)
    ]


def half_draws(
    pair: BodyPair, splits: int, excess_splits: int, options: MeasurementOptions, seed: int
) -> HalfDraws | None:
    """Compute the distances of random halves of the reference; see the module.

    Parameters
    ----------
    pair : BodyPair
        With documents.
    splits, excess_splits : int
        Splits B, and those whose halves are compared with the samples, E <= B.
    options : MeasurementOptions
        What the measures are restricted to.
    seed : int
        Seed of all draws.

    Returns
    -------
    HalfDraws or None
        None where a part has fewer than two documents, or a half fewer effective groups than a
        verdict needs.
    """
    halving = Halving(pair, seed)
    if not halving.has_enough_groups or len(halving.parts(0)[0][0]) < 2:
        return None
    histograms = _Histograms(pair, options, seed)
    human: dict[MeasureKey, list[float]] = defaultdict(list)
    against: dict[MeasureKey, list[float]] = defaultdict(list)
    for start in range(0, splits, SIDE_BY_SIDE):
        items = range(start, min(start + SIDE_BY_SIDE, splits))
        drawn = [halving.parts(number) for number in items]
        for number, (parts, _) in zip(items, drawn, strict=True):
            for key, both in histograms.distances(parts, number, human).items():
                against[key] += both if number < excess_splits else []
        first, second, cut = _words(pair, drawn)
        for key, values in compared_words(pair, first, second, options).items():
            human[key] += values.tolist()
        known = max(0, excess_splits - start)
        for half in (first, second) if known else ():
            found = compared_words(pair, half[:, :known], cut[:, :known], options)
            for key, values in found.items():
                against[key] += values.tolist()
    return HalfDraws(_arrays(human), _arrays(against))


def _arrays(found: dict[MeasureKey, list[float]]) -> dict[MeasureKey, np.ndarray]:
    return {key: np.array(values) for key, values in found.items()}
