"""The measures of all papers in one table, and what perplexity misses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.figures.semantic_rows import evaluator_title, relation_titles
from beyond_perplexity.relations.correlations import WITHIN_DECODINGS
from beyond_perplexity.relations.readers import PERPLEXITY
from beyond_perplexity.report.contrastive_findings import FIRST_PAGE
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.semantics.measures import MEASURES

SURE = 0.95  # probability of an order
_FEW_PAIRS = 4
_SUBJECTS = {
    "perplexity": "Perplexity",
    "contrastive": "Contrastive entropy",
    "semantics": "Meaning of predictions",
    "tendencies": "Distance of generated text to human text",
}
_ORDERS = (
    "A pair is of models that both have a finite perplexity. Probability: the share of resamples "
    "of the test documents in which an order is as it was seen, of both orders at once; of "
    "generated text from standard errors over the documents of both texts. None is adjusted for "
    "the number of pairs: of 100 pairs without any difference, some have a probability of "
    f"{SURE:g} by chance. It is about these trained models."
)


def _places(measures: pd.DataFrame, labels: Labels) -> list[tuple[str, str | None]]:
    """List the rows: of each model its decodings, or the model alone where it has none."""
    pairs = zip(measures["model"], measures["decoding"], strict=True)
    known = dict.fromkeys((m, d if isinstance(d, str) else None) for m, d in pairs)
    decoded = {model for model, decoding in known if decoding}
    models = labels.sort_models(model for model, _ in known)
    decodings = ["", *labels.sort_decodings(d for _, d in known if d)]
    kept = [place for place in known if place[1] or place[0] not in decoded]
    return sorted(kept, key=lambda p: (models.index(p[0]), decodings.index(p[1] or "")))


def _heads(measures: pd.DataFrame, labels: Labels) -> dict[str, Column]:
    """Make the column of every measure, in the order of the subjects."""
    rows = measures.drop_duplicates("measure").to_dict("records")
    rows.sort(key=lambda row: list(_SUBJECTS).index(row["subject"]))
    heads = {}
    for row in rows:
        title, group = row["title"], _SUBJECTS[row["subject"]]
        if row["subject"] == "semantics":
            evaluator, _, name = row["measure"].removeprefix("semantics/").partition(".")
            group = f"{group}: {evaluator_title(evaluator, labels)}"
            title = MEASURES[name].title if name in MEASURES else name
        heads[row["measure"]] = Column(f"{title} {'↑' if row['direction'] > 0 else '↓'}", group)
    return heads


def _related_cell(row: Mapping[Any, Any] | None) -> str:
    if row is None:
        return ""
    return shown(row["value"]) + ("" if pd.isna(row["error"]) else f" ± {shown(row['error'])}")


def relations_table(measures: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of all measures: a row a model under a decoding, a column a measure.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``relation_measures``.
    labels : Labels
        Names and order, also of evaluators.

    Returns
    -------
    Table
        What belongs to a model stands in all of its rows.

    Raises
    ------
    InputError
        When there is no measure.
    """
    if measures.empty:
        raise NothingToShowError("there are no measures to relate")
    heads = _heads(measures, labels)
    found = {
        (r["model"], r["decoding"] if isinstance(r["decoding"], str) else None, r["measure"]): r
        for r in measures.to_dict("records")
    }
    body = []
    for model, decoding in _places(measures, labels):
        rows = (found.get((model, decoding, k), found.get((model, None, k))) for k in heads)
        name = labels.decoding(decoding) if decoding else "–"
        body.append([labels.model(model), name, *map(_related_cell, rows)])
    note = (
        "↑ higher is better, ↓ lower is better; numbers of different columns have different "
        "scales. ±: standard error over documents (of distances over those of both texts). "
        "Perplexity, contrastive entropy and the meaning of predictions belong to the model, "
        "whatever the decoding, and are repeated in its rows."
    )
    columns = [Column("Model", text=True), Column("Decoding", text=True), *heads.values()]
    return Table("relations", "The measures of all papers", note, columns, body, measures)


def _as_pair(row: Mapping[Any, Any], labels: Labels) -> str:
    chance = "" if pd.isna(row["probability_both"]) else f" ({row['probability_both']:.2f})"
    return f"{labels.model(row['second'])} before {labels.model(row['first'])}{chance}"


def orders_table(measures: pd.DataFrame, orders: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of what perplexity misses: a row a measure and decoding.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``relation_measures``.
    orders : pandas.DataFrame
        Schema ``relation_orders``.
    labels : Labels
        Names and order, also of evaluators.

    Returns
    -------
    Table
    """
    titles = relation_titles(measures, labels)
    body = []
    for (measure, decoding), rows in orders.groupby(
        ["measure", "decoding"], sort=False, dropna=False
    ):
        other = rows[rows["differs"]]
        sure = other[other["probability_both"] >= SURE]
        named = other.sort_values("probability_both", ascending=False, kind="stable")
        pairs = [_as_pair(row, labels) for row in named.head(_FEW_PAIRS).to_dict("records")]
        more = f"; and {len(other) - len(pairs)} more" if len(other) > len(pairs) else ""
        body.append(
            [
                titles[str(measure)],
                labels.decoding(decoding) if isinstance(decoding, str) else "–",
                f"{len(rows):,}",
                f"{len(other):,}",
                f"{len(sure):,}",
                "; ".join(pairs) + more,
            ]
        )
    heads = [
        Column("Measure", text=True),
        Column("Decoding", text=True),
        Column("Pairs of models"),
        Column("in another order"),
        Column(f"with probability ≥ {SURE:g}"),
        Column("Better in the measure, worse in perplexity (probability)", wraps=True),
    ]
    title = "What perplexity misses"
    return Table("orders", title, _ORDERS, heads, body, orders)


# ---- findings ----


def _missed(titles: Mapping[str, str], orders: pd.DataFrame, labels: Labels) -> str:
    if orders.empty:
        return ""
    other = orders[orders["differs"]]
    sure = other[other["probability_both"] >= SURE]
    said = (
        f"{len(orders):,} pairs of models were compared, each in a measure (and under a decoding); "
        f"{len(other):,} are in another order than by bits per byte, {len(sure):,} with a "
        f"probability of at least {SURE:g} that both orders are real"
    )
    if sure.empty:
        return f"{said}."
    counts = sure.groupby("measure", sort=False).size().sort_values(ascending=False, kind="stable")
    most = str(counts.index[0])
    example = sure[sure["measure"] == most].nlargest(1, "probability_both").to_dict("records")[0]
    under = example["decoding"]
    where = f" under {labels.decoding(under).lower()}" if isinstance(under, str) else ""
    return (
        f"{said}: most in {titles[most]} ({counts.iloc[0]}), such as {_as_pair(example, labels)}"
        f"{where}."
    )


def _with_perplexity(titles: Mapping[str, str], correlations: pd.DataFrame) -> str:
    rows = correlations[(correlations["scope"] == WITHIN_DECODINGS) & correlations["low"].notna()]
    rows = rows[(rows["first"] == PERPLEXITY) | (rows["second"] == PERPLEXITY)]
    if rows.empty:
        return ""
    said = []
    for row in (rows.nlargest(1, "value").iloc[0], rows.nsmallest(1, "value").iloc[0]):
        other = row["second"] if row["first"] == PERPLEXITY else row["first"]
        interval = shown_interval(row["low"], row["high"], 2)
        said.append(f"{titles[other]}, {shown(row['value'], 2)} {interval}")
    zero = int(((rows["low"] <= 0) & (rows["high"] >= 0)).sum())
    return (
        f"over models within decodings, rank correlations with bits per byte are highest for "
        f"{said[0]}, lowest for {said[1]}; {zero} of {len(rows)} intervals hold 0."
    )


def _limits(measures: pd.DataFrame) -> str:
    rows = len(measures[["model", "decoding"]].drop_duplicates())
    models = measures["model"].nunique()
    wide = "; with so few, intervals are wide" if models < 10 else ""
    return (
        f"{models} models, {rows} rows{wide}. The rows of a model are not independent: intervals "
        "count models."
    )


def relation_findings_table(
    measures: pd.DataFrame,
    correlations: pd.DataFrame,
    orders: pd.DataFrame,
    labels: Labels,
) -> Table:
    """Say what was found across papers, in lines for the first page of the report.

    Parameters
    ----------
    measures, correlations, orders : pandas.DataFrame
        Schemas ``relation_measures``, ``relation_correlations`` and ``relation_orders``.
    labels : Labels
        Names and order, also of evaluators.

    Returns
    -------
    Table
    """
    titles = relation_titles(measures, labels)
    lines = [
        ("What perplexity misses", _missed(titles, orders, labels), True),
        ("What goes with perplexity", _with_perplexity(titles, correlations), True),
        ("How far this can be trusted", _limits(measures), True),
    ]
    kept = [line for line in lines if line[1]]
    tidy = pd.DataFrame(kept, columns=["question", "found", FIRST_PAGE])
    heads = [Column("Question", wraps=True), Column("Here", wraps=True)]
    body = [list(line[:2]) for line in kept]
    return Table("relation_findings", "What was found across papers", _ORDERS, heads, body, tidy)
