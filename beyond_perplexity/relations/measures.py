"""Every measure of every paper, side by side, and the pairs of models that perplexity misses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.exchanged_units import EFFECTIVE_GROUPS
from beyond_perplexity.relations.readers import (
    PERPLEXITY,
    DocumentSums,
    contrast_sums,
    perplexity_sums,
    resampled_values,
    semantic_sums,
    tendency_rows,
)
from beyond_perplexity.schemas.relations import RELATION_MEASURES, RELATION_ORDERS

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
    sums: dict[str, DocumentSums]
    draws: dict[str, np.ndarray]

    def table(self) -> pa.Table:
        """Return the rows as a table of schema ``relation_measures``."""
        return pa.Table.from_pylist(self.rows, RELATION_MEASURES)


def _document_rows(held: DocumentSums, draws: np.ndarray) -> Iterator[dict[str, Any]]:
    values = held.values(np.ones((1, len(held.groups))))[0]
    few = held.effective < EFFECTIVE_GROUPS
    for place, model in enumerate(held.models):
        value, drawn = float(values[place]), draws[:, place]
        known = math.isfinite(value) and not few
        yield {
            "model": model,
            "decoding": None,
            "subject": held.subject,
            "measure": held.measure,
            "title": held.title,
            "value": None if math.isnan(value) else value,
            "error": float(np.std(drawn, ddof=1)) if known and len(drawn) > 1 else None,
            "direction": 1 if held.higher else -1,
            "note": FEW_DOCUMENTS if few else "",
        }


def _unscored(model: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(RELATION_MEASURES.names),
        "model": model,
        "subject": PERPLEXITY,
        "measure": PERPLEXITY,
        "title": "Bits per byte",
        "direction": -1,
        "note": "is not scored on the text that the others are scored on",
    }


def gather_measures(files: RelatedFiles, options: RelationOptions) -> RelatedMeasures:
    """Read the measures of all papers and resample the documents of those that are sums over them.

    Perplexity, contrastive and semantic measures belong to a model; tendencies to its text under a
    decoding.
    """
    perplexity, others = perplexity_sums(files.perplexities)
    held = [
        *([perplexity] if perplexity else []),
        *contrast_sums(files.contrasts, options.level, options.base_level),
        *semantic_sums(files.semantics, options.split),
    ]
    draws = resampled_values(held, options.resamples, options.seed)
    rows = [row for one in held for row in _document_rows(one, draws[one.measure])]
    rows += [_unscored(model) for model in others]
    rows += tendency_rows(files.tendencies, options.confidence)
    return RelatedMeasures(rows, {one.measure: one for one in held}, draws)


_Row = dict[str, Any]


def _agreeing(drawn: np.ndarray, value: float) -> np.ndarray:
    """Tell in which resamples (R,) a difference has the sign of the value; a tie counts half."""
    return np.where(drawn == 0, 0.5, np.sign(drawn) == np.sign(value))


class _Orders:
    """Pairs of models with a finite perplexity, in its order."""

    def __init__(self, found: RelatedMeasures) -> None:
        self.found = found
        self.own = found.sums[PERPLEXITY]
        values = self.own.values(np.ones((1, len(self.own.groups))))[0]
        self.values = {
            model: float(value)
            for model, value in zip(self.own.models, values, strict=True)
            if math.isfinite(value)
        }
        self.few = self.own.effective < EFFECTIVE_GROUPS

    def pairs(self, models: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """List pairs of models, that with fewer bits per byte first."""
        shared = sorted((m for m in models if m in self.values), key=lambda m: self.values[m])
        return combinations(shared, 2)

    def perplexity(self, first: str, second: str) -> tuple[float, np.ndarray]:
        """Return what the second model has more of, and where the resamples agree in its sign."""
        drawn = self.found.draws[PERPLEXITY]
        one, two = (self.own.models.index(name) for name in (first, second))
        value = self.values[second] - self.values[first]
        return value, _agreeing(drawn[:, two] - drawn[:, one], value)

    def resampled(self, held: DocumentSums) -> Iterator[_Row]:
        """Compare the order of a measure that is a sum over the same documents."""
        sign = 1 if held.higher else -1
        values = sign * held.values(np.ones((1, len(held.groups))))[0]
        known = {m: float(v) for m, v in zip(held.models, values, strict=True) if math.isfinite(v)}
        draws = sign * self.found.draws[held.measure]
        few = self.few or held.effective < EFFECTIVE_GROUPS
        for first, second in self.pairs(known):
            gap, sure = self.perplexity(first, second)
            value = known[second] - known[first]
            one, two = (held.models.index(name) for name in (first, second))
            own = _agreeing(draws[:, two] - draws[:, one], value)
            chances = (sure.mean(), own.mean(), (sure * own).mean())
            yield self._row(held.measure, None, (first, second), (gap, value), few, chances, True)

    def written(
        self, measure: str, decoding: str | None, rows: Mapping[str, _Row]
    ) -> Iterator[_Row]:
        """Compare the order of a measure of texts that models wrote, from its standard errors."""
        known = {model: row["direction"] * row["value"] for model, row in rows.items()}
        for first, second in self.pairs(known):
            gap, sure = self.perplexity(first, second)
            value = known[second] - known[first]
            errors = [rows[name]["error"] for name in (first, second)]
            spread = math.hypot(*errors) if None not in errors else 0.0
            own = 0.5 * math.erfc(-abs(value) / spread / math.sqrt(2)) if spread else math.nan
            chances = (sure.mean(), own, sure.mean() * own)
            place = (first, second)
            yield self._row(measure, decoding, place, (gap, value), self.few, chances, False)

    @staticmethod
    def _row(
        measure: str,
        decoding: str | None,
        pair: tuple[str, str],
        differences: tuple[float, float],
        few: bool,
        chances: tuple[float, float, float],
        resampled: bool,
    ) -> _Row:
        names = ("probability_perplexity", "probability", "probability_both")
        known = {
            name: float(chance) if math.isfinite(chance) and not few else None
            for name, chance in zip(names, chances, strict=True)
        }
        unknown = "the measure has no standard error" if math.isnan(chances[1]) else ""
        return {
            "measure": measure,
            "decoding": decoding,
            "first": pair[0],
            "second": pair[1],
            "perplexity_difference": differences[0],
            "difference": differences[1],
            "differs": differences[1] > 0,
            **known,
            "resampled": resampled,
            "note": FEW_DOCUMENTS if few else unknown,
        }


def compare_orders(found: RelatedMeasures) -> pa.Table:
    """Compare the order of every pair of models by perplexity with that by every other measure.

    Schema ``relation_orders``; no row where there is no perplexity. The probability that an order
    is real is the share of resamples of the test documents that have it, of perplexity and a
    measure of the same documents jointly; of generated texts, which are other documents, that of a
    normal difference with the standard errors of both texts, taken for independent. None is
    adjusted for the number of pairs.
    """
    rows: list[_Row] = []
    if PERPLEXITY in found.sums:
        orders = _Orders(found)
        for measure, held in found.sums.items():
            if measure != PERPLEXITY:
                rows += orders.resampled(held)
        for (measure, decoding), own in _written(found).items():
            rows += orders.written(measure, decoding, own)
    return pa.Table.from_pylist(rows, RELATION_ORDERS)


def _written(found: RelatedMeasures) -> dict[tuple[str, str | None], dict[str, _Row]]:
    """Sort the known rows of texts by measure and decoding, then by model."""
    held: dict[tuple[str, str | None], dict[str, _Row]] = {}
    for row in found.rows:
        if row["measure"] not in found.sums and row["value"] is not None:
            held.setdefault((row["measure"], row["decoding"]), {})[row["model"]] = row
    return held
