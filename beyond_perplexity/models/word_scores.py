"""Log probabilities of words under a softmax over the vocabulary with ``</s>`` on and off.

N positions, C positions of a chunk, D features, V ids.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.vocabulary import EOS

CHUNK = 256


def word_log_probs(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, may_end: Tensor
) -> Tensor:
    """Return log p of each target, nats, float64, (N,).

    ``<s>`` has no probability, ``</s>`` where it may come. Nothing of size (N, V) is kept unless
    gradients are wanted.

    Parameters
    ----------
    features : Tensor
        (N, D); N a multiple of 16 where equal rows have to give equal numbers on a CPU.
    weight : Tensor
        (V, D).
    bias : Tensor
        (V,).
    targets : Tensor
        int64, (N,); a target is ``</s>`` only where it may come.
    may_end : Tensor
        bool, (N,): ``</s>`` is possible.
    """
    words, word_bias = weight[EOS + 1 :], bias[EOS + 1 :]  # (V − 2, D), (V − 2,)
    end, end_bias = weight[EOS : EOS + 1], bias[EOS : EOS + 1]  # (1, D), (1,)
    found = []
    for start in range(0, len(features), CHUNK):
        part = slice(start, start + CHUNK)
        logits = functional.linear(features[part], words, word_bias)  # (C, V − 2)
        ending = functional.linear(features[part], end, end_bias)[:, 0]  # (C,)
        ending = torch.where(may_end[part], ending, -torch.inf)  # (C,)
        total = torch.logaddexp(logits.logsumexp(1), ending)  # (C,)
        goal = targets[part]  # (C,)
        chosen = logits.gather(1, (goal - EOS - 1).clamp(min=0)[:, None])[:, 0]  # (C,)
        found.append((torch.where(goal == EOS, ending, chosen) - total).double())
    return torch.cat(found) if found else features.new_zeros(0, dtype=torch.float64)
