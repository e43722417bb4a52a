"""Draws by inversion.

Oracles: the definition in exact fractions, the weights themselves as frequencies over an even grid
of numbers, and the numbers at which rounding decides.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
import torch

from beyond_perplexity.invariant_tensors import goals, invert

LAST = 1 - 2.0**-53  # the largest number below 1


def exactly(weights: list[float], uniform: float) -> int:
    """Find the place by rational arithmetic."""
    sums = list(accumulate(map(Fraction, weights)))
    return next(place for place, held in enumerate(sums) if held > Fraction(uniform) * sums[-1])


def test_places_are_those_of_rational_arithmetic():
    generator = np.random.default_rng(0)
    # Multiples of 2⁻⁸: running sums are exact; numbers are multiples of 2⁻²⁰, so products too.
    weights = generator.integers(0, 5, (400, 6)) / 256
    weights[:, 3] += 1 / 256
    uniforms = generator.integers(0, 2**20, 400) / 2**20
    uniforms[:100], uniforms[100:200] = 0.0, generator.integers(0, 4, 100) / 4
    sums = torch.from_numpy(weights).cumsum(1)
    found = invert(sums, torch.from_numpy(uniforms)[:, None])[:, 0]
    expected = [exactly(*pair) for pair in zip(weights.tolist(), uniforms.tolist(), strict=True)]
    assert found.tolist() == expected


def test_frequencies_over_a_grid_are_the_weights():
    weights = torch.tensor([0.0, 3.0, 0.0, 5.0, 8.0, 0.0], dtype=torch.float64)
    uniforms = torch.arange(1600, dtype=torch.float64) / 1600
    found = invert(weights.cumsum(0)[None], uniforms[None])[0]
    assert found.bincount(minlength=6).tolist() == (weights * 100).tolist()


@pytest.mark.parametrize("scale", [1.0, 1e-300, 5e-324, 1e300])
@pytest.mark.parametrize("uniform", [0.0, 2.0**-53, 0.5, LAST])
def test_no_place_of_weight_zero_is_drawn(scale, uniform):
    weights = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).double() * scale
    found = invert(weights.cumsum(1), torch.full((3, 2), uniform).double())
    assert found.tolist() == [[1, 1], [2, 2], [0, 0]]


def test_goals_are_below_totals_and_are_plain_products_but_for_the_smallest():
    generator = np.random.default_rng(1)
    totals = torch.from_numpy(
        generator.random(10_000) * 2.0 ** generator.integers(-900, 900, 10_000)
    )
    for uniform in (0.0, 0.3, LAST):
        uniforms = torch.full_like(totals, uniform)
        found = goals(totals, uniforms)
        assert (found < totals).all()
        assert torch.equal(found, uniforms * totals)
    smallest = torch.tensor([5e-324]).double()
    assert goals(smallest, torch.tensor([LAST]).double()).tolist() == [0.0]
