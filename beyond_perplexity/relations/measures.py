"""Every measure of every paper, side by side: rank correlations, orders that perplexity misses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.correlations import average_ranks, correlation_matrix
from beyond_perplexity.inference.intervals import finite
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS
from beyond_perplexity.relations import readers
from beyond_perplexity.schemas import relations
from beyond_perplexity.semantics.differences import correlation_of_models
from beyond_perplexity.verdicts import joined_facts

OVER_ROWS, WITHIN_DECODINGS = "rows", "within"
_LEAST_ROWS = 3
_Place = tuple[str, str | None]  # model, decoding
_Values = Mapping[_Place, float]


def _by_measure(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[_Place, float]]:
    """Sort known values by measure, signed so that more is better."""
    found: dict[str, dict[_Place, float]] = {}
    for row in rows:
        if row["value"] is not None:
            held = found.setdefault(row["measure"], {})
            held[row["model"], row["decoding"]] = row["direction"] * row["value"]
    return found


def shared_rows(first: _Values, second: _Values) -> dict[_Place, tuple[float, float]]:
    """Pair the values of two measures: one of the model alone counts under every decoding."""
    both, places = (first, second), dict.fromkeys([*first, *second])
    decoded = any(decoding for _, decoding in places)
    pairs = {}
    for model, decoding in places:
        if decoded and decoding is None and not model.startswith("external/"):
            continue
        one, two = (held.get((model, decoding), held.get((model, None))) for held in both)
        if one is not None and two is not None:
            pairs[model, decoding] = (one, two)
    return pairs


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    if len(pairs) < _LEAST_ROWS:
        return math.nan
    return float(correlation_matrix(average_ranks(np.array(pairs)))[0, 1])


def _within(pairs: Mapping[_Place, tuple[float, float]]) -> float:
    """Return the mean over decodings of the correlation over models."""
    decodings = dict.fromkeys(decoding for _, decoding in pairs)
    found = [_spearman([pair for (_, d), pair in pairs.items() if d == one]) for one in decodings]
    known = [value for value in found if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def correlate_ranks(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Correlate the ranks of all pairs of measures, over all rows and within decodings.

    The rows of a model are not independent, so that an interval counts models and not rows: it is
    that of as many independent items (`few_items_interval`), which is what rows of perfectly
    dependent models would give, and too wide where they depend less. Decodings are taken as given:
    over rows of several, a measure that distinguishes decodings correlates with any other that
    does.
    """
    held = _by_measure(rows)
    found = []
    for first, second in combinations(held, 2):
        pairs = shared_rows(held[first], held[second])
        models = len({model for model, _ in pairs})
        for scope, value in (
            (OVER_ROWS, _spearman([*pairs.values()])),
            (WITHIN_DECODINGS, _within(pairs)),
        ):
            row = correlation_of_models(value, models, ranks=True)
            unknown = len(pairs) >= _LEAST_ROWS and math.isnan(value)
            note = joined_facts(row["note"], "a measure does not vary" if unknown else "")
            row |= {"first": first, "second": second, "scope": scope, "note": note}
            found.append(row | {"rows": len(pairs), "models": models})
    return pa.Table.from_pylist(found, relations.RELATION_CORRELATIONS)


UNSCORED = "is not scored on the text that the others are scored on"
FEW_DOCUMENTS = f"fewer than {EFFECTIVE_GROUPS} effective groups: no error, no probability"


class RelatedFiles(NamedTuple):
    """The files of one corpus; see `readers`."""

    perplexities: Sequence[str] = ()
    tendencies: Sequence[str] = ()
    contrasts: Sequence[str] = ()
    semantics: Sequence[str] = ()


class RelationOptions(NamedTuple):
    """How measures are taken and resampled.

    The split of semantic measures, the level of contrastive entropy and what its ratio divides by,
    the confidence of upper limits of tendencies, the resamples of documents and their seed.
    """

    split: str = "test"
    level: float = 0.3
    base_level: float = 0.1
    confidence: float = 0.95
    resamples: int = 1_999
    seed: int = 1


@dataclass(frozen=True, eq=False)
class RelatedMeasures:
    """All measures (schema ``relation_measures``).

    By the key of those that were resampled: their sums over documents, and the values of the models
    in the resamples, (R, M).
    """

    rows: list[dict[str, Any]]
    sums: dict[str, readers.DocumentSums]
    draws: dict[str, np.ndarray]

    def table(self) -> pa.Table:
        """Return the rows as a table of schema ``relation_measures``."""
        return pa.Table.from_pylist(self.rows, relations.RELATION_MEASURES)


def _document_rows(held: readers.DocumentSums, draws: np.ndarray) -> Iterator[dict[str, Any]]:
    few = held.effective < EFFECTIVE_GROUPS
    for model, number, drawn in zip(held.models, held.whole(), draws.T, strict=True):
        value = float(number)
        known = math.isfinite(value) and not few
        error = float(np.std(drawn, ddof=1)) if known and len(drawn) > 1 else None
        given = None if math.isnan(value) else value
        note = FEW_DOCUMENTS if few else ""
        names = held.subject, held.measure, held.title
        yield readers.measure_row(model, None, *names, given, error, 1 if held.higher else -1, note)


def gather_measures(files: RelatedFiles, options: RelationOptions) -> RelatedMeasures:
    """Read the measures of all papers and resample the documents of those that are sums over them.

    Perplexity, contrastive and semantic measures belong to a model; tendencies to its text under a
    decoding.
    """
    perplexity, others = readers.perplexity_sums(files.perplexities)
    held = [
        *([perplexity] if perplexity else []),
        *readers.contrast_sums(files.contrasts, options.level, options.base_level),
        *readers.semantic_sums(files.semantics, options.split),
    ]
    draws = readers.resampled_values(held, options.resamples, options.seed)
    rows = [row for one in held for row in _document_rows(one, draws[one.measure])]
    names, note = (readers.PERPLEXITY, readers.PERPLEXITY, "Bits per byte"), UNSCORED
    rows += [readers.measure_row(model, None, *names, None, None, -1, note) for model in others]
    rows += readers.tendency_rows(files.tendencies, options.confidence)
    return RelatedMeasures(rows, {one.measure: one for one in held}, draws)


_Row = dict[str, Any]


def _agreeing(drawn: np.ndarray, value: float) -> np.ndarray:
    """Tell in which resamples (R,) a difference has the sign of the value; a tie counts half."""
    return np.where(drawn == 0, 0.5, np.sign(drawn) == np.sign(value))


class _Ordered(NamedTuple):
    """Models in the order of a measure, under a decoding or none."""

    measure: str
    decoding: str | None
    known: Mapping[str, float]  # of more is better
    few: bool  # too few groups for a probability
    draws: Mapping[str, np.ndarray] | None = None  # (R,) by model; None: of texts, with errors
    errors: Mapping[str, float | None] = MappingProxyType({})


def _orders(found: RelatedMeasures) -> Iterator[_Ordered]:
    """List what has an order of models beside that of perplexity."""
    few = found.sums[readers.PERPLEXITY].effective < EFFECTIVE_GROUPS
    for measure, held in found.sums.items():
        if measure != readers.PERPLEXITY:
            sign = 1 if held.higher else -1
            known = {model: sign * value for model, value in held.known().items()}
            draws = dict(zip(held.models, sign * found.draws[measure].T, strict=True))
            few_own = few or held.effective < EFFECTIVE_GROUPS
            yield _Ordered(measure, None, known, few_own, draws)
    texts: dict[tuple[str, str | None], dict[str, _Row]] = {}
    for row in found.rows:
        if row["measure"] not in found.sums and row["value"] is not None:
            texts.setdefault((row["measure"], row["decoding"]), {})[row["model"]] = row
    for names, rows in texts.items():
        known = {model: row["direction"] * row["value"] for model, row in rows.items()}
        errors = {model: row["error"] for model, row in rows.items()}
        yield _Ordered(*names, known, few, errors=errors)


def _compare_order(found: RelatedMeasures, of: _Ordered) -> Iterator[_Row]:
    """Compare the order of each pair of models with a finite perplexity, in its order."""
    own, drawn = found.sums[readers.PERPLEXITY], found.draws[readers.PERPLEXITY]
    values, place = own.known(), own.models.index
    shared = sorted((model for model in of.known if model in values), key=values.__getitem__)
    for first, second in combinations(shared, 2):
        gap, value = values[second] - values[first], of.known[second] - of.known[first]
        right = _agreeing(drawn[:, place(second)] - drawn[:, place(first)], gap)  # (R,)
        if of.draws is None:
            sure = _normal_chance(value, of.errors[first], of.errors[second])
            both = right.mean() * sure
        else:
            agreeing = _agreeing(of.draws[second] - of.draws[first], value)  # (R,)
            sure, both = float(agreeing.mean()), (right * agreeing).mean()
        unknown = "the measure has no standard error" if math.isnan(sure) else ""
        chances = {"probability_perplexity": right.mean()}
        chances |= {"probability": sure, "probability_both": both}
        row: _Row = {"measure": of.measure, "decoding": of.decoding, "first": first}
        row["second"] = second
        row |= {"perplexity_difference": gap, "difference": value, "differs": value > 0}
        row |= {name: None if of.few else finite(chance) for name, chance in chances.items()}
        note = FEW_DOCUMENTS if of.few else unknown
        yield row | {"resampled": of.draws is not None, "note": note}


def _normal_chance(value: float, first: float | None, second: float | None) -> float:
    """Return the probability of the sign of a difference with two standard errors; NaN: unknown."""
    spread = 0.0 if first is None or second is None else math.hypot(first, second)
    return 0.5 * math.erfc(-abs(value) / spread / math.sqrt(2)) if spread else math.nan


def compare_orders(found: RelatedMeasures) -> pa.Table:
    """Compare the order of every pair of models by perplexity with that by every other measure.

    Schema ``relation_orders``; no row where there is no perplexity. The probability that an order
    is real is the share of resamples of the test documents that have it, of perplexity and a
    measure of the same documents jointly; of generated texts, which are other documents, that of a
    normal difference with the standard errors of both texts, taken for independent. None is
    adjusted for the number of pairs.
    """
    rows: list[_Row] = []
    if readers.PERPLEXITY in found.sums:
        rows = [row for of in _orders(found) for row in _compare_order(found, of)]
    return pa.Table.from_pylist(rows, relations.RELATION_ORDERS)
