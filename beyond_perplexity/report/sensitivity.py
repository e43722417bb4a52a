"""The table of the smallest shifts that numbers of documents detect."""

from __future__ import annotations

import math

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.tendencies.definitions import TENDENCIES, tendencies_of

TEST_NAMES = {
    "ks_empirical": "KS",
    "ks": "KS",
    "tvd": "total variation",
    "max_difference": "largest difference",
    "mmd": "maximum mean discrepancy",
    "mean_difference": "mean difference",
}
# Where the shift is a share or a distance itself, its ratio to the reference's value says no more.
_SAME = tendencies_of("words", "types", "embedding")


def _cell(row: pd.Series) -> str:
    if pd.isna(row["shift"]):
        return "none"
    two_digits = 1 - math.floor(math.log10(row["shift"]))
    size = shown(row["shift"], max(0, two_digits))
    if row["tendency"] in _SAME or pd.isna(row["relative"]):
        return size
    return f"{size} ({100 * row['relative']:.2g}%)"


def _note(sensitivity: pd.DataFrame, reference: str) -> str:
    """Say what is found how often, and of which tests."""
    level, power, grouped = sensitivity[["level", "power", "groups"]].iloc[0]
    found = (
        f"The shift of a population that one test finds at p < {level:g}, before any adjustment "
        f"for many tests, in {100 * power:g}% of the cases; in brackets relative to the value of "
        f"the {reference}, of whose documents the populations are made. Distances are tested on "
        "one side."
    )
    if not grouped:
        return f"{found} Both samples are of independent documents, which the tests permute."
    return (
        f"{found} The human sample is of whole groups, the other of as many independent documents. "
        "The total variation is tested by the held-out distance, the rest by swaps of groups; too "
        "few groups allow none. Ranks and types by length have no sound test of groups against "
        "documents."
    )


def sensitivity_table(sensitivity: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of sensitivity: a row for each test, a column for each number of documents."""
    if sensitivity.empty:
        raise NothingToShowError("the sensitivity has no row to show")
    sizes = sorted(set(sensitivity["n"]))
    body = []
    for key, rows in sensitivity.groupby(["tendency", "measure"], sort=False):
        tendency, measure = map(str, key)
        by_size = {row["n"]: _cell(row) for _, row in rows.iterrows()}
        title = TENDENCIES[tendency].title if tendency in TENDENCIES else tendency
        names = [title, TEST_NAMES.get(measure, measure)]
        unit = str(rows["unit"].iloc[0])
        body.append([*names, unit, *(by_size.get(size, "") for size in sizes)])
    heads = [Column(title, text=True) for title in ("Tendency", "Test", "Shift in")]
    heads += [Column(f"{size:,}", "Documents in each of two samples") for size in sizes]
    note = _note(sensitivity, labels.reference.lower())
    title = "Smallest shift that documents detect"
    return Table("sensitivity", title, note, heads, body, sensitivity)
