"""Measures of two texts: BLEU, cosines, Word Mover's Distance, greedy alignment, their curves.

Oracles: sacrebleu and nltk; a linear program (HiGHS) and gensim's wmdistance; loops over words;
values worked out by hand; that a text and itself have the most of all texts.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu
from sacrebleu.metrics import BLEU
from scipy.optimize import linprog

from beyond_perplexity.semantics import word_cosines as cosines
from beyond_perplexity.semantics.bleu import bleu_of, count_bleu
from beyond_perplexity.semantics.evaluators.families import EVALUATORS
from beyond_perplexity.semantics.evaluators.word_vectors import measure_vectors
from beyond_perplexity.semantics.measures import MEASURES, MeasureOptions
from beyond_perplexity.semantics.movers import movers_distances

WORDS = [f"w{k}" for k in range(40)]
VECTORS = np.random.default_rng(1).normal(0.3, 1, (40, 8)).astype(np.float32)
UNITS = cosines.unit_rows(VECTORS)
OPTIONS = MeasureOptions()
VECTOR_MEASURES = EVALUATORS["vectors"].measures


def random_texts(seed: int, count: int, shortest: int = 1, longest: int = 12) -> list[str]:
    """Texts with repeated words, words without a vector and what is no word."""
    rng = random.Random(seed)
    words = [*WORDS, *WORDS[:3] * 10, "rare", "other", "<unk>", "</s>"]
    return [" ".join(rng.choices(words, k=rng.randint(shortest, longest))) for _ in range(count)]


def read(*columns: list[str]):
    index = cosines.WordIndex({word: row for row, word in enumerate(WORDS)})
    return [index.read(texts) for texts in columns]


def slow_cosine(one: str, other: str) -> float:
    """Say what the cosine of two words is in another way."""
    if one in ("<unk>", "</s>") or other in ("<unk>", "</s>"):
        return 0.0
    if one == other:
        return 1.0
    if one not in WORDS or other not in WORDS:
        return 0.0
    x, y = (VECTORS[WORDS.index(word)].astype(float) for word in (one, other))
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


# ---- BLEU ----


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_bleu_is_that_of_sacrebleu_and_of_nltk(order, size):
    rng = random.Random(order)
    texts = [
        [" ".join(rng.choices("abcdefg", k=rng.randint(4, 15))) for _ in range(size)]
        for _ in range(2)
    ]
    counts = count_bleu(list(zip(*texts, strict=True)))
    found = float(bleu_of(counts.sum(axis=0), order))
    metric = BLEU(max_ngram_order=order, tokenize="none", force=True)
    assert found == pytest.approx(metric.corpus_score(texts[0], [texts[1]]).score / 100)
    predicted, target = ([text.split() for text in column] for column in texts)
    weights, smooth = [1 / order] * order, SmoothingFunction().method3
    theirs = corpus_bleu([[text] for text in target], predicted, weights, smooth)
    assert found == pytest.approx(theirs, abs=5e-5)


def test_bleu_of_a_sentence_leaves_out_orders_longer_than_it():
    texts = [random_texts(seed, 200) for seed in (3, 4)]
    pairs = [(one, other) for one, other in zip(*texts, strict=True)]
    pairs = [tuple(text.replace("<unk>", "x").replace("</s>", "y") for text in p) for p in pairs]
    counts = count_bleu(pairs)
    for order in (2, 3, 4):
        metric = BLEU(max_ngram_order=order, tokenize="none", effective_order=True)
        theirs = [metric.sentence_score(one, [other]).score / 100 for one, other in pairs]
        assert bleu_of(counts, order, effective=True) == pytest.approx(theirs)


def test_bleu_by_hand_what_is_no_word_matches_nothing_but_counts():
    same = count_bleu([("a <unk> b </s>", "a <unk> b </s>")])
    unlike = count_bleu([("a y b z", "a <unk> b </s>")])
    assert same.tolist() == unlike.tolist() == [[4, 4, 2, 0, 0, 0, 4, 3, 2, 1]]
    assert bleu_of(count_bleu([("<unk> <unk>", "<unk> <unk>")]), 2) == 0
    assert bleu_of(count_bleu([("", "a b")]), 2) == 0
    assert bleu_of(count_bleu([("a b c d", "a b c d")]), 4) == 1
    short = bleu_of(count_bleu([("a b c", "a b c d e")]), 2)
    assert short == pytest.approx(math.exp(1 - 5 / 3))
    assert bleu_of(count_bleu([("a b c x y", "a b c d e")]), 2) == pytest.approx(
        math.sqrt(3 / 5 * 2 / 4)
    )


# ---- words in their places ----


def test_aligned_cosines_and_greedy_alignment_are_loops_over_words():
    texts = [random_texts(seed, 60) for seed in (5, 6)]
    found = cosines.aligned_cosines(UNITS, *read(*texts))
    for value, one, other in zip(found, *texts, strict=True):
        pairs = itertools.zip_longest(one.split(), other.split(), fillvalue="<unk>")
        assert value == pytest.approx(np.mean([slow_cosine(*pair) for pair in pairs]), abs=1e-6)
    texts = [random_texts(seed, 60) for seed in (13, 14)]
    precisions, recalls, f1 = cosines.greedy_alignments(UNITS, *read(*texts))
    for place, (one, other) in enumerate(zip(*texts, strict=True)):
        table = [[slow_cosine(x, y) for y in other.split()] for x in one.split()]
        precision = np.mean([max(row) for row in table])
        recall = np.mean([max(column) for column in zip(*table, strict=True)])
        assert precisions[place] == pytest.approx(precision, abs=1e-6)
        assert recalls[place] == pytest.approx(recall, abs=1e-6)
        p, r = max(0, precision), max(0, recall)
        assert f1[place] == pytest.approx(2 * p * r / (p + r) if p + r else 0, abs=1e-6)


def pairwise_loop(one: str, other: str, k: int, weigh) -> tuple[float, float]:
    """Sum weighted cosines, and weights, over all places at most k apart."""
    first, second = one.split(), other.split()
    total = weights = 0.0
    for i, j in itertools.product(range(len(first)), range(len(second))):
        if abs(i - j) <= k:
            total += weigh(abs(i - j)) * slow_cosine(first[i], second[j])
            weights += weigh(abs(i - j))
    return total, weights


@pytest.mark.parametrize("k", [1, 2, 5])
def test_pairwise_cosines_are_a_loop_over_places(k):
    texts = [random_texts(seed, 40) for seed in (7, 8)]
    texts = [[text.replace("<unk>", "a").replace("</s>", "b") for text in part] for part in texts]
    ids = read(*texts)
    near, far = (lambda gap: 1 - gap / (k + 1)), (lambda gap: gap / k)
    found = {
        name: cosines.pairwise_cosines(UNITS, *ids, k, name) for name in ("normalized", "weighted")
    }
    printed = cosines.pairwise_cosines(UNITS, *ids, k, "printed")
    for place, (one, other) in enumerate(zip(*texts, strict=True)):
        total, weights = pairwise_loop(one, other, k, near)
        own = [pairwise_loop(text, text, k, near)[0] for text in (one, other)]
        assert found["weighted"][place] == pytest.approx(total / weights, abs=1e-6)
        assert found["normalized"][place] == pytest.approx(
            total / math.sqrt(own[0] * own[1]), abs=1e-6
        )
        sums = pairwise_loop(one, other, k, far)[0]
        assert printed[place] == pytest.approx(sums / (len(one.split()) * k), abs=1e-6)


def test_equation_11_by_hand_and_only_normalized_a_text_is_nearest_to_itself():
    """Words a, b at right angles, texts "a b" and "a b", k = 1: weights 1 and 1/2, or 0 and 1.

    (a, a, a) is nearer to (a, b, a) than it is to itself, for k = 2.
    """
    units = np.eye(2, dtype=np.float32)
    index = cosines.WordIndex({"a": 0, "b": 1})
    first, second = index.read(["a b"]), index.read(["b a"])
    assert cosines.pairwise_cosines(units, first, first, 1, "normalized") == 1
    assert cosines.pairwise_cosines(units, first, first, 1, "weighted") == pytest.approx(2 / 3)
    assert cosines.pairwise_cosines(units, first, first, 1, "printed") == 0
    assert cosines.pairwise_cosines(units, first, second, 1, "normalized") == pytest.approx(1 / 2)
    assert cosines.pairwise_cosines(units, first, second, 1, "printed") == 1
    units = np.eye(2, dtype=np.float32)
    index = cosines.WordIndex({"a": 0, "b": 1})
    texts = ["".join(f"{word} " for word in words) for words in itertools.product("ab", repeat=3)]
    target = index.read(["a b a"] * len(texts))
    candidates = index.read(texts)
    itself = texts.index("a b a ")
    best = {
        name: cosines.pairwise_cosines(units, candidates, target, 2, name)
        for name in ("normalized", "weighted", "printed")
    }
    assert best["normalized"].argmax() == itself
    assert (np.delete(best["normalized"], itself) < 1).all()
    for name in ("weighted", "printed"):
        assert best[name].max() > best[name][itself]


# ---- Word Mover's Distance ----


def linear_program(one: str, other: str) -> float:
    """Solve the transport problem of all words with all by HiGHS."""
    first, second = one.split(), other.split()
    costs = np.array([[math.sqrt(2 - 2 * slow_cosine(x, y)) for y in second] for x in first])
    n, m = costs.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.tile(np.eye(m), n)
    shares = [1 / n] * n + [1 / m] * m
    return linprog(costs.ravel(), A_eq=np.vstack([rows, columns]), b_eq=shares).fun


@pytest.mark.parametrize("equal", [False, True])
def test_movers_distances_are_a_linear_program(equal):
    texts = [random_texts(seed, 80) for seed in (9, 10)]
    if equal:  # an assignment, other than transport
        texts[1] = [
            " ".join((other.split() * 12)[: len(one.split())])
            for one, other in zip(*texts, strict=True)
        ]
    found = movers_distances(UNITS, *read(*texts))
    theirs = [linear_program(one, other) for one, other in zip(*texts, strict=True)]
    assert found == pytest.approx(theirs, abs=1e-6)


def test_movers_distances_are_gensims_and_long_texts_are_moved_too():
    """Oracle: the distance of texts said three times is theirs; so is that by transport alone."""
    gensim = pytest.importorskip("gensim.models.keyedvectors")
    held = gensim.KeyedVectors(8)
    held.add_vectors(WORDS, VECTORS)
    rng = random.Random(11)
    texts = [[" ".join(rng.choices(WORDS, k=rng.randint(1, 15))) for _ in range(40)] for _ in "ab"]
    found = movers_distances(UNITS, *read(*texts))
    for value, one, other in zip(found, *texts, strict=True):
        assert value == pytest.approx(held.wmdistance(one.split(), other.split()), abs=1e-3)
    rng = random.Random(12)
    texts = [[" ".join(rng.choices(WORDS, k=size))] for size in (150, 151)]
    once = movers_distances(UNITS, *read(*texts))
    thrice = movers_distances(UNITS, *read(*([" ".join(part * 3)] for part in texts)))
    assert once == pytest.approx(thrice)


# ---- greedy alignment, averages ----


def test_means_are_of_words_with_a_vector_and_others_are_like_themselves_alone():
    texts = ["w1 rare w2 w1", "rare <unk>", "", "w5", "<unk> w7 </s>"]
    (ids,) = read(texts)
    found = cosines.mean_vectors(VECTORS, ids)
    wanted = [(2 * VECTORS[1] + VECTORS[2]) / 3, None, None, VECTORS[5], VECTORS[7]]
    for row, mean in zip(found, wanted, strict=True):
        assert np.isnan(row).all() if mean is None else row == pytest.approx(mean, rel=1e-6)
    index = cosines.WordIndex({"a": 0, "<unk>": 1})  # some tables have a vector for it
    ids = index.read(["a rare other rare <unk> </s>"]).ids
    assert ids.tolist() == [0, -2, -3, -2, cosines.NO_WORD, cosines.NO_WORD]
    units = np.eye(2, dtype=np.float32)
    wanted = np.zeros((6, 6))
    wanted[0, 0] = wanted[2, 2] = wanted[1, 1] = wanted[3, 3] = wanted[1, 3] = wanted[3, 1] = 1
    assert (cosines.cosine_matrix(units, ids, ids) == wanted).all()
    assert cosines.word_cosines(units, ids, ids).tolist() == [1, 1, 1, 1, 0, 0]


# ---- all of them ----


@pytest.mark.parametrize("weighting", ["normalized", "weighted", "printed"])
def test_measures_of_a_pair_do_not_depend_on_others(weighting):
    """Bit for bit: alone, in another order, beside other words; other rows of the table."""
    options = MeasureOptions(weighting=weighting, movers="exponential")
    texts = [random_texts(seed, 70) for seed in (15, 16)]
    whole = measure_vectors(VECTORS, *read(*texts), options)
    assert tuple(whole) == VECTOR_MEASURES
    order = np.random.default_rng(0).permutation(40)
    index = cosines.WordIndex({WORDS[k]: place for place, k in enumerate(order.tolist())})
    for place in range(70):
        ids = [index.read([column[place]]) for column in texts]
        alone = measure_vectors(VECTORS[order], *ids, options)
        for name, values in alone.items():
            assert values[0].tobytes() == whole[name][place].tobytes(), name


def test_a_text_and_itself_have_the_most():
    texts = random_texts(17, 60)
    texts = [text.replace("<unk>", "rare").replace("</s>", "w9") for text in texts]
    others = random_texts(18, 60)
    others = [
        " ".join((other.split() * 12)[: len(text.split())])
        for text, other in zip(texts, others, strict=True)
    ]
    (same, another) = (
        measure_vectors(VECTORS, *read(part, texts), OPTIONS) for part in (texts, others)
    )
    for name in VECTOR_MEASURES:
        assert MEASURES[name].reaches
        defined = ~np.isnan(same[name])
        assert defined.sum() > 50
        assert same[name][defined] == pytest.approx(MEASURES[name].high), name
        below = ~np.isnan(another[name])
        assert (another[name][below] <= MEASURES[name].high + 1e-9).all()
        assert (another[name][below] >= MEASURES[name].low - 1e-9).all()
        assert (another[name][below] < MEASURES[name].high - 1e-3).mean() > 0.9


def test_what_is_no_word_gets_what_nothing_gets_and_there_need_be_none():
    found = measure_vectors(VECTORS, *read(["<unk> </s>"], ["<unk> </s>"]), OPTIONS)
    assert np.isnan(found.pop("average"))
    assert found.pop("wmd") == pytest.approx(1 - math.sqrt(2) / 2)
    for name, value in found.items():
        assert value == pytest.approx(MEASURES[name].nothing), name
    for pair in (("", "w1"), ("w1", ""), ("", "")):
        found = measure_vectors(VECTORS, *read(*([text] for text in pair)), OPTIONS)
        assert all(np.isnan(values).all() for values in found.values())
    index = cosines.WordIndex({})
    ids = [index.read(["a b"]), index.read(["a c"])]
    found = measure_vectors(np.zeros((0, 5), np.float32), *ids, OPTIONS)
    assert found["aligned_cosine"] == found["greedy_f1"] == 0.5
    assert found["wmd"] == pytest.approx(1 - math.sqrt(2) / 4)
    none = measure_vectors(VECTORS, *read([], []), OPTIONS)
    assert all(values.shape == (0,) for values in none.values())


# ---- curves ----


def test_curves_by_hand_and_ranges_of_rows_are_those_of_the_papers_constants():
    """With the paper's constants .82 is put to .55, and .94 to .8, which the paper has of .82."""
    assert cosines.exponential_scaling([0, 0.5, 1]) == pytest.approx([0, 1 - 0.5 * math.sqrt(2), 1])
    grid = np.linspace(0, 1, 101)
    found = cosines.exponential_scaling(grid)
    assert found == pytest.approx(1 + 2**grid * grid - 2**grid)  # its second form
    assert (np.diff(found) > 0).all()
    assert (found[1:-1] < grid[1:-1]).all()
    found = cosines.scaled_cosine([0.82, 0.8, 0.9386], OPTIONS.temperature, OPTIONS.bias)
    assert found == pytest.approx([1 / (1 + math.exp(-0.2)), 0.5, 0.8], abs=1e-4)
    assert cosines.logistic([-1000, 0, 1000]).tolist() == [0, 0.5, 1]
    distances = [0, 1, 2]
    assert cosines.movers_similarity(distances, OPTIONS).tolist() == [1, 0.5, 0]
    falling = cosines.movers_similarity(distances, MeasureOptions(movers="exponential"))
    assert falling == pytest.approx([1, math.exp(-1), math.exp(-2)])
    cosine, scaled = MEASURES["cosine"], MEASURES["cosine_scaled"]
    assert (cosine.low, cosine.high) == pytest.approx(tuple(cosines.logistic([-1, 1])))
    arguments = OPTIONS.temperature, OPTIONS.bias
    limits = cosines.scaled_cosine([-1, 1, 0], *arguments)
    assert (scaled.low, scaled.high, scaled.nothing) == pytest.approx(tuple(limits))
    assert cosine.nothing == cosines.logistic(0)
    for row in MEASURES.values():
        assert row.nothing is None or row.low <= row.nothing <= row.high
