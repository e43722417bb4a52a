"""The perplexity of texts under a model in all its definitions, and its JSON as rows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from beyond_perplexity.errors import extras_named
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.library import calls
from beyond_perplexity.library.result import Result
from beyond_perplexity.models.served.protocols import ASKED
from beyond_perplexity.perplexities.options import ScoringOptions

if TYPE_CHECKING:
    import pandas as pd

PERPLEXITY_COLUMNS = [
    *("text", "split", "unknown_words", "measure", "unit", "value", "low", "high"),
    *("low_by_document", "high_by_document", "n", "documents", "unknown_share"),
]
_LIMITS = ("low", "high", "low_by_document", "high_by_document")
# How unknown words are penalized -> key of it in a summary.
_KEYS = {"as_unknown": "", "penalized": "unknown_penalized", "open_vocabulary": "open_vocabulary"}


def _is_arpa(given: ScoringOptions) -> bool:
    if not isinstance(given.model, str | os.PathLike):
        return False
    return os.path.isfile(given.model) if given.arpa is None else bool(given.arpa)


def _unused(given: ScoringOptions) -> Iterator[calls.Unused]:
    if given.url is not None:
        local = "arpa", "unk_as", "unk_as_unknown", "cleaned", "tokenized", "count_bos"
        ours = "no_count_eos", "special_tokens", "spelling_model", "per_word", "dtype", "device"
        yield "with a server", ("model", *local, *ours)
    else:
        yield "without a url", ASKED
    if given.url is None and _is_arpa(given):
        text = "with an ARPA file, whose text is read as it is"
        yield text, ("cleaned", "tokenized", "spelling_model", "special_tokens", "dtype")
    else:
        yield "without an ARPA file", ("unk_as", "unk_as_unknown")
    if given.model is None or isinstance(given.model, str | os.PathLike):
        yield "with a model that has its own", ("tokenizer",)
    else:
        held = "arpa", "cleaned", "tokenized", "special_tokens", "spelling_model", "dtype", "device"
        yield "with a model in memory", held
    if given.tokenized:
        yield "on tokenized texts", ("cleaned",)
    if calls.of_strings(given.texts):
        yield "on texts in memory", ("field",)
    if calls.in_memory(given.texts):
        yield "on texts in memory; groups stand beside them", ("group_column",)


@calls.library_function(ScoringOptions, _unused)
def perplexity(given: ScoringOptions) -> Result:
    """Score texts under a model: perplexity and bits in all their definitions.

    Returns
    -------
    Result
        ``table`` has a row for each unit (token, word, character, byte): its number N, perplexity
        and bits (base 2), with 95% limits over documents, or over groups or pages and beside them
        ``_by_document``, and both with the spelling of unknown words (``_open_vocabulary``) or a
        penalty for them (``_unknown_penalized``) where there is one. Of an impossible text they are
        infinite; what is not known is NaN. ``summary`` has all that the command prints; see
        `perplexities.summary`. Table ``documents`` (schema ``document_scores``).

    Raises
    ------
    InputError
        When the model or a text cannot be used, or the extra ``models`` is not installed.
    """
    calls.check_named("perplexity", given)
    column = given.group_column
    if column is None and given.groups is not None:
        column = calls.GROUP_COLUMN
    named = {"field": given.field, "group_column": column}
    texts = calls.text_source(given.texts, "texts", given.groups, **named)
    settled = replace(given, texts=texts, arpa=_is_arpa(given), group_column=column)
    summary, documents = _score(settled)
    if summary["dependence"]:
        remark(f"warning: {summary['dependence']}")
    tables = {"documents": documents} if documents is not None else {}
    table, text = partial(perplexity_by_unit, summary), partial(_text, summary)
    return Result("perplexity", table, text=text, summary=summary, tables=tables)


def _score(given: ScoringOptions) -> tuple[dict[str, Any], Any]:
    if given.url is not None:
        from beyond_perplexity.perplexities.served import score_served

        return score_served(given)
    with extras_named():
        from beyond_perplexity.models.in_memory import modes_kept
        from beyond_perplexity.perplexities.external import load_scoring, score_given
    with calls.torch_kept(given.threads), modes_kept(given.model):
        with extras_named():
            scoring = load_scoring(given)
        return score_given(scoring)


def _text(summary: Mapping[str, Any]) -> str:
    return str(perplexity_by_unit(summary).to_string(index=False))


def perplexity_rows(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Turn what `beyond-perplexity perplexity` and the workflow write of a model into rows.

    A summary of the raw text has that of the cleaned text in ``cleaned``. Columns are text
    (cleaned, raw), split, unknown_words (as_unknown: their spelling is free; penalized: ln U each;
    open_vocabulary: spelled), measure (perplexity; bits: a unit, base 2), unit (token, word,
    character, byte), value (infinite where a text is impossible), low and high (of its 95%
    interval, over groups or pages where there are any, and then also by document; NaN where it has
    none), n (units), documents, unknown_share.
    """
    import pandas as pd  # late, as of other functions here

    texts = [summary, summary["cleaned"]] if isinstance(summary.get("cleaned"), dict) else [summary]
    rows = [row for text in texts for row in _rows({"split": summary.get("split"), **text})]
    numbers = dict.fromkeys(["value", *_LIMITS], float)
    return pd.DataFrame(rows, columns=PERPLEXITY_COLUMNS).astype(numbers)


def perplexity_by_unit(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Set the numbers of one text side by side: a row a unit.

    Columns are unit, n (units), and of perplexity and bits (base 2) the value, low and high (and
    both by document beside those over groups or pages); with
    ``_open_vocabulary`` and ``_unknown_penalized`` where unknown words are penalized so. NaN: not
    known, as the bits of a unit that has none.
    """
    import pandas as pd

    long = perplexity_rows(summary)
    frame = pd.DataFrame({"unit": list(summary["n"]), "n": list(summary["n"].values())})
    limits = _LIMITS if "interval_by_document" in summary else _LIMITS[:2]
    for words, key in _KEYS.items():
        for measure in ("perplexity", "bits"):
            own = long[(long["unknown_words"] == words) & (long["measure"] == measure)]
            held = own.set_index("unit").reindex(frame["unit"])
            for column in ("value", *limits):
                end = "" if column == "value" else f"_{column}"
                if len(own) and not (end and words == "penalized"):
                    name = f"{measure}_{key}{end}" if key else f"{measure}{end}"
                    frame[name] = held[column].to_numpy(float)
    return frame


def _rows(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a number of a text a row; the penalty of unknown words has no interval of its own."""
    about = {"text": "cleaned", "split": None, "documents": None, "unknown_share": None}
    about |= {name: summary[name] for name in about if name in summary}
    intervals = [summary.get(name) or {} for name in ("interval", "interval_by_document")]
    for words, key in _KEYS.items():
        held = summary.get(key, {}) if key else summary
        within = [one.get(key, {}) if key else one for one in intervals]
        for measure in ("perplexity", "bits"):
            for unit, value in held.get(measure, {}).items():
                of_unit = (one.get(measure, {}).get(unit, (None, None)) for one in within)
                row: dict[str, Any] = dict(zip(_LIMITS, chain(*of_unit), strict=True))
                row |= {"value": math.inf if value is None else value}
                row |= {"unknown_words": words, "measure": measure, "unit": unit}
                yield {**about, **row, "n": summary["n"].get(unit)}
