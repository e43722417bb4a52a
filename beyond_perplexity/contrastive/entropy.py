"""Contrastive entropy and its ratio, from the scores of shards.

H_C(d) = (1/N) Σ_units mean_draws [score(T) − score(T̂_d)], N words or sentences of the undistorted
text; H_CR(d_b, d) = H_C(d) / H_C(d_b). All in nats; scores need not be normalized. Source: Arora
and Rangarajan (2016), equations 6 to 8. U units, G groups of them, L levels, D draws.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.exchanged_units import EFFECTIVE_GROUPS
from beyond_perplexity.inference.intervals import (
    RatioInterval,
    group_key,
    jackknife_interval,
    ratio_interval,
    sum_groups,
)
from beyond_perplexity.schemas.contrastive import (
    CONTRAST_SCORES,
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    CONTRASTS,
    SENTENCE_CROSS_ENTROPY,
)
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.verdicts import joined_facts

MEASURED_UNITS = ("word", "sentence")
_EVENTS = ("substituted", "transposed", "deleted", "inserted")
_OWN = ("words", "sentences", "one_word", "unknown")


@dataclass
class LevelSums:
    """Sums of one level."""

    # float64, (U,): sum over draws of score(T) − score(T̂), nats
    units: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # float64, (D,): the same of each draw, summed over units
    draws: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # int64, (D,): units of each draw
    drawn: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    # int64, (4,): substituted, transposed, deleted and inserted words of all draws
    events: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    impossible: int = 0  # distorted units that the model finds impossible


class ContrastSums(NamedTuple):
    """What the shards of a model sum up to."""

    unit_ids: np.ndarray  # int64, (U,): number of each unit, and the key of what it belongs to
    groups: np.ndarray
    scores: np.ndarray  # float64, (U,): log score of the text itself
    # int64, (U,): of the text itself: ``words``, ``sentences``, ``one_word``, ``unknown``
    counts: dict[str, np.ndarray]
    levels: dict[float, LevelSums]
    # whether sentences are scored by themselves, and scores have no likelihood
    sentence_level: bool

    def size(self, unit: str) -> np.ndarray:
        """Return what a unit of measure counts in each unit, float64, (U,)."""
        return self.counts[f"{unit}s"].astype(float)

    def keeps_length(self) -> bool:
        """Tell whether no word was deleted or inserted."""
        return not any(held.events[2:].any() for held in self.levels.values())

    def measured_units(self) -> tuple[str, ...]:
        """Return what measures are divided by: where sentences change their length, sentences."""
        return MEASURED_UNITS if self.keeps_length() else MEASURED_UNITS[1:]

    def mean(self, level: float) -> np.ndarray:
        """Return score(T) − score(T̂) of each unit, mean over draws, nats, (U,)."""
        held = self.levels[level]
        return held.units / len(held.draws)


class _Reader:
    """Sums that grow shard by shard, each number added in the order of units and draws."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.own = {name: array("q") for name in ("unit_id", "group", *_OWN)}
        self.scores = array("d")
        self.levels: dict[float, LevelSums] = {}
        self.sentence_level = False

    def add(self, path: str, batch: pa.RecordBatch) -> None:
        held = {
            name: batch.column(name).to_numpy(zero_copy_only=False)
            for name in batch.schema.names
            if name not in ("group", "sentence_level")
        }
        self.sentence_level |= bool(batch.column("sentence_level")[0].as_py())
        own = np.flatnonzero(held["level"] == 0)
        groups = batch.column("group").take(pa.array(own)).to_pylist()
        self._add_units(path, held, own, groups)
        try:
            places = np.array([self.places[unit] for unit in held["unit_id"].tolist()])
        except KeyError as error:
            raise InputError(
                f"{path}: the score of doc_id {error} without distortion is in no file before it; "
                "give all shards of the model, in the order of their names"
            ) from error
        scores = np.asarray(self.scores)
        for level in np.unique(held["level"]).tolist():
            self._add_level(level, held, places, scores)

    def _add_units(
        self, path: str, held: dict[str, np.ndarray], own: np.ndarray, groups: list[str | None]
    ) -> None:
        for row, group in zip(own.tolist(), groups, strict=True):
            unit = int(held["unit_id"][row])
            if unit in self.places:
                raise InputError(f"{path}: doc_id {unit} is given twice; give each shard once")
            self.places[unit] = len(self.places)
            self.own["unit_id"].append(unit)
            self.own["group"].append(group_key(group, unit))
            for name in _OWN:
                self.own[name].append(int(held[name][row]))
            self.scores.append(float(held["log_score"][row]))

    def _add_level(
        self, level: float, held: dict[str, np.ndarray], places: np.ndarray, scores: np.ndarray
    ) -> None:
        rows = np.flatnonzero(held["level"] == level)
        sums = self.levels.setdefault(level, LevelSums())
        sums.units = _grown(sums.units, 2 * len(scores), len(scores))
        distorted = held["log_score"][rows]
        draws, most = held["draw"][rows], int(held["draw"][rows].max()) + 1
        sums.draws, sums.drawn = _grown(sums.draws, most), _grown(sums.drawn, most)
        with np.errstate(invalid="ignore"):  # of infinities, which are counted
            lost = scores[places[rows]] - distorted
            np.add.at(sums.units, places[rows], lost)
            np.add.at(sums.draws, draws, lost)
        np.add.at(sums.drawn, draws, 1)
        sums.events += [int(held[name][rows].sum()) for name in _EVENTS]
        sums.impossible += int(np.isneginf(distorted).sum())


def _grown(values: np.ndarray, size: int, needed: int | None = None) -> np.ndarray:
    """Append zeros up to a size, where fewer than are needed are there."""
    short = len(values) < (size if needed is None else needed)
    return np.pad(values, (0, size - len(values))) if short else values


def _check_draws(path: object, levels: Mapping[float, LevelSums], units: int) -> None:
    for level, held in levels.items():
        if (held.drawn != units).any():
            draw = int(np.argmax(held.drawn != units))
            raise InputError(
                f"{path}: draw {draw} of level {level:g} was scored for {held.drawn[draw]:,} of "
                f"{units:,} documents; give all shards of the model"
            )


def read_sums(paths: Sequence[str]) -> ContrastSums:
    """Add up the shards of a model, schema ``contrast_scores``, however they are cut.

    They are in the order of units, those of the same units in the order of draws.
    """
    reader = _Reader()
    for path in paths:
        for batch in read_batches([path], CONTRAST_SCORES, CONTRAST_SCORES.names):
            if len(batch):
                reader.add(str(path), batch)
    if not reader.places:
        raise InputError(f"{paths[0] if paths else 'scores'}: there are no scores; score a text")
    own = {name: np.asarray(column) for name, column in reader.own.items()}
    counts = {name: own[name] for name in _OWN}
    levels = dict(sorted(reader.levels.items()))
    _check_draws(paths[-1], levels, len(reader.places))
    for held in levels.values():
        held.units = held.units[: len(reader.places)]
    scores = np.asarray(reader.scores)
    return ContrastSums(own["unit_id"], own["group"], scores, counts, levels, reader.sentence_level)


# ---- measures ----


_Row = dict[str, Any]


def entropy_of(lost: np.ndarray, sizes: np.ndarray) -> RatioInterval:
    """Measure H_C from what scores lose in each group, nats, (G,), and their sizes, (G,)."""
    if not np.isfinite(lost).all():
        return jackknife_interval(math.nan, np.full(len(lost), math.nan), sizes)
    return ratio_interval(lost, sizes)


def ratios(lost: np.ndarray, base: np.ndarray) -> tuple[float, np.ndarray]:
    """Return H_CR, and the same without each group, from the losses at a level and at the base."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of a model that loses nothing
        whole = float(np.divide(lost.sum(), base.sum()))
        return whole, (lost.sum() - lost) / (base.sum() - base)


def _deviation(values: np.ndarray) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _limits(found: RatioInterval) -> _Row:
    groups = {"groups": found.groups, "groups_effective": found.effective}
    return {**found.columns("value", "low", "high"), **groups}


def is_clear(found: RatioInterval) -> bool:
    """Tell whether H_C is above 0 beyond its interval, so that it can be divided by."""
    return math.isfinite(found.value) and found.low > 0


def unclear_base(base_level: float) -> str:
    """Say that a ratio has no interval as what it divides by may be 0."""
    return f"H_C at {base_level:g} is not clearly above 0: no interval of the ratio"


def _facts(sums: ContrastSums) -> str:
    """Say what must be known of the text to read its measures."""
    counts = {
        name: int(sums.counts[name].sum()) for name in ("one_word", "sentences", "unknown", "words")
    }
    one = f"{counts['one_word']:,} of {counts['sentences']:,} sentences are of one word"
    unknown = f"{counts['unknown'] / counts['words']:.1%} of the words are <unk> to the model"
    return joined_facts(
        f"{one}, which cannot be transposed" if counts["one_word"] else "",
        unknown if counts["unknown"] else "",
        "" if sums.keeps_length() else "sentences change their length: shorter ones score higher",
    )


def _impossible(sums: ContrastSums, level: float | None) -> str:
    held = int(np.isneginf(sums.scores).sum())
    if held:
        return f"the model finds {held:,} of {len(sums.scores):,} documents impossible: no value"
    found = 0 if level is None else sums.levels[level].impossible
    return f"the model finds {found:,} distorted documents impossible: no value" if found else ""


def contrast_rows(sums: ContrastSums, model: str, base_level: float) -> Iterator[_Row]:
    """Measure a model: H_C and H_CR at every level, and its cross-entropy.

    Parameters
    ----------
    sums : ContrastSums
        Of `read_sums`.
    model : str
        Its name.
    base_level : float
        d_b, what H_CR divides by; where it was not scored there are no ratios.

    Yields
    ------
    dict
        A row of schema ``contrasts``. H_C and H_CR per word are given where sentences keep their
        number of words, per sentence always. The cross-entropy (equation 6) is −(1/N) ln p of the
        text itself, for models with a likelihood.
    """
    given = {
        "model": model,
        "words": int(sums.counts["words"].sum()),
        "sentences": int(sums.counts["sentences"].sum()),
        "sentence_level": sums.sentence_level,
    }
    for unit in sums.measured_units():
        for row in _unit_rows(sums, unit, base_level):
            yield dict.fromkeys(CONTRASTS.names) | given | {"unit": unit} | row


def _unit_rows(sums: ContrastSums, unit: str, base_level: float) -> Iterator[_Row]:
    size, *lost = sum_groups(
        sums.groups, sums.size(unit), *(sums.mean(level) for level in sums.levels)
    )
    facts = _facts(sums)
    columns = dict(zip(sums.levels, lost, strict=True))
    for level, column in columns.items():
        yield _entropy_row(sums, level, column, size, facts)
    if base_level in columns:
        for level, column in columns.items():
            if level not in (0, base_level):  # where it is 0 or 1 for every model
                yield _ratio_row(sums, (base_level, level), (columns[base_level], column), size)
    if not sums.sentence_level:
        found = entropy_of(*sum_groups(sums.groups, -sums.scores, sums.size(unit)))
        note = joined_facts(_impossible(sums, None), found.few_groups(), facts)
        yield {"measure": SENTENCE_CROSS_ENTROPY, **_limits(found), "draws": 0, "note": note}


def _entropy_row(
    sums: ContrastSums, level: float, lost: np.ndarray, size: np.ndarray, facts: str
) -> _Row:
    found, draws = entropy_of(lost, size), sums.levels[level].draws
    note = joined_facts(_impossible(sums, level), found.few_groups(), facts)
    known = math.isfinite(found.value)
    return {
        "measure": CONTRASTIVE_ENTROPY,
        "level": level,
        **_limits(found),
        "deviation": _deviation(draws / size.sum()) if known else None,
        "draws": len(draws),
        "note": note,
    }


def _ratio_row(
    sums: ContrastSums,
    levels: tuple[float, float],
    lost: tuple[np.ndarray, np.ndarray],
    size: np.ndarray,
) -> _Row:
    base_level, level = levels
    base, column = lost
    found = jackknife_interval(*ratios(column, base), size)
    clear = is_clear(entropy_of(base, size))
    if not clear:
        found = found._replace(low=math.nan, high=math.nan)
    held = [sums.levels[one].draws for one in levels]
    common = min(map(len, held))
    below, above = (draws[:common] for draws in held)
    known = math.isfinite(found.value) and (below != 0).all()
    enough = found.effective >= EFFECTIVE_GROUPS
    note = joined_facts(
        _impossible(sums, level) or _impossible(sums, base_level),
        found.few_groups(),
        unclear_base(base_level) if enough and not clear else "",
    )
    return {
        "measure": CONTRASTIVE_RATIO,
        "level": level,
        "base_level": base_level,
        **_limits(found),
        "deviation": _deviation(above / below) if known else None,
        "draws": common,
        "note": note,
    }


def measure_contrasts(sums: ContrastSums, model: str, base_level: float) -> pa.Table:
    """Return the rows of `contrast_rows` as a table of schema ``contrasts``."""
    return pa.Table.from_pylist(list(contrast_rows(sums, model, base_level)), CONTRASTS)
