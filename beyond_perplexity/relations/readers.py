"""What each paper's files say of models, as sums over test documents, and of their texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.contrastive.sums import ContrastSums, read_sums
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import group_key
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.relations.document_sums import DocumentSums
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.schemas.semantics import PREDICTED
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.semantics.paired_scores import GroupSums, ScoreKey, read_paired_scores
from beyond_perplexity.semantics.rows import CROSS_ENTROPY, MEASURES
from beyond_perplexity.storage.shards import check_schema
from beyond_perplexity.tendencies.rows import TENDENCIES

PERPLEXITY = "perplexity"
# Of several forms of one measure one is related: these are left out.
OTHER_FORMS = frozenset(
    {
        *("bleu_3", "aligned_cosine", "cosine", "greedy_precision", "greedy_recall", "inner"),
        CROSS_ENTROPY,  # the perplexity of fewer sentences
    }
)
_BITS = math.log(2)


def _scored_texts(path: str) -> pa.Table:
    with check_schema(path, DOCUMENT_SCORES) as file:
        table: pa.Table = file.read(columns=DOCUMENT_SCORES.names)
    return table


def _columns(table: pa.Table, text: str) -> dict[str, Any]:
    table = table.filter(pc.equal(table["scored_text"], text))
    found = {name: table[name].to_numpy() for name in ("doc_id", "bytes", "log_likelihood")}
    if table["log_likelihood_spelled"].null_count == 0:
        found["log_likelihood"] = table["log_likelihood_spelled"].to_numpy()
    order = np.argsort(found["doc_id"], kind="stable")
    keys = map(group_key, table["group"].to_pylist(), found["doc_id"].tolist())
    found["group"] = np.fromiter(keys, np.int64, len(table))
    return {name: column[order] for name, column in found.items()}


def perplexity_sums(paths: Sequence[str]) -> tuple[DocumentSums | None, list[str]]:
    """Read bits per byte, in which models of any vocabulary compare.

    Parameters
    ----------
    paths : sequence of str
        ``{model}.parquet``, schema ``document_scores``. Cleaned text is taken where any model is
        scored on it, with spellings where there are any. The end of a document counts as a byte.

    Returns
    -------
    sums : DocumentSums or None
    others : list of str
        Models that are not scored on that text.

    Raises
    ------
    InputError
        When models are scored on other documents.
    """
    tables = {Path(path).stem: _scored_texts(path) for path in paths}
    texts = {name: set(table["scored_text"].to_pylist()) for name, table in tables.items()}
    kinds = sorted({kind for held in texts.values() for kind in held})  # cleaned before raw
    if not kinds:
        return None, list(tables)
    held = {n: _columns(t, kinds[0]) for n, t in tables.items() if kinds[0] in texts[n]}
    (first, one), *others = held.items()
    for name, other in others:
        if not all(np.array_equal(one[key], other[key]) for key in ("doc_id", "bytes", "group")):
            raise InputError(f"{name}: was scored on other documents than {first}; score both anew")
    bits = np.stack([-own["log_likelihood"] / _BITS for own in held.values()], 1)
    groups, code = np.unique(one["group"], return_inverse=True)
    sizes = np.bincount(code, one["bytes"] + 1.0)
    found = DocumentSums(
        PERPLEXITY,
        PERPLEXITY,
        "Bits per byte",
        False,
        list(held),
        groups,
        _summed(code, bits, len(groups)),
        np.repeat(sizes[:, None], len(held), 1),
    )
    return found, [name for name in tables if name not in held]


def _summed(code: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    found = np.zeros((groups, *values.shape[1:]))
    np.add.at(found, code, values)
    return found


def _by_folder(paths: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(Path(path).parent.name, []).append(path)
    return found


def contrast_sums(paths: Sequence[str], level: float, base_level: float) -> Iterator[DocumentSums]:
    """Read contrastive entropy per word of models with a likelihood, and its ratio of all.

    Parameters
    ----------
    paths : sequence of str
        Shards, schema ``contrast_scores``, in folders of models.
    level, base_level : float
        That of the entropy, and what the ratio divides by.

    Raises
    ------
    InputError
        When models are scored on other documents, or not at these levels.
    """
    held = {name: read_sums(own) for name, own in _by_folder(paths).items()}
    held = {n: s for n, s in held.items() if np.isfinite(s.scores).all() and _has(n, s, level)}
    if not held:
        return
    first = next(iter(held.values()))
    for name, sums in held.items():
        if not np.array_equal(sums.unit_ids, first.unit_ids):
            raise InputError(f"{name}: was scored on other documents than others; score all anew")
    groups, code = np.unique(first.groups, return_inverse=True)

    def of(names: list[str], measure: str, title: str, below: np.ndarray) -> DocumentSums:
        lost = np.stack([held[name].mean(level) for name in names], 1)
        above, under = (_summed(code, values, len(groups)) for values in (lost, below))
        return DocumentSums(
            f"contrastive/{measure}", "contrastive", title, True, names, groups, above, under
        )

    known = [name for name, sums in held.items() if not sums.sentence_level]
    if known and first.keeps_length():
        words = np.stack([held[name].size("word") for name in known], 1)
        yield of(known, "entropy", f"Contrastive entropy at {level:.0%}", words)
    if level != base_level and all(_has(n, s, base_level) for n, s in held.items()):
        base = np.stack([sums.mean(base_level) for sums in held.values()], 1)
        title = f"Contrastive ratio, {level:.0%} to {base_level:.0%}"
        yield of(list(held), "ratio", title, base)


def _has(name: str, sums: ContrastSums, level: float) -> bool:
    if level not in sums.levels:
        known = ", ".join(f"{one:g}" for one in sums.levels)
        raise InputError(f"{name}: was not distorted at level {level:g} (but at {known})")
    return not sums.levels[level].impossible


def semantic_sums(paths: Sequence[str], split: str) -> Iterator[DocumentSums]:
    """Read the measures of predictions on a split; of several forms of a measure one.

    Parameters
    ----------
    paths : sequence of str
        Shards, schema ``semantic_scores``, in folders ``{model}/{evaluator}``.
    split : str

    Raises
    ------
    InputError
        As `read_paired_scores`.
    """
    if not paths:
        return
    paired = read_paired_scores(paths, 1)
    for key, sums in paired.sums.items():
        wanted = key.split == split and key.kind == PREDICTED and key.measure not in OTHER_FORMS
        if wanted and sums.sentences:
            yield _semantic(key, sums, paired.groups[split])


def _semantic(key: ScoreKey, sums: GroupSums, groups: np.ndarray) -> DocumentSums:
    row, held = MEASURES[key.measure], sums.sizes > 0
    sizes = np.repeat(sums.sizes[held, None], len(sums.models), 1)
    return DocumentSums(
        f"semantics/{key.evaluator}.{key.measure}",
        "semantics",
        row.title,
        row.higher,
        sums.models,
        groups[held],
        sums.numerators[held],
        sizes,
        None if sums.counts is None else sums.counts[held][:, :, 0],
        sums.order,
    )


def tendency_rows(paths: Sequence[str], confidence: float) -> Iterator[dict[str, Any]]:
    """Read the excess of every distance over its floor, with its standard error.

    That follows from the upper limit of the distance, which is made of resamples of the documents
    of both texts; a limit of 1 says nothing. Taken for independent, two models' excesses vary at
    most as much as their errors say: both are of the same human text.

    Parameters
    ----------
    paths : sequence of str
        Schema ``tendencies``, of bodies of text.
    confidence : float
        Of the upper limits.

    Yields
    ------
    dict
        A row of schema ``relation_measures``; of brought texts ``external/NAME`` is the model.
    """
    quantile = float(student_quantile(confidence, math.inf))
    for path in paths:
        with check_schema(path, TENDENCY_MEASURES) as file:
            rows = file.read(columns=TENDENCY_MEASURES.names).to_pylist()
        for row in rows:
            tendency = TENDENCIES.get(row["tendency"])
            if tendency and tendency.distance and tendency.distance == row["measure"]:
                yield _tendency_row(row, quantile)


def _tendency_row(row: Mapping[str, Any], quantile: float) -> dict[str, Any]:
    first, _, second = row["source"].partition("/")
    model, decoding = (row["source"], None) if first == "external" else (first, second)
    error = None
    if None not in (row["value"], row["high"]) and row["value"] < row["high"] < 1:
        error = (row["high"] - row["value"]) / quantile
    tendency = TENDENCIES[row["tendency"]]
    return {
        "model": model,
        "decoding": decoding,
        "subject": "tendencies",
        "measure": f"tendencies/{row['tendency']}.{row['measure']}",
        "title": f"{tendency.title} ({tendency.distance_name}), excess",
        "value": row["excess"],
        "error": error,
        "direction": -1,
        "note": "" if row["excess"] is not None else "the distance has no floor",
    }
