"""What a user would take instead of our tests, and the table of them.

Oracles: chi-square by hand, scikit-learn on dense halves, binomial tails, draws counted here.
"""

import json
from collections import Counter

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom, chi2, ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from benchmarks import alternatives, sample_sets
from benchmarks.alternatives import Compared
from benchmarks.levels import LEVEL
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words

SCORES = ([0.9, 0.8, 0.85, 0.85], [0.9, 0.4], [])  # of MAUVE, by hand


def test_alternatives_are_what_they_are_called():
    """Oracles: chi-square by hand; scikit-learn on dense halves; binomial tails."""
    counts = np.array([[60, 30, 8, 1, 1, 0], [50, 45, 3, 2, 0, 0]])
    cells = np.array([[60, 30, 8, 2], [50, 45, 3, 2]])  # those expected 1.5 and 0.5 times are one
    expected = cells.mean(axis=0)
    statistic = float(((cells - expected) ** 2 / expected).sum())
    assert alternatives.chi_square_p(*counts) == pytest.approx(chi2.sf(statistic, 3))
    assert alternatives.chi_square_p(counts[0], 3 * counts[0]) == pytest.approx(1)
    rng = np.random.default_rng(4)
    sides = [rng.poisson(rate, (30, 6)) for rate in ([2, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 2])]
    both, own = np.concatenate(sides), np.repeat([0, 1], 30)
    right = 0
    for fitted, asked in StratifiedKFold(2, shuffle=True, random_state=9).split(both, own):
        model = LogisticRegression(solver="liblinear").fit(both[fitted], own[fitted])
        right += int((model.predict(both[asked]) == own[asked]).sum())
    assert 30 < right < 60
    found = alternatives.classifier_p(*map(sparse.csr_array, sides), 9)
    assert found == pytest.approx(binom.sf(right - 1, 60, 0.5))
    apart = [sparse.csr_array(np.repeat(row, 20, 0)) for row in np.eye(2, dtype=int)[:, None]]
    assert alternatives.classifier_p(*apart, 0) == pytest.approx(0.5**40)


def test_a_table_of_alternatives_has_levels_powers_and_refusals():
    """Oracles: draws counted here; text that is all foreign is found, 16 groups give no verdict."""
    pool = alternatives.synthetic_pool()
    own = len(pool.everything) - pool.foreign
    human, codes, model = pool.draw(np.random.default_rng(1), 600, 0.25, grouped=True)
    assert len(human) == len(codes) == len(model)
    sizes = np.bincount(pool.everything.groups[:own])
    assert (
        np.bincount(codes) == sizes[pool.everything.groups[human[np.unique(codes, True)[1]]]]
    ).all()
    assert human.max() < own
    assert 1e-3 < binom.cdf((model >= own).sum(), len(model), 0.25) < 1 - 1e-3
    assert (pool.counts(human[:5]).sum(axis=1) == np.diff(pool.everything.offsets)[human[:5]]).all()
    lengths = np.diff(pool.everything.offsets)
    cases = [
        Compared(pool, 80, 0.0),
        Compared(pool, 80, 0.0, grouped=True),
        Compared(pool, 80, 1.0),
    ]
    rows = list(alternatives.measured(cases, {True: 1, False: 1}, 1))
    assert set(rows[1].rates) == set(alternatives.OTHERS)
    found = ("any star, words", "held-out TVD", "classifier")
    assert all(rows[2].rates[name].rate == 1 for name in found)
    first, _, second, _ = cases[2].drawn(0)
    p_value = ks_2samp(lengths[first], lengths[second]).pvalue
    assert rows[2].rates["ks_2samp of lengths"].rate == (p_value <= LEVEL)
    scores = [row._replace(scores=np.array(x)) for row, x in zip(rows, SCORES, strict=True)]
    lines = alternatives.table(scores).splitlines()
    assert [line.split(" | ")[-1] for line in lines[2:]] == [
        "0.25 (0.85) |",
        "0.50 (0.65) |",
        "– |",
    ]
    assert lines[3].count("no verdict") == 5


def test_shuffled_words_are_told_by_order_and_by_no_bag_of_words():
    """Oracle: a shuffled document has the words that it had, and sentences are kept whole."""
    lines = (ROOT / "examples/human.jsonl").read_text(encoding="utf-8").splitlines()
    human, rng = [json.loads(line)["text"] for line in lines], np.random.default_rng(1)
    others = 0
    for text in human[:60]:
        words, moved = (change(text, rng) for change in list(sample_sets.CHANGES.values())[1:])
        assert Counter(words.split()) == Counter(text.split()) == Counter(moved.split())
        held = [" ".join(one) for one in sample_sets.cut_sentences(text, whole=False)]
        assert all(f" {one} " in f" {moved} " for one in held)
        others += moved != text
    assert others > 30
    classes = ClassOptions(load_stop_words("gensim"), True)
    change = sample_sets.shuffled_words
    shuffled = sample_sets.Compared("shuffled", human, classes, change=change, n=200)
    found = shuffled(0)
    stars = {name for name, verdict in found.items() if verdict == "differs"}
    assert "recurrence" in stars
    assert not stars & {"unigram", "length", "stop_words", "symbols", "rank_frequency"}
    assert not stars & {"type_token_unigrams", "repetition"}
    held = {"a": [found], "b": [found | {"length": "no verdict", "recurrence": "cannot tell"}]}
    head, _, first, second = sample_sets.table(held).splitlines()
    cells = [line.split(" | ") for line in (head, first, second)]
    column = {name: k for k, name in enumerate(cells[0])}
    assert [row[column["recurrence"]] for row in cells[1:]] == ["1.00", "–"]
    assert [row[column["length"]] for row in cells[1:]] == ["0.00", "–"]
