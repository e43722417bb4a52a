"""Add statistics files up into one."""

from __future__ import annotations

from beyond_perplexity.tendencies.statistics import merge_statistics
from scripts._job import Given, job, output, shards


@job(
    shards("--inputs", "statistics files"),
    output("--output", "statistics file to write"),
)
def main(options: Given) -> None:
    merge_statistics(options.inputs, options.output, options.record())
