"""Distributions over words with ``</s>`` on and off: in two steps, or in one by tiles.

In two, a class of words of like frequency, then a word of it, costs about 2 √V products instead of
V (Goodman 2001; Mikolov et al. 2011, "Extensions of recurrent neural network language model"). The
end of a text is a class of its own, ruled out where a text cannot end. In one, tiles of products
stay in the cache of a CPU core, their exponentials taken relative to the goal's: a pass over a tile
gives its share of 1 / p, and only where p is below the smallest number is another reference needed.

N positions, C classes of words or positions of a chunk, D features, V ids, S words of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.invariant_tensors import QUANTUM, invert, round_up
from beyond_perplexity.models.factored import class_ends
from beyond_perplexity.vocabulary import EOS

# Scores of words that are held at once, where the rows of a product are not too few for that.
SCORES_AT_ONCE = 1 << 22


class ClassSoftmax(nn.Module):
    """A distribution over ``</s>`` and words by falling frequency, in C classes at most, none for
    ``<s>``; `weight`, (V, D), may be shared with another layer."""

    class_of: Tensor

    def __init__(
        self, width: int, vocabulary_size: int, classes: int, weight: nn.Parameter | None = None
    ) -> None:
        super().__init__()
        if weight is None:
            weight = nn.Parameter(torch.randn(vocabulary_size, width) * width**-0.5)
        self.weight = weight  # (V, D)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))  # (V,)
        first = EOS + 1
        ends = class_ends(vocabulary_size - first, classes)
        self._sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        self._firsts = [first + start for start in [0, *ends[:-1]]]
        self.head = nn.Linear(width, 1 + len(ends))
        inner = first + torch.tensor(ends)  # (C,)
        ids = torch.arange(vocabulary_size)  # (V,)
        chosen = torch.searchsorted(inner, ids, right=True) + 1  # (V,)
        self.register_buffer("class_of", chosen.masked_fill(ids <= EOS, 0), persistent=False)

    def log_probs(self, features: Tensor, targets: Tensor, endless: Tensor) -> Tensor:
        """Return log p of targets, none ``<s>``, nats, float64, (N,), for features (N, D); −∞ for
        the end at `endless`, bool, (N,)."""
        classes = self.class_of[targets]  # (N,)
        head = self._padded(self.head, features)  # (N, 1 + C)
        columns = torch.arange(head.shape[1], device=head.device)  # (1 + C,)
        head = head.masked_fill(endless[:, None] & (columns == 0), -math.inf)  # (N, 1 + C)
        order = classes.argsort(stable=True)  # (N,)
        inside = self._inside(features[order], targets[order], classes[order])  # (N,)
        return _chosen(head, classes) + torch.empty_like(inside).scatter(0, order, inside)

    def _inside(self, features: Tensor, targets: Tensor, classes: Tensor) -> Tensor:
        """Return log p of targets within their classes, (N,), which come in rising order."""
        counts = torch.bincount(classes, minlength=1 + len(self._sizes)).tolist()
        parts = [torch.zeros(counts[0], dtype=torch.float64, device=features.device)]
        begin, held = counts[0], self._class_weights()
        for number, count in enumerate(counts[1:]):
            if not count:
                continue
            first, weight, bias = held(number)
            step = max(QUANTUM, SCORES_AT_ONCE // len(bias) // QUANTUM * QUANTUM)
            for start in range(begin, begin + count, step):
                rows = slice(start, min(start + step, begin + count))
                wide = to_rows(features[rows])  # (N', D)
                logits = functional.linear(wide, weight, bias)[: rows.stop - start]  # (N_c, S)
                parts.append(_chosen(logits, targets[rows] - first))
            begin += count
        return torch.cat(parts)

    @torch.no_grad()
    def sample(self, features: Tensor, endless: Tensor, uniforms: Tensor) -> Tensor:
        """Draw words or the end, int64, (N,), for features (N, D), by numbers in [0, 1), (N, 2),
        for class and word; no end at `endless`, (N,)."""
        head = self._padded(self.head, features).double()  # (N, 1 + C)
        head[:, 0] = head[:, 0].masked_fill(endless, -math.inf)
        classes = invert(head.softmax(1).cumsum(1), uniforms[:, :1])[:, 0]  # (N,)
        drawn = torch.full_like(classes, EOS)  # (N,)
        held = self._class_weights()
        for number in classes.unique().tolist():
            if not number:
                continue
            rows = (classes == number).nonzero()[:, 0]  # (N_c,)
            first, weight, bias = held(number - 1)
            wide = functional.linear(to_rows(features[rows]), weight, bias)[: len(rows)]
            heights = wide.double().softmax(1).cumsum(1)  # (N_c, S)
            drawn[rows] = first + invert(heights, uniforms[rows, 1:])[:, 0]
        return drawn

    def _class_weights(self) -> Callable[[int], tuple[int, Tensor, Tensor]]:
        """Return what gives the first id of a class, its vectors, (S, D), and biases, (S,)."""
        if torch.is_grad_enabled():
            # Split at once: the gradient of a slice is filled up to the whole each time.
            held = [part[EOS + 1 :].split(self._sizes) for part in (self.weight, self.bias)]
            return lambda number: (self._firsts[number], held[0][number], held[1][number])

        def cut(number: int) -> tuple[int, Tensor, Tensor]:
            first = self._firsts[number]
            ids = slice(first, first + self._sizes[number])
            return first, self.weight[ids], self.bias[ids]

        return cut

    @staticmethod
    def _padded(layer: nn.Linear, features: Tensor) -> Tensor:
        result: Tensor = layer(to_rows(features))[: len(features)]
        return result


def to_rows(features: Tensor) -> Tensor:
    """Fill up (N, D) with zeros to a multiple of `QUANTUM` rows."""
    return functional.pad(features, (0, 0, 0, -len(features) % QUANTUM))


def _chosen(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the log softmax of (N, S) at the targets (N,), float64."""
    chosen = logits.gather(1, targets[:, None])[:, 0].double()  # (N,)
    return chosen - logits.logsumexp(1).double()


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

    `rows`, (C, D + 2): features, 1 and −reference; `shares`, (C, S) each: exp(logit − reference), 0
    for what is impossible, empty if not wanted; `total`, (C,): their sum; `log_probs`, (C,): of the
    targets.
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
        # (V − 1, D + 2)
        self.all = torch.cat([weight[EOS:], bias[EOS:, None], torch.ones_like(bias[EOS:, None])], 1)
        self.tiles = self.all.split(self.columns)

    def chunks(self, features: Tensor) -> list[slice]:
        """Cut the positions of features, (N, D), into chunks."""
        count = len(features)
        starts = range(0, count, self.rows)
        return [slice(start, min(start + self.rows, count)) for start in starts]

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
        for number, tile in enumerate(self.tiles):
            found = torch.mm(rows, tile.T).exp_()  # (C, S)
            if number == 0:
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
    """Return log p of targets, nats, float64, (N,), without gradient; features (N, D), N a multiple
    of 16 where equal rows must give equal numbers on a CPU; weight (V, D), bias (V,)."""
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
    """Return Σ count · log p, with gradient, and each log p, (N,), without, float64, as
    `word_log_probs`; `counts`, (N,), is how often a position counts."""
    with torch.autocast(weight.device.type, enabled=False):  # sums of thousands of exponentials
        total, values = _Summed.apply(features, weight, bias, words, counts)
    return total, values


def score_words(
    contexts: Tensor, weight: Tensor, bias: Tensor, words: Words, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """Return Σ count · log p, float64, with gradient, and log p of the next word at M nodes, (M,),
    without; `counts`, (M,), says how many rows have one there, and log p is 0 where none has."""
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
