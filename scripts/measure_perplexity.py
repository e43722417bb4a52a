"""Score one split of a documents file under a model and write the perplexities to a JSON file."""

from __future__ import annotations

import argparse

import torch
from tqdm import tqdm

from beyond_perplexity.errors import run_command
from beyond_perplexity.models.checkpoint import WEIGHTS, load_model
from beyond_perplexity.perplexity.summary import measure
from beyond_perplexity.storage.provenance import finished, run_record
from beyond_perplexity.storage.shards import read_texts, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="model folder")
    add("--documents", required=True, help="documents file (Parquet)")
    add("--split", default="test", help="split to score (default test)")
    add("--threads", type=int, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", required=True, help="JSON file to write")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, vocabulary, _ = load_model(options.model, options.device)
    record = run_record(
        "scripts/measure_perplexity.py",
        {"split": options.split},
        device=str(model.device),
        checkpoint=f"{options.model}/{WEIGHTS}",
    )
    batches = read_texts([options.documents], options.split)
    texts = (text for batch in batches for text in batch.to_pylist())
    summary = measure(model, vocabulary, tqdm(texts, unit="document", mininterval=2.0))
    write_json(options.output, {**summary, "split": options.split, "record": finished(record)})


if __name__ == "__main__":
    run_command(main)
