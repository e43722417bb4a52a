"""The first page of the report: what ran, main table and main figure, as reStructuredText."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beyond_perplexity.report.numbers import stars

MAIN_COLUMNS = (
    ("rank_frequency", "ks_empirical", "Rank-frequency (KS)"),
    ("type_token_unigrams", "ks_empirical", "Type-token (KS)"),
    ("unigram", "tvd", "Unigrams (TVD)"),
    ("length", "ks", "Length (KS)"),
    ("stop_words", "ks", "Stop words (KS)"),
    ("symbols", "ks", "Symbols (KS)"),
)


LINE = 2000

TEMPLATE = r"""Language models beyond one perplexity number
============================================

{compared}

How far is generated text from human text?
------------------------------------------

Each distance is 0 for the same distribution and at most 1. Stars: the difference is significant at
p < 0.005 (\*\*) or p < 0.05 (\*) in a permutation test over documents. With many documents
everything becomes significant: read the sizes first.

{main_table}

{images}

How likely is human text under the models?
------------------------------------------

Perplexity of the test split; the end of a document is predicted and counted, its beginning is not.
Models of different vocabularies compare per character only. An unsmoothed n-gram model gives unseen
n-grams no probability, so that its perplexity is infinite.

{perplexities}
"""


def _cell(rows: pd.DataFrame, tendency: str, measure: str) -> str:
    found = rows[(rows["tendency"] == tendency) & (rows["measure"] == measure)]
    if found.empty:
        return "—"
    value, p_value = found.iloc[0][["value", "p_value"]]
    return f"{value:.2f}{stars(p_value)}".replace("*", r"\*")


def main_table(measures: pd.DataFrame) -> list[list[str]]:
    """Lay out the main table: a row for each body of text, a column for each tendency.

    Parameters
    ----------
    measures : pandas.DataFrame
        Rows of the schema ``tendencies``.

    Returns
    -------
    list of list of str
        The header, then one row per source in the order of first appearance.
    """
    header = ["Body of text", *(title for _, _, title in MAIN_COLUMNS)]
    body = [
        [
            str(source).replace("/", " "),
            *(_cell(rows, tendency, measure) for tendency, measure, _ in MAIN_COLUMNS),
        ]
        for source, rows in measures.groupby("source", sort=False)
    ]
    return [header, *body]


def _list_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'* -' if index == 0 else '  -'} {cell}" for index, cell in enumerate(row)]
    return "\n".join(lines)


def _image(figure: str | Path) -> list[str]:
    data = base64.b64encode(Path(figure).read_bytes()).decode()
    # docutils refuses long lines and joins the lines of an address.
    pieces = [f"   {data[start : start + LINE]}" for start in range(0, len(data), LINE)]
    return [
        ".. image:: data:image/svg+xml;base64,",
        *pieces,
        "   :width: 100%",
        "   :alt: Distance to the test split in every tendency, for every body of text",
        "",
    ]


def _perplexity_rows(perplexities: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    header = ["Model", "per token", "per word", "bits per character", "unknown words"]
    rows = []
    for name, result in perplexities.items():
        values = [
            result["perplexity"]["token"],
            result["perplexity"]["word"],
            result["bits"]["character"],
        ]
        shown = ["∞" if value is None else f"{value:,.2f}" for value in values]
        rows.append([name, *shown, f"{100 * result['unknown_share']:.2f}%"])
    return [header, *rows]


def render_overview(
    corpora: Mapping[str, Mapping[str, Any]],
    perplexities: Mapping[str, Mapping[str, Any]],
    measures: pd.DataFrame,
    figures: Sequence[str | Path],
) -> str:
    """Write the first page.

    Parameters
    ----------
    corpora : dict
        Extraction reports by corpus: ``splits`` maps a split to its ``documents`` and ``tokens``.
    perplexities : dict
        Perplexity results by model.
    measures : pandas.DataFrame
        Rows of the schema ``tendencies`` of every source.
    figures : sequence of path
        The main figure of each corpus, SVG files; they are embedded.

    Returns
    -------
    str
        reStructuredText that needs no other file.
    """
    documents = int(measures["n_samples"].max())
    reference = int(measures["n_reference"].max())
    described = "; ".join(
        f"*{name}* with "
        + ", ".join(
            f"{counts['documents']:,} {split} documents ({counts['tokens']:,} tokens)"
            for split, counts in report["splits"].items()
        )
        for name, report in corpora.items()
    )
    images = [line for figure in figures for line in _image(figure)]
    compared = (
        f"{measures['source'].nunique()} bodies of up to {documents:,} documents were compared "
        f"with {reference:,} documents of a test split that no model has seen. "
        f"Corpora: {described}."
    )
    return TEMPLATE.format(
        compared=compared,
        main_table=_list_table(main_table(measures)),
        images="\n".join(images),
        perplexities=_list_table(_perplexity_rows(perplexities)),
    )
