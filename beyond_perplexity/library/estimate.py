"""The perplexity of a latent model from importance samples, from a program."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark, safe_cell
from beyond_perplexity.importance.estimate_wording import report
from beyond_perplexity.importance.estimator_registry import DRAW_READERS
from beyond_perplexity.importance.reduction import (
    BELOW_ONE,
    REDUCED_TABLES,
    Reduction,
    estimates_table,
    gaps_table,
    is_below_one,
    reduce_files,
)
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.importance.weight_labels import WeightLabels
from beyond_perplexity.library.calls import library_function
from beyond_perplexity.library.given import (
    GivenFiles,
    check_numbers,
    check_outputs,
    check_path_or_name,
)
from beyond_perplexity.library.result import Result, frame_of
from beyond_perplexity.options import parse_options
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".csv", ".parquet")
# Further tables -> their names among those of a reduction.
_TABLES = {"instances": "diagnostics", "curves": "curves", "replicates": "replicates"}
# What a figure is called here -> its name in `figures.FIGURES`, the tables that it shows.
_FIGURES = {
    "samples": ("importance/figure_2", {"importance_curves": "curves"}),
    "aggregation": ("importance/figure_3", {"importance_curves": "curves"}),
    "densities": ("importance/figure_4", {"replicates": "replicates"}),
    "bounds": ("importance/figure_bounds", {"estimates": "estimates", "gaps": "gaps"}),
}


@library_function()
def estimate(
    weights: Any,
    *,
    log_q: Any = (),
    beams: Any = (),
    smc: Any = (),
    bidirectional: Any = (),
    unknown_types: int | None = None,
    t_definition: str | None = None,
    options: Mapping[str, Any] | None = None,
    no_bracket: bool = False,
    seed: int = 0,
    output: str | Path | None = None,
    diagnostics: str | Path | None = None,
) -> Result:
    """Estimate the perplexity of any latent language model from importance samples of yours.

    Parameters
    ----------
    weights : path, DataFrame, Arrow table, or iterable of these
        A row for every sample z_k ~ q(z | x_n), cut in any way: ``instance_id`` n and ``sample_id``
        k (integers), ``n_tokens`` (T of the instance), ``log_p`` = log p(x_n, z_k) and ``log_q`` =
        log q(z_k | x_n), natural logarithms; ``log_p`` may be −inf. Used when there: ``n_unknown``,
        ``log_p_penalized``, ``latent_hash``, ``model``, ``proposal``, ``temperature``.
    log_q : as `weights`, optional
        log q at all temperatures (schema ``log_q``).
    beams, smc, bidirectional : as `weights`, optional
        Other draws of the same instances (schemas of these names).
    unknown_types : int, optional
        Types of the training text that read ``<unk>``, to charge for them.
    t_definition : str, optional
        What ``n_tokens`` counts, such as ``"words and </s>"``.
    options : mapping, optional
        Of the reduction; see `ReductionOptions`.
    no_bracket : bool
        Leave out the bounds from both sides.
    seed : int
        Of subsets, pairings and bootstraps.
    output, diagnostics : path, optional
        Where the estimates, and the diagnostics of every instance, are written; ``.csv`` or
        ``.parquet``.

    Returns
    -------
    Result
        ``table`` (schema ``estimates``) has a row an estimate: its value, what it bounds, its
        errors, effective samples and k̂. Tables ``instances``, ``curves``, ``replicates``, ``gaps``;
        figures ``samples``, ``aggregation``, ``densities``, ``bounds``.

    Raises
    ------
    InputError
        When a row cannot be used; names file or argument, and row.
    """
    wanted = {"estimates": ("output", output), "diagnostics": ("diagnostics", diagnostics)}
    for name, path in wanted.values():
        if path is not None:
            check_path_or_name(name, path)
        if path is not None and Path(path).suffix not in _SUFFIXES:
            raise InputError(f"--{name} {path}: expected a name that ends in .csv or .parquet")
    check_numbers(0, seed=seed, unknown_types=unknown_types)
    check_outputs(output, diagnostics)
    if not isinstance(options, Mapping | None):
        raise InputError(f"options: is of type {type(options).__name__}; give a dict")
    found = parse_options(ReductionOptions, dict(options or {}), "options")
    if no_bracket:
        found = replace(found, bracket=False)
    labels = parse_options(
        WeightLabels, {"t_definition": t_definition, "unknown_types": unknown_types}, "arguments"
    )
    held = {"beams": beams, "smc": smc, "bidirectional": bidirectional}
    assert held.keys() == DRAW_READERS.keys()
    with GivenFiles() as files:
        given = argparse.Namespace(
            weights=files.tables(weights, "weights"),
            log_q=files.tables(log_q, "log_q"),
            seed=seed,
            **{kind: files.tables(draws, kind) for kind, draws in held.items()},
        )
        reduction = reduce_files(given, labels, found)
        table = estimates_table(reduction)
        if below := sum(map(is_below_one, table.to_pylist())):
            remark(f"warning: {below:,} of {len(table):,} estimates are {BELOW_ONE}")
        flags = {**_named_sources(files, given), **asdict(labels), "options": asdict(found)}
        for kind, (_, path) in wanted.items():
            if path is not None:
                _write(Path(path), kind, reduction, flags)
    tables: dict[str, Callable[[], pa.Table]] = {
        name: partial(REDUCED_TABLES[kind][1], reduction) for name, kind in _TABLES.items()
    }
    if reduction.inputs.draws.get("bidirectional"):
        tables["gaps"] = partial(gaps_table, reduction)
    figures = {name: partial(_draw, name, table, tables) for name in _FIGURES}
    return Result("estimate", table, text=report(table), tables=tables, figures=figures)


def _named_sources(files: GivenFiles, given: argparse.Namespace) -> dict[str, Any]:
    """Return what was given for the record; a table in memory is no file that anyone can find."""
    return {
        name: [files.source(path) for path in held] if isinstance(held, list) else held
        for name, held in vars(given).items()
    }


def _draw(name: str, estimates: pa.Table, tables: Mapping[str, Callable[[], pa.Table]]) -> Figure:
    from beyond_perplexity.figures import draw_figure
    from beyond_perplexity.figures.labels import Labels

    figure, shown = _FIGURES[name]
    held = {"estimates": lambda: estimates, **tables}
    given = {kind: _named(held[table]()) for kind, table in shown.items() if table in held}
    return draw_figure(figure, {"gaps": None, **given}, Labels())


def _named(table: pa.Table) -> Any:
    """Return a table for a figure; what nobody has named is called what it is."""
    frame = frame_of(table)
    unnamed = {name: name for name in ("model", "proposal") if name in frame}
    return frame.fillna(unnamed)


def _write(path: Path, kind: str, reduction: Reduction, flags: dict[str, object]) -> None:
    schema, make = REDUCED_TABLES[kind]
    table = make(reduction)
    if path.suffix == ".csv":
        with atomic_path(path) as temporary:
            pyarrow.csv.write_csv(_without_formulas(table), temporary)
        return
    record = run_record("scripts/estimate.py", flags, seed=reduction.inputs.seed)
    write_shard(path, schema, table, record)


def _without_formulas(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = [safe_cell(cell) for cell in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(safe, field.type))
    return table
