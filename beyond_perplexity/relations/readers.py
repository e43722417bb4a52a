"""Measures of models that are functions of sums over test documents, and so can be resampled.

G groups of documents, M models, R resamples, P parts, K counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.contrastive.entropy import ContrastSums, read_sums
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.permuted_units import effective_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.schemas.relations import RELATION_MEASURES
from beyond_perplexity.schemas.semantics import PREDICTED
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.semantics import paired_scores
from beyond_perplexity.semantics.bleu import bleu_of
from beyond_perplexity.semantics.measures import CROSS_ENTROPY, MEASURES
from beyond_perplexity.semantics.paired_scores import GroupSums, ScoreKey
from beyond_perplexity.signature import refuse_mixed, signature_in
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.storage.shards import check_schema
from beyond_perplexity.tendencies.definitions import EMBEDDING, TENDENCIES

_BLOCK = 64  # resamples that are held at once


@dataclass(frozen=True, eq=False)
class DocumentSums:
    """Sums of one measure over groups of documents, sorted keys (G,), of models: a ratio's parts
    (G, M), or BLEU's `counts` (G, M, K); `higher`: more is better."""

    measure: str
    subject: str
    title: str
    higher: bool
    models: list[str]
    groups: np.ndarray
    numerators: np.ndarray
    denominators: np.ndarray
    counts: np.ndarray | None = None
    order: int = 0

    @property
    def effective(self) -> float:
        """Effective number of groups, by the sizes of the first model."""
        return effective_groups(self.denominators[:, 0])

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the measure where groups count so often: weights (R, G) give (R, M)."""
        if self.counts is not None:
            total = np.tensordot(weights, self.counts, 1)
            return bleu_of(total, self.order)
        held = np.where(np.isfinite(self.numerators), self.numerators, 0.0)
        above, below = weights @ held, weights @ self.denominators
        infinite = weights @ ~np.isfinite(self.numerators).astype(bool)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: np.ndarray = above / below
        return np.where(infinite > 0, math.inf, found)

    def whole(self) -> np.ndarray:
        """Return the measure of all groups, (M,)."""
        return self.values(np.ones((1, len(self.groups))))[0]

    def known(self) -> dict[str, float]:
        """Return what is finite of all groups, by model."""
        held = zip(self.models, self.whole().tolist(), strict=True)
        return {model: value for model, value in held if math.isfinite(value)}


def resample_weights(groups: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often groups are drawn, float64 (r, G); each resample has a random stream."""
    for first in range(0, resamples, _BLOCK):
        rows = range(first, min(resamples, first + _BLOCK))
        rngs = (stream(seed, "relations/documents", row) for row in rows)
        drawn = [np.bincount(rng.integers(0, groups, groups), minlength=groups) for rng in rngs]
        yield np.stack(drawn).astype(float)


def resampled_values(
    held: Sequence[DocumentSums], resamples: int, seed: int
) -> dict[str, np.ndarray]:
    """Compute measures in R resamples of the same documents or groups: (R, M) by key."""
    if not held:
        return {}
    union = np.unique(np.concatenate([one.groups for one in held]))
    indices = {one.measure: np.searchsorted(union, one.groups) for one in held}
    parts: dict[str, list[np.ndarray]] = {one.measure: [] for one in held}
    for weights in resample_weights(len(union), resamples, seed):
        for one in held:
            parts[one.measure].append(one.values(weights[:, indices[one.measure]]))
    return {name: np.concatenate(found) for name, found in parts.items()}


PERPLEXITY = "perplexity"
# Of several forms of one measure one is related: these are left out.
OTHER_FORMS = frozenset(
    {
        *("bleu_3", "aligned_cosine", "cosine", "greedy_precision", "greedy_recall", "inner"),
        CROSS_ENTROPY,  # the perplexity of fewer sentences
    }
)
_BITS = math.log(2)


def _columns(table: pa.Table, text: str) -> dict[str, Any]:
    table = table.filter(pc.equal(table["scored_text"], text))
    found = {name: table[name].to_numpy() for name in ("doc_id", "bytes", "log_likelihood")}
    if table["log_likelihood_open_vocabulary"].null_count == 0:
        found["log_likelihood"] = table["log_likelihood_open_vocabulary"].to_numpy()
    order = np.argsort(found["doc_id"], kind="stable")
    keys = map(group_key, table["group"].to_pylist(), found["doc_id"].tolist())
    found["group"] = np.fromiter(keys, np.int64, len(table))
    return {name: column[order] for name, column in found.items()}


def perplexity_sums(paths: Sequence[str]) -> tuple[DocumentSums | None, list[str]]:
    """Read bits per byte, ends counting as a byte, of ``{model}.parquet``, on cleaned text where
    any model is, and the models that are not; other documents are an `InputError`."""
    tables, footers = {}, {}
    for path in paths:
        with check_schema(path, DOCUMENT_SCORES) as file:
            tables[Path(path).stem] = file.read(columns=DOCUMENT_SCORES.names)
            footers[path] = file.metadata.metadata
    texts = {name: set(table["scored_text"].to_pylist()) for name, table in tables.items()}
    kinds = sorted({kind for held in texts.values() for kind in held})  # cleaned before raw
    if not kinds:
        return None, list(tables)
    refuse_mixed({path: signature_in(path, held, kinds[0]) for path, held in footers.items()})
    held = {n: _columns(t, kinds[0]) for n, t in tables.items() if kinds[0] in texts[n]}
    (first, one), *others = held.items()
    for name, other in others:
        if not all(np.array_equal(one[key], other[key]) for key in ("doc_id", "bytes", "group")):
            raise InputError(f"{name}: was scored on other documents than {first}; score both anew")
    bits = np.stack([-own["log_likelihood"] / _BITS for own in held.values()], 1)
    groups, code = np.unique(one["group"], return_inverse=True)
    sizes = np.bincount(code, one["bytes"] + 1.0)
    about = PERPLEXITY, PERPLEXITY, "Bits per byte", False
    sums = paired_scores.summed(code, bits, len(groups)), np.repeat(sizes[:, None], len(held), 1)
    found = DocumentSums(*about, list(held), groups, *sums)
    return found, [name for name in tables if name not in held]


def _by_folder(paths: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(Path(path).parent.name, []).append(path)
    return found


def contrast_sums(paths: Sequence[str], level: float) -> Iterator[DocumentSums]:
    """Read contrastive entropy per word of models with a likelihood (the ratio has no direction of
    quality); other documents, or not this level, are an `InputError`."""
    held = {name: read_sums(own) for name, own in _by_folder(paths).items()}
    refuse_mixed({path: line for one in held.values() for path, line in one.signatures.items()})
    held = {n: s for n, s in held.items() if np.isfinite(s.scores).all() and _has(n, s, level)}
    held = {name: sums for name, sums in held.items() if not sums.sentence_level}
    if not held:
        return
    first = next(iter(held.values()))
    for name, sums in held.items():
        if not np.array_equal(sums.unit_ids, first.unit_ids):
            raise InputError(f"{name}: was scored on other documents than others; score all anew")
    if not first.keeps_length():
        return
    groups, code = np.unique(first.groups, return_inverse=True)
    lost = np.stack([sums.mean(level) for sums in held.values()], 1)
    words = np.stack([sums.size("word") for sums in held.values()], 1)
    above, below = (paired_scores.summed(code, values, len(groups)) for values in (lost, words))
    about = "contrastive/entropy", "contrastive", f"Contrastive entropy at {level:.0%}", True
    yield DocumentSums(*about, list(held), groups, above, below)


def _has(name: str, sums: ContrastSums, level: float) -> bool:
    if level not in sums.levels:
        known = ", ".join(f"{one:g}" for one in sums.levels)
        raise InputError(f"{name}: was not distorted at level {level:g} (but at {known})")
    return not sums.levels[level].impossible


def semantic_sums(paths: Sequence[str], split: str) -> Iterator[DocumentSums]:
    """Read the measures of predictions on a split, of ``{model}/{evaluator}``; of forms one."""
    if not paths:
        return
    paired = paired_scores.read_paired_scores(paths, 1)
    for key, sums in paired.sums.items():
        wanted = key.split == split and key.kind == PREDICTED and key.measure not in OTHER_FORMS
        if wanted and sums.sentences:
            yield _semantic(key, sums, paired.groups[split])


def _semantic(key: ScoreKey, sums: GroupSums, groups: np.ndarray) -> DocumentSums:
    row, held = MEASURES[key.measure], sums.sizes > 0
    sizes = np.repeat(sums.sizes[held, None], len(sums.models), 1)
    about = f"semantics/{key.evaluator}.{key.measure}", "semantics", row.title, row.higher
    counts = None if sums.counts is None else sums.counts[held][:, :, 0]
    ratio = sums.numerators[held], sizes
    return DocumentSums(*about, sums.models, groups[held], *ratio, counts, sums.order)


def tendency_rows(paths: Sequence[str], confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the excess of every distance over its baseline, with its standard error.

    That of vectors is the jackknife's; else it follows from the upper limit (of a `confidence`) of
    the distance over resamples of both texts; a limit of 1 says nothing. Taken for independent, two
    models' excesses vary at most as much as their errors say: both are of the same human text.
    """
    quantile = float(student_quantile(confidence, math.inf))
    signatures: dict[str, str | None] = {}
    for path in paths:
        with check_schema(path, TENDENCY_MEASURES) as file:
            signatures[path] = signature_in(path, file.metadata.metadata)
            refuse_mixed(signatures)
            rows = file.read(columns=TENDENCY_MEASURES.names).to_pylist()
        errors = {_text_of(row): row["value"] for row in rows if row["measure"] == "standard_error"}
        for row in rows:
            tendency = TENDENCIES.get(row["tendency"])
            # The matrix is of the first family: each further row adjusts all of its tests.
            if tendency and not tendency.family and tendency.distance == row["measure"] != "":
                error = errors.get(_text_of(row)) or _limit_error(row, quantile)
                yield _tendency_row(row, error)


def _text_of(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["source"], row["tendency"]


def _limit_error(row: Mapping[str, Any], quantile: float) -> float | None:
    # A limit is of all documents, which the value is not where its baseline is of halves.
    value = row["value"] if row["value_all"] is None else row["value_all"]
    known = None not in (value, row["high"]) and value < row["high"] < 1
    return (row["high"] - value) / quantile if known and row["tendency"] != EMBEDDING else None


def _tendency_row(row: Mapping[str, Any], error: float | None) -> dict[str, Any]:
    first, _, second = row["source"].partition("/")
    model, decoding = (row["source"], None) if first == "external" else (first, second)
    tendency = TENDENCIES[row["tendency"]]
    title = f"{tendency.title} ({tendency.distance_name}), excess"
    names = "tendencies", f"tendencies/{row['tendency']}.{row['measure']}", title
    note = "" if row["excess"] is not None else "the distance has no baseline"
    return measure_row(model, decoding, *names, row["excess"], error, -1, note)


def measure_row(*columns: Any) -> dict[str, Any]:
    """Make a row of schema ``relation_measures``, of its columns in order; a family by itself."""
    return dict(zip(RELATION_MEASURES.names, (*columns, columns[0]), strict=True))
