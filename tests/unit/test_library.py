"""The library: what a notebook calls, from lists, iterators, DataFrames, Arrow tables and paths.

Needs nothing. Oracles: the command's own files (the same numbers, whatever holds the texts), exact
enumeration of small cases, JSON and HTML parsers, and the argument that was made wrong.
"""

from __future__ import annotations

import json
import math
import pickle
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

import beyond_perplexity
from beyond_perplexity import errors
from beyond_perplexity.auditing.checks import Finding
from beyond_perplexity.commands import compare as compare_command
from beyond_perplexity.corpus.external import StrictProblems
from beyond_perplexity.errors import InputError
from beyond_perplexity.library.audit import Audit
from beyond_perplexity.library.calls import text_source
from beyond_perplexity.library.result import Result
from beyond_perplexity.random_streams import stream
from tests.unit.latent_tables import model, sample_columns

FAST = {"permutations": 19, "bootstrap": 0, "tokenized": True}
FLAGS = ["--permutations", "19", "--bootstrap", "0", "--tokenized"]
SAMPLES = sample_columns(model(3, 4), 1.0, 30)
QUICK = {"subsets": 10, "bootstrap": 10}


def texts(seed, count=60):
    """Return documents of words with frequencies like those of a language."""
    random = stream(seed, "library")
    lengths = random.integers(8, 30, count)
    return [" ".join(f"w{k}" for k in random.zipf(1.6, n) if k < 500) or "w1" for n in lengths]


HUMAN, MODEL = texts(1), texts(2)


@pytest.fixture(scope="module")
def compared():
    return beyond_perplexity.compare(HUMAN, MODEL, **FAST)


def test_the_command_and_every_way_to_give_texts_say_the_same(compared, tmp_path, capsys):
    human, generated = tmp_path / "human.txt", tmp_path / "model.jsonl"
    human.write_text("\n".join(HUMAN))
    generated.write_text("\n".join(json.dumps({"text": text}) for text in MODEL))
    out = tmp_path / "out"
    compare_command.main(
        ["--reference", str(human), "--samples", str(generated), "--out", str(out), *FLAGS]
    )
    assert compared.text in capsys.readouterr().out
    written = pd.read_csv(out / "tendencies.csv")
    pd.testing.assert_frame_equal(
        compared.table[list(written)].reset_index(drop=True), written, check_dtype=False
    )
    again = beyond_perplexity.compare(iter(HUMAN), generated, **FAST)
    pd.testing.assert_frame_equal(again.table, compared.table)


def test_whatever_holds_texts_gives_them_as_they_are():
    table = pa.table({"other": range(len(MODEL)), "text": MODEL, "title": MODEL})
    forms = (
        MODEL,
        tuple(MODEL),
        (text for text in MODEL),
        np.array(MODEL),
        pd.Series(MODEL),
        table.to_pandas(),
        table,
        table.to_reader(max_chunksize=7),
        table.to_batches()[0],
    )
    for place, form in enumerate(forms):
        found = [*text_source(form, f"form {place}").read(StrictProblems(skip=False))]
        assert [record.as_it_is for record in found] == MODEL
        assert found[3].place in (f"form {place}: row 4", f"form {place}: text 4")
        assert {record.title for record in found} in ({""}, set(MODEL))
    assert text_source("a/path", "x") == Path("a/path")


def test_groups_come_beside_the_texts_or_in_a_column():
    groups = [f"page {k // 2}" for k in range(len(HUMAN))]
    beside = beyond_perplexity.compare(HUMAN, MODEL, groups=groups, **FAST)
    assert beside.summary["groups"] == (30, None)
    frame = pd.DataFrame({"text": HUMAN, "page": groups})
    column = beyond_perplexity.compare(frame, MODEL, group_column="page", **FAST)
    pd.testing.assert_frame_equal(beside.table, column.table)
    odd = pd.DataFrame({"body": HUMAN, "page": groups, "n": [[1], "x", {}] * 20})
    named = beyond_perplexity.compare(odd, MODEL, group_column="page", field="body", **FAST)
    pd.testing.assert_frame_equal(beside.table, named.table)
    both = beyond_perplexity.compare(HUMAN, MODEL, groups=(groups, iter(groups)), **FAST)
    assert both.summary["groups"] == (30, 30)


def test_results_have_figures_tables_and_json(compared):
    assert isinstance(compared.figure("length"), Figure)
    assert set(compared.figures) > {"distances", "length", "rank_frequency"}
    assert len(compared.table_of("curves")) > len(compared.table)
    found = json.loads(compared.to_json(), parse_constant=pytest.fail)
    assert found["version"] == beyond_perplexity.__version__
    assert len(found["table"]) == len(compared.table)
    for row, (_, held) in zip(found["table"], compared.table.iterrows(), strict=True):
        for name in ("value", "floor", "p_value"):
            if math.isnan(held[name]):
                assert row[name] is None
            else:
                assert row[name] == held[name]  # every digit
    with pytest.raises(InputError, match="figure: there is no 'x'; there are: distances, "):
        compared.figure("x")
    with pytest.raises(InputError, match="table: there is no 'x'; there are: curves"):
        compared.table_of("x")


class Tags(HTMLParser):
    """What tags a page has."""

    def __init__(self, page):
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag, _):
        self.found.add(tag)


def test_what_a_notebook_shows_is_text_and_no_markup():
    hostile = "<script>alert(1)</script>\x1b[31m\u202e"
    frame = pd.DataFrame({hostile: [hostile, math.nan], "n": [1, 2]})
    result = Result("x", frame, text=hostile)
    page = result._repr_html_()
    assert Tags(page).found == {"table", "thead", "tbody", "tr", "th", "td"}
    assert not {"\x1b", "\u202e"} & set(page + repr(result))
    long = Result("x", pd.DataFrame({"n": range(1000)}), text="a\n" * 1000)
    assert len(long._repr_html_()) < 2_000
    assert len(repr(long)) < 500
    assert "and 940 lines more" in repr(long)


def test_json_has_no_nan_and_every_kind_of_number():
    held = pa.table(
        {"whole": pa.array([2**62, None]), "real": [math.inf, 0.1], "text": ["é", None]}
    )
    summary = {"a": np.float64("nan"), "b": np.int64(3), "c": (1, [np.array([1.5, math.nan])])}
    summary |= {"d": pd.NA, "e": pd.NaT, "f": "\ud800", "g": pd.Timestamp("2020-01-01")}
    written = Result("x", held, summary=summary).to_json()
    found = json.loads(written.encode(), parse_constant=pytest.fail)
    assert found["table"] == [
        {"whole": 2**62, "real": None, "text": "é"},
        {"whole": None, "real": 0.1, "text": None},
    ]
    assert found["summary"] == {"a": None, "b": 3, "c": [1, [[1.5, None]]]} | {
        "d": None,
        "e": None,
        "f": "\ud800",
        "g": "2020-01-01T00:00:00",
    }


def test_a_result_is_not_changed_by_what_is_done_to_its_tables(compared):
    before = compared.to_json()
    table = compared.table
    table["value"] = 0
    curves = compared.table_of("curves")
    curves["curve"] = "other"
    assert set(compared.table_of("curves")["curve"]) != {"other"}
    assert compared.to_json() == before
    assert compared.figure("length") is not compared.figure("length")
    with pytest.raises(InputError, match="figure: there is no \\['length'\\]"):
        compared.figure(["length"])
    page = Result("x", pd.DataFrame({"n": [pd.NA, pd.NaT, np.array([1, 2])]}))._repr_html_()
    assert page.count("<td></td>") == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "reference: is empty"),
        (["a", 3], "reference: text 2 is of type int; give a str"),
        (["a", None], "reference: text 2 is of type NoneType"),
        (["a \ud800"], "reference: text 1 has half a surrogate pair"),
        (["", " "], "reference: has no document with a token"),
        (3, "reference: is of type int; give a path, texts"),
        (b"a b", "reference: is of type bytes"),
        (pd.DataFrame({"words": ["a"]}), "reference: has no column 'text'; rename one"),
        (pd.DataFrame({"text": [1, "a"]}), "reference: cannot be read (Could not convert"),
        ("missing.txt", "missing.txt: no such file"),
    ],
)
def test_what_cannot_be_compared_is_named_in_one_line(given, message):
    with pytest.raises(InputError) as caught:
        beyond_perplexity.compare(given, MODEL, **FAST)
    said = str(caught.value)
    assert said.startswith(message)
    assert "\n" not in said
    assert "/tmp" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": -1}, "permutations: is -1, expected at least 0"),
        ({"bootstrap": 1.5}, "bootstrap: is 1.5, expected a whole number"),
        ({"seed": True}, "seed: is True, expected a whole number"),
        ({"maximum_tokens": 0}, "maximum_tokens: is 0, expected at least 1"),
        ({"groups": ["a"]}, "reference: there are more texts than groups, from number 2 on"),
        ({"groups": [*"ab" * 60]}, "reference: there are more groups than texts, from number 61"),
        ({"groups": "ab" * 30}, "groups: is one text; give the group of each, or group_column"),
        (
            {"groups": [*"a" * 59, None]},
            "reference: text 60 has no group; give one to each or none",
        ),
        ({"format": "text"}, "format: reference is no path; leave it out"),
        ({"format": "csv"}, "format: is 'csv', expected one of auto, text, jsonl, parquet"),
        ({"out": __file__}, f"{__file__}: is a file; name a folder"),
    ],
)
def test_options_of_the_library_have_the_bounds_of_the_command(options, message):
    with pytest.raises(InputError) as caught:
        beyond_perplexity.compare(HUMAN, MODEL, **FAST | options)
    assert str(caught.value).startswith(message)


def test_texts_are_streamed():
    """No text is read before it is asked for."""
    read = 0

    def generated():
        nonlocal read
        for read in range(1, 10_001):
            yield f"text {read}\nwith a line feed"

    source = text_source(generated(), "x")
    for number, record in enumerate(source.read(StrictProblems(skip=False)), start=1):
        assert read == number
        assert record.as_it_is == f"text {number}\nwith a line feed"
    assert read == 10_000


def test_the_page_names_the_arguments_and_no_working_file(tmp_path, monkeypatch):
    monkeypatch.setattr("beyond_perplexity.report.compare.FIGURE_FILES", {})  # of seconds
    (tmp_path / "own.parquet").mkdir()
    human = tmp_path / "own.parquet" / "human.txt"
    human.write_text("\n".join(HUMAN))
    beyond_perplexity.compare(human, MODEL, out=tmp_path / "out", **FAST)
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "<h1>samples compared with human.txt</h1>" in page
    assert str(human) in page
    assert "beyond-perplexity-" not in page


def test_the_public_names_are_there_and_come_late():
    assert set(beyond_perplexity.__all__) <= set(dir(beyond_perplexity))
    for name in set(beyond_perplexity.__all__) - {"__version__"}:
        held = getattr(beyond_perplexity, name)
        assert held.__name__ == name
        assert held.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'compares'"):
        _ = beyond_perplexity.compares


def scores(seed, shift):
    random = stream(seed, "scores")
    sizes = np.arange(40, 140)
    noise = random.normal(0, 3, len(sizes))
    return pd.DataFrame({"bytes": sizes, "log_likelihood": -1.3 * sizes - shift * sizes + noise})


def test_models_are_compared_from_memory_as_from_files(tmp_path):
    held = {"a": scores(1, 0.0), "b": scores(2, 0.2)}
    for name, frame in held.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    found = beyond_perplexity.compare_perplexity(held, flips=99)
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    again = beyond_perplexity.compare_perplexity(files, flips=99, csv=tmp_path / "d.csv")
    pd.testing.assert_frame_equal(found.table, again.table)
    bits = [
        -frame["log_likelihood"].sum() / (frame["bytes"] + 1).sum() / math.log(2)
        for frame in held.values()
    ]
    assert found.table["value"].tolist()[:2] == pytest.approx(bits, rel=1e-12)
    assert isinstance(found.figure("differences"), Figure)
    written = pd.read_csv(tmp_path / "d.csv")
    assert written["value"].tolist() == found.table["value"].tolist()
    with pytest.raises(InputError, match=r"scores\[0\]: is of type DataFrame; give tables as"):
        beyond_perplexity.compare_perplexity([held["a"], held["b"]])
    bad = {"a": held["a"], "b": held["b"].drop(columns="bytes")}
    with pytest.raises(InputError, match=r"^scores\['b'\]: .*bytes"):
        beyond_perplexity.compare_perplexity(bad)


def test_weights_from_memory_are_those_of_a_file(tmp_path):
    table = pa.table({name: SAMPLES[name] for name in SAMPLES})
    pq.write_table(table, tmp_path / "w.parquet")
    found = beyond_perplexity.estimate(table.to_pandas(), options=QUICK)
    paths = [tmp_path / "w.parquet"]
    again = beyond_perplexity.estimate(paths, options=QUICK, output=tmp_path / "e.csv")
    pd.testing.assert_frame_equal(found.table, again.table)
    log_w = (SAMPLES["log_p"] - SAMPLES["log_q"]).reshape(3, 30)
    log_p = np.log(np.exp(log_w).mean(1)).sum()
    assert found.table["value"][0] == pytest.approx(math.exp(-log_p / 9), rel=1e-12)
    assert len(pd.read_csv(tmp_path / "e.csv")) == len(found.table)
    assert len(found.table_of("instances")) == 3
    assert isinstance(found.figure("bounds"), Figure)
    assert isinstance(found.figure("samples"), Figure)
    with pytest.raises(InputError, match=r"^weights: "):
        beyond_perplexity.estimate(table.drop_columns(["log_q"]))
    with pytest.raises(InputError, match="subset"):
        beyond_perplexity.estimate(table, options={"subset": 1})


def from_another_process(found):
    """Return the result as a pool of processes hands it over: one's own, pickled."""
    return pickle.loads(pickle.dumps(found))


@pytest.mark.parametrize("kind", ["compare", "compare_perplexity", "estimate", "audit"])
def test_results_go_from_process_to_process(kind, compared):
    made = {
        "compare": lambda: compared,
        "compare_perplexity": lambda: beyond_perplexity.compare_perplexity(
            {"a": scores(1, 0.0), "b": scores(2, 0.2)}, flips=99
        ),
        "estimate": lambda: beyond_perplexity.estimate(pa.table(dict(SAMPLES)), options=QUICK),
        "audit": lambda: Audit(
            "m", [Finding("normalization", True, 0.0, 0.0, 1, "all are", "numbers")], []
        ),
    }[kind]()
    again = from_another_process(made)
    assert type(again) is type(made)
    assert again.to_json() == made.to_json()
    assert (again.tables, again.figures) == (made.tables, made.figures)
    for name in made.tables:
        pd.testing.assert_frame_equal(again.table_of(name), made.table_of(name))
    for name in list(made.figures)[:2]:
        assert isinstance(again.figure(name), Figure)
    assert from_another_process(again).tables == made.tables  # tables that were asked for as well


def test_scores_of_pairs_need_no_model():
    good, bad = [-1.0, -2.0, -3.0, -4.0], [-2.0, -2.0, -5.0, -3.0]
    found = beyond_perplexity.contrast(good, iter(bad), words=[2, 2, 2, 4]).table.iloc[0]
    assert found["accuracy"] == (1 + 0.5 + 1 + 0) / 4
    assert found["contrastive_entropy"] == (1 + 0 + 2 - 1) / 4
    assert found["per_word"] == (1 + 0 + 2 - 1) / 10
    several = beyond_perplexity.contrast(good, bad, phenomena="abab").table
    assert several["phenomenon"].tolist() == ["a", "b"]
    assert several["contrastive_entropy"].tolist() == [1.5, -0.5]
    assert several["per_word"].isna().all()
    for wrong, message in (
        ((good, bad[:3]), "distorted: has no value for pair 4"),
        ((good, None), "distorted: is of type NoneType"),
        ((["a b"], ["b"]), "originals: pair 1 has 'a b', expected a log score"),
        (([math.nan], [1.0]), "originals: pair 1 has nan"),
        (([], []), "pairs: there are none"),
    ):
        with pytest.raises(InputError) as caught:
            beyond_perplexity.contrast(*wrong)
        assert str(caught.value).startswith(message)


def test_what_an_extra_installs_is_named(monkeypatch):
    with (
        pytest.raises(InputError, match=r"pip install 'beyond-perplexity\[models\]'"),
        errors.extras_named(),
    ):
        raise ModuleNotFoundError("No module named 'torch'", name="torch._C")
    with pytest.raises(ModuleNotFoundError), errors.extras_named():
        raise ModuleNotFoundError("No module named 'x'", name="x")


def test_a_mapping_is_no_list_of_texts():
    """Its keys would be read as the texts."""
    with pytest.raises(InputError, match="x: is of type dict; give a path"):
        text_source({"text": ["a", "b"]}, "x")
