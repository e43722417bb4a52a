"""Contrastive entropy, its ratio, and pairwise accuracy, from the scores of shards.

H_C(d) = (1/N) Σ_units mean_draws [score(T) − score(T̂_d)], N words or sentences of the undistorted
text; H_CR(d_b, d) = H_C(d) / H_C(d_b). All in nats; scores need not be normalized. Source: Arora
and Rangarajan (2016), equations 6 to 8. The accuracy at d is the share of the sentences that came
out otherwise than they were whose score is higher as they were, equal scores counting half: it has
no scale, and 0.5 is chance. U units, G groups of them, L levels, D draws, P parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.corpus.distortions import EVENT_PARTS
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import intervals
from beyond_perplexity.inference.limits import share_interval
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS
from beyond_perplexity.schemas.contrastive import (
    CONTRAST_SCORES,
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_PART,
    CONTRASTIVE_RATIO,
    CONTRASTS,
    PAIRWISE_ACCURACY,
    SENTENCE_CROSS_ENTROPY,
)
from beyond_perplexity.signature import changed, refuse_mixed, signature_in
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.storage.shards import check_schema
from beyond_perplexity.verdicts import joined_facts

MEASURED_UNITS = ("word", "sentence")
_EVENTS = ("substituted", "transposed", "deleted", "inserted")
_OWN = ("words", "sentences", "one_word", "unknown")
_PAIRS = ("pairs", "preferred", "undecided")


@dataclass
class LevelSums:
    """Sums of one level, over U units and D draws."""

    units: np.ndarray  # float64, (U,): sum over draws of score(T) − score(T̂), nats
    draws: np.ndarray  # float64, (D,): the same of each draw, summed over units
    # int64, (4,): substituted, transposed, deleted and inserted words of all draws
    events: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    impossible: int = 0  # distorted units that the model finds impossible
    # float64, (2, U) and (2, D): pairs, and those won with half of the undecided ones, over draws
    # and over units
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))
    draw_pairs: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))
    undecided: int = 0
    # float64, (P, U): sum over draws of the losses by part; int64, (P,): words that they hit
    parts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    part_events: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


class ContrastSums(NamedTuple):
    """What the shards of a model sum up to."""

    unit_ids: np.ndarray  # int64, (U,): number of each unit
    groups: np.ndarray  # int64, (U,): key of what it belongs to
    scores: np.ndarray  # float64, (U,): log score of the text itself
    # int64, (U,): of the text itself: ``words``, ``sentences``, ``one_word``, ``unknown``
    counts: dict[str, np.ndarray]
    levels: dict[float, LevelSums]
    # whether sentences are scored by themselves, and scores have no likelihood
    sentence_level: bool
    signatures: Mapping[str, str | None] = MappingProxyType({})  # of the shards

    def size(self, unit: str) -> np.ndarray:
        """Return what a unit of measure counts in each unit, float64, (U,)."""
        return self.counts[f"{unit}s"].astype(float)

    def keeps_length(self) -> bool:
        """Tell whether no word was deleted or inserted."""
        return not any(held.events[2:].any() for held in self.levels.values())

    def measured_units(self) -> tuple[str, ...]:
        """Return what measures are divided by: where sentences change their length, sentences."""
        return MEASURED_UNITS if self.keeps_length() else MEASURED_UNITS[1:]

    def signature(self, **parts: object) -> str:
        """Sign what is made of the shards, whose choices it has too."""
        levels = {level: len(one.draws) for level, one in self.levels.items() if level}
        line = next(filter(None, self.signatures.values()), "contrast")
        draws = list(dict.fromkeys(levels.values()))
        return changed(line, levels=list(levels), draws=draws, **parts)

    def paired_levels(self) -> list[float]:
        """List the levels at which sentences came out otherwise than they were."""
        return [level for level, held in self.levels.items() if held.pairs[0].any()]

    def mean(self, level: float) -> np.ndarray:
        """Return score(T) − score(T̂) of each unit, mean over draws, nats, (U,)."""
        held = self.levels[level]
        return held.units / len(held.draws)


def read_sums(paths: Sequence[str]) -> ContrastSums:
    """Add up the shards of a model, schema ``contrast_scores``, however they are cut: numbers are
    added in the order of units, and of each unit in that of its draws."""
    names, tables, signatures = CONTRAST_SCORES.names, [], {}
    for path in paths:
        with check_schema(path, CONTRAST_SCORES) as file:
            tables.append(file.read(columns=names))
            signatures[str(path)] = signature_in(path, file.metadata.metadata)
    refuse_mixed(signatures)
    rows = pa.concat_tables(tables) if tables else CONTRAST_SCORES.empty_table()
    if not len(rows):
        raise InputError(f"{paths[0] if paths else 'scores'}: there are no scores; score a text")
    wanted = ("unit_id", "level", "draw", "log_score", *_OWN, *_EVENTS, *_PAIRS)
    held = {name: rows[name].to_numpy() for name in wanted}
    begins = np.cumsum([0, *map(len, tables)])
    own = np.flatnonzero(held["level"] == 0)
    units_of = _rows_of_units(held["unit_id"], own, paths, begins)
    scores = held["log_score"][own]
    levels = {
        level: _level_sums(
            held, np.flatnonzero(held["level"] == level), units_of, scores, paths[-1]
        )
        for level in np.unique(held["level"]).tolist()
    }
    for level, one in levels.items():
        chosen = np.flatnonzero(held["level"] == level)
        split, hit = (rows[name].take(pa.array(chosen)) for name in ("parts", "part_events"))
        if not split.null_count:
            losses = np.asarray(split.combine_chunks().flatten()).reshape(len(chosen), -1)
            of_rows = units_of[chosen]
            one.parts = np.stack([np.bincount(of_rows, x, len(own)) for x in losses.T])
            one.part_events = np.reshape(hit.combine_chunks().flatten(), losses.shape).sum(0)
    unit_ids = held["unit_id"][own]
    owners = rows["group"].take(pa.array(own)).to_pylist()
    groups = [group_key(*pair) for pair in zip(owners, unit_ids.tolist(), strict=True)]
    counts = {name: held[name][own].astype(np.int64) for name in _OWN}
    sentence_level = bool(rows["sentence_level"][0].as_py())
    keys = np.array(groups)
    return ContrastSums(unit_ids, keys, scores, counts, levels, sentence_level, signatures)


def _rows_of_units(
    units: np.ndarray, own: np.ndarray, paths: Sequence[str], begins: np.ndarray
) -> np.ndarray:
    """Find the unit of each row, (R,), among the rows of the texts themselves, `own`; `begins` has
    the first row of each file."""

    def file_of(row: int) -> str:
        return paths[int(np.searchsorted(begins, row, side="right")) - 1]

    order = np.argsort(units[own], kind="stable")
    known = units[own][order]
    twice = own[order[1:][np.diff(known) == 0]]
    if len(twice):
        row = twice.min()
        wrong = f"doc_id {units[row]} is given twice"
        raise InputError(f"{file_of(row)}: {wrong}; give each shard once")
    alone = np.flatnonzero(~np.isin(units, known))
    if len(alone):
        wrong = f"the score of doc_id {units[alone[0]]} without distortion is in no file"
        raise InputError(f"{file_of(alone[0])}: {wrong}; give all shards of the model")
    return order[np.searchsorted(known, units)]


def _level_sums(
    held: Mapping[str, np.ndarray],
    rows: np.ndarray,
    units_of: np.ndarray,
    scores: np.ndarray,
    path: str,
) -> LevelSums:
    distorted, draws, units = held["log_score"][rows], held["draw"][rows], units_of[rows]
    short = np.flatnonzero(np.bincount(draws) != len(scores))
    if len(short):
        found = f"{np.count_nonzero(draws == short[0]):,} of {len(scores):,} documents"
        what = f"draw {short[0]} of level {held['level'][rows[0]]:g}"
        raise InputError(f"{path}: {what} was scored for {found}; give all shards of the model")
    with np.errstate(invalid="ignore"):  # of infinities, which are counted
        lost = scores[units] - distorted
    pairs, preferred, undecided = (held[name][rows] for name in _PAIRS)
    both = pairs, preferred + undecided / 2
    return LevelSums(
        np.bincount(units, lost, len(scores)),
        np.bincount(draws, lost),
        np.array([held[name][rows].sum() for name in _EVENTS], np.int64),
        int(np.isneginf(distorted).sum()),
        np.stack([np.bincount(units, column, len(scores)) for column in both]),
        np.stack([np.bincount(draws, column) for column in both]),
        int(undecided.sum()),
    )


# ---- measures ----


_Row = dict[str, Any]


def entropy_of(lost: np.ndarray, sizes: np.ndarray) -> intervals.RatioInterval:
    """Measure H_C from what scores lose in each group, nats, (G,), and their sizes, (G,)."""
    if not np.isfinite(lost).all():
        return intervals.jackknife_interval(math.nan, np.full(len(lost), math.nan), sizes)
    return intervals.ratio_interval(lost, sizes)


def ratios(lost: np.ndarray, base: np.ndarray) -> tuple[float, np.ndarray]:
    """Return H_CR, and the same without each group, from the losses at a level and at the base."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of a model that loses nothing
        whole = float(np.divide(lost.sum(), base.sum()))
        return whole, (lost.sum() - lost) / (base.sum() - base)


def _limits(found: intervals.RatioInterval) -> _Row:
    groups = {"groups": found.groups, "groups_effective": found.effective}
    return {**found.columns("value", "low", "high"), **groups}


def is_clear(found: intervals.RatioInterval) -> bool:
    """Tell whether H_C is above 0 beyond its interval, so that it can be divided by."""
    return math.isfinite(found.value) and found.low > 0


def unclear_base(base_level: float) -> str:
    """Say that a ratio has no interval as what it divides by may be 0."""
    return f"H_C at {base_level:g} is not clearly above 0: no interval of the ratio"


def _facts(sums: ContrastSums) -> str:
    """Say what must be known of the text to read its measures."""
    counts = {name: int(held.sum()) for name, held in sums.counts.items()}
    one = f"{counts['one_word']:,} of {counts['sentences']:,} sentences are of one word"
    unknown = f"{counts['unknown'] / counts['words']:.1%} of the words are <unk> to the model"
    return joined_facts(
        f"{one}, which cannot be transposed" if counts["one_word"] else "",
        unknown if counts["unknown"] else "",
        _length_fact(sums),
    )


def _length_fact(sums: ContrastSums) -> str:
    return "" if sums.keeps_length() else "sentences change their length: shorter ones score higher"


def _impossible(sums: ContrastSums, level: float | None) -> str:
    held = int(np.isneginf(sums.scores).sum())
    if held:
        return f"the model finds {held:,} of {len(sums.scores):,} documents impossible: no value"
    found = 0 if level is None else sums.levels[level].impossible
    return f"the model finds {found:,} distorted documents impossible: no value" if found else ""


def measure_contrasts(sums: ContrastSums, model: str, base_level: float) -> pa.Table:
    """Measure a model: H_C, H_CR and accuracy at levels, cross-entropy; schema ``contrasts``.

    H_CR divides by H_C at the base level d_b, where that was scored. Per word both are given where
    sentences keep their number of words, per sentence always. The cross-entropy (equation 6) is
    −(1/N) ln p of the text itself, for models with a likelihood.
    """
    given: _Row = {name: int(sums.counts[name].sum()) for name in ("words", "sentences")}
    given |= {"model": model, "sentence_level": sums.sentence_level}
    rows = [
        dict.fromkeys(CONTRASTS.names) | given | {"unit": unit} | row
        for unit in sums.measured_units()
        for row in _unit_rows(sums, unit, base_level)
    ]
    own = dict.fromkeys(CONTRASTS.names) | given | {"unit": "sentence"}
    rows += [own | _accuracy_row(sums, level) for level in sums.paired_levels()]
    return pa.Table.from_pylist(rows, CONTRASTS)


def _unit_rows(sums: ContrastSums, unit: str, base_level: float) -> Iterator[_Row]:
    means = (sums.mean(level) for level in sums.levels)
    size, *lost = intervals.sum_groups(sums.groups, sums.size(unit), *means)
    facts = _facts(sums)
    columns = dict(zip(sums.levels, lost, strict=True))
    for level, column in columns.items():
        yield _entropy_row(sums, level, column, size, facts)
        yield from _part_rows(sums, level, size)
    if base_level in columns:
        for level, column in columns.items():
            if level not in (0, base_level):  # where it is 0 or 1 for every model
                yield _ratio_row(sums, (base_level, level), (columns[base_level], column), size)
    if not sums.sentence_level:
        found = entropy_of(*intervals.sum_groups(sums.groups, -sums.scores, sums.size(unit)))
        note = joined_facts(_impossible(sums, None), found.few_groups(), facts)
        yield {"measure": SENTENCE_CROSS_ENTROPY, **_limits(found), "draws": 0, "note": note}


def _entropy_row(
    sums: ContrastSums, level: float, lost: np.ndarray, size: np.ndarray, facts: str
) -> _Row:
    found, draws = entropy_of(lost, size), sums.levels[level].draws
    note = joined_facts(_impossible(sums, level), found.few_groups(), facts)
    known = math.isfinite(found.value) and len(draws) > 1
    deviation = float(np.std(draws / size.sum(), ddof=1)) if known else None
    row: _Row = {"measure": CONTRASTIVE_ENTROPY, "level": level, **_limits(found)}
    return row | {"deviation": deviation, "draws": len(draws), "note": note}


def _part_rows(sums: ContrastSums, level: float, size: np.ndarray) -> Iterator[_Row]:
    """Yield what H_C at a level has of each event, and of the parts of the event."""
    held = sums.levels[level]
    events = [name.split(":")[0] for name in EVENT_PARTS]
    names = dict.fromkeys(chain(*zip(events, EVENT_PARTS, strict=True)))  # each before its parts
    for name in names if len(held.parts) else ():
        chosen = [name in (event, part) for event, part in zip(events, EVENT_PARTS, strict=True)]
        lost = held.parts[chosen].sum(0) / len(held.draws)
        found = entropy_of(intervals.sum_groups(sums.groups, lost)[0], size)
        row: _Row = {"measure": CONTRASTIVE_PART, "event": name, "level": level, **_limits(found)}
        row |= {"draws": len(held.draws), "words_hit": int(held.part_events[chosen].sum())}
        yield row | {"note": joined_facts(_impossible(sums, level), found.few_groups())}


def _accuracy_row(sums: ContrastSums, level: float) -> _Row:
    """Make the row of the accuracy at a level; see `share_interval`."""
    held = sums.levels[level]
    pairs, right = intervals.sum_groups(sums.groups, *held.pairs)
    found = share_interval(right, pairs)
    with np.errstate(invalid="ignore"):  # a draw that changes nothing has none
        each = np.divide(*held.draw_pairs[::-1])
    same = 1 - pairs.sum() / (len(held.draws) * sums.counts["sentences"].sum())
    note = f"{same:.1%} of the sentences came out as they were: no pairs" if same else ""
    row: _Row = {"measure": PAIRWISE_ACCURACY, "level": level, **_limits(found)}
    row |= {"deviation": intervals.finite(np.std(each, ddof=1)) if len(each) > 1 else None}
    row |= {"pairs": int(pairs.sum()), "undecided": held.undecided, "draws": len(each)}
    return row | {"note": joined_facts(found.few_groups(), note, _length_fact(sums))}


def _ratio_row(
    sums: ContrastSums,
    levels: tuple[float, float],
    lost: tuple[np.ndarray, np.ndarray],
    size: np.ndarray,
) -> _Row:
    base_level, level = levels
    base, column = lost
    found = intervals.jackknife_interval(*ratios(column, base), size)
    if impossible := _impossible(sums, level) or _impossible(sums, base_level):
        found = found._replace(value=math.nan)
    limits, clear = (math.nan, math.nan), is_clear(entropy_of(base, size))
    if clear and not impossible:
        limits = intervals.fieller_limits(column, base, size)
    found = found._replace(low=limits[0], high=limits[1])
    held = [sums.levels[one].draws for one in levels]
    common = min(map(len, held))
    below, above = (draws[:common] for draws in held)
    known = math.isfinite(found.value) and (below != 0).all() and common > 1
    enough = found.effective >= EFFECTIVE_GROUPS
    note = joined_facts(
        impossible,
        found.few_groups(),
        unclear_base(base_level) if enough and not clear and not impossible else "",
    )
    deviation = float(np.std(above / below, ddof=1)) if known else None
    row: _Row = {"measure": CONTRASTIVE_RATIO, "level": level, "base_level": base_level}
    row |= _limits(found)
    return row | {"deviation": deviation, "draws": common, "note": note}
