"""Shards of semantic scores as the workflow makes them, with known truth, for tests."""

from itertools import product
from typing import NamedTuple

import numpy as np
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


def sentences(n=120, per_document=3, splits=("valid", "test"), seed=1):
    random = np.random.default_rng(seed)
    per_split = [np.arange(n) // per_document for _ in splits]
    unit = np.concatenate([u + 1000 * k for k, u in enumerate(per_split)])
    place = np.tile(np.arange(n) % per_document, len(splits))
    words, ease = random.integers(4, 30, len(unit)), random.normal(size=len(unit))
    of_splits = [split for split in splits for _ in range(n)]
    return Sentences(of_splits, unit, place, [None] * len(unit), words, ease)


def _values(measure, kind, text, skill, random):
    ease = text.ease + skill + random.normal(size=len(text.unit))
    share = 1 / (1 + np.exp(-(ease if "partner" not in kind else ease * 0.2 - 1)))
    row = MEASURES[measure]
    if not row.higher:
        return 9 - 4 * share
    return row.low + (row.high - row.low) * share


def _bleu_counts(order, words, share):
    found = []
    for length, part in zip(words.tolist(), share.tolist(), strict=True):
        totals = [max(0, length - n) for n in range(order)]
        matches = [int(total * part ** (1 + n)) for n, total in enumerate(totals)]
        found.append([length, length, *matches, *totals])
    return found


def score_table(model, evaluator, text, skill, measures, *, kinds=KINDS, seed=1):
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
            names = {"model": model, "evaluator": evaluator, "measure": measure, "kind": kind}
            columns = {name: [held] * len(values) for name, held in names.items()}
            columns |= {"split": text.split, "unit_id": text.unit, "group": text.group}
            columns |= {"sentence": text.place, "value": values, "statistics": counts}
            parts.append(pa.table(columns, SEMANTIC_SCORES))
    return pa.concat_tables(parts)


def write_scores(folder, skills, text, *, evaluators=EVALUATORS, blocks=1, kinds=KINDS):
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


def make_semantics(skills, *, evaluators=EVALUATORS, splits=("valid", "test")):
    """Measures of models: the value is 0.5 plus a tenth of the skill, the baseline 0.3."""
    rows = []
    named = [(name, measure) for name, held in evaluators.items() for measure in held]
    kinds = ("predicted", "sampled", "proper")
    for model, split, (evaluator, measure), kind in product(skills, splits, named, kinds):
        row = dict.fromkeys(SEMANTICS.names) | {"model": model, "split": split, "kind": kind}
        value = 6 - skills[model]
        if MEASURES[measure].higher:
            value = 0.5 + skills[model] / 10 - 0.1 * (kind != "predicted")
            limits = {"excess_low": value - 0.33, "excess_high": value - 0.27}
            row |= {"baseline": 0.3, "excess": value - 0.3, **limits}
        row |= {"value": value, "low": value - 0.02, "high": value + 0.02, "note": ""}
        row |= {"evaluator": evaluator, "measure": measure, "sentences": 120, "groups": 40}
        rows.append(row | {"unknown_target": 0.05, "unknown_predicted": 0.02})
    return pa.Table.from_pylist(rows, SEMANTICS).to_pandas()


def make_probes(evaluators=EVALUATORS):
    """All notice an unrelated sentence; words in another order only those of words' places."""
    rows = []
    named = [(name, measure) for name, held in evaluators.items() for measure in held]
    for (evaluator, measure), probe in product(named, ("identical", "unrelated", "shuffled")):
        blind = probe == "identical" or (probe == "shuffled" and measure == "average")
        row = dict.fromkeys(PROBES.names) | {"evaluator": evaluator, "measure": measure}
        row |= {"probe": probe, "value": 1.0 if blind else 0.4, "noticed": 0.0 if blind else 0.9}
        rows.append(row | {"sentences": 100, "note": ""})
    return pa.Table.from_pylist(rows, PROBES).to_pandas()


def make_human(spearman, file="sts"):
    rows = []
    for (evaluator, measure), value in spearman.items():
        row = dict.fromkeys(HUMAN_CORRELATIONS.names) | {"evaluator": evaluator, "note": ""}
        row |= {"measure": measure, "file": file, "pairs": 500, "undefined": 3}
        for name, own in (("pearson", value - 0.01), ("spearman", value)):
            row |= {name: own, f"{name}_low": own - 0.05, f"{name}_high": own + 0.05}
        rows.append(row)
    return pa.Table.from_pylist(rows, HUMAN_CORRELATIONS).to_pandas()


def make_pair_scores(noise, file="sts"):
    """Give pairs what people gave them and an error of a size; all measures err alike, by size."""
    gold, error = np.random.default_rng(3).normal(size=(2, 500))
    rows = [
        {"evaluator": evaluator, "measure": measure, "file": file, "pair": pair}
        | {"gold": gold[pair], "value": gold[pair] + size * error[pair]}
        for (evaluator, measure), size in noise.items()
        for pair in range(len(gold))
    ]
    return pa.Table.from_pylist(rows, HUMAN_SCORES).to_pandas()
