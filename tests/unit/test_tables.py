"""Tables 1 to 6: numbers, stars, published values, and the three forms; the commands around them.

Needs no data. Oracles: the paper's own sentences about its tables, Python's statistics module, the
measures that went in, and the structure that LaTeX and HTML demand.
"""

from __future__ import annotations

import json
import math
import statistics
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import (
    MINUS,
    shown,
    shown_interval,
    shown_p,
    shown_range,
    shown_share,
    shown_signed,
    stars,
)
from beyond_perplexity.report.bits_per_byte import RAW_BITS, SPELLED, model_table
from beyond_perplexity.report.latex import escape_latex, to_latex
from beyond_perplexity.report.layout import Column, Table, to_html_table
from beyond_perplexity.report.layout import to_text as as_text
from beyond_perplexity.report.measured import MEASURED_TABLES, TEXT_SHARES, measured_table, table_3
from beyond_perplexity.report.overview import render_overview
from beyond_perplexity.report.published import (
    COLUMN,
    PUBLISHED_FAMILIES,
    PUBLISHED_KINDS,
    published,
)
from beyond_perplexity.report.sensitivity import reference_table
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.shards import write_shard
from scripts import tabulate
from tests.unit.synthetic_tables import make_measures, sources_of

SOURCES = [*sources_of(["lstm", "my_model"], ["ancestral", "warm", "beam"]), "external/mine_%"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234, "0.123"),
        (-0.5, f"{MINUS}0.500"),
        (0.00037, f"3.7e{MINUS}4"),
        (1234567, "1,234,567"),
        (123.456, "123.5"),
        (0, "0"),
        (math.inf, "∞"),
        (None, ""),
        (math.nan, ""),
    ],
)
def test_shown(value: float | None, text: str) -> None:
    assert shown(value) == text


def test_stars_and_p_values() -> None:
    marks = [stars(p) for p in (0.0049, 0.005, 0.049, 0.05, math.nan, None)]
    assert marks == ["**", "*", "*", "", "", ""]
    assert [shown_p(p) for p in (1 / 1001, 0.02, None)] == ["< 0.001", "0.020", ""]
    intervals = [(0.1, 0.2), (0.1, None), (math.nan, 0.2), (None, None)]
    assert [shown_interval(*ends) for ends in intervals] == [
        "[0.100, 0.200]",
        "≥ 0.100",
        "≤ 0.200",
        "",
    ]


def test_ranges_shares_and_signs() -> None:
    assert shown_range([0.3, math.nan, 0.1]) == "0.100–0.300"
    assert shown_range([0.10001, 0.1]) == "0.100"  # what is shown alike is shown once
    assert shown_range([math.nan]) == ""
    assert shown_range([0.02, 0.1], shown_share) == "2.0%–10.0%"
    shares = [shown_share(x) for x in (0, 0.0001, 0.5, 1, None, math.nan)]
    assert shares == ["0.0%", "< 0.1%", "50.0%", "100.0%", "", ""]
    signed = [shown_signed(x) for x in (0.01, -0.00056, -0.0001, 0.0, None)]
    assert signed == ["+0.010", f"{MINUS}0.001", "0.000", "0.000", ""]


def _value(tendency: str, measure: str, family: str, kind: str) -> float:
    found = published(tendency, measure, family, kind)
    assert found is not None
    return found.value


def test_published_values_agree_with_the_sentences_of_the_paper() -> None:
    # "text generated from an LSTM using random sampling follows all three the closest of any model"
    for tendency in ("length", "stop_words", "symbols"):
        random = {
            family: _value(tendency, "ks", family, "ancestral") for family in PUBLISHED_FAMILIES
        }
        assert min(random, key=lambda family: random[family]) == "lstm"
    # "a trigram model under the beam sampling follows a power law trend the most closely"
    fits = {
        (family, kind): _value("rank_frequency", "ks_zipf_model", family, kind)
        for family in PUBLISHED_FAMILIES
        for kind in PUBLISHED_KINDS
    }
    assert min(fits, key=lambda key: fits[key]) == ("trigram", "beam")
    # the one difference of means without stars
    plain = published("length", "mean_difference", "transformer-adaptive-softmax", "nucleus")
    assert plain == (0.134, "")
    starred = published("symbols", "mean_difference", "transformer-adaptive-softmax", "beam")
    assert starred == (0.0007, "*")
    # 1 - F(10000) at the test set's s = 1.1997 is the floor of D_p_hat
    floors = [
        _value("rank_frequency", "ks_zipf_reference", f, k)
        for f in PUBLISHED_FAMILIES
        for k in PUBLISHED_KINDS
    ]
    assert min(floors) == pytest.approx(0.1421, abs=5e-4)


def test_nothing_is_published_for_other_models_and_decodings() -> None:
    assert published("length", "ks", "gru", "beam") is None
    assert published("length", "ks", "lstm", "min_p") is None
    assert published("unigram", "tvd", "lstm", "beam") is None
    assert published("rank_frequency", "ks_empirical", "trigram", "beam") is None


def test_standard_deviations_are_over_resamples() -> None:
    parts = [make_measures([f"resample/{i}"], seed=i) for i in range(5)]
    table = reference_table(make_measures(SOURCES), pd.concat(parts), Labels())
    values = [
        float(part.query("tendency == 'length' and measure == 'mean'")["value"].iloc[0])
        for part in parts
    ]
    row = table.tidy.query("tendency == 'length'").iloc[0]
    assert row["standard_deviation"] == pytest.approx(statistics.stdev(values))
    assert (row["value"], row["n_resamples"], row[COLUMN]) == (57.45, 5, 57.45)
    assert reference_table(make_measures(SOURCES), None, Labels()).rows[0][2] == ""


def test_the_test_set_is_taken_from_where_it_is_longest() -> None:
    """The laws of words are fitted to as many tokens of the test set as the samples have."""
    parts = [make_measures(["lstm/beam"]), make_measures(["lstm/ancestral"])]
    for part, tokens, s in zip(parts, (1e3, 1e6), (1.1, 1.3), strict=True):
        part.loc[part["measure"] == "tokens", "value"] = tokens
        part.loc[part["measure"] == "zipf_s_reference", "value"] = s
    for order in (parts, parts[::-1]):
        table = reference_table(pd.concat(order, ignore_index=True), None, Labels())
        assert table.rows[0][1] == "1.3000"


def _description(family: str, parameters: int) -> dict[str, object]:
    return {"family": family, "parameters": parameters, "vocabulary": {"kind": "closed"}}


def test_models_table() -> None:
    models = {"small": _description("lstm", 59_000_000), "trigram": _description("trigram", 7)}
    perplexities = {
        "small": {
            "perplexity": {"token": 81.5, "word": 90.25},
            "unknown_penalized": {"perplexity": {"token": 280.5, "word": 300.5}},
        },
        "trigram": {"perplexity": {"token": None, "word": None}},
    }
    table = model_table(models, perplexities, Labels())
    assert table.rows[0] == [
        "small",
        "closed",
        "59.00",
        "59.000",
        "81.50",
        "90.25",
        "300.5",
        "49.29",
    ]
    assert table.rows[1][4] == "∞"
    assert math.isinf(table.tidy["perplexity_per_word"].iloc[1])
    with pytest.raises(InputError, match="model 'small' lacks 'parameters'"):
        model_table({"small": {"family": "lstm"}}, {}, Labels())


def scored(byte: float | None, size: int = 90, unknown: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "perplexity": {"token": 3.0, "word": 4.0},
        "bits": {"character": 1.0, "byte": byte},
        "documents": 2,
        "n": {"byte": size},
        "unknown": unknown,
        "unknown_share": unknown / 10,
        "text": "cleaned",
        **more,
    }


PERPLEXITIES = {
    "closed": scored(
        1.3,
        unknown=3,
        spelled={"bits": {"byte": 2.1}},
        interval={"bits": {"byte": [1.2, 1.4]}, "spelled": {"bits": {"byte": [2.0, 2.2]}}},
    ),
    "open": scored(2.3, interval={"bits": {"byte": [None, None]}}),
    "free": scored(1.2, unknown=3),
    "impossible": scored(None, unknown=3, spelled={"bits": {"byte": None}}),
    "brought": {**scored(0.9, size=120, text="raw"), "cleaned": scored(1.9)},
}


def test_bits_per_byte_are_of_one_text_with_every_word_spelled() -> None:
    models = {name: _description("lstm", 7) for name in PERPLEXITIES}
    table = model_table(models, PERPLEXITIES, Labels())
    heads = [column.title for column in table.columns]
    cleaned, raw = heads.index(SPELLED), heads.index(RAW_BITS)
    shown_bits = {row[0]: (row[cleaned], row[raw]) for row in table.rows}
    assert shown_bits == {
        "closed": ("2.100", ""),
        "open": ("2.300", ""),
        "free": ("", ""),
        "impossible": ("∞", ""),
        "brought": ("1.900", "0.900"),
    }
    tidy = table.tidy.set_index("model")
    limits = tidy.loc["closed", ["bits_per_byte_cleaned_low", "bits_per_byte_cleaned_high"]]
    assert limits.tolist() == [2.0, 2.2]
    assert "one segmentation" in table.note
    alone = {name: PERPLEXITIES[name] for name in ("closed", "open")}
    assert RAW_BITS not in [column.title for column in model_table(models, alone, Labels()).columns]


def test_numbers_of_different_texts_share_no_column() -> None:
    models = {name: _description("lstm", 7) for name in ("closed", "longer")}
    mixed = {"closed": PERPLEXITIES["closed"], "longer": scored(2.0, size=91)}
    with pytest.raises(InputError, match=r"'closed' and 'longer' .* \(90 and 91 bytes\)"):
        model_table(models, mixed, Labels())


def test_the_first_page_shows_bits_per_byte_with_their_interval() -> None:
    text = render_overview({}, PERPLEXITIES, [], (), None, [])
    cells = [line.strip(" *-") for line in text.splitlines() if line.startswith("   ")]
    assert {SPELLED, RAW_BITS} <= set(cells)
    assert "2.10 [2.00, 2.20]" in cells
    assert cells.count("—") == 5
    assert "per character" not in text


def test_latex_is_escaped_and_rectangular() -> None:
    special = r"50%_of & {all} $x$ #1 ~ ^ \n"
    columns = [Column(special, text=True), Column("β", "α & β"), Column("p", "α & β")]
    table = Table("t", special, "", columns, [[special, f"{MINUS}1*", "2**"]], pd.DataFrame())
    text = to_latex(table)
    assert r"50\%\_of \& \{all\} \$x\$ \#1" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    inside = text.split(r"\toprule")[1].split(r"\bottomrule")[0].replace(r"\&", "")
    rows = [line for line in inside.splitlines() if line.endswith(r"\tabularnewline")]
    assert [row.count("&") for row in rows] == [1, 2, 2]
    assert r"$-$1$^{\ast}$ & 2$^{\ast \ast}$" in text
    unescaped = text.replace(r"\{", "").replace(r"\}", "")
    assert unescaped.count("{") == unescaped.count("}")
    assert all(ord(letter) < 128 for letter in escape_latex("−∞αβ±½Σ–—"))


class _Rows(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += int(dict(attrs).get("colspan") or 1)


def test_html_is_escaped_and_rectangular() -> None:
    table = measured_table(MEASURED_TABLES[2], make_measures(["<b>/beam", "lstm/beam"]), Labels())
    html = to_html_table(table)
    parser = _Rows()
    parser.feed(html)
    assert set(parser.rows) == {len(table.columns)}
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "class='published'" in html


def test_text_is_aligned() -> None:
    lines = as_text(table_3(make_measures(SOURCES), Labels())).splitlines()
    assert len(lines) == 2 + 2 + len(SOURCES)  # human text in two vocabularies
    assert max(map(len, lines)) == len(lines[1])


def _run(monkeypatch, tmp_path, name: str, *arguments: str, **inputs: list[str]) -> None:
    outputs = ["--csv", "t.csv", "--latex", "t.tex", "--html", "t.html"]
    asked = ["--table", f"tendencies/{name}", "--inputs", json.dumps(inputs)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tabulate", *asked, *arguments, *outputs])
    tabulate.main()


def test_command_reads_files(monkeypatch, tmp_path) -> None:
    frame = make_measures(SOURCES)
    schema = TENDENCY_MEASURES
    write_shard(
        tmp_path / "m.parquet",
        TENDENCY_MEASURES,
        pa.Table.from_pandas(frame, schema),
        {"start": ""},
    )
    folder = tmp_path / "my_model"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(_description("cnn", 5)))
    (tmp_path / "my_model.json").write_text('{"perplexity": {"token": 3, "word": 4}}')
    measures = ["m.parquet"]
    labels = ["--labels", '{"families": {"my_model": "cnn"}, "published": true}']
    _run(monkeypatch, tmp_path, "table_3", *labels, measures=measures)
    assert "0.491" in (tmp_path / "t.html").read_text()  # the published CNN, beam, length
    assert "0.491" in (tmp_path / "t.tex").read_text()
    assert len(pd.read_csv(tmp_path / "t.csv")) == (3 + len(TEXT_SHARES)) * len(SOURCES)
    _run(monkeypatch, tmp_path, "table_3", measures=measures)
    for name in ("t.html", "t.tex", "t.csv"):  # other data than the paper's
        assert "0.491" not in (tmp_path / name).read_text()
    assert "published" not in (tmp_path / "t.csv").read_text()
    _run(monkeypatch, tmp_path, "table_4", raw_measures=measures)
    given = {"models": ["my_model/model.json"], "perplexities": ["my_model.json"]}
    _run(monkeypatch, tmp_path, "table_1", **given)
    row = pd.read_csv(tmp_path / "t.csv").iloc[0]
    assert (row["model"], row["perplexity_per_word"]) == ("my_model", 4)


def test_command_errors(monkeypatch, tmp_path) -> None:
    with pytest.raises(InputError, match="table_2 needs files 'measures'"):
        _run(monkeypatch, tmp_path, "table_2")
    (tmp_path / "model.json").write_text("[]")
    with pytest.raises(InputError, match="holds no JSON object"):
        _run(monkeypatch, tmp_path, "table_1", models=["model.json"])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        _run(monkeypatch, tmp_path, "table_3", measures=["model.json"])
    with pytest.raises(InputError, match="table 3: the measures have none of"):
        table_3(make_measures(SOURCES).query("tendency == 'unigram'"), Labels())
    assert not (tmp_path / "t.csv").exists()
