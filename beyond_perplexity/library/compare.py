"""Two sample sets in every statistical tendency, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from beyond_perplexity.corpus.formats import AUTOMATIC
from beyond_perplexity.errors import InputError
from beyond_perplexity.library import calls
from beyond_perplexity.library.result import Result
from beyond_perplexity.report.comparison_page import (
    PAGE_FIGURES,
    comparison_text,
    draw_one,
    run_comparison,
)
from beyond_perplexity.tendencies.compare_options import PROMPT, CompareOptions


def _unused(given: CompareOptions) -> Iterator[calls.Unused]:
    given.check_texts()
    if given.prompted:
        sizes = "groups", "group_size", "samples_group_size"
        yield "on answers to prompts, whose groups are in the group column", sizes
    else:
        yield from _unused_of_texts(given)
    if given.pairs is None:
        yield "without pairs", ("human", "model")
    else:
        training = given.training is not None
        names = ("samples_field",) if training else ("samples_field", "field")
        yield "on pairs, whose fields are human and model", names
    if given.group_column == "":
        yield "where the group column is empty", ("groups",)
    if given.tokenized:
        yield "on tokenized texts", ("tokenizer",)
    if given.tokenized and given.stop_words not in ("auto", "nltk"):
        yield "on tokenized texts with a list of stop words", ("language",)
    if given.embedding is None:
        yield "without an embedding", ("embedding_documents",)
    if given.judge is None:
        yield "without a judge", ("judge_documents",)


def _unused_of_texts(given: CompareOptions) -> Iterator[calls.Unused]:
    texts = given.reference, given.samples
    read = [texts[0], *[texts[1]] * (given.samples_field is None)]
    read += [given.training] * (given.training is not None)
    if all(map(calls.of_strings, read)):
        yield "on texts in memory", ("field",)
    if calls.of_strings(texts[1]):
        yield "on texts in memory", ("samples_field",)
    if all(map(calls.in_memory, texts)):
        yield "on texts in memory; groups stand beside them", ("group_column",)


def _sources(given: CompareOptions) -> dict[str, Any]:
    """Return what both texts are read from, or pairs of them."""
    groups, field, column = given.groups, given.field, given.group_column
    own = field if given.samples_field is None else given.samples_field
    if given.prompted:
        names = given.prompt or PROMPT, given.human, given.model, column or calls.GROUP_COLUMN
        held = {name: getattr(given, name) for name in ("pairs", "reference", "samples")}
        return {
            name: calls.answer_source(
                one, name, (*names, field or calls.TEXT_COLUMN, own or calls.TEXT_COLUMN)
            )
            for name, one in held.items()
            if one is not None
        }
    beside = groups if isinstance(groups, tuple) and len(groups) == 2 else (groups, None)
    return {
        "reference": calls.text_source(
            given.reference, "reference", beside[0], field=field, group_column=column
        ),
        "samples": calls.text_source(
            given.samples, "samples", beside[1], field=own, group_column=column
        ),
    }


@calls.library_function(CompareOptions, _unused)
def compare(given: CompareOptions) -> Result:
    """Compare two sample sets in every statistical tendency; no model is needed.

    Returns
    -------
    Result
        ``table`` has a row a measure (schema ``tendencies``): its value in both texts, the
        distance (`value`) at the size of its `baseline`, `excess` = `value` - `baseline`, p-values
        and limits, and the distance of all documents (`value_all`). Tables ``words`` (words and
        phrases that the samples over- and under-use, the farthest first), ``curves``, with a
        vocabulary ``raw``, and of answers to prompts, of a judge and where it is asked for
        ``sensitivity`` (minimum detectable effects of as many answers or documents). Figures are
        those of the command.

    Raises
    ------
    InputError
        When something that was given cannot be used; names it, and the line where it can.
    """
    for name in ("pairs", "reference", "samples", "training"):
        one = getattr(given, name)
        is_file = one is None or isinstance(one, str | os.PathLike)
        if given.format != AUTOMATIC and not is_file:
            raise InputError(f"format: {name} is no path; leave it out, and name files by suffix")
    sources = _sources(given)
    if given.training is not None:
        sources["training"] = calls.text_source(given.training, "training", field=given.field)
    out = None if given.out is None else Path(given.out)
    found = run_comparison(replace(given, **sources), out)
    held = {name: getattr(found, name) for name in ("curves", "raw", "words", "sensitivity")}
    text = comparison_text(found)
    if out is not None:
        page, table = out / "compare.html", out / "tendencies.csv"
        text += f"\n\nOpen {page}; in full precision: {table}"
    return Result(
        "compare",
        found.measures,
        text=text,
        summary={k: getattr(found, k) for k in ("groups", "permuted", "signature")},
        tables={name: one for name, one in held.items() if one is not None},
        figures={n: partial(draw_one, row[0], found) for n, row in PAGE_FIGURES.items()},
    )
