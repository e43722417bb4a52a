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
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.importance.estimate_wording import finite_bounds
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT
from beyond_perplexity.importance.ways_to_draw import load_estimators
from beyond_perplexity.report.findings import first_sentence
from beyond_perplexity.report.importance_choice import without_choice
from beyond_perplexity.report.tables import RAW_BITS, SPELLED, ByteBits, bits_per_byte
from beyond_perplexity.report.tendency_findings import (
    LAWS_OF_UNITS,
    Compared,
    main_table,
    nearest_sentence,
    power_line,
    shares_table,
    tendency_table,
)

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

{tables}
Of every body of text: how many of its distances have a star, its largest excess (distance minus
floor); shares of tokens that are read as unknown, of documents that did not end, of repeated
documents, and of 8-grams that stand in the training text.

{main_table}
"""

CORPUS_TEXT = """In *{name}* {law}.

Two human texts of as many documents, tokens and groups, read in the same vocabulary, are not 0
apart: only what a body has above that floor, the excess, tells something of the model. The farthest
body is that which stands out most by the width of the floor's band. {power}

{tendencies}

No test of a tendency sees a copied text; the largest shares:

{shares}

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


# What begins the section of a paper, and the sentence of its finding on the first page.
FOUND_TEXTS = {
    "contrastive": (
        """How well do the models tell text from noise?
--------------------------------------------

Contrastive entropy (H_C) is what a model's log score loses when words of the test text are replaced
or exchanged at random: higher is better among models of one scale.
""",
        "*{about}* tells text from noise best: {quantity}, {value}, the highest of {of} models "
        "with a likelihood.",
    ),
    "semantics": (
        """Does what the models predict mean what is there?
------------------------------------------------

Each model is asked for the next word after every true beginning of a sentence; the predicted words
are compared with the true ones by their overlap, by vectors of words and by sentence encoders.
""",
        "Of {of} measures of meaning {found} order some pair of models otherwise than "
        "cross-entropy on the same sentences does.",
    ),
    "relations": (
        """How do all these measures go together?
--------------------------------------

Perplexity, contrastive entropy, the meaning of predictions and the distance of generated text to
human text, of the same models.
""",
        "Of {of} pairs of models, each in a measure and under a decoding, {found} surely stand in "
        "another order than by bits per byte (both orders with a probability of at least 0.95).",
    ),
}


def _list_table(rows: Sequence[Sequence[str]]) -> str:
    if len(rows) < 2:
        return "Nothing was counted."
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
    tables = [
        CORPUS_TEXT.format(
            name=escape_rst(one.name),
            law=LAWS_OF_UNITS.get(one.unit, "how the splits were made is not known"),
            power=power_line(one),
            tendencies=_list_table(tendency_table(one)),
            shares=_list_table(shares_table(one.measures)),
        )
        for one in compared
    ]
    table = main_table(pd.concat([one.measures for one in compared], ignore_index=True))
    return DISTANCES_TEXT.format(
        tables="".join(tables),
        main_table=_list_table(table),
        images="\n".join(line for figure in figures for line in _image(figure)),
    )


def _likeliest(perplexities: Mapping[str, Mapping[str, Any]]) -> str:
    """Say under which model human text is likeliest, where one number compares them."""
    found = {name: bits_per_byte(result, "cleaned") for name, result in perplexities.items()}
    known = {n: bits for n, bits in found.items() if bits and math.isfinite(bits.value)}
    if len({bits.size for bits in known.values()}) != 1:  # of none, or of several texts
        return ""
    ordered = sorted(known, key=lambda name: (known[name].value, name))
    best, worst = (
        f"*{escape_rst(Labels().model(name))}*, {_shown_bits(known[name])}"
        for name in (ordered[0], ordered[-1])
    )
    least = f"; least under {worst}" * (len(known) > 1)
    return f"**Human text** is likeliest under {best} bits per byte{least}."


def answers(
    compared: Sequence[Compared], perplexities: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Say which text is nearest to human text, by corpus, and which model knows that best."""
    texts = [
        f"Corpus *{escape_rst(one.name)}*: " * (len(compared) > 1) + said
        for one in compared
        if (said := nearest_sentence(one.measures))
    ]
    likely = _likeliest(perplexities)
    return [*texts, *[likely] * bool(likely)]


def _found(paper: str, findings: Mapping[str, pd.DataFrame]) -> str:
    text, template = FOUND_TEXTS[paper]
    lines = [text]
    for corpus, found in findings.items():
        named = f"Corpus *{escape_rst(corpus)}*: " * (len(findings) > 1)
        said = first_sentence(template, found)
        table = f"All numbers with their verdicts: table *findings* of *{paper}*."
        lines += [f"{named}{said} {table}\n"]
    return "\n".join(lines)


def render_overview(
    corpora: Mapping[str, Mapping[str, Any]],
    perplexities: Mapping[str, Mapping[str, Any]],
    compared: Sequence[Compared],
    kinds: Collection[str],
    estimates: pd.DataFrame | None,
    figures: Sequence[str | Path],
    findings: Mapping[str, Mapping[str, pd.DataFrame]] | None = None,
) -> str:
    """Write the first page, reStructuredText that needs no other file; a section a subject.

    Takes by name of the corpus reports of extraction, by model perplexity results, the compared
    corpora, kinds of the families of all compared models (``"external"`` for brought samples),
    schema ``estimates``, the main figure of each corpus (SVG, embedded), and findings by paper and
    corpus.
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
    parts += [_found(paper, held) for paper in FOUND_TEXTS if (held := (findings or {}).get(paper))]
    return "\n".join(parts)
