"""A softmax over words in two steps: a class of words of like frequency, then a word of it.

So the probability of a word costs about 2 √V products instead of V (Goodman 2001; Mikolov et al.
2011, "Extensions of recurrent neural network language model"). The end of a text is a class of
its own, so that it can be ruled out where a text cannot end.

N positions, D features, V ids, C classes of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.invariant_tensors import QUANTUM, invert
from beyond_perplexity.vocabulary import EOS

# Scores of words that are held at once, where the rows of a product are not too few for that.
SCORES_AT_ONCE = 1 << 22


def class_ends(words: int, classes: int) -> list[int]:
    """Cut words by falling frequency into classes of equal sums of √frequency.

    Return their ends.
    """
    return sorted({-(-words * k * k // classes**2) for k in range(1, classes + 1)})


class ClassSoftmax(nn.Module):
    """A distribution over ``</s>`` and all words; ``<s>`` has no probability.

    Words come by falling frequency, in C classes at most; `weight`, (V, D), may be vectors of the
    words that are shared with another layer.
    """

    class_of: Tensor

    def __init__(
        self,
        width: int,
        vocabulary_size: int,
        classes: int,
        weight: nn.Parameter | None = None,
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
        """Return log p of targets, none ``<s>``, nats, float64, (N,), for features (N, D).

        `endless`, bool, (N,): the text cannot end here, and the end has log p = −∞.
        """
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
            for place in range(begin, begin + count, step):
                rows = slice(place, min(place + step, begin + count))
                wide = to_rows(features[rows])  # (N', D)
                logits = functional.linear(wide, weight, bias)[: rows.stop - place]  # (N_c, S)
                parts.append(_chosen(logits, targets[rows] - first))
            begin += count
        return torch.cat(parts)

    @torch.no_grad()
    def sample(self, features: Tensor, endless: Tensor, uniforms: Tensor) -> Tensor:
        """Draw words or the end, int64, (N,), for features (N, D), by numbers in [0, 1), (N, 2).

        These are for the class and for the word of it; where `endless`, (N,), the text cannot
        end.
        """
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
