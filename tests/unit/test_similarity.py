"""`beyond-perplexity similarity`: evaluators by name and by path, pairs, correlations, errors.

Oracles: cosines by hand; SciPy's correlations; what stands in the files that are written.
"""

from __future__ import annotations

import csv
import json
import math
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
import torch
import yaml
from torch import nn

from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators import families as packages
from beyond_perplexity.semantics.evaluators.contract import evaluator_at
from beyond_perplexity.semantics.evaluators.families import is_installed
from beyond_perplexity.semantics.scored_pairs import PairColumns, read_labelled_texts
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.evaluator_oracles import check_refusals, write_vectors

VECTORS = "cat 1 0\ndog 1 1\nsnow 0 2\nnever 1 -1\n"
PAIRS = "first\tsecond\tgold\nThe cat!\tA cat\t5\nDog.\tcat\t3\nsnow\tcat\t0\ncat dog\tsnow\t2\n"
COSINES = [1, 0.5**0.5, 0, 1 / 5**0.5]
GLOVE = pytest.mark.skipif(not is_installed("glove"), reason="the extra pretrained is not there")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(files, capsys):
    """Return a function that runs the command: what it prints, and its errors."""

    def command(*further, **changed):
        flags = {"evaluator": files / "vectors.txt", "pairs": files / "pairs.tsv"} | changed
        given = [part for name, held in flags.items() for part in (f"--{name}", held)]
        run_function("similarity", [*map(str, given), *map(str, further)])
        return capsys.readouterr()

    return command


def test_one_score_a_pair_in_their_order_tokenized_or_not(files, run):
    """Raw texts are tokenized and lower-cased; words without a vector say nothing."""
    found = run()
    np.testing.assert_allclose([float(line) for line in found.out.split("\n")[:-1]], COSINES)
    told = f"{files / 'pairs.tsv'}: 5 lines read, 4 used; left out: 1 (header row)\n"
    assert found.err == told
    lines = run("--tokenized").out.split()
    assert lines[0] == "0.0"  # "cat!" has no vector: the first text says nothing
    (files / "pairs.tsv").write_text("a\tb\ncat!\tcat\ncat\tcat!\n", encoding="utf-8")
    assert run("--tokenized").out.split() == ["0.0", "nan"]
    assert run(measure="wmd").out.split("\n")[0] != ""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_with_gold_only_the_correlations_are_printed(suffix, files, run):
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["cat", "dog", "snow"], 3)) for _ in range(80)]
    gold = random.integers(0, 6, 40)
    rows = zip(texts[::2], texts[1::2], gold, strict=True)
    lines = ["first\tsecond\tgold", *("\t".join(map(str, row)) for row in rows), "cat\tbird\t1"]
    (files / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    output = files / f"scores{suffix}"
    found = run(gold="gold", output=output)
    number = r"(-?\d\.\d{4})"
    limits = rf"{number} \[{number}, {number}\]\n"
    pattern = f"Pearson {limits}Spearman {limits}"
    shown = [float(part) for part in re.fullmatch(pattern, found.out).groups()]
    assert "1 of 41 pairs have no score" in found.err
    if suffix == ".csv":
        with open(output, newline="", encoding="utf-8") as file:
            held = list(csv.DictReader(file))
        scores = [float(row["score"]) if row["score"] else math.nan for row in held]
        people = [float(row["gold"]) for row in held]
    else:
        table = pq.read_table(output)
        assert table.column("pair").to_pylist() == list(range(1, 42))
        assert table.column("score").null_count == 1
        scores = [math.nan if v is None else v for v in table.column("score").to_pylist()]
        people = table.column("gold").to_pylist()
    assert math.isnan(scores[-1])
    assert people == [*gold.tolist(), 1]
    theirs = scipy.stats.pearsonr, scipy.stats.spearmanr
    wanted = [correlate(scores[:-1], gold).statistic for correlate in theirs]
    np.testing.assert_allclose([shown[0], shown[3]], wanted, atol=6e-5)
    assert shown[1] < shown[0] < shown[2]
    assert shown[4] < shown[3] < shown[5]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"measure": "bleu"}, "measure: is 'bleu'; this evaluator has aligned_cosine"),
        ({"evaluator": "bert"}, "'bert' is no file or folder|no evaluator of .* is named 'bert'"),
        ({"evaluator": "no/where"}, "'no/where' is no file or folder"),
        ({"gold": "score"}, "has no column 'score'"),
        ({"output": "scores.xlsx"}, r"expected a name that ends in \.csv or \.parquet"),
        ({"pairs": "none.tsv"}, "none.tsv"),
        ({"gold": "gold", "pairs": "few.tsv"}, "2 pairs have a score; a correlation needs 3"),
    ],
)
def test_errors_are_one_line(changed, words, files, run, monkeypatch):
    monkeypatch.chdir(files)
    (files / "few.tsv").write_text("a\tb\tgold\ncat\tdog\t1\ndog\tcat\t1\n", encoding="utf-8")
    check_refusals(lambda: run(**changed), {words: ()})


@GLOVE
def test_the_packages_are_names(run):
    assert len(run(evaluator="glove").out.split()) == 4


def test_evaluators_of_a_configuration_are_names_and_a_missing_package_is_told(
    files, run, monkeypatch
):
    monkeypatch.chdir(files)
    config = yaml.safe_load((ROOT / "configs/smoke.yaml").read_text(encoding="utf-8"))
    config["evaluators"]["mine"] = {"family": "vectors", "path": str(files / "vectors.txt")}
    (files / "mine.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    found = run(evaluator="mine", config="mine.yaml")
    np.testing.assert_allclose([float(line) for line in found.out.split()], COSINES)
    with pytest.raises(InputError, match="word2vec: is not trained yet; run: snakemake"):
        run(evaluator="word2vec", config="mine.yaml")
    with pytest.raises(InputError, match="there are glove, minilm, infersent, mine, skipthought"):
        run(evaluator="yours", config="mine.yaml")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"install it with: pip install 'beyond-perplexity"):
        run(evaluator="minilm")


def test_official_weights_of_infersent_need_vectors(files, run):
    layer = nn.LSTM(2, 3, bidirectional=True)
    held = {f"enc_lstm.{name}": part for name, part in layer.state_dict().items()}
    torch.save(held, files / "infersent1.pkl")
    path = files / "infersent1.pkl"
    with pytest.raises(InputError, match="InferSent reads word vectors; give vectors"):
        run(evaluator=path)
    lines = run(evaluator=path, vectors=files / "vectors.txt").out.split()
    assert len(lines) == 4
    assert float(lines[0]) == pytest.approx(1)  # of both texts "cat" alone has a vector
    assert float(lines[1]) < 1  # "Dog" is looked up in lower case too


def test_what_lies_at_a_path_tells_the_family(tmp_path):
    kinds = {
        "modules.json": {"family": "sentence-transformers", "path": str(tmp_path)},
        "config.json": {"family": "transformer", "path": str(tmp_path), "layers": 2},
        "model.json": {"family": "transformer", "model": str(tmp_path), "layers": 2},
    }
    for name, wanted in kinds.items():
        (tmp_path / name).write_text("{}", encoding="utf-8")
        assert evaluator_at(tmp_path) == wanted
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match="holds no evaluator: neither"):
        evaluator_at(tmp_path)
    (tmp_path / "uni_skip.npz").write_bytes(b"PK")
    assert evaluator_at(tmp_path) == {
        "family": "skipthought",
        "dictionary": str(tmp_path / "dictionary.txt"),
        "uni": str(tmp_path / "uni_skip.npz"),
        "uni_table": str(tmp_path / "utable.npy"),
    }
    (tmp_path / "evaluator.json").write_text(json.dumps({"family": "infersent"}), encoding="utf-8")
    assert evaluator_at(tmp_path) == {"family": "infersent", "path": str(tmp_path)}
    shutil.rmtree(tmp_path)
    write_vectors(tmp_path.parent / "vectors.txt", ["a"], 2)
    assert evaluator_at(tmp_path.parent / "vectors.txt")["family"] == "vectors"


# ---- pairs to train on ----


def held_pairs(path, **columns):
    return [tuple(pair) for pair in read_labelled_texts(path, PairColumns(**columns))]


def test_pairs_are_read_from_tables_and_objects(tmp_path):
    wanted = [("a, b", "c", "1"), ('say "x"', "d", "2.5")]
    tsv = tmp_path / "pairs.tsv"
    tsv.write_text('sentence1\tsentence2\tscore\na, b\tc\t1\n"say ""x"""\td\t2.5\n', "utf-8")
    named = tmp_path / "named.csv"
    named.write_text('id,label,one,two\n7,1,"a, b",c\n8,2.5,"say ""x""",d\n', "utf-8")
    bare = tmp_path / "bare.csv"
    bare.write_text('"a, b",c,1\n"say ""x""",d,2.5\n', "utf-8")
    objects = tmp_path / "snli.jsonl"
    rows = [{"sentence1": a, "sentence2": b, "gold_label": label} for a, b, label in wanted]
    objects.write_text("\n\n".join(map(json.dumps, rows)), "utf-8")
    assert held_pairs(tsv) == [(2, *wanted[0]), (3, *wanted[1])]
    assert [row[1:] for row in held_pairs(named, first="one", second="two")] == wanted
    assert held_pairs(bare) == [(1, *wanted[0]), (2, *wanted[1])]
    assert held_pairs(objects) == [(1, *wanted[0]), (3, *wanted[1])]
    path = tmp_path / "pairs.tsv"
    path.write_text('a\tb\tscore\n"Go," he said\t"Go" and "stay"\t1\n', "utf-8")
    assert held_pairs(path) == [(2, '"Go," he said', '"Go" and "stay"', "1")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.tsv", "a\tb\tscore\nx\ty\n", "line 2: has 2 columns, expected 3"),
        ("p.tsv", "one\ntwo\n", "its first line has 1 columns"),
        ("p.tsv", "a\tb\tscore\n", "holds no pair of texts"),
        ("p.csv", 'a,b,score\n"x,y,1\n', "is no CSV"),
        ("p.jsonl", "{", "line 1: is no JSON"),
        ("p.jsonl", "[]", "line 1: is no JSON object"),
        ("p.jsonl", '{"sentence1": "a"}', "has no text or number 'sentence2 or hypothesis"),
        ("p.tsv", "<!DOCTYPE html>", "is a page of HTML"),
    ],
)
def test_wrong_files_of_pairs_are_told(name, content, words, tmp_path):
    path = tmp_path / name
    path.write_text(content, "utf-8")
    check_refusals(held_pairs, {words: (path,)})
