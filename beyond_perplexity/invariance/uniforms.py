"""The numbers of many random streams at once, as a tensor on any device.

They are those of `streams.stream`, bit for bit: NumPy's Philox 4x64-10, on a GPU computed by
tensor arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.invariance.streams import stream_key

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def _signed(word: int) -> int:
    """Return the int64 that has the bits of an unsigned 64-bit word."""
    return word - (1 << 64) if word >> 63 else word


def _multiply(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """Multiply unsigned 64-bit words held in int64; return high and low word of the product."""
    a_high, a_low = (a >> 32) & _MASK, a & _MASK
    b_high, b_low = b >> 32, b & _MASK
    low_low, low_high, high_low = a_low * b_low, a_low * b_high, a_high * b_low
    middle = ((low_low >> 32) & _MASK) + (low_high & _MASK) + (high_low & _MASK)
    high = (
        a_high * b_high
        + ((low_high >> 32) & _MASK)
        + ((high_low >> 32) & _MASK)
        + ((middle >> 32) & _MASK)
    )
    return high, a * _signed(b)


def _philox(key: int, items: Tensor, counters: Tensor) -> Tensor:
    """Run Philox 4x64-10 on the blocks (counter, 0, 0, 0) under the keys (key, item).

    Parameters
    ----------
    key : int
        First key word, 64 unsigned bits.
    items : Tensor
        Second key word, int64, (B, 1).
    counters : Tensor
        First counter word, int64, (B, C).

    Returns
    -------
    Tensor
        Unsigned words held in int64, (B, C, 4).
    """
    zero = torch.zeros_like(counters)  # (B, C)
    x0, x1, x2, x3 = counters, zero, zero, zero
    second = items
    for step in range(10):
        first = _signed((key + step * _WEYL[0]) & ((1 << 64) - 1))
        high0, low0 = _multiply(x0, _MULTIPLIERS[0])  # (B, C)
        high1, low1 = _multiply(x2, _MULTIPLIERS[1])  # (B, C)
        x0, x1, x2, x3 = high1 ^ x1 ^ first, low1, high0 ^ x3 ^ second, low0
        second = second + _signed(_WEYL[1])
    return torch.stack((x0, x1, x2, x3), -1)


def _by_numpy(key: int, items: Tensor, starts: Tensor, count: int) -> Tensor:
    """Give the numbers by NumPy: items and starts (B,), result (B, N)."""
    numbers = np.empty((len(items), count))
    generator = np.random.Generator(np.random.Philox(key=np.array([key, 0], dtype=np.uint64)))
    # One generator put to many places: making one for each takes several times longer.
    state: Any = generator.bit_generator.state
    place = state["state"]
    for row, item, start in zip(numbers, items.tolist(), starts.tolist(), strict=True):
        place["key"][1], place["counter"][0] = item, start // 4
        generator.bit_generator.state = state
        if start % 4:
            generator.random(start % 4)
        generator.random(out=row)
    return torch.from_numpy(numbers)


def by_tensors(key: int, items: Tensor, starts: Tensor, count: int) -> Tensor:
    """Give the numbers by tensor arithmetic, on the device of its arguments.

    Parameters
    ----------
    key : int
        First key word, 64 unsigned bits.
    items, starts : Tensor
        int64, (B,): second key word, position of the first number.
    count : int
        N.

    Returns
    -------
    Tensor
        float64, (B, N).
    """
    items, starts = items[:, None], starts[:, None]  # (B, 1), (B, 1)
    # NumPy counts up before it makes a block of four, so that its first block has counter 1.
    blocks = torch.arange(1, count // 4 + 3, device=items.device)  # (C,)
    words = _philox(key, items, starts // 4 + blocks).flatten(1)  # (B, 4 C)
    wanted = starts % 4 + torch.arange(count, device=items.device)  # (B, N)
    bits = (words.gather(1, wanted) >> 11) & ((1 << 53) - 1)  # (B, N)
    return bits.double() * 2.0**-53


def uniforms(
    seed: int,
    purpose: str,
    items: Tensor,
    start: int | Tensor,
    count: int,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Give a window of the uniform numbers of many items' streams at once.

    The numbers are those of NumPy, bit for bit, on every device:
    ``stream(seed, purpose, item).random(start + count)[start:]``.

    Parameters
    ----------
    seed, purpose
        See `stream`.
    items : Tensor
        int64, (B,), not negative.
    start : int or Tensor
        Position of the first number in each stream; one for all, or int64, (B,).
    count : int
        How many numbers of each stream, N.
    device : torch.device or str
        Where the result is wanted and, unless it is the CPU, computed.

    Returns
    -------
    Tensor
        float64 in [0, 1), (B, N).
    """
    key, device = stream_key(seed, purpose), torch.device(device)
    starts = torch.as_tensor(start).expand(len(items))  # (B,)
    if device.type == "cpu":
        return _by_numpy(key, items, starts, count)
    return by_tensors(key, items.to(device), starts.to(device), count)
