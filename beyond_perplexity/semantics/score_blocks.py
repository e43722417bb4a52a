"""One shard of semantic scores of a model by an evaluator: sentences in order, values by measure.

N sentences, K counts that a pooled measure is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.storage.shards import check_schema

EXCESS_KIND = "excess"
# What a compared kind is made of, and how often each is counted.
KIND_PARTS: dict[str, dict[str, float]] = {
    PREDICTED: {PREDICTED: 1.0},
    SAMPLED: {SAMPLED: 1.0},
    CONTINUED: {CONTINUED: 1.0},
    EXCESS_KIND: {PREDICTED: 1.0, PARTNER_OF[PREDICTED]: -1.0},
    PROPER: {SAMPLED: 1.0, SPREAD: -0.5},  # see `summary`
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


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    coded = column.combine_chunks().dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()


def read_block(path: str) -> ScoreBlock:
    """Read a shard, schema ``semantic_scores``."""
    with check_schema(path, SEMANTIC_SCORES) as file:
        table = file.read(columns=SEMANTIC_SCORES.names)
    named, names = _codes(table["split"])
    order = np.argsort(names)
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    columns = (place[named], *(table[name].to_numpy() for name in ("unit_id", "sentence")))
    keys, first, sentence = np.unique(
        np.stack(columns, 1).astype(np.int64), axis=0, return_index=True, return_inverse=True
    )
    groups = [
        group_key(group, unit)
        for group, unit in zip(
            table["group"].take(pa.array(first)).to_pylist(), keys[:, 1].tolist(), strict=True
        )
    ]
    splits = [names[one] for one in order]
    cells = _read_cells(path, table, sentence.ravel(), len(keys))
    return ScoreBlock(path, splits, keys, np.array(groups, np.int64), cells)


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
        if not same or not np.array_equal(other.groups, first.groups):
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
