"""Reduce the scores of a model to its measures, with baselines and intervals over documents."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED, output_file
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.schemas.semantics import SEMANTICS
from beyond_perplexity.semantics.measures import MeasureOptions
from beyond_perplexity.semantics.model_measures import summarize_scores
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard
from scripts._job import Given, flag, job, needed


@job(
    flag("scores", "all shards, of each evaluator in order", nargs="+", action=FileRanges),
    needed("--predictions", "all shards of predictions of the model", nargs="+", action=FileRanges),
    needed("--model", "name of the model"),
    flag("--measures", "constants of measures, JSON object", json_object, default={}),
    needed("--seed", "seed of the run, for resampled documents", SEED),
    needed("--output", "Parquet file to write", output_file),
)
def main(given: Given) -> None:
    options = parse_options(MeasureOptions, given.measures, "measures")
    record = run_record(
        "scripts/measure_semantics.py", {"resamples": options.resamples}, seed=given.seed
    )
    table = summarize_scores(
        given.scores, given.predictions, given.model, options.resamples, given.seed
    )
    write_shard(given.output, SEMANTICS, table, record)
