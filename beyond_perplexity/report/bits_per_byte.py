"""Models in bits per byte: Table 1 of the tendencies paper, and the differences of all pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import Descriptions, both_ways
from beyond_perplexity.figures.numbers import MINUS, STAR_NOTE, shown, shown_p, stars
from beyond_perplexity.report import layout
from beyond_perplexity.report.published import (
    COLUMN,
    OWN,
    PAPER,
    PARAMETERS,
    PERPLEXITIES,
    PUBLISHED_NOTE,
)

SPELLED = "open-vocabulary bits per byte"
RAW_BITS = "bits per byte of raw text"
_TEXTS = layout.texts_beside("bits_per_byte.toml", star_note=STAR_NOTE)
BITS_NOTE = _TEXTS["bits_note"]


class ByteBits(NamedTuple):
    """Bits per byte of a text, infinite when a document is impossible; its documents and bytes;
    limits over pages where there are any, and beside them by document."""

    value: float
    low: float | None
    high: float | None
    size: tuple[int, int]
    low_by_document: float | None = None
    high_by_document: float | None = None
    note: str = ""  # why there are no limits


def bits_per_byte(result: Mapping[str, Any] | None, text: str = "cleaned") -> ByteBits | None:
    """Return the bits per byte of ``cleaned`` or ``raw`` texts, of an open vocabulary; None where
    it was not scored, or the spelling of some words is free."""
    if result is not None and result.get("text", "cleaned") != text:
        result = result.get("cleaned") if text == "cleaned" else None
    if result is None or "byte" not in result.get("bits", {}):
        return None
    spelled = "open_vocabulary" in result
    if not spelled and result["unknown"]:
        return None
    value = (result["open_vocabulary"] if spelled else result)["bits"]["byte"]
    both = [result.get(name, {}) for name in ("interval", "interval_by_document")]
    note = both[0].get("note", "")
    held = [one.get("open_vocabulary", {}) if spelled else one for one in both]
    (low, high), beside = (one.get("bits", {}).get("byte", (None, None)) for one in held)
    size = (int(result["documents"]), int(result["n"]["byte"]))
    value = math.inf if value is None else float(value)
    return ByteBits(value, low, high, size, beside[0], beside[1], note)


def check_one_text(found: Mapping[str, ByteBits | None]) -> None:
    """Check that the numbers of a column are of as many documents and bytes."""
    known = {name: bits for name, bits in found.items() if bits}
    for name, bits in known.items():
        first = next(iter(known))
        if bits.size != known[first].size:
            raise InputError(
                f"models '{first}' and '{name}' were scored on different texts ("
                f"{known[first].size[1]:,} and {bits.size[1]:,} bytes): their bits per byte share "
                "no column; score them on one text"
            )


BITS_HEADINGS = {"cleaned": SPELLED, "raw": RAW_BITS}


def model_table(
    models: Descriptions,
    perplexities: Descriptions,
    labels: Labels,
) -> layout.Table:
    """Make Table 1 of ``model.json`` and perplexity results: parameters and perplexity."""
    texts = [text for text in BITS_HEADINGS if _scored(perplexities, text)]
    names = labels.sort_models(models)
    records = [_model_record(name, models[name], perplexities.get(name)) for name in names]
    two_digits, measured = partial(shown, digits=2), "Perplexity of the test set"
    columns = [
        *layout.text_columns("Model", form=labels.model),
        *layout.text_columns("Vocabulary"),
        layout.Column(
            OWN, "Parameters (millions)", of="parameters", form=lambda n: shown(n / 1e6, 2)
        ),
        layout.Column(
            PAPER,
            "Parameters (millions)",
            published=True,
            of=f"{COLUMN}_parameters",
            form=lambda n: shown(n / 1e6 if n else None),
        ),
        *(
            layout.Column(f"per {name}", measured, of=f"perplexity_per_{key}", form=two_digits)
            for name, key in (
                ("token", "token"),
                ("word", "word"),
                ("word, unknown penalized", "word_unknown_penalized"),
            )
        ),
        layout.Column(PAPER, measured, published=True, of=f"{COLUMN}_perplexity", form=two_digits),
        *(
            layout.Column(
                BITS_HEADINGS[text], "Bits of the test set", of=f"bits_per_byte_{text}", form=shown
            )
            for text in texts
        ),
    ]
    note = (
        f"All numbers count the end of a document. {BITS_NOTE}. The penalty for unknown words is "
        "the published one, ln U nats for one of U training types, which is less than a spelling. "
        "Caps of length, such as the pieces that a model was trained on, are in the CSV (data)."
    )
    title = "Table 1: Parameters and perplexity of the models"
    return layout.lay_out("table_1", title, note, columns, records, published_note=PUBLISHED_NOTE)


def _scored(perplexities: Descriptions, text: str) -> dict[str, ByteBits | None]:
    """Return the bits per byte of a text of the models that have them; checks that it is one."""
    found = {name: bits_per_byte(result, text) for name, result in perplexities.items()}
    check_one_text(found)
    return {name: bits for name, bits in found.items() if bits}


def _model_record(
    name: str, model: Mapping[str, Any], perplexity: Mapping[str, Any] | None
) -> dict[str, object]:
    try:
        family, size = str(model["family"]), int(model["parameters"])
        kind = str(model["vocabulary"]["kind"])
        units = {unit: _perplexity(perplexity, unit) for unit in ("token", "word")}
        # An open vocabulary has no unknown words to be penalized.
        penalized = _perplexity((perplexity or {}).get("unknown_penalized", perplexity), "word")
        bits = {text: bits_per_byte(perplexity, text) for text in BITS_HEADINGS}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the description or perplexity of model '{name}' lacks {error}"
        ) from error
    return {
        "model": name,
        "family": family,
        "vocabulary": kind,
        "parameters": size,
        f"{COLUMN}_parameters": PARAMETERS.get(family),
        **{f"perplexity_per_{unit}": value for unit, value in units.items()},
        "perplexity_per_word_unknown_penalized": penalized,
        **{
            f"bits_per_byte_{text}{end and f'_{end}'}": found and getattr(found, end or "value")
            for end in ("", "low", "high", "low_by_document", "high_by_document")
            for text, found in bits.items()
        },
        f"{COLUMN}_perplexity": PERPLEXITIES.get(family),
    }


def _perplexity(result: Mapping[str, Any] | None, unit: str) -> float | None:
    if result is None:
        return None
    value = result["perplexity"][unit]
    return float("inf") if value is None else float(value)


# ---- differences ----

_CLAIM = _TEXTS["claim"]
_NOTE = _TEXTS["note"]
_DIGITS = 4


def is_pair(differences: pd.DataFrame) -> pd.Series:
    """Tell the rows of pairs from those of the models' own bits per byte."""
    return differences["second"].notna()


def _bits(value: float, signed: bool) -> str:
    if not signed or not math.isfinite(value) or value == 0:
        return shown(value, _DIGITS)
    return f"{value:+.{_DIGITS}f}".replace("-", MINUS)


def _difference_interval(second: str | None, low: float, high: float) -> str:
    limits = [_bits(limit, not pd.isna(second)) for limit in (low, high)]
    return "" if pd.isna(low) else f"[{', '.join(limits)}]"


def _groups(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["groups"]):
        return ""
    few = row["groups_effective"] < 0.95 * row["groups"]
    effective = f" ({row['groups_effective']:.0f} effective)" if few else ""
    return f"{int(row['groups']):,}{effective}"


def sorted_differences(differences: pd.DataFrame, labels: Labels) -> pd.DataFrame:
    """Sort rows by text, then own ones before pairs, then as the labels do."""
    names = {*differences["first"], *differences["second"].dropna()}
    order = {name: place for place, name in enumerate(labels.sort_models(names))}
    places = [differences[name].map(order).fillna(-1) for name in ("second", "first")]
    texts = pd.factorize(differences["scored_text"].fillna(""), sort=True)[0]
    return differences.iloc[np.lexsort(np.array([*places, is_pair(differences), texts]))]


def differences_table(differences: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of bits per byte and their differences: a row a model, then one a pair."""
    columns = [
        *layout.text_columns("Text", of="scored_text", form=lambda text: text or ""),
        *layout.text_columns("Model", of="first", form=labels.model),
        *layout.text_columns(
            "less model", of="second", form=lambda n: "" if pd.isna(n) else labels.model(n)
        ),
        layout.Column(
            "bits per byte",
            of=lambda r: _bits(r["value"], not pd.isna(r["second"])) + stars(r["p_adjusted"]),
        ),
        layout.Column("95% interval", of=("second", "low", "high"), form=_difference_interval),
        layout.Column(
            "by document",
            of=("second", "low_by_document", "high_by_document"),
            form=_difference_interval,
        ),
        layout.Column("p", of="p_value", form=shown_p),
        layout.Column("p adjusted", of="p_adjusted", form=shown_p),
        layout.Column(
            "least / power",
            of=lambda r: (
                ""
                if pd.isna(r["detectable"])
                else f"{shown(r['detectable'], digits=_DIGITS)} / {r['power']:.2f}"
            ),
        ),
        layout.Column("groups", of=_groups),
        *layout.text_columns("note", form=lambda text: text or ""),
    ]
    ordered = sorted_differences(differences, labels).astype({"groups": "Int64"})
    title = "Differences between models in bits per byte"
    return layout.lay_out("perplexity_differences", title, f"{_NOTE} {_CLAIM}", columns, ordered)


def _shorter(table: layout.Table) -> str:
    """Write a table for a terminal: no column that is empty in all rows, notes beneath."""
    *rest, _ = range(len(table.columns))
    kept = [place for place in rest if any(row[place] for row in table.rows)]
    notes = dict.fromkeys(row[-1] for row in table.rows if row[-1])
    return "\n".join([layout.to_text(table.chosen(kept)), *notes])


def _matrix(pairs: pd.DataFrame, names: Sequence[str], labels: Labels) -> str:
    """Write differences of row less column, with stars."""
    cells = {
        (row["first"], row["second"]): _bits(row["value"], True) + stars(row["p_adjusted"])
        for row in both_ways(pairs).to_dict("records")
    }
    columns = [layout.Column("", text=True, of=labels.model)]
    for name in names:
        of = partial(lambda second, first: cells.get((first, second), ""), name)
        columns.append(layout.Column(labels.model(name), of=of))
    return layout.to_text(layout.lay_out("matrix", "", "", columns, names))


def describe_differences(differences: pd.DataFrame, labels: Labels) -> str:
    """Say for a terminal how models differ (of many, in a matrix), and what may be claimed."""
    parts = []
    for text, held in differences.groupby(differences["scored_text"].fillna(""), sort=False):
        if text:
            parts.append(f"On {text} text:")
        pairs = held[is_pair(held)]
        both = (held[~is_pair(held)], pairs)
        unnamed = (rows.assign(scored_text="") for rows in both if len(rows))
        parts += [_shorter(differences_table(rows, labels)) for rows in unnamed]
        names = labels.sort_models({*pairs["first"], *pairs["second"]})
        if len(names) > 2:
            parts.append("Row less column:\n" + _matrix(pairs, names, labels))
    return "\n\n".join([*parts, fill(_NOTE, 100), fill(_CLAIM, 100)])
