"""Log probabilities of words under a softmax over the vocabulary with ``</s>`` on and off.

The softmax goes by chunks of positions, in training with its gradient on the way, so that nothing
of size (positions, V) is kept; see `losses`.

N positions, C positions of a chunk, D features, V ids.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.rows import round_up
from beyond_perplexity.vocabulary import EOS

CHUNK = 128


class Words(NamedTuple):
    """The words to score, one a position.

    Attributes
    ----------
    targets : Tensor
        int64, (N,): ids from ``</s>`` up, and ``</s>`` only where it may come.
    may_end : Tensor
        bool, (N,): ``</s>`` is possible.
    """

    targets: Tensor
    may_end: Tensor


def _chunk(
    features: Tensor, weight: Tensor, bias: Tensor, words: Words, part: slice
) -> tuple[Tensor, Tensor]:
    """Return the softmax, (C, V − 1), and log p of the targets, (C,): all without ``<s>``."""
    logits = functional.linear(features[part], weight, bias).to(weight.dtype)  # (C, V − 1)
    logits[:, 0].masked_fill_(~words.may_end[part], -torch.inf)
    shares = logits.softmax(1)  # (C, V − 1)
    # The kernel of softmax is faster than that of logsumexp; the largest share gives the sum.
    total = logits.amax(1) - shares.amax(1).log()  # (C,)
    chosen = logits.gather(1, words.targets[part, None] - EOS)[:, 0]  # (C,)
    return shares, chosen - total


@torch.no_grad()
def word_log_probs(features: Tensor, weight: Tensor, bias: Tensor, words: Words) -> Tensor:
    """Return log p of each target, nats, float64, (N,), without gradient.

    Parameters
    ----------
    features : Tensor
        (N, D); N a multiple of 16 where equal rows have to give equal numbers on a CPU.
    weight : Tensor
        (V, D).
    bias : Tensor
        (V,).
    words : Words
    """
    found = features.new_empty(len(features), dtype=torch.float64)  # (N,)
    for start in range(0, len(features), CHUNK):
        part = slice(start, start + CHUNK)
        found[part] = _chunk(features, weight[EOS:], bias[EOS:], words, part)[1]
    return found


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, words: Words, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        values = features.new_empty(len(features), dtype=torch.float64)  # (N,)
        by_features = torch.empty_like(features)  # (N, D)
        by_weight, by_bias = torch.zeros_like(weight), torch.zeros_like(bias)  # (V, D), (V,)
        often = counts.to(features.dtype)[:, None]  # (N, 1)
        for start in range(0, len(features), CHUNK):
            part = slice(start, start + CHUNK)
            slope, values[part] = _chunk(features, weight[EOS:], bias[EOS:], words, part)
            goal = words.targets[part, None] - EOS  # (C, 1)
            slope.scatter_add_(1, goal, slope.new_full(goal.shape, -1.0))  # (C, V − 1)
            by_features[part] = (slope @ weight[EOS:]) * -often[part]
            by_weight[EOS:] -= slope.T @ (features[part] * often[part])
            by_bias[EOS:] -= slope.T @ often[part, 0]
        ctx.save_for_backward(by_features, by_weight, by_bias)
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
    """Score the next word at those nodes that say one.

    Parameters
    ----------
    contexts : Tensor
        (M, D), of all nodes.
    weight : Tensor
        (V, D).
    bias : Tensor
        (V,).
    words : Words
        Of all nodes, (M,).
    counts : Tensor
        int64, (M,): rows that say a word at the node.

    Returns
    -------
    total : Tensor
        Σ count · log p, float64 scalar, with gradient.
    values : Tensor
        float64, (M,), without gradient: log p of the word, 0 where the node says none.
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
