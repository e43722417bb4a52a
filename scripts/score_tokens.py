"""Score every token of a split of a documents file under a model, as Parquet."""

from __future__ import annotations

import torch
from tqdm import tqdm

from beyond_perplexity.models.registry import load_model
from beyond_perplexity.perplexities.score_files import tokens_table
from beyond_perplexity.perplexities.scored_texts import texts_of_split
from beyond_perplexity.perplexities.summary import measure
from beyond_perplexity.schemas.perplexity import TOKEN_SCORES
from beyond_perplexity.storage.shards import ShardWriter
from scripts._job import Given, flag, job, needed, on_device, output
from scripts._sentences import SPLIT_UNIT


@job(
    needed("--model", "model folder"),
    needed("--documents", "documents file (Parquet)"),
    flag("--split", "split to score (default test)", default="test"),
    SPLIT_UNIT,
    on_device,
    output("--output", "Parquet file to write, a row a token"),
)
def main(options: Given) -> None:
    torch.set_num_threads(options.threads)
    model, vocabulary, _ = load_model(options.model, options.device)
    record = options.model_record(model, {"split": options.split, "split_unit": options.split_unit})
    grouped = options.split_unit == "page"
    texts = texts_of_split(options.documents, options.split, grouped=grouped)
    with ShardWriter(options.output, TOKEN_SCORES, record) as writer:
        bar = tqdm(texts, unit="document", mininterval=2.0)
        write = writer.write
        found = measure(model, vocabulary, bar, tokens=lambda *one: write(tokens_table(*one)))
        record["signature"] = {found["text"]: found["signature"]}
