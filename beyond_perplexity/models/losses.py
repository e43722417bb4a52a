"""Log probabilities and cross entropy of a large output layer: N positions, D features, V ids.

A full softmax costs most of a small model's time on a CPU, and much of that is traffic to memory.
So the cross entropy goes by chunks of positions, whose gradient is taken at once: nothing of size
(positions, V) is kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

CPU_ROWS = 128  # (positions, V) of so many stays in the cache for the usual V
GPU_ROWS = 8192
# Instructions for products of bfloat16. Torch takes these products on older CPUs too, where they
# are made of others and are 2 to 3 times slower than those of float32.
BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")


@cache
def fastest_products() -> torch.dtype:
    """Return bfloat16 where the CPU has instructions for its products, else float32."""
    held = torch.cpu.get_capabilities()
    return torch.bfloat16 if any(held.get(n) for n in BFLOAT16_INSTRUCTIONS) else torch.float32


def _product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Write left @ right to a float32 tensor and return it."""
    return torch.mm(left, right, out=out) if left.dtype == out.dtype else out.copy_(left @ right)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to a float32 total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += (left @ right).float()


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        impossible: Tensor,
        dtype: torch.dtype,
        has_slope: bool,
    ) -> Tensor:
        wide, matrix = features.to(dtype), weight.to(dtype)  # (N, D), (V, D)
        loss = torch.zeros((), dtype=torch.float64, device=features.device)
        room = features.new_empty(CPU_ROWS, len(weight))  # a new one for each chunk takes longer
        by_features = torch.empty_like(features)  # (N, D)
        by_weight = torch.zeros_like(weight)  # (V, D)
        by_bias = None if bias is None else torch.zeros_like(bias)  # (V,)
        for start in range(0, len(features), CPU_ROWS):
            part = slice(start, start + CPU_ROWS)
            rows, goal = wide[part], targets[part]  # (C, D), (C,)
            scores = _product(rows, matrix.T, room[: len(rows)])  # (C, V)
            if bias is not None:
                scores += bias
            scores.index_fill_(1, impossible, -torch.inf)
            chosen = scores.gather(1, goal[:, None])  # (C, 1)
            top = scores.amax(1, keepdim=True)  # (C, 1)
            shares = scores.sub_(top).exp_()  # (C, V)
            total = shares.sum(1, keepdim=True)  # (C, 1)
            loss += (top + total.log() - chosen).double().sum()
            if not has_slope:  # a validation: most of the work is for the gradient
                continue
            # The slope is shares / total − one-hot target, taken apart so as to be never written.
            scale = 1 / total  # (C, 1)
            if by_bias is not None:
                by_bias.addmv_(shares.T, scale[:, 0])
            narrow = shares.to(dtype)  # (C, V)
            by_features[part] = (narrow @ matrix).float() * scale
            _add_product(by_weight, narrow.T, (rows * scale).to(dtype))
        if not has_slope:
            return loss.float()
        by_features -= weight[targets]
        by_weight.index_add_(0, targets, features, alpha=-1.0)
        if by_bias is not None:
            by_bias -= torch.bincount(targets, minlength=len(weight))
        ctx.save_for_backward(by_features, by_weight, by_bias)
        return loss.float()

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        (slope,) = outputs
        by_features, by_weight, by_bias = ctx.saved_tensors
        bias = None if by_bias is None else by_bias * slope
        return by_features * slope, by_weight * slope, bias, None, None, None, None


def chunked_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    impossible: Tensor,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return −Σ log softmax(features weightᵀ + bias)[target], nats, float32 scalar.

    Features, float32, (N, D), weight (V, D), bias (V,), targets, int64, (N,), none of them
    impossible. `dtype` is of the operands of the three matrix products; bfloat16 is 2 to 3 times
    faster on CPUs that have it. The softmax is float32 always.
    """
    value: Tensor = _ChunkedCrossEntropy.apply(
        features, weight, bias, targets, impossible, dtype, torch.is_grad_enabled()
    )
    return value


def checkpointed_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    impossible: Tensor,
    rows: int = GPU_ROWS,
) -> Tensor:
    """Return −Σ log softmax(features weightᵀ + bias)[target], a few rows of logits at a time.

    They are made again for the gradient: all of them would not fit into a GPU's memory. Arguments
    as for `chunked_cross_entropy`; the products are those of the training's precision.
    """

    def part(held: Tensor, wanted: Tensor) -> Tensor:
        logits = functional.linear(held, weight, bias).float()  # (n, V)
        logits = logits.index_fill(1, impossible, -torch.inf)
        return functional.cross_entropy(logits, wanted, reduction="sum")

    total = features.new_zeros((), dtype=torch.float32)
    for held, wanted in zip(features.split(rows), targets.split(rows), strict=True):
        total = total + checkpoint(part, held, wanted, use_reentrant=False)
    return total


def summed_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    impossible: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Return −Σ log softmax(features weightᵀ + bias)[target] in the way that suits the device."""
    if features.device.type == "cpu":
        wide = features.float()  # (N, D)
        return chunked_cross_entropy(wide, weight, bias, targets, impossible, dtype)
    return checkpointed_cross_entropy(features, weight, bias, targets, impossible)


def chosen_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    """Return log p, float64, (N,), of targets (N,) under logits (N, V); −inf where impossible."""
    chosen = logits.gather(1, targets[:, None])[:, 0].double()  # (N,)
    total = logits.logsumexp(1).double()  # (N,)
    # Where nothing is possible the difference would be NaN; an impossible token has log p = −inf.
    return torch.where(chosen == -torch.inf, chosen, chosen - total)
