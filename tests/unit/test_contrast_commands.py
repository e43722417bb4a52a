"""The commands of contrastive entropy, from a model folder to differences and pairs.

Oracles: the same with other shards; what one line of an error must name. Needs nothing beyond the
package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.commands import contrast
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.registry import find, save_model
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from scripts import compare_contrast, measure_contrast, score_contrast
from tests.unit.test_contrastive import write_documents

WORDS = [*"abcdefghij", "."]
ARCHITECTURES = {
    "lstm": {"embedding_size": 8, "hidden_size": 12, "layers": 1},
    "gru": {"embedding_size": 8, "hidden_size": 12, "layers": 1},
    "sentence-rnn": {"size": 6},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with documents, a vocabulary, and untrained models of three families."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    texts = [
        " ".join(rng.choice([*WORDS, ".", "zz"], rng.integers(3, 20)).tolist()) for _ in range(40)
    ]
    write_documents(folder / "documents.parquet", texts)
    vocabulary = ClosedVocabulary(WORDS, 1)
    vocabulary.save(folder / "words.json")
    ClosedVocabulary(["x", "y"], 1).save(folder / "foreign.json")
    BPEVocabulary.build([texts], 270).save(folder / "bpe.json")
    torch.manual_seed(0)
    for family, architecture in ARCHITECTURES.items():
        model = find(family)(vocabulary_size=vocabulary.size, architecture=architecture)
        save_model(folder / family, model, vocabulary, {})
    return folder


def call(main: Callable[[], None], *arguments: object) -> None:
    before = sys.argv
    sys.argv = ["command", *map(str, arguments)]
    try:
        main()
    finally:
        sys.argv = before


def score(home: Path, output: Path, model: str, *extra: object, **changed: object) -> None:
    flags = {
        "model": home / model,
        "documents": home / "documents.parquet",
        "split_unit": "page",
        "substitutes": home / "words.json",
        "versions": json.dumps({"0.0": [0, 1], "0.1": [0, 4], "0.5": [0, 4]}),
        "seed": 3,
        "output": output,
    } | changed
    given = [part for name, held in flags.items() for part in (f"--{name.replace('_', '-')}", held)]
    call(score_contrast.main, *given, *extra)


def measured(folder: Path, model: str) -> list[dict[str, object]]:
    shards = sorted((folder / model).glob("*.parquet"))
    output = folder / f"{model}.parquet"
    call(measure_contrast.main, *shards, "--model", model, "--output", output)
    rows: list[dict[str, object]] = pq.read_table(output).to_pylist()
    return rows


def test_commands_give_the_same_whatever_the_shards(
    home: Path, tmp_path: Path, one_thread: None
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for model in ARCHITECTURES:
        score(home, whole / model / "0.parquet", model, "--sentences", 0, 60, "--limit", 60)
    for block, (first, count) in enumerate(((0, 25), (25, 35))):
        for draws in (0, 2):
            versions = {"0.1": [draws, 2], "0.5": [draws, 2]} | ({} if draws else {"0.0": [0, 1]})
            limit = (60,) if block else ()
            score(
                home,
                cut / "lstm" / f"{block}-{draws}.parquet",
                "lstm",
                *("--sentences", first, count, "--limit", *limit),
                versions=json.dumps(versions),
            )
    assert measured(cut, "lstm") == measured(whole, "lstm")
    for model in ("gru", "sentence-rnn"):
        assert measured(whole, model)
    shards = [whole / model / "0.parquet" for model in ARCHITECTURES]
    call(compare_contrast.main, *shards, "--output", tmp_path / "differences.parquet")
    found = pq.read_table(tmp_path / "differences.parquet").to_pandas()
    pairs = found[["unit", "first", "second"]].drop_duplicates()
    assert pairs["unit"].tolist() == ["word", *["sentence"] * 3]


def test_without_a_vocabulary_substitutes_are_types_of_the_split(
    home: Path, tmp_path: Path
) -> None:
    given = ["--sentences", 0, 60]
    text = json.dumps({"substitutes": "text"})
    score(home, tmp_path / "0.parquet", "lstm", *given, "--substitutes", distortion=text)
    rows = pq.read_table(tmp_path / "0.parquet").to_pandas()
    assert (rows.loc[rows["level"] > 0, "substituted"] > 0).any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"substitutes": "foreign.json"}, "foreign.json: has no word of the text"),
        ({"versions": '{"2": [0, 1]}'}, "level: is 2.0, expected 0"),
        ({"distortion": '{"substitution": 0.2}'}, "distortion: substitution, transposition"),
        ({"split": "valid"}, "documents.parquet: the split 'valid' has no words"),
        ({"model": "nowhere"}, "nowhere: is no model folder"),
        ({"substitutes": "bpe.json"}, "bpe.json: has parts of words"),
    ],
)
def test_a_scoring_that_is_not_possible_ends_in_one_line(
    changed: dict[str, str],
    message: str,
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags: dict[str, object] = {**changed}
    if "substitutes" in changed:
        flags["substitutes"] = home / changed["substitutes"]
    model, output = str(flags.pop("model", "lstm")), tmp_path / "0.parquet"
    with pytest.raises(SystemExit) as ended:
        run_command(lambda: score(home, output, model, "--sentences", 0, 9, **flags))
    printed = capsys.readouterr().err
    assert ended.value.code == 1
    assert message in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "0.parquet").exists()


def test_folders_of_one_name(home: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        score(home, tmp_path / folder / "lstm" / "0.parquet", "lstm", "--sentences", 0, 9)
    shards = [tmp_path / folder / "lstm" / "0.parquet" for folder in "ab"]
    with pytest.raises(Exception, match="two folders have this name"):
        call(compare_contrast.main, *shards, "--output", tmp_path / "d.parquet")


@pytest.mark.parametrize("model", ["lstm", "sentence-rnn"])
def test_pairs_are_told_and_written(
    model: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    lines = ["good\tbad\tphenomenon", *["a b c .\ta c b .\t<b>$x$</b>"] * 25, "a\ta\t<b>$x$</b>"]
    pairs.write_text("\n".join(lines) + "\n")
    output = tmp_path / "found.parquet"
    call(contrast.main, "--model", home / model, "--pairs", pairs, "--output", output)
    (row,) = pq.read_table(output).to_pylist()
    assert (row["model"], row["phenomenon"]) == (model, "<b>$x$</b>")
    assert (row["pairs"], row["identical"]) == (26, 1)
    printed = capsys.readouterr().out
    assert f"H_C          {row['contrastive_entropy']:.3f}" in printed
    assert "<b>$x$</b>: 26 pairs" in printed
