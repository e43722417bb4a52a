"""What the scores of a model come to: values, their baselines, excesses and intervals.

Intervals are over documents, or pages where a split keeps these whole: they are of other texts of
the same kind, not of another training of the model. G groups. The baseline is what the same
predictions get against unrelated sentences of like length; the excess has an interval of its own,
as both are of the same documents.

*A proper score.* What samples, or argmax words, are expected to score is most for a model that
always says the word that scores most, however unsure it should be. For measures that add up inner
products of the words of each position (accuracy, aligned cosines), E k(X, y) − ½ E k(X, X') of
samples X, X' is proper: no model does better in expectation than the true distribution of the next
word. Of accuracy it is Brier's score, turned to higher is better and moved. It is kind ``proper``,
of two samples or more. Gneiting & Raftery (2007), Strictly proper scoring rules, prediction, and
estimation, section 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import RatioInterval, finite, jackknife_interval
from beyond_perplexity.schemas.semantics import (
    CONTINUED,
    PARTNER_OF,
    PREDICTED,
    PREDICTIONS,
    PROPER,
    SAMPLED,
    SEMANTIC_SCORES,
    SEMANTICS,
    SPREAD,
)
from beyond_perplexity.semantics.bleu import bleu_intervals
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES
from beyond_perplexity.semantics.word_cosines import Floats, exponential_scaling
from beyond_perplexity.storage.shards import check_schema, read_batches
from beyond_perplexity.verdicts import joined_facts

_COLUMNS = ("split", "unit_id", "group", "measure", "kind", "value", "statistics")


class Fraction(NamedTuple):
    """A ratio of two sums over groups, each (G,)."""

    numerators: Floats
    denominators: Floats

    def value(self) -> float:
        """Return the ratio; NaN of nothing."""
        size = float(self.denominators.sum())
        return float(self.numerators.sum()) / size if size else math.nan

    def without(self) -> Floats:
        """Return the ratio without each group, (G,); NaN where nothing is left."""
        total, size = self.numerators.sum(), self.denominators.sum()
        rest = size - self.denominators
        with np.errstate(invalid="ignore"):  # of infinite sums
            left = total - self.numerators
        return np.divide(left, rest, out=np.full(len(rest), np.nan), where=rest > 0)


class KindSums(NamedTuple):
    """Scores of one kind, by group."""

    pooled: Fraction  # of sentences, by words where the measure is weighted so
    statistics: NDArray[np.int64]  # int64, (G, C): of BLEU
    defined: int  # sentences with a value, and without one
    undefined: int
    mean: float  # of the values, and of these put through equation 12
    scaled: float


def names_of(paths: Sequence[str | Path]) -> dict[str, tuple[list[str], list[str | Path]]]:
    """List measures and files by evaluator, in the order of the files."""
    found: dict[str, tuple[set[str], list[str | Path]]] = {}
    for path in paths:
        with check_schema(path, SEMANTIC_SCORES) as file:
            frame = file.read(columns=["evaluator", "measure"]).to_pandas()
        for evaluator, rows in frame.groupby("evaluator", sort=False)["measure"]:
            measures, files = found.setdefault(evaluator, (set(), []))
            measures.update(rows)
            files.append(path)
    if not found:
        raise InputError(f"{paths[0] if paths else 'scores'}: there are no scores; score some")
    unknown = sorted({name for measures, _ in found.values() for name in measures} - {*MEASURES})
    if unknown:
        raise InputError(f"{paths[0]}: measure '{unknown[0]}' is unknown; score again")
    return {n: ([m for m in MEASURES if m in own], files) for n, (own, files) in found.items()}


def sum_groups_of(paths: Sequence[str | Path], measure: str) -> dict[str, dict[str, KindSums]]:
    """Add up the scores of one model, evaluator and measure in shards, in order, by split and kind;
    the groups of a split, as they appear, are the same in all its kinds."""
    batches = read_batches(paths, SEMANTIC_SCORES, _COLUMNS)
    held = (batch.filter(pc.equal(batch["measure"], measure)) for batch in batches)
    table = pa.Table.from_batches(held, pa.schema([SEMANTIC_SCORES.field(n) for n in _COLUMNS]))
    statistics = np.zeros((len(table), 0), np.int64)
    if MEASURES[measure].pooling != "sentences" and len(table):
        statistics = np.array(pc.list_flatten(table["statistics"])).reshape(len(table), -1)
    frame = table.select(["split", "kind", "unit_id", "value"]).to_pandas()
    groups = table["group"].to_pandas().astype(object)
    frame["owner"] = groups.where(groups.notna(), frame["unit_id"])  # of no group: one by itself
    found: dict[str, dict[str, KindSums]] = {}
    for split, rows in frame.groupby("split", sort=False):
        codes, owners = pd.factorize(rows["owner"])
        own = rows.assign(owner=codes).groupby("kind", sort=False)
        scalable, count = MEASURES[measure].scalable, len(owners)
        found[split] = {k: _add_up(r, statistics[r.index], count, scalable) for k, r in own}
    return found


def _add_up(
    rows: pd.DataFrame, statistics: NDArray[np.int64], count: int, scalable: bool
) -> KindSums:
    """Add sentences, one by one in their order, to their groups."""
    groups, values = rows["owner"].to_numpy(), rows["value"].to_numpy()
    known = ~np.isnan(values)
    groups, values, statistics = groups[known], values[known], statistics[known]
    ones = np.ones(len(values))
    scaled = exponential_scaling(values) if scalable else np.nan * ones
    weights = statistics[:, 0] if statistics.shape[1] == 1 else ones
    columns = [weights * values, weights, values, scaled, *statistics.T]
    sums: list[Any] = [np.bincount(groups, column, count) for column in columns]
    counted = np.array(sums[4:]).T.astype(np.int64)
    defined = len(values)
    means = (float(column.sum()) / max(1, defined) for column in sums[2:4])
    return KindSums(Fraction(*sums[:2]), counted, defined, len(known) - defined, *means)


_Row = dict[str, Any]


class BaselineIntervals(NamedTuple):
    """A value, its baseline and its excess over that, None where there is no baseline."""

    value: RatioInterval
    baseline: RatioInterval | None
    excess: RatioInterval | None


def unknown_shares(paths: Sequence[str | Path]) -> dict[str, tuple[float, float]]:
    """Return by split which shares of the words of targets and of predictions are unknown."""
    names = ("words", "unknown_target", "unknown_predicted")
    schema = pa.schema([PREDICTIONS.field(name) for name in ("split", *names)])
    table = pa.Table.from_batches(read_batches(paths, PREDICTIONS, schema.names), schema)
    sums = table.group_by("split").aggregate([(name, "sum") for name in names]).to_pylist()
    shares = [[row[f"{name}_sum"] / row["words_sum"] for name in names[1:]] for row in sums]
    return {row["split"]: (own[0], own[1]) for row, own in zip(sums, shares, strict=True)}


def _proper(kinds: Mapping[str, KindSums], name: str) -> Fraction:
    """Return what samples score, of kind `name`, less half of what they score among themselves."""
    told, spread = kinds[name].pooled, kinds[SPREAD].pooled
    # a partner may lack where the target has none to lack: then each has its own mean
    if np.array_equal(told.denominators, spread.denominators):
        return Fraction(told.numerators - spread.numerators / 2, told.denominators)
    scale = told.denominators.sum() / spread.denominators.sum()
    return Fraction(told.numerators - scale * spread.numerators / 2, told.denominators)


def _interval(value: float, without: Floats, sizes: Floats) -> RatioInterval:
    """Give a value an interval; groups without a sentence of it are left out."""
    used = sizes > 0
    return jackknife_interval(value, without[used], sizes[used])


def fraction_intervals(own: Fraction, baseline: Fraction | None) -> BaselineIntervals:
    """Give a ratio, its baseline and their difference their intervals, all of the same groups."""
    first = _interval(own.value(), own.without(), own.denominators)
    if baseline is None or not baseline.denominators.any():
        return BaselineIntervals(first, None, None)
    second = _interval(baseline.value(), baseline.without(), baseline.denominators)
    sizes = own.denominators + baseline.denominators
    excess = _interval(own.value() - baseline.value(), own.without() - baseline.without(), sizes)
    return BaselineIntervals(first, second, excess)


def _find(
    kinds: Mapping[str, KindSums], kind: str, name: str, resamples: int, seed: int
) -> BaselineIntervals:
    source = SAMPLED if kind == PROPER else kind
    other = PARTNER_OF[source]
    if name in BLEU_NAMES:
        baseline = kinds[other].statistics if other in kinds else None
        own = kinds[kind].statistics
        return BaselineIntervals(*bleu_intervals(own, baseline, BLEU_NAMES[name], resamples, seed))
    known = [one for one in (source, other) if one in kinds]
    parts = [_proper(kinds, k) if kind == PROPER else kinds[k].pooled for k in known]
    return fraction_intervals(parts[0], parts[1] if len(parts) > 1 else None)


def _limits(found: RatioInterval | None, prefix: str, bounds: tuple[float, float]) -> _Row:
    """Write a value and its limits, which no further than the range go; not known is null."""
    names = tuple(f"{prefix}_{end}".removeprefix("value_") for end in ("low", "high"))
    if found is None or not math.isfinite(found.value):
        return dict.fromkeys((prefix, *names))
    limits = [
        min(max(limit, bounds[0]), bounds[1]) if math.isfinite(limit) else None
        for limit in (found.low, found.high)
    ]
    return {prefix: found.value, **dict(zip(names, limits, strict=True))}


def _note(sums: KindSums, found: BaselineIntervals, name: str) -> str:
    measure = MEASURES[name]
    if not sums.defined:
        why = "tokens of the model are no words" if measure.aligned else "no target has a vector"
        return f"not defined: {why}"
    missing: list[str] = []
    if name in BLEU_NAMES:
        matches = sums.statistics.sum(axis=0)[2 : 2 + BLEU_NAMES[name]].tolist()
        missing = [str(order) for order, count in enumerate(matches, 1) if not count]
    unseen = f"no match of {', '.join(missing)} words: smoothed, no interval" if missing else ""
    known = math.isfinite(found.value.value)
    return joined_facts(
        "" if known else "the model finds a sentence impossible: no value",
        found.value.few_groups(),
        f"{sums.undefined:,} sentences have no value" if sums.undefined else "",
        "no unrelated sentences: no baseline"
        if measure.baseline and found.baseline is None
        else "",
        unseen,
    )


def _row(kinds: Mapping[str, KindSums], kind: str, name: str, resamples: int, seed: int) -> _Row:
    measure = MEASURES[name]
    sums = kinds[SAMPLED if kind == PROPER else kind]
    found = _find(kinds, kind, name, resamples, seed)
    width = measure.high - measure.low
    # what is proper is a difference itself
    bounds = (-width, measure.high) if kind == PROPER else (measure.low, measure.high)
    plain = kind != PROPER and sums.defined > 0
    row: _Row = {"measure": name, "kind": kind, "note": _note(sums, found, name)}
    row |= _limits(found.value, "value", bounds) | _limits(found.baseline, "baseline", bounds)
    row |= _limits(found.excess, "excess", (-width, width))
    means = {"sentence_mean": sums.mean, "scaled": sums.scaled}
    row |= {key: finite(value) if plain else None for key, value in means.items()}
    row |= {"sentences": sums.defined, "undefined": sums.undefined}
    return row | {"groups": found.value.groups, "groups_effective": found.value.effective}


def summarize_scores(
    scores: Sequence[str | Path],
    predictions: Sequence[str | Path],
    model: str,
    resamples: int,
    seed: int,
) -> pa.Table:
    """Measure a model from all shards of its evaluators, schema ``semantics``, a row a split,
    evaluator, measure and kind; `predictions` give shares of unknown words."""
    unknown, rows = unknown_shares(predictions), []
    for evaluator, (measures, files) in names_of(scores).items():
        for name in measures:
            for split, kinds in sum_groups_of(files, name).items():
                target, predicted = unknown.get(split, (None, None))
                given: _Row = {"model": model, "split": split, "evaluator": evaluator}
                given |= {"unknown_target": target, "unknown_predicted": predicted}
                told = [kind for kind in (PREDICTED, SAMPLED, CONTINUED) if kind in kinds]
                if MEASURES[name].by_place and {SAMPLED, SPREAD} <= kinds.keys():
                    told.append(PROPER)
                rows += [given | _row(kinds, kind, name, resamples, seed) for kind in told]
    return pa.Table.from_pylist(rows, SEMANTICS)
