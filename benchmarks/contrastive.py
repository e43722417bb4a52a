"""Score distorted texts in batches, beside a loop over sentences with the same model.

    python -m benchmarks.contrastive [--results results] [--model transformer] [--sentences 200]

Needs a model of the default run (`snakemake contrastive`). Ten draws at four levels are scored, as
for a table and a coarse curve. The loop distorts a sentence word by word as the authors' program
does, and scores one text at a time: with `--documents` the documents of the corpus, by default
each sentence by itself. It does a share of the draws and its time is scaled up; both give the same
scores of the same texts. What batches save is the time between calls: nearly all of a GPU's, while
a core of a CPU spends it on the products of the output layer (9,370 logits a word) either way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from beyond_perplexity.contrastive.scores import (
    PURPOSE,
    Substitutes,
    document_scorer,
    score_versions,
)
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.corpus.sentences import CutDocument, sentence_item, take_units
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.registry import load_model
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

LEVELS = (0.1, 0.3, 0.5, 0.7)
DRAWS = 10
LOOPED = 1  # draws of the loop
SEED = 1


def distort_one(
    words: Sequence[str], candidates: Sequence[str], level: float, key: int, draw: int
) -> list[str]:
    """Distort one sentence word by word."""
    found = list(words)
    numbers = stream(SEED, f"{PURPOSE}/{draw}", key).random((len(found), 3))
    for place, (event, lot, choice) in enumerate(numbers):
        if event >= level:
            continue
        if lot < 0.5:
            found[place] = candidates[int(choice * len(candidates))]
        elif len(found) > 1:
            other = int(choice * (len(found) - 1))
            other += other >= place
            found[place], found[other] = found[other], found[place]
    return found


@torch.no_grad()
def score_one(model: LanguageModel, vocabulary: Vocabulary, text: str) -> float:
    """Score one text."""
    ids = torch.from_numpy(vocabulary.encode([text])[0].astype(np.int64))
    inputs = torch.cat([torch.tensor([BOS]), ids])
    targets = torch.cat([ids, torch.tensor([EOS])])
    log_probs = model(inputs[None].to(model.device))[0].log_softmax(-1)
    return float(log_probs.gather(1, targets[:, None].to(model.device)).sum())


def loop(
    model: LanguageModel,
    vocabulary: Vocabulary,
    units: Sequence[CutDocument],
    candidates: Sequence[str],
) -> list[float]:
    """Score some draws of all levels in a loop, as `score_versions` orders them."""
    scores = []
    for unit in units:
        for level in LEVELS:
            for draw in range(LOOPED):
                held = [
                    distort_one(words, candidates, level, sentence_item(unit.unit_id, k), draw)
                    for k, words in enumerate(unit.sentences)
                ]
                text = " ".join(word for words in held for word in words)
                scores.append(score_one(model, vocabulary, text))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--model", default="transformer")
    parser.add_argument("--corpus", default="wikipedia")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--documents", action="store_true")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    model, vocabulary, _ = load_model(given.results / "models" / given.model, given.device)
    path = given.results / "corpora" / given.corpus / "documents.parquet"
    units = take_units(str(path), "test", 0, given.sentences, seed=SEED, limit=given.sentences)
    if not given.documents:
        units = [
            CutDocument(1000 * unit.unit_id + place, None, [words])
            for unit in units
            for place, words in enumerate(unit.sentences)
        ]
    candidates = vocabulary.describe()["words"]
    scorer, substitutes = document_scorer(model, vocabulary), Substitutes(candidates, "vocabulary")
    arguments = scorer, units, substitutes, dict.fromkeys(LEVELS, (0, DRAWS))
    score_versions(*arguments[:3], {0.5: (0, 1)}, DistortionOptions(), SEED)  # warm up
    began = time.perf_counter()
    rows = score_versions(*arguments, DistortionOptions(), SEED)
    ours = time.perf_counter() - began
    began = time.perf_counter()
    looped = loop(model, vocabulary, units, candidates)
    theirs = (time.perf_counter() - began) * DRAWS / LOOPED
    same = np.asarray(rows["log_score"])[np.asarray(rows["draw"]) < LOOPED]
    assert np.allclose(same, looped, rtol=1e-4), "the loop gives other scores"
    words = int(np.asarray(rows["words"]).sum())
    what = "documents" if given.documents else "sentences"
    threads = f"{model.device}, {torch.get_num_threads()} threads"
    print(
        f"{given.model} on {threads}: {len(units):,} {what}, {DRAWS} draws at {len(LEVELS)} levels"
    )
    print(f"  in batches     {ours:8.2f} s  {words / ours:12,.0f} words/s")
    print(f"  one at a time  {theirs:8.2f} s  {words / theirs:12,.0f} words/s")
    print(f"  ratio          {theirs / ours:8.1f}")


if __name__ == "__main__":
    main()
