"""Predict the sentences of some splits word by word under one model: one shard, a row a sentence.

A prediction depends on the model, the sentence in its document and the seed alone, not on the
shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tqdm import tqdm

from beyond_perplexity.arguments import SEED
from beyond_perplexity.corpus.formats import SPLITS
from beyond_perplexity.corpus.sentences import find_partners
from beyond_perplexity.models.registry import load_model
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.semantics import PREDICTIONS
from beyond_perplexity.semantics.measures import ContinuationOptions, PredictionOptions
from beyond_perplexity.semantics.predictions import predict_sentences
from beyond_perplexity.storage.shards import ShardWriter
from scripts._job import Given, job, json_flag, needed, on_device, output
from scripts._sentences import SENTENCES, take_shard

DOCUMENTS_AT_ONCE = 1024  # changes no number


def read_options(values: Mapping[str, Any]) -> PredictionOptions:
    """Read what a model is asked; raise `InputError` for what is unknown or wrong."""
    held = dict(values)
    if held.get("continuation") is not None:
        where = "options.continuation"
        held["continuation"] = parse_options(ContinuationOptions, held["continuation"], where)
    return parse_options(PredictionOptions, held, "options")


@job(
    needed("--model", "model folder"),
    needed("--splits", "splits to predict", nargs="+", choices=SPLITS),
    *SENTENCES,
    json_flag("--options", "samples, continuation; JSON object"),
    needed("--seed", "seed of the run", SEED),
    on_device,
    output("--output", "Parquet shard to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(given.threads)
    options = read_options(given.options)
    model, vocabulary, _ = load_model(given.model, given.device)
    with ShardWriter(given.output, PREDICTIONS, given.model_record(model)) as writer:
        for split in given.splits:
            units = take_shard(given, split, given.sentences, next(iter(given.limit), None))
            place = {"seed": given.seed, "whole": given.whole}
            partners = find_partners(units, given.documents, split, **place)
            with tqdm(desc=split, unit=" sentences", mininterval=1) as progress:
                for first in range(0, len(units), DOCUMENTS_AT_ONCE):
                    part = slice(first, first + DOCUMENTS_AT_ONCE)
                    asked = (units[part], options)
                    rows = predict_sentences(model, vocabulary, *asked, seed=given.seed)
                    found = [text for texts in partners[part] for text in texts]
                    writer.write({**rows, "partner": found, "split": [split] * len(found)})
                    progress.update(len(found))
