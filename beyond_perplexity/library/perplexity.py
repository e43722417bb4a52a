"""The perplexity of texts under a model in all its definitions, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from beyond_perplexity.errors import extras_named
from beyond_perplexity.library.calls import (
    Unused,
    check_path_or_name,
    in_memory,
    library_function,
    torch_kept,
)
from beyond_perplexity.library.given import GROUP_COLUMN, text_source
from beyond_perplexity.library.result import Result
from beyond_perplexity.perplexities.options import ScoringOptions

if TYPE_CHECKING:
    import pandas as pd


def _is_arpa(given: ScoringOptions) -> bool:
    check_path_or_name("model", given.model)
    return os.path.isfile(given.model) if given.arpa is None else bool(given.arpa)


def _unused(given: ScoringOptions) -> Iterator[Unused]:
    if _is_arpa(given):
        text = "with an ARPA file, whose text is read as it is"
        yield Unused(text, ("cleaned", "tokenized", "speller", "special_tokens"))
    else:
        yield Unused("without an ARPA file", ("unk_as", "unk_as_unknown"))
    if given.tokenized:
        yield Unused("on tokenized texts", ("cleaned",))
    if in_memory(given.texts):
        yield Unused("on texts in memory", ("field",))
        yield Unused("on texts in memory; groups stand beside them", ("group_column",))


@library_function(ScoringOptions, _unused)
def perplexity(given: ScoringOptions) -> Result:
    """Score texts under a model: perplexity and bits in all their definitions.

    Returns
    -------
    Result
        ``table`` has a row for each unit (token, word, character, byte): its number N, perplexity
        and bits (base 2), with 95% limits over documents or groups, and both with the spelling of
        unknown words (``_spelled``) or a penalty for them (``_unknown_penalized``) where there is
        one. Of an impossible text they are infinite; what is not known is NaN. ``summary`` has all
        that the command prints; see `perplexities.summary`. Table ``documents`` (schema
        ``document_scores``).

    Raises
    ------
    InputError
        When the model or a text cannot be used, or the extra ``models`` is not installed.
    """
    column = given.group_column
    if column is None and given.groups is not None:
        column = GROUP_COLUMN
    texts = text_source(given.texts, "texts", given.groups, field=given.field, group_column=column)
    with extras_named():
        from beyond_perplexity.perplexities.brought import load_scoring, score_texts
    with torch_kept(given.threads):
        with extras_named():
            scoring = load_scoring(
                replace(given, texts=texts, arpa=_is_arpa(given), group_column=column)
            )
        found = score_texts(scoring)
    tables = {"documents": found.documents} if found.documents is not None else {}
    table, text = partial(_table, found.summary), partial(_text, found.summary)
    return Result("perplexity", table, text=text, summary=found.summary, tables=tables)


def _table(summary: Mapping[str, Any]) -> pd.DataFrame:
    from beyond_perplexity.library.perplexity_rows import perplexity_by_unit  # late: pandas

    return perplexity_by_unit(summary)


def _text(summary: Mapping[str, Any]) -> str:
    return str(_table(summary).to_string(index=False))
