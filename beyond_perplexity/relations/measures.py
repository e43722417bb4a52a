"""Every measure of every paper, side by side: rank correlations, orders that perplexity misses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.correlations import average_ranks, correlation_matrix
from beyond_perplexity.inference.intervals import finite
from beyond_perplexity.inference.p_values import holm, student_tail
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

    Rows of a model are not independent, nor are siblings (models of one family), so that an
    interval is that of as many independent items as families (`few_items_interval`): too wide where
    rows depend less. Decodings are taken as given: over rows of several, a measure that
    distinguishes decodings correlates with any other that does.
    """
    held, found = _by_measure(rows), []
    family_of = {row["model"]: row["model_family"] for row in rows}
    for first, second in combinations(held, 2):
        pairs = shared_rows(held[first], held[second])
        models = {model for model, _ in pairs}
        families = len({family_of[model] for model in models})
        for scope, value in (
            (OVER_ROWS, _spearman([*pairs.values()])),
            (WITHIN_DECODINGS, _within(pairs)),
        ):
            row = correlation_of_models(value, families, ranks=True)
            unknown = len(pairs) >= _LEAST_ROWS and math.isnan(value)
            note = joined_facts(row["note"], "a measure does not vary" if unknown else "")
            row |= {"first": first, "second": second, "scope": scope, "note": note}
            counts = {"rows": len(pairs), "models": len(models), "families": families}
            found.append(row | counts)
    return pa.Table.from_pylist(found, relations.RELATION_CORRELATIONS)


UNSCORED = "is not scored on the text that the others are scored on"
FEW_DOCUMENTS = f"fewer than {EFFECTIVE_GROUPS} effective groups: no error, no test"


class RelatedFiles(NamedTuple):
    """The files of one corpus; see `readers`."""

    perplexities: Sequence[str] = ()
    tendencies: Sequence[str] = ()
    contrasts: Sequence[str] = ()
    semantics: Sequence[str] = ()


class RelationOptions(NamedTuple):
    """How measures are taken and resampled: the split of semantic ones, the level of contrastive
    entropy, the confidence of tendencies' upper limits, resamples of documents, their seed."""

    split: str = "test"
    level: float = 0.3
    confidence: float = 0.95
    resamples: int = 1_999
    seed: int = 1


@dataclass(frozen=True, eq=False)
class RelatedMeasures:
    """All measures (schema ``relation_measures``), and by key of those that were resampled their
    sums over documents and the values of models in resamples, (R, M)."""

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


def gather_measures(
    files: RelatedFiles, options: RelationOptions, families: Mapping[str, str] | None = None
) -> RelatedMeasures:
    """Read the measures of all papers, of models or of their text under a decoding, and resample
    documents where they are sums over them; `families` are of models that may have siblings."""
    perplexity, others = readers.perplexity_sums(files.perplexities)
    held = [
        *([perplexity] if perplexity else []),
        *readers.contrast_sums(files.contrasts, options.level),
        *readers.semantic_sums(files.semantics, options.split),
    ]
    draws = readers.resampled_values(held, options.resamples, options.seed)
    rows = [row for one in held for row in _document_rows(one, draws[one.measure])]
    names, note = (readers.PERPLEXITY, readers.PERPLEXITY, "Bits per byte"), UNSCORED
    rows += [readers.measure_row(model, None, *names, None, None, -1, note) for model in others]
    rows += readers.tendency_rows(files.tendencies, options.confidence)
    known = families or {}
    rows = [row | {"model_family": known.get(row["model"], row["model"])} for row in rows]
    return RelatedMeasures(rows, {one.measure: one for one in held}, draws)


_Row = dict[str, Any]


class _Ordered(NamedTuple):
    """Models in the order of a measure, under a decoding or none."""

    measure: str
    decoding: str | None
    known: Mapping[str, float]  # of more is better
    effective: float  # groups of documents; of texts, whose errors are normal, infinite
    draws: Mapping[str, np.ndarray]  # (R,) by model; none of texts, which have errors
    errors: Mapping[str, float | None]

    def error(self, first: str, second: str) -> float:
        """Return the standard error of a difference; of independent texts. NaN: not known."""
        if self.draws:
            return float(np.std(self.draws[second] - self.draws[first], ddof=1))
        errors = [self.errors[first], self.errors[second]]
        return math.hypot(*(math.nan if error is None else error for error in errors))


def _of_documents(found: RelatedMeasures, measure: str) -> _Ordered:
    held = found.sums[measure]
    sign = 1 if held.higher else -1
    known = {model: sign * value for model, value in held.known().items()}
    draws = dict(zip(held.models, sign * found.draws[measure].T, strict=True))
    return _Ordered(measure, None, known, held.effective, draws, {})


def _orders(found: RelatedMeasures) -> Iterator[_Ordered]:
    """List what has an order of models beside that of perplexity."""
    for measure in found.sums:
        if measure != readers.PERPLEXITY:
            yield _of_documents(found, measure)
    texts: dict[tuple[str, str | None], dict[str, _Row]] = {}
    for row in found.rows:
        if row["measure"] not in found.sums and row["value"] is not None:
            texts.setdefault((row["measure"], row["decoding"]), {})[row["model"]] = row
    for names, rows in texts.items():
        known = {model: row["direction"] * row["value"] for model, row in rows.items()}
        errors = {model: row["error"] for model, row in rows.items()}
        yield _Ordered(*names, known, math.inf, {}, errors)


def _p_value(value: float, error: float, effective: float) -> float:
    """Return the two-sided p-value of a difference; NaN without a standard error."""
    if error == 0:
        return float(value == 0)
    return float(2 * student_tail(np.array(abs(value) / error), np.array(effective - 1)))


def _compare_order(own: _Ordered, of: _Ordered) -> Iterator[_Row]:
    """Compare the order of each pair of models with a finite perplexity, in its order."""
    few = min(own.effective, of.effective) < EFFECTIVE_GROUPS
    shared = sorted((m for m in of.known if m in own.known), key=lambda model: -own.known[model])
    for first, second in combinations(shared, 2):
        found = [held.known[second] - held.known[first] for held in (own, of)]
        both = list(zip((own, of), found, strict=True))
        p_values = [_p_value(x, held.error(first, second), held.effective) for held, x in both]
        p_value = float(np.max(p_values))  # NaN where one is
        share = math.nan
        if of.draws:
            drawn = ((held.draws[second] - held.draws[first], x) for held, x in both)
            # in which resamples a difference has the sign of the value; a tie counts half
            seen = (np.where(d == 0, 0.5, np.sign(d) == np.sign(x)) for d, x in drawn)
            share = float(np.mean(math.prod(seen)))
        differs = found[1] > 0
        unknown = math.isnan(p_value)
        note = "the measure has no standard error" if unknown else ""
        yield {
            "measure": of.measure,
            "decoding": of.decoding,
            "first": first,
            "second": second,
            "perplexity_difference": -found[0],
            "difference": found[1],
            "differs": differs,
            "share": None if few else finite(share),
            "p_value": None if few else finite(p_value if differs or unknown else 1.0),
            "note": FEW_DOCUMENTS if few else note,
        }


def compare_orders(found: RelatedMeasures) -> pa.Table:
    """Compare the order of every pair of models by perplexity with that by every other measure.

    Schema ``relation_orders``; no row where there is no perplexity. That the orders differ is
    tested by the larger of the two-sided p-values of both differences, which holds its level
    however they depend on each other (of independent ones: Gail and Simon 1985), and is 1 where
    they are seen to agree; it is adjusted for all rows by Holm's method. Standard errors are of
    resamples of the test documents, of generated texts, which are other documents, those of both
    texts, taken for independent.

    References
    ----------
    Gail and Simon (1985). Testing for qualitative interactions between treatment effects and
    patient subsets. Biometrics 41.
    """
    rows: list[_Row] = []
    if readers.PERPLEXITY in found.sums:
        own = _of_documents(found, readers.PERPLEXITY)
        rows = [row for of in _orders(found) for row in _compare_order(own, of)]
    tested = [row for row in rows if row["p_value"] is not None]
    for row, p_value in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_adjusted"] = float(p_value)
    return pa.Table.from_pylist(rows, relations.RELATION_ORDERS)
