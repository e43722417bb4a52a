"""Tensors whose numbers do not depend on how the work was cut: uniforms, inversion, quanta of rows.

Also the drawing anew of particles in proportion to their weights. B items or filters, N numbers of
an item, K particles of a filter; Q rows, X places, Y draws of a row.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.random_streams import stream_key

_HELD = 64  # steps whose numbers are held
_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def has_triton(device: torch.device) -> bool:
    """Tell whether kernels of our own run on a device: GPUs from Ampere on, with Triton."""
    return device.type == "cuda" and _compiles()


@cache
def _compiles() -> bool:
    # Triton comes with torch's builds for GPUs, and makes what launches a kernel with a C compiler.
    compilers = os.environ.get("CC", ""), "gcc", "clang", "cc"
    there = find_spec("triton") is not None and any(map(shutil.which, compilers))
    return there and torch.cuda.get_device_capability() >= (8, 0)


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

    Items, int64, (B, 1), and counters, int64, (B, C), give unsigned words held in int64, (B, C, 4).
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
    """Give the numbers of `uniforms` by tensor arithmetic, where its arguments are, (B, N).

    `key` is 64 unsigned bits; items and starts, the position of the first number, are int64, (B,).
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
    """Give a window of the uniform numbers of many items' streams: float64 in [0, 1), (B, N).

    They are those of NumPy, bit for bit, on every device (computed where the result is wanted):
    ``stream(seed, purpose, item).random(start + count)[start:]``, N being `count`. Items are int64,
    (B,), not negative; `start` is one position for all streams, or int64, (B,).
    """
    key, device = stream_key(seed, purpose), torch.device(device)
    starts = torch.as_tensor(start).expand(len(items))  # (B,)
    if device.type == "cpu":
        return _by_numpy(key, items, starts, count)
    return by_tensors(key, items.to(device), starts.to(device), count)


def uniforms_by_step(
    seed: int, purpose: str, items: Tensor, draws: int, device: torch.device
) -> Iterator[Tensor]:
    """Give `uniforms` without end, so many at a step, (B, draws); few steps are held at once."""
    for step in itertools.count():
        window = step * _HELD * draws, _HELD * draws
        yield from uniforms(seed, purpose, items, *window, device).split(draws, 1)


def goals(totals: Tensor, uniforms: Tensor) -> Tensor:
    """Return the share of each total, float64, that its uniform says: below the total, or 0."""
    # The product can round up to a total that is too small for all bits of a number.
    return torch.minimum(uniforms * totals, totals.nextafter(torch.zeros_like(totals)))


def invert(sums: Tensor, uniforms: Tensor) -> Tensor:
    """Return the first place whose running sum is above a share of the last, int64, (Q, Y).

    Sums of weights, float64, (Q, X), need not end at 1; where all are 0 the result is X. Uniforms
    are float64 in [0, 1), (Q, Y). A place of weight 0 is never drawn.
    """
    return torch.searchsorted(sums, goals(sums[:, -1:], uniforms), right=True)


# Matrix products of few rows take other kernels than those of many (measured with MKL: fewer than
# 12), so that on a CPU rows come in whole quanta. On processors of AMD MKL has to be in its
# reproducible mode as well, which the package sets (`__init__.py`).
QUANTUM = 16  # rows
# Rows of n places are filled up to a multiple of the first number that n reaches.
_STEPS = ((512, 128), (128, 32), (0, 8))


def padded_width(length: int) -> int:
    """Return how many places a row is filled up to: a matter of its length alone."""
    step = next(step for least, step in _STEPS if length > least or not least)
    return max(1, -(-length // step)) * step


def rows_of_batch(width: int, positions: int) -> int:
    """Return how many rows of a width have about so many positions: whole quanta, one at least."""
    return max(1, positions // width // QUANTUM) * QUANTUM


def round_up(rows: Tensor) -> Tensor:
    """Repeat the last row until there is a whole number of quanta: (R', ...) to (R, ...)."""
    missing = -len(rows) % QUANTUM
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def sum_rows(values: Tensor) -> Tensor:
    """Add up each row, (R, W), from left to right: zeros at its end do not change the rounding."""
    return functional.pad(values, (1, 0)).cumsum(1)[:, -1]  # (R,)


def effective_size(weights: Tensor) -> Tensor:
    """Return (Σ w)² / Σ w², (B,), of weights given by their logarithms, float64, (B, K).

    0 where all weights are 0.
    """
    total = weights.logsumexp(1)  # (B,)
    found = (2 * total - (2 * weights).logsumexp(1)).exp()  # (B,)
    return found.masked_fill(total == -math.inf, 0.0)


def systematic(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Resample: place k goes to the particle at (k + u) / K of the cumulated weights.

    `weights`: float64, (B, K): logarithms, not all of a row −inf; `uniforms`: float64, (B,): u in
    [0, 1).

    Returns int64, (B, K), rising. A particle with share w of all weights is in it K w times on
    average, and either ⌊K w⌋ or ⌈K w⌉ times.
    """
    heights = weights.softmax(1).cumsum(1)  # (B, K)
    own = torch.arange(weights.shape[1], device=weights.device)  # (K,)
    marks = (own + uniforms[:, None]) / len(own) * heights[:, -1:]  # (B, K)
    last = (own * (weights > -math.inf)).amax(1, keepdim=True)  # (B, 1)
    return torch.minimum(torch.searchsorted(heights, marks, right=True), last)


def conditional_systematic(
    weights: Tensor, uniforms: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor]:
    """Resample by `systematic`, given that one particle is kept and goes on.

    Of all (u, k) whose place k falls to that particle, one is drawn: the distribution that
    `systematic` has where the path of a particle drawn at the end went through it (Chopin & Singh
    2015, "On particle Gibbs sampling", section 3.3).

    `weights`: float64, (B, K): logarithms; `uniforms`: float64, (B,), in [0, 1); `kept`: int64,
    (B,): the particle of each filter, of weight above 0.

    Returns `chosen`: int64, (B, K); `place`: int64, (B,): where the kept particle goes on.
    """
    count, own = weights.shape[1], kept[:, None]  # (B, 1)
    shares = weights.softmax(1)  # (B, K)
    heights = shares.cumsum(1)  # (B, K)
    share = shares.gather(1, own)[:, 0]  # (B,)
    mark = heights.gather(1, own)[:, 0] - share * (1 - uniforms)  # (B,): within its share
    mark = (count * mark / heights[:, -1]).clamp(min=0.0)  # (B,)
    place = mark.long().clamp(max=count - 1)  # (B,)
    chosen = systematic(weights, mark - mark.floor())  # (B, K)
    # At the edges of its share rounding may give the place to a neighbour.
    return chosen.scatter(1, place[:, None], own), place
