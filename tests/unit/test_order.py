"""Numbers and curves of documents: recurrence and what stands beside it.

Oracles: plain loops, exact enumeration of all orders of a document, closed forms of Markov chains,
other implementations (scipy, the tests of means), files cut in other ways.
"""

import json
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import ttest_ind

from benchmarks.populations import Topics
from beyond_perplexity.inference import mean_curves
from beyond_perplexity.inference.permuted_units import permuted_units, single_documents
from beyond_perplexity.inference.two_sample_test import permuted_means
from beyond_perplexity.tendencies import (
    compression,
    document_counts,
    recurrence,
    repetition,
    taylor,
)
from beyond_perplexity.tendencies.curve_comparison import sums_by_place
from beyond_perplexity.tendencies.curve_shifts import CurveShift
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.definitions import TENDENCIES, family_of
from beyond_perplexity.tendencies.document_curves import curve_comparisons
from beyond_perplexity.tendencies.document_shifts import GroupedDocuments
from beyond_perplexity.tendencies.document_statistics import ABSENT, SIZED, sized_counter
from beyond_perplexity.tendencies.human_baselines import (
    reference_baselines,
    split_baselines,
    with_halves,
)
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import (
    HumanText,
    Measuring,
    further_pair,
    paired,
    part_of,
)
from beyond_perplexity.tendencies.sensitivity import minimum_detectable_effects
from beyond_perplexity.tendencies.shifts import NumberShift, PairDraw, smoothed_numbers
from beyond_perplexity.tendencies.statistics import (
    HISTOGRAMS,
    StatisticsCounter,
    merge_statistics,
    read_statistics,
)
from beyond_perplexity.tendencies.tokens import tokenize_batch
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords

STOP = StopWords("test", frozenset({"w0"}))
CLASSES = ClassOptions(STOP, True)
CURVE, NUMBER = ("recurrence", "max_difference"), ("repetition", "ks")
SLOPE = ("taylor", "slope_difference")
FAST = MeasurementOptions(permutations=99, bootstrap=20, monte_carlo=0)


def texts_of(ids) -> pa.Array:
    return pa.array([" ".join(f"w{word}" for word in own) for own in ids], pa.string())


def counted(texts: pa.Array):
    with StatisticsCounter(STOP) as counter:
        counter.add(texts)
        return counter.result()


def documents(rng, n: int, order: bool = True, most: int = 60) -> pa.Array:
    """Draw documents that come back to their last words, or the same with shuffled words."""
    found = []
    for length in rng.integers(6, most, n):
        words = []
        for _ in range(length):
            back = words[-3:] if words and rng.random() < 0.3 else range(40)
            words.append(int(rng.choice(back)))
        found.append(words if order else rng.permutation(words).tolist())
    return texts_of(found)


def test_recurrence_is_that_of_loops_and_its_expectation_that_of_all_orders() -> None:
    rng = np.random.default_rng(1)
    texts = documents(rng, 40)
    held = sized_counter(CLASSES, {"recurrence_16": SIZED["recurrence_16"]})(tokenize_batch(texts))
    assert SIZED["recurrence_16"].places.tolist() == [1, 2, 3, 4, 6, 8]
    for text, found in zip(texts.to_pylist(), held["recurrence_16"], strict=True):
        words = text.split()
        if len(words) < 16:
            assert (found == np.iinfo(np.int32).min).all()
            continue
        words = words[:16]
        expected = sum(words.count(word) - 1 for word in words) / (16 * 15)
        for d, value in zip((1, 2, 3, 4, 6, 8), found, strict=True):
            share = np.mean([a == b for a, b in zip(words, words[d:], strict=False)])
            assert value == pytest.approx(1e5 * (share - expected), abs=0.51)
    orders = np.array(list(permutations([0, 0, 0, 1, 1, 2, 3])))
    for d in (1, 2, 3):
        share = np.mean(orders[:, d:] == orders[:, :-d])
        assert share == pytest.approx(recurrence.same_pairs(orders[:1])[0] / 42)


def test_recurrence_of_a_markov_chain_is_its_closed_form_and_of_shuffled_words_zero() -> None:
    """R(d) = Σ π (P^d)_ii; the expectation of a document is the mean of R over all its pairs."""
    rng, n, size = np.random.default_rng(2), 3000, 32
    chain = np.array([[0.6, 0.3, 0.1], [0.1, 0.5, 0.4], [0.5, 0.1, 0.4]])
    law = np.linalg.matrix_power(chain, 200)[0]
    states = np.empty((n, size), int)
    states[:, 0] = rng.choice(3, n, p=law)
    for place in range(1, size):
        cut = chain.cumsum(axis=1)[states[:, place - 1]]
        states[:, place] = (rng.random(n)[:, None] > cut).sum(axis=1)
    powers = [np.linalg.matrix_power(chain, d) for d in range(size)]
    same = np.array([law @ np.diag(power) for power in powers])
    gaps = np.arange(1, size)
    expected = 2 * np.sum((size - gaps) * same[1:]) / (size * (size - 1))
    shuffled = rng.permuted(states, axis=1)
    for ids, form in ((states, same - expected), (shuffled, np.zeros(size))):
        sized = SIZED["recurrence_32"]
        documents_, sums, squares = sums_by_place(counted(texts_of(ids)), sized).T
        mean = sums / documents_
        error = np.sqrt((squares / documents_ - mean**2) / documents_)
        assert (documents_ == n).all()
        assert (np.abs(mean - form[sized.places]) < 4 * error).all()
        assert np.abs(form).max() == 0 or (np.abs(mean) > 4 * error).any()


def test_burstiness_and_repeated_words_are_those_of_loops() -> None:
    """Also at its ends: equal gaps, and all occurrences side by side."""
    rng = np.random.default_rng(10)
    ids = rng.integers(6, size=(30, 32))
    found = repetition.mean_burstiness(ids)
    for own, value in zip(ids, found, strict=True):
        each = []
        for word in set(own.tolist()):
            places = np.flatnonzero(own == word)
            if (n := len(places)) >= 4:
                gaps = np.append(np.diff(places), places[0] + 32 - places[-1])
                r = gaps.std() / gaps.mean()
                up, down = np.sqrt([n + 1, n - 1])
                each.append((up * r - down) / ((up - 2) * r + down))
        assert value == pytest.approx(np.mean(each), nan_ok=True)
    even, once = np.arange(32) + 9, np.arange(32) + 9
    even[::8], once[:4] = 0, 0
    assert repetition.mean_burstiness(even[None]).tolist() == [-1]
    assert 0.7 < repetition.mean_burstiness(once[None])[0] < 1
    texts = texts_of(ids)
    words = sized_counter(CLASSES, {"repetition_32": SIZED["repetition_32"]})(tokenize_batch(texts))
    expected = [1 - len(set(text.split())) / 32 for text in texts.to_pylist()]
    assert words["repetition_32"] == pytest.approx(1e4 * np.array(expected), abs=0.51)


def test_compression_of_a_dyadic_source_is_its_entropy() -> None:
    """Symbols of 1/2, 1/4, 1/8, 1/8 have 1.75 bits: within 2% in a long text (the note: 1.76)."""
    rng = np.random.default_rng(11)
    symbols = rng.choice(list(b"abcd"), 400_000, p=[0.5, 0.25, 0.125, 0.125]).astype(np.uint8)
    bits = 8 * compression.compressed_bytes(symbols.tobytes()) / len(symbols)
    assert 1.75 <= bits < 1.02 * 1.75
    texts = pa.array(["ä" * 150 + " b" * 120, "ab " * 133 + "c", "x " * 250, "short"])
    names = {"compression_400": SIZED["compression_400"]}
    found = sized_counter(CLASSES, names)(tokenize_batch(texts))["compression_400"]
    for text, value in zip(texts.to_pylist(), found, strict=True):
        plain = " ".join(text.split()).encode()
        if len(plain) < 400:
            assert value == ABSENT
            continue
        size = len(pa.Codec("zstd", 19).compress(plain[:400]))
        assert value == pytest.approx(1e4 * size / 400, abs=0.51)
    assert (found != ABSENT).tolist() == [True, True, True, False]


@pytest.mark.parametrize("size", [1, 7, 50])
def test_texts_are_compressed_together_at_as_many_bytes_whatever_the_batches(size) -> None:
    """Oracle: the lines of the texts, joined and compressed. A repeated document costs little."""
    rng = np.random.default_rng(4)
    drawn = [" ".join(rng.choice(list("abcdeé"), 30)) for _ in range(50)]
    texts = drawn, drawn[:5] * 8
    streams = [
        [
            tokenize_batch(pa.array(text[start : start + size]))
            for start in range(0, len(text), size)
        ]
        for text in texts
    ]
    found, n = compression.joined_shares(streams)
    lines = ["".join(f"{line}\n" for line in text).encode() for text in texts]
    assert n == min(map(len, lines))
    assert found == [len(pa.Codec("zstd", 19).compress(own[:n])) / n for own in lines]
    assert found[1] < found[0] / 3
    assert compression.joined_shares([[], streams[0]])[1] == 0


def test_shards_add_up_however_texts_are_cut(tmp_path) -> None:
    texts = documents(np.random.default_rng(3), 120)
    whole = counted(texts)
    files = []
    for place, (start, end) in enumerate(((0, 1), (1, 70), (70, 120))):
        with StatisticsCounter(STOP) as counter:
            counter.add(texts.slice(start, end - start))
            files.append(tmp_path / f"{place}.parquet")
            counter.write(files[-1], {})
    merge_statistics(files[::-1], tmp_path / "all.parquet", {})
    merged = read_statistics(tmp_path / "all.parquet")
    for name in HISTOGRAMS:
        assert np.array_equal(merged.histograms[name].keys, whole.histograms[name].keys)
        assert np.array_equal(merged.histograms[name].counts, whole.histograms[name].counts)
    assert whole.histograms["recurrence_16"].counts.any()


def test_both_texts_are_cut_to_what_half_of_the_reference_has() -> None:
    rng = np.random.default_rng(4)
    ids = [rng.integers(9, size=n) for n in [7] * 5 + [16] * 4 + [40] * 6]
    assert counted(texts_of(ids)).sizes()["recurrence"].size == 16
    assert counted(texts_of(ids[:9])).sizes()["recurrence"].size == 8  # the smallest: 4 of 9
    assert counted(texts_of(ids[:5])).sizes() == {}
    texts = texts_of(ids), texts_of(ids[:9])
    both = counted(texts[0]), counted(texts[1])
    with paired(*both, ([texts[0]], [texts[1]]), classes=CLASSES) as pair:
        held = next(curve_comparisons(pair))
        assert held.sized.size == 16
        assert [one.documents_of(held.sized.name) for one in both] == [10, 4]
        rows = {row.key: row for row in measure_rows(pair, FAST, 1)}
    assert "4 documents of a text" in rows[CURVE].note
    assert rows[NUMBER].verdict == "no verdict"
    told = "cut to 16 tokens: 10 of 15 documents of the reference and 4 of 9 documents of the"
    assert told in rows[NUMBER].fact


@pytest.mark.parametrize(("most", "unlike"), [(60, False), (24, True)])
def test_curves_of_single_documents_and_groups_are_tested_where_as_many_are_long(most, unlike):
    """Oracle: the shares of documents by their own lengths; numbers keep their verdict."""
    rng, codes = np.random.default_rng(8), np.repeat(np.arange(40), 3)
    human, model = documents(rng, 120), documents(rng, 120, most=most)
    both = counted(human), counted(model)
    with paired(*both, ([human], [model]), groups=(None, codes), classes=CLASSES) as pair:
        size = next(curve_comparisons(pair)).sized.size
        rows = {row.key: row for row in measure_rows(pair, FAST, 1)}
    lengths = [np.array([len(x.split()) for x in own.to_pylist()]) for own in (human, model)]
    share, other = (np.mean(own >= size) for own in lengths)
    assert (share / other > 1.4) == unlike
    assert rows[NUMBER].verdict != "no verdict"
    assert (rows[CURVE].verdict == "no verdict") == unlike
    if unlike:
        assert f"{share / other:.2f} times as many documents of one text" in rows[CURVE].note


@pytest.mark.parametrize("groups", ["documents", "swaps", "groups"])
def test_the_largest_t_is_that_of_the_tests_of_means(groups) -> None:
    """Of one place it is |t| of `permuted_means`; without groups scipy's Welch statistic."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(60, 3)), rng.normal(0.3, 2, size=(75, 3))
    codes = (np.sort(rng.integers(25, size=60)), np.sort(rng.integers(30, size=75)))
    held = {"documents": (None, None), "swaps": (codes[0], None), "groups": codes}[groups]
    held = tuple(None if own is None else np.unique(own, return_inverse=True)[1] for own in held)
    units = permuted_units(held, (60, 75), 7)
    found = mean_curves.permuted_curves((x, y), units, 199, 7)
    largest = np.abs(x.mean(0) - y.mean(0)).max()
    assert found["max_difference"][-1] == pytest.approx(largest)
    if units is None:
        welch = ttest_ind(x, y, equal_var=False).statistic
        assert found["t"][-1] == pytest.approx(np.abs(welch).max())
        assert found["place"][-1] == np.abs(welch).argmax()
        units = single_documents((60, 75))
        assert 0.5 < np.mean(found["t"] >= 1.5) * 2 < 1.6  # three places, nearly |t| each
    each = [np.abs(permuted_means(a, b, units, 199, 7)) for a, b in zip(x.T, y.T, strict=True)]
    if groups == "documents":
        assert max(e[-1] for e in each) == pytest.approx(found["t"][-1])
    else:
        assert np.max(each, axis=0) == pytest.approx(found["t"])


def test_a_text_against_itself_and_shuffled_words() -> None:
    """Shuffled words have the same repetition, word counts and lengths, and no recurrence."""
    rng = np.random.default_rng(6)
    human, other = documents(rng, 150), documents(rng, 150)
    shuffled = pa.array([" ".join(rng.permutation(t.split())) for t in other.to_pylist()])

    def rows(texts):
        both = counted(human), counted(texts)
        with paired(*both, ([human], [texts]), classes=CLASSES) as pair:
            baselines = reference_baselines(pair, FAST, 1)
            return {row.key: row for row in measure_rows(pair, FAST, 1, baselines=baselines)}

    own, less = rows(human), rows(shuffled)
    assert (own[CURVE].value_all, own[CURVE].p_value, own[NUMBER].p_value) == (0, 1, 1)
    assert (less[CURVE].p_value, less[CURVE].verdict) == (0.01, "differs")
    assert less[CURVE].value > less[CURVE].baseline_high
    assert less[NUMBER].p_value > 0.05
    assert less["unigram", "tvd"].p_value > 0.05
    sound = [row for row in less.values() if row.p_value >= 0]
    own = {key[0] for key in (row.key for row in sound) if family_of(key[0]) == "order"}
    assert less[CURVE].family == len(own) >= 2
    assert less["length", "ks"].family == 8


def test_a_difference_at_a_quiet_place_is_found_beside_a_loud_one() -> None:
    """Planted: doubled words on both sides alike, whose share varies, and an echo on one.

    The largest difference is one of doubled words, as two halves of the human text have it.
    """

    def drawn(seed: int, echoes: int) -> pa.Array:
        rng, found = np.random.default_rng(seed), []
        for _ in range(120):
            words = rng.permutation(2000)[:32]
            for place in rng.permutation(15)[: rng.integers(13)]:
                words[2 * place + 1] = words[2 * place]
            for place in rng.permutation(16)[: rng.binomial(echoes, 0.5)]:
                words[place + 16] = words[place]
            found.append(words)
        return texts_of(found)

    human, how = drawn(20, 0), MeasurementOptions(permutations=199, bootstrap=0, monte_carlo=0)
    for other, verdict in ((drawn(30, 0), "no difference found"), (drawn(21, 1), "differs")):
        both = counted(human), counted(other)
        with paired(*both, ([human], [other]), classes=CLASSES) as pair:
            baselines = reference_baselines(pair, how, 1)
            rows = measure_rows(pair, how, 1, baselines=baselines)
        row = next(row for row in rows if row.key == CURVE)
        assert row.value < row.baseline_high
        assert (row.verdict, row.reason) == (verdict, "")
    assert row.fact.startswith("at 1: ")
    assert "; most surely at 16: " in row.fact


def test_baselines_are_of_random_parts_of_human_text() -> None:
    """By hand: the distance of the halves that `Halving` draws, and of further human text."""
    rng = np.random.default_rng(7)
    human, other = documents(rng, 120), documents(rng, 90)
    both = counted(human), counted(other)
    with paired(*both, ([human], [other]), classes=CLASSES) as pair:
        held = next(curve_comparisons(pair))
        first, second = held.curves
        found = reference_baselines(pair, FAST, 1)[CURVE]
        splits = []
        for _ in range(300):
            order = rng.permutation(len(first))
            parts = np.array_split(first[order][: 2 * (len(order) // 2)], 2)
            splits.append(np.abs(parts[0].mean(0) - parts[1].mean(0)).max())
        assert found.mean == pytest.approx(np.mean(splits), rel=0.15)
        split = split_baselines(pair, 10**6, FAST, 1)[CURVE]
        how = Measuring.of(pair, MeasurementOptions(permutations=199), 1)
        assert split.mean == pytest.approx(held.randomized(how)["max_difference"][:-1].mean())
        limits = held.drawn(Measuring.of(pair, MeasurementOptions(bootstrap=2000), 1))
        draws = [
            np.abs(
                first[rng.integers(len(first), size=len(first))].mean(0)
                - second[rng.integers(len(second), size=len(second))].mean(0)
            ).max()
            for _ in range(1000)
        ]
        assert limits.std() == pytest.approx(np.std(draws), rel=0.12)
        assert limits.mean() == pytest.approx(np.mean(draws), rel=0.08)


def test_shifts_are_found_as_often_as_is_said() -> None:
    """Oracle: the tests themselves, of pairs that are drawn with the shift."""
    rng = np.random.default_rng(8)
    values = rng.gamma(2, size=(400, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]])
    population = GroupedDocuments(np.arange(400), np.ones(400))
    shift, n, x = CurveShift("recurrence", "max_difference", values, population), 120, 0.35
    null = shift.draw(PairDraw(n, 4000, 1, "null"), x, null=True)["max_difference"]
    drawn = shift.draw(PairDraw(n, 4000, 1, "shifted"), x)["max_difference"]
    power = np.mean(drawn > np.quantile(null, 0.95))
    wider = np.append(values, np.full((400, 1), 0.3), axis=1)  # a place where all are alike
    wide = CurveShift("recurrence", "max_difference", wider, population)
    assert (wide.draw(PairDraw(n, 4000, 1, "shifted"), x)["max_difference"] == drawn).all()
    alike = CurveShift("recurrence", "max_difference", np.full((400, 2), 0.3), population)
    assert (alike.draw(PairDraw(n, 10, 1, "shifted"), x)["max_difference"] == -np.inf).all()
    found = 0
    for repeat in range(200):
        first, second = values[rng.integers(400, size=n)], values[rng.integers(400, size=n)]
        second = second + x * values.std(0)
        t = mean_curves.permuted_curves((first, second), None, 99, repeat)["t"]
        found += np.mean(t >= t[-1]) <= 0.05
    assert found / 200 == pytest.approx(power, abs=0.1)
    numbers, _ = smoothed_numbers(values[:, 0], np.arange(400), np.random.default_rng(1))
    assert numbers.std() == pytest.approx(values[:, 0].std(), rel=0.03)
    inner = NumberShift("repetition", numbers, 1.0)
    assert inner.probabilities(0.5).sum() == pytest.approx(1)
    moved = np.mean(numbers[:, None] + 0.5 * numbers.std() <= inner._edges, axis=0)
    assert np.cumsum(inner.probabilities(0.5))[:-1] == pytest.approx(moved, abs=1e-9)
    words = np.repeat([2, 3, 4, 5], [10, 30, 40, 20])  # of 16, each 0.5 more: every other one
    inner = NumberShift("repetition", words / 16, 1.0, 1 / 16)
    x = 0.5 / words.std()
    assert inner.probabilities(0) == pytest.approx([0.1, 0.3, 0.4, 0.2, 0])
    assert inner.probabilities(x) == pytest.approx([0.05, 0.2, 0.35, 0.3, 0.1])
    assert inner.moments(x)[0] == pytest.approx((words.mean() + 0.5) / 16)
    assert inner.moments(x)[1] == pytest.approx((words.var() + 0.25) / 16**2)


def test_effects_and_curves_have_numbers_and_curves() -> None:
    rng = np.random.default_rng(9)
    human = documents(rng, 160)
    statistics = counted(human)
    how = SensitivityOptions(documents=(100,), pairs=20, level=0.05)
    given = statistics, [human], MeasurementOptions(), how, 1, "reference", CLASSES
    table = minimum_detectable_effects(*given).to_pylist()
    found = {(row["tendency"], row["measure"]): row for row in table}
    for key in (CURVE, NUMBER, ("repetition", "mean_difference")):
        assert found[key]["minimum_detectable_effect"] > 0
        assert 0.4 < found[key]["power_reached"] <= 1
    points = curves(statistics, MeasurementOptions(), "reference").to_pandas()
    own = points[points["curve"] == "recurrence"]
    assert own["x"].tolist() == statistics.sizes()["recurrence"].places.tolist()
    assert ((own["low"] < own["y"]) & (own["y"] < own["high"])).all()
    assert "repetition_mean" in set(points["curve"])


def uneven(rng, n: int) -> list[np.ndarray]:
    """Draw documents whose frequent words are more frequent in every other one."""
    laws = [np.arange(1.0, 200) ** -power for power in (0.6, 1.6)]
    return [rng.choice(199, 128, p=laws[k % 2] / laws[k % 2].sum()) for k in range(n)]


def test_taylor_is_a_regression_and_half_for_shuffled_words() -> None:
    """Oracles: plain loops and `numpy.polyfit`; words that are drawn one by one have α = .5."""
    rng = np.random.default_rng(12)
    law = 1 / np.arange(1, 200)
    ids = [rng.choice(199, n, p=law / law.sum()) for n in rng.integers(40, 300, 300)]
    texts = texts_of(ids)
    held = counted(texts)
    segments = [s for own in ids for s in np.array(own[: len(own) // 64 * 64]).reshape(-1, 64)]
    counts = np.array([np.bincount(own, minlength=199) for own in segments])
    assert held.n_segments == len(counts) >= 600
    kept = counts.sum(axis=0) >= 10
    x, y = np.log(counts.mean(axis=0)[kept]), np.log(counts.std(axis=0)[kept])
    fit = held.taylor_fit()
    assert fit.alpha == pytest.approx(np.polyfit(x, y, 1)[0])
    assert fit.alpha == pytest.approx(0.5, abs=0.01)
    assert counted(texts_of(uneven(rng, 300))).taylor_fit().alpha > 0.55
    few = counted(texts_of(ids[:30]))
    assert few.n_segments < 100
    assert np.isnan(few.taylor_fit().alpha)
    # Pseudo-values: their mean is α, and their parts what leaving a document out changes.
    assert TENDENCIES["taylor"].unit == taylor.UNIT
    values = held.slope_counter()(tokenize_batch(texts)) * taylor.UNIT
    long = np.array([len(own) >= 64 for own in ids])
    assert values[long].mean() == pytest.approx(fit.alpha, abs=1e-5)
    assert (values[~long] < -100).all()
    for left in np.flatnonzero(long)[:8]:
        batch = tokenize_batch(texts.slice(left, 1))
        own = np.zeros_like(held.segments)
        places = pc.index_in(batch.types, value_set=held.types).to_numpy()
        own[:, places] = taylor.segment_sums(batch)
        n = held.n_segments - len(ids[left]) // 64
        change = fit.alpha - taylor.fit_slope(held.segments - own, n).alpha
        assert (values[left] - fit.alpha) / long.sum() == pytest.approx(change, abs=2e-4)


def test_words_shuffled_in_their_documents_have_the_slope_of_many_shuffles() -> None:
    """Oracle: 200 shuffles of the words of each document's whole segments."""
    rng = np.random.default_rng(14)
    held = counted(texts := texts_of([*uneven(rng, 60), rng.integers(199, size=70)]))
    whole, drawn = [own[: len(own) // 64 * 64] for own in map(str.split, texts.to_pylist())], []
    for _ in range(200):
        one = counted(pa.array([" ".join(rng.permutation(own)) for own in whole]))
        drawn.append((one.segments[1, pc.index_in(held.types, one.types).fill_null(0)], one))
    squares = np.array([own for own, _ in drawn], float)
    squares[:, pc.index_in(held.types, drawn[0][1].types).is_null()] = 0  # beyond the segments
    error = squares.std(axis=0) / np.sqrt(200)
    z = (squares.mean(axis=0) - held.segments[2] * taylor.SHUFFLED_UNIT) / np.maximum(error, 1e-3)
    assert np.abs(z).max() < 4.5
    assert z.std() == pytest.approx(1, abs=0.25)
    slopes = np.array([one.taylor_fit().alpha for _, one in drawn])
    assert held.taylor_fit(shuffled=True).alpha == pytest.approx(slopes.mean(), abs=0.01)
    # A document of one segment is its own shuffle.
    once = taylor.segment_sums(tokenize_batch(texts_of([rng.integers(9, size=100)])))
    assert (once[2] * taylor.SHUFFLED_UNIT).tolist() == once[1].tolist()


def test_slopes_of_parts_and_of_randomizations_are_fitted_anew(monkeypatch) -> None:
    """Oracle: the documents of either side, counted by themselves."""
    monkeypatch.setattr(document_counts, "BLOCK_DOCUMENTS", 32)
    rng = np.random.default_rng(15)
    given = [texts_of([own + shift for own in uneven(rng, 200)]) for shift in (0, 0, 120)]
    parts = [np.sort(rng.permutation(200)[:120]) for _ in range(3)]
    pooled = MeasurementOptions(permutations=40)
    with (
        paired(*map(counted, given[:2]), ([given[0]], [given[1]]), classes=CLASSES) as pair,
        further_pair(pair, HumanText([given[2]], CLASSES)) as human,
    ):
        for held, *texts in ((pair, *given[:2]), (human, *given[::2])):
            slopes = next(one for one in curve_comparisons(held) if one.key == SLOPE)
            for side, text in enumerate(texts):
                alone = [counted(text.take(pa.array(own))).taylor_fit().alpha for own in parts]
                assert slopes.of_parts(side, parts)[:, 0] == pytest.approx(alone)
        drawn, both = slopes.differences(Measuring.of(human, pooled, 7)), pa.concat_arrays(texts)
    labels = np.hstack(list(single_documents((200, 200)).labels(40, 7)))
    for b in (0, 39):
        first, second = (
            counted(both.filter(pa.array(own))) for own in (labels[:, b], ~labels[:, b])
        )
        difference = abs(first.taylor_fit().alpha - second.taylor_fit().alpha)
        assert drawn[b] == pytest.approx(difference)


def test_a_slope_of_more_text_is_no_difference() -> None:
    """Oracle: the slope of as many random documents, counted by themselves; the level."""
    rng = np.random.default_rng(16)
    texts = texts_of(uneven(rng, 360)), texts_of(uneven(rng, 60))
    with paired(*map(counted, texts), ([texts[0]], [texts[1]]), classes=CLASSES) as pair:
        slopes = next(one for one in curve_comparisons(pair) if one.key == SLOPE)
        told, _ = slopes.told(Measuring.of(pair, FAST, 1))
    drawn = [counted(texts[0].take(pa.array(rng.permutation(360)[:60]))) for _ in range(40)]
    alone = np.array([one.taylor_fit().alpha for one in drawn])
    assert slopes.means[0] == pytest.approx(alone.mean(), abs=4 * alone.std() / np.sqrt(5))
    assert slopes.means[1] == pytest.approx(counted(texts[1]).taylor_fit().alpha)
    assert [own.mean() for own in slopes.curves] == pytest.approx(np.concatenate(slopes.means))
    found = " here, ".join(f"{float(slope[0]):.3f}" for slope in slopes.means[::-1])
    assert (
        f"720 segments of 64 words of the reference, 120 of samples; of 120 of either: α {found}"
        in told
    )
    below, population = 0, Topics(n_types=4_000, size=5.0, mean=150.0)
    for _ in range(12):  # all of them are below .05 where each slope is of its whole text
        texts = [population.documents(rng, n).texts for n in (200, 60)]
        with paired(*map(counted, texts), ([texts[0]], [texts[1]]), classes=CLASSES) as pair:
            slopes = next(one for one in curve_comparisons(pair) if one.key == SLOPE)
            t = slopes.randomized(Measuring.of(pair, MeasurementOptions(permutations=99), 1))["t"]
        below += np.mean(t >= t[-1]) <= 0.05
    assert below <= 3


def test_documents_that_have_more_segments_keep_the_first_ones() -> None:
    """Oracle: documents that end where they are cut, counted by themselves."""
    rng = np.random.default_rng(17)
    law = 1 / np.arange(1, 150)
    ids = [rng.choice(149, 70 * int(k), p=law / law.sum()) for k in rng.integers(1, 6, 240)]
    texts = texts_of(ids[:120]), texts_of([text[: len(text) // 2 + 20] for text in ids[120:]])
    both = counted(texts[0]), counted(texts[1])
    with paired(*both, ([texts[0]], [texts[1]]), classes=CLASSES) as pair:
        slopes = next(one for one in curve_comparisons(pair) if one.key == SLOPE)
        assert pair.documents is not None
        share, whole = pair.documents.shares
        means = [float(own[0]) for own in slopes.means]
    assert share == pytest.approx(both[1].n_segments / both[0].n_segments)
    assert whole == 1
    assert share < 0.7
    lengths = np.array([len(text) for text in ids[:120]])
    kept = taylor.kept_segments(lengths, share)
    assert np.all(kept <= lengths // 64)
    assert abs(kept.sum() - share * (lengths // 64).sum()) < 2
    cut = texts_of([text[: 64 * k] for text, k in zip(ids[:120], kept, strict=True)])
    assert means == pytest.approx([counted(cut).taylor_fit().alpha, both[1].taylor_fit().alpha])
    every = np.ones(120, bool), np.ones(120, bool)
    given = ([texts[1]], [texts[0]])
    with paired(*both[::-1], given, classes=CLASSES) as pair, part_of(pair, every) as part:
        for own in (pair, part):  # documents of parts are cut as those of the whole
            slopes = next(one for one in curve_comparisons(own) if one.key == SLOPE)
            assert [float(x[0]) for x in slopes.means] == pytest.approx(means[::-1])
            assert [float(x.mean()) for x in slopes.curves] == pytest.approx(means[::-1])


def test_slopes_of_few_segments_are_none() -> None:
    """Enough of either text alone; not where as many documents keep as many of them."""
    rng = np.random.default_rng(18)
    given = [[list(rng.integers(0, 90, n)) for n in own] for own in ([70] * 150, [650] * 40)]
    for texts in (list(map(texts_of, given)), list(map(texts_of, given[::-1]))):
        with paired(*map(counted, texts), ([texts[0]], [texts[1]]), classes=CLASSES) as pair:
            rows = {row.key: row for row in measure_rows(pair, FAST, 1)}
        assert json.loads(rows[SLOPE].reason) == {"code": "few_segments", "n": 40, "least": 100}
        assert np.isnan(rows[SLOPE].p_value)


def test_slopes_of_two_texts_are_tested_and_labelled() -> None:
    rng = np.random.default_rng(13)
    law = 1 / np.arange(1, 150)
    ids = [rng.choice(149, 64 * int(k), p=law / law.sum()) for k in rng.integers(1, 3, 360)]
    bursts, key = uneven(rng, 180), SLOPE
    for other, differs in ((ids[180:], False), (bursts, True)):
        texts = texts_of(ids[:180]), texts_of(other)
        both = counted(texts[0]), counted(texts[1])
        with paired(*both, ([texts[0]], [texts[1]]), classes=CLASSES) as pair:
            baselines = reference_baselines(pair, FAST, 1)
            rows = {row.key: row for row in measure_rows(pair, FAST, 1, baselines=baselines)}
            slopes = [one.taylor_fit().alpha for one in both]
            held = split_baselines(pair, 10**6, FAST, 1)[key]  # also of parts of a pair
            assert 0 < held.mean < 0.3
        row = rows[key]
        cut = taylor.unequal([one.n_segments for one in both])
        error = 0.002 if cut else 1e-9
        assert row.value_all == pytest.approx(abs(slopes[1] - slopes[0]), abs=error)
        assert rows["taylor", "alpha"].value == pytest.approx(slopes[1])
        assert (row.p_value <= 0.05) == differs
        assert "between documents" in row.fact
        kept = rows["taylor", "alpha_shuffled"].value
        assert kept == both[1].taylor_fit(shuffled=True).alpha
        assert f"shuffled in their documents: α {kept:.3f} here" in row.fact
        assert row.value_all < row.high
        assert 0 < row.baseline < 0.1
    drawn = [rows[SLOPE], rows[CURVE]]
    for most, known in ((180, True), (120, False)):  # 180 segments: halves are too small
        few = [text.slice(0, most) for text in texts]
        with paired(*map(counted, few), ([few[0]], [few[1]]), classes=CLASSES) as pair:
            drawn = with_halves(drawn, pair, FAST, 1, "name")
            assert (SLOPE in reference_baselines(pair, FAST, 1)) == known
        assert [bool(row.halves) for row in drawn] == [known, True]
    codes = np.arange(180) // 2
    for groups in ((codes, None), (None, codes), (codes, codes)):
        given = ([texts[0]], [texts[1]])
        with paired(*both, given, groups=groups, classes=CLASSES) as pair:
            rows = {row.key: row for row in measure_rows(pair, FAST, 1)}
        both_grouped = groups[0] is not None and groups[1] is not None
        assert (rows[key].p_value <= 0.05) == both_grouped  # else its expectation is another
        assert ("depends on groups" in rows[key].note) != both_grouped
