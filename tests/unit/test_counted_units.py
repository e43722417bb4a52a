"""Tests of numbers that only some documents have.

Oracles: units counted by hand, the level of a test of two texts of one law, and their excess of 0.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.counted_units import NUMBER_RATIO, counted_units
from beyond_perplexity.inference.prompts import answers_of
from beyond_perplexity.tendencies.definitions import LENGTH
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.human_baselines import (
    counted_shares,
    reference_baselines,
    split_baselines,
)
from beyond_perplexity.tendencies.judge import pair_of_values
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows

LEVEL, REPEATS = 0.05, 40
MOST = 6  # of so many repeats: more in .003
QUICK = MeasurementOptions(permutations=99, bootstrap=0, monte_carlo=0)
# Groups and documents of each, of either text, and how far groups differ: what hides it in swaps.
TEXTS = {"swaps": (60, 4, 240, 1, 0), "draws": (150, 1, 40, 6, 1), "prompts": (40, 8, 40, 8, 1)}


def units_of(groups, n):
    found = permuted_units.permuted_units(groups, n, seed=0)
    assert found is not None
    return found


def test_groups_are_as_large_as_they_have_documents_with_a_number():
    first, second = np.repeat(np.arange(3), 3), np.repeat(np.arange(4), 2)
    kept = np.array([1, 1, 0, 0, 0, 0, 1, 1, 1], bool), np.array([1, 0] * 4, bool)
    found = counted_units(units_of((first, second), (9, 8)), kept)
    assert [own.tolist() for own in found.codes] == [[0, 0, 2, 2, 2], [3, 4, 5, 6]]
    assert found.strata is not None
    assert found.strata.sizes.tolist() == [2, 0, 3, 1, 1, 1, 1]
    assert found.strata.most == NUMBER_RATIO
    assert found.weights == (1, 1)


def test_groups_without_a_number_are_none_that_can_change_sides():
    """Of 20 of 40 groups of either text two documents each have a number, or three."""
    first = second = np.repeat(np.arange(40), 3)
    kept = (np.arange(120) < 60) & (np.arange(120) % 3 < 2), np.arange(120) < 60
    found = counted_units(units_of((first, second), (120, 120)), kept)
    assert json.loads(found.unlike)["code"] == "few_moved"
    kept[0][119] = True  # one document of another group is no reason to let those of nothing count
    found = counted_units(units_of((first, second), (120, 120)), kept)
    assert json.loads(found.unlike)["code"] == "few_moved"
    assert not counted_units(units_of((first, second), (120, 120)), (kept[1], kept[1])).unlike


def test_sides_that_are_swapped_weigh_as_much():
    groups = np.repeat(np.arange(3), 4)
    kept = np.ones(12, bool), np.arange(24) < 4
    found = counted_units(units_of((groups, None), (12, 24)), kept)
    assert found.weights == (1, 3)
    assert [len(own) * w for own, w in zip(found.codes, found.weights, strict=True)] == [12, 12]


def drawn(rng, n, size, share, level):
    """Draw documents of n groups, of which so large a share has a number."""
    groups = np.repeat(np.arange(n), size)
    units = np.rint(1000 * (9 + rng.normal(size=len(groups)) + level[groups])).astype(np.int64)
    units[rng.random(len(units)) >= share] = ABSENT
    return {LENGTH: np.full(len(units), 50), "judge_32": units}, groups


@pytest.mark.parametrize("scheme", TEXTS)
def test_texts_of_one_law_have_few_stars_where_one_has_fewer_documents_with_a_number(
    scheme, monkeypatch
):
    """Nine of ten documents beside two of ten; where all of them count it is 7 to 18 of 40."""
    monkeypatch.setattr(permuted_units, "GROUP_DRAWS", 5)
    n, size, m, others, spread = TEXTS[scheme]
    found = SimpleNamespace(ks=0, mean_difference=0)
    for repeat in range(REPEATS):
        rng = np.random.default_rng([repeat, 31])
        levels = spread * rng.normal(size=(2, max(n, m)))
        levels = levels[[0, 0]] if scheme == "prompts" else levels
        (one, first), (two, second) = (
            drawn(rng, *sizes, share, level)
            for sizes, share, level in zip(
                ((n, size), (m, others)), (0.9, 0.2), levels, strict=True
            )
        )
        groups = first if size > 1 else None, second if others > 1 else None
        if scheme == "prompts":
            groups = answers_of((first, second), (None, None), repeat).prompts
        with pair_of_values([one, two], groups) as pair:
            rows = {row.measure: row.p_value for row in measure_rows(pair, QUICK, repeat)}
        for name in vars(found):
            setattr(found, name, getattr(found, name) + (rows[name] <= LEVEL))
    assert found.ks <= MOST
    assert found.mean_difference <= MOST


@pytest.mark.parametrize("size", [1, 5])
def test_a_text_of_the_same_law_has_no_excess_where_fewer_documents_have_a_number(size):
    """By halves and by further text: 3 standard errors of 24 texts; it was .035 and .024."""
    found = []
    for repeat in range(24):
        rng, n = np.random.default_rng([repeat, 32]), 300 // size
        level = 0.5 * rng.normal(size=(3, n)) * (size > 1)
        sides = [drawn(rng, n, size, x, y) for x, y in zip((0.9, 0.3, 0.9), level, strict=True)]
        human, model, further = (held for held, _ in sides)
        codes = sides[0][1] if size > 1 else None
        with pair_of_values([human, model], (codes, None)) as pair:
            known, shares = reference_baselines(pair, QUICK, repeat), counted_shares(pair)
            rows = {row.measure: row.value for row in measure_rows(pair, QUICK, repeat)}
        with pair_of_values([human, further], (codes, codes)) as pair:
            split = split_baselines(pair, 0, QUICK, repeat, shares=shares)
        key = "judge", "ks"
        found.append((known[key].excess, rows["ks"] - split[key].mean))
    excess = np.array(found)
    assert np.all(np.abs(excess.mean(axis=0)) <= 3 * excess.std(axis=0, ddof=1) / np.sqrt(24))


def test_further_text_of_which_fewer_documents_have_a_number_is_no_farther():
    """Oracle: further text of which as many have it; it was 1.2 times as far."""
    means, number, key = [], "judge_32", ("judge", "ks")
    for repeat in range(12):
        rng = np.random.default_rng([repeat, 33])
        human, few, many, least = (
            drawn(rng, 300, 1, share, np.zeros(300))[0] for share in (0.3, 0.3, 0.9, 0.03)
        )
        for further, shares in ((few, {number: 0.9}), (many, None), (few, None)):
            with pair_of_values([human, further], (None, None)) as pair:
                means.append(split_baselines(pair, 0, QUICK, repeat, shares=shares)[key].mean)
        with pair_of_values([human, least], (None, None)) as pair:
            assert key not in split_baselines(pair, 0, QUICK, repeat, shares={number: 0.9})
    few, many, plain = np.array(means).reshape(12, 3).mean(axis=0)
    assert few == pytest.approx(many, rel=0.05)
    assert plain > 1.1 * many
