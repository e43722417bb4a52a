"""Compare models by what they predict of the same sentences, and correlate the measures.

Shards lie in `{model}/{evaluator}/`; block n of each model and evaluator is of the same sentences.
"""

from __future__ import annotations

from beyond_perplexity.arguments import COUNT
from beyond_perplexity.schemas.semantics import SEMANTIC_CORRELATIONS, SEMANTIC_DIFFERENCES
from beyond_perplexity.semantics.differences import (
    CORRELATED_SENTENCES,
    compare_semantics,
    correlate_measures,
)
from beyond_perplexity.semantics.paired_scores import read_paired_scores
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, output, shards


@job(
    shards("scores", "shards of all models and evaluators"),
    flag(
        "--correlated-sentences",
        "sentences of each split that measures are correlated over, at most "
        f"(default {CORRELATED_SENTENCES})",
        COUNT,
        default=CORRELATED_SENTENCES,
    ),
    output("--differences", "Parquet file to write"),
    output("--correlations", "Parquet file to write"),
)
def main(given: Given) -> None:
    paired = read_paired_scores(given.scores, given.correlated_sentences)
    record = given.record({"correlated_sentences": given.correlated_sentences})
    write_shard(given.differences, SEMANTIC_DIFFERENCES, compare_semantics(paired), record)
    write_shard(given.correlations, SEMANTIC_CORRELATIONS, correlate_measures(paired), record)
