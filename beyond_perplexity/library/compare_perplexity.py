"""Models on the same documents, from a program: bits per byte, differences, intervals, p."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.library.calls import library_function, listed, table_source, wrong_type
from beyond_perplexity.library.result import Result, frame_of
from beyond_perplexity.perplexities.options import PairOptions
from beyond_perplexity.perplexities.paired import check_company, compare_scores, signed_pairs
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.report.bits_per_byte import describe_differences
from beyond_perplexity.report.layout import csv_text
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.signature import footer_of
from beyond_perplexity.storage.outputs import write_text
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from beyond_perplexity.storage.table_files import HeldTable


@library_function(PairOptions)
def compare_perplexity(given: PairOptions) -> Result:
    """Compare models by their scores of the same documents.

    Returns
    -------
    Result
        ``table`` (schema ``perplexity_differences``, bits per byte) has a row a model, whose
        ``second`` is None, and a row a pair. Figure ``differences``.

    Raises
    ------
    InputError
        When scores cannot be used, or are of other documents; names file or argument, and row.
    """
    sources = _sources(given.scores)
    names = {str(source): name for source, name in sources}
    if not names or (len(names) == 1 and isinstance(given.scores, Mapping) and not given.output):
        held = "one model alone" if names else "no model"
        raise InputError(f"scores: are of {held}; give those of two models at least")
    files = [held for source, _ in sources for held in read_scores(source)]
    if not given.output:
        check_company(files)
    table, signature = compare_scores(files, names, given), signed_pairs(files, given)
    labels = Labels(models=list(names.values()), names={name: name for name in names.values()})
    frame = frame_of(table)
    if given.csv:
        write_text(given.csv, csv_text(frame))
    if given.output:
        flags = {name: getattr(given, name) for name in ("count_eos", "leave_out_infinite")}
        script = "beyond_perplexity/library/compare_perplexity.py"
        record = run_record(script, flags) | {"signature": signature}
        write_shard(given.output, PERPLEXITY_DIFFERENCES, table, record)
    return Result(
        "compare_perplexity",
        table,
        text=describe_differences(frame, labels),
        summary={"signature": signature},
        figures={"differences": partial(_draw, frame, labels)},
    )


def _draw(frame: pd.DataFrame, labels: Labels) -> Figure:
    from beyond_perplexity.figures import draw_figure

    tables = {"perplexity_differences": frame}
    return draw_figure("tendencies/perplexity_differences", tables, labels)


def _sources(scores: Any) -> list[tuple[str | HeldTable, str]]:
    """Return what each model's scores are read from, and its name."""
    if isinstance(scores, Mapping):
        found = []
        for name, one in scores.items():
            held = one.table_of("documents") if isinstance(one, Result) else one
            source = table_source(held, f"scores[{name!r}]")
            if isinstance(one, Result) and not isinstance(source, str):
                source.metadata = footer_of(one.summary.get("signature"))
            found.append((source, str(name)))
    else:
        given = listed(scores, "scores")
        for k, one in enumerate(given):
            if not isinstance(one, str | os.PathLike):
                raise wrong_type(f"scores[{k}]", one, "tables as a dict, by model")
        paths = [str(Path(one)) for one in given]
        stems = [Path(path).name.split(".")[0] for path in paths]
        names = stems if len(set(stems)) == len(stems) else paths  # two have the same name
        found = list(zip(paths, names, strict=True))
    read = [str(source) for source, _ in found]
    if twice := [path for path in read if read.count(path) > 1]:
        raise InputError(f"{twice[0]}: is given twice; give each model's scores once")
    return found
