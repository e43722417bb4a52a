"""The baseline: human text against human text of the same sizes.

Oracles: the nominal 95%; independent draws of the same population; differences by construction.
"""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ttest_rel

from benchmarks.levels import opened
from benchmarks.populations import Drawn, Topics
from beyond_perplexity.inference import histogram_draws, limits
from beyond_perplexity.inference.halves import HalfSamples, Halving, paired_differences
from beyond_perplexity.inference.p_values import holm
from beyond_perplexity.inference.permuted_units import effective_groups, whole_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import (
    definitions,
    human_baselines,
    measurement_options,
    measures,
    word_distances,
)
from beyond_perplexity.tendencies.definitions import family_of
from beyond_perplexity.tendencies.pairs import HumanText, fewer_tokens, further_pair
from beyond_perplexity.tendencies.tokens import tokenize_batch
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF

TEXT = Topics(n_types=300, n_topics=8, own=30, size=5.0)
PLAIN = measurement_options.MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
OPTIONS = measurement_options.MeasurementOptions(permutations=1, bootstrap=0, monte_carlo=0)
ALONE = (False, False)


def human(drawn: Drawn, cut: int = 10_000, grouped: bool = False) -> HumanText:
    texts = drawn.texts
    pieces = [texts.slice(start, cut) for start in range(0, len(texts), cut)]
    return HumanText(pieces, TEXT.classes, groups=drawn.groups if grouped else None)


def alone(reference: Drawn, samples: Drawn):
    """Bring texts of independent documents together."""
    return opened(reference, samples, TEXT.classes, ALONE)


def rows_of(
    reference: Drawn, samples: Drawn, options: measurement_options.MeasurementOptions = PLAIN
):
    with alone(reference, samples) as pair:
        return {row.key: row for row in measures.measure_rows(pair, options, 1)}


def baselines_of(pair, further, options, seed):
    if further is None:
        return human_baselines.reference_baselines(pair, options, seed)
    with further_pair(pair, further) as human_texts:
        if human_texts is None:
            return {}
        return human_baselines.further_baselines(pair, human_texts, options, seed)


def measured(pair, further, seed):
    baselines = baselines_of(pair, further, OPTIONS, seed)
    rows = measures.measure_rows(pair, OPTIONS, seed, baselines=baselines)
    return [row for row in rows if definitions.is_distance(row.measure)]


@pytest.mark.parametrize("with_further", [True, False])
def test_equal_texts_lie_inside_the_band_and_have_no_excess(with_further):
    inside, relative = [], []
    for repeat in range(40):
        rng = np.random.default_rng([1, repeat])
        reference, samples, other = (TEXT.documents(rng, n) for n in (160, 80, 80))
        with alone(reference, samples) as pair:
            for row in measured(pair, human(other) if with_further else None, repeat):
                if family_of(row.tendency):  # of the few documents that are long enough
                    continue
                above = row.baseline + row.excess
                inside.append(row.baseline_low <= above <= row.baseline_high)
                relative.append(row.excess / row.baseline)
                if with_further:
                    assert row.excess == pytest.approx(row.value - row.baseline)
    assert len(inside) >= 40 * 8
    assert 0.91 <= np.mean(inside) <= 1  # of two halves the mean distance varies less
    assert abs(np.mean(relative)) < 0.04


def test_types_of_a_text_whose_documents_are_shorter_have_no_excess():
    """Of the same words, 40% shorter: 3 standard errors of 20 texts; beside halves it was -.07."""
    found = []
    for repeat in range(20):
        rng = np.random.default_rng([33, repeat])
        with alone(TEXT.documents(rng, 160), TEXT.documents(rng, 160, factor=0.6)) as pair:
            rows = measured(pair, None, repeat)
        found.append([row.excess for row in rows if row.tendency in HISTOGRAM_OF])
    excess = np.array(found)
    assert excess.shape == (20, 2)
    assert np.all(np.abs(excess.mean(axis=0)) <= 3 * excess.std(axis=0, ddof=1) / np.sqrt(20))


@pytest.mark.parametrize("with_further", [True, False])
def test_a_shifted_text_lies_above_the_baseline(with_further):
    rng = np.random.default_rng(2)
    reference, other = TEXT.documents(rng, 300), TEXT.documents(rng, 300)
    longer = TEXT.documents(rng, 300, factor=1.6)
    turned = Drawn(TEXT.types, len(TEXT.types) - 1 - longer.ids, longer.offsets, longer.groups)
    with alone(reference, turned) as pair:
        rows = measured(pair, human(other) if with_further else None, 1)
    above = {row.key: row.baseline + row.excess > row.baseline_high for row in rows}
    assert len(above) >= 8
    assert all(above[key] for key in above if key[0] in ("unigram", "length", "stop_words"))


def test_the_baseline_of_unequal_texts_is_the_distance_of_such_draws():
    """Oracle: the mean distance of 80 independent pairs of 240 and 60 documents."""
    rng = np.random.default_rng(3)
    drawn = [rows_of(TEXT.documents(rng, 240), TEXT.documents(rng, 60)) for _ in range(80)]
    found = []
    for repeat in range(24):  # whose baseline of types is of their lengths
        reference, samples, other = (TEXT.documents(rng, n) for n in (240, 60, 90))
        with alone(reference, samples) as pair:
            found.append(baselines_of(pair, human(other), OPTIONS, repeat))
    for key in found[0]:
        expected = np.array([rows[key].value for rows in drawn])
        baseline = np.mean([baselines[key].mean for baselines in found])
        assert baseline == pytest.approx(expected.mean(), rel=0.12, abs=0.003), key


def test_words_are_taken_at_equal_tokens():
    rng = np.random.default_rng(4)
    reference, samples, other = (TEXT.documents(rng, n) for n in (60, 90, 200))
    with alone(reference, samples) as pair, further_pair(pair, human(other)) as further:
        lengths = np.diff(reference.offsets), np.diff(other.offsets)[:90]
        tokens = 900
        with fewer_tokens(further, tokens, 1) as cut:
            for sample_set, held in enumerate(lengths):
                own, left = (reference, other)[sample_set], tokens
                kept = np.zeros(len(own), bool)
                for place in stream(1, "floor/tokens", sample_set).permutation(len(held)):
                    kept[place] = held[place] <= left
                    left -= held[place] * kept[place]
                assert cut.sample_sets[sample_set].n_tokens == tokens - left
                assert left < held[~kept[: len(held)]].min()
                assert cut.sample_sets[sample_set].n_documents == kept.sum()
                inside = np.repeat(kept, np.diff(own.offsets))
                expected = np.bincount(own.ids[inside], minlength=len(TEXT.types))
                names = dict(zip(cut.types.to_pylist(), cut.counts[sample_set], strict=True))
                found = [names.get(word, 0) for word in TEXT.types.to_pylist()]
                assert found == expected.tolist()
        fewer = human_baselines.smaller_baselines(further, 20, 300, OPTIONS, 1)
        whole = human_baselines.smaller_baselines(further, 90, 10**9, OPTIONS, 1)
    assert set(fewer) == set(whole)
    assert all(fewer[key].mean > whole[key].mean for key in whole if key[0] != "rank_frequency")


def test_cuts_do_not_matter_and_no_more_is_read_than_needed():
    rng = np.random.default_rng(5)
    reference, samples, other = (TEXT.documents(rng, n) for n in (50, 40, 100))

    def stop_after(texts):
        yield from texts
        raise AssertionError("read too far")

    found, first = [], other.texts.slice(0, 40)
    with alone(reference, samples) as pair:
        for cut in (7, 40):
            pieces = [first.slice(start, cut) for start in range(0, 40, cut)]
            further = HumanText(stop_after(pieces), TEXT.classes)
            found.append(baselines_of(pair, further, OPTIONS, 3))
        assert found[0] == found[1]
        assert baselines_of(pair, human(other), OPTIONS, 4) != found[0]


def test_further_text_is_read_as_the_reference():
    rng = np.random.default_rng(6)
    reference, samples, other = (TEXT.documents(rng, n).read_in(40) for n in (50, 50, 50))
    raw = TEXT.documents(np.random.default_rng(7), 50)

    def closed(texts: pa.Array):
        words = set(reference.types.to_pylist())
        split = [text.split() for text in texts.to_pylist()]
        lines = [" ".join(w if w in words else "<unk>" for w in text) for text in split]
        return tokenize_batch(pa.array(lines))

    with alone(reference, samples) as pair:
        text = HumanText([raw.texts], TEXT.classes, read=closed)
        with further_pair(pair, text) as further:
            expected = np.bincount(raw.read_in(40).ids, minlength=41)
            names = dict(zip(further.types.to_pylist(), further.counts[1], strict=True))
            assert [names.get(w, 0) for w in reference.types.to_pylist()] == expected.tolist()
            assert further.samples.n_documents == 50
        assert baselines_of(pair, human(other), OPTIONS, 1)


def test_too_few_documents_have_no_baseline():
    rng = np.random.default_rng(8)
    reference, samples, other = (TEXT.documents(rng, n) for n in (20, 12, 11))
    with alone(reference, samples) as pair:
        assert baselines_of(pair, human(other), OPTIONS, 1) == {}
        assert baselines_of(pair, HumanText([], TEXT.classes), OPTIONS, 1) == {}
        assert baselines_of(pair, None, OPTIONS, 1)
        none = measurement_options.MeasurementOptions(permutations=0, bootstrap=1)
        assert baselines_of(pair, None, none, 1) == {}
    for sizes in ((3, 12), (20, 1)):
        few = [TEXT.documents(rng, n) for n in sizes]
        with alone(*few) as pair:
            assert baselines_of(pair, None, OPTIONS, 1) == {}


def test_every_split_has_new_disjoint_parts_of_as_many_documents():
    rng = np.random.default_rng(9)
    reference, samples = TEXT.documents(rng, 51), TEXT.documents(rng, 18)
    with alone(reference, samples) as pair:
        halving = Halving(pair.groups, pair.n_documents, 1, pair.document_lengths[0])
        drawn = [halving.parts(number)[0] for number in range(300)]
    for first, second, cut in drawn:
        assert len(first) == len(second) == 18 == len(set(cut.tolist()))
        assert len({*first.tolist(), *second.tolist()}) == 36
    for half in (0, 1):  # every document is as often in a half: 300 * 18 / 51 times
        often = np.bincount(np.concatenate([parts[half] for parts in drawn]), minlength=51)
        assert np.abs(often - 300 * 18 / 51).max() < 5 * np.sqrt(300 * 18 / 51)


@pytest.mark.parametrize(
    ("n_samples", "samples_grouped"), [(90, False), (2_000, False), (70, True)]
)
def test_halves_have_as_many_groups_and_documents(n_samples, samples_grouped):
    """All groups are dealt; documents are left out in the same share of each."""
    rng = np.random.default_rng(10)
    reference = TEXT.groups(rng, 101)
    draw = TEXT.groups if samples_grouped else TEXT.documents
    samples = draw(rng, n_samples)
    sizes = np.bincount(reference.groups)
    together = 0
    with opened(reference, samples, TEXT.classes, (True, samples_grouped)) as pair:
        halving = Halving(pair.groups, pair.n_documents, 2, pair.document_lengths[0])
        for number in range(60):
            parts = halving.parts(number)[0]
            assert len({len(part) for part in parts}) == 1
            groups = [reference.groups[part] for part in parts[:2]]
            assert not set(groups[0]) & set(groups[1])
            for own in groups:
                counts = np.bincount(own, minlength=101)
                share = len(own) / sizes[np.unique(own)].sum()
                assert len(set(own)) <= 50
                if n_samples == 2_000:  # groups of one document alone can be left out
                    assert len(set(own)) >= 46
                    assert share > 0.5
                held = np.unique(own)
                assert np.abs(counts[held] - sizes[held] * share).max() <= 2
            if samples_grouped:
                assert len(set(samples.groups[parts[2]])) <= 50
            elif n_samples == 90:
                assert len(parts[0]) == 90
            together += 0 in groups[0] and 1 in groups[0]
        assert 2 < together < 30  # two neighbours are in one half by chance: 60 / 4 times or less


@pytest.mark.parametrize("few", [True, False])
def test_halves_of_few_groups_have_no_baseline(few):
    rng = np.random.default_rng(11)
    reference, samples = TEXT.groups(rng, 60 if few else 90), TEXT.documents(rng, 300)
    effective = effective_groups(np.bincount(reference.groups, np.diff(reference.offsets)))
    assert (effective < 39) == few
    with opened(reference, samples, TEXT.classes, (True, False)) as pair:
        assert bool(human_baselines.reference_baselines(pair, OPTIONS, 1)) != few


def test_the_baseline_of_groups_is_the_distance_of_draws_of_as_many():
    """Oracle: 60 independent pairs of 60 groups, of which 200 documents each are kept."""
    rng = np.random.default_rng(12)
    pairs = []
    for _ in range(60):
        sides = [TEXT.groups(rng, 60) for _ in range(2)]
        kept = [np.sort(rng.choice(len(side), 200, replace=False)) for side in sides]
        sides = [side.take(own, np.arange(200)) for side, own in zip(sides, kept, strict=True)]
        pairs.append(rows_of(*sides))
    found = []
    for repeat in range(4):
        sides = TEXT.groups(rng, 120), TEXT.documents(rng, 200)
        with opened(*sides, TEXT.classes, (True, False)) as pair:
            found.append(human_baselines.reference_baselines(pair, OPTIONS, repeat))
    for key in found[0]:
        expected = np.mean([rows[key].value for rows in pairs])
        baseline = np.mean([baselines[key].mean for baselines in found])
        assert baseline == pytest.approx(expected, rel=0.15, abs=0.004), key


def joined(first: Drawn, second: Drawn) -> Drawn:
    groups = np.concatenate([first.groups, second.groups + first.groups.max() + 1])
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    return Drawn(first.types, np.concatenate([first.ids, second.ids]), offsets, groups)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("shuffled", [True, False])
def test_two_halves_of_one_text_have_no_excess_in_any_order(seed, shuffled):
    rng = np.random.default_rng([13, seed])
    # Of pages that drift: neighbours are alike, and the last ones are longer.
    whole = joined(TEXT.groups(rng, 60), TEXT.groups(rng, 60, factor=1.6))
    half = rng.permutation(len(whole))[: len(whole) // 2]
    other = np.setdiff1d(np.arange(len(whole)), half)[: len(whole) // 3]
    halves = [rng.permutation(part) if shuffled else np.sort(part) for part in (half, other)]
    pair_of_halves = [whole.take(part, np.arange(len(part))) for part in halves]
    with alone(*pair_of_halves) as pair:
        rows = measured(pair, None, seed)
    assert len(rows) >= 8
    for row in (row for row in rows if not family_of(row.tendency)):
        assert abs(row.excess) < 1.5 * (row.baseline_high - row.baseline), row
        if row.key[0] == "rank_frequency":  # was the distance of the first pages from all
            assert row.value < row.baseline_high * 2


def test_the_excess_is_of_many_halvings():
    """Its spread over seeds is a fraction of that of one halving."""
    rng = np.random.default_rng(14)
    with alone(TEXT.documents(rng, 120), TEXT.documents(rng, 60)) as pair:
        found = [human_baselines.half_draws(pair, 20, 20, OPTIONS, seed) for seed in range(12)]
    for key in (("unigram", "tvd"), ("length", "ks")):
        means = [np.mean(against[key]) for _, against in found]
        single = [np.mean(against[key][:1]) for _, against in found]
        assert len(found[0][1][key]) == 40
        assert np.std(means) < 0.5 * np.std(single)


@pytest.mark.parametrize("samples_grouped", [True, False])
def test_groups_stay_whole(samples_grouped):
    rng = np.random.default_rng(10)
    reference, samples, other = TEXT.groups(rng, 30), TEXT.groups(rng, 20), TEXT.groups(rng, 60)
    mixed = rng.permutation(len(other))
    other = other.take(mixed, other.groups[mixed])
    grouped = (True, samples_grouped)
    with opened(reference, samples, TEXT.classes, grouped) as pair:
        with further_pair(pair, human(other, grouped=True)) as further:
            codes = further.groups[1]
            assert set(np.bincount(codes)) <= set(np.bincount(other.groups))
            assert abs(len(codes) - len(samples)) <= np.bincount(other.groups).max()
            assert further.samples.n_documents == len(codes)
        assert baselines_of(pair, human(other), OPTIONS, 1) == {}
        by_groups = baselines_of(pair, human(other, grouped=True), OPTIONS, 1)
        assert by_groups == baselines_of(pair, human(other, 7, grouped=True), OPTIONS, 1)
    assert {key[0] for key in by_groups} >= {"unigram", "rank_frequency", "length"}


TESTED = measurement_options.MeasurementOptions(permutations=19, bootstrap=19, monte_carlo=0)
WORDS = ("rank_frequency", "unigram")


@pytest.mark.parametrize("tokens", [0, 1, 37, 200, 10**6])
def test_documents_are_taken_in_random_order_as_long_as_each_fits(tokens):
    lengths = np.random.default_rng(1).integers(0, 60, 200).astype(np.int32)
    for seed in range(20):
        left, expected = tokens, np.zeros(200, bool)
        for place in stream(seed, "order").permutation(200):
            if lengths[place] <= left:
                expected[place] = True
                left -= lengths[place]
        found = histogram_draws.documents_within(lengths, tokens, stream(seed, "order"))
        assert np.array_equal(found, expected)


def test_a_million_documents_need_no_loop():
    lengths = np.random.default_rng(2).geometric(0.01, 1_000_000)
    kept = histogram_draws.documents_within(lengths, int(lengths.sum()) // 2, stream(1, "order"))
    assert lengths[kept].sum() == lengths.sum() // 2
    assert abs(kept[:500_000].mean() - kept[500_000:].mean()) < 0.01


@pytest.mark.parametrize("beyond", [0.0, 0.5])
def test_whole_groups_come_in_their_order(beyond):
    rng = np.random.default_rng(3)
    groups, order = rng.permutation(np.repeat(np.arange(6), [4, 1, 7, 2, 3, 5])), rng.permutation(6)
    for n in range(24):
        expected, taken = np.zeros(len(groups), bool), 0
        for group in order:
            size = np.sum(groups == group)
            if taken + (1 - beyond) * size > n:
                break
            expected |= groups == group
            taken += size
        assert np.array_equal(whole_groups(groups, order, n, beyond), expected)


def test_distances_are_of_random_documents_in_any_order_and_long_ones_are_skipped():
    reference = TEXT.documents(np.random.default_rng(4), 100)
    samples = reference.take(np.arange(2), np.arange(2))
    assert rows_of(reference, samples)["unigram", "tvd"].value > 0.1
    # Oracle: a shuffled file, of whose first documents nothing is special.
    rng = np.random.default_rng(5)
    pages = TEXT.documents(rng, 200)
    last = TEXT.documents(rng, 200)
    last = Drawn(last.types, len(last.types) - 1 - last.ids, last.offsets, last.groups)
    ordered = joined(pages, last)
    shuffled = ordered.take(rng.permutation(400), np.arange(400))
    samples = ordered.take(rng.choice(400, 100, replace=False), np.arange(100))
    first, second = (rows_of(own, samples) for own in (ordered, shuffled))
    for key in (("unigram", "tvd"), ("unigram", "max_difference")):
        assert first[key].value == pytest.approx(second[key].value, rel=0.35)
    rng = np.random.default_rng(6)
    long = Drawn(TEXT.types, np.zeros(5_000, np.int32), np.array([0, 5_000]), np.zeros(1, np.int32))
    reference, samples = joined(long, TEXT.documents(rng, 60)), TEXT.documents(rng, 30)
    rows = rows_of(reference, samples, TESTED)
    for key, row in rows.items():
        if key[0] in WORDS and row.p_value == row.p_value:
            assert row.value == row.value
    assert "effective documents or groups in the reference" in rows["unigram", "tvd"].note
    rng = np.random.default_rng(7)
    long = TEXT.documents(rng, 40, factor=30)
    rows = rows_of(long, TEXT.documents(rng, 2, factor=0.2), TESTED)
    words = [row for key, row in rows.items() if key[0] in WORDS]
    assert words
    for row in words:
        assert row.note.startswith("no verdict: every document of one text is longer")
        assert np.isnan(row.p_value)
        assert np.isnan(row.value)
        assert np.isnan(row.p_adjusted)


def test_the_spread_is_that_of_the_documents_that_are_kept():
    rng = np.random.default_rng(8)
    reference, samples = TEXT.groups(rng, 60), TEXT.groups(rng, 12)
    with opened(reference, samples, TEXT.classes, (True, False)) as pair:
        equal = word_distances.equal_tokens(pair, 1)
        kept = equal.kept[0]
        assert 0 < kept.sum() < len(reference)
        own = limits.spread_of(reference.groups[kept], np.diff(reference.offsets)[kept])
        assert equal.spread == own
        units = equal.units(0)
    assert np.array_equal(units >= 0, kept)
    assert np.array_equal(np.unique(units[kept]), np.arange(len(set(reference.groups[kept]))))


def half_means(reference, samples, seed):
    """Distances of means between halves: samples less the reference."""
    halving = HalfSamples((None, None), (len(reference), len(samples)), seed)
    parts = (halving.parts(number)[0] for number in range(30))
    return [
        samples[own].mean() - reference[x].mean() for one, two, own in parts for x in (one, two)
    ]


def test_halves_vary_as_wholes_do_and_differences_without_the_shared_reference():
    """Oracle: the variance of means of independent numbers; the reference cancels."""
    rng, spread, apart = np.random.default_rng(5), [], []
    for repeat in range(150):
        reference, one, other = (rng.normal(size=n) for n in (50, 80, 120))
        held = np.array([half_means(reference, own, repeat) for own in (one, other)])
        spread.append(held[0].var(ddof=1))
        apart.append(np.subtract(*held).var(ddof=1))
    assert np.mean(spread) == pytest.approx(1 / 50 + 1 / 80, rel=0.1)
    assert np.mean(apart) == pytest.approx(1 / 80 + 1 / 120, rel=0.1)


def test_paired_differences_are_those_of_all_pairs_and_seldom_put_an_equal_one_behind():
    """Oracles: Student's t by hand, Holm; four equal texts, of which any is behind in 5%."""
    rng = np.random.default_rng(6)
    values, halves = np.array([0.1, 0.3, 0.2]), rng.normal(size=(3, 60))
    found, widths, p_values = paired_differences(values, halves, 59, families=2)
    assert found[1, 0] == pytest.approx(0.2)
    expected = []
    for one, other in ((0, 1), (0, 2), (1, 2)):
        drawn = halves[one] - halves[other]
        centred = drawn - drawn.mean() + (values[one] - values[other]) / np.sqrt(60)
        expected.append(ttest_rel(centred, np.zeros(60)).pvalue)
    assert p_values[[0, 0, 1], [1, 2, 2]] == pytest.approx(holm(expected, 2))
    assert np.array_equal(p_values, p_values.T)
    assert np.array_equal(widths, widths.T)
    behind = []
    for repeat in range(200):
        reference, *texts = (rng.exponential(size=n) for n in (100, 60, 60, 60, 60))
        halves = np.array([half_means(reference, text, repeat) for text in texts])
        means = np.array([text.mean() for text in texts])
        behind.append((paired_differences(means, halves, 59)[2] <= 0.05).any())
    assert np.mean(behind) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_halves_of_the_reference_are_the_same_for_all_samples():
    """A text beside itself has no difference, and other samples of one law less than their own."""
    rng = stream(7, "paired", 0)
    reference, one, other = (TEXT.documents(rng, n) for n in (120, 80, 80))
    drawn = {}
    for name, samples in {"one": one, "same": one, "other": other}.items():
        with alone(reference, samples) as pair:
            rows = measures.measure_rows(pair, PLAIN, 1)
            rows = human_baselines.with_halves(rows, pair, OPTIONS, 1, name)
        drawn[name] = {row.key: np.array(row.halves) for row in rows if row.halves}
    tvd = ("unigram", "tvd")
    assert np.array_equal(drawn["one"][tvd], drawn["same"][tvd])
    assert not np.array_equal(drawn["one"]["length", "ks"], drawn["same"]["length", "ks"])
    assert {("length", "ks"), ("rank_frequency", "ks_empirical")} < set(drawn["one"])
    assert all(len(held) == 60 for held in drawn["one"].values())
    apart = np.std(drawn["one"][tvd] - drawn["other"][tvd])
    assert apart < np.hypot(np.std(drawn["one"][tvd]), np.std(drawn["other"][tvd]))
