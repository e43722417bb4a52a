"""Compare models by what they predict of the same sentences, and correlate the measures.

Shards lie in `{model}/{evaluator}/`; block n of each model and evaluator is of the same sentences.
"""

from __future__ import annotations

from beyond_perplexity.arguments import COUNT, SEED
from beyond_perplexity.schemas.semantics import SEMANTIC_CORRELATIONS, SEMANTIC_DIFFERENCES
from beyond_perplexity.semantics.differences import (
    CORRELATED_SENTENCES,
    SemanticTests,
    compare_semantics,
    correlate_measures,
)
from beyond_perplexity.semantics.paired_scores import read_paired_scores
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, output, shards


@job(
    shards("scores", "shards of all models and evaluators"),
    flag("--flips", "drawn sign-flips of each test (default 49999)", COUNT, default=49_999),
    flag(
        "--correlated-sentences",
        "sentences of each split that measures are correlated over, at most "
        f"(default {CORRELATED_SENTENCES})",
        COUNT,
        default=CORRELATED_SENTENCES,
    ),
    flag("--seed", "seed of the flips (default 1)", SEED, default=1),
    output("--differences", "Parquet file to write"),
    output("--correlations", "Parquet file to write"),
)
def main(given: Given) -> None:
    paired = read_paired_scores(given.scores, given.correlated_sentences)
    tests = SemanticTests(given.flips, given.seed)
    record = given.record({**tests._asdict(), "correlated_sentences": given.correlated_sentences})
    write_shard(given.differences, SEMANTIC_DIFFERENCES, compare_semantics(paired, tests), record)
    write_shard(given.correlations, SEMANTIC_CORRELATIONS, correlate_measures(paired), record)
