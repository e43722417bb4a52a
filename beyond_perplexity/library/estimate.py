"""The perplexity of a latent model from importance samples, from a program."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.estimate_wording import report
from beyond_perplexity.importance.reduction import (
    BELOW_ONE,
    REDUCED_TABLES,
    Reduction,
    estimates_table,
    gaps_table,
    is_below_one,
    reduce_files,
)
from beyond_perplexity.importance.thought_files import (
    ThoughtFile,
    any_length_bounds,
    check_alike,
    sum_thoughts,
)
from beyond_perplexity.importance.ways_to_draw import DRAW_READERS, ReductionOptions
from beyond_perplexity.library import calls
from beyond_perplexity.library.call_options import EstimateOptions
from beyond_perplexity.library.result import Result, frame_of
from beyond_perplexity.options import parse_options
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.storage.table_files import HeldTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Further tables -> their names among those of a reduction.
_TABLES = {"instances": "diagnostics", "curves": "curves", "replicates": "replicates"}
# What a figure is called here -> its name in `figures.FIGURES`, the tables that it shows.
_FIGURES = {
    "samples": ("importance/figure_2", {"importance_curves": "curves"}),
    "aggregation": ("importance/figure_3", {"importance_curves": "curves"}),
    "densities": ("importance/figure_4", {"replicates": "replicates"}),
    "bounds": ("importance/figure_bounds", {"estimates": "estimates", "gaps": "gaps"}),
}


@calls.library_function(EstimateOptions)
def estimate(given: EstimateOptions) -> Result:
    """Estimate the perplexity of any latent language model from importance samples of yours.

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
    calls.check_suffix("output", given.output)
    calls.check_suffix("diagnostics", given.diagnostics)
    if not isinstance(given.options, Mapping | None):
        raise calls.wrong_type("options", given.options, "a dict")
    options = parse_options(ReductionOptions, dict(given.options or {}), "options")
    if given.no_two_sided:
        options = replace(options, two_sided=False)
    about = {"t_definition": given.t_definition, "unknown_types": given.unknown_types}
    labels = parse_options(WeightLabels, about, "arguments")
    kinds = ("weights", "thoughts", "log_q", *DRAW_READERS)
    read = {kind: calls.table_sources(getattr(given, kind), kind) for kind in kinds}
    if bool(read["weights"]) == bool(read["thoughts"]):
        raise InputError("weights: give files of weights or of thoughts, one of both")
    thoughts = [ThoughtFile(one) for one in read["thoughts"]]
    check_alike(thoughts)
    files = {**read, "weights": thoughts or read["weights"]}
    reduction = reduce_files(argparse.Namespace(seed=given.seed, **files), labels, options)
    table = estimates_table(reduction)
    signature = reduction.signature(table)
    if below := sum(map(is_below_one, table.to_pylist())):
        remark(f"warning: {below:,} of {len(table):,} estimates are {BELOW_ONE}")
    # A table in memory is no file that anyone can find.
    flags: dict[str, object] = {
        kind: [f"{one} in memory" if isinstance(one, HeldTable) else one for one in held]
        for kind, held in read.items()
    }
    flags |= {"seed": given.seed, **asdict(labels), "options": asdict(options)}
    for kind, path in {"estimates": given.output, "diagnostics": given.diagnostics}.items():
        if path is not None:
            _write(Path(path), kind, reduction, flags, signature)
    tables: dict[str, Callable[[], pa.Table]] = {
        name: partial(REDUCED_TABLES[kind][1], reduction) for name, kind in _TABLES.items()
    }
    if reduction.inputs.draws.get("bidirectional"):
        tables["gaps"] = partial(gaps_table, reduction)
    figures = {name: partial(_draw, name, table, tables) for name in _FIGURES}
    told: dict[str, Any] = {"text": report(table), "summary": {"signature": signature}}
    if thoughts:
        sums, bounds = sum_thoughts(thoughts), []
        if sums.cut and options.two_sided:
            bounds = any_length_bounds(thoughts, table, labels, options, given.seed)
        told["text"] = "\n".join([told["text"], "", *sums.lines(), *_said_of_bounds(bounds)])
        told["summary"]["thoughts"] = {**sums._asdict(), "bounds": bounds}
    return Result("estimate", table, **told, tables=tables, figures=figures)


def _said_of_bounds(bounds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in bounds:
        ends = f"[{one['low']:.6g}, {one['high']:.6g}]"
        how = "enclose" if one["claimed"] else "do not claim to enclose"
        yield (
            f"With cut thoughts all right below and all wrong above, the two-sided bounds {ends} "
            f"{how} the perplexity of thoughts of any length."
        )


def _draw(name: str, estimates: pa.Table, tables: Mapping[str, Callable[[], pa.Table]]) -> Figure:
    from beyond_perplexity.figures import draw_figure
    from beyond_perplexity.figures.labels import Labels

    figure, shown = _FIGURES[name]
    held = {"estimates": lambda: estimates, **tables}
    given: dict[str, Any] = {"gaps": None}
    for kind in (kind for kind, table in shown.items() if table in held):
        frame = frame_of(held[shown[kind]]())
        # what nobody has named is called what it is
        given[kind] = frame.fillna({name: name for name in ("model", "proposal") if name in frame})
    return draw_figure(figure, given, Labels())


def _write(
    path: Path, kind: str, reduction: Reduction, flags: dict[str, object], signature: str
) -> None:
    schema, make = REDUCED_TABLES[kind]
    table = make(reduction)
    if path.suffix == ".csv":
        calls.write_numbers(path, table)
        return
    record = run_record("beyond_perplexity/library/estimate.py", flags, seed=reduction.inputs.seed)
    write_shard(path, schema, table, record | {"signature": signature})
