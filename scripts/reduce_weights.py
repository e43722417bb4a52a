"""Reduce the samples of one model and proposal, at all temperatures: estimates, curves and more."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.draw_files import WeightLabels, add_draw_flags
from beyond_perplexity.importance.reduction import REDUCED_TABLES, gaps_table, reduce_files
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.schemas.estimates import IMPORTANCE_GAPS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    files = "log weights, the shards of all temperatures"
    add("--weights", required=True, nargs="+", action=FileRanges, help=files)
    files = "log q of the same samples at all temperatures"
    add("--log-q", nargs="*", default=[], action=FileRanges, help=files)
    add_draw_flags(parser)
    add("--labels", type=json_object, default={}, help="JSON object; in place of the footers'")
    add("--options", type=json_object, default={}, help="JSON; see importance/ways_to_draw.py")
    add("--seed", type=SEED, default=0, help="seed of subsets, pairings and bootstraps (default 0)")
    add("--estimates", type=output_file, help="table of estimates to write")
    add("--curves", type=output_file, help="table of perplexity by number of samples to write")
    add("--replicates", type=output_file, help="table of independent replicates to write")
    add("--diagnostics", type=output_file, help="table of diagnostics per instance to write")
    add("--gaps", type=output_file, help="table of simulated documents, from both sides, to write")
    given = parser.parse_args()
    options = parse_options(ReductionOptions, given.options, "options")
    record = run_record("scripts/reduce_weights.py", vars(given), seed=given.seed)
    labels = parse_options(WeightLabels, given.labels, "labels")
    reduction = reduce_files(given, labels, options)
    record["estimators"] = list(dict.fromkeys(method for method, _ in reduction.estimators))
    for name, (kind, table) in REDUCED_TABLES.items():
        if path := getattr(given, name):
            write_shard(path, kind, table(reduction), record)
    if given.gaps:
        write_shard(given.gaps, IMPORTANCE_GAPS, gaps_table(reduction), record)


if __name__ == "__main__":
    run_command(main)
