"""Reduce the thoughts of one model and proposal: estimates, curves, diagnostics, what is beside."""

from __future__ import annotations

from beyond_perplexity.arguments import SEED
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.reduction import REDUCED_TABLES, reduce_weights
from beyond_perplexity.importance.thought_files import (
    ThoughtFile,
    any_length_bounds,
    check_alike,
    sum_thoughts,
)
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.estimates import THOUGHT_SUMS
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, json_flag, needed, output, shards

_TABLES = ("estimates", "curves", "diagnostics")


@job(
    shards("--thoughts", "the shards"),
    needed("--names", "model, proposal", nargs=2),
    json_flag("--options", "JSON; see importance/ways_to_draw.py"),
    flag("--seed", "seed of subsets, pairings and bootstraps (default 0)", SEED, default=0),
    output("--estimates", "table of estimates to write"),
    output("--curves", "table of perplexity by number of thoughts to write"),
    output("--diagnostics", "table of diagnostics per prompt to write"),
    output("--sums", "table of what is beside the estimates to write"),
)
def main(given: Given) -> None:
    options, record = parse_options(ReductionOptions, given.options, "options"), given.record()
    model, proposal = given.names
    labels = WeightLabels(model, proposal, t_definition="tokens of answers with ends of turns")
    files = [ThoughtFile(one) for one in given.thoughts]
    check_alike(files)
    reader = WeightReader(files, labels)
    reduction = reduce_weights(reader, options=options, seed=given.seed, progress=True)
    tables = {name: REDUCED_TABLES[name][1](reduction) for name in _TABLES}
    sums, row = sum_thoughts(files), {"model": model, "proposal": proposal}
    row |= {"n_prompts": sums.prompts, "n_silent": len(sums.silent), "n_no_greedy": sums.no_greedy}
    if sums.cut and options.two_sided:
        how = tables["estimates"], labels, options, given.seed
        for bounds in any_length_bounds(files, *how):  # of one pair of names, if any
            row |= {f"any_length_{name}": bounds[name] for name in ("low", "high", "claimed")}
    record["signature"] = reduction.signature(tables["estimates"])
    for name, table in tables.items():
        write_shard(getattr(given, name), REDUCED_TABLES[name][0], table, record)
    columns = {name: [(sums._asdict() | row).get(name)] for name in THOUGHT_SUMS.names}
    write_shard(given.sums, THOUGHT_SUMS, columns, record)
