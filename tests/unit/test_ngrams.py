"""Counting and estimating n-grams, and texts of sentences.

Oracles: Kneser–Ney from its definition in dictionaries (`kneser_ney_reference`); sums over the
vocabulary; the same text in one part and in many; `lmplz` on WikiText-2, where it is at hand.
"""

from __future__ import annotations

import gzip
import logging
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.ngrams import counts as counting
from beyond_perplexity.ngrams.counts import (
    count_ngrams,
    count_parts,
    extend_words,
    join_sentences,
    last_words,
    prefix_places,
)
from beyond_perplexity.ngrams.kneser_ney import (
    check_pruning,
    choose_discounts,
    estimate_backoff,
    score_tokens,
)
from beyond_perplexity.ngrams.sentence_files import (
    UnknownRule,
    WordIds,
    read_line_blocks,
    read_sentence_texts,
    read_sentences,
)
from tests.unit.kneser_ney_reference import PlainKneserNey

V = 20
SHARED = Path(__file__).parents[3] / "shared" / "data"


def draw_sentences(count=150, seed=0, size=V):
    """Draw sentences of a Markov chain with skewed rows; a few are empty, some of one word."""
    generator = np.random.default_rng(seed)
    rows = generator.dirichlet(np.full(size - 4, 0.2), size=size)
    sentences = []
    for length in generator.geometric(0.12, count) - 1:
        words = [2]
        for _ in range(length):
            words.append(3 + int(generator.choice(size - 4, p=rows[words[-1]])))
        sentences.append(words[1:])
    return sentences  # the last id is never drawn


def flat(sentences):
    return np.concatenate([[0, *sentence, 1] for sentence in sentences])


def fit(sentences, order, prune=None):
    counts = extend_words(count_ngrams(flat(sentences), order), V)
    return estimate_backoff(counts, prune=prune or ()).model


def grams(levels, order):
    """Read the n-grams of an order off a trie."""
    rows, columns = np.arange(len(levels[order - 1].keys)), []
    for level in reversed(levels[:order]):
        columns.append(last_words(level.keys[rows]))
        rows = prefix_places(level.keys[rows])
    return list(zip(*(column.tolist() for column in reversed(columns)), strict=True))


def probabilities(model, context):
    """Score every word but ``<s>`` after a context that begins with ``<s>``."""
    rows = [np.array([*context, word]) for word in range(1, model.vocabulary_size)]
    scores = score_tokens(model, np.concatenate(rows)).reshape(len(rows), -1)
    return np.exp(scores[:, -1])


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_counts_equal_a_counter(order):
    sentences = draw_sentences()
    held = count_ngrams(flat(sentences), order)
    plain = PlainKneserNey(sentences, order, V).plain
    assert len(held.levels) == order
    for n, level in enumerate(held.levels, start=1):
        found = dict(zip(grams(held.levels, n), level.counts.tolist(), strict=True))
        expected = {gram: count for gram, count in plain.items() if len(gram) == n}
        assert {gram: count for gram, count in found.items() if count} == expected
        assert (np.diff(level.keys) > 0).all()


@given(
    st.lists(st.lists(st.integers(2, 6), max_size=5), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 12),
)
@settings(max_examples=25, deadline=None)
def test_parts_do_not_change_counts(sentences, order, tokens):
    whole = count_ngrams(flat(sentences), order)
    documents = [np.array(sentence, dtype=np.int32) for sentence in sentences]
    parts = list(join_sentences([documents[:3], [], documents[3:]], tokens))
    assert np.array_equal(np.concatenate(parts), flat(sentences))
    assert tokens > 1 or len(parts) == len(sentences)
    merged = count_parts(parts, order)
    assert merged is not None
    for one, other in zip(whole.levels, merged.levels, strict=True):
        assert np.array_equal(one.keys, other.keys)
        assert np.array_equal(one.counts, other.counts)
        assert one.counts.dtype == other.counts.dtype == np.int64


def test_few_parts_are_held_at_a_time(monkeypatch):
    """Merging a part with all before it, each time, would be quadratic."""
    moved = []
    merge = counting.merge_counts

    def spy(first, second):
        moved.append(first.size + second.size)
        return merge(first, second)

    monkeypatch.setattr(counting, "merge_counts", spy)
    generator = np.random.default_rng(1)
    parts = [np.append(0, generator.integers(2, 10_000, 1000)) for _ in range(64)]
    held = counting.count_parts(parts, 2)
    assert held is not None
    assert sum(moved) < 8 * held.size
    assert counting.count_parts([], 2) is None


def test_searches_in_blocks_are_searches(monkeypatch):
    keys = np.array([2, 3, 5, 8, 13])
    wanted = np.array([13, 4, 2, 99, -1, 8, 8])
    for size in (1, 3, 100):
        monkeypatch.setattr(counting, "SEARCH_KEYS", size)
        assert counting.find_keys(keys, wanted).tolist() == [4, -1, 0, -1, -1, 3, 3]
        assert counting.find_keys(keys[:0], wanted).tolist() == [-1] * 7


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("prune", [[0], [0, 0, 1], [0, 1, 2]], ids=str)
def test_probabilities_are_those_of_the_definition(order, prune):
    sentences = draw_sentences()
    plain = PlainKneserNey(sentences, order, V, check_pruning(prune[:order], order))
    model = fit(sentences, order, prune[:order])
    assert model.order == order
    for n in range(2, order + 1):
        assert set(grams(model.levels, n)) == plain.kept(n)
    others = draw_sentences(20, seed=7)
    scores = score_tokens(model, flat(others))
    expected = []
    for sentence in others:
        words = [0, *sentence, 1]
        chances = [plain.probability(tuple(words[:n]), words[n]) for n in range(1, len(words))]
        expected += [0.0, *map(math.log, chances)]
    assert np.allclose(scores, expected, rtol=1e-12, atol=1e-12)
    assert order == 1 or plain.discounts[-1] != (0.5, 1.0, 1.5)  # the formula was at work


@pytest.mark.parametrize("prune", [[0], [0, 0, 1]], ids=str)
def test_probabilities_sum_to_one(prune):
    sentences = draw_sentences()
    model = fit(sentences, 4, prune)
    contexts = {(0, *s[:n]) for s in [*sentences, *draw_sentences(seed=3)] for n in range(len(s))}
    strange = {(0, 19, 2), (0, 1), (0, 5, 19, 6, 7)}
    assert len(contexts) > 1000
    for context in contexts | strange:
        assert math.isclose(probabilities(model, context).sum(), 1, rel_tol=1e-12)


def test_words_without_a_count_share_the_uniform_distribution():
    """Closed form: γ / (V − 1) for a word that was not seen, of all but <s>."""
    sentences = draw_sentences()
    model = fit(sentences, 1)
    seen = Counter(word for sentence in sentences for word in [*sentence, 1])
    discounts = PlainKneserNey(sentences, 1, V).discounts[0]
    lost = sum(discounts[min(count, 3) - 1] for count in seen.values()) / seen.total()
    probs = np.exp(model.levels[0].log_probs)
    assert probs[0] == 0
    assert probs[2] == pytest.approx(lost / (V - 1), rel=1e-12)
    assert probs[2] == probs[19]
    possible = np.arange(V) > 2
    possible[1] = True
    without = estimate_backoff(extend_words(count_ngrams(flat(sentences), 3), V), possible).model
    assert without.levels[0].log_probs[2] == -np.inf
    assert probabilities(without, (0, 4, 5)).sum() == pytest.approx(1, rel=1e-12)
    assert without.n_counts[0] == V - 1


def test_short_sentences_lower_the_order(caplog):
    sentences = [[3], [4], [3], [], [5]]
    with caplog.at_level(logging.WARNING):
        model = fit(sentences, 5)
    assert model.order == 3  # <s> w </s>
    assert "the model is of order 3" in caplog.text
    plain = PlainKneserNey(sentences, 5, V)
    for context in ((0,), (0, 3), (0, 9)):
        expected = [plain.probability(context, word) for word in range(1, V)]
        assert np.allclose(probabilities(model, context), expected, rtol=1e-12)
        assert math.isclose(sum(expected), 1)


def test_missing_counts_of_counts_fall_back_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        assert choose_discounts(np.array([1, 1, 3, 4, 0]), 2) == (0.5, 1.0, 1.5)
    assert "order 2: none has the adjusted count 2" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):  # D2 = 2 − 3 · 1/3 · 9/1
        assert choose_discounts(np.repeat([1, 2, 3], [1, 1, 9]), 1) == (0.5, 1.0, 1.5)
    assert "negative" in caplog.text
    caplog.clear()
    found = choose_discounts(np.repeat([1, 2, 3, 4, 9], [10, 5, 3, 2, 1]), 1)
    assert np.allclose(found, (1 - 2 / 2 * 5 / 10, 2 - 3 / 2 * 3 / 5, 3 - 4 / 2 * 2 / 3))
    assert not caplog.records


@pytest.mark.parametrize(
    ("prune", "words"),
    [
        ([1, 1], "begin with 0 and never fall"),
        ([0, 2, 1], "prune: is 0 2 1"),
        ([0, 0, 1, 1], "has 4 thresholds for 3 orders"),
        ([-1], "begin with 0"),
    ],
)
def test_wrong_thresholds_are_named(prune, words):
    with pytest.raises(InputError, match=words):
        check_pruning(prune, 3)
    assert check_pruning([0, 1], 4) == [0, 1, 1, 1]


def test_estimation_does_not_depend_on_the_size_of_parts(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(f"w{w}" for w in s) for s in draw_sentences()))
    found = []
    for size in (1, 100, 1 << 24):
        ids = WordIds([], UnknownRule(), grows=True)
        counts = count_parts(read_sentences([path], ids, size), 4)
        assert counts is not None
        found.append((ids.words, estimate_backoff(extend_words(counts, ids.size)).model))
    for words, model in found[1:]:
        assert words == found[0][0]
        for one, other in zip(model.levels, found[0][1].levels, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_sentences_are_lines_and_words_stand_between_blanks(tmp_path, suffix):
    text = "a  b\n\n \t\r\nc\ta é b\u00a0c \nA"  # a no-break space is part of a word
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    for size in (1, 1000):
        ids = WordIds([], UnknownRule(), grows=True)
        parts = list(read_sentences([path], ids, size))
        assert np.concatenate(parts).tolist() == [0, 3, 4, 1, 0, 5, 3, 6, 7, 1, 0, 8, 1]
        assert ids.words[3:] == ["a", "b", "c", "é", "b\u00a0c", "A"]
    assert list(read_sentence_texts([path], UnknownRule())) == ["a b", "c a é b\u00a0c", "A"]
    fixed = WordIds(["b", "A"], UnknownRule(), grows=False)
    read = np.concatenate(list(read_sentences([path], fixed)))
    assert read.tolist() == [0, 2, 3, 1, 0, 2, 2, 2, 2, 1, 0, 4, 1]
    assert fixed.words == ["<s>", "</s>", "<unk>", "b", "A"]


@pytest.mark.parametrize("word", ["<s>", "</s>", "<unk>"])
def test_a_word_with_a_meaning_is_refused_with_its_line(tmp_path, word):
    path = tmp_path / "text.txt"
    path.write_text(f"a b\n\nc {word} d\n")
    for rule in (UnknownRule(), UnknownRule("x"), UnknownRule(unknown=True)):
        if word == "<unk>" and rule != UnknownRule():
            continue
        expected = rf"text\.txt: line 3: holds the word {word}"
        with pytest.raises(InputError, match=expected):
            list(read_sentences([path], WordIds([], rule, grows=True), 1))
        with pytest.raises(InputError, match=expected):
            list(read_sentence_texts([path], rule))


def test_a_literal_unk_can_be_a_word_or_the_unknown_one(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a <unk> x\n")
    ids = WordIds([], UnknownRule("x"), grows=True)
    assert next(read_sentences([path], ids)).tolist() == [0, 4, 3, 3, 1]
    assert ids.words[3:] == ["x", "a"]
    assert list(read_sentence_texts([path], UnknownRule("x"))) == ["a x x"]
    ids = WordIds([], UnknownRule(unknown=True), grows=True)
    assert next(read_sentences([path], ids)).tolist() == [0, 3, 2, 4, 1]
    assert ids.words == ["<s>", "</s>", "<unk>", "a", "x"]
    assert list(read_sentence_texts([path], UnknownRule(unknown=True))) == ["a <unk> x"]
    for word in ("", "a b", "<s>", " x"):
        with pytest.raises(InputError, match="unk as: is"):
            UnknownRule(word)
    with pytest.raises(InputError, match="unk as: goes not with"):
        UnknownRule("x", True)


def test_unreadable_texts_are_named(tmp_path):
    ids = WordIds([], UnknownRule(), grows=True)
    with pytest.raises(InputError, match=r"no\.txt: no such file"):
        list(read_sentences([tmp_path / "no.txt"], ids))
    path = tmp_path / "latin.txt"
    path.write_bytes(b"a\nb\nn\xf8\n")
    with pytest.raises(InputError, match=r"latin\.txt: line 3: is not UTF-8"):
        list(read_sentences([path], ids))
    cut = tmp_path / "cut.txt.gz"
    cut.write_bytes(gzip.compress(b"one line\n" * 5000)[:-20])
    with pytest.raises(InputError, match=r"cut\.txt\.gz: line \d+: the file is damaged"):
        list(read_line_blocks(cut))
    other = tmp_path / "plain.txt.gz"
    other.write_text("a b\n")  # the content says what packs a file, not the name
    assert len(np.concatenate(list(read_sentences([other], ids)))) == 4


@pytest.mark.skipif(not (SHARED / "wikitext-2").is_dir(), reason="needs ../shared/data")
def test_wikitext_is_that_of_lmplz():
    """Figures of `lmplz` in ../shared/data/kneser-ney-reference, order 5."""
    ids = WordIds([], UnknownRule("<UNK>"), grows=True)
    counts = count_parts(read_sentences([SHARED / "wikitext-2" / "train.txt"], ids), 5)
    assert counts is not None
    found = estimate_backoff(extend_words(counts, ids.size))
    assert found.model.n_counts == [33280, 619591, 1398959, 1794725, 1914265]
    expected = [
        (0.182087, 1.01364, 2.53778),
        (0.729716, 1.15964, 1.49569),
        (0.866965, 1.27126, 1.47995),
        (0.942337, 1.41604, 1.53705),
        (0.959168, 1.52824, 1.50737),
    ]
    assert np.allclose(found.discounts, expected, rtol=1e-5)
    ids.grows = False
    tokens = np.concatenate(list(read_sentences([SHARED / "wikitext-2" / "valid.txt"], ids)))
    predicted = np.count_nonzero(tokens)
    assert predicted == 216_347
    scores = score_tokens(found.model, tokens)
    assert np.exp(-scores.sum() / predicted) == pytest.approx(239.98394435644792, rel=1e-6)
    check_histories(found.model, tokens)


def check_histories(model, tokens, count=1000):
    """Check that p sums to 1 over the vocabulary after places of a text, all in one step."""
    held = KneserNey.of(model)
    generator = np.random.default_rng(0)
    ends = generator.choice(np.flatnonzero(tokens[: -model.order] != 1), count, replace=False)
    state = held.initial_state(count, model.order)
    for place in range(model.order - 1, -1, -1):
        column = torch.from_numpy(tokens[np.maximum(ends - place, 0)])
        state = state.restart(column == 0)  # what stands before <s> is of another sentence
        logits, state = held.step(column, state)
    assert np.allclose(logits.double().exp().sum(1), 1, rtol=0, atol=1e-5)
