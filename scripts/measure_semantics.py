"""Reduce the scores of a model to its measures, with floors and intervals over documents."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.schemas.semantics import SEMANTICS
from beyond_perplexity.semantics.measures import MeasureOptions
from beyond_perplexity.semantics.model_measures import summarize_scores
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("scores", nargs="+", action=FileRanges, help="all shards, of each evaluator in order")
    files = "all shards of predictions of the model"
    add("--predictions", nargs="+", required=True, action=FileRanges, help=files)
    add("--model", required=True, help="name of the model")
    add("--measures", type=json_object, default={}, help="constants of measures, JSON object")
    add("--seed", type=SEED, required=True, help="seed of the run, for resampled documents")
    add("--output", type=output_file, required=True, help="Parquet file to write")
    given = parser.parse_args()
    options = parse_options(MeasureOptions, given.measures, "measures")
    record = run_record(
        "scripts/measure_semantics.py", {"resamples": options.resamples}, seed=given.seed
    )
    table = summarize_scores(
        given.scores, given.predictions, given.model, options.resamples, given.seed
    )
    write_shard(given.output, SEMANTICS, table, record)


if __name__ == "__main__":
    run_command(main)
