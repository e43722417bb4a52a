"""The JSON of a perplexity as rows: one a number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

PERPLEXITY_COLUMNS = [
    "text",
    "split",
    "unknown_words",
    "measure",
    "unit",
    "value",
    "low",
    "high",
    "n",
    "documents",
    "unknown_share",
]
_UNKNOWN_WORDS = ("as_unknown", "penalized", "spelled")
_SUFFIXES = dict(zip(_UNKNOWN_WORDS, ("", "_unknown_penalized", "_spelled"), strict=True))
_KEYS = dict(zip(_UNKNOWN_WORDS, ("", "unknown_penalized", "spelled"), strict=True))


def perplexity_rows(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Turn what `scripts.perplexity` and the workflow write of a model into rows.

    Parameters
    ----------
    summary : dict
        With the summary of the cleaned text in ``cleaned`` where it is of the raw text.

    Returns
    -------
    pandas.DataFrame
        Columns text (cleaned, raw), split, unknown_words (as_unknown: their spelling is free;
        penalized: ln U each; spelled: charged for), measure (perplexity; bits: a unit, base 2),
        unit (token, word, character, byte), value (infinite where a text is impossible), low and
        high (of its 95% interval; NaN where it has none), n (units), documents, unknown_share.
    """
    texts = [summary, summary["cleaned"]] if isinstance(summary.get("cleaned"), dict) else [summary]
    rows = [row for text in texts for row in _rows({"split": summary.get("split"), **text})]
    numbers = dict.fromkeys(["value", "low", "high"], float)
    return pd.DataFrame(rows, columns=PERPLEXITY_COLUMNS).astype(numbers)


def perplexity_by_unit(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Set the numbers of one text side by side: a row a unit.

    Parameters
    ----------
    summary : dict
        As for `perplexity_rows`, of one text.

    Returns
    -------
    pandas.DataFrame
        Columns unit, n (units), and of perplexity and bits (base 2) the value, low and high; with
        ``_spelled`` and ``_unknown_penalized`` where unknown words are charged so. NaN: not known,
        as the bits of a unit that has none.
    """
    long = perplexity_rows(summary)
    frame = pd.DataFrame({"unit": list(summary["n"]), "n": list(summary["n"].values())})
    for words, suffix in _SUFFIXES.items():
        for measure in ("perplexity", "bits"):
            own = long[(long["unknown_words"] == words) & (long["measure"] == measure)]
            held = own.set_index("unit").reindex(frame["unit"])
            for column, end in (("value", ""), ("low", "_low"), ("high", "_high")):
                if len(own) and not (end and words == "penalized"):
                    frame[f"{measure}{suffix}{end}"] = held[column].to_numpy(float)
    return frame


def _rows(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    about = {
        "text": summary.get("text", "cleaned"),
        "split": summary.get("split"),
        "documents": summary.get("documents"),
        "unknown_share": summary.get("unknown_share"),
    }
    intervals = summary.get("interval") or {}
    for words, key in _KEYS.items():
        held = summary.get(key, {}) if key else summary
        # The penalty has no interval of its own.
        within = {} if key == "unknown_penalized" else intervals.get(key, {}) if key else intervals
        for measure in ("perplexity", "bits"):
            limits = within.get(measure, {})
            for unit, value in held.get(measure, {}).items():
                low, high = limits.get(unit, (None, None))
                yield {
                    **about,
                    "unknown_words": words,
                    "measure": measure,
                    "unit": unit,
                    "value": math.inf if value is None else value,
                    "low": low,
                    "high": high,
                    "n": summary["n"].get(unit),
                }
