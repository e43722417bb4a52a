"""Shared n-grams of documents.

Oracles: sets of n-grams in plain loops over pairs; the closed form of rarefaction; derivatives by
finite differences; what is planted in one of two texts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
import pyarrow as pa
import pytest

from beyond_perplexity.inference.permuted_units import single_documents
from beyond_perplexity.inference.prompts import Prompts
from beyond_perplexity.tendencies import prompt_shifts, shared_ngrams
from beyond_perplexity.tendencies.curve_shifts import SharedShift, shared_shifts
from beyond_perplexity.tendencies.definitions import SHARED_NGRAMS
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.shared_ngrams import shared_by_document
from beyond_perplexity.tendencies.shifts import PairDraw
from beyond_perplexity.tendencies.tokens import tokenize_batch
from tests.unit.test_order import CLASSES, counted

TESTS = MeasurementOptions(permutations=99, bootstrap=50, monte_carlo=0)
KEY = (SHARED_NGRAMS, "max_difference")


def ngram_sets(tokens: np.ndarray, n: int) -> list[set[tuple[int, ...]]]:
    """Return the distinct n-grams of each document."""
    places = range(tokens.shape[1] - n + 1)
    return [{tuple(own[k : k + n].tolist()) for k in places} for own in tokens]


def mean_shared(sets: list[set[tuple[int, ...]]], groups, weights) -> float:
    """Average what documents of different groups share, each pair with its weights."""
    pairs = [p for p in combinations(range(len(sets)), 2) if groups[p[0]] != groups[p[1]]]
    both = np.array([len(sets[i] & sets[j]) for i, j in pairs])
    held = np.array([weights[groups[i]] * weights[groups[j]] for i, j in pairs])
    return float(both @ held / held.sum())


LAWS = np.random.default_rng(1).dirichlet(np.full(300, 0.1), 40) + 0.1 / np.arange(1, 301)
LAWS /= LAWS.sum(axis=1, keepdims=True)


def topical(rng: np.random.Generator, n: int, x: float = 0.0, answers: int = 1) -> np.ndarray:
    """Draw documents of 16 words in which rare words are rarer: answers to n prompts, of one of
    40 topics each."""
    topics = np.repeat(rng.integers(40, size=n), answers)
    words = np.stack([rng.choice(300, 16, p=LAWS[topic]) for topic in topics])
    return rarer(rng, words, x)


def rarer(rng: np.random.Generator, words: np.ndarray, x: float) -> np.ndarray:
    """Replace words that are rare, the more often the rarer they are."""
    p = LAWS.mean(axis=0)
    kept = (p / p.max()) ** x
    others = rng.choice(300, words.shape, p=kept * p / (kept @ p))
    return np.where(rng.random(words.shape) < kept[words], words, others).astype(np.int32)


def test_the_power_with_rarer_words_is_that_of_tests_of_new_documents() -> None:
    """So is the difference; with few documents that are long enough there is no verdict."""
    rng, n, x = np.random.default_rng(2), 100, 0.12
    words = np.concatenate([topical(rng, 600), np.full((600, 16), ABSENT)])
    (shift,) = shared_shifts({SHARED_NGRAMS: words}, 600)
    assert shift.share == 0.5
    assert not list(shared_shifts({SHARED_NGRAMS: words}, 601))
    for long, verdict in ((19, False), (20, True)):
        drawn = shift.draw(PairDraw(long, 10, 1, "few"), 1.0)["max_difference"]
        assert np.isfinite(drawn).all() == verdict
    plain, moved = (shared_by_document(topical(rng, 3000, y), np.arange(3000), 4) for y in (0, x))
    difference = (moved.mean(axis=0) - plain.mean(axis=0)).max()
    size, relative = shift.size("max_difference", x)
    assert size == pytest.approx(relative * plain.mean(axis=0)[0], rel=0.1)
    assert size == pytest.approx(difference, abs=4 * plain.std(axis=0)[0] * (2 / 3000) ** 0.5)
    how = PairDraw(n, 4000, 1, "test")
    threshold = np.quantile(shift.draw(how, x, null=True)["max_difference"], 0.95)
    expected = np.mean(shift.draw(how, x)["max_difference"] > threshold)
    units, found = single_documents((n, n)), []
    for pair in range(300):
        both = topical(rng, n), topical(rng, n, x)
        t = shared_ngrams.permuted_shares(both, units, 4, 99, pair)["t"]
        found.append(np.mean(t >= t[-1]) <= 0.05)
    assert 0.6 < expected < 0.9
    assert np.mean(found) == pytest.approx(expected, abs=0.1)


def test_the_power_of_answers_to_prompts_is_that_of_tests_of_new_answers() -> None:
    """Of two answers of either text to each prompt, a fifth of which is too short."""
    rng, n, x = np.random.default_rng(3), 100, 0.09

    def asked(prompts: int, x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw two texts, (2, 2 P, 16), which documents are long enough, and their prompts."""
        plain = topical(rng, prompts, 0.0, 4).reshape(prompts, 2, 2, 16)
        texts = np.moveaxis(plain, 1, 0).reshape(2, 2 * prompts, 16)
        texts[1] = rarer(rng, texts[1], x)
        return texts, rng.random((2, 2 * prompts)) < 0.8, np.repeat(np.arange(prompts), 2)

    how, expected = PairDraw(2 * n, 400, 1, ""), []
    for _ in range(3):
        words, long, codes = asked(300, 0.0)
        inner = SharedShift(words[long], np.tile(codes, 2)[long.ravel()])
        measure = partial(prompt_shifts._shared, inner, long.ravel())
        shift = prompt_shifts.PairShift(inner, codes, False, measure)
        threshold = np.quantile(shift.draw(how, x, null=True)["max_difference"], 0.95)
        expected.append(np.mean(shift.draw(how, x)["max_difference"] > threshold))
    found = []
    for pair in range(200):
        words, long, codes = asked(n, x)
        own = np.arange(2 * n)
        units = Prompts.of((own, own), codes, False).permuted(of_words=False)
        first, second = (one[kept] for one, kept in zip(units.codes, long, strict=True))
        texts = words[0][long[0]], words[1][long[1]]
        units = replace(units, codes=(first, second))
        t = shared_ngrams.permuted_shares(texts, units, 4, 99, pair)["t"]
        found.append(np.mean(t >= t[-1]) <= 0.05)
    assert 0.6 < np.mean(expected) < 0.9
    assert np.mean(found) == pytest.approx(np.mean(expected), abs=0.1)


def test_what_documents_share_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    tokens, groups = rng.integers(5, size=(12, 9)), np.array([0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5])
    for codes in (np.arange(12), groups):
        found, n_groups = shared_by_document(tokens, codes, 3), codes.max() + 1
        for n in (1, 2, 3):
            sets, one = ngram_sets(tokens, n), np.ones(n_groups)
            value = mean_shared(sets, codes, one)
            assert found[:, n - 1].mean() * (10 - n) == pytest.approx(value)
            # What a group adds is the derivative by its weight.
            for group in range(n_groups):
                moved = mean_shared(sets, codes, one + 1e-6 * (np.arange(n_groups) == group))
                added = np.sum(found[codes == group, n - 1] * (10 - n) - value) / 12
                assert added == pytest.approx((moved - value) / 1e-6, abs=1e-4)


def test_two_documents_have_the_distinct_ngrams_of_rarefaction() -> None:
    """Of Σ 1 - C(D - f, 2) / C(D, 2), with f the documents of an n-gram (Hurlbert 1971)."""
    tokens = np.random.default_rng(2).integers(7, size=(30, 16))
    shared = shared_by_document(tokens, np.arange(30), 2).mean(axis=0)
    for n in (1, 2):
        sets = ngram_sets(tokens, n)
        documents = [sum(gram in own for own in sets) for gram in set.union(*sets)]
        distinct = sum(1 - comb(30 - f, 2) / comb(30, 2) for f in documents)
        own = np.mean([len(one) for one in sets])
        assert distinct == pytest.approx(2 * own - shared[n - 1] * (17 - n))


def test_randomizations_are_those_of_all_splits() -> None:
    """Of 35 splits, with the standard deviation over all of them."""
    rng = np.random.default_rng(3)
    tokens = rng.integers(4, size=(3, 6)), rng.integers(4, size=(4, 6))
    every = [(first, set(range(7)) - set(first)) for first in combinations(range(7), 3)]
    differences = []
    for n in (1, 2):
        sets = ngram_sets(np.concatenate(tokens), n)
        means = [
            [mean_shared([sets[k] for k in own], range(4), np.ones(4)) for own in split]
            for split in every
        ]
        differences.append([abs(second - first) / (7 - n) for first, second in means])
    exact = np.array(differences)
    scores = np.max(exact / np.sqrt(np.mean(exact**2, axis=1, keepdims=True)), axis=0)
    found = shared_ngrams.permuted_shares(tokens, single_documents((3, 4)), 2, 4_000, 5)
    assert found["max_difference"][-1] == pytest.approx(exact[:, 0].max())
    assert found["t"][-1] == pytest.approx(scores[0], rel=0.05)
    drawn, wanted = (
        np.unique(np.round(x, 9)) for x in (found["max_difference"], exact.max(axis=0))
    )
    assert drawn == pytest.approx(wanted)
    p_value = np.mean(found["t"] >= found["t"][-1] - 1e-9)
    assert p_value == pytest.approx(np.mean(scores >= scores[0] - 1e-9), abs=0.03)


def test_answers_to_one_prompt_are_not_compared() -> None:
    """Of all 36 ways to deal two answers of either text to each of two prompts."""
    rng = np.random.default_rng(4)
    tokens = rng.integers(4, size=(2, 4, 6))
    own, codes = np.arange(4), np.repeat([0, 1], 2)
    units = Prompts.of((own, own), codes, False).permuted(of_words=False)
    found = shared_ngrams.permuted_shares((tokens[0], tokens[1]), units, 2, 2_000, 5)
    every = np.concatenate(tokens)
    halves = [
        {*first, *second}
        for first in combinations((0, 1, 4, 5), 2)
        for second in combinations((2, 3, 6, 7), 2)
    ]
    differences = []
    for n in (1, 2):
        sets, prompts = ngram_sets(every, n), np.tile(codes, 2)
        means = [
            [mean_shared([sets[k] for k in side], prompts[side], np.ones(2)) for side in split]
            for split in ((sorted(own), sorted({*range(8)} - own)) for own in halves)
        ]
        differences.append([abs(second - first) / (7 - n) for first, second in means])
    exact = np.array(differences)
    assert found["max_difference"][-1] == pytest.approx(exact[:, halves.index({0, 1, 2, 3})].max())
    drawn, wanted = (
        np.unique(np.round(x, 9)) for x in (found["max_difference"], exact.max(axis=0))
    )
    assert drawn == pytest.approx(wanted)


def planted(rng: np.random.Generator, n: int, share: float) -> pa.Array:
    """Draw documents; so many end with one of ten sentences that are always the same."""
    law = 1 / np.arange(1, 400)
    texts = [[f"w{k}" for k in rng.choice(399, 64, p=law / law.sum())] for _ in range(n)]
    for own in texts:
        if rng.random() < share:
            sentence = rng.integers(10)
            own[-12:] = [f"w{sentence * 12 + k}" for k in range(12)]
    return pa.array([" ".join(own) for own in texts])


@pytest.mark.parametrize("groups", [False, True])
def test_a_text_that_says_the_same_in_all_documents_differs(groups: bool) -> None:
    rng = np.random.default_rng(4)
    human, alike, model = planted(rng, 90, 0), planted(rng, 60, 0), planted(rng, 60, 0.5)
    codes = (np.arange(90) // 3, np.arange(60) // 3) if groups else (None, None)
    for samples, low, high in ((alike, 0.02, 1.0), (model, 0.0, 0.02)):
        both, texts = (counted(human), counted(samples)), ([human], [samples])
        with paired(*both, texts, groups=codes, classes=CLASSES) as pair:
            rows = {row.key: row for row in measure_rows(pair, TESTS, 1)}
        assert low < rows[KEY].p_value <= high
        assert rows[KEY].value < rows[KEY].high
        assert "cut to 64 tokens: 90 of 90 documents" in rows[KEY].note
        assert rows["repetition", "ks"].p_value > 0.02  # no document repeats more
    with paired(both[0], both[0], ([human], [human]), groups=(codes[0],) * 2, classes=CLASSES) as p:
        row = next(row for row in measure_rows(p, TESTS, 1) if row.key == KEY)
    assert (row.value, row.p_value) == (0, 1)


@pytest.mark.parametrize("grouped", [0, 1])
def test_groups_beside_documents_are_not_compared(grouped: int) -> None:
    """Groups of the reference ("swaps") or of the samples ("draws") alone: pairs are not alike."""
    rng = np.random.default_rng(6)
    texts, groups = [planted(rng, 150, 0), planted(rng, 150, 0.5)], [None, None]
    groups[grouped] = np.arange(150) // 2
    both = map(counted, texts)
    with paired(*both, [[x] for x in texts], groups=groups, classes=CLASSES) as p:
        rows = {row.key: row for row in measure_rows(p, TESTS, 1)}
    assert SHARED_NGRAMS not in {tendency for tendency, _ in rows}
    assert not np.isnan(rows["recurrence", "max_difference"].p_value)


def test_documents_that_are_short_or_too_many_are_left_out() -> None:
    batch = tokenize_batch(pa.array(["a b c d", "", "a b", "d c b a e"]))
    found = shared_ngrams.beginnings(batch, 4)
    assert (found[:, 0] == ABSENT).tolist() == [False, True, True, False]
    assert found[0].tolist() == found[3][::-1].tolist()
    assert len(set(found[0].tolist())) == 4
    kept = np.ones(5 * shared_ngrams.MOST_COMPARED, bool)
    kept[::2] = False
    chosen = shared_ngrams.spread_over(kept)
    assert chosen.sum() == shared_ngrams.MOST_COMPARED
    assert not chosen[::2].any()
    assert np.ptp(np.diff(np.flatnonzero(chosen))) <= 2
