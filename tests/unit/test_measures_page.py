"""The page of measures names every measure, and the numbers that it gives are right.

Oracles: the registries of measures, estimators and tendencies; closed forms, worked out here.
"""

import math
import re
from pathlib import Path

import pytest
from scipy.special import zeta

from beyond_perplexity.importance.ways_to_draw import ESTIMATORS
from beyond_perplexity.schemas import contrastive
from beyond_perplexity.schemas.estimates import ESTIMATES
from beyond_perplexity.semantics.measures import MEASURES, MeasureOptions
from beyond_perplexity.semantics.word_cosines import scaled_cosine
from beyond_perplexity.tendencies.definitions import TENDENCIES

PAGE = (Path(__file__).resolve().parents[2] / "docs/measures.md").read_text()
NAMES = set(re.findall(r"`([^`\s]+)`", PAGE))
CONTRASTS = (
    contrastive.CONTRASTIVE_ENTROPY,
    contrastive.CONTRASTIVE_RATIO,
    contrastive.SENTENCE_CROSS_ENTROPY,
)
DESCRIBED = {"vocabulary", "text"}  # counted and shown, with no distance


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(set(ESTIMATORS), id="estimators"),
        pytest.param(set(MEASURES), id="meaning"),
        pytest.param(set(TENDENCIES) - DESCRIBED, id="tendencies"),
        pytest.param({row.distance for row in TENDENCIES.values()} - {""}, id="distances"),
        pytest.param(set(CONTRASTS), id="contrastive entropy"),
    ],
)
def test_every_measure_is_described(names):
    assert names - NAMES == set()


def test_diagnostics_are_columns_of_the_table():
    told = re.findall(r"^\| (`(?:ess|largest_weight|k_hat|unique)_.*?) \|", PAGE, re.MULTILINE)
    named = {name for cell in told for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) >= 7
    assert named <= set(ESTIMATES.names)


def perplexity_of_shares(*probabilities):
    """Return that of rolls in the shares of the probabilities (they need not sum to 1)."""
    return math.exp(-sum(p * math.log(p) for p in probabilities))


def test_numbers_of_the_text_are_right():
    dice = [1 / 6] * 6, [7 / 12] + [1 / 12] * 5
    assert [f"{perplexity_of_shares(*die):.4g}" for die in dice] == ["6", "3.857"]
    hundred = math.exp(-(99 * math.log(99 / 100) + math.log(1 / 500)) / 100)
    assert f"{hundred:.4f}" == "1.0748"
    beyond = 1 - sum(k**-1.1997 for k in range(1, 10_001)) / zeta(1.1997)
    assert f"{beyond:.4f}" == "0.1421"
    options = MeasureOptions()
    assert (options.temperature, options.bias) == (0.1, 8.0)
    assert f"{float(scaled_cosine(0.82, 0.1, 8.0)):.2f}" == "0.55"
    for number in ("it is 6;", "3.857", "1.0748", "0.1421", "0.82 becomes 0.55"):
        assert number in PAGE
