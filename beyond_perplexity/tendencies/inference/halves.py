"""Distances between random halves of a human text, and between such halves and cut samples.

This is the floor without further human text; see `inference.halves` for the splits. Words are taken
at the tokens of the smallest of the three parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.document_draws import documents_within
from beyond_perplexity.inference.exchanged_units import SIDE_BY_SIDE, scheme_of
from beyond_perplexity.inference.halves import BODIES, Halving
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import MeasureKey, is_distance
from beyond_perplexity.tendencies.document_measures import CellComparison, cell_comparisons
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.word_measures import compared_words


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
                    for body, held in zip(BODIES, parts, strict=True)
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
        for body, size in zip(BODIES, sizes, strict=True):
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
    labels = [np.zeros((sizes[body], len(held)), bool) for body in BODIES]
    for column, (parts, rng) in enumerate(held):
        lengths = [pair.document_lengths[b][x] for b, x in zip(BODIES, parts, strict=True)]
        tokens = min(int(own.sum(dtype=np.int64)) for own in lengths)
        for label, part, own in zip(labels, parts, lengths, strict=True):
            label[part[documents_within(own, tokens, rng)], column] = True
    return [
        pair.documents.sums_of(body, label, np.arange(sizes[body]))
        for body, label in zip(BODIES, labels, strict=True)
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
