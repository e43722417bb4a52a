"""Add statistics files up into one."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges
from beyond_perplexity.tendencies.statistics import merge_statistics


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--inputs", nargs="+", required=True, action=FileRanges, help="statistics files")
    add("--output", type=output_file, required=True, help="statistics file to write")
    options = parser.parse_args()
    record = run_record("scripts/merge_statistics.py", vars(options))
    merge_statistics(options.inputs, options.output, record)


if __name__ == "__main__":
    run_command(main)
