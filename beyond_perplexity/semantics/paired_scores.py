"""Scores of several models on the same sentences, side by side.

N sentences, G groups, M models, C measures, P parts (what is predicted, and its partner where that
is taken off), K counts that a pooled measure is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import group_key
from beyond_perplexity.schemas.semantics import (
    CONTINUED,
    PARTNER_OF,
    PREDICTED,
    PROPER,
    SAMPLED,
    SEMANTIC_SCORES,
    SPREAD,
)
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES
from beyond_perplexity.storage.shards import check_schema

EXCESS_KIND = "excess"
# What a compared kind is made of, and how often each is counted: see `model_measures`.
KIND_PARTS: dict[str, dict[str, float]] = {
    PREDICTED: {PREDICTED: 1.0},
    SAMPLED: {SAMPLED: 1.0},
    CONTINUED: {CONTINUED: 1.0},
    EXCESS_KIND: {PREDICTED: 1.0, PARTNER_OF[PREDICTED]: -1.0},
    PROPER: {SAMPLED: 1.0, SPREAD: -0.5},
}


class ScoreCells(NamedTuple):
    """A measure and kind in one file: values (N,), NaN where not defined, and counts (N, K)."""

    values: np.ndarray
    counts: np.ndarray | None


class ScoreBlock(NamedTuple):
    """The sentences of one file, sorted: keys (N, 3) of split, document and place; group keys."""

    path: str
    splits: list[str]
    keys: np.ndarray
    groups: np.ndarray
    cells: dict[tuple[str, str], ScoreCells]

    def values(self, measure: str, kind: str) -> np.ndarray:
        """Return the values of a measure and kind, float64 (N,); NaN where there is none."""
        cell = self.cells.get((measure, kind))
        return np.full(len(self.keys), np.nan) if cell is None else cell.values


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    coded = column.combine_chunks().dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()


def read_block(path: str) -> ScoreBlock:
    """Read a shard, schema ``semantic_scores``."""
    with check_schema(path, SEMANTIC_SCORES) as file:
        table = file.read(columns=SEMANTIC_SCORES.names)
    named, names = _codes(table["split"])
    order = np.argsort(names)
    columns = (
        np.argsort(order)[named],
        *(table[name].to_numpy() for name in ("unit_id", "sentence")),
    )
    keys, first, sentence = np.unique(
        np.stack(columns, 1).astype(np.int64), axis=0, return_index=True, return_inverse=True
    )
    held = table["group"].take(pa.array(first)).to_pylist()
    groups = [group_key(*pair) for pair in zip(held, keys[:, 1].tolist(), strict=True)]
    cells = _read_cells(path, table, sentence.ravel(), len(keys))
    return ScoreBlock(path, [names[k] for k in order], keys, np.array(groups, np.int64), cells)


def _read_cells(
    path: str, table: pa.Table, sentence: np.ndarray, count: int
) -> dict[tuple[str, str], ScoreCells]:
    """Take the values of each measure and kind, in the order of the sentences."""
    (measure, measures), (kind, kinds) = _codes(table["measure"]), _codes(table["kind"])
    value = pc.fill_null(table["value"], np.nan).to_numpy()
    wanted = {part for parts in KIND_PARTS.values() for part in parts}
    found = {}
    for one, two in np.unique(np.stack([measure, kind], 1), axis=0).tolist():
        if measures[one] not in MEASURES:
            raise InputError(f"{path}: there is no measure '{measures[one]}'; score anew")
        if kinds[two] not in wanted:
            continue
        rows = np.flatnonzero((measure == one) & (kind == two))
        places = sentence[rows]
        if len(np.unique(places)) < len(places):
            raise InputError(f"{path}: a sentence has two values of '{measures[one]}'; score anew")
        values = np.full(count, np.nan)
        values[places] = value[rows]
        counts = None
        if MEASURES[measures[one]].pooling != "sentences":
            counts = _read_counts(path, table["statistics"].take(pa.array(rows)), places, count)
        found[measures[one], kinds[two]] = ScoreCells(values, counts)
    return found


def _read_counts(path: str, column: pa.ChunkedArray, places: np.ndarray, count: int) -> np.ndarray:
    """Take lists of equal length as rows (N, K), zeros where there is none."""
    lists = column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    width = int(lengths.max(initial=0))
    held = lengths > 0
    if (lengths[held] != width).any():
        raise InputError(f"{path}: statistics of one measure have different lengths; score anew")
    found = np.zeros((count, width))
    if width:
        found[places[held]] = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return found


def shards_by_owner(paths: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Sort shards by evaluator and model, the folders that they are in; each in its given order."""
    found: dict[str, dict[str, list[str]]] = {}
    folders: dict[tuple[str, str], Path] = {}
    for path in paths:
        folder = Path(path).parent
        evaluator, model = folder.name, folder.parent.name
        if folders.setdefault((evaluator, model), folder) != folder:
            raise InputError(f"{folder}: another folder is of this model and evaluator too")
        found.setdefault(evaluator, {}).setdefault(model, []).append(path)
    return found


def check_alike(blocks: Sequence[ScoreBlock]) -> None:
    """Raise `InputError` where blocks are of other sentences than the first."""
    first = blocks[0]
    for other in blocks[1:]:
        same = other.splits == first.splits and np.array_equal(other.keys, first.keys)
        if not (same and np.array_equal(other.groups, first.groups)):
            raise InputError(
                f"{other.path}: is of other sentences than {first.path}; score all models on the "
                "same sentences"
            )


def known_scores(paths: Sequence[str]) -> set[tuple[str, str]]:
    """Name the measures and kinds that the files of a model have values of, none of them infinite.

    Cross-entropy is infinite where a model finds a sentence impossible: no mean of it is finite.
    """
    found: set[tuple[str, str]] = set()
    infinite: set[tuple[str, str]] = set()
    for path in paths:
        with check_schema(path, SEMANTIC_SCORES) as file:
            table = file.read(columns=["measure", "kind", "value"])
        for names, mask in ((found, pc.is_valid), (infinite, pc.is_inf)):
            held = table.filter(mask(table["value"])).group_by(["measure", "kind"])
            names |= {(row["measure"], row["kind"]) for row in held.aggregate([]).to_pylist()}
    return found - infinite


_Known = Mapping[str, set[tuple[str, str]]]  # measures and kinds that a model has values of


class ScoreKey(NamedTuple):
    """What is compared: a measure by an evaluator, in a split, of a kind of prediction."""

    split: str
    evaluator: str
    measure: str
    kind: str


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over the sentences of each group that every compared model has a value on."""

    models: list[str]  # those with any value
    numerators: np.ndarray  # float64, (G, M): of a mean, values by their weight; of counts zeros
    sizes: np.ndarray  # float64, (G,): weights: sentences, or words of the target
    counts: np.ndarray | None  # float64, (G, M, P, K), or None: of BLEU
    order: int  # of BLEU; 0 of means
    sentences: int
    left_out: int  # sentences on which one of the models has no value


@dataclass(frozen=True, eq=False)
class SentenceValues:
    """What models score on each of some sentences of a split."""

    groups: np.ndarray  # int64, (N,): key of what a sentence's document belongs to
    models: list[str]
    # float64, (N, M): of predictions; NaN where not defined
    values: dict[tuple[str, str], np.ndarray]


@dataclass(frozen=True, eq=False)
class PairedScores:
    """All that models are compared by."""

    models: list[str]
    sums: dict[ScoreKey, GroupSums]
    # int64, (G,): keys of the groups of each split, in the order of all sums
    groups: dict[str, np.ndarray]
    sentences: dict[str, SentenceValues]  # of each split


class _Sums:
    """Sums of one key over documents, block by block."""

    def __init__(self, models: list[str], order: int, parts: Sequence[float]) -> None:
        self.models, self.order = models, order
        self.factors = np.array(parts)
        self.documents: list[np.ndarray] = []
        self.parts: list[tuple[np.ndarray, ...]] = []
        self.sentences = self.left_out = 0

    def add(self, documents: np.ndarray, values: np.ndarray, counts: np.ndarray | None) -> None:
        """Add sentences of documents (N,): values (N, M, P), counts (N, M, P, K) or None."""
        known = np.isfinite(values).all(axis=(1, 2))
        self.sentences += int(known.sum())
        self.left_out += int((~known).sum())
        keys, code = np.unique(documents[known], return_inverse=True)
        weights = np.ones(len(code))
        if counts is not None and not self.order:
            weights = counts[known][:, 0, 0, 0]
        signed = values[known] @ self.factors
        own = np.zeros((len(keys), len(self.models)))
        np.add.at(own, code, signed * weights[:, None])
        sizes = np.bincount(code, weights, len(keys))
        tallies: tuple[np.ndarray, ...] = ()
        if counts is not None and self.order:
            total = np.zeros((len(keys), *counts.shape[1:]))
            np.add.at(total, code, counts[known])
            tallies = (total,)
        self.documents.append(keys)
        self.parts.append((own, sizes, *tallies))

    def total(self, documents: np.ndarray, code: np.ndarray) -> GroupSums:
        """Sum up over groups, from the numbers (D,) of all documents, sorted, and their groups."""
        held = np.concatenate(self.documents)
        order = np.argsort(held, kind="stable")
        places = code[np.searchsorted(documents, held[order])]
        found = []
        for column in zip(*self.parts, strict=True):
            stacked = np.concatenate(column)[order]
            summed = np.zeros((code.max(initial=-1) + 1, *stacked.shape[1:]))
            np.add.at(summed, places, stacked)
            found.append(summed)
        own, sizes, *counts = found
        tallies = counts[0] if counts else None
        left_out = self.left_out
        return GroupSums(self.models, own, sizes, tallies, self.order, self.sentences, left_out)


class _Split:
    """What is known of the sentences of a split: documents, their groups, which are kept."""

    def __init__(self, parts: Sequence[tuple[np.ndarray, np.ndarray]], limit: int) -> None:
        documents, groups = (np.concatenate(column) for column in zip(*parts, strict=True))
        self.documents, first = np.unique(documents, return_index=True)
        self.groups, self.code = np.unique(groups[first], return_inverse=True)
        sizes = np.bincount(np.searchsorted(self.groups, groups))
        # Keys are hashes: their order is a random one of the groups.
        self.kept = self.groups[: max(1, int((np.cumsum(sizes) <= limit).sum()))]


class _Collector:
    """Sums and values of one evaluator after the other."""

    def __init__(self, models: list[str], splits: Mapping[str, _Split]) -> None:
        self.models, self.splits = models, splits
        self.sums: dict[ScoreKey, _Sums] = {}
        self.values: dict[str, dict[tuple[str, str], list[np.ndarray]]] = {}
        self.kept: dict[tuple[str, str], list[np.ndarray]] = {}

    def add(self, evaluator: str, blocks: Mapping[str, ScoreBlock], known: _Known) -> None:
        """Add the block of every model."""
        first = next(iter(blocks.values()))
        for code, split in enumerate(first.splits):
            rows = np.flatnonzero(first.keys[:, 0] == code)
            for key, parts in _compared(split, evaluator, known):
                self._add_sums(key, parts, blocks, rows, known)
            self._keep(split, evaluator, blocks, rows)

    def _add_sums(
        self,
        key: ScoreKey,
        parts: Mapping[str, float],
        blocks: Mapping[str, ScoreBlock],
        rows: np.ndarray,
        known: _Known,
    ) -> None:
        models = [m for m in blocks if all((key.measure, part) in known[m] for part in parts)]
        values = [[blocks[m].values(key.measure, part) for part in parts] for m in models]
        counts = None
        if MEASURES[key.measure].pooling != "sentences":
            cells = [[blocks[m].cells.get((key.measure, part)) for part in parts] for m in models]
            found = [[c.counts for c in own if c and c.counts is not None] for own in cells]
            if all(len(own) == len(parts) for own in found):
                counts = _stacked(found)[rows]
        documents = next(iter(blocks.values())).keys[rows, 1]
        sums = _Sums(models, BLEU_NAMES.get(key.measure, 0), list(parts.values()))
        self.sums.setdefault(key, sums).add(documents, _stacked(values)[rows], counts)

    def _keep(
        self, split: str, evaluator: str, blocks: Mapping[str, ScoreBlock], rows: np.ndarray
    ) -> None:
        """Keep the values of predictions on the sentences of some groups."""
        first = next(iter(blocks.values()))
        rows = rows[np.isin(first.groups[rows], self.splits[split].kept)]
        keys = np.column_stack([first.keys[rows, 1:], first.groups[rows]])
        self.kept.setdefault((split, evaluator), []).append(keys)
        measures = {m: None for block in blocks.values() for m, kind in block.cells}
        empty = first._replace(cells={})
        for measure in measures:
            held = (blocks.get(model, empty) for model in self.models)
            columns = [block.values(measure, PREDICTED) for block in held]
            parts = self.values.setdefault(split, {}).setdefault((evaluator, measure), [])
            parts.append(np.stack(columns, 1)[rows])


def _stacked(columns: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Stack arrays (N, …) of each of M models and P parts, (N, M, P, …)."""
    return np.stack([np.stack(own, 1) for own in columns], 1)


def _compared(
    split: str, evaluator: str, known: _Known
) -> Iterator[tuple[ScoreKey, Mapping[str, float]]]:
    """List what there is to compare, with its parts, in the order of the table of measures."""
    for measure in MEASURES:
        for kind, parts in KIND_PARTS.items():
            if any(all((measure, part) in own for part in parts) for own in known.values()):
                yield ScoreKey(split, evaluator, measure, kind), parts


def read_paired_scores(paths: Sequence[str], limit: int) -> PairedScores:
    """Read the scores of all models and evaluators, however they are cut.

    `paths` are of schema ``semantic_scores``, in folders ``{model}/{evaluator}``; block n of every
    model and evaluator is of the same sentences. Of some `limit` sentences of each split, those of
    groups in a random order, the values are kept.
    """
    owners = shards_by_owner(paths)
    models = list(dict.fromkeys(model for own in owners.values() for model in own))
    some = next(iter(next(iter(owners.values())).values()))
    keys = [read_block(path)._replace(cells={}) for path in some]
    collector = _Collector(models, _splits(keys, limit))
    for evaluator, own in owners.items():
        for model, held in own.items():
            if len(held) != len(keys):
                said = f"'{model}' has {len(held)} shards by '{evaluator}', others have {len(keys)}"
                wanted = "give all shards of all models and evaluators"
                raise InputError(f"{held[-1]}: {said}; {wanted}")
        known = {model: known_scores(held) for model, held in own.items()}
        for place, first in enumerate(keys):
            blocks = {model: read_block(held[place]) for model, held in own.items()}
            check_alike([first, *blocks.values()])
            collector.add(evaluator, blocks, known)
    return _finished(collector)


def _splits(blocks: Sequence[ScoreBlock], limit: int) -> dict[str, _Split]:
    parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for block in blocks:
        for code, split in enumerate(block.splits):
            rows = block.keys[:, 0] == code
            parts.setdefault(split, []).append((block.keys[rows, 1], block.groups[rows]))
    return {split: _Split(held, limit) for split, held in parts.items()}


def _finished(collector: _Collector) -> PairedScores:
    splits = collector.splits
    sums = {
        key: held.total(splits[key.split].documents, splits[key.split].code)
        for key, held in collector.sums.items()
    }
    sentences: dict[str, SentenceValues] = {}
    for (split, evaluator), parts in collector.kept.items():
        keys = np.concatenate(parts)
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        own = {
            key: np.concatenate(held)[order]
            for key, held in collector.values[split].items()
            if key[0] == evaluator
        }
        if split in sentences:
            sentences[split].values.update(own)
        else:
            sentences[split] = SentenceValues(keys[order, 2], collector.models, own)
    return PairedScores(collector.models, sums, {s: splits[s].groups for s in splits}, sentences)
