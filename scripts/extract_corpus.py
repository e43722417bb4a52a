"""Extract a corpus: documents, mentions, graph, aliases, trees, raw text, a report of all skips."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED, THREADS, output_path
from beyond_perplexity.corpus.extraction import extract
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.tables import EXTRACTED
from scripts._job import Given, flag, job, json_flag, needed

TABLES = (f"--{name.replace('_', '-')}" for name in EXTRACTED)


@job(
    json_flag("--config", "options of the corpus", required=True),
    flag("--paths", "files to read instead of source.paths", nargs="+"),
    needed("--seed", "seed of the shuffle", SEED),
    flag("--workers", "processes (default: 1)", THREADS, default=1),
    *(needed(name, "Parquet file to write", output_path) for name in TABLES),
    needed("--report", "JSON file of counts and skips", output_path),
)
def main(given: Given) -> None:
    config = given.config
    if given.paths and isinstance(config.get("source"), dict):
        config["source"]["paths"] = given.paths
    options = ExtractionOptions.from_config(config)
    outputs = {name: getattr(given, name) for name in (*EXTRACTED, "report")}
    extract(options, outputs, given.record(config), seed=given.seed, workers=given.workers)
