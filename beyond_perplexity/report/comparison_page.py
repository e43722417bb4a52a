"""The page about a comparison of two bodies of text: its tables, and what it says of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import beyond_perplexity
from beyond_perplexity.figures.numbers import (
    STAR_LEVELS,
    STAR_NOTE,
    shown,
    shown_interval,
    shown_p,
    shown_share,
    shown_signed,
)
from beyond_perplexity.figures.verdicts import note_alone, reason_withheld, verdict, verdict_mark
from beyond_perplexity.foreign_text import escape_html
from beyond_perplexity.inference.p_values import needed_draws
from beyond_perplexity.report.comparison_input import CompareOptions, Comparison
from beyond_perplexity.report.layout import Column, Table, html_page, to_html_table
from beyond_perplexity.report.measured import TEXT_TITLES
from beyond_perplexity.tendencies.definitions import (
    DISTANCE_NAMES,
    EMBEDDING,
    LENGTH,
    SHARE_NOUNS,
    SHARES,
    TEXT,
)
from beyond_perplexity.verdicts import DIFFERS, WITHOUT_VERDICT

FIGURE_TEXTS = {
    "distances": (
        "Distances at a glance",
        "Distance between samples and reference per tendency, above it the floor, both at one "
        "size. White: as far as human text is from itself, and no star; blue: farther; violet: "
        "within the range of human text at that size, but the test of all documents finds it.",
    ),
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
would have to change. <b>max</b>: the largest difference for a single word; the note names that of
all documents. <b>MMD</b> (maximum mean discrepancy, 1.41 at most): the distance of the mean
embeddings of the documents' vectors.</dd>
<dt>Embeddings</dt>
<dd>Where an encoder is given, each of some random documents becomes a vector, and MMD with a
Gaussian kernel says how far the vectors of both texts are apart; the kernel's width is the median
distance of all of them, which no exchange of documents changes. There are no clusters and no seed
but that of the documents and of their exchanges. It sees what the encoder sees, which is what a
text is about more than how well it is written, and only the beginning of a long document (row
<em>cut</em>); unknown words are left out. Its limits are for endless texts, each on one side, and
can both lie below the distance, which is too large for few documents. <em>squared_mmd</em> is not
too large on average, and may be negative. <em>smallest_shift</em> is the share of documents of a
single topic that the test finds in 80% of cases at p &lt; 0.005, unadjusted.</dd>
<dt>Floor, excess</dt>
<dd>Two texts of one author are never 0 apart: the fewer documents, the farther. So floor, distance
and excess are of one size, that of half of the reference, or of the samples where these have fewer
documents. The <b>floor</b> is the mean distance of two random halves of the reference, over 199
splits; the <b>distance</b> is the mean one of as many samples from such halves; the <b>excess</b>
is distance minus floor: what the samples add. Where the reference has groups, each half has half of
them; with fewer than 20 effective groups in a half there is no floor, and the distance is that of
all documents, as <em>value_all</em> in tendencies.csv always is. The excess is no estimate of a
distance between endless texts, and never compares with the excess at another size. Words are
counted at equal tokens: of longer texts random documents are taken.</dd>
<dt>95% limits</dt>
<dd>Of a mean, a difference of means or Heaps' law, [a, b] holds what endless text of this kind
would have; of Zipf's split fit, what it would have for the words as this text ranks them. A
distance of finite texts is too large on average, so that no such interval would do: <b>≤ b</b> is
an <b>upper limit</b>, which the distance of endless texts exceeds in at most 5% of such
comparisons. Limits are from all documents, and a distance of fewer can lie above them.
TVD has a <b>lower limit</b> as well, [a, b], from words that are chosen in one half of the texts
and counted in the other.</dd>
<dt>p, stars</dt>
<dd>How often chance does this: documents are exchanged at random between the two texts, and p is
the share of exchanges that put them at least as far apart. Distances are tested on one side: only a
large one speaks against the samples. The tests of this page are one family, and p is
<b>adjusted</b> for all of them (Holm): the chance of even one false star is at most 5%.
** p &lt; 0.005, * p &lt; 0.05. Of B exchanges the smallest p is 1 / (B + 1), so that with few of
them no star can appear: the settings below say what can. Unadjusted p-values are in
tendencies.csv.</dd>
<dt>Groups</dt>
<dd>Documents of one page or author are no independent draws. Where a column names their groups,
whole groups are exchanged. Where the reference alone has groups, each is exchanged for a random
group of as many samples. What such an exchange cannot test soundly has <b>no verdict</b>: ranks,
and types by length, since it does not keep the lengths that they depend on. Where whole groups are
exchanged, a difference of lengths shows in types by length too. Where the samples alone have
groups, such as several answers of one prompt, one document of each is compared with single
documents of the reference: distances are averaged over 20 such draws, which are the same in every
exchange. Groups of both texts are exchanged where their mean sizes are alike within a factor of 2;
others, of which neither text's are nearly single documents, have no verdict, nor has anything below
20 groups. Without groups two halves of one book can differ.</dd>
<dt>Verdict</dt>
<dd><b>differs</b>: adjusted p below 0.05. <b>no difference found</b>: none was seen, which is not
that there is none; the upper limit says how large it may be. <b>no verdict</b>: no sound test is
possible, for the reason given. <b>not tested</b>: no test was asked for, or the number describes.
With many documents even trifles differ: then the size of the excess is what counts. The test sees
all documents, the excess a part of them: a row can differ with an excess near 0.</dd>
<dt>Smallest difference</dt>
<dd>A test of few documents finds large differences alone. As a rule of thumb four times the
documents find differences half as large; the distance from the floor to the upper limit is what
these texts leave open.</dd>
<dt>What the texts are made of</dt>
<dd>No test of a tendency sees a copied text: a program that repeats its training text passes them
all. So the shares of repeated documents, of 8 tokens in a row that stand in the training text
(where one was given), of unknown words and of unfinished documents stand beside. <b>Fragments</b>
are documents without the end of any sentence, such as headings: where one side has more of them,
they alone make a difference, and can be left out by their number of tokens.</dd>
<dt>Vocabulary</dt>
<dd>A model of a closed vocabulary writes &lt;unk&gt; where human text has a rare word. Where its
vocabulary is given, both texts are read in it: the words outside of it are &lt;unk&gt; on both
sides. The comparison of the raw texts then stands below, where the missing words count as a
difference.</dd>
</dl>
"""


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
    MainRow("Embeddings of documents", EMBEDDING, None, "mmd"),
)

WIDE = ("distances", "vocabulary")


def _lookup(measures: pd.DataFrame) -> dict[tuple[str, str], dict[Any, Any]]:
    rows = measures.to_dict("records")
    return {(row["tendency"], row["measure"]): row for row in rows}


def _said(row: Mapping[Any, Any]) -> str:
    said = verdict(row)
    return f"{said}: {reason_withheld(row)}" if said == WITHOUT_VERDICT else said


def comparison_table(measures: pd.DataFrame, *, raw: bool = False) -> Table:
    """Make the table of how far the samples are from the reference; `raw`: without a vocabulary."""
    found = _lookup(measures)
    body: list[list[str]] = []
    kept, marked = [], []
    for row in MAIN_ROWS:
        distance = found.get((row.tendency, row.distance))
        if distance is None:
            continue
        kept.append((row.tendency, row.distance))
        if verdict(distance) == DIFFERS:
            marked.append(len(body))
        body.append([row.heading, *_values(found, row), *_distance_cells(row, distance)])
    heads = [Column("Tendency", text=True)]
    heads += [Column(name) for name in ("Reference", "Samples", "Distance")]
    heads += [Column("Kind", text=True)]
    heads += [Column(name) for name in ("Floor", "Excess", "95% limits", "Adjusted p")]
    heads += [Column("Verdict", wraps=True), Column("Note", wraps=True)]
    keys = zip(measures["tendency"], measures["measure"], strict=True)
    tidy = measures[[key in kept for key in keys]]
    title = "How far are the samples from the reference?"
    note = (
        "Distance: 0 for the same distribution, 1 at most (MMD: 1.41). Distances fall with the "
        "documents, so three numbers are of one size: floor, the mean distance between random "
        "halves of the reference; distance, that of as many samples from such halves; excess, "
        f"distance minus floor. Limits and p are of all documents. {STAR_NOTE}."
    )
    if raw:
        title = "How far are the raw texts?"
        note = f"No word is replaced: those outside of the vocabulary count as a difference. {note}"
    return Table("raw" if raw else "main", title, note, heads, body, tidy, marked=marked)


def _values(found: Mapping[tuple[str, str], Mapping[Any, Any]], row: MainRow) -> list[str]:
    """Write the value of the reference and that of the samples."""
    if not row.value:
        return ["", ""]
    pair = (found.get((row.tendency, row.value + suffix)) for suffix in ("_reference", ""))
    return [shown(entry["value"], row.digits) if entry else "" for entry in pair]


def _distance_cells(row: MainRow, distance: Mapping[Any, Any]) -> list[str]:
    digits = 4 if row.distance == "max_difference" else 3
    return [
        shown(distance["value"], digits) + verdict_mark(distance),
        DISTANCE_NAMES[row.distance],
        shown(distance["floor"], digits),
        shown_signed(distance["excess"], digits),
        shown_interval(distance["low"], distance["high"], digits),
        shown_p(distance["p_adjusted"]),
        _said(distance),
        note_alone(distance),
    ]


def all_measures_table(measures: pd.DataFrame) -> Table:
    """Make the table of all measures, rounded."""
    body = [
        [
            *key,
            shown(row["value"], 4) + verdict_mark(row),
            shown(row["floor"], 4),
            shown_signed(row["excess"], 4),
            shown_interval(row["low"], row["high"]),
            shown_p(row["p_value"]),
            shown_p(row["p_adjusted"]),
            shown_p(row["p_value_law"]),
            f"{WITHOUT_VERDICT}: {reason_withheld(row)}"
            if reason_withheld(row)
            else note_alone(row),
        ]
        for key, row in _lookup(measures).items()
    ]
    heads = [Column("Tendency", text=True), Column("Measure", text=True)]
    names = ("Value", "Floor", "Excess", "95% limits", "p", "Adjusted p", "p of the law")
    heads += [*map(Column, names), Column("Note", wraps=True)]
    note = (
        f"{STAR_NOTE}. The p of a law is of a test of the text against the law that is fitted to "
        "it, which says nothing of the other text; for Zipf's law it is of the split "
        "fit (ranks and frequencies of different halves), the value of the fit as in the paper. In "
        "full precision in tendencies.csv."
    )
    return Table("measures", "All measures", note, heads, body, measures)


def texts_table(measures: pd.DataFrame) -> Table:
    """Make the table of what the texts are made of: shares of what no test sees."""
    found = {
        name: row["value"]
        for (tendency, name), row in _lookup(measures).items()
        if tendency == TEXT
    }
    body = [
        [title, *(shown_share(found.get(f"{name}{end}")) for end in ("_reference", ""))]
        for name, title in TEXT_TITLES.items()
        if name in found or f"{name}_reference" in found
    ]
    heads = [Column("Share", text=True), Column("Reference"), Column("Samples")]
    tidy = measures[measures["tendency"] == TEXT]
    return Table("texts", "What the texts are made of", "", heads, body, tidy)


def bodies_table(comparison: Comparison) -> Table:
    """Make the table of what was compared: files, documents, groups, tokens, types."""
    grouped = any(count is not None for count in comparison.groups)
    heads = [Column("Text", text=True), Column("File", text=True), Column("Documents")]
    heads += [Column("Groups")] * grouped
    heads += [Column(title) for title in ("Tokens", "Types", "Empty, left out")]
    rows = []
    bodies = {"Reference": comparison.reference, "Samples": comparison.samples}
    for (name, body), groups in zip(bodies.items(), comparison.groups, strict=True):
        statistics = body.statistics
        counts: list[int | None] = [statistics.n_documents, *[groups] * grouped]
        counts += [statistics.n_tokens, len(statistics.types), body.left_out]
        shown_counts = ["none" if count is None else f"{count:,}" for count in counts]
        rows.append([name, str(body.path), *shown_counts])
    return Table("bodies", "What was compared", comparison.exchanged, heads, rows, pd.DataFrame())


def _figure(folder: Path, name: str) -> str:
    title, text = FIGURE_TEXTS[name]
    data = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    return (
        f"<figure id='{name}'{' class=wide' if name in WIDE else ''}><h3>{escape(title)}</h3>"
        f"<img alt='{escape(title)}: {escape(text, quote=True)}' "
        f"src='data:image/svg+xml;base64,{data}'>"
        f"<figcaption class='note'>{escape(text)}</figcaption></figure>"
    )


def _reach(measures: pd.DataFrame, permutations: int) -> str:
    """Say which stars so many permutations can give to so many tests."""
    tested = measures[measures["p_value"].notna()]
    main = {(row.tendency, row.distance) for row in MAIN_ROWS}
    keys = zip(tested["tendency"], tested["measure"], strict=True)
    family = sum(key in main for key in keys)
    if not family:
        return ""
    smallest = family / (permutations + 1)
    said = f"; adjusted for {family} tests the smallest p is {shown(smallest)}"
    for level, mark in STAR_LEVELS:
        needed = needed_draws(family, level, permutations)
        if needed is not None:
            said += f", and {mark} needs at least {needed:,} permutations"
    return said


def _settings(
    options: CompareOptions,
    described: Mapping[str, object],
    measures: pd.DataFrame,
    encoder: str,
) -> str:
    cleaning = "none (the texts are tokens already)"
    if not options.tokenized:
        cleaning = (
            "punctuation normalized, non-printing characters removed, Moses tokenizer "
            f"({options.language}), lower case, accents removed"
        )
    embedded = f"{encoder}; at most {options.embedding_documents:,} documents of each text"
    entries = {
        "Cleaning": cleaning,
        "Stop words": f"list '{described['stop_words']}' (language {options.language})",
        "Symbols": "tokens of punctuation, numbers and other symbols only",
        **({"Embeddings": embedded} if encoder else {}),
        "Permutations": f"{options.permutations:,}{_reach(measures, options.permutations)}",
        "Bootstrap resamples": f"{options.bootstrap:,}",
        "Seed": str(options.seed),
        "Made with": f"beyond-perplexity {beyond_perplexity.__version__}",
    }
    items = [
        f"<li><b>{escape(key)}</b>: {escape_html(value)}</li>" for key, value in entries.items()
    ]
    return f"<h2>Settings</h2>\n<ul>{''.join(items)}</ul>"


def comparison_page(
    comparison: Comparison,
    options: CompareOptions,
    described: Mapping[str, object],
    folder: Path,
    figures: Sequence[str],
) -> str:
    """Write the page, one HTML file that needs no other, with the SVG figures of a folder."""
    samples, reference = comparison.samples.path.name, comparison.reference.path.name
    title, raw = f"{samples} compared with {reference}", comparison.raw
    texts = texts_table(comparison.measures)
    parts = [
        f"<h1>{escape_html(title)}</h1>",
        to_html_table(bodies_table(comparison)),
        to_html_table(comparison_table(comparison.measures)),
        to_html_table(texts) if texts.rows else "",
        *([] if raw is None else [to_html_table(comparison_table(raw, raw=True))]),
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
        _settings(options, described, comparison.measures, comparison.encoder),
    ]
    return html_page(title, "\n".join(parts))
