"""Reduce the samples of one model and proposal, at all temperatures: estimates, curves and more."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED
from beyond_perplexity.importance.draw_files import WeightLabels, add_draw_flags
from beyond_perplexity.importance.reduction import REDUCED_TABLES, gaps_table, reduce_files
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.estimates import ESTIMATES, IMPORTANCE_GAPS
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, json_flag, output, shards


@job(
    shards("--weights", "log weights, the shards of all temperatures"),
    shards("--log-q", "log q of the same samples at all temperatures", required=False),
    add_draw_flags,
    json_flag("--labels", "JSON object; in place of the footers'"),
    json_flag("--options", "JSON; see importance/ways_to_draw.py"),
    flag("--seed", "seed of subsets, pairings and bootstraps (default 0)", SEED, default=0),
    output("--estimates", "table of estimates to write", required=False),
    output("--curves", "table of perplexity by number of samples to write", required=False),
    output("--replicates", "table of independent replicates to write", required=False),
    output("--diagnostics", "table of diagnostics per instance to write", required=False),
    output("--gaps", "table of simulated documents, from both sides, to write", required=False),
)
def main(given: Given) -> None:
    options = parse_options(ReductionOptions, given.options, "options")
    record = given.record()
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
