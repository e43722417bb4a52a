"""Extract a corpus: documents, mentions, graph, aliases, trees, raw text, a report of all skips."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED, THREADS, output_path
from beyond_perplexity.corpus.extraction import extract
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.tables import Outputs
from beyond_perplexity.options import json_object
from beyond_perplexity.storage.provenance import run_record
from scripts._job import Given, flag, job, needed


@job(
    needed("--config", "options of the corpus", json_object),
    flag("--paths", "files to read instead of source.paths", nargs="+"),
    needed("--seed", "seed of the shuffle", SEED),
    flag("--workers", "processes (default: 1)", THREADS, default=1),
    *(
        needed(f"--{name}", "Parquet file to write", output_path)
        for name in ("documents", "mentions", "knowledge-graph", "aliases", "trees", "raw")
    ),
    needed("--report", "JSON file of counts and skips", output_path),
)
def main(arguments: Given) -> None:
    config = arguments.config
    if arguments.paths and isinstance(config.get("source"), dict):
        config["source"]["paths"] = arguments.paths
    options = ExtractionOptions.from_config(config)
    outputs = Outputs(
        arguments.documents,
        arguments.mentions,
        arguments.knowledge_graph,
        arguments.aliases,
        arguments.trees,
        arguments.raw,
        arguments.report,
    )
    record = run_record("scripts/extract_corpus.py", config, seed=arguments.seed)
    extract(options, outputs, record, seed=arguments.seed, workers=arguments.workers)
