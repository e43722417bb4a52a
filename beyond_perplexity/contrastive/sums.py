"""Sums over the shards of a model's scores, unit by unit and draw by draw.

U units, L levels, D draws.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import group_key
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.shards import read_batches

MEASURED_UNITS = ("word", "sentence")
_EVENTS = ("substituted", "transposed", "deleted", "inserted")
_OWN = ("words", "sentences", "one_word", "unknown")


@dataclass
class LevelSums:
    """Sums of one level.

    Attributes
    ----------
    units : ndarray of float64, shape (U,)
        Sum over draws of score(T) − score(T̂), nats.
    draws : ndarray of float64, shape (D,)
        The same of each draw, summed over units.
    drawn : ndarray of int64, shape (D,)
        Units of each draw.
    events : ndarray of int64, shape (4,)
        Substituted, transposed, deleted and inserted words of all draws.
    impossible : int
        Distorted units that the model finds impossible.
    """

    units: np.ndarray = field(default_factory=lambda: np.zeros(0))
    draws: np.ndarray = field(default_factory=lambda: np.zeros(0))
    drawn: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    events: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    impossible: int = 0


class ContrastSums(NamedTuple):
    """What the shards of a model sum up to.

    Attributes
    ----------
    unit_ids, groups : ndarray of int64, shape (U,)
        Number of each unit, and the key of what it belongs to.
    scores : ndarray of float64, shape (U,)
        Log score of the text itself.
    counts : dict of str to ndarray of int64, shape (U,)
        Of the text itself: ``words``, ``sentences``, ``one_word``, ``unknown``.
    levels : dict of float to LevelSums
    sentence_level : bool
        Whether sentences are scored by themselves, and scores have no likelihood.
    """

    unit_ids: np.ndarray
    groups: np.ndarray
    scores: np.ndarray
    counts: dict[str, np.ndarray]
    levels: dict[float, LevelSums]
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
    """Add up the shards of a model.

    Parameters
    ----------
    paths : sequence of str
        Parquet files, schema ``contrast_scores``, in the order of units, those of the same units in
        the order of draws. The result does not depend on how they are cut.

    Raises
    ------
    InputError
        When a file is none, a unit is given twice or its undistorted score is missing, or there
        are no units.
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
