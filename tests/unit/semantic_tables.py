"""Shards of semantic scores as the workflow makes them, with known truth, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.schemas.semantics import (
    HUMAN_CORRELATIONS,
    HUMAN_SCORES,
    PROBES,
    SEMANTIC_SCORES,
    SEMANTICS,
)
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES
from beyond_perplexity.storage.shards import write_shard

KINDS = ("predicted", "sampled", "partner", "sampled_partner")
EVALUATORS = {
    "words": (*BLEU_NAMES, "accuracy", "cross_entropy"),
    "glove": ("aligned_cosine", "cosine", "wmd", "greedy_f1", "average"),
    "infersent": ("similarity", "head"),
}


class Sentences(NamedTuple):
    """Sentences of documents: numbers, place in it, group (a page or none), words."""

    split: list[str]
    unit: np.ndarray
    place: np.ndarray
    group: list[str | None]
    words: np.ndarray
    ease: np.ndarray  # shared by all models


def sentences(
    n: int = 120, per_document: int = 3, splits: Sequence[str] = ("valid", "test"), seed: int = 1
) -> Sentences:
    random = np.random.default_rng(seed)
    per_split = [np.arange(n) // per_document for _ in splits]
    unit = np.concatenate([u + 1000 * k for k, u in enumerate(per_split)])
    place = np.tile(np.arange(n) % per_document, len(splits))
    return Sentences(
        [split for split in splits for _ in range(n)],
        unit,
        place,
        [None] * len(unit),
        random.integers(4, 30, len(unit)),
        random.normal(size=len(unit)),
    )


def _values(
    measure: str, kind: str, text: Sentences, skill: float, random: np.random.Generator
) -> np.ndarray:
    ease = text.ease + skill + random.normal(size=len(text.unit))
    share = 1 / (1 + np.exp(-(ease if "partner" not in kind else ease * 0.2 - 1)))
    row = MEASURES[measure]
    if not row.higher:
        return 9 - 4 * share
    return row.low + (row.high - row.low) * share


def _bleu_counts(order: int, words: np.ndarray, share: np.ndarray) -> list[list[int]]:
    found = []
    for length, part in zip(words.tolist(), share.tolist(), strict=True):
        totals = [max(0, length - n) for n in range(order)]
        matches = [int(total * part ** (1 + n)) for n, total in enumerate(totals)]
        found.append([length, length, *matches, *totals])
    return found


def score_table(
    model: str,
    evaluator: str,
    text: Sentences,
    skill: float,
    measures: Sequence[str],
    *,
    kinds: Sequence[str] = KINDS,
    seed: int = 1,
) -> pa.Table:
    parts = []
    for measure in measures:
        for kind in kinds if measure != "cross_entropy" else ("predicted",):
            random = np.random.default_rng([sum(map(ord, model + measure + kind)), seed])
            values = _values(measure, kind, text, skill, random)
            counts: list[list[int] | None] = [None] * len(values)
            if measure in BLEU_NAMES:
                counts = [*_bleu_counts(BLEU_NAMES[measure], text.words, values)]
            elif MEASURES[measure].pooling == "words":
                counts = [[int(n)] for n in text.words]
            columns = {"model": model, "evaluator": evaluator, "measure": measure, "kind": kind}
            rows = pd.DataFrame({"split": text.split, "unit_id": text.unit, "group": text.group})
            rows = rows.assign(sentence=text.place, value=values, statistics=counts, **columns)
            parts.append(pa.Table.from_pandas(rows, SEMANTIC_SCORES, preserve_index=False))
    return pa.concat_tables(parts)


def write_scores(
    folder: Path,
    skills: Mapping[str, float],
    text: Sentences,
    *,
    evaluators: Mapping[str, Sequence[str]] = EVALUATORS,
    blocks: int = 1,
    kinds: Sequence[str] = KINDS,
) -> list[str]:
    """Write the shards of all models; a block has whole documents of every split."""
    paths = []
    for model, skill in skills.items():
        for evaluator, measures in evaluators.items():
            table = score_table(model, evaluator, text, skill, measures, kinds=kinds)
            block = table["unit_id"].to_numpy() % blocks
            for number in range(blocks):
                path = folder / model / evaluator / f"{number:05d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                part = table.filter(pa.array(block == number))
                write_shard(path, SEMANTIC_SCORES, part, {})
                paths.append(str(path))
    return paths


def make_semantics(
    skills: Mapping[str, float],
    *,
    evaluators: Mapping[str, Sequence[str]] = EVALUATORS,
    splits: Sequence[str] = ("valid", "test"),
) -> pd.DataFrame:
    """Measures of models: the value is 0.5 plus a tenth of the skill, the floor 0.3."""
    rows = []
    cases = product(skills.items(), splits, evaluators.items())
    for (model, skill), split, (evaluator, measures) in cases:
        for measure, kind in product(measures, ("predicted", "sampled", "proper")):
            higher = MEASURES[measure].higher
            value = 0.5 + skill / 10 - 0.1 * (kind != "predicted") if higher else 6 - skill
            known = {**dict.fromkeys(SEMANTICS.names), "model": model, "split": split, "note": ""}
            known |= {"evaluator": evaluator, "measure": measure, "kind": kind, "value": value}
            known |= {"low": value - 0.02, "high": value + 0.02, "sentences": 120, "groups": 40}
            known |= {"unknown_target": 0.05, "unknown_predicted": 0.02}
            if higher:
                known |= {"floor": 0.3, "excess": value - 0.3}
                known |= {"excess_low": value - 0.33, "excess_high": value - 0.27}
            rows.append(known)
    return pa.Table.from_pylist(rows, SEMANTICS).to_pandas()


def make_probes(evaluators: Mapping[str, Sequence[str]] = EVALUATORS) -> pd.DataFrame:
    """All notice an unrelated sentence; words in another order only those of words' places."""
    rows = []
    for evaluator, measures in evaluators.items():
        for measure in measures:
            for probe in ("identical", "unrelated", "shuffled"):
                blind = probe == "identical" or (probe == "shuffled" and measure == "average")
                known = {**dict.fromkeys(PROBES.names), "evaluator": evaluator, "measure": measure}
                known |= {"value": 1.0 if blind else 0.4, "noticed": 0.0 if blind else 0.9}
                rows.append(known | {"probe": probe, "sentences": 100, "note": ""})
    return pa.Table.from_pylist(rows, PROBES).to_pandas()


def make_human(spearman: Mapping[tuple[str, str], float], file: str = "sts") -> pd.DataFrame:
    rows = [
        {**dict.fromkeys(HUMAN_CORRELATIONS.names), "evaluator": evaluator, "measure": measure}
        | {"file": file, "pairs": 500, "undefined": 3, "note": "", "pearson": value - 0.01}
        | {"pearson_low": value - 0.06, "pearson_high": value + 0.04, "spearman": value}
        | {"spearman_low": value - 0.05, "spearman_high": value + 0.05}
        for (evaluator, measure), value in spearman.items()
    ]
    return pa.Table.from_pylist(rows, HUMAN_CORRELATIONS).to_pandas()


def make_pair_scores(noise: Mapping[tuple[str, str], float], file: str = "sts") -> pd.DataFrame:
    """Give pairs what people gave them and an error of a size; all measures err alike, by size."""
    random = np.random.default_rng(3)
    gold, error = random.normal(size=(2, 500))
    rows = [
        {"evaluator": evaluator, "measure": measure, "file": file, "pair": pair}
        | {"gold": gold[pair], "value": gold[pair] + size * error[pair]}
        for (evaluator, measure), size in noise.items()
        for pair in range(len(gold))
    ]
    return pa.Table.from_pylist(rows, HUMAN_SCORES).to_pandas()
