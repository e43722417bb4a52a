"""Random streams, the tensor form of NumPy's Philox, and draws by inversion.

Oracles: NumPy's Philox 4x64-10 bit for bit; exact fractions; frequencies over an even grid.
"""

from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
import torch

from beyond_perplexity.invariant_tensors import by_tensors, goals, invert, uniforms
from beyond_perplexity.random_streams import stream, stream_key


def expected(seed, purpose, items, start, count):
    return np.stack([stream(seed, purpose, i).random(start + count)[start:] for i in items])


@pytest.mark.parametrize("start", [0, 1, 4, 7, 63, 1000])
@pytest.mark.parametrize("count", [1, 5, 64])
def test_uniforms_equal_numpy_bit_for_bit(start, count):
    items = [0, 1, 2, 999_999, 2**31 + 5, 2**62 + 12345]
    key, ids, wanted = stream_key(3, "generate/x"), torch.tensor(items), torch.full((6,), start)
    exact = expected(3, "generate/x", items, start, count)
    found = uniforms(3, "generate/x", ids, start, count)
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), exact)
    assert np.array_equal(by_tensors(key, ids, wanted, count).numpy(), exact)  # what a GPU does


def test_items_have_their_own_start_and_streams_differ_by_seed_purpose_and_item():
    keys = product((0, 1), ("a", "b"), (0, 1))
    assert len({stream(*key).random() for key in keys}) == 8
    counts, _ = np.histogram(uniforms(0, "u", torch.arange(2000), 0, 50).numpy(), 100, (0, 1))
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert 50 < chi_square < 170  # 99 degrees of freedom: P(outside) < 1e-4
    starts = torch.tensor([(7 * item) % 50 for item in range(200)])
    exact = [expected(1, "x", [item], start, 6)[0] for item, start in enumerate(starts.tolist())]
    assert np.array_equal(uniforms(1, "x", torch.arange(200), starts, 6), exact)
    assert np.array_equal(by_tensors(stream_key(1, "x"), torch.arange(200), starts, 6), exact)
    items, nothing = torch.arange(300), torch.zeros(300, dtype=torch.int64)
    for seed in range(20):  # each seed is another first key word, with and without its top bit
        found = by_tensors(stream_key(seed, "x"), items, nothing, 8).numpy()
        assert np.array_equal(found, expected(seed, "x", range(300), 0, 8))
    assert len({stream_key(seed, "x") >> 63 for seed in range(20)}) == 2


LAST = 1 - 2.0**-53  # the largest number below 1


def exactly(weights, uniform):
    """Find the place by rational arithmetic."""
    sums = list(accumulate(map(Fraction, weights)))
    return next(place for place, held in enumerate(sums) if held > Fraction(uniform) * sums[-1])


def test_places_are_those_of_rational_arithmetic_and_their_frequencies_the_weights():
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
    shares = generator.random(10_000)
    totals = torch.from_numpy(shares * 2.0 ** generator.integers(-900, 900, 10_000))
    for uniform in (0.0, 0.3, LAST):
        uniforms = torch.full_like(totals, uniform)
        found = goals(totals, uniforms)
        assert (found < totals).all()
        assert torch.equal(found, uniforms * totals)
    smallest = torch.tensor([5e-324]).double()
    assert goals(smallest, torch.tensor([LAST]).double()).tolist() == [0.0]
