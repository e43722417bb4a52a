"""Compare models by what they predict of the same sentences, and correlate the measures.

Shards lie in `{model}/{evaluator}/`; block n of each model and evaluator is of the same sentences.
"""

from __future__ import annotations

from beyond_perplexity.arguments import COUNT, SEED, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.schemas.semantics import SEMANTIC_CORRELATIONS, SEMANTIC_DIFFERENCES
from beyond_perplexity.semantics.differences import (
    CORRELATED_SENTENCES,
    SemanticTests,
    compare_semantics,
    correlate_measures,
)
from beyond_perplexity.semantics.paired_scores import read_paired_scores
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("scores", nargs="+", action=FileRanges, help="shards of all models and evaluators")
    add("--flips", type=COUNT, default=49_999, help="drawn sign-flips of each test (default 49999)")
    add(
        "--correlated-sentences",
        type=COUNT,
        default=CORRELATED_SENTENCES,
        help="sentences of each split that measures are correlated over, at most "
        f"(default {CORRELATED_SENTENCES})",
    )
    add("--seed", type=SEED, default=1, help="seed of the flips (default 1)")
    add("--differences", type=output_file, required=True, help="Parquet file to write")
    add("--correlations", type=output_file, required=True, help="Parquet file to write")
    given = parser.parse_args()
    paired = read_paired_scores(given.scores, given.correlated_sentences)
    tests = SemanticTests(given.flips, given.seed)
    record = run_record(
        "scripts/compare_semantics.py",
        {**tests._asdict(), "correlated_sentences": given.correlated_sentences},
        seed=given.seed,
    )
    write_shard(given.differences, SEMANTIC_DIFFERENCES, compare_semantics(paired, tests), record)
    write_shard(given.correlations, SEMANTIC_CORRELATIONS, correlate_measures(paired), record)


if __name__ == "__main__":
    run_command(main)
