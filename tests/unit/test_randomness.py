"""Random streams: keys, independence of items, and the tensor form of NumPy's Philox.

Oracle: NumPy's own Philox 4x64-10, bit for bit. Needs nothing beyond the package.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from beyond_perplexity.invariant_tensors import by_tensors, uniforms
from beyond_perplexity.random_streams import stream, stream_key


def expected(seed: int, purpose: str, items: list[int], start: int, count: int) -> np.ndarray:
    return np.stack([stream(seed, purpose, i).random(start + count)[start:] for i in items])


@pytest.mark.parametrize("start", [0, 1, 4, 7, 63, 1000])
@pytest.mark.parametrize("count", [1, 5, 64])
def test_uniforms_equal_numpy_bit_for_bit(start: int, count: int) -> None:
    items = [0, 1, 2, 999_999, 2**31 + 5, 2**62 + 12345]
    key, ids, wanted = stream_key(3, "generate/x"), torch.tensor(items), torch.full((6,), start)
    exact = expected(3, "generate/x", items, start, count)
    found = uniforms(3, "generate/x", ids, start, count)
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), exact)
    assert np.array_equal(by_tensors(key, ids, wanted, count).numpy(), exact)  # what a GPU does


def test_each_item_may_have_its_own_start() -> None:
    starts = torch.tensor([(7 * item) % 50 for item in range(200)])
    for found in (
        uniforms(1, "x", torch.arange(200), starts, 6),
        by_tensors(stream_key(1, "x"), torch.arange(200), starts, 6),
    ):
        for item, start in enumerate(starts.tolist()):
            row = found[item : item + 1].numpy()
            assert np.array_equal(row, expected(1, "x", [item], start, 6))


def test_tensor_philox_equals_numpy_over_many_keys() -> None:
    items = list(range(300))
    nothing = torch.zeros(300, dtype=torch.int64)
    for seed in range(20):  # each seed is another first key word, with and without its top bit
        found = by_tensors(stream_key(seed, "x"), torch.tensor(items), nothing, 8).numpy()
        assert np.array_equal(found, expected(seed, "x", items, 0, 8))
    assert len({stream_key(seed, "x") >> 63 for seed in range(20)}) == 2


def test_streams_differ_by_seed_purpose_and_item() -> None:
    draws = {
        stream(seed, purpose, item).random()
        for seed in (0, 1)
        for purpose in ("a", "b")
        for item in (0, 1)
    }
    assert len(draws) == 8


def test_uniforms_are_uniform() -> None:
    counts, _ = np.histogram(uniforms(0, "u", torch.arange(2000), 0, 50).numpy(), 100, (0, 1))
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert 50 < chi_square < 170  # 99 degrees of freedom: P(outside) < 1e-4
