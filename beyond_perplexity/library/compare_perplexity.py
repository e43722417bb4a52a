"""Models on the same documents, from a program: bits per byte, differences, intervals, p."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.library.calls import library_function
from beyond_perplexity.library.given import GivenFiles, check_numbers, check_outputs, listed
from beyond_perplexity.library.result import Result, frame_of
from beyond_perplexity.perplexities.paired import PairOptions, check_company, compare_scores
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.report.layout import csv_text
from beyond_perplexity.report.perplexity_differences import describe_differences
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.storage.outputs import write_text
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FIGURE = "tendencies/perplexity_differences"


@library_function()
def compare_perplexity(
    scores: Any,
    *,
    flips: int = 9_999,
    seed: int = 1,
    no_count_eos: bool = False,
    leave_out_infinite: bool = False,
    csv: str | Path | None = None,
    output: str | Path | None = None,
) -> Result:
    """Compare models by their scores of the same documents.

    Parameters
    ----------
    scores : mapping of str to scores, or iterable of paths
        Of each model by its name, or files whose names are taken. Scores are a path, a DataFrame,
        an Arrow table or a result of `perplexity`, with a row for every document: ``bytes`` and
        ``log_likelihood`` (nats); see `score_files` for the columns that are used where they are
        there.
    flips : int
        Drawn sign-flips of each test.
    seed : int
        Of the flips.
    no_count_eos : bool
        The scores are without the end of documents, and it is no byte.
    leave_out_infinite : bool
        Name models that find a document impossible, and compare the others.
    csv, output : path, optional
        Where the table is written, as CSV and as Parquet; with `output` one model alone is no
        error.

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
    check_numbers(1, flips=flips)
    check_numbers(0, seed=seed)
    check_outputs(csv, output)
    options = PairOptions(flips, seed, not no_count_eos, leave_out_infinite)
    with GivenFiles() as given:
        paths = _paths(scores, given)
        if not paths or (len(paths) == 1 and isinstance(scores, Mapping) and not output):
            held = "one model alone" if paths else "no model"
            raise InputError(f"scores: are of {held}; give those of two models at least")
        files = [held for path in paths for held in read_scores(path)]
        if not output:
            check_company(files)
        table = compare_scores(files, paths, options)
    labels = Labels(models=list(paths.values()), names={name: name for name in paths.values()})
    frame = frame_of(table)
    text = describe_differences(frame, labels)
    if csv:
        write_text(csv, csv_text(frame))
    if output:
        record = run_record("scripts/compare_perplexity.py", options._asdict(), seed=seed)
        write_shard(output, PERPLEXITY_DIFFERENCES, table, record)

    figures = {"differences": partial(_draw, frame, labels)}
    return Result("compare_perplexity", table, text=text, figures=figures)


def _draw(frame: pd.DataFrame, labels: Labels) -> Figure:
    from beyond_perplexity.figures import draw_figure

    return draw_figure(_FIGURE, {"perplexity_differences": frame}, labels)


def _paths(scores: Any, given: GivenFiles) -> dict[str, str]:
    """Return the file of each model's scores, and its name."""
    if isinstance(scores, Mapping):
        paths = [_scores_of(name, held, given) for name, held in scores.items()]
        names = list(map(str, scores))
    else:
        paths = [_path(one, f"scores[{k}]") for k, one in enumerate(listed(scores, "scores"))]
        names = _names_of(paths)
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"{path}: is given twice; give each model's scores once")
    return dict(zip(paths, names, strict=True))


def _scores_of(name: object, held: Any, given: GivenFiles) -> str:
    table = held.table_of("documents") if isinstance(held, Result) else held
    return str(given.table(table, f"scores[{name!r}]".replace("/", "∕")))


def _path(one: Any, name: str) -> str:
    if isinstance(one, str | os.PathLike):
        return str(Path(one))
    raise InputError(f"{name}: is of type {type(one).__name__}; give tables as a dict, by model")


def _names_of(paths: list[str]) -> list[str]:
    """Name models by their files, by the whole path where two have the same name."""
    stems = [Path(path).name.split(".")[0] for path in paths]
    return stems if len(set(stems)) == len(stems) else paths
