"""Tables 1 to 6: numbers, stars, published values, and the three forms; the commands around them.

Oracles: the paper's sentences, Python's statistics, the measures, the structure of LaTeX and HTML.
"""

import io
import json
import math
import statistics
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from beyond_perplexity import errors, verdicts
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import (
    MINUS,
    WITHHELD,
    beyond_baseline,
    note_alone,
    reason_withheld,
    shown,
    shown_interval,
    shown_p,
    shown_range,
    shown_share,
    shown_signed,
    stars,
    verdict,
    verdict_mark,
)
from beyond_perplexity.report import latex, measured, overview, sensitivity
from beyond_perplexity.report.bits_per_byte import RAW_BITS, SPELLED, model_table
from beyond_perplexity.report.layout import Column, Table, to_html_table, to_text
from beyond_perplexity.report.published import (
    COLUMN,
    OWN,
    PAPER,
    PUBLISHED_FAMILIES,
    PUBLISHED_KINDS,
    published,
)
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.definitions import compares_texts, family_of
from beyond_perplexity.verdicts import DIFFERS, UNTESTED, WITHOUT_VERDICT, reason
from tests.unit import synthetic_tables
from tests.unit.evaluator_oracles import check_refused
from tests.unit.synthetic_tables import WITHHELD_NOTE, WORD_NOTE, make_measures, stated, withhold

SOURCES = synthetic_tables.sources_of(["lstm", "my_model"], ["ancestral", "warm", "beam"])
SOURCES += ["external/mine_%"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.1234, "0.123"), (-0.5, f"{MINUS}0.500"), (0.00037, f"3.7e{MINUS}4")),
        *((1234567, "1,234,567"), (123.456, "123.5"), (0, "0"), (math.inf, "∞"), (None, "")),
        (math.nan, ""),
    ],
)
def test_shown(value, text):
    assert shown(value) == text


def test_stars_ranges_shares_and_signs():
    marks = [stars(p) for p in (0.0049, 0.005, 0.049, 0.05, math.nan, None)]
    assert marks == ["**", "*", "*", "", "", ""]
    assert [shown_p(p) for p in (1 / 1001, 0.02, None)] == ["< 0.001", "0.020", ""]
    intervals = [(0.1, 0.2), (0.1, None), (math.nan, 0.2), (None, None)]
    limits = ["[0.100, 0.200]", "≥ 0.100", "≤ 0.200", ""]
    assert [shown_interval(*ends) for ends in intervals] == limits
    assert shown_range([0.3, math.nan, 0.1]) == "0.100–0.300"
    assert shown_range([0.10001, 0.1]) == "0.100"  # what is shown alike is shown once
    assert (shown_range([math.nan]), shown_range([0.02, 0.1], shown_share)) == ("", "2.0%–10.0%")
    shares = [shown_share(x) for x in (0, 0.0001, 0.5, 1, None, math.nan)]
    assert shares == ["0.0%", "< 0.1%", "50.0%", "100.0%", "", ""]
    signed = [shown_signed(x) for x in (0.01, -0.00056, -0.0001, 0.0, None)]
    assert signed == ["+0.010", f"{MINUS}0.001", "0.000", "0.000", ""]


def _value(tendency, measure, family, kind):
    found = published(tendency, measure, family, kind)
    assert found is not None
    return found.value


def test_published_values_agree_with_the_sentences_of_the_paper():
    # "text generated from an LSTM using random sampling follows all three the closest of any model"
    for tendency in ("length", "stop_words", "symbols"):
        random = {f: _value(tendency, "ks", f, "ancestral") for f in PUBLISHED_FAMILIES}
        assert min(random, key=random.__getitem__) == "lstm"
    # "a trigram model under the beam sampling follows a power law trend the most closely"
    pairs = product(PUBLISHED_FAMILIES, PUBLISHED_KINDS)
    fits = {pair: _value("rank_frequency", "ks_zipf_model", *pair) for pair in pairs}
    assert min(fits, key=fits.__getitem__) == ("trigram", "beam")
    # the one difference of means without stars
    plain = published("length", "mean_difference", "transformer-adaptive-softmax", "nucleus")
    assert plain == (0.134, "")
    starred = published("symbols", "mean_difference", "transformer-adaptive-softmax", "beam")
    assert starred == (0.0007, "*")
    # 1 - F(10000) at the test set's s = 1.1997 is the baseline of D_p_hat
    pairs = product(PUBLISHED_FAMILIES, PUBLISHED_KINDS)
    baselines = [_value("rank_frequency", "ks_zipf_reference", *pair) for pair in pairs]
    assert min(baselines) == pytest.approx(0.1421, abs=5e-4)
    for nothing in (
        ("length", "ks", "gru", "beam"),
        ("length", "ks", "lstm", "min_p"),
        ("unigram", "tvd", "lstm", "beam"),
        ("rank_frequency", "ks_empirical", "trigram", "beam"),
    ):
        assert published(*nothing) is None


def test_standard_deviations_are_over_resamples():
    parts = [make_measures([f"resample/{i}"], seed=i) for i in range(5)]
    table = sensitivity.reference_table(make_measures(SOURCES), pd.concat(parts), Labels())
    lengths = [part.query("tendency == 'length' and measure == 'mean'") for part in parts]
    values = [float(length["value"].iloc[0]) for length in lengths]
    row = table.tidy.query("tendency == 'length'").iloc[0]
    assert row["standard_deviation"] == pytest.approx(statistics.stdev(values))
    assert (row["value"], row["n_resamples"], row[COLUMN]) == (57.45, 5, 57.45)
    assert sensitivity.reference_table(make_measures(SOURCES), None, Labels()).rows[0][2] == ""
    # The laws of words are fitted to as many tokens of the test set as the samples have.
    parts = [make_measures(["lstm/beam"]), make_measures(["lstm/ancestral"])]
    for part, tokens, s in zip(parts, (1e3, 1e6), (1.1, 1.3), strict=True):
        part.loc[part["measure"] == "tokens", "value"] = tokens
        part.loc[part["measure"] == "zipf_s_reference", "value"] = s
    for order in (parts, parts[::-1]):
        table = sensitivity.reference_table(pd.concat(order, ignore_index=True), None, Labels())
        assert table.rows[0][1] == "1.3000"


def _description(family, parameters):
    return {"family": family, "parameters": parameters, "vocabulary": {"kind": "closed"}}


def test_models_table():
    models = {"small": _description("lstm", 59_000_000), "trigram": _description("trigram", 7)}
    small = {"perplexity": {"token": 81.5, "word": 90.25}}
    small |= {"unknown_penalized": {"perplexity": {"token": 280.5, "word": 300.5}}}
    perplexities = {"small": small, "trigram": {"perplexity": {"token": None, "word": None}}}
    table = model_table(models, perplexities, Labels())
    numbers = ["59.00", "59.000", "81.50", "90.25", "300.5", "49.29"]
    assert (table.rows[0], table.rows[1][4]) == (["small", "closed", *numbers], "∞")
    assert math.isinf(table.tidy["perplexity_per_word"].iloc[1])
    with pytest.raises(errors.InputError, match="model 'small' lacks 'parameters'"):
        model_table({"small": {"family": "lstm"}}, {}, Labels())


def scored(byte, size=90, unknown=0, **more):
    held = {"perplexity": {"token": 3.0, "word": 4.0}, "bits": {"character": 1.0, "byte": byte}}
    held |= {"documents": 2, "n": {"byte": size}, "text": "cleaned"}
    return {**held, "unknown": unknown, "unknown_share": unknown / 10, **more}


INTERVAL = {"bits": {"byte": [1.2, 1.4]}, "open_vocabulary": {"bits": {"byte": [2.0, 2.2]}}}
PERPLEXITIES = {
    "closed": scored(
        1.3,
        unknown=3,
        open_vocabulary={"bits": {"byte": 2.1}},
        interval=INTERVAL,
        interval_by_document={"open_vocabulary": {"bits": {"byte": [2.05, 2.15]}}},
    ),
    "open": scored(
        2.3,
        interval={"bits": {"byte": [None, None]}, "note": "fewer than 20 effective groups"},
        interval_by_document={"bits": {"byte": [2.1, 2.5]}},
    ),
    "free": scored(1.2, unknown=3),
    "impossible": scored(None, unknown=3, open_vocabulary={"bits": {"byte": None}}),
    "external": {**scored(0.9, size=120, text="raw"), "cleaned": scored(1.9)},
}


def test_bits_per_byte_are_of_one_text_with_every_word_spelled():
    models = {name: _description("lstm", 7) for name in PERPLEXITIES}
    table = model_table(models, PERPLEXITIES, Labels())
    heads = [column.title for column in table.columns]
    cleaned, raw = heads.index(SPELLED), heads.index(RAW_BITS)
    shown_bits = {row[0]: (row[cleaned], row[raw]) for row in table.rows}
    expected = {"closed": ("2.100", ""), "open": ("2.300", ""), "free": ("", "")}
    expected |= {"impossible": ("∞", ""), "external": ("1.900", "0.900")}
    assert shown_bits == expected
    tidy = table.tidy.set_index("model")
    limits = tidy.loc["closed"].filter(like="cleaned_")
    ends = {"low": 2.0, "high": 2.2, "low_by_document": 2.05, "high_by_document": 2.15}
    expected = {f"bits_per_byte_cleaned_{name}": value for name, value in ends.items()}
    assert limits.dropna().to_dict() == expected
    assert "one segmentation" in table.note
    alone = {name: PERPLEXITIES[name] for name in ("closed", "open")}
    assert RAW_BITS not in [column.title for column in model_table(models, alone, Labels()).columns]
    mixed = {"closed": PERPLEXITIES["closed"], "open": scored(2.0, size=91)}
    with pytest.raises(errors.InputError, match=r"'closed' and 'open' .* \(90 and 91 bytes\)"):
        model_table(models, mixed, Labels())
    # on the first page, with their interval
    text = overview.render_overview({}, PERPLEXITIES, [], (), None, [])
    cells = [line.strip(" *-") for line in text.splitlines() if line.startswith("   ")]
    assert {SPELLED, RAW_BITS} <= set(cells)
    assert "2.10 [2.00, 2.20] by page, [2.05, 2.15] by document" in cells
    few = "2.30 (fewer than 20 effective groups) by page, [2.10, 2.50] by document"
    assert few in cells
    assert cells.count("—") == 5
    assert "per character" not in text


def test_latex_and_html_are_escaped_and_rectangular_and_text_is_aligned():
    special = r"50%_of & {all} $x$ #1 ~ ^ \n"
    columns = [Column(special, text=True), Column("β", "α & β"), Column("p", "α & β")]
    table = Table("t", special, "", columns, [[special, f"{MINUS}1*", "2**"]], pd.DataFrame())
    text = latex.to_latex(table)
    assert r"50\%\_of \& \{all\} \$x\$ \#1" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    inside = text.split(r"\toprule")[1].split(r"\bottomrule")[0].replace(r"\&", "")
    rows = [line for line in inside.splitlines() if line.endswith(r"\tabularnewline")]
    assert [row.count("&") for row in rows] == [1, 2, 2]
    assert r"$-$1$^{\ast}$ & 2$^{\ast \ast}$" in text
    unescaped = text.replace(r"\{", "").replace(r"\}", "")
    assert unescaped.count("{") == unescaped.count("}")
    assert all(ord(letter) < 128 for letter in latex.escape_latex("−∞αβ±½Σ–—"))
    lines = to_text(measured.table_3(make_measures(SOURCES), Labels())).splitlines()
    assert len(lines) == 2 + 2 + len(SOURCES)  # human text in two vocabularies
    assert max(map(len, lines)) == len(lines[1])
    made = make_measures(["<b>/beam", "lstm/beam"])
    table = measured.measured_table(measured.MEASURED_TABLES[2], made, Labels())
    html = to_html_table(table)
    parser = _Rows()
    parser.feed(html)
    assert set(parser.rows) == {len(table.columns)}
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "class='published'" in html


class _Rows(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows: list[int] = []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += int(dict(attrs).get("colspan") or 1)


def _run(monkeypatch, tmp_path, name, *arguments, **inputs):
    monkeypatch.chdir(tmp_path)
    synthetic_tables.run_tabulate(monkeypatch, tmp_path, f"tendencies/{name}", inputs, *arguments)


def test_command_reads_files(monkeypatch, tmp_path):
    rows = pa.Table.from_pandas(make_measures(SOURCES), TENDENCY_MEASURES)
    write_shard(tmp_path / "m.parquet", TENDENCY_MEASURES, rows, {"start": ""})
    folder = tmp_path / "my_model"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(_description("cnn", 5)))
    (tmp_path / "my_model.json").write_text('{"perplexity": {"token": 3, "word": 4}}')
    measures = ["m.parquet"]
    labels = ["--labels", '{"families": {"my_model": "cnn"}, "published": true}']
    _run(monkeypatch, tmp_path, "table_3", *labels, measures=measures)
    assert "0.491" in (tmp_path / "t.html").read_text()  # the published CNN, beam, length
    assert "0.491" in (tmp_path / "t.tex").read_text()
    assert len(pd.read_csv(tmp_path / "t.csv")) == (3 + len(measured.TEXT_SHARES)) * len(SOURCES)
    _run(monkeypatch, tmp_path, "table_3", measures=measures)
    for name in ("t.html", "t.tex", "t.csv"):  # other data than the paper's
        assert "0.491" not in (tmp_path / name).read_text()
    assert "published" not in (tmp_path / "t.csv").read_text()
    _run(monkeypatch, tmp_path, "table_4", raw_measures=measures)
    given = {"models": ["my_model/model.json"], "perplexities": ["my_model.json"]}
    _run(monkeypatch, tmp_path, "table_1", **given)
    row = pd.read_csv(tmp_path / "t.csv").iloc[0]
    assert (row["model"], row["perplexity_per_word"]) == ("my_model", 4)


def test_command_errors(monkeypatch, tmp_path):
    check_refused("table_2 needs files 'measures'", _run, monkeypatch, tmp_path, "table_2")
    (tmp_path / "model.json").write_text("[]")
    with pytest.raises(errors.InputError, match="holds no JSON object"):
        _run(monkeypatch, tmp_path, "table_1", models=["model.json"])
    with pytest.raises(errors.InputError, match="not a readable Parquet file"):
        _run(monkeypatch, tmp_path, "table_3", measures=["model.json"])
    with pytest.raises(errors.InputError, match="table 3: the measures have none of"):
        measured.table_3(make_measures(SOURCES).query("tendency == 'unigram'"), Labels())
    assert not (tmp_path / "t.csv").exists()


TOO_FEW_OF_8 = reason(verdicts.TOO_FEW, draws=99, level=0.05, family=8, needed=160)
ROW = {"measure": "ks", "p_value": 0.001, "p_adjusted": 0.004, "note": None, "reason": None}


def cell(table, row, heading, part=OWN):
    (place,) = (i for i, c in enumerate(table.columns) if (c.group, c.title) == (heading, part))
    return table.rows[row][place]


@pytest.mark.parametrize(
    ("changed", "said", "mark"),
    [
        ({}, DIFFERS, "**"),
        ({"p_adjusted": 0.04}, DIFFERS, "*"),
        ({"p_adjusted": 0.05}, verdicts.ALIKE, ""),
        ({"p_adjusted": np.nan}, UNTESTED, ""),  # a raw p alone gives no star
        ({"p_adjusted": 1.0, "p_value": 1.0}, verdicts.ALIKE, ""),  # a text against itself
        ({"p_adjusted": 0.4, "reason": stated("few")}, verdicts.ALIKE, ""),
        ({"p_adjusted": 0.4, "reason": TOO_FEW_OF_8}, verdicts.CANNOT_TELL, "?"),
        ({"p_adjusted": 0.05 - 1e-17, "reason": TOO_FEW_OF_8}, verdicts.CANNOT_TELL, "?"),
        ({"p_adjusted": np.nan, "p_value": np.nan}, UNTESTED, ""),
        ({"p_adjusted": None, "p_value": None, "reason": stated("few")}, WITHOUT_VERDICT, WITHHELD),
        (
            {"p_adjusted": None, "p_value": None, "note": "not defined: empty"},
            UNTESTED,
            "",
        ),
        ({"p_adjusted": np.nan, "p_value": np.nan, "note": WORD_NOTE}, UNTESTED, ""),
        ({"measure": "ks_zipf_model"}, UNTESTED, ""),  # of a law, not of the text
        (
            {"measure": "zipf_s", "p_value": np.nan, "p_adjusted": np.nan, "note": "x"},
            UNTESTED,
            "",
        ),
    ],
)
def test_a_verdict_is_by_the_adjusted_p_alone(changed, said, mark):
    row = ROW | changed
    assert (verdict(row), verdict_mark(row)) == (said, mark)


FEW = "99 permutations cannot give p < 0.05 in a family of 8 tests: 1,600 are needed for p < 0.005"


def test_reasons_are_told_from_notes_and_too_few_permutations_once():
    measures = make_measures(SOURCES)
    tested = measures["p_value"].notna()
    measures.loc[tested, ["family", "draws"]] = 8, 99
    assert measured.table_3(measures, Labels()).note.count(f" {FEW}") == 1
    measures.loc[tested, "reason"] = TOO_FEW_OF_8
    assert measured.table_3(measures, Labels()).note.count(f"? cannot tell: {FEW}") == 1
    assert "permutations" not in measured.table_5(measures, Labels()).note  # which tests nothing
    assert (note_alone({**ROW, "note": WORD_NOTE}), note_alone(ROW)) == (WORD_NOTE, "")
    withheld = {**ROW, "p_value": None, "p_adjusted": None, "reason": stated("few"), "note": "x"}
    assert note_alone(withheld) == ""
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


def test_stars_are_of_adjusted_values_and_distances_are_held_against_the_band():
    """Where the texts were made smaller for the baseline, the value itself is of other sizes."""
    row = {"value": 9.0, "baseline": 0.125, "baseline_low": 0.0625, "baseline_high": 0.25}
    places = [beyond_baseline(row | {"excess": excess}) for excess in (-0.07, -0.0625, 0.125, 0.13)]
    assert places == [-1, 0, 0, 1]
    assert beyond_baseline(row | {"baseline_low": np.nan, "excess": 1.0}) == 0
    measures = make_measures(["lstm/beam"])
    tested = measures["measure"].map(compares_texts)
    measures.loc[tested, ["p_value", "p_adjusted"]] = [0.0005, 0.2]
    table = measured.table_2(measures, Labels())
    own = [row[i] for row in table.rows for i, c in enumerate(table.columns) if c.title == OWN]
    assert not any("*" in text for text in own)
    assert (table.tidy["p_value"].min(), table.tidy["p_value_law"].min()) == (0.0005, 0.001)
    measures.loc[measures["measure"] == "tvd", "p_adjusted"] = 0.004
    assert cell(measured.table_2(measures, Labels()), 1, "Unigram TVD").endswith("**")


@pytest.mark.parametrize("specification", [*measured.MEASURED_TABLES.values(), measured.RAW_TABLE])
def test_csv_has_every_column_in_full_precision(specification):
    measures = make_measures(SOURCES)
    table = measured.measured_table(specification, measures, Labels())
    text = table.tidy.to_csv(index=False)
    csv = pd.read_csv(io.StringIO(text), dtype={"stars": str, "mark": str})
    assert set(measures.columns) - {"halves"} <= set(csv.columns)  # lists stay in Parquet
    keys = ["source", "tendency", "measure"]
    joined = csv.merge(measures, on=keys, suffixes=("", "_true"))
    extra = sum(c.measure == "zipf_s_split" for c in specification.columns)
    shown = len(specification.columns) + extra + len(measured.TEXT_SHARES)
    assert len(joined) == len(csv) == len(SOURCES) * shown
    for name in ("value", "p_value", "p_value_law", "baseline", "excess"):
        assert joined[name].equals(joined[f"{name}_true"])
    assert (joined["stars"].fillna("") == joined["p_adjusted"].map(stars)).all()
    assert len(table.rows) == 2 + len(SOURCES)
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_controls_of_a_judge_stand_in_the_note_and_in_the_csv():
    measures = make_measures(["lstm/beam", "lstm/ancestral"])
    judged = measures[measures["tendency"] == "judge"]
    assert not measured.order_table(measures, Labels()).note.count("under the judge")
    means = {"mean_reference": 1.25, "mean_own_samples": 1.5, "mean": 2.0}
    rows = [judged.assign(measure=name, value=value, note="") for name, value in means.items()]
    rows[-1]["value"] = [2.0, 3.0]
    table = measured.order_table(pd.concat([measures, *rows]), Labels())
    told = "human text 1.250; samples of the judge 1.500; the sample sets 2.000–3.000."
    assert f"Bits per byte under the judge, on average: {told}" in table.note
    tidy = table.tidy[table.tidy["tendency"] == "judge"]
    assert {*means} < {*tidy["measure"]}
    assert "under the judge" not in measured.table_3(pd.concat([measures, *rows]), Labels()).note


def test_baselines_stand_above_excesses_and_shares_of_the_text_beside():
    for specification in (*measured.MEASURED_TABLES.values(), measured.RAW_TABLE):
        table = measured.measured_table(specification, make_measures(["lstm/beam"]), Labels())
        names = measured.TEXT_SHARES.values()
        own = [cell(table, 1, "Share of the text", name) for name in names]
        assert own == ["5.0%", "20.0%", "1.2%", "31.0%"]
        human = [cell(table, 0, "Share of the text", name) for name in names]
        assert human == ["4.3%", "", "0.0%", "1.0%"]
    unknown = make_measures(["lstm/beam"]).query("measure != 'training_8grams'")
    assert cell(measured.table_3(unknown, Labels()), 1, "Share of the text", "copied 8-grams") == ""
    measures = make_measures(["lstm/beam", "lstm/ancestral", "external/mine"])
    chosen = (measures["source"] == "lstm/beam") & (measures["measure"] == "tvd")
    measures.loc[chosen, ["value", "baseline", "excess"]] = [0.5, 0.31, 0.19]
    table = measured.table_2(measures, Labels(decodings=["ancestral", "beam"]))
    assert [row[0] for row in table.rows[:2]] == ["Human text against itself"] * 2
    assert [row[2] for row in table.rows] == ["words", "raw", "words", "words", "raw"]
    assert cell(table, 0, "Unigram TVD") == "0.220–0.310"  # sizes differ, and so do baselines
    assert cell(table, 1, "Unigram TVD") == "0.220"
    assert cell(table, 3, "Unigram TVD").startswith("0.500")
    assert cell(table, 3, "Unigram TVD", measured.EXCESS) == "+0.190"
    assert cell(table, 0, "Unigram TVD", measured.EXCESS) == ""
    heads = {(column.group, column.title) for column in table.columns}
    assert ("KS to the samples' Zipf fit", measured.EXCESS) not in heads  # a law has no baseline
    assert ("Unigram TVD", PAPER) not in heads  # the paper has none


def test_withheld_verdicts_are_marked_and_their_reasons_noted_without_markup():
    measures = withhold(make_measures(SOURCES), "length", "ks", WITHHELD_NOTE)
    table = measured.table_3(measures, Labels())
    for row in range(2, len(table.rows)):
        assert cell(table, row, "Length KS").endswith(WITHHELD)
        assert WITHHELD not in cell(table, row, "Symbols KS")
    assert f"{WITHHELD} No verdict. Length KS: {WITHHELD_NOTE}." in table.note
    assert r"\textdagger{}" in latex.to_latex(table)
    assert "No verdict" not in measured.table_3(make_measures(SOURCES), Labels()).note
    (held,) = set(table.tidy.query("tendency == 'length' and measure == 'ks'")["reason"])
    assert held == stated(WITHHELD_NOTE)
    # many reasons are counted
    measures = make_measures(SOURCES)
    for place, source in enumerate(SOURCES):
        own = measures["source"] == source
        measures[own] = withhold(measures[own], "length", "ks", f"only {place} documents")
    note = measured.table_3(measures, Labels()).note
    assert "only 3 documents; 3 more in the CSV." in note
    assert "Length KS of LSTM beam: only 2 documents" in note
    nasty = "<script>alert(1)</script> \\input{x} $y_ \u202e\x1b[31m"
    held = withhold(make_measures(["lstm/beam"]), "length", "ks", nasty)
    table = measured.table_3(held, Labels())
    assert "<script>" not in to_html_table(table)
    assert "\u202e" not in to_html_table(table)
    assert r"\textbackslash{}input\{x\} \$y\_" in latex.to_latex(table)
    assert "\x1b" not in latex.to_latex(table)


def test_both_fits_of_zipf_stand_side_by_side():
    table = measured.table_5(make_measures(["lstm/beam"]), Labels())
    titles = [c.title for c in table.columns if c.group == "Zipf s, split fit"]
    assert titles == [OWN, "95% interval", "ranks"]
    assert cell(table, 0, "Zipf s, the paper's fit") == "1.200"
    split = [cell(table, row, "Zipf s, split fit", part) for row in (0, 1) for part in titles]
    assert (split[0], (split[2], split[5])) == ("1.079", ("2,456", "2,345"))
    assert split[4].startswith("[1.0")
    # means of human text stand above their differences
    table = measured.table_6(make_measures(["lstm/beam"]), Labels())
    assert cell(table, 0, "Length") == "57.450"
    assert not [c for c in table.columns if c.title == measured.EXCESS]


def test_published_value_stands_beside_the_family_and_kind():
    labels = Labels(families={"my_model": "cnn"}, kinds={"warm": "nucleus"})
    table = measured.table_3(make_measures(SOURCES), labels)
    rows = {(row[0], row[1]): place for place, row in enumerate(table.rows)}
    assert cell(table, rows["my model", "Warm"], "Length KS", PAPER) == "0.051"
    assert cell(table, rows["LSTM", "Beam"], "Length KS", PAPER) == "0.516"
    assert cell(table, rows["mine %", "External samples"], "Length KS", PAPER) == ""
    chosen = table.tidy[(table.tidy["source"] == "my_model/warm") & table.tidy[COLUMN].notna()]
    assert chosen[COLUMN].tolist() == [0.051, 0.102, 0.054]
    # the raw table has every distance of the first family and no published value
    table = measured.measured_table(measured.RAW_TABLE, make_measures(["lstm/beam"]), Labels())
    titles = {c.title for c in table.columns if c.group.endswith(("KS", "TVD"))}
    assert titles == {OWN, measured.EXCESS}
    assert "raw text" in table.title
    own = {(c.tendency, c.measure) for c in measured.RAW_TABLE.columns}
    others = {("unigram", name) for name in ("tvd_1000", "max_difference_known")}
    assert own == {k for k in synthetic_tables.BASELINES if not family_of(k[0])} - others


def write(path, *jobs):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(job)}\n" for job in jobs))


def job(seconds, megabytes, minutes, asked, gpus=0):
    resources = {"runtime": minutes, "mem_mb": asked, "gpu": gpus, "tmpdir": "/tmp"}
    used = {"s": seconds, "max_rss": megabytes, "cpu_time": 2 * seconds}
    return {**used, "resources": resources}


def test_a_rule_has_a_row_of_what_its_jobs_asked_for_and_used(tmp_path):
    write(tmp_path / "generate/a/00000.jsonl", job(60, 500, 10, 1000, gpus=1))
    write(tmp_path / "generate/a/00001.jsonl", job(180, 900, 10, 2000, gpus=1))
    write(tmp_path / "generate/a/00002.jsonl", job(120, 600, 20, 1000, gpus=1))
    write(tmp_path / "write_overview.jsonl", {"s": 30.0, "max_rss": "NA", "cpu_time": 3.0})
    table = overview.resources_table(tmp_path)
    first, second = table.tidy.to_dict("records")
    minutes = {"minutes_asked": 20, "minutes_median": 2, "minutes_most": 3, "minutes_share": 0.3}
    memory = {"mb_asked": 2000, "mb_median": 600, "mb_most": 900, "mb_share": 0.6}
    hours = {"core_hours": pytest.approx(0.2), "gpu_hours": pytest.approx(0.1)}
    assert first == {"rule": "generate", "jobs": 3, "cpus": 2.0, **minutes, **memory, **hours}
    assert second["rule"] == "write_overview"
    cells = ["write_overview", "1", "–", "0.5", "0.5", *["–"] * 5, "0.10", "0.0", "0.0"]
    assert table.rows[1] == cells
    assert "generate" in to_text(table)
    write(tmp_path / "no/train/a.jsonl", [], {"s": None}, {"rule": "train"}, {"s": 60.0})
    (tmp_path / "no/train/b.jsonl").write_bytes(b'{"s": 1.0}\n{"s": \xff')
    assert list(overview.resources_table(tmp_path / "no").tidy["jobs"]) == [2]
    assert not overview.resources_table(tmp_path / "none").rows
