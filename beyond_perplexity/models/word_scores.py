"""Log probabilities of words under a softmax over the vocabulary with ``</s>`` on and off.

The products with the output layer are cut into tiles that stay in the cache of a CPU core. Their
exponentials are taken relative to the goal's: then one pass over a tile gives its share of 1 / p,
and only where p is below the smallest number is another reference needed. Bias and reference are
two more columns of the product; the gradient is worked out on the way, see `losses`.

N positions, C positions of a chunk, D features, V ids, S words of a tile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from beyond_perplexity.invariant_tensors import QUANTUM, round_up
from beyond_perplexity.vocabulary import EOS

# Positions and words of a tile. On a CPU half a mebibyte, which the second level of cache holds.
TILES = {"cpu": (128, 1024), "cuda": (2048, 8192)}
LARGEST_TOTAL = 1e30  # of shares; products of larger ones with weights would overflow in float32
LOGITS_AT_ONCE = 1 << 26  # logits of a chunk that training holds at most


class Words(NamedTuple):
    """The words to score, one a position: ids from ``</s>`` up, (N,), and where it may come."""

    targets: Tensor
    may_end: Tensor


class _Chunk(NamedTuple):
    """The softmax at some positions, before it is normalized.

    `rows`, (C, D + 2): features, 1 and −reference; `shares`, (C, S) each: exp(logit − reference),
    0 for what is impossible, empty if not wanted; `total`, (C,): their sum; `log_probs`, (C,), of
    the targets.
    """

    rows: Tensor
    shares: list[Tensor]
    total: Tensor
    log_probs: Tensor


class _OutputLayer:
    """Tiles of an output layer, all words but ``<s>``: (S, D + 2) each, of weight, bias and 1."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        rows, self.columns = TILES.get(weight.device.type, TILES["cpu"])
        fitting = LOGITS_AT_ONCE // len(weight) // QUANTUM * QUANTUM
        self.rows = max(QUANTUM, min(rows, fitting))
        self.all = torch.cat(
            [weight[EOS:], bias[EOS:, None], torch.ones_like(bias[EOS:, None])], 1
        )  # (V − 1, D + 2)
        self.tiles = self.all.split(self.columns)

    def chunks(self, features: Tensor) -> list[slice]:
        """Cut the positions of features, (N, D), into chunks."""
        return [
            slice(start, min(start + self.rows, len(features)))
            for start in range(0, len(features), self.rows)
        ]

    def score(self, features: Tensor, words: Words, part: slice, keep: bool) -> _Chunk:
        """Work out the softmax of a chunk."""
        goals = self.all[words.targets[part] - EOS]  # (C, D + 2)
        rows = torch.cat([features[part], torch.ones_like(goals[:, :2])], 1)  # (C, D + 2)
        rows[:, -1] = 0.0
        logits = (rows * goals).sum(1)  # (C,)
        rows[:, -1] = -logits
        shares, total = self._exponentials(rows, words.may_end[part], keep)
        beyond = ~(total < LARGEST_TOTAL)  # (C,)
        if beyond.any():
            largest = self._largest(rows, words.may_end[part])  # (C,)
            rows[:, -1] = torch.where(beyond, -largest, -logits)
            shares, total = self._exponentials(rows, words.may_end[part], keep)
        # The two products are rounded in different ways.
        log_probs = (logits + rows[:, -1] - total.log()).clamp(max=0.0)  # (C,)
        return _Chunk(rows, shares, total, log_probs)

    def _exponentials(
        self, rows: Tensor, may_end: Tensor, keep: bool
    ) -> tuple[list[Tensor], Tensor]:
        shares, total = [], torch.zeros_like(rows[:, 0])  # (C,)
        for place, tile in enumerate(self.tiles):
            found = torch.mm(rows, tile.T).exp_()  # (C, S)
            if place == 0:
                found[:, 0].masked_fill_(~may_end, 0.0)
            total = total + found.sum(1)  # (C,)
            if keep:
                shares.append(found)
        return shares, total

    def _largest(self, rows: Tensor, may_end: Tensor) -> Tensor:
        """Return the largest logit of each position among what is possible there, (C,)."""
        end, *others = self.all.split([1, len(self.all) - 1])  # (1, D + 2), (V − 2, D + 2)
        plain = torch.cat([rows[:, :-1], torch.zeros_like(rows[:, :1])], 1)  # (C, D + 2)
        ending = torch.where(may_end, torch.mm(plain, end.T)[:, 0], -torch.inf)  # (C,)
        tiles = others[0].split(self.columns)
        return torch.stack([ending, *(torch.mm(plain, tile.T).amax(1) for tile in tiles)]).amax(0)


@torch.no_grad()
def word_log_probs(features: Tensor, weight: Tensor, bias: Tensor, words: Words) -> Tensor:
    """Return log p of each target, nats, float64, (N,), without gradient.

    Features (N, D), N a multiple of 16 where equal rows have to give equal numbers on a CPU;
    weight (V, D), bias (V,).
    """
    layer = _OutputLayer(weight, bias)
    found = [layer.score(features, words, part, False) for part in layer.chunks(features)]
    none = features.new_empty(0)
    return torch.cat([none, *(chunk.log_probs for chunk in found)]).double()  # (N,)


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, words: Words, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        layer = _OutputLayer(weight, bias)
        values = features.new_empty(len(features), dtype=torch.float64)  # (N,)
        goals = words.targets - EOS  # (N,)
        often = counts.to(features.dtype)[:, None]  # (N, 1)
        by_rows = layer.all[goals]  # (N, D + 2)
        by_layer = torch.zeros_like(layer.all)  # (V − 1, D + 2)
        by_tiles = by_layer.split([len(tile) for tile in layer.tiles])
        for part in layer.chunks(features):
            chunk = layer.score(features, words, part, True)
            values[part] = chunk.log_probs
            scale = -1.0 / chunk.total[:, None]  # (C, 1)
            scaled = chunk.rows * scale * often[part]  # (C, D + 2)
            by_chunk = torch.zeros_like(scaled)  # (C, D + 2)
            for shares, tile, by_tile in zip(chunk.shares, layer.tiles, by_tiles, strict=True):
                by_chunk.addmm_(shares, tile)
                by_tile.addmm_(shares.T, scaled)
            by_rows[part] += by_chunk * scale
            ones = torch.ones_like(scaled[:, :1])  # (C, 1)
            said = torch.cat([features[part], ones, ones], 1) * often[part]  # (C, D + 2)
            by_layer.index_add_(0, goals[part], said)
        width = features.shape[1]
        by_weight, by_bias = torch.zeros_like(weight), torch.zeros_like(bias)  # (V, D), (V,)
        by_weight[EOS:], by_bias[EOS:] = by_layer[:, :width], by_layer[:, width]
        ctx.save_for_backward(by_rows[:, :width] * often, by_weight, by_bias)
        ctx.mark_non_differentiable(values)
        return values @ counts.double(), values

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        by_features, by_weight, by_bias = ctx.saved_tensors
        slope = outputs[0].to(by_features.dtype)
        return by_features * slope, by_weight * slope, by_bias * slope, None, None


def summed_word_log_probs(
    features: Tensor, weight: Tensor, bias: Tensor, words: Words, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """Return Σ count · log p, a scalar with gradient, and each log p, (N,), without; float64.

    Parameters are those of `word_log_probs`, and `counts`, (N,), how often each position counts.
    """
    total, values = _Summed.apply(features, weight, bias, words, counts)
    return total, values


def score_words(
    contexts: Tensor, weight: Tensor, bias: Tensor, words: Words, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """Score the next word at those of M nodes that say one; `counts`, (M,), rows say one there.

    Returns Σ count · log p, float64 scalar, with gradient, and without it log p of each word,
    float64, (M,), 0 where the node says none.
    """
    chosen = counts.nonzero()[:, 0]  # (N',)
    index = round_up(chosen)  # (N,)
    part = Words(words.targets[index], words.may_end[index])
    arguments = (contexts[index].to(weight.dtype), weight, bias, part)
    often = counts[index] * (torch.arange(len(index), device=index.device) < len(chosen))  # (N,)
    if torch.is_grad_enabled():
        total, values = summed_word_log_probs(*arguments, often)  # (), (N,)
    else:
        values = word_log_probs(*arguments)  # (N,)
        total = values @ often.double()
    found = values.new_zeros(len(counts))  # (M,)
    return total, found.index_copy(0, chosen, values[: len(chosen)])
