"""Reduce the scores of a model to its measures, with baselines and intervals over documents."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.semantics import SEMANTICS
from beyond_perplexity.semantics.measures import MeasureOptions
from beyond_perplexity.semantics.model_measures import summarize_scores
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, job, json_flag, needed, output, shards


@job(
    shards("scores", "all shards, of each evaluator in order"),
    shards("--predictions", "all shards of predictions of the model"),
    needed("--model", "name of the model"),
    json_flag("--measures", "constants of measures, JSON object"),
    needed("--seed", "seed of the run, for resampled documents", SEED),
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    options = parse_options(MeasureOptions, given.measures, "measures")
    record = given.record({"resamples": options.resamples})
    files = given.scores, given.predictions
    table = summarize_scores(*files, given.model, options.resamples, given.seed)
    write_shard(given.output, SEMANTICS, table, record)
