"""Models on the same documents, from a program: bits per byte, differences, intervals, p."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.library import calls
from beyond_perplexity.library.result import Result, frame_of
from beyond_perplexity.perplexities.options import PairOptions
from beyond_perplexity.perplexities.paired import check_company, compare_scores, signed_pairs
from beyond_perplexity.perplexities.score_files import FileScores, is_token_file, read_scores
from beyond_perplexity.report.bits_per_byte import describe_differences
from beyond_perplexity.report.difference_parts import (
    describe_parts,
    draw_difference,
)
from beyond_perplexity.report.layout import csv_text
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.signature import footer_of
from beyond_perplexity.storage.outputs import write_text
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard

if TYPE_CHECKING:
    from beyond_perplexity.storage.table_files import HeldTable

# By name: the code of models is not among that of comparing scores.
_DIFFERENCE = "beyond_perplexity.library.difference"
_SCORING = ("field", "group_column", "cleaned", "tokenized", "context_length", "device")


def _unused(given: PairOptions) -> Iterator[calls.Unused]:
    if given.model is None:
        yield "without models to score a text under", _SCORING
    if given.model is None and not _are_tokens(given.scores):
        yield "without scores of tokens", ("frequencies",)


def _are_tokens(scores: Any) -> bool:
    if isinstance(scores, Mapping) or scores is None:
        return False
    files = calls.listed(scores, "scores")
    return bool(files) and all(is_token_file(str(one)) for one in files)


@calls.library_function(PairOptions, _unused)
def compare_perplexity(given: PairOptions) -> Result:
    """Compare models by their scores of the same documents, and say where they differ.

    Returns
    -------
    Result
        ``table`` (schema ``perplexity_differences``, bits per byte) has a row a model, whose
        ``second`` is None, and a row a pair. Figure ``differences``. Of two models on a text, or of
        files with a row a token, also table ``parts`` (schema ``perplexity_parts``), figures
        ``parts`` and ``position``; of two models of one vocabulary table ``agreement`` (schema
        ``model_agreement``).

    Raises
    ------
    InputError
        When scores cannot be used, or are of other documents; names file or argument, and row.
    """
    models = [one is not None for one in (given.model, given.against, given.texts)]
    if any(models) and (not all(models) or given.scores):
        raise InputError("model, against, text: give all three and no scores, or scores alone")
    tables: dict[str, Any] = {}
    with TemporaryDirectory(prefix="compare-") as folder:
        located = _are_tokens(given.scores)
        if all(models) or located:
            with extras_named():
                own = import_module(_DIFFERENCE)
        if all(models):
            sources, agreed = own.score_models(given, folder)
            tables |= {} if agreed is None else {"agreement": agreed}
        else:
            sources = _sources(given.scores)
        if all(models) or located:
            tables["parts"], files = own.locate(sources, given, all(models))
        else:
            files = [held for source, _ in sources for held in read_scores(source)]
    return _found(given, sources, files, tables)


def _found(
    given: PairOptions,
    sources: Sequence[tuple[str | HeldTable, str]],
    files: Sequence[FileScores],
    tables: dict[str, Any],
) -> Result:
    names = {str(source): name for source, name in sources}
    if not names or (len(names) == 1 and isinstance(given.scores, Mapping) and not given.output):
        held = "one model alone" if names else "no model"
        raise InputError(f"scores: are of {held}; give those of two models at least")
    if not given.output:
        check_company(files)
    table, signature = compare_scores(files, names, given), signed_pairs(files, given)
    labels = Labels(models=list(names.values()), names={name: name for name in names.values()})
    frame = frame_of(table)
    frames = {"perplexity_differences": frame}
    frames |= {f"perplexity_{name}": frame_of(one) for name, one in tables.items()}
    if given.csv:
        write_text(given.csv, csv_text(frame))
    if given.output:
        flags = {name: getattr(given, name) for name in ("count_eos", "leave_out_infinite")}
        script = "beyond_perplexity/library/compare_perplexity.py"
        record = run_record(script, flags) | {"signature": signature}
        write_shard(given.output, PERPLEXITY_DIFFERENCES, table, record)
    text, figures = describe_differences(frame, labels), ["perplexity_differences"]
    if "parts" in tables:
        text += "\n\n" + describe_parts(frames, labels)
        figures += ["perplexity_parts", "perplexity_by_position"]
    if given.out:
        # By its name, so that how a page looks counts for no job of a run.
        write = resolve_name("beyond_perplexity.report.difference_parts:write_difference")
        text += write(Path(given.out), frames, figures, labels, signature)
    return Result(
        "compare_perplexity",
        table,
        text=text,
        summary={"signature": signature},
        tables=tables,
        figures={
            name.removeprefix("perplexity_"): partial(draw_difference, name, frames, labels)
            for name in figures
        },
    )


def _sources(scores: Any) -> list[tuple[str | HeldTable, str]]:
    """Return what each model's scores are read from, and its name."""
    if isinstance(scores, Mapping):
        found = []
        for name, one in scores.items():
            held = one.table_of("documents") if isinstance(one, Result) else one
            source = calls.table_source(held, f"scores[{name!r}]")
            if isinstance(one, Result) and not isinstance(source, str):
                source.metadata = footer_of(one.summary.get("signature"))
            found.append((source, str(name)))
    else:
        given = calls.listed(scores, "scores")
        for k, one in enumerate(given):
            if not isinstance(one, str | os.PathLike):
                raise calls.wrong_type(f"scores[{k}]", one, "tables as a dict, by model")
        paths = [str(Path(one)) for one in given]
        stems = [Path(path).name.split(".")[0] for path in paths]
        names = stems if len(set(stems)) == len(stems) else paths  # two have the same name
        found = list(zip(paths, names, strict=True))
    read = [str(source) for source, _ in found]
    if twice := [path for path in read if read.count(path) > 1]:
        raise InputError(f"{twice[0]}: is given twice; give each model's scores once")
    return found
