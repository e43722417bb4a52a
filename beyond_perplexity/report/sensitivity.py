"""Tables beside those of measures: embedded documents, detectable effects, the test set itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import numbers
from beyond_perplexity.figures.labels import EXTERNAL, Labels, parse_source
from beyond_perplexity.figures.measure_names import parts_by
from beyond_perplexity.report.layout import (
    Column,
    Table,
    interval_column,
    lay_out,
    text_columns,
    texts_beside,
)
from beyond_perplexity.report.measured import Measured
from beyond_perplexity.report.published import COLUMN, OWN, PAPER, PUBLISHED_NOTE, TEST_SET
from beyond_perplexity.tendencies import definitions
from beyond_perplexity.verdicts import reason_text

_TEXTS = texts_beside("sensitivity.toml")
_VECTORS = _TEXTS["vectors"]


def embeddings_table(measures: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of embeddings: a row per source."""
    rows = measures[measures["tendency"] == definitions.EMBEDDING]
    if rows.empty:
        raise NothingToShowError("embeddings: the measures have none of embedded documents")
    values: dict[Any, float] = rows.set_index(["source", "measure"])["value"].to_dict()

    def other(title: str, write: Callable[[Any], str], *names: str) -> Column:
        """Make a column of other measures."""

        def show(source: str) -> str:
            held = (values.get((source, name)) for name in names)
            return " / ".join("" if value is None else write(value) for value in held)

        return Column(title, of="source", form=show)

    documents = partial(numbers.shown, digits=0)
    columns = [
        *text_columns("Model", of="source", form=lambda s: labels.model(parse_source(s).model)),
        *text_columns("Decoding", of="source", form=lambda s: labels.decoding(parse_source(s)[1])),
        *text_columns("Read in", of="vocabulary", form=lambda name: name or ""),
        Column("MMD", of=lambda row: numbers.shown(row["value"]) + numbers.verdict_mark(row)),
        Column("Baseline", form=numbers.shown),
        Column("Excess", form=numbers.shown_signed),
        interval_column("95% limits"),
        Column("Adjusted p", of="p_adjusted", form=numbers.shown_p),
        other("Unbiased square", partial(numbers.shown, digits=4), "squared_mmd"),
        other(
            "Minimum detectable effect / power reached",
            numbers.shown_share,
            *("minimum_detectable_effect", "power_reached"),
        ),
        other("Documents", documents, "embedded_reference", "embedded"),
        other("Cut", numbers.shown_share, "cut_reference", "cut"),
        other("No vector", documents, "without_vector_reference", "without_vector"),
    ]
    found = {row["source"]: row for row in rows[rows["measure"] == "mmd"].to_dict("records")}
    distances = [found[source] for source in labels.sort_sources(rows["source"])]
    reasons = "; ".join(dict.fromkeys(filter(None, map(numbers.reason_withheld, distances))))
    few = numbers.too_few_permutations(rows.to_dict("records"))
    withheld = reasons and f"{numbers.WITHHELD} No verdict: {reasons}."
    note = " ".join(filter(None, [_VECTORS, f"{numbers.STAR_NOTE}.", few and f"{few}.", withheld]))
    title = "Distances of the documents' vectors"
    return lay_out("embeddings", title, note, columns, distances, rows)


TEST_NAMES = {
    "ks_empirical": "KS",
    "ks": "KS",
    "tvd": "total variation",
    "max_difference": "largest difference",
    "slope_difference": "difference of slopes",
    "mmd": "maximum mean discrepancy",
    "mean_difference": "mean difference",
}
# Where the shift is a share or a distance itself, its ratio to the reference's value says no more.
_SAME = definitions.tendencies_of("words", "types", "embedding")


def _shift(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["minimum_detectable_effect"]):
        return "none"
    effect = row["minimum_detectable_effect"]
    size = numbers.shown(effect, max(0, 1 - math.floor(math.log10(effect))))
    relative = f" ({100 * row['relative']:.2g}%)"
    if row["tendency"] in _SAME or pd.isna(row["relative"]):
        relative = ""
    return f"{size}{relative}; {numbers.shown(row['power_reached'], 2)}"


def _note(sensitivity: pd.DataFrame, reference: str, *said: str) -> str:
    """Say what is found how often, and of which tests."""
    level, power = sensitivity[["level", "power"]].iloc[0]
    found = (
        f"The shift of a population that one test finds at p < {level:g}, before any adjustment "
        f"for many tests, in {100 * power:g}% of the cases where the population is made of one "
        f"random half of the {reference}; in brackets relative to its value. Behind it: the power "
        "that this shift reaches in the other half. Distances are tested on one side."
    )
    for why in sensitivity["reason"].dropna().unique():
        found += f" No effect is given: {reason_text(why)}."
    return " ".join([found, *said])


_OF_DOCUMENTS = (
    "Both samples are of independent documents, which the tests permute; the total variation is "
    "tested by the held-out distance."
)
_OF_GROUPS = (
    "The human sample is of whole groups, the other of as many independent documents. The total "
    "variation is tested by the held-out distance, the rest by swaps of groups; too few groups "
    "allow none. Ranks, types by length and Taylor's law have no sound test of groups against "
    "documents, and the power of the largest difference cannot be told from few groups."
)
_OF_PROMPTS = (
    "Both samples are of prompts with their answers, of which labels are permuted within each "
    "prompt and those of one side shifted; words and types are of pairs cut to equal lengths. How "
    "answers to a prompt vary is that of both texts together: where these differ, only larger "
    "effects are found."
)


def _effects(
    name: str,
    texts: tuple[str, str, str],
    sensitivity: pd.DataFrame,
    labels: Labels,
    *,
    named: bool = False,
) -> Table:
    """Lay out a row for each test of a sample set, `named` or not, and a column for each number of
    documents, under `texts`: title, note, heading."""
    title, note, heading = texts
    rows = [
        {"shift in": held["unit"].iloc[0], "model": source}
        | {"tendency": tendency, "test": measure}
        | {row["n"]: _shift(row) for row in held.to_dict("records")}
        for (source, tendency, measure), held in parts_by(
            sensitivity, "source", "tendency", "measure"
        ).items()
    ]
    titles = {name: row.title for name, row in definitions.TENDENCIES.items()}
    columns = [
        *text_columns(*["Model"] * named, form=labels.source),
        *text_columns("Tendency", form=lambda name: titles.get(name, name)),
        *text_columns("Test", form=lambda name: TEST_NAMES.get(name, name)),
        *text_columns("Shift in"),
        *(
            Column(f"{n:,}", heading, of=lambda row, n=n: row.get(n, ""))
            for n in sorted(set(sensitivity["n"]))
        ),
    ]
    return lay_out(name, title, note, columns, rows, sensitivity)


def sensitivity_table(sensitivity: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of sensitivity, of documents or of groups of them."""
    units = _OF_GROUPS if sensitivity["groups"].iloc[0] else _OF_DOCUMENTS
    title = "Minimum detectable effects and the power they reach, by number of documents"
    note = _note(sensitivity, labels.reference.lower(), units)
    texts = title, note, "Documents in each of two samples"
    return _effects("sensitivity", texts, sensitivity, labels)


def prompt_sensitivity_table(sensitivity: pd.DataFrame, labels: Labels) -> Table:
    """Make the same table of answers to prompts, of as many as were compared."""
    if sensitivity.empty:
        raise NothingToShowError("prompts: nothing was tested, so there is no detectable effect")
    title = "Minimum detectable effects in answers to prompts, and the power they reach"
    texts = title, _note(sensitivity, "prompts", _OF_PROMPTS), "Answers of either side"
    named = not sensitivity["source"].str.startswith(f"{EXTERNAL}/").all()  # not two files
    return _effects("prompt_sensitivity", texts, sensitivity, labels, named=named)


# ---- the test set itself ----

TEST_SET_ROWS = (
    Measured("rank_frequency", "zipf_s", "Zipf s", 4),
    Measured("type_token_unigrams", "heaps_beta", "Heaps β, unigrams"),
    Measured("type_token_unigrams", "heaps_alpha", "Heaps α, unigrams"),
    Measured("type_token_bigrams", "heaps_beta", "Heaps β, bigrams"),
    Measured("type_token_bigrams", "heaps_alpha", "Heaps α, bigrams"),
    Measured(definitions.LENGTH, "mean", "Mean length (tokens)", 2),
    *(
        Measured(name, "mean", f"Mean share of {row.noun}")
        for name, row in definitions.SHARES.items()
    ),
)


def reference_table(
    measures: pd.DataFrame, resamples: pd.DataFrame | None, labels: Labels
) -> Table:
    """Make Table 4, the test set's parameters with standard deviations over resamples; those of
    words are of as many tokens as the longest samples have."""
    tokens = measures[(measures["tendency"] == "vocabulary") & (measures["measure"] == "tokens")]
    sizes = dict(zip(tokens["source"], tokens["value"], strict=True))
    order = measures["source"].map(lambda name: -sizes.get(name, 0.0))
    largest_first = measures.loc[order.sort_values(kind="stable").index]
    records = []
    for row in TEST_SET_ROWS:
        found = _values(largest_first, row.tendency, f"{row.measure}_reference")
        drawn = _values(resamples, *row.key)
        if len(found):
            deviation = float(drawn.std(ddof=1)) if len(drawn) > 1 else None
            record: dict[str, Any] = dict(zip(("tendency", "measure"), row.key, strict=True))
            record |= {"value": float(found.iloc[0]), "standard_deviation": deviation}
            record |= {"n_resamples": len(drawn), COLUMN: TEST_SET.get(row.key)}
            records.append(record)
    if not records:
        raise NothingToShowError("table 4: the measures have no parameter of the reference")
    told = {row.key: row for row in TEST_SET_ROWS}

    def written(name: str) -> Callable[[Mapping[Any, Any]], str]:
        return lambda row: numbers.shown(row[name], told[row["tendency"], row["measure"]].digits)

    columns = [
        *text_columns("Parameter", of=("tendency", "measure"), form=lambda *key: told[key].heading),
        Column(OWN, of=written("value")),
        Column(
            "standard deviation", of="standard_deviation", form=partial(numbers.shown, digits=4)
        ),
        Column(PAPER, published=True, of=written(COLUMN)),
    ]
    note = (
        "Standard deviation: over random subsets of the training text, each as large as the test "
        "set; drawn by documents, or by pages where the corpus is split by pages."
    )
    title = f"Table 4: Parameters of the {labels.human()}"
    return lay_out("table_4", title, note, columns, records, published_note=PUBLISHED_NOTE)


def _values(table: pd.DataFrame | None, tendency: str, measure: str) -> pd.Series:
    if table is None:
        return pd.Series(dtype=float)
    chosen = (table["tendency"] == tendency) & (table["measure"] == measure)
    return table.loc[chosen, "value"].dropna()
