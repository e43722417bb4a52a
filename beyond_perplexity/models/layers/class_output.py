"""An output layer in two steps, a class and then a word of it, over all ids of a vocabulary.

p(w) = p(class of w) p(w | its class), as in the RNNLM toolkit (Mikolov et al. 2011, "RNNLM:
recurrent neural network language modeling toolkit"): with 50 classes the probability of a word
costs a small share of the products of a full softmax. It is a distribution whatever the order of
the ids; classes only pay where ids come by falling frequency. They are cut as in `class_ends`, the
toolkit's way by default since that report.

N positions, D features, V ids, C classes; class c has S_c ids.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from beyond_perplexity.models.factored import OutputLayer, float_product, impossible_ids
from beyond_perplexity.models.layers.class_softmax import class_ends
from beyond_perplexity.models.losses import chosen_log_probs, summed_cross_entropy
from beyond_perplexity.vocabulary import BOS, EOS, UNK


class ClassOutput(OutputLayer):
    """A softmax over classes of ids, and one over the ids of each.

    Parameters
    ----------
    width : int
        D.
    vocabulary_size : int
        V.
    classes : int
        C at most: where the vocabulary is small there are fewer.
    open_vocabulary : bool
        ``<unk>`` gets no probability.
    """

    class_of: Tensor
    impossible: Tensor

    def __init__(
        self, width: int, vocabulary_size: int, classes: int, open_vocabulary: bool
    ) -> None:
        super().__init__()
        impossible, last = impossible_ids(open_vocabulary), UNK if open_vocabulary else BOS
        ends = [EOS + end for end in class_ends(vocabulary_size - EOS, classes)]
        # Impossible ids share the first class with ``</s>``: one of them alone would waste its own.
        self.ends = [end for end in ends if end > last]
        self.words = nn.Linear(width, vocabulary_size)
        self.classes = nn.Linear(width, len(self.ends))
        nn.init.normal_(self.words.weight, std=width**-0.5)
        nn.init.normal_(self.classes.weight, std=width**-0.5)
        nn.init.zeros_(self.words.bias)
        nn.init.zeros_(self.classes.bias)
        ids = torch.arange(vocabulary_size)  # (V,)
        chosen = torch.searchsorted(torch.tensor(self.ends), ids, right=True)  # (V,)
        self.register_buffer("class_of", chosen, persistent=False)
        self.register_buffer("impossible", impossible, persistent=False)

    def _spans(self) -> list[tuple[int, int]]:
        """List first id and end of each class; ``<s>`` lies in the first one."""
        return list(zip([0, *self.ends], self.ends, strict=False))

    def logits(self, features: Tensor) -> Tensor:
        """Return log p of all ids, float32, (..., V), for features (..., D); normalized."""
        words = float_product(features, self.words.weight, self.words.bias)  # (..., V)
        words = words.index_fill(-1, self.impossible, -torch.inf)
        inside = [words[..., start:end].log_softmax(-1) for start, end in self._spans()]
        classes = float_product(features, self.classes.weight, self.classes.bias)  # (..., C)
        return torch.cat(inside, -1) + classes.log_softmax(-1)[..., self.class_of]  # (..., V)

    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, (N,), of targets (N,), for features (N, D).

        Only the class that a target is in is computed.
        """
        order, parts = self._by_class(features, targets)
        inside = []
        for rows, goals, weight, bias, impossible in parts:
            words = float_product(rows, weight, bias).index_fill(1, impossible, -torch.inf)
            inside.append(chosen_log_probs(words, goals))  # (N_c,)
        classes = float_product(features, self.classes.weight, self.classes.bias)  # (N, C)
        found = chosen_log_probs(classes, self.class_of[targets])  # (N,)
        return found.index_add(0, order, torch.cat(inside)) if inside else found

    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, for features (N, D)."""
        head, nothing = self.classes, self.impossible[:0]
        classes = self.class_of[targets]  # (N,)
        loss = summed_cross_entropy(features, head.weight, head.bias, classes, nothing, dtype)
        for rows, goals, weight, bias, impossible in self._by_class(features, targets)[1]:
            loss = loss + summed_cross_entropy(rows, weight, bias, goals, impossible, dtype)
        return loss

    def _by_class(
        self, features: Tensor, targets: Tensor
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]]:
        """Sort targets (N,) by their classes, and list those that have some.

        Returns
        -------
        order : Tensor
            int64, (N,).
        parts : list
            Of each class the features (N_c, D), the targets as places in it (N_c,), weights
            (S_c, D), biases (S_c,), and the impossible places.
        """
        classes = self.class_of[targets]  # (N,)
        order = classes.argsort(stable=True)  # (N,)
        counts = torch.bincount(classes, minlength=len(self.ends)).tolist()
        spans = self._spans()
        sizes = [end - start for start, end in spans]
        # Split at once: the gradient of a slice is filled up to the whole each time.
        split = zip(
            features[order].split(counts),
            targets[order].split(counts),
            self.words.weight.split(sizes),
            self.words.bias.split(sizes),
            spans,
            strict=True,
        )
        parts = [
            (rows, goals - start, weight, bias, self.impossible[:0] if start else self.impossible)
            for rows, goals, weight, bias, (start, _) in split
            if len(rows)
        ]
        return order, parts
