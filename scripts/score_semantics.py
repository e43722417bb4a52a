"""Score predictions of one model by one evaluator: one shard, a row a sentence, measure and kind.

A score depends on the two texts alone, not on the shard. What is predicted is scored against the
target and against an unrelated sentence, which gives the floor.
"""

from __future__ import annotations

from beyond_perplexity.arguments import THREADS, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.semantics import PREDICTIONS, SEMANTIC_SCORES, WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.contract import open_evaluator, set_threads
from beyond_perplexity.semantics.scores import SENTENCES_AT_ONCE, score_predictions
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter, read_batches

UNDETERMINING = ("output", "threads")  # flags that do not change a number


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--predictions", required=True, help="shard of predictions (Parquet)")
    add("--model", required=True, help="name of the model that predicted")
    add("--evaluator", required=True, help=f"name of the evaluator; {WORDS_EVALUATOR} needs none")
    add("--options", type=json_object, default={}, help="of the evaluator, JSON object")
    add("--measures", type=json_object, default={}, help="constants of measures, JSON object")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_file, required=True, help="Parquet shard to write")
    given = parser.parse_args()
    evaluator = open_evaluator(given.evaluator, given.options, given.measures, given.device)
    set_threads(given.threads)
    flags = {key: value for key, value in vars(given).items() if key not in UNDETERMINING}
    record = run_record("scripts/score_semantics.py", flags)
    with ShardWriter(given.output, SEMANTIC_SCORES, record) as writer:
        batches = read_batches(given.predictions, PREDICTIONS, PREDICTIONS.names, SENTENCES_AT_ONCE)
        for rows in score_predictions(batches, evaluator, given.model, given.evaluator):
            writer.write(rows)
        record["evaluator"] = evaluator.describe()


if __name__ == "__main__":
    run_command(main)
