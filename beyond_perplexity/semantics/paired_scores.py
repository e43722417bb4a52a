"""Scores of several models on the same sentences, side by side.

N sentences, G groups, M models, P parts (a prediction, and its partner where that is taken off), K
counts that a pooled measure is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas import semantics
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.storage.shards import check_schema

EXCESS_KIND = "excess"
# What a compared kind is made of, and how often each is counted: see `model_measures`.
KIND_PARTS: dict[str, dict[str, float]] = {
    semantics.PREDICTED: {semantics.PREDICTED: 1.0},
    semantics.SAMPLED: {semantics.SAMPLED: 1.0},
    semantics.CONTINUED: {semantics.CONTINUED: 1.0},
    EXCESS_KIND: {semantics.PREDICTED: 1.0, semantics.PARTNER_OF[semantics.PREDICTED]: -1.0},
    semantics.PROPER: {semantics.SAMPLED: 1.0, semantics.SPREAD: -0.5},
}


_SENTENCE, _CELL = ["split", "unit_id", "sentence"], ["measure", "kind"]


class ScoreBlock(NamedTuple):
    """The sentences of one file, sorted; rows of all three tables are the same."""

    path: str
    sentences: pd.DataFrame  # split, unit_id, sentence, group: the key of what it belongs to
    values: pd.DataFrame  # by measure and kind: NaN where not defined
    statistics: pd.DataFrame  # likewise: arrays (K,)


def read_block(path: str) -> ScoreBlock:
    """Read a shard, schema ``semantic_scores``."""
    with check_schema(path, semantics.SEMANTIC_SCORES) as file:
        frame = file.read(columns=semantics.SEMANTIC_SCORES.names).to_pandas()
    unknown = sorted({*frame["measure"]} - {*MEASURES})
    if unknown:
        raise InputError(f"{path}: there is no measure '{unknown[0]}'; score anew")
    twice = frame.loc[frame.duplicated(_SENTENCE + _CELL), "measure"]
    if len(twice):
        raise InputError(f"{path}: a sentence has two values of '{twice.iloc[0]}'; score anew")
    sentences = frame.drop_duplicates(_SENTENCE).sort_values(_SENTENCE, ignore_index=True)
    sentences["group"] = [
        group_key(None if pd.isna(title) else title, unit)
        for title, unit in zip(sentences["group"], sentences["unit_id"], strict=True)
    ]
    wide = frame.set_index(_SENTENCE + _CELL)[["value", "statistics"]].unstack(_CELL)
    wide = wide.reset_index(drop=True)  # by what it was sorted
    cells = list(map(tuple, frame[_CELL].drop_duplicates().to_numpy()))  # in the file's order
    values, statistics = (wide[name][cells] for name in ("value", "statistics"))
    return ScoreBlock(path, sentences[[*_SENTENCE, "group"]], values, statistics)


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


def known_scores(paths: Sequence[str]) -> set[tuple[str, str]]:
    """Name the measures and kinds that files have values of, none infinite (with no mean)."""
    found: set[tuple[str, str]] = set()
    infinite: set[tuple[str, str]] = set()
    for path in paths:
        with check_schema(path, semantics.SEMANTIC_SCORES) as file:
            frame = file.read(columns=[*_CELL, "value"]).to_pandas().dropna()
        for names, rows in ((found, frame), (infinite, frame[np.isinf(frame["value"])])):
            names |= set(zip(rows["measure"], rows["kind"], strict=True))
    return found - infinite


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
class PairedScores:
    """All that models are compared by."""

    sums: dict[ScoreKey, GroupSums]
    # int64, (G,): keys of the groups of each split, in the order of all sums
    groups: dict[str, np.ndarray]
    # Of some sentences of each split what predictions score, NaN where not defined: rows have
    # unit_id, sentence and the key of the group, columns evaluator, model and measure.
    sentences: dict[str, pd.DataFrame]


class _Split:
    """What is known of the sentences of a split: documents, their groups, which are kept."""

    def __init__(self, sentences: pd.DataFrame, limit: int) -> None:
        self.documents, first = np.unique(sentences["unit_id"], return_index=True)
        own = sentences["group"].to_numpy()[first]
        self.groups, self.code = np.unique(own, return_inverse=True)
        sizes = sentences["group"].value_counts().sort_index()
        # Keys are hashes: their order is a random one of the groups.
        self.kept = sizes.index[: max(1, int((sizes.cumsum() <= limit).sum()))]


class _DocumentSums(NamedTuple):
    """Sums as in `GroupSums`, over the sentences of D documents of a block; left_out: of none."""

    documents: np.ndarray
    numerators: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray | None
    sentences: int
    left_out: int


def summed(code: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Add rows of values (N, …), one by one, to those of their numbers (N,): (size, …)."""
    found = np.zeros((size, *values.shape[1:]))
    np.add.at(found, code, values)
    return found


def _sum_documents(
    measure: str, parts: Mapping[str, float], blocks: Sequence[ScoreBlock], rows: np.ndarray
) -> _DocumentSums:
    """Sum what models score, a block each, on the sentences of some rows."""
    cells = [(measure, part) for part in parts]
    values = np.stack([block.values.reindex(columns=cells).to_numpy()[rows] for block in blocks], 1)
    known = np.isfinite(values).all(axis=(1, 2))  # of values (N, M, P)
    sentences, order = int(known.sum()), BLEU_NAMES.get(measure)
    held, values, weights, counts = rows[known], values[known], np.ones(sentences), None
    if sentences and MEASURES[measure].pooling != "sentences":
        counts = np.array(
            [[block.statistics[cell][held].tolist() for cell in cells] for block in blocks], float
        ).transpose(2, 0, 1, 3)  # (N, M, P, K)
        weights = weights if order else counts[:, 0, 0, 0]
    documents, code = np.unique(blocks[0].sentences["unit_id"][held], return_inverse=True)
    own = values @ np.array([*parts.values()]) * weights[:, None]
    size = len(documents)
    sums = summed(code, own, size), np.bincount(code, weights, size)
    matches = None if counts is None or not order else summed(code, counts, size)
    return _DocumentSums(documents, *sums, matches, sentences, len(rows) - sentences)


def _sum_groups(
    key: ScoreKey, models: list[str], parts: Sequence[_DocumentSums], split: _Split
) -> GroupSums:
    """Sum documents of all blocks, in the order of their numbers, over groups."""
    held = np.concatenate([part.documents for part in parts])
    order = np.argsort(held, kind="stable")
    indices = split.code[np.searchsorted(split.documents, held[order])]

    def total(columns: Sequence[np.ndarray]) -> np.ndarray:
        return summed(indices, np.concatenate(columns)[order], len(split.groups))

    counts = [part.counts for part in parts if part.counts is not None]
    ratio = total([part.numerators for part in parts]), total([part.sizes for part in parts])
    scored = sum(part.sentences for part in parts), sum(part.left_out for part in parts)
    matches, n = total(counts) if counts else None, BLEU_NAMES.get(key.measure, 0)
    return GroupSums(models, *ratio, matches, n, *scored)


_Known = Mapping[str, set[tuple[str, str]]]  # measures and kinds that a model has values of


def _compared(known: _Known) -> Iterator[tuple[str, str, list[str]]]:
    """List what there is to compare in the order of the table: measure, kind, the models of it."""
    for measure in MEASURES:
        for kind, parts in KIND_PARTS.items():
            models = [m for m, own in known.items() if all((measure, p) in own for p in parts)]
            if models:
                yield measure, kind, models


def read_paired_scores(paths: Sequence[str], limit: int) -> PairedScores:
    """Read shards of ``semantic_scores`` in folders ``{model}/{evaluator}``, block n of each of the
    same sentences; values are kept of some `limit` sentences a split, by random groups."""
    owners = shards_by_owner(paths)
    some = next(iter(next(iter(owners.values())).values()))
    sentences = [read_block(path).sentences for path in some]
    named = pd.concat(sentences).groupby("split", sort=False)
    splits = {str(split): _Split(rows, limit) for split, rows in named}
    sums: dict[ScoreKey, tuple[list[str], list[_DocumentSums]]] = {}
    kept: dict[str, dict[str, list[pd.DataFrame]]] = {split: {} for split in splits}
    for evaluator, own in owners.items():
        known = {model: known_scores(held) for model, held in own.items()}
        for index, blocks in enumerate(_blocks(evaluator, own, some, sentences)):
            for split, rows in sentences[index].groupby("split", sort=False):
                for measure, kind, models in _compared(known):
                    key = ScoreKey(str(split), evaluator, measure, kind)
                    held, parts = [blocks[model] for model in models], KIND_PARTS[kind]
                    found = _sum_documents(measure, parts, held, rows.index.to_numpy())
                    sums.setdefault(key, (models, []))[1].append(found)
                chosen = rows[rows["group"].isin(splits[str(split)].kept)]
                values = _predicted(blocks, chosen)
                kept[str(split)].setdefault(evaluator, []).append(values)
    return PairedScores(
        {key: _sum_groups(key, *held, splits[key.split]) for key, held in sums.items()},
        {name: split.groups for name, split in splits.items()},
        {
            split: pd.concat({e: pd.concat(parts) for e, parts in own.items()}, axis=1).sort_index()
            for split, own in kept.items()
        },
    )


def _blocks(
    evaluator: str,
    own: Mapping[str, Sequence[str]],
    some: Sequence[str],
    sentences: Sequence[pd.DataFrame],
) -> Iterator[dict[str, ScoreBlock]]:
    """Read the blocks of all models; each has the sentences of the same block of `some`."""
    for model, held in own.items():
        if len(held) != len(some):
            said = f"'{model}' has {len(held)} shards by '{evaluator}', others have {len(some)}"
            wanted = "give all shards of all models and evaluators"
            raise InputError(f"{held[-1]}: {said}; {wanted}")
    for index, path in enumerate(some):
        blocks = {model: read_block(held[index]) for model, held in own.items()}
        for block in blocks.values():
            if not block.sentences.equals(sentences[index]):
                advice = "score all models on the same sentences"
                raise InputError(f"{block.path}: is of other sentences than {path}; {advice}")
        yield blocks


def _predicted(blocks: Mapping[str, ScoreBlock], rows: pd.DataFrame) -> pd.DataFrame:
    """Return what predictions score on some sentences, by model and measure."""
    told = semantics.PREDICTED
    own = {m: block.values.xs(told, axis=1, level="kind") for m, block in blocks.items()}
    index = pd.MultiIndex.from_frame(rows[["unit_id", "sentence", "group"]])
    return pd.concat(own, axis=1).loc[rows.index].set_index(index)
