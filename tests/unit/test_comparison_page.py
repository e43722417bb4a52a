"""The page about a comparison: verdicts, floors, what the texts are made of, and no markup.

Needs no data. Oracles: synthetic tables of known numbers, and the parser of HTML.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report.comparison_input import Body, CompareOptions, Comparison
from beyond_perplexity.report.comparison_page import (
    MAIN_ROWS,
    all_measures_table,
    bodies_table,
    comparison_page,
    comparison_table,
    texts_table,
)
from beyond_perplexity.report.layout import Table
from tests.unit.synthetic_tables import WITHHELD_NOTE, WORD_NOTE, make_measures, withhold
from tests.unit.test_compare import Page

SOURCE = "external/samples"


def line(table: Table, first: str) -> dict[str, str]:
    (row,) = [row for row in table.rows if row[0] == first]
    return dict(zip((column.title for column in table.columns), row, strict=True))


@pytest.fixture
def measures() -> pd.DataFrame:
    table = make_measures([SOURCE])
    tested = table["p_value"].notna()
    table.loc[tested, ["p_value", "p_adjusted"]] = [0.001, 0.3]
    return table


def put(table: pd.DataFrame, tendency: str, measure: str, **values: Any) -> pd.DataFrame:
    chosen = (table["tendency"] == tendency) & (table["measure"] == measure)
    assert chosen.sum() == 1
    changed = table.copy()
    for name, value in values.items():
        changed.loc[chosen, name] = value
    return changed


def test_a_verdict_is_one_of_four(measures) -> None:
    table = put(measures, "length", "ks", p_value=0.0005, p_adjusted=0.004, value=0.25)
    table = withhold(table, "rank_frequency", "ks_empirical", WITHHELD_NOTE)
    table = put(table, "unigram", "tvd", p_value=np.nan, p_adjusted=np.nan)
    made = comparison_table(table)
    length = line(made, "Length: mean, tokens")
    assert (length["Verdict"], length["Distance"]) == ("differs", "0.250**")
    ranks = line(made, "Rank-frequency: Zipf's s")
    assert ranks["Verdict"] == f"no verdict: {WITHHELD_NOTE}"
    assert ranks["Distance"].endswith("†")
    assert (ranks["Adjusted p"], ranks["Note"]) == ("", "")
    assert line(made, "Unigrams")["Verdict"] == "not tested"
    largest = line(made, "Unigrams, largest difference")
    assert largest["Verdict"] == "no difference found"  # though its raw p is 0.001
    assert "*" not in largest["Distance"]
    assert largest["Note"] == WORD_NOTE


def test_floor_excess_and_limits_stand_beside_a_distance(measures) -> None:
    table = put(measures, "length", "ks", value=0.18, floor=0.05, excess=0.13, low=np.nan, high=0.3)
    table = put(table, "unigram", "tvd", low=0.059, high=0.174)
    made = comparison_table(table)
    length = line(made, "Length: mean, tokens")
    assert (length["Floor"], length["Excess"], length["95% limits"]) == (
        "0.050",
        "+0.130",
        "≤ 0.300",
    )
    assert line(made, "Unigrams")["95% limits"] == "[0.059, 0.174]"
    shown = [row for row in MAIN_ROWS if row.tendency in set(measures["tendency"])]
    assert [row.tendency for row in MAIN_ROWS if row not in shown] == ["embedding"]  # not asked for
    assert len(made.rows) == len(made.tidy) == len(shown)


def test_a_text_against_itself_differs_nowhere(measures) -> None:
    tested = measures["p_value"].notna()
    same = measures.assign(value=measures["value"].where(~tested, 0.0))
    same.loc[tested, ["p_value", "p_adjusted"]] = 1.0
    assert {row[-2] for row in comparison_table(same).rows} == {"no difference found"}


def test_what_the_texts_are_made_of(measures) -> None:
    made = texts_table(measures)
    assert line(made, "Fragments: documents without the end of a sentence") == {
        "Share": "Fragments: documents without the end of a sentence",
        "Reference": "5.0%",
        "Samples": "6.0%",
    }
    assert line(made, "Documents that did not end by themselves")["Reference"] == ""
    bare = measures[~measures["measure"].str.startswith("training_8grams")]
    assert len(texts_table(bare).rows) == len(made.rows) - 1


def test_all_measures_have_the_p_of_a_law_apart(measures) -> None:
    made = all_measures_table(measures)
    assert len(made.rows) == len(measures)
    heads = [column.title for column in made.columns]
    (law,) = [row for row in made.rows if row[1] == "ks_zipf_model"]
    cells = dict(zip(heads, law, strict=True))
    assert (cells["p"], cells["Adjusted p"], cells["p of the law"]) == ("", "", "0.001")
    assert "*" not in cells["Value"]


def comparison(measures: pd.DataFrame, name: str = "b.txt", **more: Any) -> Comparison:
    statistics: Any = SimpleNamespace(n_documents=40, n_tokens=900, types=range(70))
    bodies = [Body(Path(path), Path(), Path(), statistics, 2) for path in ("a.txt", name)]
    return Comparison(*bodies, measures, pd.DataFrame(), Labels(), {"stop_words": "gensim"}, **more)


def page(found: Comparison, permutations: int = 1999) -> str:
    options = CompareOptions("a.txt", "b.txt", permutations=permutations)
    return comparison_page(found, options, {})


def test_groups_are_told_where_there_are_any(measures) -> None:
    heads = [column.title for column in bodies_table(comparison(measures)).columns]
    assert "Groups" not in heads
    made = bodies_table(comparison(measures, groups=(26, None)))
    assert [line(made, name)["Groups"] for name in ("Reference", "Samples")] == ["26", "none"]
    assert line(made, "Samples")["Documents"] == "40"


def test_the_raw_texts_stand_beside_a_vocabulary(measures) -> None:
    raw = put(measures, "unigram", "tvd", value=0.777)
    assert "0.777" not in page(comparison(measures))
    both = page(comparison(measures, raw=raw))
    assert "How far are the raw texts?" in both
    assert "0.777" in both
    assert Page(both).open == []


@pytest.mark.parametrize(
    ("permutations", "said"),
    [
        (1999, "adjusted for 8 tests the smallest p is 0.004</li>"),
        (999, "0.008, and ** needs at least 1,600 permutations</li>"),
        (99, "** needs at least 1,600 permutations, and * needs at least 160 permutations"),
    ],
)
def test_the_page_says_which_stars_can_appear(measures, permutations: int, said: str) -> None:
    """Eight tests, one of a largest difference among them; 8 / 1601 < .005 and 8 / 161 < .05."""
    assert said in page(comparison(measures), permutations)
    untested = measures.assign(p_value=np.nan, p_adjusted=np.nan)
    assert "tests the smallest p" not in page(comparison(untested), permutations)


def test_names_and_notes_are_no_markup(measures) -> None:
    nasty = "<img src=x onerror=alert(1)> & '\" \x1b[31m\u202e"
    table = put(measures, "unigram", "max_difference", note=f'word "{nasty}": 0.1 here, 0.2 there')
    text = page(comparison(withhold(table, "length", "ks", nasty), name=f"{nasty}.txt"))
    made = Page(text)
    assert made.open == []
    assert made.images == []
    assert not {"\x1b", "\u202e"} & set(text)
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
