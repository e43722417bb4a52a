"""Human baselines: distances between human texts as large as those that are compared.

Every distance between two samples is above 0, the more the smaller they are. Its floor is its mean
over random splits of human text, with the 2.5% and 97.5% quantiles, at the same numbers of
documents, of tokens (for the measures of words) and of groups, in the same vocabulary. *With
further human text* (`split_floors`) the excess is the distance above it. *Without*
(`reference_floors`), the floor is that of two halves of the reference (`inference.halves`), cut to
as many documents as there are samples, and the excess the mean distance of as many samples from
such halves, less the floor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.exchanged_units import (
    ExchangedUnits,
    exchanged_units,
    scheme_of,
    side_by_side,
)
from beyond_perplexity.inference.halves import (
    BODIES,
    EXCESS_SPLITS,
    HUMAN_SPLITS,
    Floor,
    Halving,
    floor_of,
)
from beyond_perplexity.inference.histogram_draws import documents_within, permute
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasurementOptions, is_distance
from beyond_perplexity.tendencies.document_measures import (
    CellComparison,
    cell_comparisons,
    randomized_documents,
)
from beyond_perplexity.tendencies.pairs import BodyPair, fewer_documents, fewer_tokens
from beyond_perplexity.tendencies.word_measures import compared_words, randomized_words


class HalfDraws(NamedTuple):
    """Distances of B random splits: between the halves (B,), and of E to the cut samples (2 E,)."""

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
                width = len(cells.counts[0]) + 1  # the first are documents in no cell
                counts = [
                    np.bincount(places[body][held] + 1, minlength=width)[1:]
                    for body, held in zip(BODIES, parts, strict=True)
                ]
            else:
                counts = self._drawn(cells, [len(held) for held in parts], number)
            pairs = ((0, 1), (0, 2), (1, 2))
            values = [cells.evaluate(counts[one], counts[other]) for one, other in pairs]
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
    """Compute the distances of random halves of the reference; see `inference.halves`.

    None where a part has fewer than two documents, or a half fewer effective groups than a verdict
    needs.
    """
    halving = Halving(pair.groups, pair.n_documents, seed, pair.document_lengths[0])
    if not halving.is_possible:
        return None
    histograms = _Histograms(pair, options, seed)
    human: dict[MeasureKey, list[float]] = defaultdict(list)
    against: dict[MeasureKey, list[float]] = defaultdict(list)
    for items in side_by_side(splits):
        drawn = [halving.parts(number) for number in items]
        for number, (parts, _) in zip(items, drawn, strict=True):
            for key, both in histograms.distances(parts, number, human).items():
                against[key] += both if number < excess_splits else []
        first, second, cut = _words(pair, drawn)
        for key, values in compared_words(pair, first, second, options).items():
            human[key] += values.tolist()
        known = max(0, excess_splits - items.start)
        for half in (first, second) if known else ():
            found = compared_words(pair, half[:, :known], cut[:, :known], options)
            for key, values in found.items():
                against[key] += values.tolist()
    return HalfDraws(_arrays(human), _arrays(against))


def _arrays(found: dict[MeasureKey, list[float]]) -> dict[MeasureKey, np.ndarray]:
    return {key: np.array(values) for key, values in found.items()}


def split_floors(
    human: BodyPair, tokens: int, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floors of a pair of human texts, with their documents and any groups.

    Words are taken at so many tokens at most. Of distances alone; `Floor.excess` is None.
    """
    return _split(human, human, tokens, options, seed)


def smaller_floors(
    further: BodyPair, n: int, tokens: int, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floors of the reference and n documents, or `tokens` tokens of either.

    Of groups whole ones; see `pairs.fewer_documents`.
    """
    with fewer_documents(further, n, seed) as few:
        return _split(few, further, tokens, options, seed)


def _split(
    by_document: BodyPair, by_word: BodyPair, tokens: int, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    how = replace(options, permutations=HUMAN_SPLITS, bootstrap=0, monte_carlo=0)
    draws = _split_documents(by_document, how, seed)
    with fewer_tokens(by_word, min(tokens, least_tokens(by_word)), seed) as cut:
        if cut.defined:
            draws |= randomized_words(cut, _units(cut, seed), how, seed)
    return _floors(draws)


def _units(human: BodyPair, seed: int) -> ExchangedUnits | None:
    return exchanged_units(human.groups, human.n_documents, seed)


def _split_documents(
    human: BodyPair, how: MeasurementOptions, seed: int
) -> dict[MeasureKey, np.ndarray]:
    """Draw the distances of one number per document under random splits.

    The test of types by length permutes documents of equal length; a floor is of splits of all.
    """
    draws = dict(randomized_documents(human, _units(human, seed), how, seed))
    if scheme_of(human.groups) == "documents":
        for cells in cell_comparisons(human, how):
            if cells.tendency in type_token.HISTOGRAM_OF:
                n, purpose = how.permutations, f"floor/{cells.tendency}"
                drawn = permute(cells.counts, cells.evaluate, n, seed, purpose)
                draws |= {(cells.tendency, name): held for name, held in drawn.items()}
    return draws


def _floors(draws: Mapping[MeasureKey, np.ndarray]) -> dict[MeasureKey, Floor]:
    known = (key for key in draws if is_distance(key[1]))
    return {key: floor_of(draws[key]) for key in known if not np.all(np.isnan(draws[key]))}


def reference_floors(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floor and the excess of every distance of a pair from the reference alone.

    Empty without documents or permutations, and where a half would have fewer than two documents,
    or fewer effective groups than a verdict needs.
    """
    if pair.documents is None or not pair.defined or not options.permutations:
        return {}
    drawn = half_draws(pair, HUMAN_SPLITS, EXCESS_SPLITS, options, seed)
    if drawn is None:
        return {}
    found = {}
    for key, floor in _floors(drawn.human).items():
        if not np.all(np.isnan(drawn.against[key])):
            excess = float(np.nanmean(drawn.against[key])) - floor.mean
            found[key] = floor._replace(excess=excess)
    return found


def least_tokens(pair: BodyPair) -> int:
    """Return the tokens of the smaller body."""
    return min(body.n_tokens for body in pair.bodies)
