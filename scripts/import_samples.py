"""Read samples that a user brought and write them as one shard of samples, cleaned and tokenized."""

from __future__ import annotations

import argparse
import json

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.samples import import_texts
from beyond_perplexity.errors import run_command
from beyond_perplexity.provenance import content_hash, run_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="file with one document a line")
    parser.add_argument("--format", required=True, choices=["text", "jsonl", "parquet"])
    parser.add_argument("--preprocessing", default="{}", help="options of the cleaning steps, JSON")
    parser.add_argument("--output", required=True, help="shard of samples to write")
    options = parser.parse_args()
    preprocessing = Preprocessing.from_config(json.loads(options.preprocessing))
    record = run_record(
        "scripts/import_samples.py", {**vars(options), "sha256": content_hash(options.input)}
    )
    import_texts(options.input, options.format, preprocessing, options.output, record)


if __name__ == "__main__":
    run_command(main)
