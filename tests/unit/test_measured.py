"""Tables 2, 3, 5, 6 and raw distances: floors, excesses, adjusted stars, withheld verdicts.

Needs no data. Oracles: the numbers that the synthetic tables are made of, and the paper's values.
"""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import (
    WITHHELD,
    beyond_floor,
    note_alone,
    reason_withheld,
    stars,
    verdict,
    verdict_mark,
)
from beyond_perplexity.report.latex import to_latex
from beyond_perplexity.report.layout import Table, to_html_table
from beyond_perplexity.report.measured import (
    EXCESS,
    MEASURED_TABLES,
    RAW_TABLE,
    TEXT_SHARES,
    measured_table,
    table_2,
    table_3,
    table_5,
    table_6,
)
from beyond_perplexity.report.published import COLUMN, OWN, PAPER
from beyond_perplexity.tendencies.definitions import compares_texts
from beyond_perplexity.verdicts import ALIKE, DIFFERS, UNTESTED, WITHOUT_VERDICT, reason
from tests.unit.synthetic_tables import (
    FLOORS,
    WITHHELD_NOTE,
    WORD_NOTE,
    make_measures,
    sources_of,
    stated,
    withhold,
)

SOURCES = [*sources_of(["lstm", "my_model"], ["ancestral", "warm", "beam"]), "external/mine_%"]
ROW = {"measure": "ks", "p_value": 0.001, "p_adjusted": 0.004, "note": None, "reason": None}


def cell(table: Table, row: int, heading: str, part: str = OWN) -> str:
    places = [i for i, c in enumerate(table.columns) if (c.group, c.title) == (heading, part)]
    (place,) = places
    return table.rows[row][place]


@pytest.mark.parametrize(
    ("changed", "said", "mark"),
    [
        ({}, DIFFERS, "**"),
        ({"p_adjusted": 0.04}, DIFFERS, "*"),
        ({"p_adjusted": 0.05}, ALIKE, ""),
        ({"p_adjusted": np.nan}, UNTESTED, ""),  # a raw p alone gives no star
        ({"p_adjusted": 1.0, "p_value": 1.0}, ALIKE, ""),  # a text against itself
        ({"p_adjusted": np.nan, "p_value": np.nan}, UNTESTED, ""),
        ({"p_adjusted": None, "p_value": None, "reason": stated("few")}, WITHOUT_VERDICT, WITHHELD),
        ({"p_adjusted": None, "p_value": None, "note": "not defined: empty"}, UNTESTED, ""),
        ({"p_adjusted": np.nan, "p_value": np.nan, "note": WORD_NOTE}, UNTESTED, ""),
        ({"measure": "ks_zipf_model"}, UNTESTED, ""),  # of a law, not of the text
        ({"measure": "zipf_s", "p_value": np.nan, "p_adjusted": np.nan, "note": "x"}, UNTESTED, ""),
    ],
)
def test_a_verdict_is_by_the_adjusted_p_alone(changed: dict, said: str, mark: str) -> None:
    row = ROW | changed
    assert (verdict(row), verdict_mark(row)) == (said, mark)


def test_the_reason_is_told_from_what_else_a_note_says() -> None:
    untested = {**ROW, "p_value": np.nan, "p_adjusted": np.nan}
    lengths = "3 shared lengths with 5 of 400 documents (4 of the reference), fewer than 20"
    few = reason("few_at_lengths", note=lengths.partition(" (")[0], there=4, least=20)
    held = stated(WITHHELD_NOTE)
    for changed, said in (
        ({"reason": held, "note": WORD_NOTE, "measure": "max_difference"}, WITHHELD_NOTE),
        ({"reason": held, "note": "40 of 60 embedded"}, f"{WITHHELD_NOTE}; 40 of 60 embedded"),
        ({"reason": held}, WITHHELD_NOTE),
        ({"reason": few}, lengths),
        ({"note": 'word "no verdict: b": 0.1 here, 0.2 in the reference'}, ""),
        ({"note": "180 shared lengths with 390 of 400 documents"}, ""),
        ({}, ""),
    ):
        assert reason_withheld(untested | changed) == said
    assert reason_withheld({**ROW, "reason": held}) == ""


FEW = "99 permutations cannot give p < 0.05 in a family of 8 tests: 1,600 are needed for p < 0.005"


def test_too_few_permutations_are_told_once() -> None:
    measures = make_measures(SOURCES)
    tested = measures["p_value"].notna()
    measures.loc[tested, ["family", "draws"]] = 8, 99
    assert table_3(measures, Labels()).note.count(FEW) == 1
    assert "permutations" not in table_5(measures, Labels()).note  # which tests nothing
    assert note_alone({**ROW, "note": WORD_NOTE}) == WORD_NOTE
    assert note_alone(ROW) == ""
    withheld = {**ROW, "p_value": None, "p_adjusted": None, "reason": stated("few"), "note": "x"}
    assert note_alone(withheld) == ""


def test_a_distance_is_held_against_the_band_of_the_floor() -> None:
    """Where the texts were made smaller for the floor, the value itself is of other sizes."""
    row = {"value": 9.0, "floor": 0.125, "floor_low": 0.0625, "floor_high": 0.25}
    places = [beyond_floor(row | {"excess": excess}) for excess in (-0.07, -0.0625, 0.125, 0.13)]
    assert places == [-1, 0, 0, 1]
    assert beyond_floor(row | {"floor_low": np.nan, "excess": 1.0}) == 0


@pytest.mark.parametrize("specification", [*MEASURED_TABLES.values(), RAW_TABLE])
def test_csv_has_every_column_in_full_precision(specification) -> None:
    measures = make_measures(SOURCES)
    table = measured_table(specification, measures, Labels())
    text = table.tidy.to_csv(index=False)
    csv = pd.read_csv(io.StringIO(text), dtype={"stars": str, "mark": str})
    assert set(measures.columns) <= set(csv.columns)
    keys = ["source", "tendency", "measure"]
    joined = csv.merge(measures, on=keys, suffixes=("", "_true"))
    extra = sum(c.measure == "zipf_s_split" for c in specification.columns)
    shown = len(specification.columns) + extra + len(TEXT_SHARES)
    assert len(joined) == len(csv) == len(SOURCES) * shown
    for name in ("value", "p_value", "p_value_law", "floor", "excess"):
        assert joined[name].equals(joined[f"{name}_true"])
    assert (joined["stars"].fillna("") == joined["p_adjusted"].map(stars)).all()
    assert len(table.rows) == 2 + len(SOURCES)
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_stars_are_of_adjusted_values_and_laws_have_none() -> None:
    measures = make_measures(["lstm/beam"])
    tested = measures["measure"].map(compares_texts)
    measures.loc[tested, ["p_value", "p_adjusted"]] = [0.0005, 0.2]
    table = table_2(measures, Labels())
    own = [row[i] for row in table.rows for i, c in enumerate(table.columns) if c.title == OWN]
    assert not any("*" in text for text in own)
    assert table.tidy["p_value"].min() == 0.0005
    assert table.tidy["p_value_law"].min() == 0.001
    measures.loc[measures["measure"] == "tvd", "p_adjusted"] = 0.004
    assert cell(table_2(measures, Labels()), 1, "Unigram TVD").endswith("**")


def test_the_floor_stands_above_and_the_excess_beside() -> None:
    measures = make_measures(["lstm/beam", "lstm/ancestral", "external/mine"])
    chosen = (measures["source"] == "lstm/beam") & (measures["measure"] == "tvd")
    measures.loc[chosen, ["value", "floor", "excess"]] = [0.5, 0.31, 0.19]
    table = table_2(measures, Labels(decodings=["ancestral", "beam"]))
    assert [row[0] for row in table.rows[:2]] == ["Human text against itself"] * 2
    assert [row[2] for row in table.rows] == ["words", "raw", "words", "words", "raw"]
    assert cell(table, 0, "Unigram TVD") == "0.220–0.310"  # sizes differ, and so do floors
    assert cell(table, 1, "Unigram TVD") == "0.220"
    assert cell(table, 3, "Unigram TVD").startswith("0.500")
    assert cell(table, 3, "Unigram TVD", EXCESS) == "+0.190"
    assert cell(table, 0, "Unigram TVD", EXCESS) == ""
    heads = {(column.group, column.title) for column in table.columns}
    assert ("KS to the samples' Zipf fit", EXCESS) not in heads  # a law has no floor
    assert ("Unigram TVD", PAPER) not in heads  # the paper has none


def test_shares_of_the_text_stand_beside_every_body() -> None:
    for specification in (*MEASURED_TABLES.values(), RAW_TABLE):
        table = measured_table(specification, make_measures(["lstm/beam"]), Labels())
        names = TEXT_SHARES.values()
        assert [cell(table, 1, "Share of the text", name) for name in names] == [
            "5.0%",
            "20.0%",
            "1.2%",
            "31.0%",
        ]
        human = [cell(table, 0, "Share of the text", name) for name in names]
        assert human == ["4.3%", "", "0.0%", "1.0%"]
    unknown = make_measures(["lstm/beam"]).query("measure != 'training_8grams'")
    assert cell(table_3(unknown, Labels()), 1, "Share of the text", "copied 8-grams") == ""


def test_a_withheld_verdict_is_marked_and_its_reason_noted() -> None:
    measures = withhold(make_measures(SOURCES), "length", "ks", WITHHELD_NOTE)
    table = table_3(measures, Labels())
    for row in range(2, len(table.rows)):
        assert cell(table, row, "Length KS").endswith(WITHHELD)
        assert WITHHELD not in cell(table, row, "Symbols KS")
    assert f"{WITHHELD} No verdict. Length KS: {WITHHELD_NOTE}." in table.note
    assert r"\textdagger{}" in to_latex(table)
    assert "No verdict" not in table_3(make_measures(SOURCES), Labels()).note
    (held,) = set(table.tidy.query("tendency == 'length' and measure == 'ks'")["reason"])
    assert held == stated(WITHHELD_NOTE)


def test_many_reasons_are_counted() -> None:
    measures = make_measures(SOURCES)
    for place, source in enumerate(SOURCES):
        own = measures["source"] == source
        measures[own] = withhold(measures[own], "length", "ks", f"only {place} documents")
    note = table_3(measures, Labels()).note
    assert "only 3 documents; 3 more in the CSV." in note
    assert "Length KS of LSTM beam: only 2 documents" in note


def test_notes_are_no_markup() -> None:
    nasty = "<script>alert(1)</script> \\input{x} $y_ \u202e\x1b[31m"
    table = table_3(withhold(make_measures(["lstm/beam"]), "length", "ks", nasty), Labels())
    assert "<script>" not in to_html_table(table)
    assert "\u202e" not in to_html_table(table)
    assert r"\textbackslash{}input\{x\} \$y\_" in to_latex(table)
    assert "\x1b" not in to_latex(table)


def test_both_fits_of_zipf_stand_side_by_side() -> None:
    table = table_5(make_measures(["lstm/beam"]), Labels())
    titles = [c.title for c in table.columns if c.group == "Zipf s, split fit"]
    assert titles == [OWN, "95% interval", "ranks"]
    assert cell(table, 0, "Zipf s, the paper's fit") == "1.200"
    split = [cell(table, row, "Zipf s, split fit", part) for row in (0, 1) for part in titles]
    assert split[0] == "1.079"
    assert (split[2], split[5]) == ("2,456", "2,345")
    assert split[4].startswith("[1.0")


def test_means_of_human_text_stand_above_their_differences() -> None:
    table = table_6(make_measures(["lstm/beam"]), Labels())
    assert cell(table, 0, "Length") == "57.450"
    assert not [c for c in table.columns if c.title == EXCESS]


def test_published_value_stands_beside_the_family_and_kind() -> None:
    labels = Labels(families={"my_model": "cnn"}, kinds={"warm": "nucleus"})
    table = table_3(make_measures(SOURCES), labels)
    rows = {(row[0], row[1]): place for place, row in enumerate(table.rows)}
    assert cell(table, rows["my model", "Warm"], "Length KS", PAPER) == "0.051"
    assert cell(table, rows["LSTM", "Beam"], "Length KS", PAPER) == "0.516"
    assert cell(table, rows["mine %", "Brought samples"], "Length KS", PAPER) == ""
    chosen = table.tidy[(table.tidy["source"] == "my_model/warm") & table.tidy[COLUMN].notna()]
    assert chosen[COLUMN].tolist() == [0.051, 0.102, 0.054]


def test_the_raw_table_has_every_distance_and_no_published_value() -> None:
    table = measured_table(RAW_TABLE, make_measures(["lstm/beam"]), Labels())
    assert {c.title for c in table.columns if c.group.endswith(("KS", "TVD"))} == {OWN, EXCESS}
    assert "raw text" in table.title
    own = {(c.tendency, c.measure) for c in RAW_TABLE.columns}
    assert own == FLOORS.keys() - {("unigram", "tvd_1000"), ("unigram", "max_difference_known")}
