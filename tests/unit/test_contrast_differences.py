"""Differences of contrastive entropy between models: tests, intervals, the paper's Table 1.

Oracles: sign-flips and jackknifes in plain loops, models that differ by construction, the level of
the tests where models are alike. Needs nothing beyond the package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.calibration_contrastive import rates
from beyond_perplexity.contrastive.differences import (
    ContrastTests,
    compare_contrasts,
    read_table_1,
)
from beyond_perplexity.contrastive.entropy import ContrastSums, LevelSums
from beyond_perplexity.errors import InputError

LEVELS = (0.1, 0.3, 0.5)


def made_sums(
    lost: Mapping[float, np.ndarray], *, sentence_level: bool = False, words: int = 10
) -> ContrastSums:
    """Make the sums of a model from what each unit loses at each level; a unit is a group."""
    count = len(lost[0.1])
    ids = np.arange(count)
    of_levels = {0.0: np.zeros(count), **lost}
    levels = {
        level: LevelSums(held * 2, np.full(2, held.sum())) for level, held in of_levels.items()
    }
    counts = {"words": np.full(count, words), "sentences": np.full(count, 2)}
    counts |= {"one_word": np.zeros(count, int), "unknown": np.zeros(count, int)}
    return ContrastSums(ids, ids * 7, np.full(count, -50.0), counts, levels, sentence_level)


def drawn(
    factors: tuple[float, ...], seed: int, groups: int = 60, noise: float = 1.0
) -> dict[float, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        level: factor * 10 + noise * rng.normal(size=groups)
        for level, factor in zip(LEVELS, factors, strict=True)
    }


def compare(sums: Mapping[str, ContrastSums], **tests: int) -> pd.DataFrame:
    return compare_contrasts(sums, ContrastTests(**{"flips": 499, **tests})).to_pandas()


def by_key(found: pd.DataFrame) -> dict[tuple[Any, ...], Any]:
    keys = ("unit", "measure", "first", "second", "level")
    return {tuple(row[key] for key in keys): row for row in found.to_dict("records")}


def test_only_models_of_a_unit_are_compared() -> None:
    sums = {
        "one": made_sums(drawn((1, 2, 3), 0)),
        "two": made_sums(drawn((1, 2, 3), 1)),
        "three": made_sums(drawn((1, 2, 3), 2), sentence_level=True),
    }
    found = compare(sums)
    per_word = found[found["unit"] == "word"]
    assert set(zip(per_word["first"], per_word["second"], strict=True)) == {("one", "two")}
    per_sentence = found[found["unit"] == "sentence"]
    assert len(set(zip(per_sentence["first"], per_sentence["second"], strict=True))) == 3
    assert set(found["level"]) == set(LEVELS)  # and not that of the text itself


def test_differences_equal_plain_loops() -> None:
    """Oracle: exact flips of 12 groups, Holm by hand, and a jackknife of the two ratios."""
    sums = [made_sums(drawn((1, 2.0, 3), 0, 12)), made_sums(drawn((1.05, 2.2, 2.5), 1, 12))]
    found = by_key(compare({"a": sums[0], "b": sums[1]}))
    lost = [{level: one.mean(level) for level in LEVELS} for one in sums]
    for level in LEVELS:
        gap = lost[0][level] - lost[1][level]
        row = found["word", "contrastive_entropy", "a", "b", level]
        assert row["value"] == pytest.approx(gap.sum() / 120)
        flips = [abs(np.dot(signs, gap)) for signs in product((1, -1), repeat=12)]
        exact = np.mean(np.array(flips) >= abs(gap.sum()) - 1e-9)
        assert row["p_value"] == pytest.approx(exact)
        assert math.isnan(row["low"])  # too few groups
        assert math.isnan(row["p_adjusted"])
        if level == 0.1:  # where it is 1 for both
            assert ("word", "ratio", "a", "b", level) not in found
            continue
        ratio = found["word", "ratio", "a", "b", level]
        both = [one[level].sum() / one[0.1].sum() for one in lost]
        assert ratio["value"] == pytest.approx(both[0] - both[1])


def test_intervals_and_adjusted_p_of_many_groups() -> None:
    """Oracle: a paired jackknife in a loop; Holm over pairs and levels of H_C alone."""
    sums = {str(seed): made_sums(drawn((1, 2 + seed / 10, 3), seed)) for seed in range(3)}
    table = compare(sums)
    found = by_key(table)
    one, two = ({level: held.mean(level) for level in LEVELS} for held in list(sums.values())[:2])
    keep = ~np.eye(60, dtype=bool)
    without = np.array(
        [
            one[0.3][k].sum() / one[0.1][k].sum() - two[0.3][k].sum() / two[0.1][k].sum()
            for k in keep
        ]
    )
    row = found["word", "ratio", "0", "1", 0.3]
    error = math.sqrt(59 / 60 * np.square(without - row["value"]).sum())
    assert (row["high"] - row["low"]) / 2 == pytest.approx(2.000995 * error, rel=1e-5)
    assert math.isnan(row["p_value"])
    family = table[(table["unit"] == "word") & (table["measure"] == "contrastive_entropy")]
    assert len(family) == 9
    ordered = np.sort(family["p_value"].to_numpy())
    stepped = np.maximum.accumulate(ordered * np.arange(9, 0, -1)).clip(max=1)
    assert np.sort(family["p_adjusted"].to_numpy()) == pytest.approx(stepped)
    assert "499 flips cannot give p < 0.005 in a family of 9 tests" in family["note"].iloc[0]


@pytest.mark.parametrize(
    ("factors", "reading"),
    [
        ((1.2, 2.9, 4.8), "superior"),  # higher H_C, higher H_CR
        ((2.0, 4.0, 6.0), "superior"),  # scaled: higher, similar
        ((2.0, 3.0, 4.0), "scaling issues"),
        ((0.5, 1.5, 2.5), "indeterminate"),
        ((0.9, 1.2, 1.5), "inferior"),
    ],
)
def test_models_read_as_in_table_1(factors: tuple[float, ...], reading: str) -> None:
    """Oracle: the cell of the table that the factors were chosen for."""
    sums = {
        "first": made_sums(drawn(factors, 0, noise=0.1)),
        "second": made_sums(drawn((1, 2, 3), 1, noise=0.1)),
    }
    found = compare(sums, flips=1999)
    rows = found[(found["measure"] == "contrastive_entropy") & (found["level"] == 0.5)]
    assert set(rows["reading"]) == {reading}
    at_base = found[(found["measure"] == "contrastive_entropy") & (found["level"] == 0.1)]
    assert at_base["reading"].isna().all()  # there all ratios are 1
    assert found.loc[found["measure"] == "ratio", "reading"].isna().all()


def test_models_that_are_alike_show_no_difference() -> None:
    """Oracle: the level of the test; of 40 pairs without difference few are told apart."""
    readings = []
    for seed in range(40):
        sums = {name: made_sums(drawn((1, 2, 3), seed * 2 + k)) for k, name in enumerate("ab")}
        found = compare(sums)
        readings += (
            found.loc[(found["measure"] == "contrastive_entropy"), "reading"].dropna().tolist()
        )
    assert len(readings) == 160
    assert readings.count("no difference found") >= 144


def test_no_verdict_no_reading() -> None:
    assert read_table_1(1.0, None, -1, 1) is None
    assert read_table_1(1.0, 0.01, math.nan, math.nan) is None
    assert read_table_1(1.0, 0.05, math.nan, math.nan) == "no difference found"


def test_a_model_that_finds_a_text_impossible_is_left_out() -> None:
    sums = {str(seed): made_sums(drawn((1, 2, 3), seed)) for seed in range(3)}
    sums["0"].scores[4] = -math.inf
    sums["1"].levels[0.3].impossible = 2
    assert compare(sums).empty


def test_other_texts_and_one_model_alone() -> None:
    first = made_sums(drawn((1, 2, 3), 0))
    assert compare({"first": first}).empty
    other = made_sums(drawn((1, 2, 3), 1), words=11)
    with pytest.raises(InputError, match="second: was scored on other texts or distortions"):
        compare({"first": first, "second": other})
    fewer = made_sums(drawn((1, 2, 3), 1))
    fewer.levels[0.3].events = np.array([5, 0, 0, 0])
    with pytest.raises(InputError, match="second: was scored on other texts or distortions"):
        compare({"first": first, "second": fewer})


def test_a_base_level_that_was_not_scored_leaves_ratios_out() -> None:
    sums = {str(seed): made_sums(drawn((1, 2, 3), seed)) for seed in range(2)}
    tests = ContrastTests(base_level=0.2, flips=99)
    found = compare_contrasts(sums, tests).to_pandas()
    assert set(found["measure"]) == {"contrastive_entropy"}
    assert found["reading"].isna().all()


def test_coverage_and_level_by_simulation() -> None:
    """Oracle: the nominal rates, within what 150 repeats can miss; 1,000 are in tests/long."""
    found = rates(150, 40)
    assert min(found.entropy, found.ratio, found.difference) >= 0.89
    assert found.rejected <= 0.1
