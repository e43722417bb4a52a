"""The measures of all papers in one table, and what perplexity misses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from beyond_perplexity.figures import measure_names
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_p
from beyond_perplexity.inference.correlations import few_items_interval
from beyond_perplexity.relations.measures import WITHIN_DECODINGS
from beyond_perplexity.relations.readers import PERPLEXITY
from beyond_perplexity.report.findings import Answer, findings_table
from beyond_perplexity.report.layout import Column, Table, lay_out, text_columns
from beyond_perplexity.semantics.measures import MEASURES

_LEVEL = 0.05  # of tests of all orders together
_FEW_PAIRS = 4
_SUBJECTS = {
    "perplexity": "Perplexity",
    "contrastive": "Contrastive entropy",
    "semantics": "Meaning of predictions",
    "tendencies": "Distance of generated text to human text",
}
_ORDERS = (
    "A pair is of models that both have a finite perplexity. p: of the test that both orders are "
    "real, the larger one of the p-values of both differences, adjusted for all pairs of all "
    "measures and decodings (Holm). Standard errors are of resamples of the test documents, of "
    "generated text over the documents of both texts. The share of resamples in which both orders "
    "are as they were seen, which is no p-value, is in the file. It is about these trained models."
)


def _places(measures: pd.DataFrame, labels: Labels) -> list[tuple[str, str]]:
    """List the rows: of each model its decodings, or the model alone where it has none."""
    known = dict.fromkeys(zip(measures["model"], measures["decoding"], strict=True))
    decoded = {model for model, decoding in known if decoding}
    models = labels.sort_models(model for model, _ in known)
    decodings = ["", *labels.sort_decodings(d for _, d in known if d)]
    kept = [place for place in known if place[1] or place[0] not in decoded]
    return sorted(kept, key=lambda p: (models.index(p[0]), decodings.index(p[1])))


def _heads(measures: pd.DataFrame, labels: Labels) -> dict[str, tuple[str, str]]:
    """Make title and group of the column of every measure, in the order of the subjects."""
    rows = measures.drop_duplicates("measure").to_dict("records")
    heads = {}
    for row in sorted(rows, key=lambda row: list(_SUBJECTS).index(row["subject"])):
        title, group = row["title"], _SUBJECTS[row["subject"]]
        if row["subject"] == "semantics":
            evaluator, _, name = row["measure"].removeprefix("semantics/").partition(".")
            group = f"{group}: {measure_names.evaluator_title(evaluator, labels)}"
            title = MEASURES[name].title if name in MEASURES else name
        heads[row["measure"]] = f"{title} {'↑' if row['direction'] > 0 else '↓'}", group
    return heads


def relations_table(measures: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of all measures: a row a model and decoding, a column a measure."""
    named = measures.assign(decoding=measures["decoding"].fillna(""))
    found = measure_names.by_key(named, "model", "decoding", "measure")

    def cell(place: tuple[str, str], key: str) -> str:
        row = found.get((*place, key), found.get((place[0], "", key)))
        if row is None:
            return ""
        return shown(row["value"]) + ("" if pd.isna(row["error"]) else f" ± {shown(row['error'])}")

    note = (
        "↑ higher is better, ↓ lower is better; numbers of different columns have different "
        "scales. ±: standard error over documents (of distances over those of both texts). "
        "Perplexity, contrastive entropy and the meaning of predictions belong to the model, "
        "whatever the decoding, and are repeated in its rows."
    )
    columns = [
        *text_columns("Model", of=lambda place: labels.model(place[0])),
        *text_columns("Decoding", of=lambda at: labels.decoding(at[1]) if at[1] else "–"),
        *(
            Column(*head, of=partial(cell, key=key))
            for key, head in _heads(measures, labels).items()
        ),
    ]
    places = _places(named, labels)
    return lay_out("relations", "The measures of all papers", note, columns, places, measures)


def _as_pair(row: Mapping[Any, Any], labels: Labels) -> str:
    p = f" ({shown_p(row['p_adjusted'])})".replace(" ()", "")
    return f"{labels.model(row['second'])} before {labels.model(row['first'])}{p}"


def orders_table(measures: pd.DataFrame, orders: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of what perplexity misses: a row a measure and decoding."""
    titles = measure_names.relation_titles(measures, labels)
    lines = []
    named = orders.assign(decoding=orders["decoding"].fillna(""))
    for (measure, decoding), rows in measure_names.parts_by(named, "measure", "decoding").items():
        other = rows[rows["differs"]]
        surest = other.sort_values("p_value", kind="stable")
        pairs = [_as_pair(row, labels) for row in surest.head(_FEW_PAIRS).to_dict("records")]
        more = f"; and {len(other) - len(pairs)} more" if len(other) > len(pairs) else ""
        lines.append(
            {
                "measure": titles[measure],
                "decoding": labels.decoding(decoding) if decoding else "–",
                "all": len(rows),
                "other": len(other),
                "sure": int((other["p_adjusted"] <= _LEVEL).sum()),
                "named": "; ".join(pairs) + more,
            }
        )
    columns = [
        *text_columns("Measure", "Decoding"),
        Column("Pairs of models", of="all", form=","),
        Column("in another order", of="other", form=","),
        Column(f"with p ≤ {_LEVEL:g}", of="sure", form=","),
        Column("Better in the measure, worse in perplexity (p)", wraps=True, of="named"),
    ]
    return lay_out("orders", "What perplexity misses", _ORDERS, columns, lines, orders)


# ---- findings ----


def _missed(titles: Mapping[str, str], orders: pd.DataFrame, labels: Labels) -> Iterator[Answer]:
    """Count the pairs of models that another measure puts in another order than perplexity."""
    if orders.empty:
        return
    about = "all measures and decodings"
    other = orders[orders["differs"]]
    sure = other[other["p_adjusted"] <= _LEVEL]
    told = "pairs of models, each in a measure and under a decoding, in another order than by bits"
    yield Answer(about, f"{told} per byte", found=len(other), of=len(orders))
    told = f"of these, both orders are significant (p ≤ {_LEVEL:g}, adjusted for all pairs)"
    yield Answer(about, told, found=len(sure), of=len(orders), first_page=True)
    if sure.empty:
        return
    counts = sure.groupby("measure", sort=False).size().sort_values(ascending=False, kind="stable")
    most = str(counts.index[0])
    yield Answer(titles[most], told, found=int(counts.iloc[0]), verdict="the most")
    row = sure[sure["measure"] == most].nsmallest(1, "p_value").to_dict("records")[0]
    pair = f"{labels.model(row['second'])} before {labels.model(row['first'])}"
    decoding = row["decoding"]
    under = f" under {labels.decoding(decoding).lower()}" if isinstance(decoding, str) else ""
    told = f"adjusted p-value of both orders, in {titles[most]}{under}"
    yield Answer(pair, told, float(row["p_adjusted"]), verdict="the most significant")


def _with_perplexity(titles: Mapping[str, str], correlations: pd.DataFrame) -> Iterator[Answer]:
    """Find what goes with bits per byte the most and the least, of measures of enough families;
    intervals are of that choice too: all hold at once in 95%."""
    rows = correlations[(correlations["scope"] == WITHIN_DECODINGS) & correlations["low"].notna()]
    rows = rows[(rows["first"] == PERPLEXITY) | (rows["second"] == PERPLEXITY)]
    few = rows["families"] < measure_names.FEW_MODELS
    if few.any():
        least = measure_names.FEW_MODELS
        told = f"too few for a correlation: fewer than {least} independent models (families)"
        yield Answer("measures", told, found=int(few.sum()), of=len(rows))
    rows = rows[~few]
    if rows.empty:
        return
    told = (
        f"rank correlation with bits per byte, chosen among {len(rows)} (interval of all at once)"
    )
    for ascending, said in ((False, "highest"), (True, "lowest")):
        row = rows.sort_values("value", ascending=ascending, kind="stable").iloc[0]
        other = row["second"] if row["first"] == PERPLEXITY else row["first"]
        limits = few_items_interval(row["value"], row["families"], ranks=True, of=len(rows))
        yield Answer(titles[other], told, row["value"], *limits, verdict=said)
    zero = int(((rows["low"] <= 0) & (rows["high"] >= 0)).sum())
    yield Answer("all measures", "intervals that hold 0", found=zero, of=len(rows))


def relation_findings_table(
    measures: pd.DataFrame, correlations: pd.DataFrame, orders: pd.DataFrame, labels: Labels
) -> Table:
    """Lay out what was found across papers, a number with its verdict a row."""
    titles = measure_names.relation_titles(measures, labels)
    models = measures["model"].nunique()
    families = int(correlations["families"].max()) if len(correlations) else 0
    wide = "so few that intervals are wide" if families < 10 else ""
    rows = len(measures[["model", "decoding"]].drop_duplicates())
    trusted = [
        Answer("", "families of models, which intervals count", found=families, verdict=wide),
        Answer("", "models, of which siblings of a family are not independent", found=models),
        Answer("", "rows, which are not independent within a model", found=rows),
    ]
    found = {
        "What perplexity misses": ("", _missed(titles, orders, labels)),
        "What goes with perplexity": ("", _with_perplexity(titles, correlations)),
        "How far this can be trusted": ("", trusted),
    }
    title = "What was found across papers"
    return findings_table("relation_findings", title, _ORDERS, found, paper=False)
