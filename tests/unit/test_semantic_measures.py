"""Measures of two texts, models compared on the same sentences, and how measures go together.

Oracles: sacrebleu, nltk; a linear program (HiGHS), gensim's wmdistance; loops; values by hand; a
text and itself. Of comparisons: loops over sentences and groups, SciPy's ranks,
coverage by simulation.
"""

import itertools
import math
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu
from sacrebleu.metrics import BLEU
from scipy.optimize import linprog
from scipy.stats import pearsonr, rankdata, spearmanr, t

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.correlations import (
    average_ranks,
    correlation_matrix,
    few_items_interval,
)
from beyond_perplexity.inference.intervals import ratio_test
from beyond_perplexity.schemas.semantics import PREDICTED, PROPER, SAMPLED, SEMANTIC_SCORES
from beyond_perplexity.semantics import differences, movers
from beyond_perplexity.semantics import word_cosines as cosines
from beyond_perplexity.semantics.bleu import bleu_of, count_bleu
from beyond_perplexity.semantics.evaluators.families import EVALUATORS
from beyond_perplexity.semantics.evaluators.word_vectors import measure_vectors
from beyond_perplexity.semantics.measures import MEASURES, MeasureOptions
from beyond_perplexity.semantics.paired_scores import EXCESS_KIND, ScoreKey, read_paired_scores
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.storage.shards import write_shard
from tests.unit.evaluator_oracles import check_refused
from tests.unit.semantic_tables import KINDS, sentences, write_scores

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


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_bleu_is_that_of_sacrebleu_and_of_nltk(order, size):
    rng = random.Random(order)
    texts = [
        [" ".join(rng.choices("abcdefg", k=rng.randint(4, 15))) for _ in range(size)]
        for _ in range(2)
    ]
    found = float(bleu_of(count_bleu(list(zip(*texts, strict=True))).sum(axis=0), order))
    metric = BLEU(max_ngram_order=order, tokenize="none", force=True)
    assert found == pytest.approx(metric.corpus_score(texts[0], [texts[1]]).score / 100)
    predicted, target = ([text.split() for text in column] for column in texts)
    weights, smooth = [1 / order] * order, SmoothingFunction().method3
    theirs = corpus_bleu([[text] for text in target], predicted, weights, smooth)
    assert found == pytest.approx(theirs, abs=5e-5)


def test_bleu_by_hand_and_of_sentences_shorter_than_its_orders():
    texts = [random_texts(seed, 200) for seed in (3, 4)]
    pairs = [(one, other) for one, other in zip(*texts, strict=True)]
    pairs = [tuple(text.replace("<unk>", "x").replace("</s>", "y") for text in p) for p in pairs]
    counts = count_bleu(pairs)
    for order in (2, 3, 4):
        metric = BLEU(max_ngram_order=order, tokenize="none", effective_order=True)
        theirs = [metric.sentence_score(one, [other]).score / 100 for one, other in pairs]
        assert bleu_of(counts, order, effective=True) == pytest.approx(theirs)
    same = count_bleu([("a <unk> b </s>", "a <unk> b </s>")])
    unlike = count_bleu([("a y b z", "a <unk> b </s>")])
    assert same.tolist() == unlike.tolist() == [[4, 4, 2, 0, 0, 0, 4, 3, 2, 1]]
    assert bleu_of(count_bleu([("<unk> <unk>", "<unk> <unk>")]), 2) == 0
    assert bleu_of(count_bleu([("", "a b")]), 2) == 0
    assert bleu_of(count_bleu([("a b c d", "a b c d")]), 4) == 1
    short = bleu_of(count_bleu([("a b c", "a b c d e")]), 2)
    assert short == pytest.approx(math.exp(1 - 5 / 3))
    mean = math.sqrt(3 / 5 * 2 / 4)
    assert bleu_of(count_bleu([("a b c x y", "a b c d e")]), 2) == pytest.approx(mean)


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
    names = ("normalized", "weighted")
    found = {name: cosines.pairwise_cosines(UNITS, *ids, k, name) for name in names}
    printed = cosines.pairwise_cosines(UNITS, *ids, k, "printed")
    for place, (one, other) in enumerate(zip(*texts, strict=True)):
        total, weights = pairwise_loop(one, other, k, near)
        own = [pairwise_loop(text, text, k, near)[0] for text in (one, other)]
        assert found["weighted"][place] == pytest.approx(total / weights, abs=1e-6)
        normalized = total / math.sqrt(own[0] * own[1])
        assert found["normalized"][place] == pytest.approx(normalized, abs=1e-6)
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
    given, names = (units, candidates, target, 2), ("normalized", "weighted", "printed")
    best = {name: cosines.pairwise_cosines(*given, name) for name in names}
    assert best["normalized"].argmax() == itself
    assert (np.delete(best["normalized"], itself) < 1).all()
    for name in ("weighted", "printed"):
        assert best[name].max() > best[name][itself]


def as_long(texts, others):
    """Repeat the words of others, up to the lengths of texts."""
    pairs = [(len(text.split()), other.split()) for text, other in zip(texts, others, strict=True)]
    return [" ".join((words * 12)[:length]) for length, words in pairs]


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
        texts[1] = as_long(*texts)
    found = movers.movers_distances(UNITS, *read(*texts))
    theirs = [linear_program(one, other) for one, other in zip(*texts, strict=True)]
    assert found == pytest.approx(theirs, abs=1e-6)


def test_movers_distances_are_gensims_and_long_texts_are_moved_too():
    """Oracle: the distance of texts said three times is theirs; so is that by transport alone."""
    gensim = pytest.importorskip("gensim.models.keyedvectors")
    held = gensim.KeyedVectors(8)
    held.add_vectors(WORDS, VECTORS)
    rng = random.Random(11)
    texts = [[" ".join(rng.choices(WORDS, k=rng.randint(1, 15))) for _ in range(40)] for _ in "ab"]
    found = movers.movers_distances(UNITS, *read(*texts))
    for value, one, other in zip(found, *texts, strict=True):
        assert value == pytest.approx(held.wmdistance(one.split(), other.split()), abs=1e-3)
    rng = random.Random(12)
    texts = [[" ".join(rng.choices(WORDS, k=size))] for size in (150, 151)]
    once = movers.movers_distances(UNITS, *read(*texts))
    thrice = movers.movers_distances(UNITS, *read(*([" ".join(part * 3)] for part in texts)))
    assert once == pytest.approx(thrice)


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
    others = as_long(texts, random_texts(18, 60))
    same, another = (measure_vectors(VECTORS, *read(x, texts), OPTIONS) for x in (texts, others))
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
    assert found["wmd"] == pytest.approx(1 - math.sqrt(2) / 2)
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


SKILLS = {"a": -0.5, "b": 0.3, "c": 0.1}


def frames(paths):
    return pd.concat([pq.read_table(path).to_pandas() for path in paths], ignore_index=True)


def paired(paths, limit=1000):
    return read_paired_scores(paths, limit)


def changed(path, **columns):
    table = pq.read_table(path)
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    write_shard(path, SEMANTIC_SCORES, table.cast(SEMANTIC_SCORES), {})


def with_values(folder, part, values):
    paths = write_scores(folder, SKILLS, sentences())
    (path,) = (one for one in paths if part in one)
    changed(path, value=values(pq.read_table(path)))
    return rows_of(paths)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Three models on 240 sentences; only to be read."""
    return write_scores(tmp_path_factory.mktemp("scores"), SKILLS, sentences())


def rows_of(paths):
    return differences.compare_semantics(paired(paths)).to_pandas()


def row(table, **wanted):
    for name, value in wanted.items():
        table = table[table[name] == value]
    (found,) = (one for _, one in table.iterrows())
    return found


def test_a_difference_is_that_of_means_with_the_interval_of_its_groups(shards):
    """Oracle: sums over documents by pandas, and the test of their ratio."""
    scores = frames(shards)
    wanted = {"split": "test", "measure": "wmd"}
    found = row(rows_of(shards), kind=PREDICTED, first="a", second="b", **wanted)
    own = scores.query("split == 'test' and measure == 'wmd' and kind == @PREDICTED")
    own = own.pivot(index=["unit_id", "sentence"], columns="model", values="value")
    lost = (own["a"] - own["b"]).groupby("unit_id").agg(["sum", "size"])
    expected = ratio_test(lost["sum"].to_numpy(), lost["size"].to_numpy(float))
    assert found["value"] == pytest.approx(expected.interval.value, rel=1e-12)
    assert (found["low"], found["high"]) == pytest.approx(expected.interval[1:3])
    assert found["p_value"] == pytest.approx(expected.p_value)
    assert (found["sentences"], found["groups"]) == (120, 40)


def test_weighted_measures_weigh_by_words_and_kinds_add_up(tmp_path):
    paths = write_scores(tmp_path, SKILLS, sentences(), kinds=(*KINDS, "spread"))
    scores, table = frames(paths), rows_of(paths)
    scores = scores[(scores["split"] == "valid") & (scores["measure"] == "accuracy")]
    words = scores["statistics"].map(lambda counts: counts[0])
    means = (scores["value"] * words).groupby([scores["model"], scores["kind"]]).sum()
    means /= words.groupby([scores["model"], scores["kind"]]).sum()
    gap = means["a"] - means["c"]
    expected = {
        PREDICTED: gap["predicted"],
        SAMPLED: gap["sampled"],
        EXCESS_KIND: gap["predicted"] - gap["partner"],
        PROPER: gap["sampled"] - gap["spread"] / 2,
    }
    table = table[(table["split"] == "valid") & (table["measure"] == "accuracy")]
    for kind, value in expected.items():
        assert row(table, first="a", second="c", kind=kind)["value"] == pytest.approx(value)


def bleu_by_loop(scores, model, kind, groups):
    own = scores[(scores["model"] == model) & (scores["kind"] == kind)]
    of_groups = [own.loc[own["unit_id"] == g, "statistics"].tolist() for g in groups]
    return np.array([np.sum(rows, axis=0) for rows in of_groups], float)


def test_bleu_differs_by_pooled_counts_and_is_tested_without_each_group(tmp_path):
    """Oracle: BLEU of summed counts, without each document in a loop, and Hall's test by hand."""
    text = sentences(n=24, per_document=3, splits=("test",))
    paths = write_scores(tmp_path, {"a": 0.0, "b": 0.6}, text, evaluators={"words": ["bleu_2"]})
    scores = frames(paths)
    groups = list(range(8))
    for kind, parts in ((PREDICTED, ("predicted",)), (EXCESS_KIND, ("predicted", "partner"))):
        held = {m: [bleu_by_loop(scores, m, part, groups) for part in parts] for m in "ab"}
        gaps = []
        for kept in (~np.zeros(8, bool), *~np.eye(8, dtype=bool)):
            values = []
            for model in "ab":
                sums = [counts[kept].sum(axis=0) for counts in held[model]]
                first, *partner = (float(bleu_of(counts, 2)) for counts in sums)
                values.append(first - sum(partner))
            gaps.append(values[0] - values[1])
        found = row(rows_of(paths), kind=kind)
        assert found["value"] == pytest.approx(gaps[0], rel=1e-12)
        changes = gaps[0] - np.array(gaps[1:])
        x = gaps[0] / math.sqrt(7 / 8 * np.sum(changes**2))
        shares = changes / math.sqrt(np.sum(changes**2))
        s, df = np.sum(shares**3), min(2 / np.sum(shares**4) - 1, 7)
        expected = 2 * t.sf(abs(x + s / 6 + s * x**2 / 3 + s**2 * x**3 / 27), df)
        assert found["p_value"] == pytest.approx(expected)
        assert found["note"] == "fewer than 20 effective groups: no interval"
        assert found[["low", "p_adjusted"]].isna().all()


def test_p_values_are_adjusted_in_a_kind_and_kept_sentences_are_whole_groups(shards):
    """Oracle: hashes of documents in their order, three sentences each."""
    for _, family in rows_of(shards).groupby(["split", "kind"]):
        expected = min(1.0, family["p_value"].min() * len(family))
        assert family["p_adjusted"].min() == pytest.approx(expected)
        assert (family["p_adjusted"] >= family["p_value"]).all()
    held = paired(shards, limit=30).sentences["valid"]
    keys = sorted(group_key(None, unit) for unit in range(40))[:10]
    assert (sorted(set(held.index.get_level_values("group"))), len(held)) == (keys, 30)


def test_equal_models_do_not_differ_and_groups_are_pages(tmp_path):
    """Ten documents a page: the groups of the table are pages."""
    paths = write_scores(tmp_path, {"a": 0.0, "b": 0.0}, sentences())
    for path in paths:
        if "/b/" in path:
            table = pq.read_table(path.replace("/b/", "/a/"))
            write_shard(path, SEMANTIC_SCORES, table, {})
    table = rows_of(paths)
    assert (table["value"].abs() < 1e-12).all()
    assert (table["p_value"] == 1).all()
    text = sentences()
    pages = text._replace(group=[f"page {unit // 10}" for unit in text.unit])
    found = rows_of(write_scores(tmp_path, SKILLS, pages))
    assert set(found["groups"]) == {4}
    assert found["low"].isna().all()


def test_the_level_of_the_test_holds(tmp_path):
    """Under exchangeable models p < .1 comes in a tenth of the cases: 40 draws, 5 measures."""
    held = {"glove": ("wmd", "average", "greedy_f1"), "words": ("bleu_2", "accuracy")}
    small = []
    for seed in range(40):
        text = sentences(n=45, per_document=1, splits=("test",), seed=seed)
        folder = tmp_path / str(seed)
        models = {f"a{seed}": 0.0, f"b{seed}": 0.0}
        paths = write_scores(folder, models, text, evaluators=held, kinds=("predicted",))
        small += list(rows_of(paths)["p_value"] < 0.1)
    assert 0.04 < np.mean(small) < 0.17  # two standard errors of 40 draws of dependent tests


@pytest.mark.parametrize("blocks", [2, 5])
def test_results_do_not_depend_on_how_shards_are_cut(tmp_path, shards, blocks):
    cut = write_scores(tmp_path, SKILLS, sentences(), blocks=blocks)
    one, other = paired(shards, 60), paired(cut, 60)
    found = [differences.compare_semantics(held) for held in (one, other)]
    assert found[0].equals(found[1])
    assert differences.correlate_measures(one).equals(differences.correlate_measures(other))


def test_what_has_no_value_is_left_out_and_counted(tmp_path):
    """Such as aligned words of a model of subwords, and the cross-entropy of what is impossible."""

    def values(table):
        gone = pc.and_(pc.equal(table["measure"], "wmd"), pc.less(table["unit_id"], 5))
        return pc.if_else(gone, None, table["value"])

    rows = with_values(tmp_path, "/b/glove/", values)
    own = rows[(rows["split"] == "valid") & (rows["measure"] == "wmd")]
    assert set(own["sentences"]) == {105}
    said = "15 of 120 sentences left out: a model has no value"
    assert own["note"].str.startswith(said).all()
    rest = rows[(rows["split"] == "valid") & (rows["measure"] == "average")]
    assert set(rest["sentences"]) == {120}

    def values(table):
        aligned = pc.is_in(table["measure"], pa.array(["cosine", "aligned_cosine"]))
        return pc.if_else(aligned, None, table["value"])

    rows = with_values(tmp_path, "/b/glove/", values)
    pairs = {(r["first"], r["second"]) for _, r in rows[rows["measure"] == "cosine"].iterrows()}
    assert pairs == {("a", "c")}
    assert len(rows[(rows["measure"] == "wmd") & (rows["kind"] == PREDICTED)]) == 2 * 3

    def values(table):
        first = pc.and_(pc.equal(table["measure"], "cross_entropy"), pc.equal(table["unit_id"], 0))
        return pc.if_else(first, math.inf, table["value"])

    rows = with_values(tmp_path, "/b/words/", values)
    own = rows[(rows["measure"] == "cross_entropy") & (rows["split"] == "valid")]
    assert {(r["first"], r["second"]) for _, r in own.iterrows()} == {("a", "c")}
    assert set(own["sentences"]) == {120}


def test_other_sentences_missing_shards_and_strange_values_are_refused(tmp_path):
    paths = write_scores(tmp_path / "1", SKILLS, sentences(), blocks=2)
    with pytest.raises(InputError, match="'b' has 1 shards by 'glove', others have 2"):
        paired([p for p in paths if "/b/glove/00001" not in p])
    (path,) = (p for p in paths if "/c/words/00001" in p)
    table = pq.read_table(path)
    changed(path, unit_id=pc.add(table["unit_id"], 1))
    check_refused(r"c/words/00001.*is of other sentences than", paired, paths)
    again = write_scores(tmp_path / "2", SKILLS, sentences())
    with pytest.raises(InputError, match="another folder is of this model and evaluator too"):
        paired([*again, str(tmp_path / "1" / "a" / "glove" / "00000.parquet")])
    paths = write_scores(tmp_path, {"a": 0.0, "b": 0.1}, sentences())
    table = pq.read_table(paths[0])
    write_shard(paths[0], SEMANTIC_SCORES, pa.concat_tables([table, table.slice(0, 1)]), {})
    check_refused("a sentence has two values of 'bleu_2'", paired, paths)
    changed(paths[0], measure=pa.array(["telepathy"] * (len(table) + 1)))
    check_refused("there is no measure 'telepathy'", paired, paths)


def test_ranks_and_matrices_are_scipys_and_a_perfect_order_of_five_leaves_all_in_reach():
    """2 of 120 orders are perfect, so 0 is left out, but barely; an exact 1 is inside."""
    values = np.round(np.random.default_rng(1).normal(size=(40, 4)), 1)  # with ties
    values[0, 0], values[1, 0] = math.inf, -math.inf
    expected = np.stack([rankdata(column) for column in values.T], 1)
    assert np.array_equal(average_ranks(values), expected)
    matrix = correlation_matrix(expected)
    assert matrix[0, 1] == pytest.approx(spearmanr(values[:, 0], values[:, 1]).statistic)
    assert matrix[2, 3] == pytest.approx(pearsonr(expected[:, 2], expected[:, 3]).statistic)
    constant = np.column_stack([expected[:, 0], np.full(40, 0.1)])
    assert math.isnan(correlation_matrix(constant)[0, 1])
    assert np.isnan(correlation_matrix(constant[:1])).all()
    assert np.isnan(correlation_matrix(constant[:0])).all()
    low, high = few_items_interval(1.0, 5, ranks=True)
    assert 0 < low < 0.3
    assert high == 1
    assert few_items_interval(-1.0, 5, ranks=True) == (-1, pytest.approx(-low))
    assert all(map(math.isnan, few_items_interval(0.5, 4, ranks=True)))


def correlations(paths, over):
    table = differences.correlate_measures(paired(paths)).to_pandas()
    return table[table["over"] == over]


@pytest.mark.parametrize(("method", "scipys"), [("pearson", pearsonr), ("spearman", spearmanr)])
def test_over_sentences_it_is_the_mean_of_the_models(shards, method, scipys):
    """Oracle: SciPy model by model; the jackknife in a loop, as there are fewer than 50 groups."""
    scores = frames(shards)
    scores = scores.query("split == 'test' and kind == @PREDICTED")
    rows = scores[scores["measure"].isin(["wmd", "bleu_3"])].groupby("model")
    how = {"index": ["unit_id", "sentence"], "columns": "measure", "values": "value"}
    wide = {model: own.pivot(**how) for model, own in rows}

    def mean(keep):
        found = [scipys(own.loc[keep, "wmd"], own.loc[keep, "bleu_3"]) for own in wide.values()]
        return float(np.mean([one.statistic for one in found]))

    units = wide["a"].index.get_level_values(0)
    value = mean([True] * len(units))
    without = [math.atanh(mean(list(units != unit))) for unit in sorted(set(units))]
    error = math.sqrt(39 / 40 * sum((one - math.atanh(value)) ** 2 for one in without))
    found = correlations(shards, "sentences")
    found = found[(found["split"] == "test") & (found["method"] == method)]
    own = row(found, first_measure="bleu_3", second_measure="wmd")
    assert own["value"] == pytest.approx(value)
    half = t.ppf(0.975, 39) * error
    limits = math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)
    assert ((own["low"], own["high"]), own["n"], own["groups"]) == (pytest.approx(limits), 120, 40)


def test_what_does_not_vary_is_left_out_and_what_follows_from_another_has_no_width(tmp_path):
    """Such as one that predicts the same word everywhere."""
    paths = write_scores(tmp_path, SKILLS, sentences())
    (path,) = (p for p in paths if "/b/glove/" in p)
    changed(path, value=pa.array([0.25] * pq.read_table(path).num_rows))
    rest = write_scores(tmp_path / "rest", {m: SKILLS[m] for m in "ac"}, sentences())
    found, expected = (correlations(p, "sentences") for p in (paths, rest))
    inside = found["first_evaluator"].eq("glove") & found["second_evaluator"].eq("glove")
    kept = ["value", "low", "high"]
    assert np.allclose(found.loc[inside, kept], expected.loc[inside, kept])
    assert set(found.loc[inside, "note"]) == {"of 2 of 3 models"}
    assert found.loc[~inside & found["first_evaluator"].eq("words"), "value"].notna().all()
    # A logistic of a cosine has its ranks
    paths = write_scores(tmp_path, SKILLS, sentences())
    for path in (p for p in paths if "/glove/" in p):
        table = pq.read_table(path).to_pandas()
        source = table.loc[table["measure"] == "aligned_cosine", "value"].to_numpy()
        table.loc[table["measure"] == "cosine", "value"] = 1 / (1 + np.exp(-source))
        write_shard(path, SEMANTIC_SCORES, pa.Table.from_pandas(table, SEMANTIC_SCORES), {})
    found = correlations(paths, "sentences")
    own = found[(found["first_measure"] == "aligned_cosine") & (found["method"] == "spearman")]
    own = own[own["second_measure"] == "cosine"]
    assert set(own["note"]) == {"one follows from the other"}
    assert np.allclose(own[["value", "low", "high"]], 1)


def test_over_models_it_is_that_of_their_values_and_few_have_no_interval(tmp_path, shards):
    paths = write_scores(tmp_path, {name: k / 5 for k, name in enumerate("abcdef")}, sentences())
    held = paired(paths)
    keys = [ScoreKey("test", "glove", measure, PREDICTED) for measure in ("wmd", "average")]
    values = [held.sums[key].numerators.sum(axis=0) for key in keys]
    found = correlations(paths, "models")
    found = found[(found["split"] == "test") & (found["method"] == "spearman")]
    own = row(found, first_measure="wmd", second_measure="average")
    assert own["value"] == pytest.approx(spearmanr(*values).statistic)
    assert (own["n"], own["low"] < own["value"] <= own["high"]) == (6, True)
    few = correlations(shards, "models")
    assert few["value"].notna().all()
    assert few["low"].isna().all()
    assert set(few["note"]) == {"fewer than 5 models: no interval"}
    two = write_scores(tmp_path, {"a": 0.0, "b": 1.0}, sentences(n=30, per_document=1))
    assert correlations(two, "models")["value"].isna().all()
    assert len(correlations(two, "sentences"))  # documents of one sentence are fine


@pytest.mark.parametrize("items", [5, 6, 8])
@pytest.mark.parametrize("true", [0.0, 0.6, 0.95])
def test_intervals_of_few_items_hold_the_truth(items, true):
    """Normal pairs, 1,500 draws: 95% nominal, at least 93.5% here."""
    random = np.random.default_rng(items)
    first = random.normal(size=(1_500, items))
    second = true * first + math.sqrt(1 - true**2) * random.normal(size=first.shape)
    of_ranks = 6 / math.pi * math.asin(true / 2)
    held = {True: 0, False: 0}
    for one, two in zip(first, second, strict=True):
        pair = np.column_stack([one, two])
        for ranks, truth in ((True, of_ranks), (False, true)):
            value = correlation_matrix(average_ranks(pair) if ranks else pair)[0, 1]
            low, high = few_items_interval(float(value), items, ranks=ranks)
            held[ranks] += low <= truth <= high
    assert min(held.values()) >= 0.935 * 1_500
