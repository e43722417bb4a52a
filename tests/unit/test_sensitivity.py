"""The minimum detectable effects: the shifted populations, and that the tests find what is claimed.

Oracles: tests of drawn pairs; the textbook's power of the difference of means; shifts applied to
documents one by one, which fall with the root of their number; pairs of a population that is not
the reference (cases of `benchmarks/powers.py`); for answers to prompts the tests' own statistics.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import beyond_perplexity
from benchmarks.calibration import rates
from benchmarks.levels import TESTS, opened
from benchmarks.order_shifts import RISES, Larger
from benchmarks.populations import Topics, count
from benchmarks.powers import OfLongText, PrintedPower, References, p_value_of
from benchmarks.prompt_powers import PrintedPromptPower, PromptReferences, opened_answers
from benchmarks.prompts import Answered
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.sample_size import sensitivity as draw_sensitivity
from beyond_perplexity.inference import histogram_draws
from beyond_perplexity.inference.held_out import held_out_distance
from beyond_perplexity.inference.p_values import permutation_p
from beyond_perplexity.inference.prompts import Prompts
from beyond_perplexity.report.sensitivity import prompt_sensitivity_table, sensitivity_table
from beyond_perplexity.schemas.tendencies import JUDGED, SENSITIVITY
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.tendencies import (
    document_files,
    document_measures,
    document_shifts,
    prompt_shifts,
    sensitivity,
    shifts,
    type_token,
)
from beyond_perplexity.tendencies.definitions import TENDENCIES
from beyond_perplexity.tendencies.document_curves import randomized_curves
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.document_values import value_counter
from beyond_perplexity.tendencies.judge import JudgedText, judged_table, pair_of_values
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import Measuring, paired
from beyond_perplexity.tendencies.power_laws import fit_zipf
from beyond_perplexity.tendencies.prompt_shifts import prompt_effects
from beyond_perplexity.tendencies.sensitivity import _Search, mean_shift, minimum_detectable_effects
from beyond_perplexity.tendencies.statistics import Histogram
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords
from beyond_perplexity.tendencies.word_measures import randomized_words
from beyond_perplexity.verdicts import reason_text
from scripts import measure_sensitivity
from tests.unit.evaluator_oracles import check_refused
from tests.unit.text_pairs import batched, run_script, statistics_of, write_samples

PERMUTATIONS = 199
TWO_TESTS = ("ks", "mean_difference")
N = 200
HOW = SensitivityOptions(documents=(N,), level=0.05, power=0.8, pairs=400)
BY_SIZE = {"index": ["tendency", "measure"], "columns": "n"}


def draw_texts(n: int) -> list[str]:
    """Draw documents with topics, so that the words of a document belong together."""
    rng = np.random.default_rng(11)
    lengths = 5 + rng.poisson(rng.gamma(4, 4, n))
    topics = rng.integers(20, size=n)
    drawn = (np.minimum(rng.zipf(1.6, k) + t, 90) for k, t in zip(lengths, topics, strict=True))
    return [" ".join(f"w{k}" if k % 5 else f"{k}" for k in words) for words in drawn]


TEXTS = draw_texts(500)
WORDS = StopWords("test", frozenset({"w1", "w3", "w7", "w8"}))
CLASSES = ClassOptions(WORDS, True)


@pytest.fixture(scope="module")
def reference():
    return statistics_of(TEXTS, WORDS)


@pytest.fixture(scope="module")
def counts(reference):
    return sensitivity.count_documents_by_type(batched(TEXTS, 200), reference.types)


def test_documents_are_counted_by_type_and_the_closed_form_is_the_textbooks(counts, reference):
    types = reference.types.to_pylist()
    expected = [[text.split().count(word) for word in types] for text in TEXTS[190:210]]
    assert counts[:, 190:210].toarray().T.tolist() == expected
    for n in (1_000, 1_000_000):
        x = mean_shift(lambda x: (x, 4.0), n, SensitivityOptions(), largest=10)
        power = norm.sf(norm.isf(0.0025) - x / np.sqrt(8 / n))
        assert power == pytest.approx(0.8, abs=0.01)
    assert np.isnan(mean_shift(lambda x: (x, 4.0), 10, SensitivityOptions(), largest=1))


def check_power(p_values: list[float], power: float = HOW.power) -> None:
    """Compare with 3.5 standard deviations of the count, and 0.05 for a grid of p-values."""
    deviation = np.sqrt(power * (1 - power) / len(p_values))
    assert abs(np.mean(np.array(p_values) < HOW.level) - power) < 3.5 * deviation + 0.05


def histogram_p(support: np.ndarray, sides: list[np.ndarray], measure: str, seed: int) -> float:
    compare = partial(document_measures._tested_numbers, support.astype(float))
    permuted = histogram_draws.permute(tuple(sides), compare, PERMUTATIONS, seed, "test")[measure]
    observed = float(compare(*sides)[measure])
    return permutation_p(observed, permuted, two_sided=measure == "mean_difference")


@pytest.mark.parametrize("tendency", ["length", "stop_words", "symbols"])
def test_permutation_tests_find_the_smallest_ks_as_often_as_claimed(reference, tendency):
    histogram = reference.histograms[tendency]
    share = tendency != "length"
    shift = shifts.ShareShift(tendency, histogram) if share else shifts.LengthShift(histogram)
    smallest = _Search(shift, N, HOW, 1).smallest("ks", 0.1)
    for x, power in ((smallest, HOW.power), (0.0, HOW.level)):
        rng = np.random.default_rng(2)
        both = [shift.probabilities(0), shift.probabilities(x)]
        p_values = []
        for seed in range(200):
            sides = [rng.multinomial(N, p) for p in both]
            p_values.append(histogram_p(np.arange(len(both[0])), sides, "ks", seed))
        check_power(p_values, power)


def test_permutation_tests_find_the_smallest_mean_as_often_as_claimed(reference):
    histogram = reference.histograms["length"]
    x = mean_shift(shifts.LengthShift(histogram).moments, N, HOW)
    lengths = np.repeat(histogram.lengths, histogram.counts)
    rng = np.random.default_rng(3)
    p_values = []
    for seed in range(200):
        first = rng.choice(lengths, N)
        exact = rng.choice(lengths, N) * (1 + x)
        second = (exact + rng.random(N)).astype(int)  # rounded at random, right on average
        support = np.arange(max(first.max(), second.max()) + 1)
        sides = [np.bincount(side, minlength=len(support)) for side in (first, second)]
        p_values.append(histogram_p(support, sides, "mean_difference", seed))
    check_power(p_values)


def sample_texts(rng: np.random.Generator, n: int = N) -> list[list[str]]:
    return [TEXTS[i].split() for i in rng.integers(len(TEXTS), size=n)]


@pytest.fixture
def frequent_first(counts, reference):
    """Give the same counts and names of types, frequent ones first."""
    order = np.argsort(-np.asarray(counts.sum(axis=1)).ravel(), kind="stable")
    return counts.tocsr()[order].tocsc(), np.array(reference.types.to_pylist())[order]


def words_p(sides: list[list[list[str]]], key: tuple[str, str], seed: int) -> float:
    """Test words as the package does: documents of one length are permuted."""
    texts = tuple([pa.array([" ".join(text) for text in side])] for side in sides)
    sets = [statistics_of(texts[b][0].to_pylist(), WORDS) for b in (0, 1)]
    with paired(*sets, texts, classes=CLASSES) as pair:
        if key == ("unigram", "tvd"):
            return held_out_distance(pair.documents, pair.groups, seed).p_value
        how = Measuring.of(pair, MeasurementOptions(permutations=PERMUTATIONS), seed)
        assert how.word_units.strata is not None
        drawn = randomized_words(how)[key]
        return permutation_p(float(drawn[-1]), drawn[:-1])


def test_tests_find_the_smallest_swap_as_often_as_claimed(frequent_first):
    counts, names = frequent_first
    lengths = np.asarray(counts.sum(axis=0)).ravel()
    alone = document_shifts.GroupedDocuments(np.arange(len(TEXTS)), lengths)
    shift = document_shifts.HeldOutShift(counts, alone, 1)
    x = _Search(shift, N, HOW, 1).smallest("tvd", 0.1)
    swap = dict(zip(names[shift.swap], names, strict=True))
    rng = np.random.default_rng(4)
    p_values = []
    for seed in range(40):
        first, second = sample_texts(rng), sample_texts(rng)
        chosen = rng.random(N) < x
        pairs = zip(second, chosen, strict=True)
        second = [[swap[w] for w in text] if c else text for text, c in pairs]
        p_values.append(words_p([first, second], ("unigram", "tvd"), seed))
    check_power(p_values)


def test_permutation_tests_find_the_smallest_change_of_ranks_as_often_as_claimed(frequent_first):
    counts, names = frequent_first
    shift = document_shifts.RankShift(counts, None)
    x = _Search(shift, N, HOW, 1).smallest("ks_empirical", 0.1)
    totals = np.asarray(counts.sum(axis=1)).ravel()
    kept = (totals / totals.max()) ** x
    law, stays = kept * totals / (kept @ totals), dict(zip(names, kept, strict=True))
    rng = np.random.default_rng(7)
    p_values = []
    for seed in range(40):
        first, second = sample_texts(rng), sample_texts(rng)
        others = iter(rng.choice(names, sum(map(len, second)), p=law))
        drawn = [[(w, next(others)) for w in text] for text in second]
        second = [[w if rng.random() < stays[w] else v for w, v in text] for text in drawn]
        p_values.append(words_p([first, second], ("rank_frequency", "ks_empirical"), seed))
    check_power(p_values)


@pytest.mark.parametrize("tendency", type_token.HISTOGRAM_OF)
def test_permutation_tests_find_the_smallest_loss_of_types_as_often_as_claimed(reference, tendency):
    histogram = reference.histograms[type_token.HISTOGRAM_OF[tendency]]
    shift = shifts.TypeTokenShift(tendency, histogram)
    x = _Search(shift, N, HOW, 1).smallest("ks_empirical", 0.1)
    lengths = shift.lengths(shifts.PairDraw(N, 1, 1, ""), 0)
    rng = np.random.default_rng(5)
    groups, values, sides = [], [], []
    for group, both in enumerate(lengths.T):
        pmfs = [shift._pmf(group, 0), shift._pmf(group, x)]
        sides.append([rng.multinomial(n, p, 200) for n, p in zip(both, pmfs, strict=True)])
        groups += [group] * len(pmfs[0])
        values += range(len(pmfs[0]))
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    cells = type_token.LengthCells(np.array(groups), np.array(values), starts)
    counts = np.stack([np.concatenate(own, axis=1) for own in zip(*sides, strict=True)], axis=1)
    p_values = []
    for seed, both in enumerate(counts[:100]):
        observed = type_token.summarize_lengths(cells, *both, {})["ks_empirical"]
        permuted = type_token.permute_by_length(cells, both, PERMUTATIONS, seed, "test")
        p_values.append(permutation_p(float(observed), permuted))
    check_power(p_values)


@pytest.mark.parametrize("n", [600, 10_000])
@pytest.mark.parametrize("tendency", type_token.HISTOGRAM_OF)
def test_types_of_one_length_are_those_that_the_population_has_there(tendency, n):
    """Oracle: 40,000 documents of the same law, of which nearly all bigrams differ."""
    topics = Topics()
    some, many = (topics.documents(np.random.default_rng(k), k) for k in (n, 40_000))
    some, many = (
        count(own, topics.classes).histograms[type_token.HISTOGRAM_OF[tendency]]
        for own in (some, many)
    )
    shift = shifts.TypeTokenShift(tendency, some)
    groups = np.flatnonzero(np.isin(shift._lengths, (12, 20, 30)))
    assert len(groups) == 3
    for group in groups:
        own = many.lengths == shift._lengths[group]
        law = np.bincount(many.values[own], many.counts[own]) / many.counts[own].sum()
        found = shift._pmf(group, 0)
        assert found[len(law) :].sum() == 0, "more types than there can be"
        assert np.abs(np.cumsum(found[: len(law)]) - np.cumsum(law)).max() < 0.1


def test_documents_have_a_length_in_common_as_often_as_those_of_the_population():
    """Oracle: pairs of 200 further documents of the law; few of 300 are of exactly one length."""
    topics = Topics(mean=150.0)
    lengths = np.diff(topics.documents(np.random.default_rng(1), 40_300).offsets)

    def in_common(first: np.ndarray, second: np.ndarray) -> int:
        return int(second[np.isin(second, first)].size)

    some = Histogram.of(lengths[:300], lengths[:300] // 2, np.ones(300, int))
    shift = shifts.TypeTokenShift("type_token_unigrams", some)
    drawn = [shift.lengths(shifts.PairDraw(200, 1, 1, ""), k) for k in range(100)]
    found = [int(second[first > 0].sum()) for first, second in drawn]
    wanted = [in_common(*own) for own in lengths[300:].reshape(100, 2, 200)]
    assert np.mean(found) == pytest.approx(np.mean(wanted), rel=0.07)


def test_shares_lengths_types_and_words_are_shifted_as_is_said(reference, counts):
    histogram = reference.histograms["stop_words"]
    shift = shifts.ShareShift("stop_words", histogram)
    rng = np.random.default_rng(6)
    cells = np.repeat(np.arange(len(histogram.counts)), histogram.counts * 100)
    lengths, values = histogram.lengths[cells], histogram.values[cells]
    shares = (values + rng.binomial(lengths - values, 0.1)) / lengths
    mean, variance = shift.moments(0.1)
    assert mean == pytest.approx(shares.mean(), rel=0.01)
    assert variance == pytest.approx(shares.var(), rel=0.03)
    found = np.cumsum(shift.probabilities(0.1))[:-1]
    assert found == pytest.approx((shares[:, None] <= shift._edges).mean(axis=0), abs=0.01)
    shift = shifts.LengthShift(reference.histograms["length"])
    means = [p @ np.arange(len(p)) for p in (shift.probabilities(0), shift.probabilities(0.07))]
    assert means[1] == pytest.approx(means[0] * 1.07)
    assert means[0] == pytest.approx(shift.moments(0)[0])
    change, relative = shift.size("ks", 0.07)
    assert (change, relative) == (pytest.approx(0.07 * shift.moments(0)[0]), pytest.approx(0.07))
    shift = shifts.TypeTokenShift("type_token_unigrams", reference.histograms["types"])
    groups = range(len(shift._lengths))
    means = [[p @ np.arange(len(p)) for g in groups for p in [shift._pmf(g, x)]] for x in (0, 0.1)]
    assert means[1] == pytest.approx(0.9 * np.array(means[0]), rel=0.01)
    types = reference.histograms["types"]
    mean = np.average(types.values, weights=types.counts)
    assert shift._shares @ means[0] == pytest.approx(mean, rel=0.02)
    alone = document_shifts.GroupedDocuments(np.arange(counts.shape[1]), np.ones(counts.shape[1]))
    swapped = document_shifts.HeldOutShift(counts, alone, 1)
    plain, other = (
        counts[order].sum(axis=1).A1 / counts.sum() for order in (slice(None), swapped.swap)
    )
    distance = np.abs(0.7 * plain + 0.3 * other - plain).sum() / 2
    assert swapped.size("tvd", 0.3) == (pytest.approx(distance), 0.3)
    rarer = document_shifts.RankShift(counts, None)
    rngs = [np.random.default_rng(1)]
    drawn = (counts @ rarer._sample(200_000, rngs).astype(float) for _ in range(2))
    plain, thinned = (
        np.sort(rarer.thinned(own, rngs, x)[:, 0])[::-1]
        for own, x in zip(drawn, (0, 0.2), strict=True)
    )
    change = fit_zipf(thinned) - fit_zipf(plain)
    assert rarer.size("ks_empirical", 0.2)[0] == pytest.approx(change, rel=0.02)
    assert thinned.sum() == pytest.approx(plain.sum(), rel=1e-3)  # documents stay as long


def test_samples_have_as_many_documents_of_each_length_and_copies_the_moments(counts, reference):
    """Oracle: the lengths of the documents themselves; the counts that are drawn."""
    shift = document_shifts.RankShift(counts, None)
    drawn = shift._sample(320, [np.random.default_rng(seed) for seed in (1, 2)])
    lengths = np.array([len(text.split()) for text in TEXTS])
    assert drawn.sum(axis=0).tolist() == [320, 320]
    for own in np.array_split(np.argsort(lengths, kind="stable"), 31):
        assert abs(drawn[own, 0].sum() - 320 * len(own) / 500) < 1
    stop = np.array([sum(word in WORDS.words for word in text.split()) for text in TEXTS])
    values = {"length": lengths, "stop_words": stop}
    moved, codes = shifts.smoothed(values, np.arange(len(TEXTS)) // 5, 1)
    assert len(codes) == 40 * len(TEXTS)
    assert len(set(codes)) == 40 * 100
    assert moved["length"].mean() == pytest.approx(lengths.mean(), rel=0.01)
    assert moved["length"].std() == pytest.approx(lengths.std(), rel=0.01)
    shares = moved["stop_words"] / moved["length"]
    assert shares.mean() == pytest.approx((stop / lengths).mean(), rel=0.01)
    assert shares.std() == pytest.approx((stop / lengths).std(), rel=0.04)
    assert (moved["stop_words"] <= moved["length"]).all()


class _Normal(shifts.Shift):
    """A measure whose detectable effect is known: normal with mean x and deviation 1 / sqrt(n)."""

    tendency, measures, unit, largest = "test", ("z",), "", 1.0

    def draw(self, how: shifts.PairDraw, x: float, null: bool = False) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(8)
        return {"z": x * (not null) + rng.normal(size=how.pairs) / np.sqrt(how.n)}

    def size(self, measure: str, x: float) -> tuple[float, float]:
        return x, x


@pytest.mark.parametrize("guess", [1e-6, 0.03, 1.0])
def test_the_search_finds_a_known_shift(guess):
    how = SensitivityOptions(pairs=20_000)
    found = _Search(_Normal(), 10_000, how, 1).smallest("z", guess)
    assert found == pytest.approx((norm.isf(0.005) + norm.isf(0.2)) / 100, rel=0.03)
    assert np.isnan(_Search(_Normal(), 4, how, 1).smallest("z", guess))


def test_all_shifts_fall_with_the_root_of_the_documents(reference):
    how = SensitivityOptions(documents=(2, 10_000, 1_000_000), pairs=60)
    texts = [pa.array(TEXTS)]
    found = minimum_detectable_effects(
        reference, texts, MeasurementOptions(), how, 1, "reference", CLASSES
    )
    assert found.schema == SENSITIVITY
    rows = found.to_pandas().pivot(**BY_SIZE, values="minimum_detectable_effect")
    assert len(rows) == 14
    falls = (rows[10_000] / rows[1_000_000]).drop(index="shared_ngrams").to_numpy()
    assert falls == pytest.approx(10, rel=0.4)
    shared = rows.loc["shared_ngrams"]  # of 2,000 documents at most
    assert shared[10_000].item() == pytest.approx(shared[1_000_000].item(), rel=0.1)
    assert rows[2].isna().any()
    reached = found.to_pandas().pivot(**BY_SIZE, values="power_reached")
    assert (reached.isna() == rows.isna()).all(axis=None)
    assert 0.5 < reached[1_000_000].median() < 1
    assert reached[1_000_000].nunique() > 3
    shown = sensitivity_table(found.to_pandas(), Labels())
    assert [column.title for column in shown.columns[3:]] == ["2", "10,000", "1,000,000"]
    assert len(shown.rows) == 14
    assert "independent documents, which the tests permute" in shown.note
    cells = {cell for row in shown.rows for cell in row}
    assert "none" in cells
    row = found.filter(pc.equal(found["n"], 10_000)).to_pylist()[0]
    assert any(cell.endswith(f"; {row['power_reached']:.2f}") for cell in cells)


def test_a_reference_without_halves_has_no_number_and_the_reason(reference):
    how = SensitivityOptions(documents=(500,), pairs=10)
    given = MeasurementOptions(), how, 1, "r", CLASSES
    held = statistics_of(TEXTS[:50], WORDS)
    found = minimum_detectable_effects(held, [pa.array(TEXTS[:50])], *given).to_pandas()
    assert len(found) == 14
    assert found[["minimum_detectable_effect", "relative", "power_reached"]].isna().all(axis=None)
    told = "half of the reference has fewer than 30 effective documents or groups"
    assert set(map(reason_text, found["reason"])) == {told}
    assert told in sensitivity_table(found, Labels()).note
    parts = sensitivity.halves(np.arange(400) // 4, np.ones(400), 1)
    assert [len(set(np.flatnonzero(own) // 4)) for own in parts] == [50, 50]
    assert (parts[0] ^ parts[1]).all()


@pytest.fixture(scope="module")
def by_groups(reference):
    how = SensitivityOptions(documents=(60, 600, 2_400), level=0.05, pairs=30)
    given = reference, [pa.array(TEXTS)], MeasurementOptions(), how, 1, "r", CLASSES
    return minimum_detectable_effects(*given, groups=np.arange(len(TEXTS)) // 5)


def test_groups_are_drawn_whole_and_get_rows_of_sound_tests_alone(by_groups):
    found = by_groups.to_pandas()
    tested = ("length", "stop_words", "symbols", "repetition", "burstiness")
    assert set(zip(found["tendency"], found["measure"], strict=True)) == {
        ("unigram", "tvd"),
        ("recurrence", "max_difference"),
        *((name, m) for name in tested for m in TWO_TESTS),
    }
    rows = found.pivot(**BY_SIZE, values="minimum_detectable_effect")
    assert rows[60].isna().all()  # 12 groups allow no verdict
    assert (rows[600] / rows[2_400]).to_numpy() == pytest.approx(2, rel=0.3)
    assert "whole groups" in sensitivity_table(found, Labels()).note
    assert draw_sensitivity(found, Labels()).axes[1].get_xlabel().endswith("of whole groups")
    groups = np.array([0, 1, 1, 2, 0, 3, 3, 3])
    for seed in range(5):
        chosen = document_files.draw_groups(groups, 4, seed)
        assert 0 < chosen.sum() <= 4
        assert all(len(set(chosen[groups == g])) == 1 for g in range(4))
    assert document_files.draw_groups(groups, 100, 1).all()
    assert document_files.draw_groups(np.zeros(3, int), 1, 1).all()


def test_the_human_side_of_swaps_has_the_law_of_its_documents(reference):
    """Oracle: the histogram of independent documents, and of each page's own lengths."""
    lengths = np.array([len(text.split()) for text in TEXTS])
    codes = np.arange(len(TEXTS)) // 5
    inner = shifts.LengthShift(reference.histograms["length"])
    cells = inner.cells_of(lengths, codes, 100)
    assert cells.sum(axis=0) / cells.sum() == pytest.approx(inner.probabilities(0), abs=1e-12)
    means = cells @ np.arange(cells.shape[1]) / cells.sum(axis=1)
    assert means == pytest.approx(np.bincount(codes, lengths) / 5)
    grouped = document_shifts.GroupedDocuments(codes, np.ones(len(codes)))
    drawn = document_shifts.NumberSwapShift(inner, grouped, lengths.astype(float))
    pairs = shifts.PairDraw(500, 400, 1, "test")
    shifted = drawn.draw(pairs, 0.5)["mean_difference"]
    pages = (np.bincount(codes, lengths) / 5).var() / 100  # of the mean of 100 pages
    error = np.sqrt(pages + lengths.var() * 1.5**2 / 500)
    assert shifted.mean() == pytest.approx(0.5 * lengths.mean() / error, rel=0.04)
    both = drawn.draw(pairs, 0.0), drawn.draw(pairs, 0.0, null=True)
    for measure in TWO_TESTS:  # without a shift the tests have the law of the pairs themselves
        assert both[0][measure].mean() == pytest.approx(both[1][measure].mean(), rel=0.12)


def check_judged_effects(plain: pa.Table, given: list, tmp_path) -> None:
    """Let a judge have its rows behind those of the command, by the textbook's power."""
    bits = np.random.default_rng(6).normal(3, 0.4, 300)
    text = JudgedText(64, np.rint(bits * 1e4).astype(np.int32))
    facts = [{"name": "reference", "size": 64, "impossible": 0, "unknown": 0.0}]
    with ShardWriter(tmp_path / "judged.parquet", JUDGED, {"judged": facts}) as writer:
        writer.write(judged_table(text, None, "reference"))
    output = ["--judged", tmp_path / "judged.parquet", "--output", tmp_path / "r.parquet"]
    run_script(measure_sensitivity, *given, *output)
    found = pq.read_table(tmp_path / "r.parquet")
    assert found.slice(0, len(plain)).equals(plain)
    ks, mean = found.slice(len(plain)).to_pylist()
    assert [(x["tendency"], x["measure"]) for x in (ks, mean)] == [("judge", m) for m in TWO_TESTS]
    wanted = (norm.isf(0.0025) + norm.isf(0.2)) * 0.4 * np.sqrt(2 / 500)
    assert mean["minimum_detectable_effect"] == pytest.approx(wanted, rel=0.15)
    assert mean["relative"] == pytest.approx(wanted / 3, rel=0.15)
    assert 0.5 < ks["minimum_detectable_effect"] / wanted < 2


def test_the_command_repeats_itself(tmp_path):
    statistics_of(TEXTS[:120], WORDS, path=tmp_path / "s.parquet")
    documents = write_samples(tmp_path / "d.parquet", TEXTS[:120])
    given = ["--statistics", tmp_path / "s.parquet", "--documents", documents]
    small = '{"documents": [500], "pairs": 10, "largest_population": 100}'
    tables = []
    for output in (tmp_path / "o.parquet", tmp_path / "p.parquet"):
        run_script(measure_sensitivity, *given, "--output", output, "--sensitivity-options", small)
        tables.append(pq.read_table(output))
    assert set(tables[0]["n"].to_pylist()) == {500}
    assert any(tables[0]["power_reached"].to_pylist())
    assert tables[0].equals(tables[1])
    check_judged_effects(tables[0], [*given, "--sensitivity-options", small], tmp_path)
    wrong = ["--output", tmp_path / "q.parquet", "--sensitivity-options", '{"power": 1.5}']
    check_refused(r"power: is 1\.5", run_script, measure_sensitivity, *given, *wrong)


@pytest.mark.parametrize("key", [("length", "mean_difference"), ("stop_words", "ks")])
def test_the_power_that_is_printed_is_that_of_the_population(key):
    """A small case of `benchmarks/powers.py`: 120 pairs of the population; 3 binomial errors."""
    held = References(Topics(size=8.0), 1200, 100, grouped=False, many=2, pairs=40)
    (found,) = rates("unit", PrintedPower("unit", held, key), 120)
    error = np.sqrt(float(found.nominal) * (1 - float(found.nominal)) / found.repeats)
    assert abs(found.rate - float(found.nominal)) < 0.05 + 3 * error


LONG = Topics(n_types=4_000, size=5.0, mean=150.0)  # documents that have all tendencies of order


@pytest.mark.parametrize("grouped", [False, True])
def test_pairs_of_counted_values_have_the_p_values_of_texts(grouped):
    """Oracle: the tests of the same documents, brought together as texts of as many segments."""
    rng = np.random.default_rng(8)
    human = LONG.groups(rng, 90) if grouped else LONG.documents(rng, 120)
    model = LONG.documents(rng, len(human))
    with opened(human, model, LONG.classes, (grouped, False)) as pair:
        rows = measure_rows(pair, TESTS, 5)
    held = count(human, LONG.classes)
    known = {row.key: row.p_value for row in rows if not np.isnan(row.p_value)}
    known = {key: p for key, p in known.items() if key[0] in RISES}
    assert len(known) == 8 - grouped  # of Taylor's law groups against documents have no test
    for key, p_value in known.items():
        larger = Larger.of(held, key[0], 0.0)
        groups = human.groups if grouped else None, None
        with larger.opened(human, model, LONG.classes, groups, rng) as pair:
            assert p_value_of(pair, key, 5) == p_value, key


def test_counted_values_rise_by_as_much_as_is_asked_for():
    """Oracle: the means before and behind, and deviations of the documents' own curves."""
    rng = np.random.default_rng(3)
    drawn = LONG.documents(rng, 400)
    held, batch = count(drawn, LONG.classes), TokenBatch(drawn.types, drawn.ids, drawn.offsets)
    for name in ("recurrence", "repetition", "burstiness", "compression"):
        larger, unit = Larger.of(held, name, 0.0123), TENDENCIES[name].unit
        sized = larger.sizes[name]
        counted = value_counter(LONG.classes, {sized.name: sized})(batch)[sized.name]
        moved = larger.moved(counted, rng)
        kept = counted.reshape(400, -1)[:, 0] != ABSENT
        assert 0 < kept.sum() < 400
        assert np.array_equal(moved[~kept], counted[~kept])
        rise = (moved - counted)[kept].mean(axis=0) * unit
        spread = counted[kept].std(axis=0)
        assert rise == pytest.approx(0.0123 * spread / spread.max(), rel=0.03, abs=2e-5)
        if name in ("repetition", "compression"):
            words = moved[kept] * unit * sized.size
            assert np.abs(words - np.rint(words)).max() < unit * sized.size


def test_the_power_that_is_printed_for_order_and_types_is_that_of_the_population():
    """Small cases of `benchmarks/powers.py`: 40 pairs of the population; 3 binomial errors.

    In the shortest texts few numbers of repeated words are possible.
    """
    long = References(LONG, 300, 100, grouped=False, many=2, pairs=20, kind=OfLongText)
    short = References(Topics(size=8.0), 600, 200, grouped=False, many=2, pairs=20, kind=OfLongText)
    assert len(long.keys) == 10  # types of so few of one length show no shift
    for held, key in (
        (long, ("recurrence", "max_difference")),
        (long, ("repetition", "mean_difference")),
        (short, ("repetition", "ks")),
        (long, ("taylor", "slope_difference")),
        (long, ("type_token_bigrams", "ks_empirical")),
        (short, ("shared_ngrams", "max_difference")),
    ):
        (found,) = rates("unit", PrintedPower("unit", held, key), 40)
        error = np.sqrt(float(found.nominal) * (1 - float(found.nominal)) / found.repeats)
        assert abs(found.rate - float(found.nominal)) < 0.05 + 3 * error, found


def test_the_effect_of_a_slope_is_that_of_as_many_documents():
    """Oracle: the textbook's effect, by how slopes of documents vary in texts of that size.

    A text of more documents has more frequent words, whose slope varies less.
    """
    rng, law = np.random.default_rng(4), norm.isf(0.025) + norm.isf(0.2)
    drawn, sizes = LONG.documents(rng, 600), (100, 400)
    how = SensitivityOptions(documents=sizes, level=0.05, power=0.8, pairs=20)
    given = count(drawn, LONG.classes), [drawn.texts], MeasurementOptions(), how, 1, "r"
    found = minimum_detectable_effects(*given, LONG.classes, kind=OfLongText).to_pandas()
    effects = found[found["tendency"] == "taylor"].set_index("n")["minimum_detectable_effect"]
    assert list(effects.index) == list(sizes)
    for n in sizes:
        errors = []
        for _ in range(8):
            own = LONG.documents(rng, n)
            batch = TokenBatch(own.types, own.ids, own.offsets)
            slopes = count(own, LONG.classes, {}).slope_counter()(batch)
            slopes = slopes[slopes != ABSENT] * TENDENCIES["taylor"].unit
            errors.append(slopes.std() * np.sqrt(2 / len(slopes)))
        assert effects[n] == pytest.approx(law * np.mean(errors), rel=0.3), n  # of one half
    groups = np.arange(600) // 5
    found = minimum_detectable_effects(*given, LONG.classes, groups=groups, kind=OfLongText)
    held = set(found["tendency"].to_pylist())
    assert held == {"recurrence", "repetition", "burstiness", "compression"}  # no sound test


# ---- answers to prompts ----


def answered(n: int, asked=(1, 1), authors: int = 1, same: bool = False, longer: float = 1.0):
    """Open answers of a synthetic population as the package does."""
    topics = Topics(n_topics=40, own=60)
    case = Answered("sensitivity", topics, n, asked, authors=authors, longer=longer)
    human, model, prompts = case.answers_of(case.drawn(np.random.default_rng(5)), 0)
    model = human if same else model
    return opened_answers(human, model, prompts, case.population.classes)


def test_answers_are_dealt_as_the_tests_do_and_measured_as_they_are():
    """Oracles: the test's own t and distances of the same answers; labels counted."""
    for asked, authors in (((1, 1), 1), ((3, 3), 1), ((1, 1), 3)):
        with answered(60, asked, authors, longer=7.5) as pair:  # as many segments in either text
            held = prompt_shifts.PromptAnswers.of(pair, 10_000, 1)
            listed = list(held.shifts(MeasurementOptions(), 1))
            ranks = listed[0]
            how = Measuring.of(pair, MeasurementOptions(permutations=1), 1)
            t = document_measures.randomized_numbers(how) | randomized_curves(how)
            of_words = randomized_words(how.for_words)
            many = replace(how.for_words, options=MeasurementOptions(permutations=399))
            of_types = document_measures.randomized_types(many)
        n = len(held.units)
        own = np.arange(n)
        prompts = Prompts.of((own, own), held.units, held.whole)
        rng = np.random.default_rng(0)
        plain = prompt_shifts.DrawnAnswers(rng, prompts, np.stack([own, own + n]))
        own, cut = held.values, held.cut
        curves = {x.tendency: x for x in listed if x.tendency in ("recurrence", "taylor")}
        measured = {name: x._measure(plain, 0.0) for name, x in curves.items()} | {
            "rank_frequency": ranks._measure(plain, 0.0),
            "length": prompt_shifts._numbers(own["length"], own["length"], True, plain, 0.0),
            "symbols": prompt_shifts._numbers(own["symbols"], own["length"], False, plain, 0.0),
        }
        for (tendency, measure), (*null, last) in of_types.items():
            held_types = cut[type_token.HISTOGRAM_OF[tendency]], cut["length"]
            scores = [
                prompt_shifts._types(*held_types, replace(plain, rng=np.random.default_rng(k)), 0.0)
                for k in range(10)
            ]
            score = (last - np.mean(null)) / np.std(null) - shifts.half_step(np.array(null))
            assert np.mean([one[measure] for one in scores]) == pytest.approx(score, abs=0.2)
        for tendency in ("repetition", "burstiness", "compression"):
            (name,) = (x for x in own if x.startswith(tendency))
            numbers = np.where(own[name] == ABSENT, np.nan, own[name])[:, None]
            assert 0 < np.isnan(numbers).mean() < 0.5
            measured[tendency] = prompt_shifts._larger(numbers, 0.0, 1.0, plain, 0.0)
        checked = 0
        for (tendency, measure), drawn in (t | of_words).items():
            if tendency in measured and measure != "tvd_1000":
                value = measured[tendency][measure]
                assert value == pytest.approx(abs(drawn[-1]), rel=1e-9), (tendency, measure)
                checked += 1
        assert checked == 13
        dealt = [plain.dealt(of_words=own).sides for own in (True, False) for _ in range(20)]
        for sides in dealt:
            assert sorted(sides.ravel()) == list(range(2 * n))
            codes = held.units[sides % n]
            assert (np.bincount(codes[0]) == np.bincount(codes[1])).all()
            if held.whole:
                moved = (sides[0] >= n).astype(int)
                assert set(np.bincount(codes[0], moved) / np.bincount(codes[0])) <= {0.0, 1.0}
        assert 0.4 < np.mean([(sides[0] >= n).mean() for sides in dealt]) < 0.6
        (words,) = (x for x in held.shifts(MeasurementOptions(), 1) if x.tendency == "unigram")
        drawn = words.drawn(np.random.default_rng(1), n)
        copies = np.bincount(drawn.prompts.units)
        assert len(copies) == len(np.unique(held.units))
        for copy in range(len(copies)):  # whole prompts, each of its own pairs once
            pairs = drawn.sides[0][drawn.prompts.units == copy]
            assert sorted(pairs) == np.flatnonzero(held.units == held.units[pairs[0]]).tolist()


def test_the_smallest_shift_of_means_is_that_of_the_paired_t():
    """Oracle: the closed form of the paired t, of pairs whose prompts differ and do not."""
    rng, found = np.random.default_rng(3), []
    for common in (0.0, 12.0):
        own = rng.normal(0, common, 400) if common else np.zeros(400)
        lengths = np.concatenate([120 + own, 120 + own]) + rng.normal(0, 8, 800)
        lengths = lengths.round().astype(int)
        inner = shifts.LengthShift(shifts.Histogram.of_documents(lengths.astype(np.int64) << 32))
        measure = partial(prompt_shifts._numbers, lengths, lengths, True)
        shift = prompt_shifts.PairShift(inner, np.arange(400), False, measure)
        x = _Search(shift, N, HOW, 1).smallest("mean_difference", 0.05)
        error = np.diff(lengths.reshape(2, -1), axis=0).std() / N**0.5
        power = norm.isf(0.025) + norm.isf(1 - HOW.power)
        assert x * lengths.mean() == pytest.approx(power * error, rel=0.08)
        found.append(_Search(shift, N, HOW, 1).smallest("ks", 0.05))
    assert found[1] < 2 * found[0]  # prompts that differ cost the test of pairs little


def judged_answers(rng, n: int, authors: int = 1):
    """Draw normal bits per byte of n prompts and the prompts: a fifth is too short to be judged.

    What prompts have in common has a variance of 1, authors on either side one of .04.
    """
    common, sides = rng.normal(6, 1, n), []
    for _ in range(2):
        own = np.repeat(rng.normal(0, 0.2, n // authors), authors) if authors > 1 else 0
        units = np.rint((common + own + rng.normal(0, 0.3, n)) * 1e4)
        short = rng.random(n) < 0.2
        sides.append(np.where(short, ABSENT, units).astype(np.int32))
    own = np.arange(n)
    return sides, Prompts.of((own, own), own // authors, authors > 1)


def values_of(units, name: str = "judge_64"):
    return {"length": np.ones(len(units), np.int32), name: units}


@pytest.mark.parametrize("authors", [1, 3])
def test_numbers_and_curves_of_answers_have_the_effect_of_the_paired_t(authors):
    """Oracle: the closed form; a curve of one number at four places is tested as that number."""
    rng = np.random.default_rng(4)
    sides, prompts = judged_answers(rng, 600, authors)
    both = [values_of(own) | {"novelty_8": np.stack([own] * 4, axis=1)} for own in sides]
    with pair_of_values(both, prompts) as pair:
        listed = list(prompt_shifts.PromptAnswers.of(pair, 10_000, 1).shifts(HOW, 1))
    assert [(x.tendency, x.measures) for x in listed] == [
        ("judge", TWO_TESTS),
        ("novelty", ("max_difference",)),
    ]
    # Residuals of the difference of means, which prompts of one answer have too.
    values = np.where(np.array(sides) == ABSENT, np.nan, sides) * 1e-4
    kept = ~np.isnan(values)
    residuals = np.nan_to_num(values - np.nanmean(values)) / kept.sum(axis=1)[:, None]
    of_units = np.bincount(prompts.units, residuals[1] - residuals[0])
    error = np.sqrt(np.sum(of_units**2) * 600 / N)
    wanted = (norm.isf(0.025) + norm.isf(1 - HOW.power)) * error
    for shift, measure in zip(listed, ("mean_difference", "max_difference"), strict=True):
        x = _Search(shift, N, HOW, 1).smallest(measure, 0.2)
        assert shift.size(measure, x)[0] == pytest.approx(wanted, rel=0.1), measure


def test_the_power_that_is_printed_for_what_is_judged_is_that_of_the_population():
    """Pairs that are not the reference's, by the test itself: 80 of each; 3 binomial errors."""
    how = SensitivityOptions((200,), level=0.05, power=0.8, pairs=100)
    quick = MeasurementOptions(permutations=99)
    sides, prompts = judged_answers(np.random.default_rng(7), 400)
    with pair_of_values([values_of(own) for own in sides], prompts) as pair:
        held = prompt_shifts.PromptAnswers.of(pair, 10_000, 1)
        printed = sensitivity.effects_of(held, quick, how, 1, "judge").to_pylist()
    for row in printed:
        effect, found = round(row["minimum_detectable_effect"] * 1e4), 0
        for seed in range(80):
            sides, prompts = judged_answers(np.random.default_rng([seed, 8]), 200)
            sides[1][sides[1] != ABSENT] += effect
            with pair_of_values([values_of(own) for own in sides], prompts) as pair:
                drawn = document_measures.randomized_numbers(Measuring.of(pair, quick, seed))
            *null, observed = drawn["judge", row["measure"]]
            two_sided = row["measure"] == "mean_difference"
            found += permutation_p(observed, np.array(null), two_sided=two_sided) <= 0.05
        power = row["power_reached"]
        error = np.sqrt(power * (1 - power) / 80)
        assert abs(found / 80 - power) < 0.05 + 3 * error, (row, found)


def test_the_power_that_is_printed_for_answers_is_that_of_the_population():
    """Small cases of `benchmarks/powers.py`: 60 pairs of the population; 3 binomial errors."""
    asked = Answered("unit", Topics(n_topics=40, own=60), 100)
    given = asked.population, 400, 100, False
    held = PromptReferences(*given, many=2, pairs=30, asked=asked)
    bigrams = "type_token_bigrams", "ks_empirical"
    for key in (("length", "mean_difference"), ("stop_words", "ks"), ("unigram", "tvd"), bigrams):
        (found,) = rates("unit", PrintedPromptPower("unit", held, key), 60)
        error = np.sqrt(float(found.nominal) * (1 - float(found.nominal)) / found.repeats)
        more = found.rate - float(found.nominal)
        assert abs(more) < 0.05 + 3 * error, found


def test_an_effect_that_makes_documents_vary_is_found_with_the_power_that_is_asked_for():
    """Oracle: other draws of the same population, of which nearly all bigrams are different."""
    with answered(100) as pair:
        shifts_found = prompt_shifts.PromptAnswers.of(pair, 1000, 1).shifts(MeasurementOptions(), 1)
        (shift,) = (x for x in shifts_found if x.tendency == "type_token_bigrams")
    how = SensitivityOptions(level=0.05, power=0.8, pairs=60)
    x = _Search(shift, 100, how, 1).smallest("ks_empirical", 0.001)
    assert 0.6 < _Search(shift, 100, how, 2).power("ks_empirical", x) < 0.95


def test_few_prompts_and_equal_answers_have_no_effect_and_the_reason():
    how = SensitivityOptions(pairs=10)
    for given, said in (
        ({"n": 50}, "half of the reference has fewer than 30 effective documents or groups"),
        ({"n": 90, "same": True}, "both texts have the same answers"),
    ):
        with answered(**given) as pair:
            found = prompt_effects(pair, MeasurementOptions(), how, 1, "lstm/beam").to_pandas()
        assert len(found) == 14
        assert found[["minimum_detectable_effect", "power_reached"]].isna().all(axis=None)
        assert said in reason_text(found["reason"][0])
        assert said in prompt_sensitivity_table(found, Labels()).note
    with answered(90, (2, 2)) as pair:
        found = prompt_effects(pair, MeasurementOptions(), how, 1, "lstm/beam")
    assert found.schema == SENSITIVITY
    held = found.to_pandas()
    assert set(held["n"]) == {180}
    assert held["minimum_detectable_effect"].notna().sum() >= 11
    shown = prompt_sensitivity_table(pd.concat([held, held.assign(source="gru/beam")]), Labels())
    assert [one.title for one in shown.columns] == ["Model", "Tendency", "Test", "Shift in", "180"]
    assert len(shown.rows) == 28


# ---- two texts ----


def test_half_a_step_is_told_from_numbers_that_are_equal():
    """Oracle: rounded normal numbers, whose step is known."""
    drawn = np.random.default_rng(1).normal(size=2_000)
    for step in (0.02, 0.2, 1.0):
        rounded = np.round(drawn / step) * step
        assert shifts.half_step(rounded) == pytest.approx(step / 2, rel=0.1)
    assert shifts.half_step(drawn) == 0


def test_two_texts_come_with_the_effects_of_as_many_documents_as_are_compared():
    """Oracle: the textbook's effect on a mean, by the deviation of the reference's lengths."""
    topics = Topics()
    texts = [topics.documents(np.random.default_rng(n), n).texts.to_pylist() for n in (240, 120)]
    given = {"permutations": 19, "bootstrap": 0, "tokenized": True}
    found = beyond_perplexity.compare(*texts, sensitivity=True, **given).table_of("sensitivity")
    assert set(found["n"]) == {160}  # 2 / 160 = 1 / 240 + 1 / 120
    assert found["power_reached"].notna().all()
    held = found.set_index(["tendency", "measure"])["minimum_detectable_effect"]
    lengths = [len(text.split()) for text in texts[0]]
    law = norm.isf(0.0025) + norm.isf(0.2)
    effect = held["length", "mean_difference"]
    assert effect == pytest.approx(law * np.std(lengths) * np.sqrt(2 / 160), rel=0.25)  # of a half
    assert "sensitivity" not in beyond_perplexity.compare(*texts, **given).tables
