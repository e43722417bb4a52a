"""Extract a corpus: documents, mentions, graph, aliases, trees, raw text, a report of all skips."""

from __future__ import annotations

import argparse

from beyond_perplexity.arguments import SEED, THREADS, CommandParser, output_path
from beyond_perplexity.corpus.extraction import extract
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.tables import EXTRACTED
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.storage.provenance import run_record


def parse_arguments() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--config", required=True, type=json_object, help="options of the corpus")
    add("--paths", nargs="+", help="files to read instead of source.paths")
    add("--seed", type=SEED, required=True, help="seed of the shuffle")
    add("--workers", type=THREADS, default=1, help="processes (default: 1)")
    for name in EXTRACTED:
        flag = f"--{name.replace('_', '-')}"
        add(flag, type=output_path, required=True, help="Parquet file to write")
    add("--report", type=output_path, required=True, help="JSON file of counts and skips")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    config = arguments.config
    if arguments.paths and isinstance(config.get("source"), dict):
        config["source"]["paths"] = arguments.paths
    options = ExtractionOptions.from_config(config)
    outputs = {name: getattr(arguments, name) for name in (*EXTRACTED, "report")}
    record = run_record("scripts/extract_corpus.py", config, seed=arguments.seed)
    extract(options, outputs, record, seed=arguments.seed, workers=arguments.workers)


if __name__ == "__main__":
    run_command(main)
