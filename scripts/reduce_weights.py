"""Reduce the samples of one model and proposal, at all temperatures: estimates, curves and more."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED, output_file
from beyond_perplexity.importance.draw_files import WeightLabels, add_draw_flags
from beyond_perplexity.importance.reduction import REDUCED_TABLES, gaps_table, reduce_files
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.schemas.estimates import ESTIMATES, IMPORTANCE_GAPS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard
from scripts._job import Given, flag, job, needed


@job(
    needed(
        "--weights", "log weights, the shards of all temperatures", nargs="+", action=FileRanges
    ),
    flag(
        "--log-q",
        "log q of the same samples at all temperatures",
        nargs="*",
        default=[],
        action=FileRanges,
    ),
    add_draw_flags,
    flag("--labels", "JSON object; in place of the footers'", json_object, default={}),
    flag("--options", "JSON; see importance/ways_to_draw.py", json_object, default={}),
    flag("--seed", "seed of subsets, pairings and bootstraps (default 0)", SEED, default=0),
    flag("--estimates", "table of estimates to write", output_file),
    flag("--curves", "table of perplexity by number of samples to write", output_file),
    flag("--replicates", "table of independent replicates to write", output_file),
    flag("--diagnostics", "table of diagnostics per instance to write", output_file),
    flag("--gaps", "table of simulated documents, from both sides, to write", output_file),
)
def main(given: Given) -> None:
    options = parse_options(ReductionOptions, given.options, "options")
    record = run_record("scripts/reduce_weights.py", vars(given), seed=given.seed)
    labels = parse_options(WeightLabels, given.labels, "labels")
    reduction = reduce_files(given, labels, options)
    record["estimators"] = list(dict.fromkeys(method for method, _ in reduction.estimators))
    for name, (kind, table) in REDUCED_TABLES.items():
        if path := getattr(given, name):
            made = table(reduction)
            if kind is ESTIMATES:  # the first
                record["signature"] = reduction.signature(made)
            write_shard(path, kind, made, record)
    if given.gaps:
        write_shard(given.gaps, IMPORTANCE_GAPS, gaps_table(reduction), record)
