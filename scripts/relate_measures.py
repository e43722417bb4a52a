"""Put the measures of all papers side by side, correlate them, and say what perplexity misses.

Files are told apart by their folders: `{model}.parquet` of perplexity, `{model}/{decoding}/` of
tendencies, `{model}/` of contrastive scores, `{model}/{evaluator}/` of semantic scores.
"""

from __future__ import annotations

from beyond_perplexity.arguments import COUNT, SEED, CommandParser, output_file, real
from beyond_perplexity.errors import run_command
from beyond_perplexity.relations.measures import (
    RelatedFiles,
    RelationOptions,
    compare_orders,
    correlate_ranks,
    gather_measures,
)
from beyond_perplexity.schemas.relations import (
    RELATION_CORRELATIONS,
    RELATION_MEASURES,
    RELATION_ORDERS,
)
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard


def _parser() -> CommandParser:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--perplexities", nargs="*", default=[], help="scores of documents of every model")
    add("--tendencies", nargs="*", default=[], help="measures of every body of text")
    files = "contrastive scores, all shards"
    add("--contrasts", nargs="*", default=[], action=FileRanges, help=files)
    files = "semantic scores, all shards"
    add("--semantics", nargs="*", default=[], action=FileRanges, help=files)
    add("--split", default="test", help="split of the semantic scores (default test)")
    add("--level", type=real(above=0), default=0.3, help="of contrastive entropy (default 0.3)")
    add("--base-level", type=real(above=0), default=0.1, help="of its ratio (default 0.1)")
    add("--confidence", type=real(above=0.5, below=1), default=0.95, help="of upper limits")
    add("--resamples", type=COUNT, default=1_999, help="resamples of documents (default 1999)")
    add("--seed", type=SEED, default=1, help="seed of the resamples (default 1)")
    for name in ("measures", "correlations", "orders"):
        add(f"--{name}", type=output_file, required=True, help="Parquet file to write")
    return parser


def main() -> None:
    given = _parser().parse_args()
    files = RelatedFiles(given.perplexities, given.tendencies, given.contrasts, given.semantics)
    options = RelationOptions(
        given.split, given.level, given.base_level, given.confidence, given.resamples, given.seed
    )
    found = gather_measures(files, options)
    record = run_record("scripts/relate_measures.py", options._asdict(), seed=given.seed)
    outputs = (
        (given.measures, RELATION_MEASURES, found.table()),
        (given.correlations, RELATION_CORRELATIONS, correlate_ranks(found.rows)),
        (given.orders, RELATION_ORDERS, compare_orders(found)),
    )
    for path, schema, table in outputs:
        write_shard(path, schema, table, record)


if __name__ == "__main__":
    run_command(main)
