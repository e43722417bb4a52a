"""The page about a comparison of two bodies of text, and its tables."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import beyond_perplexity
from beyond_perplexity.figures.numbers import (
    STAR_NOTE,
    shown,
    shown_interval,
    shown_p,
    stars,
)
from beyond_perplexity.report.comparison_input import Body, CompareOptions, Comparison
from beyond_perplexity.report.layout import Column, Table, html_page, to_html_table
from beyond_perplexity.tendencies.rows import DISTANCE_NAMES, LENGTH, SHARE_NOUNS, SHARES


class MainRow(NamedTuple):
    """A row of the main table: what is compared, its value in both texts, and its distance."""

    heading: str
    tendency: str
    value: str | None
    distance: str
    digits: int = 3


MAIN_ROWS = (
    MainRow("Length: mean, tokens", LENGTH, "mean", "ks", 1),
    *(MainRow(f"{row.title}: mean share", name, "mean", "ks") for name, row in SHARES.items()),
    MainRow("Rank-frequency: Zipf's s", "rank_frequency", "zipf_s", "ks_empirical"),
    MainRow("Types by length: Heaps' β", "type_token_unigrams", "heaps_beta", "ks_empirical"),
    MainRow("Bigram types by length: β", "type_token_bigrams", "heaps_beta", "ks_empirical"),
    MainRow("Unigrams", "unigram", None, "tvd"),
    MainRow("Unigrams, largest difference", "unigram", None, "max_difference", 4),
)

FIGURE_TEXTS = {
    "distances": ("Distances at a glance", "Distance between samples and reference per tendency."),
    "length": (
        "Length of documents",
        "Boxes: quartiles; whiskers: 5th to 95th percentile; line: median; diamond: mean.",
    ),
    "types_by_length": (
        "Types by length",
        "Mean number of distinct tokens in documents of each length; the band holds 90% of the "
        "reference's documents, where a length has enough of them.",
    ),
    "types_by_length_distances": (
        "Distance of the number of types, by length",
        "KS distance at each length, to Heaps' law as fitted to the samples, as fitted to the "
        "reference, and to the reference itself.",
    ),
    "rank_frequency": (
        "Rank and frequency",
        "Relative frequency of each type by its rank, both axes logarithmic, with Zipf's law.",
    ),
    "vocabulary": ("Vocabulary", "Sizes, and how much of the vocabulary is shared."),
    **{
        name: (
            f"Share of {row.noun}",
            f"Density over documents{f'; {row.noun}: {row.note}' if row.note else ''}.",
        )
        for name, row in SHARES.items()
    },
}
WIDE = ("distances", "vocabulary")

EXPLANATION = f"""
<h2 id='reading'>How to read this</h2>
<dl>
<dt>Reference, samples</dt>
<dd>The value of the tendency in each text. {SHARE_NOUNS.capitalize()} are shares of a document's
tokens. Zipf's s: frequency falls with rank <em>k</em> like <em>k</em><sup>−s</sup>. Heaps' β: a
document of <em>l</em> tokens has about α<em>l</em><sup>β</sup> distinct ones.</dd>
<dt>Distance</dt>
<dd>How far apart the two distributions are: 0 when they are the same, 1 at most. <b>KS</b>
(Kolmogorov-Smirnov): the largest difference of the two cumulative distributions. <b>TVD</b> (total
variation): half of the sum of all differences of word probabilities, so the share of tokens that
would have to change. <b>max</b>: the largest difference for a single word.</dd>
<dt>95% interval</dt>
<dd>Where the distance or value would be for other documents of the same kind (bootstrap over
documents).</dd>
<dt>p, stars</dt>
<dd>How often shuffling the documents between the two texts gives a difference at least this large
(permutation test). ** p &lt; 0.005, * p &lt; 0.05.</dd>
<dt>Verdict</dt>
<dd>Distances of finite texts are never quite 0, and those of unigrams and of types by length are
large for short texts even when nothing differs: "may be chance" says that p is 0.05 or more. With
many documents even trifles are significant: then the size of the distance is what counts.</dd>
</dl>
"""


def _lookup(measures: pd.DataFrame) -> dict[tuple[str, str], dict[Any, Any]]:
    rows = measures.to_dict("records")
    return {(row["tendency"], row["measure"]): row for row in rows}


def _verdict(p_value: float) -> str:
    if math.isnan(p_value):
        return "not tested"
    return "differs" if stars(p_value) else "may be chance"


def comparison_table(measures: pd.DataFrame) -> Table:
    """Make the table that answers how far the samples are from the reference.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``tendencies`` of one source.

    Returns
    -------
    Table
        A row per tendency that could be measured.
    """
    found = _lookup(measures)
    body, kept = [], []
    for row in MAIN_ROWS:
        distance = found.get((row.tendency, row.distance))
        if distance is None:
            continue
        values = [""] * 2
        if row.value:
            pair = (found.get((row.tendency, row.value + suffix)) for suffix in ("_reference", ""))
            values = [shown(entry["value"], row.digits) if entry else "" for entry in pair]
        kept.append((row.tendency, row.distance))
        body.append(
            [
                row.heading,
                *values,
                shown(distance["value"], 4 if row.distance == "max_difference" else 3)
                + stars(distance["p_value"]),
                DISTANCE_NAMES[row.distance],
                shown_interval(distance["low"], distance["high"]),
                shown_p(distance["p_value"]),
                _verdict(distance["p_value"]),
            ]
        )
    heads = [
        Column("Tendency", text=True),
        Column("Reference"),
        Column("Samples"),
        Column("Distance"),
        Column("Kind", text=True),
        Column("95% interval"),
        Column("p"),
        Column("Verdict", text=True),
    ]
    keys = zip(measures["tendency"], measures["measure"], strict=True)
    tidy = measures[[key in kept for key in keys]]
    title = "How far are the samples from the reference?"
    note = f"Distance: 0 for the same distribution, 1 at most. {STAR_NOTE}."
    return Table("main", title, note, heads, body, tidy)


def all_measures_table(measures: pd.DataFrame) -> Table:
    """Make the table of all measures, rounded.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``tendencies`` of one source.

    Returns
    -------
    Table
    """
    body = [
        [
            *key,
            shown(row["value"], 4) + stars(row["p_value"]),
            shown_interval(row["low"], row["high"]),
            shown_p(row["p_value"]),
        ]
        for key, row in _lookup(measures).items()
    ]
    heads = [
        Column("Tendency", text=True),
        Column("Measure", text=True),
        Column("Value"),
        Column("95% interval"),
        Column("p"),
    ]
    note = f"{STAR_NOTE}. In full precision in tendencies.csv."
    return Table("measures", "All measures", note, heads, body, measures)


def _body_row(name: str, body: Body) -> list[str]:
    statistics = body.statistics
    return [
        name,
        str(body.path),
        shown(statistics.n_documents),
        shown(statistics.n_tokens),
        shown(len(statistics.types)),
        shown(body.left_out),
    ]


def bodies_table(comparison: Comparison) -> Table:
    """Make the table of what was compared: files, documents, tokens, types."""
    heads = [Column("Text", text=True), Column("File", text=True)]
    heads += [Column(title) for title in ("Documents", "Tokens", "Types", "Empty, left out")]
    rows = [
        _body_row("Reference", comparison.reference),
        _body_row("Samples", comparison.samples),
    ]
    return Table("bodies", "What was compared", "", heads, rows, pd.DataFrame())


def _figure(folder: Path, name: str) -> str:
    title, text = FIGURE_TEXTS[name]
    data = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    return (
        f"<figure id='{name}'{' class=wide' if name in WIDE else ''}><h3>{escape(title)}</h3>"
        f"<img alt='{escape(title)}: {escape(text, quote=True)}' "
        f"src='data:image/svg+xml;base64,{data}'>"
        f"<figcaption class='note'>{escape(text)}</figcaption></figure>"
    )


def _settings(options: CompareOptions, described: Mapping[str, object]) -> str:
    cleaning = "none (the texts are tokens already)"
    if not options.tokenized:
        cleaning = (
            "punctuation normalized, non-printing characters removed, Moses tokenizer "
            f"({options.language}), lower case, accents removed"
        )
    entries = {
        "Cleaning": cleaning,
        "Stop words": f"list '{described['stop_words']}'",
        "Symbols": "tokens of punctuation, numbers and other symbols only",
        "Permutations": f"{options.permutations:,}",
        "Bootstrap resamples": f"{options.bootstrap:,}",
        "Seed": str(options.seed),
        "Made with": f"beyond-perplexity {beyond_perplexity.__version__}",
    }
    items = [f"<li><b>{escape(key)}</b>: {escape(value)}</li>" for key, value in entries.items()]
    return f"<h2>Settings</h2>\n<ul>{''.join(items)}</ul>"


def comparison_page(
    comparison: Comparison,
    options: CompareOptions,
    described: Mapping[str, object],
    folder: Path,
    figures: Sequence[str],
) -> str:
    """Write the page: one HTML file that needs no other.

    Parameters
    ----------
    comparison : Comparison
        The results.
    options : CompareOptions
        How they were made.
    described : dict
        How the texts were counted: ``stop_words``.
    folder : pathlib.Path
        Where the figures' SVG files are.
    figures : sequence of str
        Names of the figures, keys of `FIGURE_TEXTS`.

    Returns
    -------
    str
        HTML.
    """
    samples, reference = comparison.samples.path.name, comparison.reference.path.name
    title = f"{samples} compared with {reference}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        to_html_table(bodies_table(comparison)),
        to_html_table(comparison_table(comparison.measures)),
        "<p><a href='#reading'>How to read this table</a></p>",
        "<h2>Figures</h2>",
        "<div class='figures'>",
        *(_figure(folder, name) for name in figures),
        "</div>",
        EXPLANATION,
        "<h2>All measures</h2>",
        f"<details><summary>Show all {len(comparison.measures)} measures</summary>",
        to_html_table(all_measures_table(comparison.measures)),
        "</details>",
        _settings(options, described),
    ]
    return html_page(title, "\n".join(parts))
