"""What a reader must know first, in five lines: what differs, and how far that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.corpus.split import SENTENCES
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_range, shown_share
from beyond_perplexity.figures.verdicts import beyond_floor, effect_table, verdict, verdict_mark
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.report.text_shares import TEXT_SHARES
from beyond_perplexity.tendencies.definitions import TENDENCIES, tendencies_of
from beyond_perplexity.tendencies.text_comparison import TEXT
from beyond_perplexity.verdicts import DIFFERS, WITHOUT_VERDICT

LAWS_OF_UNITS = {
    "document": (
        "documents (of Wikipedia: paragraphs) were shuffled before they were split, as in the "
        "paper: the law is that of the documents of *these* pages, and perplexity is in-topic, of "
        "documents whose neighbours may stand in the training text"
    ),
    "page": "whole pages were kept apart: the law is that of the text of new pages",
    "given": "the source comes in splits of its own: the law is that of its test split",
}
# The tests that stand for a tendency in the line of what could have been missed.
MISSED = ("length", "share", "words", "ranks", "types")
# Units of shifts that a sentence needs, and how it says them.
SHIFTED = {"tokens": "tokens", "Zipf's s": "of Zipf's s"}


class Compared(NamedTuple):
    """What the first page is told of a corpus that bodies of text are compared with.

    Attributes
    ----------
    name : str
        Of the corpus.
    unit : str
        What its splits are made of, a key of `LAWS_OF_UNITS`; another one is not spoken of.
    measures : pandas.DataFrame
        Schema ``tendencies``, of the bodies that are compared with it.
    sensitivity : pandas.DataFrame or None
        Schema ``sensitivity``.
    """

    name: str
    unit: str
    measures: pd.DataFrame
    sensitivity: pd.DataFrame | None = None


def by_corpus(
    corpora: Mapping[str, Sequence[str]],
    extractions: Mapping[str, Mapping[str, Any]],
    measures: pd.DataFrame | None,
    sensitivities: Sequence[pd.DataFrame],
) -> list[Compared]:
    """Put together what is known of each corpus that something is compared with.

    Parameters
    ----------
    corpora : dict
        The bodies of text that are compared with each corpus.
    extractions : dict
        Extraction reports by corpus; ``split`` has the ``unit``.
    measures : pandas.DataFrame or None
        Schema ``tendencies``, of all bodies.
    sensitivities : sequence of pandas.DataFrame
        Schema ``sensitivity``, in the order of the corpora; may be fewer.
    """
    if measures is None:
        return []
    tables = dict(zip(corpora, sensitivities, strict=False))
    found = []
    for name, sources in corpora.items():
        report = extractions[name if name in extractions else name.removesuffix(SENTENCES)]
        unit = report.get("split", {}).get("unit", "")
        own = measures[measures["source"].isin(sources)]
        if len(own):
            found.append(Compared(name, str(unit), own, tables.get(name)))
    return found


def body_name(source: object) -> str:
    """Write the name of a body of text as the first page has it: model and decoding."""
    return escape_rst(Labels().source(str(source)))


def _about(row: Mapping[Any, Any]) -> str:
    tendency = TENDENCIES[row["tendency"]]
    return f"{tendency.noun} ({tendency.distance_name})"


def _standing_out(row: Mapping[Any, Any]) -> float:
    """Measure an excess by the upper half of the floor's band; NaN without a floor."""
    width = row["floor_high"] - row["floor"]
    if width == 0:
        return math.inf if row["excess"] > 0 else math.nan
    return float(row["excess"] / width)


def _farthest(rows: Sequence[Mapping[Any, Any]]) -> str:
    with_floor = [row for row in rows if not math.isnan(_standing_out(row))]
    if not with_floor:
        return "no distance has a floor that it could be held against."
    outside = [row for row in with_floor if beyond_floor(row) > 0]
    starred = [row for row in rows if verdict(row) == DIFFERS]
    withheld = sum(verdict(row) == WITHOUT_VERDICT for row in rows)
    counts = (
        f"Of {len(rows)} distances {len(outside)} lie above the band of human text against itself, "
        f"{len(starred)} have a star" + (f", {withheld} have no verdict." if withheld else ".")
    )
    if not outside:
        return f"no distance lies above the band of human text against itself. {counts}"
    most = max(outside, key=lambda row: (_standing_out(row), row["excess"]))
    mark = escape_rst(verdict_mark(most))
    band = f"{shown(most['floor_low'])} to {shown(most['floor_high'])}"
    return (
        f"{_about(most)} of *{body_name(most['source'])}*, {shown(most['value'])}{mark}; human "
        f"text of that size is {shown(most['floor'])} from itself (95% of the draws: {band}). "
        f"{counts}"
    )


def _floors(rows: Sequence[Mapping[Any, Any]]) -> str:
    said = []
    for tendency, row in TENDENCIES.items():
        floors = shown_range(r["floor"] for r in rows if r["tendency"] == tendency)
        if floors:
            said.append(f"{row.noun} {floors}")
    if not said:
        return "none was measured."
    return (
        "two human texts of as many documents, tokens and groups, read in the same vocabulary, are "
        f"this far apart: {', '.join(said)}. Only what a body has above it, the excess, tells "
        "something of the model."
    )


def _missed(sensitivity: pd.DataFrame | None, documents: int) -> str:
    if sensitivity is None or sensitivity.empty:
        return "how small a difference these tests can find was not measured."
    sizes = sorted(set(sensitivity["n"]))
    size = max((n for n in sizes if n <= documents), default=sizes[0])
    at_size = sensitivity[sensitivity["n"] == size]
    said = []
    for tendency, row in tendencies_of(*MISSED).items():  # type: ignore[arg-type]
        own = at_size[(at_size["tendency"] == tendency) & (at_size["measure"] == row.distance)]
        said += [f"{row.noun} {_shift(found)}" for found in own.to_dict("records")]
    level, power = sensitivity[["level", "power"]].iloc[0]
    fewer = ", which find less" if size > documents else ""
    return (
        f"with {size:,} documents in each text (compared were {documents:,}{fewer}) a test finds "
        f"at p < {level:g} in {100 * power:g}% of the cases a shift of: {', '.join(said)}. "
        "Anything smaller may be there and have no star."
    )


def _shift(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["shift"]):
        return "none"
    unit = f" {SHIFTED[row['unit']]}" if row["unit"] in SHIFTED else ""
    relative = "" if pd.isna(row["relative"]) else f" ({100 * row['relative']:.2g}%)"
    return f"{shown(row['shift'])}{unit}{relative}"


def _texts(measures: pd.DataFrame) -> str:
    said = []
    text = measures[measures["tendency"] == TEXT]
    for measure, title in TEXT_SHARES.items():
        own = text[text["measure"] == measure].dropna(subset="value")
        if own.empty:
            continue
        worst = own.sort_values("value", ascending=False, kind="stable").to_dict("records")[0]
        human = text[text["measure"] == f"{measure}_reference"]["value"]
        beside = f", human text {shown_range(human, shown_share)}" if len(human.dropna()) else ""
        share, source = shown_share(worst["value"]), body_name(worst["source"])
        said.append(f"{title} {share} (*{source}*{beside})")
    if not said:
        return "nothing was counted."
    return f"the largest shares are: {'; '.join(said)}. No test of a tendency sees a copied text."


def five_lines(compared: Compared) -> list[str]:
    """Say what a reader must know before any table.

    Parameters
    ----------
    compared : Compared
        A corpus with the bodies of text that are compared with it.

    Returns
    -------
    list of str
        Five lines of reStructuredText: what differs most (the largest excess by the width of the
        floor's band), what the floor is, what could have been missed at this number of documents,
        the largest shares of unknown words, unfinished, repeated and copied text, and which law the
        comparison is about.
    """
    measures = compared.measures
    rows: list[dict[Any, Any]] = effect_table(measures).to_dict("records")
    documents = int(min(measures["n_samples"].max(), measures["n_reference"].max()))
    law = LAWS_OF_UNITS.get(compared.unit, "how the splits were made is not known")
    return [
        f"**What differs most:** {_farthest(rows)}",
        f"**The floor:** {_floors(rows)}",
        f"**What could have been missed:** {_missed(compared.sensitivity, documents)}",
        f"**What the texts are made of:** {_texts(measures)}",
        f"**Which law:** in *{escape_rst(compared.name)}* {law}.",
    ]
