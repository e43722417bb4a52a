"""Perplexity in its definitions, and scoring.

Oracles: the dice and the 16-token example of the perplexity tutorial, a model whose probabilities
are enumerated by hand, step-by-step scoring.
"""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.likelihoods import (
    DocumentScore,
    check_window,
    score_documents,
    score_encoded,
)
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.perplexities.summary import Totals, measure, perplexity_of, summarize
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit.small_models import TINIEST, TINY, Fixed, make


def random_documents(number, size, longest, seed=0):
    generator = np.random.default_rng(seed)
    return [
        generator.integers(3, size, generator.integers(0, longest)).astype(np.int32)
        for _ in range(number)
    ]


@torch.no_grad()
def stepwise(model, ids):
    """Score one document a token at a time."""
    state = model.initial_state(1, len(ids) + 1)
    total = 0.0
    for before, after in zip([0, *ids], [*ids, 1], strict=True):
        logits, state = model.step(torch.tensor([before]), state)
        total += float(logits.double().log_softmax(1)[0, after])
    return total


def neural(family):
    short = {"context_length": 12} if family.startswith("transformer") else {}
    return make(family, {**TINY[family], **short}, 30)


@pytest.mark.parametrize(
    ("rolls", "expected"),
    [
        ([1 / 6] * 6, 6.0),
        ([7 / 12] * 7 + [1 / 12] * 5, 3.857),
        ([0.99] * 99 + [1 / 500] * 1, 1.0748),
    ],
)
def test_the_tutorials_dice(rolls, expected):
    assert perplexity_of(sum(map(math.log, rolls)), len(rolls)) == pytest.approx(expected, rel=5e-4)


def test_n_of_the_tutorials_example_is_16():
    words = ["This", "is", "the", "first", "sentence", "second", "one", "."]
    vocabulary = ClosedVocabulary(words, 0)
    texts = ["This is the first sentence .", "This is the second one ."]
    model = Fixed([0.0] + [1 / 10] * 10)
    both = measure(model, vocabulary, texts, count_bos=True)
    assert both["n"]["token"] == both["n"]["word"] == 16
    assert both["n_counts"] == "units of the text and </s> and <s>"
    assert measure(model, vocabulary, texts)["n"]["token"] == 14
    without = measure(model, vocabulary, texts, count_eos=False)
    assert without["n"]["token"] == 12
    assert without["perplexity"]["token"] == pytest.approx(10)  # each token has 1 / 10, as </s> has
    assert without["n_counts"] == "units of the text"


def test_without_the_end_it_is_the_probability_of_all_texts_that_begin_so():
    """Oracle: the sum over everything that may come next, </s> and each word."""
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    model = make("lstm", TINIEST, vocabulary.size).double()
    texts = [[3], [4, 3], [2, 3, 4]]
    for ids in texts:
        longer = [np.array([*ids, word]) for word in (2, 3, 4)]
        open_ = [score.log_prob for score in score_encoded(model, longer, count_eos=False)]
        (whole,) = score_encoded(model, [np.array(ids)])
        (found,) = score_encoded(model, [np.array(ids)], count_eos=False)
        assert math.exp(found.log_prob) == pytest.approx(
            math.exp(whole.log_prob) + sum(map(math.exp, open_)), rel=1e-6
        )


def test_an_impossible_end_does_not_count_where_it_is_left_out():
    model, texts = Fixed([0.0, 0.0, 0.5, 0.5]), [np.array([3, 2])]
    assert list(score_encoded(model, texts)) == [DocumentScore(-math.inf, 2, 1, 1)]
    (found,) = score_encoded(model, texts, count_eos=False)
    assert found == DocumentScore(pytest.approx(2 * math.log(0.5)), 2, 1, 0)


def test_the_end_is_left_out_of_the_last_window_alone():
    model = Fixed([0.0, 0.1, 0.2, 0.3, 0.4])
    ids = np.array([3, 4, 2, 3, 3, 4, 4])
    for context, stride in ((None, None), (4, 2), (3, 3), (4, 1)):
        (found,) = score_encoded(
            model, [ids], context_length=context, stride=stride, count_eos=False
        )
        expected = sum(math.log([0.0, 0.1, 0.2, 0.3, 0.4][one]) for one in ids)
        assert found.log_prob == pytest.approx(expected)


def test_every_unit_of_a_model_enumerated_by_hand():
    vocabulary = ClosedVocabulary(["é", "bb"], unknown_types=5)
    model = Fixed([0.0, 0.25, 0.125, 0.5, 0.125])  # <s> </s> <unk> é bb
    found = measure(model, vocabulary, ["é bb", "é x é"])
    log_prob = math.log(0.5 * 0.125 * 0.25) + math.log(0.5 * 0.125 * 0.5 * 0.25)
    assert found["log_prob"] == pytest.approx(log_prob, abs=1e-6)
    assert found["n"] == {"token": 7, "word": 7, "character": 4 + 5 + 2, "byte": 5 + 7 + 2}
    for unit, n in found["n"].items():
        assert found["perplexity"][unit] == pytest.approx(math.exp(-log_prob / n), rel=1e-6)
    assert found["bits"]["byte"] == pytest.approx(-log_prob / 14 / math.log(2), rel=1e-6)
    assert (found["unknown"], found["unknown_share"]) == (1, pytest.approx(1 / 5))
    # One unknown token, whose probability five unseen types share.
    penalized = log_prob + math.log(1 / 5)
    assert found["unknown_penalized"]["log_prob"] == pytest.approx(penalized, abs=1e-6)
    assert found["unknown_penalized"]["perplexity"]["word"] == pytest.approx(
        math.exp(-penalized / 7), rel=1e-6
    )


def test_the_penalized_distribution_sums_to_one_over_words():
    # Known words as they are, each of U unknown types with p(<unk>) / U.
    vocabulary = ClosedVocabulary(["a"], unknown_types=4)
    model = Fixed([0.0, 0.25, 0.25, 0.5])
    end = math.log(0.25)
    total = 0.25 + sum(
        math.exp(measure(model, vocabulary, [word])["unknown_penalized"]["log_prob"] - end)
        for word in ["a", "w1", "w2", "w3", "w4"]
    )
    assert total == pytest.approx(1, abs=1e-6)


def test_impossible_text_has_no_finite_perplexity():
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    found = measure(Fixed([0.0, 0.5, 0.0, 0.5, 0.0]), vocabulary, ["a", "b a b", "a b"])
    assert found["infinite"]
    assert set(found["perplexity"].values()) == {None}
    assert (found["impossible_tokens"], found["impossible_documents"]) == (3, 2)
    assert "Infinity" not in json.dumps(found)


def test_a_row_without_any_probability_is_impossible_and_no_nan():
    scores = list(score_encoded(Fixed([0.0] * 5), [np.array([3], np.int32)]))
    assert scores == [DocumentScore(-math.inf, 1, 0, 2)]


@pytest.mark.parametrize("family", TINY)
def test_batches_equal_step_by_step_scoring(family):
    model, documents = neural(family), random_documents(40, 30, 12)
    expected = [stepwise(model, ids) for ids in documents]
    for batch_tokens in (1, 50, 10_000):
        scores = score_encoded(model, documents, batch_tokens=batch_tokens)
        found = [score.log_prob for score in scores]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_order_and_pools_do_not_matter(monkeypatch):
    model, documents = neural("lstm"), random_documents(40, 30, 20)
    whole = [score.log_prob for score in score_encoded(model, documents)]
    monkeypatch.setattr("beyond_perplexity.models.likelihoods.POOL", 7)
    monkeypatch.setattr("beyond_perplexity.models.likelihoods.LOGIT_ROWS", 5)
    parts = [score.log_prob for score in score_encoded(model, documents)]
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("context", "stride"), [(12, 5), (12, None), (6, 1), (5, 5)])
@torch.no_grad()
def test_windows_give_each_prediction_the_context_that_they_promise(context, stride):
    model = neural("transformer")
    ids = random_documents(1, 30, 50, seed=3)[0]
    (score,) = score_encoded(model, [ids], context_length=context, stride=stride)
    whole = np.concatenate([[0], ids, [1]]).astype(np.int64)
    step = stride or context // 2
    expected, end = 0.0, 0
    while end < len(whole) - 1:  # the definition: after the first window, `step` more at a time
        new = min(context if end == 0 else step, len(whole) - 1 - end)
        start = max(0, end + new - context)
        rows = model(torch.tensor(whole[None, start : end + new])).double().log_softmax(-1)[0]
        for place in range(end, end + new):
            expected += float(rows[place - start, whole[place + 1]])
        end += new
    assert score.log_prob == pytest.approx(expected, abs=1e-5)
    assert score.tokens == len(ids)


def test_long_documents_of_models_without_limit_are_scored_step_by_step(monkeypatch):
    monkeypatch.setattr("beyond_perplexity.models.likelihoods.LOGIT_ROWS", 4)
    (score,) = score_encoded(Fixed([0.0, 0.5, 0.25, 0.25]), [np.full(9, 3)])
    assert score.log_prob == pytest.approx(9 * math.log(0.25) + math.log(0.5), abs=1e-6)


def test_wrong_windows_and_empty_texts_are_named():
    model = neural("transformer")
    for given, words in (
        ((model, 13, None), "context_length: is 13, expected 1 to 12"),
        ((model, 8, 9), "stride: is 9, expected 1 to the context length, 8"),
        ((neural("lstm"), None, 4), "stride: has no meaning"),
    ):
        with pytest.raises(InputError, match=words):
            check_window(*given)
    with pytest.raises(InputError, match="nothing to score"):
        summarize(Totals(), ClosedVocabulary(["a"], 0))


def test_subwords_are_counted_as_tokens_and_words_as_words():
    vocabulary = BPEVocabulary.build([["low lower lowest"] * 3], 262)
    model = make("lstm", TINIEST, vocabulary.size, open_vocabulary=True)
    found = measure(model, vocabulary, ["lower xyz"])
    assert found["n"]["token"] == len(vocabulary.encode(["lower xyz"])[0]) + 1
    assert (found["n"]["word"], found["n"]["character"]) == (3, 10)
    assert found["unknown"] == 0
    assert "unknown_penalized" not in found
    (score,) = score_documents(model, vocabulary, ["lower xyz"])
    assert score.log_prob == found["log_prob"]


def test_the_command_prints_json(tmp_path, capsys, monkeypatch):
    from beyond_perplexity.commands import perplexity as command

    vocabulary = ClosedVocabulary(["a", "b"], 0)
    save_model(tmp_path / "model", make("lstm", TINIEST, vocabulary.size), vocabulary, {})
    (tmp_path / "text.txt").write_text("a b\nb  b c\n", encoding="utf-8")
    flags = ["--model", str(tmp_path / "model"), "--text", str(tmp_path / "text.txt")]
    monkeypatch.setattr(sys, "argv", ["perplexity", *flags, "--tokenized", "--device", "cpu"])
    command.main()
    found = json.loads(capsys.readouterr().out)
    assert (found["tokens"], found["unknown"], found["documents"]) == (5, 1, 2)


def test_a_score_that_is_no_number_is_an_error_and_no_infinite_perplexity():
    model = Fixed([0.25, 0.25, 0.25, math.nan])
    words = "doc_id 0: the model gives it the log-probability NaN"
    with pytest.raises(InputError, match=words):
        measure(model, ClosedVocabulary(["a"], 0), ["a"])
    assert math.isnan(perplexity_of(math.nan, 3))
    assert perplexity_of(-math.inf, 3) == math.inf


@pytest.mark.parametrize("fields", [[{}, {}], [{"page": "a"}, {}]])
def test_groups_that_a_text_lacks_are_told_in_the_words_of_the_command(tmp_path, fields):
    """One text alone has neither reference nor samples."""
    from beyond_perplexity.corpus.external import GroupField, read_grouped
    from beyond_perplexity.perplexities import brought

    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a b"} | one) for one in fields))
    with pytest.raises(InputError, match=r"x\.jsonl: line \d: field 'page'.*is missing") as caught:
        list(read_grouped(path, None, GroupField("page", True, brought._WHO)))
    assert "leave the group column out" in str(caught.value)
    assert "reference" not in str(caught.value)
    assert "samples" not in str(caught.value)
