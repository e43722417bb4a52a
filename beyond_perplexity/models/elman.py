"""The simple recurrent network, as the RNNLM toolkit has it: one layer of sigmoid units.

B rows, T positions, V ids, E embedding size, H units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from beyond_perplexity.models.contract import State, chosen_log_probs
from beyond_perplexity.models.factored import (
    FactoredNetwork,
    FullSoftmax,
    OutputLayer,
    class_ends,
    drop,
    float_product,
    impossible_ids,
    summed_cross_entropy,
)
from beyond_perplexity.models.recurrent_layers import RecurrentState, SigmoidLayer
from beyond_perplexity.options import Count, Dropout, Limited, Width
from beyond_perplexity.vocabulary import BOS, EOS, UNK


@dataclass(frozen=True)
class ElmanOptions(Limited):
    """Architecture of a simple recurrent network.

    embedding_size: E, the width of the vectors of the words that are read. Where it is at least the
        number of units, the network can do all that one can which reads one-hot words.
    hidden_size: H, the number of units.
    dropout: Probability of dropping an element of the embedding and of the units' output in
        training.
    classes: Classes of words by frequency, of which the output layer tells first the class, then
        the word (the toolkit: 50); null: a softmax over all words.
    """

    embedding_size: Width = 200
    hidden_size: Width = 200
    dropout: Dropout = 0.0
    classes: Count | None = None


class RNN(FactoredNetwork):
    """s(t) = σ(U [w(t−1); s(t−1)]), y(t) = softmax(W s(t)), s(0) = 0, biases in the output alone.

    Elman (1990), Finding structure in time; Mikolov et al. (2010), Recurrent neural network based
    language model; Arora & Rangarajan (2016), Contrastive entropy, equations 9 to 11.
    """

    family = "rnn"
    options_kind = ElmanOptions
    options: ElmanOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options, size = self.options, self.vocabulary_size
        self.embedding = nn.Embedding(size, options.embedding_size)
        self.layer = SigmoidLayer(options.embedding_size, options.hidden_size)
        self.output: FullSoftmax | ClassOutput
        if options.classes is None:
            self.output = FullSoftmax(options.hidden_size, size, True, self.open_vocabulary)
            nn.init.zeros_(self.output.bias)
        else:
            width, classes = options.hidden_size, options.classes
            self.output = ClassOutput(width, size, classes, self.open_vocabulary)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the units after each token, (B, T, H), for tokens (B, T)."""
        stream = self._drop(self.embedding(tokens))  # (B, T, E)
        return self._drop(self.layer(stream))  # (B, T, H)

    def initial_state(self, batch_size: int, maximum_length: int) -> RecurrentState:
        """Return the state of B empty prefixes; its size does not depend on `maximum_length`."""
        return RecurrentState.empty(self.embedding.weight, 1, batch_size, self.options.hidden_size)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        """Advance B prefixes by the tokens (B,): units (B, H), and the new state."""
        assert isinstance(state, RecurrentState)
        (before,) = state.parts  # (1, B, H)
        units = self.layer.step(self.embedding(tokens), before[0])  # (B, H)
        return units, RecurrentState((units[None],))

    def _drop(self, values: Tensor) -> Tensor:
        return drop(values, self.options.dropout, self.training)


class ClassOutput(OutputLayer):
    """A softmax over C classes of ids and one over the S_c ids of each (Mikolov et al. 2011,
    "RNNLM"), cheaper where ids come by falling frequency; N positions, D features."""

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
        for layer in (self.words, self.classes):
            nn.init.normal_(layer.weight, std=width**-0.5)
            nn.init.zeros_(layer.bias)
        self.starts = [0, *self.ends[:-1]]  # ``<s>`` lies in the first class
        self.sizes = [end - start for start, end in zip(self.starts, self.ends, strict=True)]
        ids = torch.arange(vocabulary_size)  # (V,)
        chosen = torch.searchsorted(torch.tensor(self.ends), ids, right=True)  # (V,)
        self.register_buffer("class_of", chosen, persistent=False)
        self.register_buffer("impossible", impossible, persistent=False)

    def logits(self, features: Tensor) -> Tensor:
        """Return log p of all ids, float32, (..., V), for features (..., D); normalized."""
        words = float_product(features, self.words.weight, self.words.bias)  # (..., V)
        words.index_fill_(-1, self.impossible, -torch.inf)
        inside = [part.log_softmax(-1) for part in words.split(self.sizes, -1)]
        classes = float_product(features, self.classes.weight, self.classes.bias)  # (..., C)
        return torch.cat(inside, -1).add_(classes.log_softmax(-1)[..., self.class_of])  # (..., V)

    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, of targets (N,), computing only the classes that they are in."""
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
        """Sort targets (N,) by classes: their order, int64, (N,), and by class features (N_c, D),
        targets in the class (N_c,), weights (S_c, D), biases (S_c,), impossible positions."""
        classes = self.class_of[targets]  # (N,)
        order = classes.argsort(stable=True)  # (N,)
        counts = torch.bincount(classes, minlength=len(self.ends)).tolist()
        # Split at once: the gradient of a slice is filled up to the whole each time.
        rows, goals = features[order].split(counts), targets[order].split(counts)
        weights, biases = (part.split(self.sizes) for part in (self.words.weight, self.words.bias))
        parts = [
            (held, goal - start, weight, bias, self.impossible[: 0 if start else None])
            for held, goal, weight, bias, start in zip(
                rows, goals, weights, biases, self.starts, strict=True
            )
            if len(held)
        ]
        return order, parts
