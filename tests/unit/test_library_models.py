"""The library with models and evaluators: perplexity, contrast, similarity.

Needs torch; models have random weights or are counted here. Oracles: the commands on files, the
probabilities that an ARPA file says, cosines by hand.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch

import beyond_perplexity
from beyond_perplexity.commands import contrast as contrast_command
from beyond_perplexity.commands import perplexity as perplexity_command
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.vocabulary import ClosedVocabulary

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    path = tmp_path_factory.mktemp("models") / "lstm"
    save_model(path, registry.build(config, vocabulary.size), vocabulary, {})
    return path


def test_texts_in_memory_have_the_perplexity_of_a_file(folder, tmp_path, capsys) -> None:
    path, rows = tmp_path / "text.txt", tmp_path / "rows.parquet"
    path.write_text("\n".join(TEXTS))
    flags = ["--model", str(folder), "--text", str(path), "--tokenized", "--device", "cpu"]
    perplexity_command.main([*flags, "--per-document", str(rows)])
    printed = json.loads(capsys.readouterr().out)
    assert [(one["read"], one["used"]) for one in printed.pop("files")] == [(4, 4)]
    for given in (
        TEXTS,
        iter(TEXTS),
        pd.DataFrame({"text": TEXTS}),
        pa.table({"text": TEXTS}),
        path,
    ):
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


def test_nothing_is_held_of_documents_where_it_is_not_asked_for(folder) -> None:
    found = beyond_perplexity.perplexity(folder, TEXTS, per_document=False, **CPU)
    assert found.tables == ()


def test_groups_of_texts_widen_what_is_independent(folder) -> None:
    found = beyond_perplexity.perplexity(folder, TEXTS, groups=[1, 1, 2, 2], **CPU)
    assert found.summary["interval"]["groups"] == 2
    assert found.table_of("documents")["group"].tolist() == ["1", "1", "2", "2"]


def test_the_scores_of_two_models_go_straight_into_their_comparison(folder, tmp_path) -> None:
    (tmp_path / "uniform.arpa").write_text(ARPA)
    texts = TEXTS * 10
    scored = {
        "lstm": beyond_perplexity.perplexity(folder, texts, **CPU),
        "unigram": beyond_perplexity.perplexity(tmp_path / "uniform.arpa", texts, device="cpu"),
    }
    found = beyond_perplexity.compare_perplexity(scored, flips=99).table
    for name, one in scored.items():
        bits = one.table.set_index("unit").loc["byte", "bits"]
        own = found[(found["first"] == name) & found["second"].isna()]
        assert own["value"].item() == pytest.approx(bits, rel=1e-12)


def test_a_file_is_an_arpa_model_and_its_numbers_are_those_it_says(tmp_path) -> None:
    (tmp_path / "model.arpa").write_text(ARPA)
    found = beyond_perplexity.perplexity(tmp_path / "model.arpa", ["a b", "x"], device="cpu")
    logs = [-0.25 - 0.75 - 0.5, -1.0 - 0.5]
    assert found.summary["log_prob"] == pytest.approx(sum(logs) * math.log(10), rel=1e-6)
    assert found.table["perplexity"][0] == pytest.approx(10 ** (-sum(logs) / 5), rel=1e-6)
    with pytest.raises(InputError, match="model"):
        beyond_perplexity.perplexity(tmp_path / "model.arpa", ["a"], arpa=False)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (TEXTS, {"stride": 0}, "stride: is 0, expected at least 1"),
        (TEXTS, {"threads": "2"}, "threads: is '2', expected a whole number"),
        ([1], {}, "texts: text 1 is of type int"),
        (["a", ""], {"groups": ["x"]}, "texts: there are more texts than groups"),
        ([" ", ""], {}, "there is nothing to score"),
    ],
)
def test_what_cannot_be_scored_is_named(folder, given, options, message) -> None:
    with pytest.raises(InputError) as caught:
        beyond_perplexity.perplexity(folder, given, **CPU | options)
    assert str(caught.value).startswith(message)


def test_sentences_in_memory_are_told_apart_as_those_of_a_file(folder, tmp_path, capsys) -> None:
    pairs = tmp_path / "pairs.tsv"
    good, bad = ["a b", "b b", "a a b"], ["b a", "b b", "b b b"]
    lines = [f"{one}\t{two}" for one, two in zip(good, bad, strict=True)]
    pairs.write_text("\n".join(["good\tbad", *lines]))
    contrast_command.main(["--model", str(folder), "--pairs", str(pairs), "--tokenized"])
    said = capsys.readouterr().out
    found = beyond_perplexity.contrast(good, iter(bad), model=folder, **CPU)
    assert said.split(":", 1)[1] == f"{found.text}\n".split(":", 1)[1]
    again = beyond_perplexity.contrast(pairs, model=folder, **CPU)
    columns = [name for name in found.table if name != "phenomenon"]
    pd.testing.assert_frame_equal(found.table[columns], again.table[columns])
    assert again.table["phenomenon"].tolist() == ["pairs"]
    with pytest.raises(InputError, match="originals: pair 2 has ''; give a sentence"):
        beyond_perplexity.contrast(["a", ""], ["b", "a"], model=folder, **CPU)
    with pytest.raises(InputError, match="distorted: originals is a file"):
        beyond_perplexity.contrast(pairs, bad, model=folder, **CPU)


def test_pairs_in_memory_have_the_similarity_of_a_file(tmp_path) -> None:
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
    for wrong, options, message in (
        ((first, second[:2]), {}, "hypotheses: has no value for pair 3"),
        ((first, None), {}, "hypotheses: is of type NoneType; give texts, in an iterable"),
        ((first, second), {"gold": [1, 2, 3, math.nan]}, "gold: pair 4 has nan"),
        ((first, second), {"gold": "score"}, "gold: is a column of a file"),
        (([], []), {}, "references: there are none"),
    ):
        with pytest.raises(InputError) as caught:
            beyond_perplexity.similarity(*wrong, evaluator=vectors, **options)
        assert str(caught.value).startswith(message)
