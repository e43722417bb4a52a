"""Perplexity in its definitions, scoring, paired tests; the table, figure and command of these.

Oracles: the tutorial's dice and 16 tokens, a model enumerated by hand, single steps; Student's
interval and a jackknife written out; `scipy.stats.permutation_test`; noncentral t; `measure` of the
same texts; simulated levels.
"""

import json
import math
import sys
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from scipy import optimize, stats

from benchmarks.calibration_perplexity import Setting, calibrate
from beyond_perplexity.commands import perplexity as command
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import draw_figure, labels
from beyond_perplexity.inference import intervals, p_values
from beyond_perplexity.inference import p_values as sign_flips
from beyond_perplexity.models import likelihoods, registry
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.perplexities.options import PairOptions, ScoringOptions
from beyond_perplexity.perplexities.paired import (
    check_company,
    compare_scores,
    power_at,
    smallest_found,
)
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.perplexities.scored_texts import filled_documents, texts_of_split
from beyond_perplexity.perplexities.summary import (
    ScoredText,
    Totals,
    measure,
    perplexity_of,
    rows_table,
    score_rows,
    summarize,
)
from beyond_perplexity.report import bits_per_byte, tabulate
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES, PERPLEXITY_DIFFERENCES
from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.storage.shards import ShardWriter, check_schema
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit import small_corpora, text_pairs
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import TINIEST, TINY, Fixed, make
from tests.unit.synthetic_tables import make_differences


def random_documents(number, size, longest, seed=0):
    generator = np.random.default_rng(seed)
    draw = generator.integers
    return [draw(3, size, draw(0, longest)).astype(np.int32) for _ in range(number)]


@torch.no_grad()
def stepwise(model, ids):
    state, total = model.initial_state(1, len(ids) + 1), 0.0
    for before, after in zip([0, *ids], [*ids, 1], strict=True):
        logits, state = model.step(torch.tensor([before]), state)
        total += float(logits.double().log_softmax(1)[0, after])
    return total


def neural(family):
    short = {"context_length": 12} if family.startswith("transformer") else {}
    return make(family, {**TINY[family], **short}, 30)


def test_the_tutorials_dice_its_example_and_the_end_that_is_left_out():
    dice = ([1 / 6] * 6, 6.0), ([7 / 12] * 7 + [1 / 12] * 5, 3.857)
    for rolls, expected in (*dice, ([0.99] * 99 + [1 / 500] * 1, 1.0748)):
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
    # Oracle: the sum over everything that may come next, </s> and each word
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    model = make("lstm", TINIEST, vocabulary.size).double()
    texts = [[3], [4, 3], [2, 3, 4]]
    for ids in texts:
        longer = [np.array([*ids, word]) for word in (2, 3, 4)]
        open_ = [score.log_prob for score in score_encoded(model, longer, count_eos=False)]
        (whole,) = score_encoded(model, [np.array(ids)])
        (found,) = score_encoded(model, [np.array(ids)], count_eos=False)
        total = math.exp(whole.log_prob) + sum(map(math.exp, open_))
        assert math.exp(found.log_prob) == pytest.approx(total, rel=1e-6)
    model, texts = Fixed([0.0, 0.0, 0.5, 0.5]), [np.array([3, 2])]
    assert list(score_encoded(model, texts)) == [likelihoods.DocumentScore(-math.inf, 2, 1, 1)]
    (found,) = score_encoded(model, texts, count_eos=False)
    assert found == likelihoods.DocumentScore(pytest.approx(2 * math.log(0.5)), 2, 1, 0)
    share, ids = [0.0, 0.1, 0.2, 0.3, 0.4], np.array([3, 4, 2, 3, 3, 4, 4])
    for context, stride in ((None, None), (4, 2), (3, 3), (4, 1)):
        window = {"context_length": context, "stride": stride}
        (found,) = score_encoded(Fixed(share), [ids], count_eos=False, **window)
        assert found.log_prob == pytest.approx(sum(math.log(share[one]) for one in ids))


def test_every_unit_of_a_model_enumerated_by_hand_and_the_penalized_distribution_sums_to_one():
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
    word = found["unknown_penalized"]["perplexity"]["word"]
    assert word == pytest.approx(math.exp(-penalized / 7), rel=1e-6)
    # Known words as they are, each of U unknown types with p(<unk>) / U.
    vocabulary = ClosedVocabulary(["a"], unknown_types=4)
    model = Fixed([0.0, 0.25, 0.25, 0.5])
    end = math.log(0.25)
    words = ["a", "w1", "w2", "w3", "w4"]
    each = [measure(model, vocabulary, [word])["unknown_penalized"] for word in words]
    total = 0.25 + sum(math.exp(one["log_prob"] - end) for one in each)
    assert total == pytest.approx(1, abs=1e-6)


def test_impossible_text_has_no_finite_perplexity_and_scores_that_are_no_numbers_are_errors():
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    found = measure(Fixed([0.0, 0.5, 0.0, 0.5, 0.0]), vocabulary, ["a", "b a b", "a b"])
    assert found["infinite"]
    assert set(found["perplexity"].values()) == {None}
    assert (found["impossible_tokens"], found["impossible_documents"]) == (3, 2)
    assert "Infinity" not in json.dumps(found)
    # A row without any probability is impossible, and no NaN.
    scores = list(score_encoded(Fixed([0.0] * 5), [np.array([3], np.int32)]))
    assert scores == [likelihoods.DocumentScore(-math.inf, 1, 0, 2)]
    model = Fixed([0.25, 0.25, 0.25, math.nan])
    words = "doc_id 0: the model gives it the log-probability NaN"
    check_refused(words, measure, model, ClosedVocabulary(["a"], 0), ["a"])
    assert math.isnan(perplexity_of(math.nan, 3))
    assert perplexity_of(-math.inf, 3) == math.inf


@pytest.mark.parametrize("family", TINY)
def test_batches_equal_step_by_step_scoring(family):
    model, documents = neural(family), random_documents(40, 30, 12)
    expected = [stepwise(model, ids) for ids in documents]
    for batch_tokens in (1, 50, 10_000):
        scores = score_encoded(model, documents, batch_tokens=batch_tokens)
        found = [score.log_prob for score in scores]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_order_and_pools_do_not_matter_and_subwords_are_counted_as_tokens(monkeypatch):
    model, documents = neural("lstm"), random_documents(40, 30, 20)
    whole = [score.log_prob for score in score_encoded(model, documents)]
    monkeypatch.setattr("beyond_perplexity.models.likelihoods.POOL", 7)
    monkeypatch.setattr("beyond_perplexity.models.likelihoods.LOGIT_ROWS", 5)
    parts = [score.log_prob for score in score_encoded(model, documents)]
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-5)
    vocabulary = BPEVocabulary.build([["low lower lowest"] * 3], 262)
    model = make("lstm", TINIEST, vocabulary.size, open_vocabulary=True)
    found = measure(model, vocabulary, ["lower xyz"])
    assert found["n"]["token"] == len(vocabulary.encode(["lower xyz"])[0]) + 1
    assert ((found["n"]["word"], found["n"]["character"]), found["unknown"]) == ((3, 10), 0)
    assert "unknown_penalized" not in found
    (score,) = likelihoods.score_documents(model, vocabulary, ["lower xyz"])
    assert score.log_prob == found["log_prob"]


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
    assert (score.log_prob, score.tokens) == (pytest.approx(expected, abs=1e-5), len(ids))


def test_long_documents_are_scored_step_by_step_and_wrong_windows_are_named(monkeypatch):
    monkeypatch.setattr("beyond_perplexity.models.likelihoods.LOGIT_ROWS", 4)
    (score,) = score_encoded(Fixed([0.0, 0.5, 0.25, 0.25]), [np.full(9, 3)])
    assert score.log_prob == pytest.approx(9 * math.log(0.25) + math.log(0.5), abs=1e-6)
    model = neural("transformer")
    for given, words in (
        ((model, 13, None), "context_length: is 13, expected 1 to 12"),
        ((model, 8, 9), "stride: is 9, expected 1 to the context length, 8"),
        ((neural("lstm"), None, 4), "stride: has no meaning"),
    ):
        check_refused(words, likelihoods.check_window, *given)
    check_refused("nothing to score", summarize, Totals(), ClosedVocabulary(["a"], 0))


@pytest.mark.parametrize("fields", [[{}, {}], [{"page": "a"}, {}]])
def test_groups_that_a_text_lacks_are_told_in_the_words_of_the_command(tmp_path, fields):
    """One text alone has neither reference nor samples."""
    from beyond_perplexity.corpus.external import GroupField, read_grouped
    from beyond_perplexity.perplexities import scored_texts

    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a b"} | one) for one in fields))
    with pytest.raises(InputError, match=r"x\.jsonl: line \d: field 'page'.*is missing") as caught:
        list(read_grouped(path, None, GroupField("page", True, scored_texts._WHO)))
    assert "leave the group column out" in str(caught.value)
    assert "reference" not in str(caught.value)
    assert "samples" not in str(caught.value)


VOCABULARY = ClosedVocabulary(["é", "bb"], unknown_types=5)
MODEL = Fixed([0.0, 0.25, 0.125, 0.5, 0.125])  # <s> </s> <unk> é bb


def rows_of(texts, **options):
    return [row for rows in score_rows(MODEL, VOCABULARY, texts, **options) for row in rows]


def test_a_row_says_what_was_scored_raw_or_cleaned_and_what_the_model_says():
    texts = [ScoredText(7, "é  bb ", "page"), "é x"]
    first, second = rows_of(texts, spell=lambda texts, unknown: [-3.0] * len(texts))
    assert (first.doc_id, first.scored_text, first.group) == (7, "cleaned", "page")
    assert first.log_likelihood == pytest.approx(math.log(0.5 * 0.125 * 0.25), abs=1e-6)
    assert first.log_likelihood_open_vocabulary == pytest.approx(first.log_likelihood - 3)
    assert (first.tokens, first.words, first.characters, first.bytes) == (2, 2, 4, 5)
    assert first.text_hash == hash_bytes("é bb".encode())
    assert (second.doc_id, second.group, second.unknown, second.impossible) == (1, None, 1, 0)
    (row,) = rows_of(["é \tbb"], text="raw")
    assert (row.scored_text, row.words, row.characters, row.bytes) == ("raw", 2, 5, 6)
    assert row.text_hash == hash_bytes("é \tbb".encode()) != rows_of(["é bb"])[0].text_hash
    assert row.log_likelihood_open_vocabulary is None
    # printf 'the same text' | b2sum -l 64
    digest = bytes.fromhex("6342281f14c1a306")
    assert hash_bytes(b"the same text") == int.from_bytes(digest, "little", signed=True)
    assert len({hash_bytes(bytes([byte])) for byte in range(256)}) == 256


def test_rows_are_written_and_the_documents_of_a_page_are_a_group(tmp_path):
    texts, splits = ["é", "bb", "bb bb", "é é"], ["test", "train", "test", "test"]
    path = tmp_path / "documents.parquet"
    path = small_corpora.write_documents(path, texts, splits, ["A", "A", "A", ""], [3, 5, 8, 9])
    with ShardWriter(tmp_path / "rows.parquet", DOCUMENT_SCORES, {}) as writer:
        for rows in score_rows(MODEL, VOCABULARY, texts_of_split(path, "test", grouped=True)):
            writer.write(rows_table(rows))
    held = check_schema(tmp_path / "rows.parquet", DOCUMENT_SCORES).read().to_pydict()
    assert (held["doc_id"], held["group"]) == ([3, 8, 9], ["A", "A", None])
    assert held["title"] == held["group"]
    assert held["log_likelihood_open_vocabulary"] == [None] * 3
    kept = list(texts_of_split(path, "test"))  # the split keeps no pages whole
    assert [(item.group, item.title) for item in kept] == [(None, "A"), (None, "A"), (None, None)]


def test_the_interval_of_equal_groups_is_students_and_the_jackknife_leaves_one_out_at_a_time():
    random = np.random.default_rng(1)
    sums = random.exponential(size=30)
    found = intervals.ratio_interval(sums, np.full(30, 4.0))
    low, high = stats.t.interval(0.95, 29, sums.mean() / 4, stats.sem(sums) / 4)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.groups, found.effective) == (30, pytest.approx(30))
    sizes = random.integers(1, 50, 40).astype(float)
    sums = random.normal(sizes, 1)
    found = intervals.ratio_interval(sums, sizes, level=0.9)
    without = [np.delete(sums, g).sum() / np.delete(sizes, g).sum() for g in range(40)]
    error = math.sqrt(39 / 40 * sum((ratio - found.value) ** 2 for ratio in without))
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    assert found.effective == pytest.approx(effective)
    half = stats.t.ppf(0.95, effective - 1) * error
    assert found.high - found.low == pytest.approx(2 * half)
    assert sum(sums) / sum(sizes) == pytest.approx(found.value)
    (held,) = intervals.sum_groups(np.array([5, -1, 5, 2]), np.array([1.0, 2.0, 4.0, 8.0]))
    assert held.tolist() == [2.0, 8.0, 5.0]
    assert math.isnan(intervals.ratio_interval(np.arange(19.0), np.ones(19)).low)
    uneven = intervals.ratio_interval(np.arange(30.0), np.array([1000.0, *np.ones(29)]))
    assert math.isnan(uneven.high)
    assert uneven.groups == 30
    assert uneven.effective < 2
    assert math.isnan(intervals.ratio_interval(np.ones(1), np.ones(1)).standard_error)


def halls(x, s):
    return x + s * x**2 / 3 + s**2 * x**3 / 27 + s / 6


@pytest.mark.parametrize("groups", [25, 40, 90])
def test_a_ratio_is_tested_by_halls_t_and_its_interval_has_what_is_not_rejected(groups):
    """Oracles: loops, SciPy's t, roots of the polynomial, and the test of every other ratio."""
    random = np.random.default_rng(groups)
    sizes = np.exp(random.normal(0, 0.4, groups))
    sums = sizes * (0.3 * np.log(sizes) + random.exponential(size=groups) - 1)
    found = intervals.ratio_test(sums, sizes)
    plain = intervals.ratio_interval(sums, sizes)
    assert found.interval[3:] == plain[3:]
    value, error = plain.value, plain.standard_error
    left = [x - value * size for x, size in zip(sums, sizes, strict=True)]
    square = sum(u**2 for u in left)
    skewness = sum(u**3 for u in left) / square**1.5
    freedom = min(2 * square**2 / sum(u**4 for u in left) - 1, plain.effective - 1)
    assert found.df == pytest.approx(freedom)
    tail = stats.t.sf(abs(halls(value / error, skewness)), freedom)
    assert found.p_value == pytest.approx(2 * tail)
    quantile = stats.t.ppf(0.975, freedom)
    low, high = (
        value - error * optimize.brentq(lambda x, end=end: halls(x, skewness) - end, -99, 99)
        for end in (quantile, -quantile)
    )
    assert found.interval[1:3] == pytest.approx((low, high))
    assert abs((low + high) / 2 - value) > 0.01 * error  # the longer side is that of the tail
    for truth, expected in ((low, 0.05), (high, 0.05), (high + error / 9, 0.0), (value, 1.0)):
        p_value = intervals.ratio_test(sums - truth * sizes, sizes).p_value
        if expected == 0.05:
            assert p_value == pytest.approx(0.05)
        else:
            assert (p_value < 0.05) == (expected < 0.05)


def test_a_symmetric_ratio_is_students_equal_ones_have_p_1_and_signs_give_nearly_the_same():
    sums = np.tile([3.0, -3.0], 15) + 1
    found = intervals.ratio_test(sums, np.full(30, 4.0))
    assert found.p_value == pytest.approx(stats.ttest_1samp(sums, 0).pvalue)
    limits = stats.t.interval(0.95, 29, 0.25, stats.sem(sums) / 4)
    assert found.interval[1:3] == pytest.approx(limits)
    nothing = intervals.ratio_test(np.zeros(30), np.ones(30))
    assert (nothing.p_value, nothing.interval.low, nothing.interval.high) == (1, 0, 0)
    assert intervals.ratio_test(np.ones(30), np.ones(30)).p_value == 0
    assert math.isnan(intervals.ratio_test(np.ones(1), np.ones(1)).p_value)
    tested = []
    for seed in range(60):  # all 2^10 signs are tried
        bits = np.random.default_rng(seed).normal([0.3, 0], size=(10, 2))
        (exact,) = p_values.sign_flip_p_values(bits, PAIR, 1, 0)
        tested.append((exact, intervals.ratio_test(bits @ [1, -1], np.ones(10)).p_value))
    exact, found = np.array(tested).T
    assert np.mean(np.abs(found - exact)) < 0.05
    assert np.corrcoef(exact, found)[0, 1] > 0.97


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
    expected = intervals.ratio_test(bits, sizes).interval
    assert interval["bits"]["byte"] == pytest.approx([expected.low, expected.high])
    words = np.array([sum(row.words + 1 for row in page) for page in pages])
    for unit, weights in (("byte", sizes), ("word", words)):
        kish = weights.sum() ** 2 / (weights**2).sum()
        assert interval["effective_groups"][unit] == pytest.approx(kish)
    beside = found["interval_by_document"]
    assert (beside["groups"], beside["note"]) == (60, "")
    own = [(-row.log_likelihood / math.log(2), row.bytes + 1) for row in rows]
    expected = intervals.ratio_test(*np.array(own).T).interval
    assert beside["bits"]["byte"] == pytest.approx([expected.low, expected.high])
    low, high = interval["perplexity"]["word"]
    assert low < found["perplexity"]["word"] < high
    assert interval["open_vocabulary"]["bits"]["byte"][0] > interval["bits"]["byte"][0]
    few = measure(MODEL, VOCABULARY, texts[:30])
    assert few["interval"]["groups"] == 15
    assert few["interval"]["note"] == "fewer than 20 effective groups"
    assert few["interval"]["bits"]["byte"] == [None, None]
    assert few["interval_by_document"]["bits"]["byte"][0] is not None
    titled = [item._replace(group=None, title=item.group) for item in texts[:30]]
    assert measure(MODEL, VOCABULARY, titled) == few
    assert "interval_by_document" not in measure(MODEL, VOCABULARY, drawn)
    impossible = measure(Fixed([0.0, 0.5, 0.0, 0.5, 0.0]), VOCABULARY, texts)["interval"]
    assert impossible["note"] == "a document is impossible"


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command on a file; return what it prints and the rows that it writes."""
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    registry.save_model(tmp_path / "model", make("lstm", TINIEST, vocabulary.size), vocabulary, {})

    def done(name, content, *more):
        (tmp_path / name).write_text(content, encoding="utf-8")
        flags = ["--model", tmp_path / "model", "--text", tmp_path / name, "--tokenized"]
        flags += ["--device", "cpu", "--per-document", tmp_path / "a.parquet"]
        text_pairs.run_script(command, *flags, *more)
        rows = pq.read_table(tmp_path / "a.parquet", schema=DOCUMENT_SCORES).to_pylist()
        return json.loads(capsys.readouterr().out), rows

    return done


def test_the_command_writes_a_row_a_document_and_can_leave_the_end_out_of_everything(run):
    found, rows = run("text.txt", "a b\n\nb  b c\n")
    assert (found["tokens"], found["unknown"], found["documents"]) == (5, 1, 2)
    assert sum(row["log_likelihood"] for row in rows) == pytest.approx(found["log_prob"])
    assert [row["doc_id"] for row in rows] == [0, 2]  # places in the file
    assert [row["bytes"] for row in rows] == [3, 5]
    found, rows = run("text.txt", "a b\nb\n", "--no-count-eos")
    whole, ended = run("text.txt", "a b\nb\n")
    assert sum(row["log_likelihood"] for row in rows) == pytest.approx(found["log_prob"])
    assert found["log_prob"] > whole["log_prob"]
    assert found["n"]["token"] == 3 == whole["n"]["token"] - 2
    assert [row["ended"] for row in rows + ended] == [False, False, True, True]
    assert found["perplexity"]["token"] == pytest.approx(math.exp(-found["log_prob"] / 3))


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


PAIR = [(0, 1)]


def scores(models=2, documents=60, pages=30, seed=0):
    """Columns of several models on the same documents, two a page."""
    random = np.random.default_rng(seed)
    size = random.integers(20, 400, documents)
    topic = -size * random.normal(1, 0.1, documents)
    shared = {"doc_id": np.arange(100, 100 + documents), "bytes": size}
    shared |= {"group": [f"page {place % pages}" for place in range(documents)]}
    shared |= {"text_hash": random.integers(-(2**62), 2**62, documents)}
    return [
        {**shared, "log_likelihood": topic * (1 + 0.02 * k) + random.normal(0, 2, documents)}
        for k in range(models)
    ]


def write(path, columns):
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return str(path)


def compared(paths, **options):
    files = [one for path in paths for one in read_scores(path)]
    names = {path: path.rsplit("/", 1)[1].split(".")[0] for path in paths}
    return compare_scores(files, names, PairOptions((), **options)).to_pylist()


def together(folder, *columns, suffix="parquet", **options):
    """Compare models whose scores are written: rows of each, then of the pairs."""
    return compared(saved(folder, columns, suffix), **options)


def saved(folder, columns, suffix="parquet"):
    return [write(folder / f"{'abcdef'[k]}.{suffix}", one) for k, one in enumerate(columns)]


@pytest.mark.parametrize("groups", [5, 8, 11])
def test_all_signs_give_scipys_p_value(groups):
    bits = np.random.default_rng(groups).normal([0.4, 0], size=(groups, 2))
    sides = bits[:, 0], bits[:, 1]
    how = {"permutation_type": "samples", "n_resamples": np.inf, "vectorized": True}
    expected = stats.permutation_test(sides, lambda x, y, axis: np.sum(x - y, axis=axis), **how)
    (found,) = p_values.sign_flip_p_values(bits, PAIR, 1, 0)
    assert found == pytest.approx(expected.pvalue, abs=1e-12)


def test_drawn_signs_come_near_all_whatever_is_held_or_stands_beside(monkeypatch):
    bits = np.random.default_rng(3).normal([0.5, 0], size=(14, 2))
    (exact,) = p_values.sign_flip_p_values(bits, PAIR, 1, 0)
    monkeypatch.setattr(sign_flips, "EXACT_GROUPS", 0)
    (drawn,) = p_values.sign_flip_p_values(bits, PAIR, 19_999, 0)
    assert drawn == pytest.approx(exact, abs=5 * np.sqrt(exact / 20_000))
    assert 0.01 < exact < 0.5
    bits = np.random.default_rng(4).normal([0.2, 0, -0.1], size=(130, 3))
    pairs = [(0, 1), (0, 2), (1, 2)]
    found = p_values.sign_flip_p_values(bits, pairs, 700, 5)
    monkeypatch.setattr(sign_flips, "CELLS", 1000)
    assert p_values.sign_flip_p_values(bits, pairs, 700, 5) == found
    assert p_values.sign_flip_p_values(bits[:, 1:], PAIR, 700, 5) == found[2:]
    assert p_values.sign_flip_p_values(bits, pairs, 700, 6) != found


def test_equal_models_have_p_1_ties_count_and_flips_must_do_for_the_tests():
    bits = np.random.default_rng(5).normal(size=(40, 1)) * np.ones(2)
    assert p_values.sign_flip_p_values(bits, PAIR, 99, 0) == [1.0]
    ones = np.array([[0.1, 0.0]] * 4)  # |sum| of 4 tenths: of 16 signs two are as large
    assert p_values.sign_flip_p_values(ones, PAIR, 99, 0) == [2 / 16]
    flip_warning = partial(p_values.draw_warning, name="flips")
    assert flip_warning(1, 9999) == flip_warning(49, 9999) == flip_warning(0, 1) == ""
    assert flip_warning(50, 9999).endswith("50 tests: 10,000 are needed")
    assert flip_warning(50, 10_000) == ""
    both = "p < 0.05 in a family of 500 tests: 100,000 are needed for p < 0.005"
    assert flip_warning(500, 9999).endswith(both)


def test_the_smallest_difference_has_a_power_of_80_percent_and_equal_scores_find_none(tmp_path):
    found = intervals.ratio_test(np.tile([2.0, -2.0], 20), np.ones(40))  # Student's, symmetric
    assert found.df == pytest.approx(39)
    center = smallest_found(found) / found.interval.standard_error
    limit = stats.t.ppf(0.975, 39)
    power = stats.nct.sf(limit, 39, center) + stats.nct.cdf(-limit, 39, center)
    assert power == pytest.approx(0.8, abs=0.01)
    assert power_at(found, smallest_found(found)) == pytest.approx(0.8, abs=0.02)
    # A standard error of 0 is no proof that any difference would be found
    one, other = scores(documents=160, pages=80)
    rows = together(tmp_path, one, one, other)
    pairs = {(row["first"], row["second"]): row for row in rows if row["second"]}
    same, others = pairs["a", "b"], pairs["a", "c"]
    assert (same["detectable"], same["power"], same["value"], same["p_value"]) == (None, None, 0, 1)
    assert "both give every document the same likelihood" in same["note"]
    assert others["detectable"] > 0
    nearly = one | {"log_likelihood": one["log_likelihood"] - (np.arange(160) == 3)}
    assert together(tmp_path, one, nearly)[2]["detectable"] is None  # one group tells nothing
    assert "same likelihood" not in others["note"]


@pytest.mark.parametrize(
    "setting", [Setting(26, "equal", "normal"), Setting(100, "drawn", "normal", 3.0)]
)
def test_level_coverage_and_power_by_simulation(setting):
    """A small, seeded case of `benchmarks.calibration_perplexity`; 3 binomial errors of room."""
    found, _ = calibrate(setting, 300)
    room = 3 * np.sqrt(0.05 * 0.95 / 300)
    assert found["level"] <= 0.05 + room
    assert found["coverage"] >= 0.95 - room
    assert found["own"] >= 0.95 - room > 0.8 > found["by document"]
    if setting.groups == 100:  # halves of 26 pages are too small
        assert abs(found["promised"] - found["printed"]) < 0.1
    assert found["paired"] > found["unpaired"] + 0.1
    # What depends on the size of a page is rejected too often by effective groups alone.
    assert (found["plain"] > 0.05 + room) == (setting.slope > 0)


@pytest.mark.parametrize("ids", [{}, {"doc_id": [f"text {k}" for k in range(400)]}])
def test_documents_of_pages_that_nobody_named_are_warned_of_and_taken_together(tmp_path, ids):
    """Two models that are as good on 40 pages of 10 documents, which the files do not name."""
    rng, size = np.random.default_rng(2), np.full(400, 50)
    pages = np.repeat(rng.normal(size=(2, 40)), 10, axis=1)
    keys = ids | {"bytes": size, "text_hash": np.arange(400) // 10}
    both = [keys | {"log_likelihood": -size * (3 + 0.3 * own)} for own in pages]
    own, _, pair = together(tmp_path, *both)
    for row in (own, pair):
        assert "there are no pages or groups" in row["note"]
        assert "documents side by side are alike (rank correlation 0." in row["note"]
        assert "90.0% of the documents of 40 bytes or more repeat an earlier one" in row["note"]
    named = [one | {"group": np.arange(400) // 10} for one in both]
    expected = together(tmp_path, *named)[2]
    found = together(tmp_path, *both, group_size=10)[2]
    assert found == pytest.approx(expected)
    assert (found["groups"], found["note"]) == (40, "")
    assert found["high"] - found["low"] > 2 * (pair["high"] - pair["low"])
    with pytest.raises(InputError, match="column 'group' has the groups of its documents; leave"):
        together(tmp_path, *named, group_size=10)


def test_documents_in_a_row_are_scored_as_groups_where_they_name_none(tmp_path):
    plain, named = tmp_path / "plain.txt", tmp_path / "named.jsonl"
    plain.write_text("a\n\nb\nc\nd\n", encoding="utf-8")
    found = filled_documents(ScoringOptions("model", plain, group_size=2), None)
    groups = [(one.doc_id, one.group) for one in found]
    assert groups == [(0, "0"), (2, "0"), (3, "1"), (4, "1")]  # what is blank counts for nothing
    named.write_text('{"text": "a", "group": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"named\.jsonl: names its groups; leave the group size"):
        list(filled_documents(ScoringOptions("model", named, group_size=2), None))


def test_a_pair_differs_by_the_difference_of_bits_from_any_program_in_any_order(tmp_path):
    first, second = scores()
    own_a, own_b, pair = together(tmp_path, first, second)
    size = (first["bytes"] + 1).sum()
    for row, held in ((own_a, first), (own_b, second)):
        assert row["value"] == pytest.approx(-held["log_likelihood"].sum() / np.log(2) / size)
    assert pair["value"] == pytest.approx(own_a["value"] - own_b["value"])
    assert (pair["first"], pair["second"], pair["groups"]) == ("a", "b", 30)
    assert pair["low"] < pair["value"] < pair["high"]
    assert pair["p_adjusted"] == pair["p_value"] < 0.05
    assert pair["high"] - pair["low"] < own_a["high"] - own_a["low"]
    order = np.random.default_rng(0).permutation(60)
    turned = {name: np.asarray(column)[order] for name, column in second.items()}
    assert together(tmp_path, first, turned)[2] == pytest.approx(pair)
    plain = [{name: one[name] for name in ("bytes", "log_likelihood")} for one in scores()]
    by_order = compared(saved(tmp_path, plain, "csv"))[2]
    assert by_order["groups"] == by_order["documents"] == 60
    assert by_order["note"] == "there are no pages or groups: each document is one"
    for row in (own_a, pair):  # by page, and beside it by document
        limits = by_order if row is pair else compared(saved(tmp_path, plain, "csv"))[0]
        assert row["low_by_document"] == pytest.approx(limits["low"])
        assert row["high_by_document"] == pytest.approx(limits["high"])
        assert limits["low_by_document"] is None
        assert row["note"] == ""
    with_ids, _ = scores()
    del with_ids["group"], with_ids["text_hash"]
    paths = [write(tmp_path / "a.parquet", with_ids), str(tmp_path / "b.csv")]
    assert compared(paths)[2] == pytest.approx(by_order)
    assert abs(compared(paths, no_count_eos=True)[2]["value"]) > abs(by_order["value"])


def test_scores_with_the_end_of_documents_are_not_compared_without_it(tmp_path):
    """Where a file says what its scores have; others are taken as the flag has it."""
    first, second = scores()
    expected = together(tmp_path, first, second, no_count_eos=True)[2]
    mixed = [True] * 30 + [False] * 30
    for suffix in ("csv", "parquet"):
        for ended, no_end, words in (
            ([False] * 60, True, ""),
            ([False] * 60, False, r"without the end of documents; give no count eos"),
            ([True] * 60, True, r"with the end of each document; score again with"),
            (mixed, True, r"(line 32|row 31).*ended is 'false'; give true in all"),
        ):
            held = {**first, "ended": ended}, {**second, "ended": ended}
            how = {"suffix": suffix, "no_count_eos": no_end}
            if words:
                check_refused(words, together, tmp_path, *held, **how)
            else:
                assert together(tmp_path, *held, **how)[2] == expected


def test_documents_may_have_names_and_groups_of_one_file_are_those_of_all(tmp_path):
    first, second = scores()
    expected = together(tmp_path, first, second)[2]
    order = np.random.default_rng(1).permutation(60)
    second = {name: np.asarray(column)[order] for name, column in second.items()}
    parts = [{**one, "doc_id": [f"№ {n}" for n in one["doc_id"]]} for one in (first, second)]
    for suffix in ("csv", "parquet"):
        found = compared(saved(tmp_path, parts, suffix))[2]
        assert found["value"] == pytest.approx(expected["value"])
        assert found["low"] == pytest.approx(expected["low"])
    first, second = scores()
    plain = {name: column for name, column in second.items() if name != "group"}
    assert together(tmp_path, first, plain)[2] == pytest.approx(expected)
    numbered = [{**one, "group": [int(n[5:]) for n in one["group"]]} for one in (first, second)]
    assert compared(saved(tmp_path, numbered))[2] == pytest.approx(expected)
    alone = [{**one, "group": [None] * 60} for one in (first, second)]
    assert compared(saved(tmp_path, alone))[2]["groups"] == 60
    some = [{**one, "group": [None] * 9 + one["group"][9:]} for one in (first, second)]
    assert compared(saved(tmp_path, some))[2]["groups"] == 39
    # pages stand in for groups where none are named, and groups go first
    titled = [{**one, "title": one["group"], "group": [None] * 60} for one in (first, second)]
    assert compared(saved(tmp_path, titled))[2] == pytest.approx(expected)
    titled[0]["group"] = [f"part {place // 30}" for place in range(60)]
    assert compared(saved(tmp_path, titled))[2]["groups"] == 2
    titled[1]["title"] = titled[1]["title"][::-1]
    titled[0]["group"] = [None] * 60
    check_refused(r"b\.parquet: row 1: has another title", compared, saved(tmp_path, titled))


def test_spelled_log_likelihoods_are_taken_and_free_spelling_is_said(tmp_path):
    first, second = scores()
    unknown = np.arange(60) % 2
    name = "log_likelihood_open_vocabulary"
    spelled = {**first, "unknown": unknown, name: first["log_likelihood"] - 9}
    own_a, _, pair = together(tmp_path, spelled, second)
    paid = {**first, "log_likelihood": first["log_likelihood"] - 9}
    assert pair["value"] == together(tmp_path, paid, second)[2]["value"]
    assert (own_a["open_vocabulary"], own_a["note"], pair["note"]) == (True, "", "")
    free = {**first, "unknown": unknown, name: pa.nulls(60, pa.float64())}
    own_a, own_b, pair = together(tmp_path, free, second)
    assert "a: the spelling of unknown words is not penalized" in pair["note"]
    assert own_a["note"] == pair["note"] != own_b["note"] == ""
    second["log_likelihood"][[7, 9]] = -np.inf
    paths = saved(tmp_path, [first, second])
    words = r"b\.parquet: row 8: the log-likelihood is −inf: .* \(2 in all\)"
    check_refused(words, compared, paths)
    infinite, own = compared(paths, leave_out_infinite=True)
    assert (own["first"], infinite["first"], infinite["value"]) == ("a", "b", np.inf)
    assert infinite["note"] == "2 of 60 documents are impossible"


def test_models_are_compared_on_shared_texts_and_few_groups_give_no_verdict(tmp_path):
    first, second, third = scores(3)
    names = ("doc_id", "bytes", "log_likelihood")
    both = {name: np.concatenate([second[name], third[name]]) for name in names}
    kinds = ["raw"] * 60 + ["cleaned"] * 60
    cleaned, mixed = {**first, "scored_text": ["cleaned"] * 60}, {**both, "scored_text": kinds}
    rows = together(tmp_path, cleaned, mixed, mixed)
    pairs = sorted((r["scored_text"], r["first"] + r["second"]) for r in rows if r["second"])
    assert pairs == [("cleaned", "ab"), ("cleaned", "ac"), ("cleaned", "bc"), ("raw", "bc")]
    assert [r["scored_text"] for r in rows if not r["second"]].count("raw") == 2
    smallest = min(r["p_value"] for r in rows if r["second"])
    assert min(r["p_adjusted"] for r in rows if r["second"]) == pytest.approx(4 * smallest)
    *own, pair = compared(saved(tmp_path, scores(pages=19)))
    assert pair["note"] == "fewer than 20 effective groups: no verdict"
    assert 0 < pair["p_value"] <= 1
    assert [pair[name] for name in ("low", "high", "p_adjusted", "detectable")] == [None] * 4
    assert own[0]["low"] is None
    assert own[0]["low_by_document"] < own[0]["value"] < own[0]["high_by_document"]
    (one,) = scores(1)
    one["log_likelihood_open_vocabulary"] = one["log_likelihood"]
    for place in (0, 30, 59):
        given = changed("log_likelihood_open_vocabulary", place, None)(one)
        path = write(tmp_path / "a.parquet", given)
        words = rf"row {place + 1}: log_likelihood_open_vocabulary is empty or NaN"
        check_refused(words, read_scores, path)


def changed(name, place, value):
    def change(one):
        column = list(one[name])
        column[place] = value
        return {**one, name: column}

    return change


def without(name):
    return lambda one: {key: column for key, column in one.items() if key != name}


def cut(one):
    return {name: column[:59] for name, column in one.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed("log_likelihood", 4, np.nan), r"b\.parquet: row 5: log_likelihood is nan"),
        (changed("log_likelihood", 4, 0.5), r"b\.parquet: row 5: log_likelihood is 0\.5"),
        (changed("log_likelihood", 4, None), r"b\.parquet: row 5: log_likelihood is empty or NaN;"),
        (changed("bytes", 2, 0), r"b\.parquet: row 3: bytes is 0, expected at least one byte"),
        (changed("bytes", 2, 1.5), r"b\.parquet: row 3: column 'bytes' .* invalid value 1\.5"),
        (changed("bytes", 2, 999), r"b\.parquet: row 3: has another bytes than .*a\.parquet: row"),
        (changed("doc_id", 3, 100), r"b\.parquet: row 4: an earlier row has its doc_id too"),
        (changed("doc_id", 3, None), r"b\.parquet: row 4: doc_id is empty"),
        (changed("doc_id", 3, 7), r"b\.parquet: row 4: .* that .*a\.parquet does not have"),
        (changed("text_hash", 5, 1), r"b\.parquet: row 6: has another text_hash than"),
        (changed("group", 6, "page 9"), r"b\.parquet: row 7: has another group than"),
        (cut, r"a\.parquet: row 60: .* that .*b\.parquet does not have"),
        (lambda one: cut(without("doc_id")(one)), r"b\.parquet: has 59 rows, .* has 60"),
        (without("bytes"), r"b\.parquet: column 'bytes' is missing"),
        (lambda one: {n: c[:0] for n, c in one.items()}, r"b\.parquet: has no rows"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_file_and_row(tmp_path, change, words):
    first, second = scores()
    paths = saved(tmp_path, [first, change(second)])
    with pytest.raises(InputError, match=words) as error:
        compared(paths)
    assert "\n" not in str(error.value)


def test_wrong_values_and_missing_files_are_named_and_other_texts_are_no_company(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("bytes,log_likelihood\n12,-3.5\n9,nought\n")
    check_refused(r"a\.csv: line 3: .*'nought'", read_scores, str(path))
    for name in ("no.parquet", "no.csv", "no.csv.gz"):
        check_refused(rf"{name}: no such file$", read_scores, str(tmp_path / name))
    first, second = scores()
    parts = [{**first, "scored_text": ["cleaned"] * 60}, {**second, "scored_text": ["raw"] * 60}]
    files = [one for path in saved(tmp_path, parts) for one in read_scores(path)]
    check_refused(r"a\.parquet: is scored on cleaned text and no other", check_company, files)
    (silent,) = read_scores(write(tmp_path / "c.parquet", first))
    check_refused(r"c\.parquet: does not say which text", check_company, [*files, silent])
    check_company([files[0], silent])
    check_refused(r"a\.parquet: is the only file", check_company, files[:1])


NAME = "tendencies/perplexity_differences"


def differences(folder, models=3, texts=("cleaned",)):
    """Rows of some models, one of them infinite."""
    parts = scores(models)
    parts[-1]["log_likelihood"][0] = -np.inf
    rows = compared(saved(folder, parts), leave_out_infinite=True)
    frames = [pd.DataFrame(rows, columns=PERPLEXITY_DIFFERENCES.names) for _ in texts]
    return pd.concat([f.assign(scored_text=text) for f, text in zip(frames, texts, strict=True)])


def made(rows):
    given = {"perplexity_differences": rows}
    return tabulate(NAME, given, labels.Labels()), draw_figure(NAME, given, labels.Labels())


def texts_of(axis):
    return [text.get_text() for text in axis.texts]


def test_tables_have_a_row_a_model_and_pair_and_figures_a_row_of_panels_a_text(tmp_path):
    rows = differences(tmp_path)
    table, _ = made(rows)
    pair = rows[rows["second"].notna()].iloc[0]
    assert [cells[1:3] for cells in table.rows] == [["a", ""], ["b", ""], ["c", ""], ["a", "b"]]
    beside = ["low_by_document", "high_by_document"]
    assert (table.rows[2][3], table.rows[2][-1]) == ("∞", "1 of 60 documents are impossible")
    assert table.rows[3][3] == f"{pair['value']:+.4f}**".replace("-", "−")
    assert table.rows[3][5] == "[{:+.4f}, {:+.4f}]".format(*pair[beside]).replace("-", "−")
    assert table.rows[3][9] == f"30 ({pair['groups_effective']:.0f} effective)"
    assert "two trained models" in table.note
    assert len(table.tidy) == 4
    assert ",30," in table.tidy.to_csv()  # a count, though an infinite model has none
    _, figure = made(differences(tmp_path, texts=("cleaned", "raw")))
    assert [axis.get_title() for axis in figure.axes[::2]] == ["cleaned text", "raw text"]
    _, figure = made(differences(tmp_path, 1))
    assert texts_of(figure.axes[0]) == ["∞"]
    assert not figure.axes[1].get_visible()
    said = bits_per_byte.describe_differences(differences(tmp_path), labels.Labels())
    models, pairs = (line for line in said.splitlines() if line.startswith("Model"))
    assert "p adjusted" not in models
    assert "less model" not in models
    assert "p adjusted" in pairs


def test_the_figure_colours_what_was_found_and_says_how_sure_it_is(tmp_path):
    rows = differences(tmp_path, 4)
    pairs = rows["second"].notna()
    hidden = pairs & (rows["first"] == "b")
    rows.loc[hidden, "p_adjusted"] = 0.5
    _, figure = made(rows)
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["a", "b", "c", "d"]
    assert texts_of(left) == ["∞"]
    written = texts_of(right)
    assert len(written) == 2 * pairs.sum() == 6
    row = rows[pairs].iloc[0]
    half = (row["high"] - row["low"]) / 2
    number, error = written[0].split("\n")
    assert float(number.rstrip("*").replace("−", "-")) == pytest.approx(row["value"], abs=1e-3)
    assert float(error.removeprefix("±")) == pytest.approx(half, abs=1e-3)
    (image,) = right.images
    shades = np.asarray(image.get_array().filled(np.nan))
    assert shades.shape == (4, 3)  # no column for what is infinite
    assert np.isnan(shades[1, 2])
    assert shades[0, 1] < 0 < shades[1, 0]


@pytest.mark.parametrize(("models", "texts", "kept"), [(34, 1, 30), (24, 2, 19), (13, 1, 13)])
def test_very_many_models_fit_on_a_page_and_those_left_out_are_counted(models, texts, kept):
    """Oracle: the page of 6.8 by 9.4 inches, and the order of the models' bits."""
    names = [f"m{k}" for k in range(models)]
    rows = [make_differences(names).assign(scored_text=text) for text in ("cleaned", "raw")[:texts]]
    _, figure = made(pd.concat(rows))
    assert figure.get_figwidth() == 6.8
    assert figure.get_figheight() <= 9.4
    for left, right in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        assert [tick.get_text() for tick in left.get_yticklabels()] == names[:kept]
        assert texts_of(right) == ["**"] * (kept * (kept - 1))
        told = f"{models - kept} more models, of more\nbits, are in the table"
        assert (told in left.get_xlabel()) == (models > kept)


def test_the_command_prints_writes_and_warns(tmp_path, capsys, monkeypatch):
    paths = saved(tmp_path, scores(3))
    outputs = ["--csv", str(tmp_path / "d.csv"), "--output", str(tmp_path / "d.parquet")]
    monkeypatch.setattr(sys, "argv", ["compare_perplexity", *paths, *outputs])
    run_function("compare_perplexity")
    printed = capsys.readouterr().out
    held = check_schema(tmp_path / "d.parquet", PERPLEXITY_DIFFERENCES).read().to_pandas()
    written = pd.read_csv(tmp_path / "d.csv")
    np.testing.assert_allclose(written["value"], held["value"], rtol=1e-15)
    assert (len(held), held["second"].notna().sum()) == (6, 3)
    assert "Row less column:" in printed
    assert "only several trainings (seeds) of each can say something" in " ".join(printed.split())
    assert "by document" in printed
    assert max(map(len, printed.splitlines())) <= 120
    # two files of one name go by their paths
    paths = []
    for folder, one in zip("xy", scores(), strict=True):
        (tmp_path / folder).mkdir()
        paths += saved(tmp_path / folder, [one])
    monkeypatch.setattr(sys, "argv", ["compare_perplexity", *paths])
    run_function("compare_perplexity")
    printed = capsys.readouterr().out
    assert all(path in printed for path in paths)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["{0}", "{0}"], "is given twice"),
        (["{0}"], "a.parquet: is the only file; give the scores of another model too"),
        (["{0}", "nowhere.csv"], "nowhere.csv: "),
    ],
)
def test_wrong_flags_are_one_line(tmp_path, monkeypatch, capsys, flags, words):
    from beyond_perplexity.errors import run_command

    paths = saved(tmp_path, scores())
    given = [flag.format(*paths) for flag in flags]
    monkeypatch.setattr(sys, "argv", ["compare_perplexity", *given])
    with pytest.raises(SystemExit):
        run_command(lambda: run_function("compare_perplexity"))
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
