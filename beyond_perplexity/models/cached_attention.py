"""Attention of one position to a cache, on a GPU: each row reads its own prefix and no more.

PyTorch's fused attention reads as many positions for every row as the longest has. B rows, H heads
of K, M positions of the cache. Triton comes with torch's builds for GPUs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

READ_AT_ONCE = 32  # positions at a time


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    query, key, value, keys, values, lengths, mixed, scale, size, room, stride, HEAD: tl.constexpr,
    READ_AT_ONCE: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    heads = tl.num_programs(1)
    own = tl.arange(0, HEAD)  # (K',): K, up to a power of two
    held = own < size
    length = tl.load(lengths + row)
    new = row.to(tl.int64) * stride + head * size + own
    cached = (row.to(tl.int64) * heads + head) * room * size
    asked = tl.load(query + new, mask=held, other=0.0).to(tl.float32) * scale
    newest = tl.load(key + new, mask=held, other=0.0)
    mix = tl.load(value + new, mask=held, other=0.0)
    tl.store(keys + cached + length * size + own, newest, mask=held)
    tl.store(values + cached + length * size + own, mix, mask=held)
    best = tl.sum(asked * newest.to(tl.float32), 0)
    mix, total = mix.to(tl.float32), 1.0
    for start in range(0, length, READ_AT_ONCE):
        places = start + tl.arange(0, READ_AT_ONCE)
        inside = places < length
        where = cached + places[:, None] * size + own[None, :]  # (READ_AT_ONCE, K')
        there = inside[:, None] & held[None, :]
        read = tl.load(keys + where, mask=there, other=0.0).to(tl.float32)
        scores = tl.where(inside, tl.sum(read * asked[None, :], 1), float("-inf"))  # (N,)
        top = tl.maximum(best, tl.max(scores, 0))
        weights, shrink = tl.exp(scores - top), tl.exp(best - top)
        read = tl.load(values + where, mask=there, other=0.0).to(tl.float32)
        mix = mix * shrink + tl.sum(read * weights[:, None], 0)
        total = total * shrink + tl.sum(weights, 0)
        best = top
    tl.store(mixed + (row.to(tl.int64) * heads + head) * size + own, mix / total, mask=held)


def attend_and_keep(joint: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Write a position's key and value to a cache, (B, H, M, K), at `lengths`, int64, (B,), and
    attend to what is filled: (B, H, 1, K); `joint` is query, key and value, (B, 1, 3 H K)."""
    rows, heads, room, size = keys.shape
    width = heads * size
    asked, key, value = joint.view(rows, 3 * width).split(width, 1)  # 3 x (B, H K)
    mixed = torch.empty((rows, heads, 1, size), dtype=joint.dtype, device=joint.device)
    parts = asked, key, value, keys, values, lengths, mixed
    sizes = size**-0.5, size, room, 3 * width, triton.next_power_of_2(size), READ_AT_ONCE
    _attend[rows, heads](*parts, *sizes)
    return mixed
