"""The first page of the report: what ran, main table and main figure, as reStructuredText."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown_range, shown_share
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.importance.bound_claims import finite_bounds
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT
from beyond_perplexity.importance.estimator_registry import load_estimators
from beyond_perplexity.report.answers import answers, standings
from beyond_perplexity.report.contrastive_findings import FIRST_PAGE
from beyond_perplexity.report.findings import Compared, body_name, five_lines
from beyond_perplexity.report.importance_choice import without_choice
from beyond_perplexity.report.perplexities import RAW_BITS, SPELLED, ByteBits, bits_per_byte
from beyond_perplexity.report.text_shares import TEXT_SHARES
from beyond_perplexity.tendencies.text_comparison import TEXT

TRAINED_HERE = {"counted", "trained", "latent"}  # kinds of families
LINE = 2000

# Snakemake centres its first page, so that what is wider than the window begins under the sidebar,
# and draws the graph of all rules beside it.
PAGE_TITLE = """Language models beyond one perplexity number
============================================

.. raw:: html

   <style>
   #rulegraph {display: none}
   .items-center.justify-center.overflow-auto {align-items: flex-start; min-width: 0}
   .items-center.justify-center.overflow-auto {justify-content: flex-start}
   .grow.items-start, .grow.items-start > .py-2 {min-width: 0; max-width: 100%}
   .prose.max-w-lg {max-width: 56rem}
   .prose table {display: block; overflow-x: auto}
   @media (max-width: 700px) {
   .w-screen.h-screen {flex-direction: column; overflow-x: hidden}
   nav.h-screen {width: 100%; height: auto; flex: none}
   }
   </style>
"""

DISTANCES_TEXT = r"""How far is generated text from human text?
------------------------------------------

{images}
Each distance is 0 for the same distribution and at most 1 (MMD: 1.41), and never quite 0 for finite
texts: the first rows say how far human text is from itself at the same size. Stars: significant at
p < 0.005 (\*\*) or p < 0.05 (\*) in a permutation test, adjusted for all tests of a body; †: no
sound verdict is possible, for the reason that the tables name.

{five_lines}

Of every body of text: how many of its distances have a star, its largest excess (distance minus
floor); shares of tokens that are read as unknown, of documents that did not end, of repeated
documents, and of 8-grams that stand in the training text.

{main_table}
"""

LIKELIHOODS_TEXT = """How likely is human text under the models?
------------------------------------------

Perplexity of the test split; the end of a document is predicted and counted, its beginning is not.
Models of different vocabularies compare in bits per byte of one corpus: there a word that a closed
vocabulary lacks is spelled too, by a character model that is blind to the sentence, and of subwords
one segmentation is counted, which is an upper bound. Brackets: 95% interval over documents, or
pages where the split keeps them whole. An unsmoothed n-gram model gives unseen n-grams no
probability, so that its perplexity is infinite.

{perplexities}
"""

LATENT_TEXT = """How likely is human text under models with latent variables?
-------------------------------------------------------------

{meaning}

{estimates}
"""

MEANING = """Their likelihood cannot be summed. Each estimate is a stochastic upper bound of the
perplexity, the looser the fewer effective samples there are: {stochastic}. First stands the lowest
of those that need no choice of a temperature or a size; of several it is chosen among these few.
Then the lowest over proposals and temperatures, which is no bound in expectation. {strict}"""


# What begins the lines that were found, by the paper.
FOUND_TEXTS = {
    "contrastive": """How well do the models tell text from noise?
--------------------------------------------

Contrastive entropy (H_C) is what a model's log score loses when words of the test text are replaced
or exchanged at random: higher is better among models of one scale.

{lines}
""",
    "semantics": """Does what the models predict mean what is there?
------------------------------------------------

Each model is asked for the next word after every true beginning of a sentence; the predicted words
are compared with the true ones by their overlap, by vectors of words and by sentence encoders.

{lines}
""",
    "relations": """How do all these measures go together?
--------------------------------------

Perplexity, contrastive entropy, the meaning of predictions and the distance of generated text to
human text, of the same models.

{lines}
""",
}


def _shares(rows: pd.DataFrame, ending: str = "") -> list[str]:
    text = rows[rows["tendency"] == TEXT]
    shares = [text[text["measure"] == f"{name}{ending}"]["value"] for name in TEXT_SHARES]
    return [shown_range(share, shown_share) or "—" for share in shares]


def main_table(measures: pd.DataFrame) -> list[list[str]]:
    """Lay out the main table: a row for each body of text, narrow enough for half a screen.

    Parameters
    ----------
    measures : pandas.DataFrame
        Rows of the schema ``tendencies``.

    Returns
    -------
    list of list of str
        The header; human text, a row for each vocabulary that it is read in; then one row per
        source in the order of first appearance: how many distances are significant, the largest
        excess, and shares of the text. The distances themselves are in the main figure.
    """
    header = ["Body of text", "stars", "largest excess", *TEXT_SHARES.values()]
    humans = [
        [escape_rst(f"Human text ({name})"), "—", "—", *_shares(own, "_reference")]
        for name, own in measures.groupby("vocabulary", sort=False)
    ]
    body = [
        [
            body_name(one.source),
            one.starred(),
            one.largest(),
            *_shares(measures[measures["source"] == one.source]),
        ]
        for one in standings(measures)
    ]
    return [header, *humans, *body]


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
    columns = {SPELLED: "cleaned", RAW_BITS: "raw"}
    found = {
        head: {name: bits_per_byte(result, text) for name, result in perplexities.items()}
        for head, text in columns.items()
    }
    found = {head: column for head, column in found.items() if any(column.values())}
    header = ["Model", "per token", "per word", *found, "unknown words"]
    rows = []
    for name, result in perplexities.items():
        values = [result["perplexity"]["token"], result["perplexity"]["word"]]
        shown = ["∞" if value is None else f"{value:,.2f}" for value in values]
        shown += [_shown_bits(column[name]) for column in found.values()]
        unknown = f"{100 * result['unknown_share']:.2f}%"
        rows.append([escape_rst(Labels().model(name)), *shown, unknown])
    return [header, *rows]


def _shown_bits(bits: ByteBits | None) -> str:
    if bits is None:
        return "—"
    limits = "" if bits.low is None or bits.high is None else f" [{bits.low:.2f}, {bits.high:.2f}]"
    return "∞" if math.isinf(bits.value) else f"{bits.value:.2f}{limits}"


def _estimate_rows(estimates: pd.DataFrame) -> list[list[str]]:
    header = ["Model", "needs no choice", "by", "instances", "proposal", "effective samples"]
    header.append("corpus")
    known = load_estimators()
    others = {method: one.heading for method, one in known.items() if one.heading}
    paired = [method for method, one in known.items() if "corpus" in one.levels]
    header += others.values()
    rows = []
    chosen = estimates[estimates["measure"] == "perplexity"]
    for model, held in chosen.groupby("model", sort=False):
        sampled = held[held["method"].isin(paired)].dropna(subset="value")
        instance = sampled[sampled["aggregation"] == "instance"].nsmallest(1, "value")
        corpus = sampled[sampled["pairing"] == "sample_id"]["value"].min()
        lowest = [held[held["method"] == method]["value"].min() for method in others]
        rows.append(
            [
                escape_rst(Labels().model(str(model))),
                *_without_choice(held),
                *_best_cells(instance.to_dict("records")),
                *map(_bound, [corpus, *lowest]),
            ]
        )
    return [header, *rows]


def _best_cells(rows: Sequence[Mapping[Hashable, Any]]) -> list[str]:
    """Write the estimate of a list of one: value, proposal, effective samples."""
    if not rows:
        return ["—", "—", "—"]
    best = rows[0]
    proposal = f"{best['proposal']}, τ = {best['temperature']:g}"
    effective = f"{best['ess_median']:.1f} of {best['n_samples']:.0f} (median)"
    return [_bound(best["value"]), proposal, "—" if pd.isna(best["ess_median"]) else effective]


def _bound(value: float) -> str:
    return "—" if pd.isna(value) else "∞" if math.isinf(value) else f"{value:,.1f}"


def _without_choice(estimates: pd.DataFrame) -> list[str]:
    """Return the lowest bound that no temperature and no size was chosen for, and what gave it."""
    free = (
        without_choice(finite_bounds(estimates, [STOCHASTIC]))
        .nsmallest(1, "value")
        .to_dict("records")
    )
    if not free:
        return ["—", "—"]
    title = load_estimators()[free[0]["method"]].title
    return [f"{free[0]['value']:,.1f}", f"{title}, {free[0]['proposal']}"]


def _meaning() -> str:
    """Say what the estimates are to the true perplexity."""
    stochastic, strict = (
        [one.summary for one in load_estimators().values() if one.bound == bound and one.summary]
        for bound in (STOCHASTIC, STRICT)
    )
    said = {"stochastic": ", and ".join(stochastic), "strict": " ".join(strict)}
    return fill(MEANING.format(**said), 100)


def _described(corpora: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(
        f"*{escape_rst(name)}* with "
        + ", ".join(
            f"{counts['documents']:,} {split} documents ({counts['tokens']:,} tokens)"
            for split, counts in report["splits"].items()
        )
        for name, report in corpora.items()
    )


def _compared(
    corpora: Mapping[str, Mapping[str, Any]],
    compared: Sequence[Compared],
    kinds: Collection[str],
) -> str:
    described = f"Corpora: {_described(corpora)}."
    if not compared:
        return described
    bodies = sum(one.measures["source"].nunique() for one in compared)
    of_model = max(int(one.measures["n_samples"].max()) for one in compared)
    human = max(int(one.measures["n_reference"].max()) for one in compared)
    unseen = (
        "that no model has seen"
        if set(kinds) <= TRAINED_HERE
        else "that no model trained here has seen; what others have seen is not known"
    )
    return (
        f"{bodies} bodies of up to {of_model:,} documents were compared with {human:,} documents "
        f"of a test split {unseen}. {described}"
    )


def _distances(compared: Sequence[Compared], figures: Sequence[str | Path]) -> str:
    lines = []
    for one in compared:
        lines += [f"Corpus *{escape_rst(one.name)}*:", ""] * (len(compared) > 1)
        lines += [f"- {line}" for line in five_lines(one)] + [""]
    table = main_table(pd.concat([one.measures for one in compared], ignore_index=True))
    images = [line for figure in figures for line in _image(figure)]
    return DISTANCES_TEXT.format(
        five_lines="\n".join(lines), main_table=_list_table(table), images="\n".join(images)
    )


def _found(text: str, findings: Mapping[str, pd.DataFrame]) -> str:
    lines = []
    for corpus, found in findings.items():
        lines += [f"Corpus *{escape_rst(corpus)}*:", ""] * (len(findings) > 1)
        told = found[found[FIRST_PAGE].astype(bool)]
        lines += [
            f"- **{escape_rst(row['question'])}:** {escape_rst(row['found'])}"
            for row in told.to_dict("records")
        ]
        lines.append("")
    return text.format(lines="\n".join(lines))


def render_overview(
    corpora: Mapping[str, Mapping[str, Any]],
    perplexities: Mapping[str, Mapping[str, Any]],
    compared: Sequence[Compared],
    kinds: Collection[str],
    estimates: pd.DataFrame | None,
    figures: Sequence[str | Path],
    findings: Mapping[str, Mapping[str, pd.DataFrame]] | None = None,
) -> str:
    """Write the first page; a section for each thing that there is.

    Parameters
    ----------
    corpora : dict
        Extraction reports by corpus: ``splits`` maps a split to its ``documents`` and ``tokens``.
    perplexities : dict
        Perplexity results by model.
    compared : sequence of Compared
        The corpora that bodies of text are compared with, with their measures.
    kinds : collection of str
        Kinds of the families of all compared models (see `models.families`), and ``"external"``
        where samples were brought: what those have seen is not known.
    estimates : pandas.DataFrame or None
        Rows of the schema ``estimates`` of every proposal.
    figures : sequence of path
        The main figure of each corpus, SVG files; they are embedded.
    findings : dict of str to dict of str to DataFrame, optional
        By paper (a key of `FOUND_TEXTS`) and corpus what its table of findings has.

    Returns
    -------
    str
        reStructuredText that needs no other file.
    """
    parts = [PAGE_TITLE, *(f"{line}\n" for line in answers(compared, perplexities))]
    parts.append(_compared(corpora, compared, kinds) + "\n")
    if compared:
        parts.append(_distances(compared, figures))
    if perplexities:
        table = _list_table(_perplexity_rows(perplexities))
        parts.append(LIKELIHOODS_TEXT.format(perplexities=table))
    if estimates is not None:
        table = _list_table(_estimate_rows(estimates))
        parts.append(LATENT_TEXT.format(meaning=_meaning(), estimates=table))
    for paper, text in FOUND_TEXTS.items():
        held = (findings or {}).get(paper)
        if held:
            parts.append(_found(text, held))
    return "\n".join(parts)
