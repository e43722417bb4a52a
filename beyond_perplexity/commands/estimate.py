"""Estimate the perplexity of any latent language model from importance samples of yours.

A file (.parquet, or .csv or .csv.gz with a line of names) has a row for every sample
z_k ~ q(z | x_n):
instance_id n and sample_id k (integers), n_tokens (T of the instance), log_p = log p(x_n, z_k) and
log_q = log q(z_k | x_n), natural logarithms. log_p may be -inf. Used when there: n_unknown (unknown
tokens of the instance, counted in T too), log_p_penalized (log p(x_n, z_k) with unknown words
penalized, where that is not the logarithm of the unknown types for each of them), latent_hash (an
integer, equal for equal latents), model, proposal and temperature (one value in a file: give the
samples of each in a file of their own).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from beyond_perplexity.arguments import SEED, CommandParser, output_path, whole
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import safe_cell, say
from beyond_perplexity.importance.options import ReductionOptions
from beyond_perplexity.importance.reading.labels import WeightLabels
from beyond_perplexity.importance.reading.side_files import add_draw_flags
from beyond_perplexity.importance.reduction import reduce_files
from beyond_perplexity.importance.tables import REDUCED_TABLES, estimates_table
from beyond_perplexity.importance.wording import report
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard

OUTPUTS = {"output": REDUCED_TABLES["estimates"], "diagnostics": REDUCED_TABLES["diagnostics"]}


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--weights", required=True, nargs="+", help="files of samples, cut in any way")
    add("--log-q", nargs="*", default=[], help="log q at all temperatures (schema log_q)")
    add_draw_flags(parser)
    add("--unknown-types", type=whole(), help="training types that read <unk>, to charge for them")
    add("--t-definition", help="what n_tokens counts, such as 'words and </s>'")
    add("--options", type=json_object, default={}, help="JSON object; see importance/options.py")
    add("--no-bracket", action="store_true", help="leave out the bounds from both sides")
    add("--seed", type=SEED, default=0, help="seed of subsets, pairings and bootstraps (default 0)")
    add("--output", type=output_path, help="table to write as well: .csv or .parquet")
    add(
        "--diagnostics", type=output_path, help="table of every instance to write: .csv or .parquet"
    )
    return parser


def _without_formulas(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = [safe_cell(cell) for cell in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(safe, field.type))
    return table


def _write(path: Path, kind: str, table: pa.Table, given: argparse.Namespace) -> None:
    if path.suffix == ".csv":
        with atomic_path(path) as temporary:
            pyarrow.csv.write_csv(_without_formulas(table), temporary)
        return
    flags = vars(given) | {name: str(getattr(given, name) or "") for name in OUTPUTS}
    record = run_record("scripts/estimate.py", flags, seed=given.seed)
    write_shard(path, kind, table, record)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    given = _parser().parse_args(arguments)
    wanted = {name: path for name in OUTPUTS if (path := getattr(given, name))}
    for name, path in wanted.items():
        if path.suffix not in (".csv", ".parquet"):
            raise InputError(f"--{name} {path}: expected a name that ends in .csv or .parquet")
    options = parse_options(ReductionOptions, given.options, "options")
    if given.no_bracket:
        options = replace(options, bracket=False)
    labels = {"t_definition": given.t_definition, "unknown_types": given.unknown_types}
    found = parse_options(WeightLabels, labels, "the flags")
    reduction = reduce_files(given, found, options)
    say(report(estimates_table(reduction)))
    for name, path in wanted.items():
        kind, table = OUTPUTS[name]
        _write(path, kind, table(reduction), given)
