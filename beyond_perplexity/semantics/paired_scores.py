"""Scores of several models on the same sentences, side by side.

N sentences, G groups of documents, M models, C measures, P parts (what is predicted, and its
partner where the partner is taken off), K counts that a pooled measure is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.semantics import PREDICTED
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES
from beyond_perplexity.semantics.score_blocks import (
    KIND_PARTS,
    ScoreBlock,
    check_alike,
    known_scores,
    read_block,
    shards_by_owner,
)

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
        counts = found[2] if len(found) > 2 else None
        own, sizes = found[:2]
        return GroupSums(self.models, own, sizes, counts, self.order, self.sentences, self.left_out)


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

    def add(
        self,
        evaluator: str,
        blocks: Mapping[str, ScoreBlock],
        known: _Known,
    ) -> None:
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
        held = [[blocks[m].cells.get((key.measure, part)) for part in parts] for m in models]
        count = len(next(iter(blocks.values())).keys)
        nothing = np.full(count, np.nan)
        values = np.stack(
            [np.stack([c.values if c else nothing for c in own], 1) for own in held], 1
        )
        counts = None
        if MEASURES[key.measure].pooling != "sentences" and all(c for own in held for c in own):
            tallies = [[c.counts for c in own if c and c.counts is not None] for own in held]
            counts = np.stack([np.stack(own, 1) for own in tallies], 1)[rows]
        documents = next(iter(blocks.values())).keys[rows, 1]
        order = BLEU_NAMES.get(key.measure, 0)
        held_sums = self.sums.setdefault(key, _Sums(models, order, list(parts.values())))
        held_sums.add(documents, values[rows], counts)

    def _keep(
        self, split: str, evaluator: str, blocks: Mapping[str, ScoreBlock], rows: np.ndarray
    ) -> None:
        """Keep the values of predictions on the sentences of some groups."""
        first = next(iter(blocks.values()))
        rows = rows[np.isin(first.groups[rows], self.splits[split].kept)]
        keys = np.column_stack([first.keys[rows, 1:], first.groups[rows]])
        self.kept.setdefault((split, evaluator), []).append(keys)
        measures = {m: None for block in blocks.values() for m, kind in block.cells}
        nothing = np.full(len(first.keys), np.nan)
        for measure in measures:
            columns = [
                blocks[model].cells[measure, PREDICTED].values
                if model in blocks and (measure, PREDICTED) in blocks[model].cells
                else nothing
                for model in self.models
            ]
            parts = self.values.setdefault(split, {}).setdefault((evaluator, measure), [])
            parts.append(np.stack(columns, 1)[rows])


def _compared(
    split: str, evaluator: str, known: _Known
) -> Iterator[tuple[ScoreKey, Mapping[str, float]]]:
    """List what there is to compare, with its parts, in the order of the table of measures."""
    held = {pair for own in known.values() for pair in own}
    for measure in MEASURES:
        for kind, parts in KIND_PARTS.items():
            if any(all((measure, part) in own for part in parts) for own in known.values()) and all(
                (measure, part) in held for part in parts
            ):
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
                raise InputError(
                    f"{held[-1]}: '{model}' has {len(held)} shards by '{evaluator}', others have "
                    f"{len(keys)}; give all shards of all models and evaluators"
                )
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
    groups = {split: held.groups for split, held in splits.items()}
    return PairedScores(collector.models, sums, groups, sentences)
