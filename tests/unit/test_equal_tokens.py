"""Equal tokens: random documents that fit, whatever the order of the file.

Needs nothing but the package. Oracles: plain loops; texts that differ in nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.levels import opened
from benchmarks.populations import Drawn, Topics
from beyond_perplexity.inference.exchanged_units import whole_groups
from beyond_perplexity.inference.histogram_draws import documents_within
from beyond_perplexity.inference.intervals import spread_of
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.word_distances import equal_tokens

TEXT = Topics(n_types=300, n_topics=8, own=30, size=5.0)
PLAIN = MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
TESTED = MeasurementOptions(permutations=19, bootstrap=19, monte_carlo=0)
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
        found = documents_within(lengths, tokens, stream(seed, "order"))
        assert np.array_equal(found, expected)


def test_a_million_documents_need_no_loop():
    lengths = np.random.default_rng(2).geometric(0.01, 1_000_000)
    kept = documents_within(lengths, int(lengths.sum()) // 2, stream(1, "order"))
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


def joined(first: Drawn, second: Drawn) -> Drawn:
    """Put one text behind another."""
    groups = np.concatenate([first.groups, second.groups + first.groups.max() + 1])
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    ids = np.concatenate([first.ids, second.ids])
    return Drawn(first.types, ids, offsets, groups)


def rows_of(reference: Drawn, samples: Drawn, options: MeasurementOptions, grouped=(False, False)):
    with opened(reference, samples, TEXT.classes, grouped) as pair:
        return {row.key: row for row in measure_rows(pair, options, 1)}


def test_samples_equal_to_the_first_documents_are_not_at_distance_0():
    reference = TEXT.documents(np.random.default_rng(4), 100)
    samples = reference.take(np.arange(2), np.arange(2))
    assert rows_of(reference, samples, PLAIN)["unigram", "tvd"].value > 0.1


def test_the_order_of_the_reference_makes_no_difference():
    """Oracle: a shuffled file, of whose first documents nothing is special."""
    rng = np.random.default_rng(5)
    pages = TEXT.documents(rng, 200)
    last = TEXT.documents(rng, 200)
    last = Drawn(last.types, len(last.types) - 1 - last.ids, last.offsets, last.groups)
    ordered = joined(pages, last)
    shuffled = ordered.take(rng.permutation(400), np.arange(400))
    samples = ordered.take(rng.choice(400, 100, replace=False), np.arange(100))
    for measure in ("tvd", "max_difference"):
        values = [
            rows_of(own, samples, PLAIN)["unigram", measure].value for own in (ordered, shuffled)
        ]
        assert values[0] == pytest.approx(values[1], rel=0.35)


def test_a_document_that_does_not_fit_is_skipped():
    rng = np.random.default_rng(6)
    long = Drawn(TEXT.types, np.zeros(5_000, np.int32), np.array([0, 5_000]), np.zeros(1, np.int32))
    reference, samples = joined(long, TEXT.documents(rng, 60)), TEXT.documents(rng, 30)
    rows = rows_of(reference, samples, TESTED)
    for key, row in rows.items():
        if key[0] in WORDS and row.p_value == row.p_value:
            assert row.value == row.value
    assert rows["unigram", "tvd"].p_value > 0


def test_no_verdict_where_no_document_fits():
    rng = np.random.default_rng(7)
    long = TEXT.documents(rng, 40, factor=30)
    short = TEXT.documents(rng, 2, factor=0.2)
    rows = rows_of(long, short, TESTED)
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
        equal = equal_tokens(pair, 1)
        kept = equal.kept[0]
        assert 0 < kept.sum() < len(reference)
        own = spread_of(reference.groups[kept], np.diff(reference.offsets)[kept])
        assert equal.spread == own
        units = equal.units(0)
    assert np.array_equal(units >= 0, kept)
    assert np.array_equal(np.unique(units[kept]), np.arange(len(set(reference.groups[kept]))))
