"""Samples with several documents a group against single documents: draws, null, level, power.

Needs nothing but the package. Oracles: all draws and randomizations measured in plain Python, and
levels by simulation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from beyond_perplexity.inference.exchanged_units import GROUP_DRAWS, GroupDraws, group_draws
from beyond_perplexity.inference.halves import Halving
from beyond_perplexity.inference.p_values import permutation_p
from beyond_perplexity.tendencies.measures import averaged_draws, measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from tests.unit.test_inference import COMPARED, by_key, draw, measured, pair_of

FEW = MeasurementOptions(permutations=40, bootstrap=0, monte_carlo=0, zipf_ranks=None)


@pytest.mark.parametrize(("n", "groups"), [(9, 9), (20, 7), (5, 12)])
def test_every_draw_takes_one_document_of_each_block(n, groups):
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(groups), 4))
    draws = GroupDraws(codes, n, 3)
    m = min(n, groups)
    seen = [set(), set()]
    blocks: list[dict[int, int]] = [{}, {}]
    for reference, samples in draws:
        assert len(reference) == len(samples) == m
        assert len(set(reference)) == len(set(codes[samples])) == m
        for body, units in enumerate((reference, codes[samples])):
            seen[body] |= set(units.tolist())
            for block, unit in enumerate(units.tolist()):
                assert blocks[body].setdefault(unit, block) == block  # in all draws alike
    assert [len(found) for found in seen] == [n, groups]
    assert len(list(draws)) == GROUP_DRAWS
    for first, again in zip(draws, GroupDraws(codes, n, 3), strict=True):
        assert all(np.array_equal(*both) for both in zip(first, again, strict=True))


@pytest.mark.parametrize(("n", "groups"), [(12, 12), (14, 6)])
def test_measures_are_averages_over_draws_of_the_same_swaps(tmp_path, n, groups):
    reference, samples = draw(1, n), draw(2, 3 * groups)
    codes = np.arange(3 * groups) // 3
    with pair_of(tmp_path, reference, samples, (None, codes)) as pair:
        observed, null = averaged_draws(pair, FEW, 5)
        draws = group_draws(pair.groups, pair.n_documents, 5)
    m = min(n, groups)
    expected: list[list[dict]] = [[] for _ in range(FEW.permutations + 1)]
    for first, second in draws:
        units = draws.units((first, second))
        labels = np.concatenate(list(units.labels(FEW.permutations, 5)), axis=1)
        assert labels.shape == (2 * m, FEW.permutations)
        assert (labels[:m] != labels[m:]).all()
        for place, label in enumerate([np.arange(2 * m) < m, *labels.T]):
            sides: tuple[list[str], list[str]] = ([], [])
            for block in range(m):
                sides[not label[block]].append(reference[first[block]])
                sides[not label[m + block]].append(samples[second[block]])
            expected[place].append(measured(*sides))
    for key in expected[0][0]:
        used = 1 if key[1] == "ks_empirical" else GROUP_DRAWS  # types by length: of one draw
        several = [[one[key] for one in held[:used]] for held in expected]
        values = [found[0] if used == 1 else np.nanmean(found) for found in several]
        assert observed[key] == pytest.approx(values[0], nan_ok=True), key
        assert null[key] == pytest.approx(np.array(values[1:]), nan_ok=True), key


def test_every_row_has_a_verdict(tmp_path):
    codes = np.arange(300) // 5
    with pair_of(tmp_path, draw(3, 70), draw(4, 300), (None, codes)) as pair:
        rows = by_key(measure_rows(pair, FEW, 0))
    for key in COMPARED:
        assert 0 < rows[key].p_value <= 1, key
        assert not rows[key].withheld
        assert "one document per group of the samples" in rows[key].note
        draws = "one draw" if key[0] in HISTOGRAM_OF else "mean over 20 draws"
        assert draws in rows[key].note


def test_fewer_than_twenty_blocks_have_none(tmp_path):
    for n, groups, said in ((70, 15, "15 groups of samples"), (15, 60, "15 documents of the ref")):
        codes = np.arange(3 * groups) // 3
        with pair_of(tmp_path, draw(3, n), draw(4, 3 * groups), (None, codes)) as pair:
            rows = by_key(measure_rows(pair, FEW, 0))
        assert all(math.isnan(rows[key].p_value) and said in rows[key].note for key in COMPARED)


def test_a_text_against_itself_in_groups_has_p_1(tmp_path):
    texts = draw(3, 90)
    with pair_of(tmp_path, texts, texts, (None, np.arange(90) // 3)) as pair:
        rows = by_key(measure_rows(pair, FEW, 0))
    assert {rows[key].p_value for key in COMPARED} == {1.0}


def test_the_floor_takes_one_document_of_each_group(tmp_path):
    codes = np.arange(200) // 5
    with pair_of(tmp_path, draw(3, 60), draw(4, 200), (None, codes)) as pair:
        halving = Halving(pair.groups, pair.n_documents, 1, pair.document_lengths[0])
        parts = [halving.parts(number)[0] for number in range(5)]
    for first, second, cut in parts:
        assert len(first) == len(second) == len(cut) == 30
        assert not set(first) & set(second)
        assert len(set(codes[cut])) == 30
    assert len({tuple(sorted(cut)) for _, _, cut in parts}) == 5


def p_value(
    reference: np.ndarray,
    samples: np.ndarray,
    codes: np.ndarray,
    seed: int,
    most: int = GROUP_DRAWS,
) -> float:
    """Test a difference of means of numbers, by all draws or by the first ones alone."""
    draws, found = GroupDraws(codes, len(reference), seed), []
    for number, drawn in enumerate(draws):
        if number < most:
            apart = reference[drawn[0]] - samples[drawn[1]]  # (P,)
            (labels,) = draws.units((np.arange(len(apart)),) * 2).labels(32, seed)
            signs = np.where(labels[: len(apart)], 1, -1)  # (P, B)
            found.append(np.append(apart.sum(), apart @ signs))
    mean = np.abs(np.mean(found, axis=0))
    return permutation_p(float(mean[0]), mean[1:])


@pytest.mark.parametrize("alike", [0.0, 0.7])
@pytest.mark.parametrize(("n", "groups"), [(40, 40), (160, 30), (30, 120)])
def test_the_level_holds_and_draws_add_power(n, groups, alike):
    """500 repeats of skew numbers, whose means a quarter more than the level may tell apart.

    Permuted units would reject 15 to 25% where 120 groups meet 30 documents.
    """
    codes, rng = np.arange(5 * groups) // 5, np.random.default_rng(7)
    rejected = np.zeros(3)
    for repeat in range(500):
        reference = rng.standard_exponential(n)
        shared = rng.random(groups)[codes] < alike  # such documents are copies of one
        own = rng.standard_exponential(5 * groups)
        samples = np.where(shared, own[codes * 5], own)
        level = 2.5 / 33  # of 33 values of p
        rejected[0] += p_value(reference, samples, codes, repeat) <= level
        rejected[1] += p_value(reference, samples + 0.35, codes, repeat) <= level
        rejected[2] += p_value(reference, samples + 0.35, codes, repeat, 1) <= level
    assert rejected[0] <= binom.ppf(0.999, 500, 1.25 * 2 / 33)
    assert rejected[1] > rejected[2]
