"""Documents compared by the vectors of an encoder: distance, tests, baseline, limits, effects.

Oracles: loops over documents, leaving units out, enumeration of all splits, Holm by hand, moved
documents; level, limits and power by simulation (cases of `benchmarks/calibration_embeddings.py`).
"""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from benchmarks.calibration import rates
from benchmarks.calibration_embeddings import (
    LEVEL,
    Pages,
    PromisedAnswers,
    PromisedShift,
    TwoAnswers,
    TwoTexts,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.p_values import holm
from beyond_perplexity.inference.permuted_units import permuted_units
from beyond_perplexity.schemas.tendencies import EMBEDDINGS, TENDENCY_MEASURES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies import (
    definitions,
    discrepancy,
    diversity,
    embedding_measures,
    measurement_options,
    shifts,
)
from beyond_perplexity.tendencies import embedded_documents as embedded
from beyond_perplexity.tendencies.embedded_documents import (
    EmbeddedPair,
    EmbeddedText,
    chosen_documents,
)
from beyond_perplexity.tendencies.embedding_measures import embedding_rows, smallest_topic_share

RNG = np.random.default_rng(7)
FIRST = RNG.normal(size=(13, 4)).astype(np.float32)
SECOND = (RNG.normal(size=(9, 4)) + 0.5).astype(np.float32)
GROUPS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 5, 5])
TESTS = measurement_options.MeasurementOptions(permutations=99)
POPULATION = Pages.made(40, 4.0, 0.5)
REPEATS = 60


def text(vectors, groups=None, **held) -> EmbeddedText:
    return EmbeddedText(np.asarray(vectors, np.float32), groups, len(vectors), **held)


def pair_of(first=FIRST, second=SECOND, groups=(None, None), **held) -> EmbeddedPair:
    return EmbeddedPair.of(text(first, groups[0]), text(second, groups[1]), **held)


def mmd_row(pair: EmbeddedPair) -> definitions.MeasureRow:
    return next(iter(embedding_rows(pair, TESTS, 1)))


def looped_mean(first, second, bandwidth, skipped=lambda i, j: False) -> float:
    kept = [(x, y) for i, x in enumerate(first) for j, y in enumerate(second) if not skipped(i, j)]
    squares = [sum((float(a) - float(b)) ** 2 for a, b in zip(*pair, strict=True)) for pair in kept]
    found = [math.exp(-square / 2 / bandwidth**2) for square in squares]
    return sum(found) / len(found)


def looped_distance(first, second, bandwidth) -> float:
    own = looped_mean(first, first, bandwidth) + looped_mean(second, second, bandwidth)
    return math.sqrt(max(0.0, own - 2 * looped_mean(first, second, bandwidth)))


def quick_distance(first, second, bandwidth) -> float:
    kernel = discrepancy.gaussian_kernel(np.concatenate([first, second]), bandwidth)
    n = len(first)
    own = kernel[:n, :n].mean() + kernel[n:, n:].mean()
    return math.sqrt(own - 2 * kernel[:n, n:].mean())


def looped_square(first, second, bandwidth, groups) -> float:
    """Leave pairs of one group out of the first text, of one document out of the second."""
    own = looped_mean(first, first, bandwidth, lambda i, j: groups[i] == groups[j])
    own += looped_mean(second, second, bandwidth, lambda i, j: i == j)
    return own - 2 * looped_mean(first, second, bandwidth)


def test_the_bandwidth_is_the_median_distance_of_pairs_that_differ():
    both = np.concatenate([FIRST, SECOND])
    pairs = [np.linalg.norm(x.astype(float) - y) for x, y in combinations(both, 2)]
    assert discrepancy.median_distance(both) == pytest.approx(np.median(pairs), rel=1e-6)
    shuffled = both[RNG.permutation(len(both))]
    middle = discrepancy.median_distance(both)
    assert discrepancy.median_distance(shuffled) == pytest.approx(middle, rel=1e-12)
    assert pair_of().bandwidth == pair_of(SECOND, FIRST).bandwidth
    copies = np.concatenate([np.repeat(FIRST[:1], 50, axis=0), FIRST[1:3]])
    assert discrepancy.median_distance(copies) > 0
    assert discrepancy.median_distance(np.repeat(FIRST[:1], 5, axis=0)) == 1
    same = pair_of(np.repeat(FIRST[:1], 5, axis=0), np.repeat(FIRST[:1], 4, axis=0))
    rows = {row.measure: row for row in embedding_rows(same, TESTS, 1)}
    assert (rows["mmd"].value, rows["mmd"].p_value) == (0, 1)
    further = text(RNG.normal(size=(20, 4)))
    expected = discrepancy.median_distance(further.vectors)
    for samples in (SECOND, 3 * SECOND):
        assert pair_of(FIRST, samples, further=further).bandwidth == expected


def test_the_distance_is_that_of_a_double_loop():
    pair = pair_of()
    row = mmd_row(pair)
    assert row.value == pytest.approx(looped_distance(FIRST, SECOND, pair.bandwidth), rel=1e-6)
    # A document of weight 3 is three documents.
    kernel = discrepancy.gaussian_kernel(np.concatenate([FIRST, SECOND]), 2.0)
    label = np.arange(22) < 13
    weights = np.where(label, 3.0, 1.0)
    weighted = discrepancy.distances(kernel, discrepancy.side_weights(label[:, None], weights))[0]
    assert weighted == pytest.approx(looped_distance(np.repeat(FIRST, 3, 0), SECOND, 2.0), rel=1e-6)


def test_the_unbiased_square_leaves_out_pairs_of_a_group_and_limits_solve_their_equations():
    """The covariance of the mean embeddings as a loop over units: of groups, and of documents."""
    pair = pair_of(groups=(GROUPS, None))
    found = discrepancy.unbiased_square(pair.kernel, 13, (GROUPS, None))
    b, without = pair.bandwidth, []
    assert found.value == pytest.approx(looped_square(FIRST, SECOND, b, GROUPS), abs=1e-7)
    # Its variance is that of units left out one by one.
    for group in range(6):
        kept = group != GROUPS
        without.append((looped_square(FIRST[kept], SECOND, b, GROUPS[kept]), 6))
    for document in range(9):
        rest = np.delete(SECOND, document, axis=0)
        without.append((looped_square(FIRST, rest, b, GROUPS), 9))
    variance = sum((x - found.value) ** 2 * (n - 1) / n for x, n in without)
    assert found.error.variance == pytest.approx(variance, rel=1e-5)
    parts = []  # what a unit adds to the difference of the means, as weights of documents
    codes, first = np.append(GROUPS, 6 + np.arange(9)), np.arange(22) < 13
    for unit in range(15):
        side, n, units = (first, 13, 6) if unit < 6 else (~first, 9, 9)
        inside = (codes == unit).astype(float)
        parts.append((inside - inside.sum() / n * side) / n * math.sqrt(units / (units - 1)))
    noise = sum((x @ pair.kernel @ y) ** 2 for x in parts for y in parts)
    assert found.noise == pytest.approx(noise, rel=1e-9)
    assert found.plug_in == pytest.approx(looped_distance(FIRST, SECOND, pair.bandwidth) ** 2)
    low, high = found.square_limits(0.95)
    t = student.ppf(0.95, found.error.df)
    assert low == pytest.approx(found.value - t * math.sqrt(found.error.variance))
    variance = found.error.variance / found.plug_in * high + 2 * noise
    assert high == pytest.approx(found.value + t * math.sqrt(variance))
    assert found.limits(0.95) == (math.sqrt(max(0, low)), math.sqrt(high))


def test_the_unbiased_square_is_right_on_average_and_the_distance_too_large():
    """Two populations whose distance is known: the mean over all samples, by simulation."""
    case = TwoTexts("unit unbiased", POPULATION, 25, (True, False), share=0.5)
    errors, distances_found, of_mmd = [], [], []
    for repeat in range(200):
        pair, topic = case.pair(repeat)
        truth = POPULATION.distance(0.5, topic, pair.bandwidth)
        found = embedding_rows(pair, measurement_options.MeasurementOptions(0), 1)
        values = {row.measure: row.value for row in found}
        errors.append(values["squared_mmd"] - truth**2)
        distances_found.append(values["mmd"] - truth)
        of_mmd.append(values["standard_error"])
    assert abs(np.mean(errors)) < 4 * np.std(errors) / math.sqrt(200)
    assert np.mean(distances_found) > 4 * np.std(distances_found) / math.sqrt(200)
    ratio = math.sqrt(np.mean(np.square(of_mmd))) / np.std(distances_found)
    assert 0.85 < ratio < 1.25  # its own error (5%), and the jackknife's excess for few units


def test_permutations_are_splits_of_all_documents():
    """Of 3 and 2 documents there are 10 splits; each has its distance, drawn as often."""
    pair = pair_of(FIRST[:3], SECOND[:2])
    both = np.concatenate([FIRST[:3], SECOND[:2]])
    inside = (np.isin(np.arange(5), chosen) for chosen in combinations(range(5), 3))
    expected = [looped_distance(both[x], both[~x], pair.bandwidth) for x in inside]
    drawn = np.round(embedding_measures.randomized_distances(pair, 3000, 5), 5)
    found = Counter(drawn.tolist())
    assert set(found) == {round(x, 5) for x in expected}
    assert max(found.values()) < 3000 * 0.13


@pytest.mark.parametrize("scheme", ["groups", "swaps"])
def test_groups_are_permuted_as_units(scheme):
    own = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2]) if scheme == "groups" else None
    pair = pair_of(groups=(GROUPS, own))
    units = permuted_units(pair.groups, pair.n_documents, 3)
    both = np.concatenate([FIRST, SECOND])
    codes = np.concatenate(units.codes)
    drawn = embedding_measures.randomized_distances(pair, 20, 3)
    labels = np.concatenate(list(units.labels(20, 3)), axis=1)
    times = np.repeat(units.weights, [13, 9])
    kernel = np.exp(-((both[:, None] - both[None]) ** 2).sum(2) / 2 / pair.bandwidth**2)
    for column, distance in zip(labels.T, drawn, strict=True):
        first, second = times * column[codes], times * ~column[codes]
        mean = first / first.sum() - second / second.sum()
        assert distance == pytest.approx(math.sqrt(mean @ kernel @ mean), abs=1e-4)


def test_what_has_no_verdict_says_why():
    for groups in ((None, None), (GROUPS, GROUPS)):
        row = mmd_row(pair_of(FIRST, FIRST, groups))
        assert (row.value, row.p_value, row.withheld) == (0, 1, False)
    row = mmd_row(pair_of(groups=(GROUPS, None)))
    assert row.withheld
    assert math.isnan(row.p_value)
    assert "effective groups among the embedded documents of the reference, fewer than" in row.note
    numbers, codes = np.random.default_rng(1).normal(size=(60, 4)), np.arange(60)
    row = mmd_row(pair_of(numbers, numbers + 1, (codes // 2, codes // 3)))
    assert row.withheld
    assert row.note.startswith("no verdict: only 0 groups of as many documents in either text")
    row = mmd_row(pair_of(FIRST, SECOND[:1]))
    assert math.isnan(row.low)
    assert math.isnan(row.high)
    assert row.value > 0
    options = measurement_options.SensitivityOptions()
    (row,) = embedding_measures.rows_of_pair(pair_of(FIRST, SECOND[:1]), TESTS, options, 1)
    assert row.withheld
    assert row.note == "no verdict: a text has fewer than two embedded documents"


def test_the_baseline_is_the_mean_over_splits_of_human_text_or_halves_cut():
    human, further = RNG.normal(size=(30, 4)), RNG.normal(size=(25, 4))
    pair = EmbeddedPair.of(text(human), text(SECOND + 3), text(further))
    baseline = embedding_measures.further_baseline(text(further), pair, 1)
    both = np.concatenate([human, further[:9]]).astype(np.float32)
    splits = (np.random.default_rng(s).permutation(39) for s in range(300))
    drawn = [quick_distance(both[o[:30]], both[o[30:]], pair.bandwidth) for o in splits]
    assert baseline.mean == pytest.approx(np.mean(drawn), rel=0.03)
    assert baseline.low < baseline.mean < baseline.high
    assert embedding_measures.further_baseline(text(further[:8]), pair, 1) is None
    reference, samples = RNG.normal(size=(40, 4)), RNG.normal(size=(12, 4)) + 2
    pair = EmbeddedPair.of(text(reference), text(samples))
    baseline = embedding_measures.embedded_baseline(pair, 1)
    human, against = [], []
    for s in range(300):
        order = np.random.default_rng(s).permutation(40)
        halves = [reference[order[:12]], reference[order[20:32]]]
        human.append(quick_distance(*halves, pair.bandwidth))
        against.append(quick_distance(halves[0], samples, pair.bandwidth))
    assert baseline.mean == pytest.approx(np.mean(human), rel=0.03)
    assert baseline.excess == pytest.approx(np.mean(against) - np.mean(human), rel=0.05)


def test_shares_of_a_topic_move_the_population_in_proportion():
    kernel = discrepancy.gaussian_kernel(POPULATION.vectors, 1.0)
    shift = embedding_measures.TopicShift(kernel)
    near = np.argsort(-kernel, axis=1, kind="stable")[:, : round(0.1 * len(kernel))]
    vectors = POPULATION.vectors
    expected = [quick_distance(vectors, vectors[own], 1.0) for own in near]
    size = 0.3 * shift.factor * np.mean(expected)
    assert shift.size("mmd", 0.3) == (pytest.approx(size, rel=1e-4), 0.3)
    drawn = shift.documents(np.random.default_rng(0), 10_000, 0.4, 5)
    inside = drawn[near[5]].sum()
    assert drawn.sum() == 10_000
    assert inside == pytest.approx(10_000 * (0.4 + 0.6 * 0.1), rel=0.05)


def test_pairs_under_the_null_have_the_distance_of_permutations():
    shift = embedding_measures.TopicShift(discrepancy.gaussian_kernel(POPULATION.vectors, 1.0))
    n, rng = 40, np.random.default_rng(3)
    drawn = shift.draw(shifts.PairDraw(n, 400, 1, "unit"), 0.5, null=True)["mmd"]
    permuted = []
    for _ in range(400):
        topic = shift.topic(rng)
        counts = shift.documents(rng, n, 0, topic) + shift.documents(rng, n, 0.5, topic)
        both = POPULATION.vectors[np.repeat(np.arange(len(counts)), counts)]
        order = rng.permutation(2 * n)
        permuted.append(quick_distance(both[order[:n]], both[order[n:]], 1.0))
    assert drawn.mean() == pytest.approx(np.mean(permuted), rel=0.02)
    assert np.quantile(drawn, 0.95) == pytest.approx(np.quantile(permuted, 0.95), rel=0.04)


def test_the_smallest_share_falls_with_documents_and_is_found():
    how = measurement_options.SensitivityOptions(level=LEVEL, pairs=100)
    both = embedding_measures.human_shifts(text(POPULATION.vectors), seed=1)
    few, many = (smallest_topic_share(both, (n, n), how, 1) for n in (50, 800))
    assert many[0] == pytest.approx(few[0] / 4, rel=0.3)
    assert 0.5 < many[1] < 1
    even = smallest_topic_share(both, (40, 40), how, 1)
    assert smallest_topic_share(both, (30, 60), how, 1) == pytest.approx(even)
    alone = embedding_measures.human_shifts(text(POPULATION.vectors[:50]), seed=1)
    assert np.isnan(smallest_topic_share(alone, (40, 40), how, 1)).all()
    case = TwoTexts("unit", POPULATION, 50, (False, False))
    found = PromisedShift(case, 100, references=2)
    rate, power = rates("unit", found, REPEATS)[0].rate, found.printed[:, 1].mean()
    least, most = (binom.ppf(q, REPEATS, power) for q in (1e-3, 1 - 1e-3))
    assert least <= rate * REPEATS <= most


def test_the_few_documents_of_a_topic_are_not_taken_for_the_topic():
    """Oracle: the unbiased squared distance of each topic from the other documents."""
    for n in (60, 400):
        vectors = np.random.default_rng(n).normal(size=(n, 12)).astype(np.float32)
        shift = embedding_measures.TopicShift(discrepancy.gaussian_kernel(vectors, 4.0))
        found = []
        for near in shift.near[:40]:
            order = np.append(near, np.delete(np.arange(n), near))
            found.append(discrepancy.unbiased_square(shift.kernel[np.ix_(order, order)], len(near)))
        value, plug_in = (sum(getattr(own, k) for own in found) for k in ("value", "plug_in"))
        # That also leaves out likeness among the others, which is a little less.
        assert shift.factor**2 == pytest.approx(value / plug_in, rel=0.06)
        assert shift.factor < 0.99
    assert embedding_measures.TopicShift(np.ones((40, 40))).factor >= 0  # all documents alike


def test_answers_to_prompts_are_rejected_at_the_nominal_rate_and_shares_found_as_printed():
    """Small cases of `benchmarks/calibration_embeddings.py`; binomial limits of 1e-4 and 1e-3."""
    for case in (TwoAnswers("unit", 40), TwoAnswers("unit", 25, 2), TwoAnswers("unit", 75, 1, 3)):
        found = {rate.measure: rate.rate * REPEATS for rate in rates("unit", case, REPEATS)}
        assert set(found) == {"mmd", "similarity_difference"}
        assert max(found.values()) <= binom.isf(1e-4, REPEATS, LEVEL)
    promised = PromisedAnswers(TwoAnswers("unit", 80), references=3, pairs=40)
    (rate,) = rates("unit", promised, REPEATS)
    least, most = (binom.ppf(q, REPEATS, promised.printed[:, 1].mean()) for q in (1e-3, 1 - 1e-3))
    assert least <= rate.rate * REPEATS <= most


@pytest.mark.parametrize(
    ("units", "grouped", "documents", "most"),
    [
        *((40, (False, False), None, 4000), (30, (False, False), 200, 4000)),
        *((50, (True, True), None, 4000), (50, (True, True), 150, 120)),
        *((50, (True, False), None, 4000), (50, (True, False), 60, 4000)),
        (60, (True, False), None, 120),
    ],
)
def test_equal_populations_are_rejected_at_the_nominal_rate(units, grouped, documents, most):
    """Unequal sizes, groups on one side or both, and random subsets among them."""
    case = TwoTexts(f"unit {grouped}", POPULATION, units, grouped, documents, most)
    found = {rate.measure: rate for rate in rates("unit", case, REPEATS)}
    assert found["rejected"].rate * found["rejected"].repeats <= binom.isf(1e-4, REPEATS, LEVEL)
    assert found["lower limit above the truth"].rate <= 0.15
    assert found["upper limit below the truth"].rate <= 0.2


def test_documents_of_pages_taken_for_independent_are_distinguished():
    """The simulation can reject: pages that the test is not told."""
    case = TwoTexts("unit not told", POPULATION, 40, (True, False), told=False)
    found = {rate.measure: rate.rate for rate in rates("unit", case, 20)}
    assert found["rejected"] > 0.5


def test_documents_are_chosen_at_random_and_groups_of_both_texts_alike():
    first, second = chosen_documents((100, 30), (None, None), 40, 1)
    assert ((len(first), len(second)), len(set(first))) == ((40, 30), 40)
    assert np.all(np.diff(first) > 0)
    assert not np.array_equal(first, chosen_documents((100, 30), (None, None), 40, 2)[0])
    groups = np.repeat(np.arange(50), 4), np.repeat(np.arange(300), 4)
    first, second = chosen_documents((200, 1200), groups, 100, 1)
    assert (len(first), len(second)) == (100, 100)
    held = [len(np.unique(own[x])) for own, x in zip(groups, (first, second), strict=True)]
    assert held[1] == pytest.approx(held[0], abs=3)  # 50 groups of either text, thinned alike
    assert chosen_documents((200, 30), (groups[0], None), 100, 1)[0].tolist() != list(range(100))


class Letters:
    """An encoder of two letters; it reads five characters and knows no empty text."""

    truncated = 0

    def encode(self, texts):
        self.truncated += sum(len(x) > 5 for x in texts)
        counts = [[x[:5].count("a"), x[:5].count("b")] if x else [np.nan] * 2 for x in texts]
        return np.array(counts, np.float32)


def silenced(vectors, rng, share):
    """Take the vector of some documents away."""
    return np.where(rng.random(len(vectors))[:, None] < share, np.nan, vectors)


def test_documents_without_a_vector_are_a_cell_of_their_own():
    """Oracle: the squared MMD of both parts of the space, summed; the loop over the vectors."""
    sides = (FIRST, 2), (SECOND, 6)
    first, second = (np.concatenate([x, np.full((k, 4), np.nan)]) for x, k in sides)
    pair = pair_of(first, second)
    assert pair.bandwidth == discrepancy.median_distance(np.concatenate([FIRST, SECOND]))
    shares = 13 / 15, 9 / 15
    sides = list(zip(shares, (FIRST, SECOND), strict=True))
    both = [(one, two) for one in sides for two in sides]
    parts = [p * q * looped_mean(x, y, pair.bandwidth) for (p, x), (q, y) in both]
    square = parts[0] - parts[1] - parts[2] + parts[3] + (2 / 15 - 6 / 15) ** 2
    rows = {row.measure: row for row in embedding_rows(pair, TESTS, 1)}
    assert rows["mmd"].value == pytest.approx(math.sqrt(square), rel=1e-5)
    assert "2 of 15 documents of the reference have no vector" in rows["mmd"].note
    assert (rows["without_vector"].value, rows["without_vector_reference"].value) == (6, 2)
    silent = np.full((5, 4), np.nan)
    assert mmd_row(pair_of(silent, silent)).value == 0
    mean = looped_mean(FIRST, FIRST, pair_of(FIRST, silent).bandwidth)
    assert mmd_row(pair_of(FIRST, silent)).value == pytest.approx(math.sqrt(1 + mean), rel=1e-5)
    assert np.linalg.eigvalsh(pair.kernel).min() > -1e-9


def test_silent_documents_keep_the_level_and_more_of_them_are_found():
    """Oracle: the level of texts that differ in nothing else than by chance, here 60 pairs."""
    p_values = []
    for share in (0.1, 0.4):
        for repeat in range(REPEATS):
            rng = np.random.default_rng([repeat, int(share * 10)])
            drawn = [rng.normal(size=(40, 3)), rng.normal(size=(60, 3))]
            own = [silenced(x, rng, s) for x, s in zip(drawn, (0.1, share), strict=True)]
            p_values.append(mmd_row(pair_of(*own)).p_value)
    alike, other = np.array(p_values).reshape(2, -1) <= 0.05
    assert alike.mean() <= 0.12
    assert other.mean() >= 0.6


def test_documents_stay_with_their_groups_and_whole_groups_come_first():
    texts = ["ab", "", "aabbaabb", "b"]
    found = embedded.embedded_text(texts, np.array([4, 4, 7, 7]), 9, Letters())
    assert np.array_equal(found.vectors, [[1, 1], [np.nan] * 2, [3, 2], [0, 1]], equal_nan=True)
    assert (found.groups.tolist(), found.cut, found.n_documents) == ([0, 0, 1, 1], 1, 9)
    cut = text(SECOND, cut=2)
    rows = {row.measure: row for row in embedding_rows(EmbeddedPair.of(text(FIRST), cut), TESTS, 1)}
    assert rows["cut"].value == pytest.approx(2 / 9)
    held = text(np.arange(24).reshape(12, 2), np.array([2, 2, 0, 0, 0, 1, 1, 3, 3, 3, 3, 3]))
    assert held.first(5).vectors[:, 0].tolist() == [0, 2, 4, 6, 8]
    assert held.first(5).groups.tolist() == [1, 1, 0, 0, 0]
    assert len(held.first(6)) == 7  # a group of which half lies within is taken
    assert len(text(FIRST).first(4)) == 4


def test_vectors_are_read_as_they_were_written(tmp_path):
    held = {
        ("reference", "raw"): text(np.where(FIRST > 2, np.nan, FIRST), GROUPS, cut=2),
        ("lstm/beam", "words"): text(SECOND),
    }
    table = pa.concat_tables([embedded.vectors_table(key, own) for key, own in held.items()])
    write_shard(tmp_path / "vectors.parquet", EMBEDDINGS, table, {})
    found = embedded.read_embeddings(tmp_path / "vectors.parquet")
    assert set(found) == set(held)
    for key, own in held.items():
        assert np.array_equal(found[key].vectors, own.vectors, equal_nan=True)
        assert found[key].cut == own.cut
    assert np.array_equal(found["reference", "raw"].groups, GROUPS)
    assert found["lstm/beam", "words"].groups is None
    wrong = pa.concat_tables([table, embedded.vectors_table(("a/b", "raw"), text(FIRST[:, :2]))])
    write_shard(tmp_path / "wrong.parquet", EMBEDDINGS, wrong, {})
    with pytest.raises(InputError, match=r"wrong.parquet: holds vectors of different lengths"):
        embedded.read_embeddings(tmp_path / "wrong.parquet")


def test_tests_of_embeddings_join_the_family_of_the_body():
    p_values = [0.001, 0.02, math.nan, 0.3]
    rows = [
        definitions.MeasureRow(f"t{k}", "ks", 0.1, p_value=p, fact='word "a"', family=9, draws=99)
        for k, p in enumerate(p_values)
    ]
    of_sample_set = {"source": "a/b", "vocabulary": "words", "n_reference": 9, "n_samples": 8}
    of_sample_set["groups_reference"] = None
    table = pa.Table.from_pylist([row.cells() | of_sample_set for row in rows], TENDENCY_MEASURES)
    own = definitions.MeasureRow("embedding", "mmd", 0.2, p_value=0.004, fact="few")
    found = embedding_measures.joined_measures(table, [own], 1999).to_pylist()
    adjusted = list(map(pytest.approx, holm([0.001, 0.02, 0.3, 0.004])))
    assert [row["p_adjusted"] for row in found] == [*adjusted[:2], None, *adjusted[2:]]
    assert [row["note"] for row in found] == ['word "a"'] * 4 + ["few"]
    assert {row["n_samples"] for row in found} == {8}
    assert [row["family"] for row in found] == [4, 4, None, 4, 4]  # made anew, as is the next
    assert [row["draws"] for row in found] == [1999, 1999, None, 1999, 1999]
    assert found[-1]["source"] == "a/b"


def cosine(x, y) -> float:
    return float(x @ y / math.sqrt((x @ x) * (y @ y)))


def diversity_of(pair, permutations=99):
    options = measurement_options.MeasurementOptions(permutations=permutations)
    return {row.measure: row for row in diversity.diversity_rows(pair, options, 1)}


def test_similarities_are_those_of_double_loops_and_their_error_of_a_derivative():
    """Within and between groups; a document without a vector is left out."""
    vectors = np.concatenate([FIRST.astype(float), np.full((1, 4), np.nan)])
    groups = np.append(GROUPS, 5)
    found = diversity_of(pair_of(vectors, SECOND, (groups, None)))
    pairs = list(combinations(range(13), 2))
    between = [cosine(FIRST[i], FIRST[j]) for i, j in pairs if GROUPS[i] != GROUPS[j]]
    within = [cosine(FIRST[i], FIRST[j]) for i, j in pairs if GROUPS[i] == GROUPS[j]]
    own = [cosine(x, y) for x, y in combinations(SECOND, 2)]
    assert found["similarity_reference"].value == pytest.approx(np.mean(between), rel=1e-5)
    assert found["similarity_within_reference"].value == pytest.approx(np.mean(within), rel=1e-5)
    assert found["similarity"].value == pytest.approx(np.mean(own), rel=1e-5)
    assert "similarity_within" not in found
    difference = found["similarity_difference"]
    assert difference.value == pytest.approx(np.mean(own) - np.mean(between), rel=1e-5)
    assert difference.low < difference.value < difference.high
    sums, sizes = diversity.unit_sums(diversity.unit_vectors(vectors), groups, 6)
    every = np.ones((6, 1), bool)
    value, parts = diversity.mean_similarities(sums, sizes, every)
    for unit in range(6):
        weight = np.where(np.arange(6) == unit, 1 + 1e-6, 1.0)
        moved, _ = diversity.mean_similarities(weight[:, None] * sums, weight * sizes, every)
        assert (moved - value) / 1e-6 == pytest.approx(parts[unit], rel=1e-3, abs=1e-6)


def test_vendi_scores_have_their_closed_forms_at_as_many_documents():
    directions = np.repeat(np.eye(6)[:3], 4, axis=0)
    assert diversity.vendi_score(directions) == pytest.approx(3)
    x, y = np.array([1.0, 0]), np.array([0.6, 0.8])
    values = np.array([0.8, 0.2])  # (1 + c) / 2 and (1 - c) / 2
    entropy = -np.sum(values * np.log(values))
    assert diversity.vendi_score(np.stack([x, y])) == pytest.approx(math.exp(entropy))
    found = diversity_of(pair_of(np.eye(8), 3 * np.eye(8)[:5]))
    assert found["vendi"].value == pytest.approx(5)
    assert found["vendi_reference"].value == pytest.approx(5)


def test_randomized_similarities_are_those_of_all_splits():
    """Of 3 and 3 documents there are 20 splits, each with its t, of means of loops."""
    pair = pair_of(FIRST[:3], SECOND[:3])
    both = np.concatenate([FIRST[:3], SECOND[:3]]).astype(float)

    def t_of(first) -> float:
        means, variances = [], []
        for side in (first, [i for i in range(6) if i not in first]):
            pairs = [cosine(both[i], both[j]) for i, j in combinations(side, 2)]
            mean = np.mean(pairs)
            near = [np.mean([cosine(both[i], both[j]) for j in side if j != i]) for i in side]
            means.append(mean)
            variances.append(3 / 2 * np.sum((2 / 3 * (np.array(near) - mean)) ** 2))
        return float((means[1] - means[0]) / math.sqrt(sum(variances)))

    expected = sorted(t_of(first) for first in combinations(range(6), 3))
    found = diversity.randomized_similarities(pair, 600, 3)
    assert found[-1] == pytest.approx(t_of((0, 1, 2)), rel=1e-5)
    distinct = np.unique(np.round(found, 4))
    assert distinct == pytest.approx(np.unique(np.round(expected, 4)), abs=1e-3)


def test_collapsed_samples_are_found_and_equal_texts_keep_the_level():
    """Oracle: binomial limits of rejections of equal populations, groups against documents."""
    rng, rejected = np.random.default_rng(5), 0
    groups = np.repeat(np.arange(24), 2)
    for _ in range(60):
        pages = np.repeat(rng.normal(size=(24, 6)), 2, axis=0)
        reference = pages + rng.normal(size=(48, 6)) + 1
        samples = rng.normal(scale=math.sqrt(2), size=(40, 6)) + 1
        rejected += (
            diversity_of(pair_of(reference, samples, (groups, None)), 99)[
                "similarity_difference"
            ].p_value
            <= 0.05
        )
    assert rejected <= binom.ppf(0.999, 60, 0.075)
    samples = 0.4 * rng.normal(size=(40, 6)) + 1
    row = diversity_of(pair_of(reference, samples, (groups, None)))["similarity_difference"]
    assert (row.p_value, row.value > 0.2) == (0.01, True)
    same = diversity_of(pair_of(reference, reference))["similarity_difference"]
    assert (same.value, same.p_value) == (0, 1)
