"""Sums of scores over groups of documents, streamed: a few numbers a group, whatever the shards.

G groups, in the order in which they appear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.semantics import SEMANTIC_SCORES
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES
from beyond_perplexity.semantics.word_cosines import Floats, exponential_scaling
from beyond_perplexity.storage.shards import check_schema, read_batches

_COUNT, _SUM, _SCALED, _WEIGHT, _WEIGHTED = range(5)
_COLUMNS = ("split", "unit_id", "group", "measure", "kind", "value", "statistics")


@dataclass(frozen=True)
class KindSums:
    """Sums of one kind of scores by group."""

    # float64, (G,): how many have a value, their values, and these put through equation 12
    sentences: Floats
    total: Floats
    scaled: Floats
    weight: Floats  # float64, (G,): words of these sentences, and words · value
    weighted: Floats
    statistics: NDArray[np.int64]  # int64, (G, C): of BLEU; C is 0 of other measures
    undefined: int  # sentences without a value


class _Growing:
    """Sums of one split and kind, in rows of groups."""

    def __init__(self, scalable: bool) -> None:
        self.sums = np.zeros((0, 5))
        self.statistics: NDArray[np.int64] | None = None
        self.undefined = 0
        self._scalable = scalable

    def reach(self, size: int, width: int) -> None:
        """Make room for so many groups."""
        if self.statistics is None:
            self.statistics = np.zeros((0, width), np.int64)
        if len(self.sums) < size:
            more = max(size, 2 * len(self.sums)) - len(self.sums)
            self.sums = np.concatenate([self.sums, np.zeros((more, 5))])
            grown = np.zeros((more, self.statistics.shape[1]), np.int64)
            self.statistics = np.concatenate([self.statistics, grown])

    def add(self, groups: NDArray[np.int64], values: Floats, statistics: NDArray[np.int64]) -> None:
        """Add sentences, one by one, so that sums do not depend on batches."""
        known = ~np.isnan(values)
        self.undefined += int(len(values) - known.sum())
        groups, values, statistics = groups[known], values[known], statistics[known]
        assert self.statistics is not None
        weighted = statistics.shape[1] == 1
        weights = statistics[:, 0].astype(float) if weighted else np.ones(len(values))
        columns = np.zeros((len(values), 5))
        columns[:, _COUNT], columns[:, _SUM] = 1, values
        columns[:, _SCALED] = exponential_scaling(values) if self._scalable else np.nan
        columns[:, _WEIGHT], columns[:, _WEIGHTED] = weights, weights * values
        np.add.at(self.sums, groups, columns)
        if self.statistics.shape[1]:
            np.add.at(self.statistics, groups, statistics)

    def finish(self, groups: int) -> KindSums:
        """Return the sums of all groups."""
        self.reach(groups, 0)
        assert self.statistics is not None
        columns = self.sums[:groups].T
        return KindSums(
            sentences=columns[_COUNT],
            total=columns[_SUM],
            scaled=columns[_SCALED],
            weight=columns[_WEIGHT],
            weighted=columns[_WEIGHTED],
            statistics=self.statistics[:groups],
            undefined=self.undefined,
        )


def names_of(paths: Sequence[str | Path]) -> dict[str, tuple[list[str], list[str | Path]]]:
    """List measures and files by evaluator, in the order of the files."""
    found: dict[str, tuple[list[str], list[str | Path]]] = {}
    for path in paths:
        check_schema(path, SEMANTIC_SCORES).close()
        for batch in read_batches(path, SEMANTIC_SCORES, ["evaluator", "measure"]):
            pairs = pa.table({name: batch.column(name) for name in batch.schema.names})
            for pair in pairs.group_by(pairs.column_names).aggregate([]).to_pylist():
                measures, files = found.setdefault(pair["evaluator"], ([], []))
                if pair["measure"] not in measures:
                    measures.append(pair["measure"])
                if path not in files:
                    files.append(path)
    if not found:
        raise InputError(f"{paths[0] if paths else 'scores'}: there are no scores; score some")
    order = list(MEASURES)
    for measures, _ in found.values():
        unknown = sorted(set(measures) - set(order))
        if unknown:
            raise InputError(f"{paths[0]}: measure '{unknown[0]}' is unknown; score again")
        measures.sort(key=order.index)
    return found


def sum_groups_of(paths: Sequence[str | Path], measure: str) -> dict[str, dict[str, KindSums]]:
    """Add up the scores of one model, evaluator and measure, by split and kind.

    `paths` are shards, schema ``semantic_scores``, in their order, however they are cut; the groups
    of a split are the same in all its kinds.
    """
    numbers: dict[str, dict[str | int, int]] = defaultdict(dict)  # of groups, as they appear
    held: dict[str, dict[str, _Growing]] = defaultdict(dict)
    counted = measure in BLEU_NAMES or MEASURES[measure].pooling == "words"
    for batch in read_batches(paths, SEMANTIC_SCORES, _COLUMNS):
        batch = batch.filter(pc.equal(batch.column("measure"), measure))
        if not batch.num_rows:
            continue
        values = batch.column("value").to_numpy(zero_copy_only=False)
        units = batch.column("unit_id").to_numpy()
        statistics = np.zeros((len(units), 0), np.int64)
        if counted:
            flat = batch.column("statistics").flatten().to_numpy()
            statistics = flat.reshape(len(units), -1).astype(np.int64)
        # a unit of no group is one by itself
        named = zip(batch.column("group").to_pylist(), units.tolist(), strict=True)
        owners = [unit if group is None else group for group, unit in named]
        splits = batch.column("split").to_numpy(zero_copy_only=False)
        kinds = batch.column("kind").to_numpy(zero_copy_only=False)
        for split in dict.fromkeys(splits.tolist()):
            here = np.flatnonzero(splits == split)
            known = numbers[split]
            groups = np.array([known.setdefault(owners[row], len(known)) for row in here.tolist()])
            for kind in dict.fromkeys(kinds[here].tolist()):
                part = kinds[here] == kind
                growing = held[split].setdefault(kind, _Growing(MEASURES[measure].scalable))
                growing.reach(len(known), statistics.shape[1])
                growing.add(groups[part], values[here[part]], statistics[here[part]])
    return {
        split: {kind: one.finish(len(numbers[split])) for kind, one in kinds.items()}
        for split, kinds in held.items()
    }
