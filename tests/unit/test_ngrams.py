"""Counting and estimating n-grams, and texts of sentences.

Oracles: Kneser–Ney by definition (`kneser_ney_reference`); sums over the vocabulary; other parts
and batches; `lmplz` on WikiText-2 and `kenlm`, where they are; an ARPA file by hand.
"""

import gzip
import json
import logging
import math
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.commands import estimate_ngram
from beyond_perplexity.commands import perplexity as score_command
from beyond_perplexity.decoding.generation import generate, set_precision
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.models import registry
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.models.registry import load_model, save_model
from beyond_perplexity.ngrams import arpa as writing
from beyond_perplexity.ngrams import kneser_ney as counting
from beyond_perplexity.ngrams.arpa import read_arpa, summarize_arpa, write_arpa
from beyond_perplexity.ngrams.sentence_files import (
    UnknownRule,
    WordIds,
    read_line_blocks,
    read_sentence_texts,
    read_sentences,
)
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.kneser_ney_reference import PlainKneserNey
from tests.unit.small_corpora import put

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
    counts = counting.extend_words(counting.count_ngrams(flat(sentences), order), V)
    return counting.estimate_backoff(counts, prune=prune or ()).model


def grams(levels, order):
    rows, columns = np.arange(len(levels[order - 1].keys)), []
    for level in reversed(levels[:order]):
        columns.append(counting.last_words(level.keys[rows]))
        rows = counting.prefix_places(level.keys[rows])
    return list(zip(*(column.tolist() for column in reversed(columns)), strict=True))


def probabilities(model, context):
    """Score every word but ``<s>`` after a context that begins with ``<s>``."""
    rows = [np.array([*context, word]) for word in range(1, model.vocabulary_size)]
    scores = counting.score_tokens(model, np.concatenate(rows)).reshape(len(rows), -1)
    return np.exp(scores[:, -1])


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_counts_equal_a_counter(order):
    sentences = draw_sentences()
    held = counting.count_ngrams(flat(sentences), order)
    plain = PlainKneserNey(sentences, order, V).plain
    assert len(held) == order
    for n, level in enumerate(held, start=1):
        found = dict(zip(grams(held, n), level.counts.tolist(), strict=True))
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
    whole = counting.count_ngrams(flat(sentences), order)
    documents = [np.array(sentence, dtype=np.int32) for sentence in sentences]
    parts = list(counting.join_sentences([documents[:3], [], documents[3:]], tokens))
    assert np.array_equal(np.concatenate(parts), flat(sentences))
    assert tokens > 1 or len(parts) == len(sentences)
    merged = counting.count_parts(parts, order)
    assert merged is not None
    for one, other in zip(whole, merged, strict=True):
        assert np.array_equal(one.keys, other.keys)
        assert np.array_equal(one.counts, other.counts)
        assert one.counts.dtype == other.counts.dtype == np.int64


def test_few_parts_are_held_at_a_time_and_searches_in_blocks_are_searches(monkeypatch):
    """Merging a part with all before it, each time, would be quadratic."""
    moved = []
    merge = counting.merge_counts

    def spy(first, second):
        moved.append(len(first[-1].keys) + len(second[-1].keys))
        return merge(first, second)

    monkeypatch.setattr(counting, "merge_counts", spy)
    generator = np.random.default_rng(1)
    parts = [np.append(0, generator.integers(2, 10_000, 1000)) for _ in range(64)]
    held = counting.count_parts(parts, 2)
    assert held is not None
    assert sum(moved) < 8 * len(held[-1].keys)
    assert counting.count_parts([], 2) is None
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
    plain = PlainKneserNey(sentences, order, V, counting.check_pruning(prune[:order], order))
    model = fit(sentences, order, prune[:order])
    assert model.order == order
    for n in range(2, order + 1):
        assert set(grams(model.levels, n)) == plain.kept(n)
    others = draw_sentences(20, seed=7)
    scores = counting.score_tokens(model, flat(others))
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


def test_words_without_a_count_share_the_uniform_and_short_sentences_lower_the_order(caplog):
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
    # Closed form: γ / (V − 1) for a word that was not seen, of all but <s>
    sentences = draw_sentences()
    model = fit(sentences, 1)
    seen = Counter(word for sentence in sentences for word in [*sentence, 1])
    discounts = PlainKneserNey(sentences, 1, V).discounts[0]
    lost = sum(discounts[min(count, 3) - 1] for count in seen.values()) / seen.total()
    probs = np.exp(model.levels[0].log_probs)
    assert (probs[0], probs[2]) == (0, pytest.approx(lost / (V - 1), rel=1e-12))
    assert probs[2] == probs[19]
    possible = np.arange(V) > 2
    possible[1] = True
    extended = counting.extend_words(counting.count_ngrams(flat(sentences), 3), V)
    without = counting.estimate_backoff(extended, possible).model
    assert without.levels[0].log_probs[2] == -np.inf
    assert probabilities(without, (0, 4, 5)).sum() == pytest.approx(1, rel=1e-12)
    assert without.n_counts[0] == V - 1


def test_missing_counts_of_counts_fall_back_with_a_warning_and_wrong_thresholds_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        assert counting.choose_discounts(np.array([1, 1, 3, 4, 0]), 2) == (0.5, 1.0, 1.5)
        # D2 = 2 − 3 · 1/3 · 9/1
        assert counting.choose_discounts(np.repeat([1, 2, 3], [1, 1, 9]), 1) == (0.5, 1.0, 1.5)
    absent, negative = caplog.messages
    assert "order 2: none has the adjusted count 2" in absent
    assert "negative" in negative
    found = counting.choose_discounts(np.repeat([1, 2, 3, 4, 9], [10, 5, 3, 2, 1]), 1)
    assert np.allclose(found, (1 - 2 / 2 * 5 / 10, 2 - 3 / 2 * 3 / 5, 3 - 4 / 2 * 2 / 3))
    assert len(caplog.messages) == 2
    for prune, words in (
        ([1, 1], "begin with 0 and never fall"),
        ([0, 2, 1], "prune: is 0 2 1"),
        ([0, 0, 1, 1], "has 4 thresholds for 3 orders"),
        ([-1], "begin with 0"),
    ):
        check_refused(words, counting.check_pruning, prune, 3)
    assert counting.check_pruning([0, 1], 4) == [0, 1, 1, 1]


def test_estimation_does_not_depend_on_the_size_of_parts(tmp_path):
    lines = (" ".join(f"w{word}" for word in sentence) for sentence in draw_sentences())
    path = put(tmp_path / "text.txt", "\n".join(lines))
    found = []
    for size in (1, 100, 1 << 24):
        ids = WordIds([], UnknownRule(), grows=True)
        counts = counting.count_parts(read_sentences([path], ids, size), 4)
        assert counts is not None
        extended = counting.extend_words(counts, ids.size)
        found.append((ids.words, counting.estimate_backoff(extended).model))
    for words, model in found[1:]:
        assert words == found[0][0]
        for one, other in zip(model.levels, found[0][1].levels, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_sentences_are_lines_and_words_stand_between_blanks(tmp_path, pack):
    text = "a  b\n\n \t\r\nc\ta é b\u00a0c \nA"  # a no-break space is part of a word
    name = "text.txt.gz" if pack is gzip.compress else "text.txt"
    path = put(tmp_path / name, pack(text.encode()))
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
    path = put(tmp_path / "text.txt", f"a b\n\nc {word} d\n")
    for rule in (UnknownRule(), UnknownRule("x"), UnknownRule(unknown=True)):
        if word == "<unk>" and rule != UnknownRule():
            continue
        expected = rf"text\.txt: line 3: holds the word {word}"
        check_refused(expected, read_sentences, [path], WordIds([], rule, grows=True), 1)
        check_refused(expected, read_sentence_texts, [path], rule)


def test_a_literal_unk_can_be_a_word_or_the_unknown_one_and_unreadable_texts_are_named(tmp_path):
    path = put(tmp_path / "text.txt", "a <unk> x\n")
    ids = WordIds([], UnknownRule("x"), grows=True)
    assert next(read_sentences([path], ids)).tolist() == [0, 4, 3, 3, 1]
    assert ids.words[3:] == ["x", "a"]
    assert list(read_sentence_texts([path], UnknownRule("x"))) == ["a x x"]
    ids = WordIds([], UnknownRule(unknown=True), grows=True)
    assert next(read_sentences([path], ids)).tolist() == [0, 3, 2, 4, 1]
    assert ids.words == ["<s>", "</s>", "<unk>", "a", "x"]
    assert list(read_sentence_texts([path], UnknownRule(unknown=True))) == ["a <unk> x"]
    for word in ("", "a b", "<s>", " x"):
        check_refused("unk as: is", UnknownRule, word)
    check_refused("unk as: cannot be combined with", UnknownRule, "x", True)
    ids = WordIds([], UnknownRule(), grows=True)
    check_refused(r"no\.txt: no such file", read_sentences, [tmp_path / "no.txt"], ids)
    path = put(tmp_path / "latin.txt", b"a\nb\nn\xf8\n")
    check_refused(r"latin\.txt: line 3: is not UTF-8", read_sentences, [path], ids)
    cut = put(tmp_path / "cut.txt.gz", gzip.compress(b"one line\n" * 5000)[:-20])
    check_refused(r"cut\.txt\.gz: line \d+: the file is damaged", read_line_blocks, cut)
    other = put(tmp_path / "plain.txt.gz", "a b\n")
    assert len(np.concatenate(list(read_sentences([other], ids)))) == 4


@pytest.mark.skipif(not (SHARED / "wikitext-2").is_dir(), reason="needs ../shared/data")
def test_wikitext_is_that_of_lmplz():
    """Figures of `lmplz` in ../shared/data/kneser-ney-reference, order 5."""
    ids = WordIds([], UnknownRule("<UNK>"), grows=True)
    counts = counting.count_parts(read_sentences([SHARED / "wikitext-2" / "train.txt"], ids), 5)
    assert counts is not None
    found = counting.estimate_backoff(counting.extend_words(counts, ids.size))
    assert found.model.n_counts == [33280, 619591, 1398959, 1794725, 1914265]
    expected = [
        *((0.182087, 1.01364, 2.53778), (0.729716, 1.15964, 1.49569)),
        *((0.866965, 1.27126, 1.47995), (0.942337, 1.41604, 1.53705)),
        (0.959168, 1.52824, 1.50737),
    ]
    assert np.allclose(found.discounts, expected, rtol=1e-5)
    ids.grows = False
    tokens = np.concatenate(list(read_sentences([SHARED / "wikitext-2" / "valid.txt"], ids)))
    predicted = np.count_nonzero(tokens)
    assert predicted == 216_347
    scores = counting.score_tokens(found.model, tokens)
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


WORDS = ["<s>", "</s>", "<unk>", *(f"w{n}é" for n in range(3, V))]
# As SRILM writes: no weight where it is 0, <s> at −99; the bigram "b a" lacks its suffix's trigram.
TEXT = """some program made this

\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.0 </s>
-99 <s> -0.3
-0.5\ta\t-0.2
-0.7\tb
-1.5\t<unk>\t0.1

\\2-grams:
-0.4 a b -0.25
-0.6 <s> a -0.125
-0.9 b a
-0.8 b </s>

\\3-grams:
-0.2 <s> a b
-0.1 a b </s>

\\end\\
what follows is of no concern
"""


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
@pytest.mark.parametrize("order", [1, 4])
def test_what_is_written_is_read(tmp_path, name, order, monkeypatch):
    model = fit(draw_sentences(), order)
    monkeypatch.setattr(writing, "LINES", 7)
    write_arpa(tmp_path / name, model, WORDS)
    content = (tmp_path / name).read_bytes()
    assert (content[:2] == b"\x1f\x8b") == name.endswith(".gz")
    for size in (64, 1 << 20):
        found = read_arpa(tmp_path / name, size)
        assert sorted(found.words) == sorted(WORDS)
        assert found.words == WORDS  # the file is in the order of ids
        assert found.n_counts == model.n_counts == found.model.n_counts
        for one, other in zip(model.levels, found.model.levels, strict=True):
            assert np.array_equal(one.keys, other.keys)
            assert np.allclose(one.log_probs, other.log_probs, rtol=1e-6, atol=1e-7)
            assert np.allclose(one.backoffs, other.backoffs, rtol=1e-6, atol=1e-7)
    write_arpa(tmp_path / name, model, WORDS)
    assert (tmp_path / name).read_bytes() == content


def test_lines_may_come_in_any_order_with_any_blanks(tmp_path):
    write_arpa(tmp_path / "a.arpa", fit(draw_sentences(), 3), WORDS)
    expected = read_arpa(tmp_path / "a.arpa")
    generator, mixed, section = random.Random(0), [], []
    for line in (tmp_path / "a.arpa").read_text().split("\n"):
        if line and line[0] in "-0":
            section.append("  " + line.removesuffix("\t0").replace("\t", " \t ") + "\r")
            continue
        generator.shuffle(section)
        mixed += [*section, line]
        section = []
    found = read_arpa(put(tmp_path / "text.txt", "\n".join(mixed)), 100)
    assert found.words != expected.words
    sentences = draw_sentences(20, seed=5)
    where = {word: place for place, word in enumerate(found.words)}
    renamed = [[where[WORDS[word]] for word in sentence] for sentence in sentences]
    one = counting.score_tokens(expected.model, flat(sentences))
    assert np.allclose(one, counting.score_tokens(found.model, flat(renamed)), rtol=1e-12)


def test_scores_of_a_model_by_hand_and_no_perplexity_of_unknown_words_without_unk(tmp_path):
    held = read_arpa(put(tmp_path / "text.txt", TEXT))
    assert (held.words, held.n_counts) == (["<s>", "</s>", "<unk>", "a", "b"], [5, 4, 2])
    lines = {
        "a b": [-0.6, -0.2, -0.1],
        "b": [-0.3 - 0.7, -0.8],
        "b a b": [-0.3 - 0.7, -0.9, -0.4, -0.1],
        "a a": [-0.6, -0.125 - 0.2 - 0.5, -0.2 - 1.0],
        "a z b": [-0.6, -0.125 - 0.2 - 1.5, 0.1 - 0.7, -0.8],
    }
    for line, expected in lines.items():
        found = summarize_arpa(held, [put(tmp_path / "text.txt", f"\n{line}\n")], UnknownRule())
        assert found["log10_prob"] == pytest.approx(sum(expected), rel=1e-12)
        assert found["tokens"] == len(expected)
        assert found["perplexity"] == pytest.approx(10 ** (-sum(expected) / len(expected)))
    assert found["oov"] == 1
    assert found["perplexity_without_oov"] == pytest.approx(10 ** ((0.6 + 0.6 + 0.8) / 3))
    assert (found["sentences"], found["n_counts"]) == (1, [5, 4, 2])
    lacking = TEXT.replace("-1.5\t<unk>\t0.1\n", "").replace("1=5", "1=4")
    held = read_arpa(put(tmp_path / "text.txt", lacking))
    assert held.n_counts == [4, 4, 2]
    found = summarize_arpa(held, [put(tmp_path / "text.txt", "a z\n")], UnknownRule())
    assert found["perplexity"] is None
    assert found["log10_prob"] is None
    assert found["perplexity_without_oov"] == pytest.approx(10 ** ((0.6 + 1.0) / 2))
    assert summarize_arpa(held, [put(tmp_path / "text.txt", "a\n")], UnknownRule())["perplexity"]
    other = read_arpa(put(tmp_path / "text.txt", TEXT.replace("<unk>", "<UNK>")))
    assert other.words[2] == "<unk>"
    assert summarize_arpa(other, [put(tmp_path / "text.txt", "z\n")], UnknownRule())["oov"] == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("\\end\\\nwhat follows is of no concern\n", "", 25, "ends before"),
        ("-0.1 a b </s>\n\n\\end\\\nwhat follows is of no concern\n", "", 23, "ends before"),
        ("\\data\\\n", "", 26, "ends before"),
        ("ngram 2=4", "ngram 2 4", 5, "expected ngram 2=..."),
        ("ngram 3=2", "ngram 4=2", 6, "expected ngram 3=..."),
        ("-0.9 b a\n", "", 20, r"3 2-grams stand before it, the header says 4"),
        ("-0.9 b a", "-0.9 b", 18, "has 2 fields, a 2-gram has 3 or 4"),
        ("-0.9 b a", "-0.9 b a a 0 0", 18, "has 6 fields"),
        ("-0.1 a b </s>", "-0.1 a b </s> -1", 23, "a 3-gram has 4"),
        ("-0.9 b a", "x b a", 18, "'x' is no logarithm"),
        ("-0.9 b a", "nan b a", 18, "'nan' is no logarithm"),
        ("-0.4 a b -0.25", "-0.4 a b c", 16, "'c' is no logarithm"),
        ("-0.9 b a", "0.9 b a", 18, "above 0"),
        ("-0.9 b a", "-0.9 b z", 18, "the word 'z' is not among the 1-grams"),
        ("-0.1 a b </s>", "-0.1 b b </s>", 23, "its first 2 words are not among the 2-grams"),
        ("-0.9 b a", "-0.9 a b", 18, "stands there twice"),
        ("-0.7\tb", "-0.7\ta", 12, "stands there twice"),
        ("-1.0 </s>", "-1.0 c", 15, "lack </s>"),
        ("\\2-grams:", "\\3-grams:", 15, "is not what follows here"),
        ("\\2-grams:", "\\bigrams", 15, "is not what follows here"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, old, new, line, words):
    assert old in TEXT
    path = put(tmp_path / "text.txt", TEXT.replace(old, new))
    for size in (1, 40, 1 << 20):
        check_refused(rf"text\.txt: line {line}: .*{words}", read_arpa, path, size)


def test_a_file_that_is_cut_off_names_its_line(tmp_path):
    write_arpa(tmp_path / "a.arpa", fit(draw_sentences(), 3), WORDS)
    whole = (tmp_path / "a.arpa").read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9):
        cut = put(tmp_path / "cut.arpa", whole[: int(share * len(whole))])
        check_refused(r"cut\.arpa: line \d+: ", read_arpa, cut)
        zipped = tmp_path / "cut.arpa.gz"
        packed = gzip.compress(whole)
        zipped.write_bytes(packed[: 20 + int(share * len(packed))][:-9])
        check_refused(r"cut\.arpa\.gz: line \d+: ", read_arpa, zipped)
    (tmp_path / "bad.arpa").write_bytes(whole.replace("w5é".encode(), b"w5\xff"))
    check_refused(r"bad\.arpa: line \d+: is not UTF-8", read_arpa, tmp_path / "bad.arpa")
    check_refused(r"none\.arpa: no such file", read_arpa, tmp_path / "none.arpa")


def test_the_commands_meet(tmp_path, capsys, monkeypatch):
    """The estimator's file scored by both forms of the other command."""

    def run(module, *flags):
        monkeypatch.setattr(sys, "argv", ["command", *map(str, flags)])
        run_command(module.main)
        return json.loads(capsys.readouterr().out)

    lines = [" ".join(WORDS[word] for word in sentence) for sentence in draw_sentences()]
    train = put(tmp_path / "train.txt", "\n".join([*lines[:100], "w3é <unk> w4é"]))
    test = put(tmp_path / "test.txt", "\n".join([*lines[100:], "<unk> w3é strange"]))
    arpa, per, rare = tmp_path / "m.arpa.gz", tmp_path / "rows.parquet", ("--unk-as", "rare")
    told = run(estimate_ngram, "--order", 3, "--text", train, "--arpa", arpa, *rare)
    common = ["--arpa", arpa, "--text", test]
    flat_json = run(score_command, *common, *rare, "--json")
    assert flat_json["n_counts"] == told["n_counts"]
    assert len(told["discounts"]) == 3
    kept = [line.split() for line in lines[100:] if line]
    assert (flat_json["tokens"], flat_json["oov"]) == (sum(map(len, kept)) + len(kept) + 4, 1)
    whole = run(score_command, *common, *rare, "--device", "cpu", "--per-document", per)
    assert whole["perplexity"]["token"] == pytest.approx(flat_json["perplexity"], rel=1e-12)
    assert whole["log_prob"] == pytest.approx(flat_json["log10_prob"] * math.log(10), rel=1e-12)
    assert (whole["unknown"], whole["documents"]) == (1, flat_json["sentences"])
    assert per.is_file()
    assert run(score_command, *common, "--json", "--unk-as-unknown")["oov"] == 2


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [
        (score_command, "--arpa a --cleaned", "cleaned: has no effect with an ARPA"),
        (score_command, "--arpa a --json --stride 2", "stride: cannot be combined with"),
        (score_command, "--model m --unk-as x", "unk as: has no effect without an ARPA"),
        (score_command, "--arpa a --json --unk-as=x\u00a0y", "unk as: is 'x y'"),
        (estimate_ngram, "--order 0", "--order: is 0"),
        (estimate_ngram, "--prune 1", "prune: is 1"),
        (estimate_ngram, "", "line 1: holds the word <s>"),
        (estimate_ngram, "--text EMPTY", "holds no sentence"),
    ],
)
def test_flags_and_texts_that_cannot_be_used_are_named(tmp_path, command, flags, words):
    path, empty = put(tmp_path / "empty.txt", "a <s>\n"), put(tmp_path / "text.txt", "\n \n")
    given = [flag.replace("\u00a0", " ") for flag in flags.replace("EMPTY", str(empty)).split(" ")]
    given = list(filter(None, given))
    output = ["--arpa", str(tmp_path / "o.arpa")] if command is estimate_ngram else []
    check_refused(words, command.main, ["--text", str(path), *output, *given])
    assert not (tmp_path / "o.arpa").exists()


def test_kenlm_gives_the_same_scores(tmp_path):
    kenlm = pytest.importorskip("kenlm")
    path = tmp_path / "m.arpa"
    write_arpa(path, fit(draw_sentences(), 4), WORDS)
    other, held = kenlm.Model(str(path)), read_arpa(path)
    for sentence in draw_sentences(30, seed=3):
        line = " ".join([*(WORDS[word] for word in sentence), "strange"])
        own = summarize_arpa(held, [put(tmp_path / "text.txt", line)], UnknownRule())
        assert own["log10_prob"] == pytest.approx(other.score(line), rel=1e-5)


pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = [{"kind": "ancestral"}, {"kind": "nucleus", "mass": 0.8}, {"kind": "top_k", "k": 3}]
KINDS += [{"kind": "typical", "mass": 0.7}, {"kind": "min_p", "p": 0.25}]
KINDS += [{"kind": "beam", "size": 3}]


def documents(seed=0, count=150):
    return [np.array(sentence, dtype=np.int32) for sentence in draw_sentences(count, seed)]


def model(order=3, **options):
    return KneserNey.fit([documents()], V, {"order": order, **options}).eval()


def padded(texts):
    tokens = torch.full((len(texts), max(map(len, texts)) + 1), 1)
    tokens[:, 0] = 0
    for row, ids in enumerate(texts):
        tokens[row, 1 : len(ids) + 1] = torch.from_numpy(ids)
    return tokens


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_parallel_pass_and_steps_are_the_definition(order):
    held, texts = model(order), documents(seed=4, count=12)
    plain = PlainKneserNey(draw_sentences(), order, V)
    tokens = padded(texts)
    dense = held(tokens)
    assert dense.dtype == torch.float32
    state = held.initial_state(len(texts), 100)
    for place in range(tokens.shape[1]):
        logits, state = held.step(tokens[:, place], state)
        assert torch.equal(logits, dense[:, place])
        for row, ids in enumerate(texts):
            if place > len(ids):
                continue
            context = tuple(tokens[row, : place + 1].tolist())
            expected = [plain.probability(context, word) for word in range(V)]
            assert np.allclose(logits[row].double().exp(), expected, rtol=2e-6, atol=1e-9)
    total = dense.double().exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6)


@pytest.mark.parametrize("prune", [[0], [0, 0, 1], [0, 0, 999]], ids=str)
def test_scores_are_those_without_torch_and_of_any_batch(prune):
    held, texts = model(4, prune=prune), documents(seed=2, count=80)
    scores = list(score_encoded(held, texts))
    library = fit(draw_sentences(), 4, prune)
    for ids, score in zip(texts, scores, strict=True):
        expected = counting.score_tokens(library, flat([ids.tolist()])).sum()
        assert score.log_prob == pytest.approx(float(expected), rel=1e-12)
    for size in (1, 30):
        assert list(score_encoded(held, texts, batch_tokens=size)) == scores
    dense = held(padded(texts[:1]))[0].double()
    chosen = dense[range(len(texts[0]) + 1), [*texts[0], 1]].sum()
    assert scores[0].log_prob == pytest.approx(float(chosen), abs=1e-5)


@pytest.mark.parametrize("values", KINDS, ids=str)
def test_texts_do_not_depend_on_the_batch(values):
    held, options, keys = model(), parse_decoding(values), {"seed": 1, "purpose": "t"}
    found = []
    for batch, first, count in ((16, 0, 60), (64, 0, 60), (16, 40, 20)):
        size = {"first": first, "count": count, "maximum_length": 40, "batch_size": batch}
        drawn = generate(held, options, **keys, **size)
        found.append([(d.doc_id, d.tokens.tolist(), d.log_prob) for d in drawn])
    assert (found[0], found[0][40:]) == (found[1], found[2])
    assert not any(0 in tokens for _, tokens, _ in found[0])
    finished = [tokens for _, tokens, _ in found[0] if len(tokens) < 30]
    assert len(set(map(tuple, finished))) > 3


def test_drawn_texts_have_the_log_probability_of_scoring_and_states_follow_rows():
    held, size = model(5), {"first": 0, "count": 200, "maximum_length": 60}
    drawn = list(generate(held, parse_decoding(KINDS[0]), seed=3, purpose="t", **size))
    kept = [document for document in drawn if document.finished]
    assert len(kept) > 100
    scores = score_encoded(held, [document.tokens for document in kept])
    for document, score in zip(kept, scores, strict=True):
        assert document.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    # Expectation: first tokens are drawn as the model says.
    expected = held(torch.tensor([[0]]))[0, 0].double().exp().numpy()
    firsts = [document.tokens[0] if len(document.tokens) else 1 for document in drawn]
    shares = np.bincount(firsts, minlength=V) / len(drawn)
    assert np.abs(shares - expected).max() < 4 * math.sqrt(0.25 / len(drawn))
    held = model(4)
    tokens = padded(documents(seed=6, count=6)[:4])[:, :4]
    state = held.initial_state(len(tokens), 9)
    for column in tokens.T:
        logits, state = held.step(column, state)
    again, _ = held.step(tokens[:, 0] + 4, state.select(torch.tensor([2, 0, 1, 1])))
    longer, _ = held.step(tokens[:, 0] + 4, state)
    assert torch.equal(again, longer[[2, 0, 1, 1]])
    empty, _ = held.step(torch.zeros(4, dtype=torch.int64), held.initial_state(4, 9))
    restarted = state.restart(torch.tensor([False, True, False, True]))
    for fresh in (state.reset(torch.tensor([1, 3])), restarted):
        logits, _ = held.step(torch.zeros(4, dtype=torch.int64), fresh)
        assert torch.equal(logits[[1, 3]], empty[[1, 3]])


def test_a_folder_gives_the_same_model_and_precision_does_not_round_it(tmp_path):
    held = model(4, prune=[0, 0, 1])
    vocabulary = ClosedVocabulary([f"w{n}" for n in range(3, V)], 2)
    save_model(tmp_path, held, vocabulary, {})
    again, _, description = load_model(tmp_path)
    assert description["family"] == "kneser-ney"
    assert description["config"]["architecture"] == {"order": 4, "prune": [0, 0, 1]}
    levels = range(1, 5)
    ngrams = sum(len(held.get_buffer(f"log_probs_{order}")) for order in levels)
    assert description["parameters"] == held.parameter_count() == ngrams
    texts = documents(seed=8, count=20)
    assert list(score_encoded(again, texts)) == list(score_encoded(held, texts))
    assert again.config == held.config
    assert torch.equal(again(padded(texts)), held(padded(texts)))
    before = held.get_buffer("log_probs_2").clone()  # no precision rounds the tables
    set_precision(held, "bfloat16")
    assert torch.equal(held.get_buffer("log_probs_2"), before)
    assert held(torch.tensor([[0]])).dtype == torch.float32


def test_what_models_have_of_unknown_words_and_any_back_off_model_can_be_taken(tmp_path):
    held = KneserNey.fit([documents()], V, {}, True).eval()
    logits = held(torch.tensor([[0, 4, 2]]))[0]
    assert torch.isneginf(logits[:, 2]).all()
    assert torch.allclose(logits.exp().sum(-1), torch.ones(3), atol=1e-6)
    texts = [np.array([2, 3, 2], np.int32)] * 5 + documents()
    seen = KneserNey.fit([texts], V, {"order": 3}).eval()
    assert float(seen(torch.tensor([[0, 2, 3]]))[0, 2, 2].exp()) > 0.2
    write_arpa(tmp_path / "m.arpa", fit(draw_sentences(), 3), WORDS)
    taken = KneserNey.of(read_arpa(tmp_path / "m.arpa").model).eval()
    texts = documents(seed=2, count=30)
    pairs = zip(score_encoded(taken, texts), score_encoded(model(3), texts), strict=True)
    assert all(math.isclose(a.log_prob, b.log_prob, rel_tol=1e-5) for a, b in pairs)
    check_refused("has no document", KneserNey.fit, [], V)
    with pytest.raises(InputError, match=r"architecture\.layers: unknown key"):
        KneserNey.fit([documents()], V, {"layers": 2})
    check_refused("order: is 0, expected at least 1", KneserNey, V, {"order": 0})
    with pytest.raises(InputError, match="prune: is 1"):
        registry.build({"family": "kneser-ney", "architecture": {"prune": [1]}}, V)
