"""Score predictions of one model by one evaluator: one shard, a row a sentence, measure and kind.

A score depends on the two texts alone, not on the shard. What is predicted is scored against the
target and against an unrelated sentence, which gives the baseline.
"""

from __future__ import annotations

from beyond_perplexity.schemas.semantics import PREDICTIONS, SEMANTIC_SCORES, WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.contract import open_evaluator, set_threads
from beyond_perplexity.semantics.scores import SENTENCES_AT_ONCE, score_predictions
from beyond_perplexity.storage.shards import ShardWriter, read_batches
from scripts._job import Given, job, json_flag, needed, on_device, output


@job(
    needed("--predictions", "shard of predictions (Parquet)"),
    needed("--model", "name of the model that predicted"),
    needed("--evaluator", f"name of the evaluator; {WORDS_EVALUATOR} needs none"),
    json_flag("--options", "of the evaluator, JSON object"),
    json_flag("--measures", "constants of measures, JSON object"),
    on_device,
    output("--output", "Parquet shard to write"),
)
def main(given: Given) -> None:
    evaluator = open_evaluator(given.evaluator, given.options, given.measures, given.device)
    set_threads(given.threads)
    record = given.record(given.determining())
    with ShardWriter(given.output, SEMANTIC_SCORES, record) as writer:
        batches = read_batches(given.predictions, PREDICTIONS, PREDICTIONS.names, SENTENCES_AT_ONCE)
        for rows in score_predictions(batches, evaluator, given.model, given.evaluator):
            writer.write(rows)
        record["evaluator"] = evaluator.describe()
