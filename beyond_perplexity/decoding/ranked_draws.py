"""Draw from the first tokens by rank whose weight reaches a limit, on a GPU, without a sort.

One program a row halves what scores the rank may have: each look adds up the weights of tokens that
score as much, in float64, always in the same order. Nothing is read by the host, so that steps can
be recorded. B rows, V tokens. Triton comes with torch's builds for GPUs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDTH = 1024  # tokens at a time


@triton.jit
def _key(scores, ids, size):  # type: ignore[no-untyped-def]
    """Return integers that sort as the scores do, and which ids there are."""
    inside = ids < size
    bits = tl.load(scores + ids, mask=inside, other=0.0).to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64), inside


@triton.jit
def _mass(weights, scores, size, least, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add up the weights of all tokens whose key is not below `least`."""
    sums = tl.zeros([WIDTH], tl.float64)
    for start in range(0, size, WIDTH):
        ids = start + tl.arange(0, WIDTH)
        key, inside = _key(scores, ids, size)
        weight = tl.load(weights + ids, mask=inside & (key >= least), other=0.0)
        sums += weight.to(tl.float64)
    return tl.sum(sums, 0)


@triton.jit
def _find(  # type: ignore[no-untyped-def]
    weights, scores, size, low, high, goal, above: tl.constexpr, WIDTH: tl.constexpr
):
    """Find the first token by rank, its key in [low, high), up to which the weight reaches a goal,
    or is `above` it, and the weight so far."""
    while high - low > 1:
        middle = low + (high - low) // 2
        mass = _mass(weights, scores, size, middle, WIDTH)
        reached = mass > goal if above else mass >= goal
        low, high = tl.where(reached, middle, low), tl.where(reached, high, middle)
    mass = _mass(weights, scores, size, low + 1, WIDTH)
    token, last = size.to(tl.int64), mass
    for start in range(0, size, WIDTH):  # those of one key go by id
        ids = start + tl.arange(0, WIDTH)
        key, inside = _key(scores, ids, size)
        tied = inside & (key == low)
        weight = tl.load(weights + ids, mask=tied, other=0.0).to(tl.float64)
        sums = mass + tl.cumsum(weight, 0)
        reached = tied & ((sums > goal) if above else (sums >= goal))
        first = tl.min(tl.where(reached, ids, size), 0).to(tl.int64)
        there = tl.sum(tl.where(ids == first, sums, 0.0), 0)
        last = tl.where((token == size) & (first < size), there, last)
        token = tl.minimum(token, first)
        mass += tl.sum(weight, 0)
    return token, last


@triton.jit
def _draw(  # type: ignore[no-untyped-def]
    weights, scores, limits, uniforms, lows, highs, tokens, masses, size, WIDTH: tl.constexpr
):
    row = tl.program_id(0)
    weights += row.to(tl.int64) * size
    scores += row.to(tl.int64) * size
    low, high = tl.load(lows + row), tl.load(highs + row) + 1
    limit = tl.load(limits + row)
    _, held = _find(weights, scores, size, low, high, limit, False, WIDTH)
    goal = tl.minimum(tl.load(uniforms + row) * held, held * (1 - 2.220446049250313e-16))
    token, _ = _find(weights, scores, size, low, high, goal, True, WIDTH)
    tl.store(tokens + row, tl.minimum(token, size - 1))
    tl.store(masses + row, held)


def draw_ranked(
    weight: Tensor, score: Tensor, limit: Tensor, uniform: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw a token of each row, int64, as `kernels.draw_to_mass`, by weight and score, float32, (B,
    V), limit and number, float64, (B,), with the weights of the sets, float64, (B,)."""
    ends = [score.amin(1), score.amax(1)]  # (B,) each
    bits = [end.view(torch.int32).long() for end in ends]
    low, high = (torch.where(found < 0, found ^ 0x7FFFFFFF, found) for found in bits)  # (B,)
    token, mass = torch.empty_like(low), torch.empty_like(uniform)  # (B,)
    given = weight.contiguous(), score.contiguous(), limit, uniform, low, high, token, mass
    _draw[len(weight),](*given, weight.shape[1], WIDTH)
    return token, mass
