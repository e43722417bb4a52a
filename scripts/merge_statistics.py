"""Add statistics files up into one."""

from __future__ import annotations

from beyond_perplexity.arguments import output_file
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges
from beyond_perplexity.tendencies.statistics import merge_statistics
from scripts._job import Given, job, needed


@job(
    needed("--inputs", "statistics files", nargs="+", action=FileRanges),
    needed("--output", "statistics file to write", output_file),
)
def main(options: Given) -> None:
    record = run_record("scripts/merge_statistics.py", vars(options))
    merge_statistics(options.inputs, options.output, record)
