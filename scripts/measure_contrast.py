"""Turn the scores of a model, shard by shard, into contrastive entropies, ratios, cross-entropy."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file, real
from beyond_perplexity.contrastive.entropy import measure_contrasts, read_sums
from beyond_perplexity.errors import run_command
from beyond_perplexity.schemas.contrastive import CONTRASTS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("scores", nargs="+", action=FileRanges, help="all shards of the model, in order")
    add("--model", required=True, help="name of the model")
    add("--base-level", type=real(above=0), default=0.1, help="what ratios divide by (default 0.1)")
    add("--output", type=output_file, required=True, help="Parquet file to write")
    given = parser.parse_args()
    table = measure_contrasts(read_sums(given.scores), given.model, given.base_level)
    record = run_record("scripts/measure_contrast.py", {"base_level": given.base_level})
    write_shard(given.output, CONTRASTS, table, record)


if __name__ == "__main__":
    run_command(main)
