"""Random streams: keys, independence of items, and the tensor form of NumPy's Philox.

Oracle: NumPy's own Philox 4x64-10, bit for bit. Needs nothing beyond the package.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from beyond_perplexity.decoding import uniforms as numbers
from beyond_perplexity.decoding.uniforms import uniforms
from beyond_perplexity.randomness import stream, stream_key


def expected(seed: int, purpose: str, items: list[int], start: int, count: int) -> np.ndarray:
    return np.stack([stream(seed, purpose, i).random(start + count)[start:] for i in items])


@pytest.mark.parametrize("start", [0, 1, 4, 7, 63, 1000])
@pytest.mark.parametrize("count", [1, 5, 64])
@pytest.mark.parametrize("path", ["numpy", "tensor"])
def test_uniforms_equal_numpy_bit_for_bit(
    start: int, count: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "_NUMPY_ITEMS", 0 if path == "tensor" else 10**9)
    items = [0, 1, 2, 999_999, 2**31 + 5, 2**62 + 12345]
    found = uniforms(3, "generate/lstm/nucleus", torch.tensor(items), start, count)
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), expected(3, "generate/lstm/nucleus", items, start, count))


@pytest.mark.parametrize("items", [5, 200])  # NumPy's generators and tensor arithmetic
def test_each_item_may_have_its_own_start(items: int) -> None:
    starts = [(7 * item) % 50 for item in range(items)]
    found = uniforms(1, "x", torch.arange(items), torch.tensor(starts), 6).numpy()
    for item, start in enumerate(starts):
        assert np.array_equal(found[item : item + 1], expected(1, "x", [item], start, 6))


def test_tensor_philox_equals_numpy_over_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_NUMPY_ITEMS", 0)
    items = list(range(300))
    for seed in range(20):  # each seed is another first key word, with and without its top bit
        found = uniforms(seed, "x", torch.tensor(items), 0, 8).numpy()
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
