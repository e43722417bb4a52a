"""Score predictions of one model by one evaluator: one shard, a row a sentence, measure and kind.

A score depends on the two texts alone, not on the shard. What is predicted is scored against the
target and against an unrelated sentence, which gives the baseline.
"""

from __future__ import annotations

from beyond_perplexity.arguments import output_file
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.semantics import PREDICTIONS, SEMANTIC_SCORES, WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.contract import open_evaluator, set_threads
from beyond_perplexity.semantics.scores import SENTENCES_AT_ONCE, score_predictions
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter, read_batches
from scripts._job import Given, determining, flag, job, needed, on_device


@job(
    needed("--predictions", "shard of predictions (Parquet)"),
    needed("--model", "name of the model that predicted"),
    needed("--evaluator", f"name of the evaluator; {WORDS_EVALUATOR} needs none"),
    flag("--options", "of the evaluator, JSON object", json_object, default={}),
    flag("--measures", "constants of measures, JSON object", json_object, default={}),
    on_device,
    needed("--output", "Parquet shard to write", output_file),
)
def main(given: Given) -> None:
    evaluator = open_evaluator(given.evaluator, given.options, given.measures, given.device)
    set_threads(given.threads)
    record = run_record("scripts/score_semantics.py", determining(given))
    with ShardWriter(given.output, SEMANTIC_SCORES, record) as writer:
        batches = read_batches(given.predictions, PREDICTIONS, PREDICTIONS.names, SENTENCES_AT_ONCE)
        for rows in score_predictions(batches, evaluator, given.model, given.evaluator):
            writer.write(rows)
        record["evaluator"] = evaluator.describe()
