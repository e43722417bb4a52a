"""Two bodies of text in every statistical tendency, and models on the same documents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.corpus.formats import AUTOMATIC
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.library.calls import (
    Unused,
    in_memory,
    library_function,
    listed,
    table_source,
    text_source,
)
from beyond_perplexity.library.result import Result, frame_of
from beyond_perplexity.perplexities.options import PairOptions
from beyond_perplexity.perplexities.paired import check_company, compare_scores
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.report.compare import FIGURE_FILES, comparison_text, draw_one, run_comparison
from beyond_perplexity.report.layout import csv_text
from beyond_perplexity.report.perplexity_differences import describe_differences
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.storage.outputs import write_text
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.compare_options import CompareOptions


def _unused(given: CompareOptions) -> Iterator[Unused]:
    texts = given.reference, given.samples
    read = [texts[0], *[texts[1]] * (given.samples_field is None)]
    read += [given.training] * (given.training is not None)
    if all(map(in_memory, read)):
        yield Unused("on texts in memory", ("field",))
    if in_memory(texts[1]):
        yield Unused("on texts in memory", ("samples_field",))
    if all(map(in_memory, texts)):
        yield Unused("on texts in memory; groups stand beside them", ("group_column",))
    if given.group_column == "":
        yield Unused("where the group column is empty", ("groups",))
    if given.tokenized and given.stop_words not in ("auto", "nltk"):
        yield Unused("on tokenized texts with a list of stop words", ("language",))
    if given.embedding is None:
        yield Unused("without an embedding", ("embedding_documents",))


@library_function(CompareOptions, _unused)
def compare(given: CompareOptions) -> Result:
    """Compare two bodies of text in every statistical tendency; no model is needed.

    Returns
    -------
    Result
        ``table`` has a row a measure (schema ``tendencies``): its value in both texts, the
        distance (`value`) at the size of its `floor`, `excess` = `value` - `floor`, p-values and
        limits, and the distance of all documents (`value_all`). Tables ``curves``, and with a
        vocabulary ``raw``. Figures are those of the command.

    Raises
    ------
    InputError
        When something that was given cannot be used; names it, and the line where it can.
    """
    for name in ("reference", "samples", "training"):
        one = getattr(given, name)
        is_file = one is None or isinstance(one, str | os.PathLike)
        if given.format != AUTOMATIC and not is_file:
            raise InputError(f"format: {name} is no path; leave it out, and name files by suffix")
    groups, field, column = given.groups, given.field, given.group_column
    beside = groups if isinstance(groups, tuple) and len(groups) == 2 else (groups, None)
    own = field if given.samples_field is None else given.samples_field
    sources: dict[str, Any] = {
        "reference": text_source(
            given.reference, "reference", beside[0], field=field, group_column=column
        ),
        "samples": text_source(given.samples, "samples", beside[1], field=own, group_column=column),
    }
    if given.training is not None:
        sources["training"] = text_source(given.training, "training", field=field)
    out = None if given.out is None else Path(given.out)
    found = run_comparison(replace(given, **sources), out).found
    held = {"curves": found.curves, "raw": found.raw}
    return Result(
        "compare",
        found.measures,
        text=comparison_text(found),
        summary={"groups": found.groups, "exchanged": found.exchanged},
        tables={name: one for name, one in held.items() if one is not None},
        figures={file: partial(draw_one, name, found) for name, file in FIGURE_FILES.items()},
    )


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
    table = compare_scores(files, names, given)
    labels = Labels(models=list(names.values()), names={name: name for name in names.values()})
    frame = frame_of(table)
    if given.csv:
        write_text(given.csv, csv_text(frame))
    if given.output:
        flags: dict[str, object] = {
            "flips": given.flips,
            "seed": given.seed,
            "count_eos": not given.no_count_eos,
            "leave_out_infinite": given.leave_out_infinite,
        }
        record = run_record(
            "beyond_perplexity/commands/compare_perplexity.py", flags, seed=given.seed
        )
        write_shard(given.output, PERPLEXITY_DIFFERENCES, table, record)
    return Result(
        "compare_perplexity",
        table,
        text=describe_differences(frame, labels),
        figures={"differences": partial(_draw_differences, frame, labels)},
    )


def _draw_differences(frame: pd.DataFrame, labels: Labels) -> Figure:
    from beyond_perplexity.figures import draw_figure

    return draw_figure(
        "tendencies/perplexity_differences", {"perplexity_differences": frame}, labels
    )


def _sources(scores: Any) -> list[tuple[str | HeldTable, str]]:
    """Return what each model's scores are read from, and its name."""
    if isinstance(scores, Mapping):
        found = [
            (_source_of(held, f"scores[{name!r}]"), str(name)) for name, held in scores.items()
        ]
    else:
        paths = [_path(one, f"scores[{k}]") for k, one in enumerate(listed(scores, "scores"))]
        stems = [Path(path).name.split(".")[0] for path in paths]
        names = stems if len(set(stems)) == len(stems) else paths  # two have the same name
        found = list(zip(paths, names, strict=True))
    read = [str(source) for source, _ in found]
    for path in read:
        if read.count(path) > 1:
            raise InputError(f"{path}: is given twice; give each model's scores once")
    return found


def _source_of(held: Any, name: str) -> str | HeldTable:
    return table_source(held.table_of("documents") if isinstance(held, Result) else held, name)


def _path(one: Any, name: str) -> str:
    if isinstance(one, str | os.PathLike):
        return str(Path(one))
    raise InputError(f"{name}: is of type {type(one).__name__}; give tables as a dict, by model")
