"""Perplexity in its definitions, and scoring.

Oracles: the dice and the 16-token example of the perplexity tutorial, a model whose probabilities
are enumerated by hand, step-by-step scoring; Student's interval of a mean (SciPy), which the
jackknife of a ratio is where all groups are equal; a jackknife written out.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from scipy import stats

from beyond_perplexity.commands import perplexity as command
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import ratio_interval, sum_groups
from beyond_perplexity.models.likelihoods import (
    DocumentScore,
    check_window,
    score_documents,
    score_encoded,
)
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.perplexities.summary import (
    ScoredText,
    Totals,
    measure,
    perplexity_of,
    rows_table,
    score_rows,
    summarize,
    texts_of_split,
)
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.storage.shards import ShardWriter, check_schema, write_shard
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit.small_models import TINIEST, TINY, Fixed, make
from tests.unit.text_pairs import run_script


def random_documents(number, size, longest, seed=0):
    generator = np.random.default_rng(seed)
    return [
        generator.integers(3, size, generator.integers(0, longest)).astype(np.int32)
        for _ in range(number)
    ]


@torch.no_grad()
def stepwise(model, ids):
    """Score one document a token at a time."""
    state, total = model.initial_state(1, len(ids) + 1), 0.0
    for before, after in zip([0, *ids], [*ids, 1], strict=True):
        logits, state = model.step(torch.tensor([before]), state)
        total += float(logits.double().log_softmax(1)[0, after])
    return total


def neural(family):
    short = {"context_length": 12} if family.startswith("transformer") else {}
    return make(family, {**TINY[family], **short}, 30)


def test_the_tutorials_dice_and_n_of_its_example_is_16():
    for rolls, expected in (
        ([1 / 6] * 6, 6.0),
        ([7 / 12] * 7 + [1 / 12] * 5, 3.857),
        ([0.99] * 99 + [1 / 500] * 1, 1.0748),
    ):
        found = perplexity_of(sum(map(math.log, rolls)), len(rolls))
        assert found == pytest.approx(expected, rel=5e-4)
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


def test_an_end_that_is_left_out_counts_in_no_window_and_is_not_impossible():
    model, texts = Fixed([0.0, 0.0, 0.5, 0.5]), [np.array([3, 2])]
    assert list(score_encoded(model, texts)) == [DocumentScore(-math.inf, 2, 1, 1)]
    (found,) = score_encoded(model, texts, count_eos=False)
    assert found == DocumentScore(pytest.approx(2 * math.log(0.5)), 2, 1, 0)
    share, ids = [0.0, 0.1, 0.2, 0.3, 0.4], np.array([3, 4, 2, 3, 3, 4, 4])
    for context, stride in ((None, None), (4, 2), (3, 3), (4, 1)):
        window = {"context_length": context, "stride": stride}
        (found,) = score_encoded(Fixed(share), [ids], count_eos=False, **window)
        assert found.log_prob == pytest.approx(sum(math.log(share[one]) for one in ids))


def test_every_unit_of_a_model_enumerated_by_hand():
    found = measure(MODEL, VOCABULARY, ["é bb", "é x é"])
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
    # A row without any probability is impossible, and no NaN.
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
    from beyond_perplexity.perplexities import external

    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a b"} | one) for one in fields))
    with pytest.raises(InputError, match=r"x\.jsonl: line \d: field 'page'.*is missing") as caught:
        list(read_grouped(path, None, GroupField("page", True, external._WHO)))
    assert "leave the group column out" in str(caught.value)
    assert "reference" not in str(caught.value)
    assert "samples" not in str(caught.value)


# ---- scores of documents, and intervals over documents and groups ----

VOCABULARY = ClosedVocabulary(["é", "bb"], unknown_types=5)
MODEL = Fixed([0.0, 0.25, 0.125, 0.5, 0.125])  # <s> </s> <unk> é bb


def rows_of(texts, **options):
    return [row for rows in score_rows(MODEL, VOCABULARY, texts, **options) for row in rows]


def test_a_row_says_what_was_scored_and_what_the_model_says():
    first, second = rows_of(
        [ScoredText(7, "é  bb ", "page"), "é x"], spell=lambda texts, unknown: [-3.0] * len(texts)
    )
    assert (first.doc_id, first.scored_text, first.group) == (7, "cleaned", "page")
    assert first.log_likelihood == pytest.approx(math.log(0.5 * 0.125 * 0.25), abs=1e-6)
    assert first.log_likelihood_open_vocabulary == pytest.approx(first.log_likelihood - 3)
    assert (first.tokens, first.words, first.characters, first.bytes) == (2, 2, 4, 5)
    assert first.text_hash == hash_bytes("é bb".encode())
    assert (second.doc_id, second.group, second.unknown, second.impossible) == (1, None, 1, 0)


def test_raw_text_is_counted_as_it_is_and_hashes_are_the_same_on_every_machine():
    (row,) = rows_of(["é \tbb"], text="raw")
    assert (row.scored_text, row.words, row.characters, row.bytes) == ("raw", 2, 5, 6)
    assert row.text_hash == hash_bytes("é \tbb".encode()) != rows_of(["é bb"])[0].text_hash
    assert row.log_likelihood_open_vocabulary is None
    # printf 'the same text' | b2sum -l 64
    digest = bytes.fromhex("6342281f14c1a306")
    assert hash_bytes(b"the same text") == int.from_bytes(digest, "little", signed=True)
    assert len({hash_bytes(bytes([byte])) for byte in range(256)}) == 256


def test_rows_are_written_and_the_documents_of_a_page_are_a_group(tmp_path):
    documents = {"doc_id": [3, 5, 8, 9], "split": ["test", "train", "test", "test"]}
    documents |= {"title": ["A", "A", "A", ""], "text": ["é", "bb", "bb bb", "é é"]}
    documents |= {"n_tokens": [1, 1, 2, 2]}
    write_shard(tmp_path / "documents.parquet", DOCUMENTS, documents, {})
    path = str(tmp_path / "documents.parquet")
    with ShardWriter(tmp_path / "rows.parquet", DOCUMENT_SCORES, {}) as writer:
        for rows in score_rows(MODEL, VOCABULARY, texts_of_split(path, "test", grouped=True)):
            writer.write(rows_table(rows))
    held = check_schema(tmp_path / "rows.parquet", DOCUMENT_SCORES).read().to_pydict()
    assert held["doc_id"] == [3, 8, 9]
    assert held["group"] == ["A", "A", None]
    assert held["log_likelihood_open_vocabulary"] == [None] * 3
    assert [item.group for item in texts_of_split(path, "test")] == [None] * 3


def test_the_interval_of_equal_groups_is_students():
    random = np.random.default_rng(1)
    sums = random.exponential(size=30)
    found = ratio_interval(sums, np.full(30, 4.0))
    low, high = stats.t.interval(0.95, 29, sums.mean() / 4, stats.sem(sums) / 4)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.groups, found.effective) == (30, pytest.approx(30))


def test_the_jackknife_leaves_out_a_group_at_a_time():
    random = np.random.default_rng(2)
    sizes = random.integers(1, 50, 40).astype(float)
    sums = random.normal(sizes, 1)
    found = ratio_interval(sums, sizes, level=0.9)
    without = [np.delete(sums, g).sum() / np.delete(sizes, g).sum() for g in range(40)]
    error = math.sqrt(39 / 40 * sum((ratio - found.value) ** 2 for ratio in without))
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    assert found.effective == pytest.approx(effective)
    half = stats.t.ppf(0.95, effective - 1) * error
    assert found.high - found.low == pytest.approx(2 * half)
    assert sum(sums) / sum(sizes) == pytest.approx(found.value)
    (held,) = sum_groups(np.array([5, -1, 5, 2]), np.array([1.0, 2.0, 4.0, 8.0]))
    assert held.tolist() == [2.0, 8.0, 5.0]


def test_too_few_groups_have_no_interval():
    assert math.isnan(ratio_interval(np.arange(19.0), np.ones(19)).low)
    uneven = ratio_interval(np.arange(30.0), np.array([1000.0, *np.ones(29)]))
    assert math.isnan(uneven.high)
    assert uneven.groups == 30
    assert uneven.effective < 2
    assert math.isnan(ratio_interval(np.ones(1), np.ones(1)).standard_error)


def test_a_summary_has_the_intervals_of_its_units_over_groups():
    random = np.random.default_rng(3)
    drawn = [" ".join(random.choice(["é", "bb", "x"], 5)) for _ in range(60)]
    texts = [ScoredText(place, text, f"page {place // 2}") for place, text in enumerate(drawn)]
    found = measure(MODEL, VOCABULARY, texts, spell=lambda _, unknown: -2.0 * np.array(unknown))
    interval = found["interval"]
    assert (interval["groups"], interval["level"], interval["note"]) == (30, 0.95, "")
    rows = rows_of(texts)
    pages = [(rows[2 * page], rows[2 * page + 1]) for page in range(30)]
    bits = np.array([-sum(row.log_likelihood for row in page) / math.log(2) for page in pages])
    sizes = np.array([sum(row.bytes + 1 for row in page) for page in pages])
    expected = ratio_interval(bits, sizes)
    assert interval["bits"]["byte"] == pytest.approx([expected.low, expected.high])
    assert interval["effective_groups"] == pytest.approx(expected.effective)
    low, high = interval["perplexity"]["word"]
    assert low < found["perplexity"]["word"] < high
    assert interval["open_vocabulary"]["bits"]["byte"][0] > interval["bits"]["byte"][0]
    few = measure(MODEL, VOCABULARY, texts[:30])["interval"]
    assert (few["groups"], few["note"]) == (15, "fewer than 20 effective groups")
    impossible = measure(Fixed([0.0, 0.5, 0.0, 0.5, 0.0]), VOCABULARY, texts)["interval"]
    assert impossible["note"] == "a document is impossible"


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command on a file; return what it prints and the rows that it writes."""
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    save_model(tmp_path / "model", make("lstm", TINIEST, vocabulary.size), vocabulary, {})

    def done(name, content, *more):
        (tmp_path / name).write_text(content, encoding="utf-8")
        flags = ["--model", tmp_path / "model", "--text", tmp_path / name, "--tokenized"]
        flags += ["--device", "cpu", "--per-document", tmp_path / "a.parquet"]
        run_script(command, *flags, *more)
        rows = pq.read_table(tmp_path / "a.parquet", schema=DOCUMENT_SCORES).to_pylist()
        return json.loads(capsys.readouterr().out), rows

    return done


def test_the_command_writes_a_row_a_document(run):
    found, rows = run("text.txt", "a b\n\nb  b c\n")
    assert (found["tokens"], found["unknown"], found["documents"]) == (5, 1, 2)
    assert sum(row["log_likelihood"] for row in rows) == pytest.approx(found["log_prob"])
    assert [row["doc_id"] for row in rows] == [0, 2]  # places in the file
    assert [row["bytes"] for row in rows] == [3, 5]


def test_the_command_leaves_the_end_out_of_everything(run):
    found, rows = run("text.txt", "a b\nb\n", "--no-count-eos")
    whole, ended = run("text.txt", "a b\nb\n")
    assert sum(row["log_likelihood"] for row in rows) == pytest.approx(found["log_prob"])
    assert found["log_prob"] > whole["log_prob"]
    assert found["n"]["token"] == 3 == whole["n"]["token"] - 2
    assert [row["ended"] for row in rows] == [False, False]
    assert [row["ended"] for row in ended] == [True, True]
    expected = math.exp(-found["log_prob"] / 3)
    assert found["perplexity"]["token"] == pytest.approx(expected)


def test_the_command_takes_groups_where_the_file_has_them(run):
    lines = [{"text": "a b", "group": "x", "page": 1}, {"text": "b", "group": "y", "page": 1}]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    found, rows = run("text.jsonl", content)
    assert [row["group"] for row in rows] == ["x", "y"]
    assert found["interval"]["groups"] == 2
    found, rows = run("text.jsonl", content, "--group-column", "page")
    assert [row["group"] for row in rows] == ["1", "1"]
    assert found["interval"]["groups"] == 1
    with pytest.raises(InputError, match=r"text\.jsonl: line 1: field 'chapter'"):
        run("text.jsonl", content, "--group-column", "chapter")
    with pytest.raises(InputError, match=r"text\.txt: is plain text and has no 'page'"):
        run("text.txt", "a b\n", "--group-column", "page")
