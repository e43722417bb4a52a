"""The library: what a notebook calls, from lists, iterators, DataFrames, Arrow tables and paths.

Oracles: the command's own files, exact enumeration, an ARPA file's probabilities, cosines by hand,
parsers of JSON and HTML, the argument that was made wrong, the process before the call.
"""

import inspect
import json
import logging
import math
import os
import pickle
import random
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from matplotlib.figure import Figure

import beyond_perplexity
from beyond_perplexity import errors, random_streams
from beyond_perplexity.auditing.checks import Finding
from beyond_perplexity.commands import perplexity as perplexity_command
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.corpus.external import StrictProblems
from beyond_perplexity.errors import InputError
from beyond_perplexity.library import audit, calls
from beyond_perplexity.library.result import Result
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.storage.shards import read_record
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit import latent_tables, test_compare
from tests.unit.evaluator_oracles import check_refused

FAST = {"permutations": 19, "bootstrap": 0, "tokenized": True}
FLAGS = ["--permutations", "19", "--bootstrap", "0", "--tokenized"]
SAMPLES = latent_tables.sample_columns(latent_tables.model(3, 4), 1.0, 30)
QUICK = {"subsets": 10, "bootstrap": 10}


def texts(seed, count=60):
    random = random_streams.stream(seed, "library")
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
    flags = ["--reference", str(human), "--samples", str(generated), "--out", str(out), *FLAGS]
    run_function("compare", flags)
    said, signature = compared.text.rsplit("\n\n", 1)
    printed = capsys.readouterr().out
    assert printed.startswith(said)
    assert printed.splitlines()[-1] == signature  # behind what was written
    written = pd.read_csv(out / "tendencies.csv")
    table = compared.table[list(written)].reset_index(drop=True)
    pd.testing.assert_frame_equal(table, written, check_dtype=False)
    again = beyond_perplexity.compare(iter(HUMAN), generated, **FAST)
    pd.testing.assert_frame_equal(again.table, compared.table)


def test_whatever_holds_texts_gives_them_as_they_are_and_streamed():
    table = pa.table({"other": range(len(MODEL)), "text": MODEL, "title": MODEL})
    forms = [MODEL, tuple(MODEL), (text for text in MODEL), np.array(MODEL), pd.Series(MODEL)]
    forms += [table.to_pandas(), table, table.to_reader(max_chunksize=7), table.to_batches()[0]]
    for place, form in enumerate(forms):
        found = [*calls.text_source(form, f"form {place}").read(StrictProblems(skip=False))]
        assert [record.as_it_is for record in found] == MODEL
        assert found[3].place in (f"form {place}: row 4", f"form {place}: text 4")
        assert {record.title for record in found} in ({""}, set(MODEL))
    assert calls.text_source("a/path", "x") == Path("a/path")
    # No text is read before it is asked for
    read = 0

    def generated():
        nonlocal read
        for read in range(1, 10_001):
            yield f"text {read}\nwith a line feed"

    source = calls.text_source(generated(), "x")
    for number, record in enumerate(source.read(StrictProblems(skip=False)), start=1):
        assert read == number
        assert record.as_it_is == f"text {number}\nwith a line feed"
    assert read == 10_000


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


def test_results_have_figures_tables_and_json_and_are_not_changed(compared):
    assert isinstance(compared.figure("length"), Figure)
    assert set(compared.figures) > {"distances", "length", "rank_frequency"}
    assert len(compared.table_of("curves")) > len(compared.table)
    found = json.loads(compared.to_json(), parse_constant=pytest.fail)
    assert found["version"] == beyond_perplexity.__version__
    assert len(found["table"]) == len(compared.table)
    for row, (_, held) in zip(found["table"], compared.table.iterrows(), strict=True):
        for name in ("value", "baseline", "p_value"):
            if math.isnan(held[name]):
                assert row[name] is None
            else:
                assert row[name] == held[name]  # every digit
    check_refused("figure: there is no 'x'; there are: distances, ", compared.figure, "x")
    check_refused("table: there is no 'x'; there are: curves", compared.table_of, "x")
    before = compared.to_json()
    table = compared.table
    table["value"] = 0
    curves = compared.table_of("curves")
    curves["curve"] = "other"
    assert set(compared.table_of("curves")["curve"]) != {"other"}
    assert compared.to_json() == before
    assert compared.figure("length") is not compared.figure("length")
    check_refused("figure: there is no \\['length'\\]", compared.figure, ["length"])
    page = Result("x", pd.DataFrame({"n": [pd.NA, pd.NaT, np.array([1, 2])]}))._repr_html_()
    assert page.count("<td></td>") == 2


def test_what_a_notebook_shows_is_no_markup_and_json_has_no_nan():
    hostile = "<script>alert(1)</script>\x1b[31m\u202e"
    frame = pd.DataFrame({hostile: [hostile, math.nan], "n": [1, 2]})
    result = Result("x", frame, text=hostile)
    page = result._repr_html_()
    assert test_compare.Page(page).tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert not {"\x1b", "\u202e"} & set(page + repr(result))
    long = Result("x", pd.DataFrame({"n": range(1000)}), text="a\n" * 1000)
    assert len(long._repr_html_()) < 2_000
    assert len(repr(long)) < 500
    assert "and 940 lines more" in repr(long)
    whole = pa.array([2**62, None])
    held = pa.table({"whole": whole, "real": [math.inf, 0.1], "text": ["é", None]})
    summary = {"a": np.float64("nan"), "b": np.int64(3), "c": (1, [np.array([1.5, math.nan])])}
    summary |= {"d": pd.NA, "e": pd.NaT, "f": "\ud800", "g": pd.Timestamp("2020-01-01")}
    written = Result("x", held, summary=summary).to_json()
    found = json.loads(written.encode(), parse_constant=pytest.fail)
    rows = [{"whole": 2**62, "real": None, "text": "é"}, {"whole": None, "real": 0.1, "text": None}]
    assert found["table"] == rows
    expected = {"a": None, "b": 3, "c": [1, [[1.5, None]]], "d": None, "e": None}
    assert found["summary"] == expected | {"f": "\ud800", "g": "2020-01-01T00:00:00"}


def test_the_page_names_the_arguments_and_no_working_file(tmp_path, monkeypatch):
    monkeypatch.setattr("beyond_perplexity.report.comparison_page.PAGE_FIGURES", {})  # of seconds
    (tmp_path / "own.parquet").mkdir()
    human = tmp_path / "own.parquet" / "human.txt"
    human.write_text("\n".join(HUMAN))
    beyond_perplexity.compare(human, MODEL, out=tmp_path / "out", **FAST)
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "<h1>samples compared with human.txt</h1>" in page
    assert str(human) in page
    assert "beyond-perplexity-" not in page


def test_public_names_are_there_come_late_and_have_their_keywords_documented():
    assert set(beyond_perplexity.__all__) <= set(dir(beyond_perplexity))
    for name in set(beyond_perplexity.__all__) - {"__version__"}:
        held = getattr(beyond_perplexity, name)
        assert held.__name__ == name
        assert held.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'compares'"):
        _ = beyond_perplexity.compares
    for name in FUNCTIONS:
        function = getattr(beyond_perplexity, name)
        for keyword in inspect.signature(function).parameters:
            assert keyword in function.__doc__


def scores(seed, shift):
    random = random_streams.stream(seed, "scores")
    sizes = np.arange(40, 140)
    noise = random.normal(0, 3, len(sizes))
    return pd.DataFrame({"bytes": sizes, "log_likelihood": -1.3 * sizes - shift * sizes + noise})


def test_models_are_compared_from_memory_as_from_files(tmp_path):
    held = {"a": scores(1, 0.0), "b": scores(2, 0.2)}
    for name, frame in held.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    found = beyond_perplexity.compare_perplexity(held)
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    again = beyond_perplexity.compare_perplexity(files, csv=tmp_path / "d.csv")
    pd.testing.assert_frame_equal(found.table, again.table)
    sums = [(frame["log_likelihood"].sum(), (frame["bytes"] + 1).sum()) for frame in held.values()]
    bits = [-total / n_bytes / math.log(2) for total, n_bytes in sums]
    assert found.table["value"].tolist()[:2] == pytest.approx(bits, rel=1e-12)
    assert isinstance(found.figure("differences"), Figure)
    written = pd.read_csv(tmp_path / "d.csv")
    assert written["value"].tolist() == found.table["value"].tolist()
    with pytest.raises(InputError, match=r"scores\[0\]: is of type DataFrame; give tables as"):
        beyond_perplexity.compare_perplexity([held["a"], held["b"]])
    bad = {"a": held["a"], "b": held["b"].drop(columns="bytes")}
    check_refused(r"^scores\['b'\]: .*bytes", beyond_perplexity.compare_perplexity, bad)


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
    check_refused(r"^weights: ", beyond_perplexity.estimate, table.drop_columns(["log_q"]))
    check_refused("subset", beyond_perplexity.estimate, table, options={"subset": 1})


@pytest.mark.parametrize("kind", ["compare", "compare_perplexity", "estimate", "audit"])
def test_results_go_from_process_to_process(kind, compared):
    made = {
        "compare": lambda: compared,
        "compare_perplexity": lambda: beyond_perplexity.compare_perplexity(
            {"a": scores(1, 0.0), "b": scores(2, 0.2)}
        ),
        "estimate": lambda: beyond_perplexity.estimate(pa.table(dict(SAMPLES)), options=QUICK),
        "audit": lambda: audit.Audit(
            "m", [Finding("normalization", True, 0.0, 0.0, 1, "all are", "numbers")], []
        ),
    }[kind]()
    again = pickle.loads(pickle.dumps(made))  # as a pool of processes hands it over
    assert type(again) is type(made)
    assert again.to_json() == made.to_json()
    assert (again.tables, again.figures) == (made.tables, made.figures)
    for name in made.tables:
        pd.testing.assert_frame_equal(again.table_of(name), made.table_of(name))
    for name in list(made.figures)[:2]:
        assert isinstance(again.figure(name), Figure)
    again = pickle.loads(pickle.dumps(again))  # with tables that were asked for as well
    assert again.tables == made.tables


def test_scores_of_pairs_need_no_model_and_what_an_extra_installs_is_named(monkeypatch):
    good, bad = [-1.0, -2.0, -3.0, -4.0], [-2.0, -2.0, -5.0, -3.0]
    found = beyond_perplexity.contrast(good, iter(bad), words=[2, 2, 2, 4]).table.iloc[0]
    assert found["accuracy"] == (1 + 0.5 + 1 + 0) / 4
    assert found["contrastive_entropy"] == (1 + 0 + 2 - 1) / 4
    assert found["per_word"] == (1 + 0 + 2 - 1) / 10
    several = beyond_perplexity.contrast(good, bad, phenomena="abab").table
    assert several["phenomenon"].tolist() == ["a", "b"]
    assert several["contrastive_entropy"].tolist() == [1.5, -0.5]
    assert several["per_word"].isna().all()
    installs = r"pip install 'beyond-perplexity\[models\]'"
    with pytest.raises(InputError, match=installs), errors.extras_named():
        raise ModuleNotFoundError("No module named 'torch'", name="torch._C")
    with pytest.raises(ModuleNotFoundError), errors.extras_named():
        raise ModuleNotFoundError("No module named 'x'", name="x")


TEXTS = ["a b", "b b c", "a", "b a a b"]
CPU = {"tokenized": True, "device": "cpu"}
ARPA = r"""
\data\
ngram 1=5
\1-grams:
-1.0	<unk>
-99	<s>
-0.5	</s>
-0.25	a
-0.75	b
\end\
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(1)
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    path = tmp_path_factory.mktemp("models") / "lstm"
    save_model(path, registry.build(config, vocabulary.size), vocabulary, {})
    return path


def test_texts_in_memory_have_the_perplexity_of_a_file(folder, tmp_path, capsys):
    path, rows = tmp_path / "text.txt", tmp_path / "rows.parquet"
    path.write_text("\n".join(TEXTS))
    flags = ["--model", str(folder), "--text", str(path), "--tokenized", "--device", "cpu"]
    perplexity_command.main([*flags, "--per-document", str(rows)])
    printed = json.loads(capsys.readouterr().out)
    assert [(one["read"], one["used"]) for one in printed.pop("files")] == [(4, 4)]
    tables = pd.DataFrame({"text": TEXTS}), pa.table({"text": TEXTS})
    for given in (TEXTS, iter(TEXTS), *tables, path):
        found = beyond_perplexity.perplexity(folder, given, **CPU)
        assert json.loads(json.dumps(found.summary)) == printed
        documents = found.table_of("documents")
        pd.testing.assert_frame_equal(documents, pd.read_parquet(rows), check_dtype=False)
    table = found.table.set_index("unit")
    assert table["n"].to_dict() == printed["n"]
    assert table["perplexity"].to_dict() == printed["perplexity"]
    assert table.loc["byte", "bits"] == printed["bits"]["byte"]
    assert math.isnan(table.loc["word", "bits"])
    nats = -documents["log_likelihood"].sum() / (documents["tokens"] + 1).sum()
    assert table.loc["token", "perplexity"] == pytest.approx(math.exp(nats), rel=1e-12)
    assert beyond_perplexity.perplexity(folder, TEXTS, per_document=False, **CPU).tables == ()
    found = beyond_perplexity.perplexity(folder, TEXTS, groups=[1, 1, 2, 2], **CPU)
    assert found.summary["interval"]["groups"] == 2
    assert found.table_of("documents")["group"].tolist() == ["1", "1", "2", "2"]


def test_two_models_are_compared_and_scores_of_an_arpa_file_are_as_it_says(folder, tmp_path):
    (tmp_path / "uniform.arpa").write_text(ARPA)
    texts = TEXTS * 10
    unigram = beyond_perplexity.perplexity(tmp_path / "uniform.arpa", texts, device="cpu")
    scored = {"lstm": beyond_perplexity.perplexity(folder, texts, **CPU), "unigram": unigram}
    found = beyond_perplexity.compare_perplexity(scored).table
    for name, one in scored.items():
        bits = one.table.set_index("unit").loc["byte", "bits"]
        own = found[(found["first"] == name) & found["second"].isna()]
        assert own["value"].item() == pytest.approx(bits, rel=1e-12)
    (tmp_path / "model.arpa").write_text(ARPA)
    found = beyond_perplexity.perplexity(tmp_path / "model.arpa", ["a b", "x"], device="cpu")
    logs = [-0.25 - 0.75 - 0.5, -1.0 - 0.5]
    assert found.summary["log_prob"] == pytest.approx(sum(logs) * math.log(10), rel=1e-6)
    assert found.table["perplexity"][0] == pytest.approx(10 ** (-sum(logs) / 5), rel=1e-6)
    check_refused("model", beyond_perplexity.perplexity, tmp_path / "model.arpa", ["a"], arpa=False)


def test_sentences_and_pairs_in_memory_are_scored_as_those_of_a_file(folder, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    good, bad = ["a b", "b b", "a a b"], ["b a", "b b", "b b b"]
    lines = [f"{one}\t{two}" for one, two in zip(good, bad, strict=True)]
    pairs.write_text("\n".join(["good\tbad", *lines]))
    run_function("contrast", ["--model", str(folder), "--pairs", str(pairs), "--tokenized"])
    said = capsys.readouterr().out
    found = beyond_perplexity.contrast(good, iter(bad), model=folder, **CPU)
    assert said.split(":", 1)[1] == f"{found.text}\n".split(":", 1)[1]
    again = beyond_perplexity.contrast(pairs, model=folder, **CPU)
    columns = [name for name in found.table if name != "phenomenon"]
    pd.testing.assert_frame_equal(found.table[columns], again.table[columns])
    assert again.table["phenomenon"].tolist() == ["pairs"]
    capsys.readouterr()
    raw: dict = {"model": folder, "device": "cpu"}
    beyond_perplexity.contrast(["a <unk>"], ["<unk> <unk>"], **raw)
    told = "texts: the tokenizer cuts <unk> into three tokens (occurrences: 3; "
    assert told in capsys.readouterr().err
    pairs.write_text("good\tbad\na <unk>\tb\n")
    beyond_perplexity.contrast(pairs, **raw)
    assert f"{pairs}: the tokenizer cuts <unk> into" in capsys.readouterr().err
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("cat 1 0\ndog 1 1\nsnow 0 2\n")
    first, second = ["The cat!", "Dog.", "snow", "fog"], ["A cat", "cat", "cat", "cat"]
    found = beyond_perplexity.similarity(first, iter(second), evaluator=vectors)
    assert found.table["score"].tolist()[:3] == pytest.approx([1, 0.5**0.5, 0])
    assert math.isnan(found.table["score"][3]) == math.isnan(float(found.text.split("\n")[3]))
    gold = [5, 3.0, 0]
    judged = beyond_perplexity.similarity(first[:3], second[:3], evaluator=vectors, gold=gold)
    path = tmp_path / "pairs.tsv"
    rows = zip(first, second, map(str, gold), strict=False)
    path.write_text("\n".join(["x\ty\tscore", *map("\t".join, rows)]))
    again = beyond_perplexity.similarity(path, evaluator=vectors, gold="score")
    assert judged.summary["spearman"]["value"] == pytest.approx(1)
    assert judged.summary == again.summary
    for tokenized, times in ((False, 1), (True, 0)):
        capsys.readouterr()
        marked = ["the <unk> cat"], ["cat @-@ cat"]
        beyond_perplexity.similarity(*marked, evaluator=vectors, tokenized=tokenized)
        told = "warning: texts: the tokenizer cuts <unk>, @-@ into three tokens (occurrences: 2; "
        assert capsys.readouterr().err.count(told + "texts: 2)") == times


FUNCTIONS = sorted(set(beyond_perplexity.__all__) - {"__version__", "load_results"})


@pytest.fixture(scope="module")
def given(folder, tmp_path_factory):
    """Give what the functions are called with, by the names of the cases below."""
    lstm, folder = folder, tmp_path_factory.mktemp("given")
    network, vocabulary, _ = registry.load_model(lstm)
    (folder / "model.arpa").write_text(ARPA)
    (folder / "pairs.tsv").write_text("good\tbad\na b\tb a\n")
    (folder / "vectors.txt").write_text("cat 1 0\ndog 1 1\n")
    (folder / "similar.tsv").write_text("x\ty\tscore\ncat\tdog\t1\ndog\tdog\t2\ncat\tcat\t3\n")
    frame = pd.DataFrame({"text": HUMAN})
    return {
        "lstm": lstm, "arpa": folder / "model.arpa", "texts": TEXTS, "human": HUMAN,
        "generated": MODEL, "good": [-1.0, -2.0], "bad": [-2.0, -1.0], "first": ["a", "b a"],
        "second": ["b", "a"], "pairs": folder / "pairs.tsv", "vectors": folder / "vectors.txt",
        "similar": folder / "similar.tsv", "frame": frame, "network": network,
        "vocabulary": vocabulary, "weights": pa.table(dict(SAMPLES)),
        "scores": {"a": scores(1, 0.0), "b": scores(2, 0.2)},
    }  # fmt: skip


def call(given, name, inputs, *others, **options):
    """Call a function with what `inputs` names: positions, and keywords as ``keyword=name``."""
    places = [*(given[one] for one in inputs.split() if "=" not in one), *others]
    named = dict(one.split("=") for one in inputs.split() if "=" in one)
    held = {keyword: given[one] for keyword, one in named.items()}
    return getattr(beyond_perplexity, name)(*places, **held, **options)


IGNORED = [
    ("perplexity", "arpa texts", {"cleaned": True, "spelling_model": "x"}, "cleaned, spelling mod"),
    ("perplexity", "arpa texts", {"tokenized": True}, "tokenized: has no effect with an ARPA file"),
    ("perplexity", "lstm texts", {"unk_as": "a"}, "unk as: has no effect without an ARPA file"),
    ("perplexity", "lstm texts", {"unk_as_unknown": True}, "unk as unknown: has no effect"),
    ("perplexity", "lstm texts", {"cleaned": True, "tokenized": True}, "cleaned: has no effect on"),
    ("perplexity", "lstm texts", {"field": "x"}, "field: has no effect on texts in memory"),
    ("perplexity", "lstm texts", {"group_column": "x"}, "group column: has no effect on texts in"),
    ("contrast", "good bad", {"tokenized": True}, "tokenized: has no effect without a model"),
    ("contrast", "good bad", {"threads": 1, "device": "cpu"}, "threads, device: have no effect"),
    ("contrast", "first second model=lstm", {"words": [1, 2]}, "words: has no effect with a model"),
    ("contrast", "pairs model=lstm", {"phenomena": ["x"]}, "phenomena: has no effect on a file"),
    ("contrast", "pairs", {}, "originals: is a file of sentences; name the model"),
    ("similarity", "similar evaluator=vectors", {"vectors": "x"}, "vectors: has no effect with"),
    ("similarity", "similar evaluator=vectors", {"layers": 3}, "layers: has no effect with this"),
    ("similarity", "similar evaluator=vectors", {"config": "x"}, "config: has no effect with"),
    ("similarity", "similar evaluator=vectors", {"gold": [1]}, "gold: references is a file; name"),
    ("compare", "human generated", {"field": "x"}, "field: has no effect on texts in memory"),
    ("compare", "frame generated", {"samples_field": "x"}, "samples field: has no effect"),
    ("compare", "human generated", {"group_column": "x"}, "group column: has no effect on texts"),
    ("compare", "human frame", {"groups": HUMAN, "group_column": ""}, "groups: has no effect wher"),
    (
        "compare",
        "human generated",
        {"language": "de", "stop_words": "gensim"},
        "language: has no effect on tokenized",
    ),
    ("compare", "human generated", {"embedding_documents": 30}, "embedding documents: has no eff"),
    ("audit", "lstm texts", {"vocabulary": 3}, "vocabulary: has no effect with a model that has"),
    ("audit", "lstm texts", {"field": "x"}, "field: has no effect on texts in memory"),
    ("audit", "network texts vocabulary=vocabulary", {"precision": "float16"}, "precision: has no"),
]  # fmt: skip
WRONG = [
    ("perplexity", "network texts", {}, "tokenizer: is missing; give that of the model"),
    ("perplexity", "lstm texts", {"tokenized": "no"}, "tokenized: is 'no', expected True or False"),
    ("similarity", "first second", {"evaluator": 3}, "evaluator: is of type int; give a path"),
    ("contrast", "first second", {"model": 3}, "model: is of type int; give a path"),
    ("contrast", "good bad", {"phenomena": ["a", "\ud800"]}, "phenomena: pair 2 has half a surro"),
    ("compare", "human generated", {"groups": 3}, "groups: is of type int; give the group of each"),
    ("audit", "lstm texts", {"check": 3}, "check: is of type int; give a name"),
    ("estimate", "good", {}, "weights[0]: is of type float; give a path"),
    ("estimate", "weights", {"options": 3}, "options: is of type int; give a dict"),
    ("estimate", "weights", {"log_q": 3}, "log_q: is of type int; give a path, or several"),
    ("estimate", "weights", {"diagnostics": 3}, "diagnostics: is of type int"),
    ("estimate", "weights", {"output": "x.txt"}, "output x.txt: expected a name that ends in"),
]


# What is given itself, after what `inputs` names.
ODD = [
    *(("compare", "", [given, MODEL], {}, message) for given, message in (
        ([], "reference: is empty"),
        (["a", 3], "reference: text 2 is of type int; give a str"),
        (["a", None], "reference: text 2 is of type NoneType"),
        (["a \ud800"], "reference: text 1 has half a surrogate pair"),
        (["", " "], "reference: has no document with a token"),
        (3, "reference: is of type int; give a path, texts"),
        (b"a b", "reference: is of type bytes"),
        ({"text": ["a", "b"]}, "reference: is of type dict; give a path"),  # its keys are no texts
        (pd.DataFrame({"words": ["a"]}), "reference: has no column 'text'; rename one"),
        (pd.DataFrame({"text": [1, "a"]}), "reference: cannot be read (Could not convert"),
        ("missing.txt", "missing.txt: no such file"),
    )),
    *(("compare", "human generated", [], options, message) for options, message in (
        ({"permutations": -1}, "permutations: is -1, expected at least 0"),
        ({"bootstrap": 1.5}, "bootstrap: is 1.5, expected a whole number"),
        ({"seed": True}, "seed: is True, expected a whole number"),
        ({"maximum_tokens": 0}, "maximum_tokens: is 0, expected at least 1"),
        ({"groups": ["a"]}, "reference: there are more texts than groups, from number 2 on"),
        ({"groups": [*"ab" * 60]}, "reference: there are more groups than texts, from number 61"),
        ({"groups": "ab" * 30}, "groups: is one text; give the group of each, or group_column"),
        ({"groups": [*"a" * 59, None]}, "reference: text 60 has no group; give one to each or n"),
        ({"format": "text"}, "format: reference is no path; leave it out"),
        ({"format": "xlsx"}, "format: is 'xlsx', expected one of auto, text, jsonl, parquet"),
        ({"out": "/bin/sh"}, "/bin/sh: is a file; name a folder"),
    )),
    *(("perplexity", "lstm", [texts], CPU | options, message) for texts, options, message in (
        (TEXTS, {"stride": 0}, "stride: is 0, expected at least 1"),
        (TEXTS, {"threads": "2"}, "threads: is '2', expected a whole number"),
        ([1], {}, "texts: text 1 is of type int"),
        (["a", ""], {"groups": ["x"]}, "texts: there are more texts than groups"),
        ([" ", ""], {}, "there is nothing to score"),
    )),
    *(("contrast", "", pairs, {}, message) for pairs, message in (
        (([-1.0] * 4, [-2.0] * 3), "distorted: has no value for pair 4"),
        (([-1.0], None), "distorted: is of type NoneType"),
        ((["a b"], ["b"]), "originals: pair 1 has 'a b', expected a log score"),
        (([math.nan], [1.0]), "originals: pair 1 has nan"),
        (([], []), "pairs: there are none"),
    )),
    ("contrast", "model=lstm", [["a", ""], ["b", "a"]], CPU, "originals: pair 2 has ''; give a"),
    ("contrast", "pairs model=lstm", [["b"]], CPU, "distorted: originals is a file"),
    *(("similarity", "evaluator=vectors", pairs, options, message)
      for pairs, options, message in (
        ((["cat"] * 4, ["dog"] * 2), {}, "hypotheses: has no value for pair 3"),
        ((["cat"], None), {}, "hypotheses: is of type NoneType; give texts, in an iterable"),
        ((["cat"] * 2, ["dog"] * 2), {"gold": [1, math.nan]}, "gold: pair 2 has nan"),
        ((["cat"], ["dog"]), {"gold": "score"}, "gold: is a column of a file"),
        (([], []), {}, "references: there are none"),
    )),
    *(("compare_perplexity", "", [made], {}, message) for made, message in (
        ({}, "scores: are of no model; give those of two"),
        ([], "scores: are of no model; give those of two"),
        ({"a": scores(1, 0.0)}, "scores: are of one model alone; give those of two"),
        (3, "scores: is of type int; give a path, or several in a list"),
        (b"x", "scores: is of type bytes"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inputs", "others", "options", "message"),
    [*((*row[:2], [], *row[2:]) for row in IGNORED + WRONG), *ODD],
)
def test_what_is_wrong_or_ignored_is_refused(given, name, inputs, others, options, message):
    held = FAST if name == "compare" else {}
    with pytest.raises(InputError) as caught:
        call(given, name, inputs, *others, **held | options)
    said = str(caught.value)
    assert said.startswith(message)
    assert not [part for part in ("--", "\n", "/tmp") if part in said]


def test_refusals_and_remarks_name_arguments_and_records_no_lost_file(given, capsys, tmp_path):
    flags = ["--arpa", str(given["arpa"]), "--text", "x", "--spelling-model", "y"]
    said = r"^spelling model: has no effect with an ARPA file"
    check_refused(said, perplexity_command.main, flags)
    titled = pd.DataFrame({"text": HUMAN, "title": ["x"] * len(HUMAN)})
    beyond_perplexity.compare(titled, titled, **FAST)
    said = capsys.readouterr().err
    assert "warning: reference: 59 documents repeat a title" in said
    assert "give as group column title" in said
    assert tempfile.gettempdir() + os.sep not in said
    output, table = tmp_path / "e.parquet", given["weights"]
    beyond_perplexity.estimate([table.slice(0, 60), table.slice(60)], options=QUICK, output=output)
    record = read_record(output)
    assert record["options"]["weights"] == ["weights[0] in memory", "weights[1] in memory"]
    assert "beyond-perplexity-" not in str(record)


def converted():
    """Give calls with arrays and scalars, and the same with plain values."""
    groups = [f"page {k // 2}" for k in range(len(HUMAN))]
    held = pa.chunked_array([groups[:7], groups[7:]])
    numbers = {"seed": np.int64(3), "minimum_tokens": np.uint8(1), "groups": held}
    plain = {"seed": 3, "minimum_tokens": 1, "groups": groups}
    yield "compare", "human generated", numbers, plain
    yield "compare_perplexity", "scores", {"no_count_eos": np.bool_(True)}, {"no_count_eos": True}
    options = {"subsets": np.int64(10), "bootstrap": pa.scalar(10), "confidence": np.float32(0.5)}
    plain = QUICK | {"confidence": 0.5}
    yield "estimate", "weights", {"options": options, "seed": np.int8(1)}, {
        "options": plain, "seed": 1,
    }  # fmt: skip
    for held in (pa.array([2, 4]), np.array([2, 4])):
        yield "contrast", "good bad", {"words": held}, {"words": [2, 4]}
    for held in (pa.array(["x", "y"]), np.array(["x", "y"]), pd.Series(["x", "y"])):
        yield "contrast", "good bad", {"phenomena": held}, {"phenomena": ["x", "y"]}


@pytest.mark.parametrize(("name", "inputs", "odd", "plain"), list(converted()))
def test_arrays_and_scalars_are_what_they_hold(given, name, inputs, odd, plain):
    held = FAST if name == "compare" else {}
    found = call(given, name, inputs, **held | odd)
    assert found.to_json() == call(given, name, inputs, **held | plain).to_json()


class Streamed:
    """What only offers Arrow's stream, as Polars and DuckDB do."""

    def __init__(self, held):
        self.held = held

    def __arrow_c_stream__(self, schema=None):
        return self.held.__arrow_c_stream__(schema)


@pytest.mark.parametrize(
    "form",
    [
        *(pa.array(TEXTS), pa.array(TEXTS, pa.large_string())),
        *(pa.array(TEXTS).dictionary_encode(), pa.chunked_array([TEXTS[:1], [], TEXTS[1:]])),
        pa.table({"text": pa.array(TEXTS, pa.string_view())}),
        Streamed(pa.table({"n": range(4), "text": TEXTS})),
        *(Streamed(pa.chunked_array([TEXTS])), np.array(TEXTS, object)),
        pd.Series(TEXTS, dtype="string"),
    ],
    ids=lambda form: f"{type(form).__name__}",
)
def test_whatever_holds_texts_is_scored_as_a_list(given, form):
    found = beyond_perplexity.perplexity(given["arpa"], form, device="cpu")
    again = beyond_perplexity.perplexity(given["arpa"], TEXTS, device="cpu")
    assert found.to_json() == again.to_json()


class OwnError(Exception):
    """Of a caller."""


ERRORS = [kind("mine") for kind in (TypeError, ValueError, pa.ArrowInvalid, OwnError, OSError)]
ERRORS += [ModuleNotFoundError("mine", name="torch"), KeyboardInterrupt()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["compare", "perplexity", "audit", "contrast", "similarity"])
def test_exceptions_of_the_caller_pass_through(given, name, error, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def texts():
        yield "a b"
        raise error

    inputs, options = {
        "compare": ([texts(), HUMAN], FAST),
        "perplexity": ([given["lstm"], texts()], {}),
        "audit": ([given["lstm"], texts()], {}),
        "contrast": ([texts(), HUMAN], {"model": given["lstm"]}),
        "similarity": ([texts(), HUMAN], {"evaluator": given["vectors"]}),
    }[name]
    with pytest.raises(type(error)) as caught:
        getattr(beyond_perplexity, name)(*inputs, **options)
    assert caught.value is error
    assert not list(tmp_path.iterdir())


def test_groups_of_an_arpa_files_sentences_widen_what_is_independent(given, tmp_path):
    """The documents' table has them as they were given."""
    groups = ["x", "x", "y", "y"]
    beside = beyond_perplexity.perplexity(given["arpa"], TEXTS, groups=groups, device="cpu")
    assert beside.summary["interval"]["groups"] == 2
    assert beside.table_of("documents")["group"].tolist() == groups
    path = tmp_path / "t.parquet"
    pd.DataFrame({"text": TEXTS, "page": groups}).to_parquet(path)
    file = beyond_perplexity.perplexity(given["arpa"], path, group_column="page", device="cpu")
    assert file.to_json().replace(str(path), "texts") == beside.to_json()
    without = beyond_perplexity.perplexity(given["arpa"], TEXTS, device="cpu")
    assert without.table["perplexity"].tolist() == beside.table["perplexity"].tolist()
    path = tmp_path / "t.txt"
    path.write_text("a b\n")
    with pytest.raises(InputError, match="is plain text and has no 'page'"):
        beyond_perplexity.perplexity(given["arpa"], path, group_column="page")


def state():
    """Return what belongs to the process, not to a function of a library."""
    own = logging.getLogger("beyond_perplexity")
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "random": random.getstate(),
        "numpy": repr(np.random.get_state()),  # noqa: NPY002
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "precision": (torch.get_default_dtype(), torch.get_float32_matmul_precision()),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "matplotlib": dict(mpl.rcParams),
        "logging": (logging.root.level, list(logging.root.handlers), own.level, own.handlers),
        "signals": [signal.getsignal(one) for one in sorted(signal.valid_signals())],
        "numbers": (np.geterr(), np.get_printoptions()),
        "system": (sys.excepthook, sys.stdout, sys.stderr, sys.getrecursionlimit(), [*sys.path]),
    }


STATE = [
    ("compare", "human generated", FAST),
    ("perplexity", "lstm texts", {"threads": 3, "device": "cpu"}),
    ("perplexity", "arpa texts", {"threads": 3, "device": "cpu"}),
    ("contrast", "first second model=lstm", {"threads": 3, "device": "cpu"}),
    ("contrast", "good bad", {}),
    ("similarity", "similar evaluator=vectors", {"threads": 3, "gold": "score"}),
    ("audit", "lstm texts", {"threads": 3, "device": "cpu", "documents": 2}),
    ("compare_perplexity", "scores", {}),
    ("estimate", "weights", {"options": QUICK}),
]


@pytest.mark.parametrize(("name", "inputs", "options"), STATE)
def test_a_call_leaves_the_process_as_it_was(given, name, inputs, options):
    call(given, name, inputs, **options)  # what is imported first may set what it likes
    before = state()
    found = call(given, name, inputs, **options)
    if found.figures:
        found.figure(found.figures[0])
    assert found.to_json()
    after = state()
    for kind, held in before.items():
        assert after[kind] == held, kind


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_that_does_not_fit_names_the_function(name):
    function = getattr(beyond_perplexity, name)
    keyword = [*inspect.signature(function).parameters][-1]
    wrong = f"{keyword[:-1]}{keyword[-1].upper()}x"
    meant = rf"{name}\(\) got an unexpected keyword argument '{wrong}'; did you mean '{keyword}'\?"
    with pytest.raises(TypeError, match=f"^{meant}$"):
        function(**{wrong: 1})
    with pytest.raises(TypeError, match=rf"^{name}\(\) got .* 'q'$"):
        function(q=1)
    with pytest.raises(TypeError, match=rf"^{name}\(\) (missing|too many)"):
        function() if not name.startswith(("compare", "estimate")) else function(*range(20))


def test_threads_are_as_before_after_an_error_and_a_path_only_says_so(given):
    before = torch.get_num_threads()
    with pytest.raises(InputError):
        beyond_perplexity.perplexity(given["lstm"], [" "], threads=before + 2, device="cpu")
    assert torch.get_num_threads() == before

    class Named(os.PathLike):
        def __fspath__(self):
            return str(given["arpa"])

    found = beyond_perplexity.perplexity(Named(), TEXTS, device="cpu")
    assert found.summary["documents"] == len(TEXTS)
