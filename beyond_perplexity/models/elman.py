"""The simple recurrent network, as the RNNLM toolkit has it: one layer of sigmoid units.

B rows, T positions, V ids, E embedding size, H units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from beyond_perplexity.models.contract import State
from beyond_perplexity.models.factored import FactoredNetwork, FullSoftmax
from beyond_perplexity.models.layers.class_output import ClassOutput
from beyond_perplexity.models.layers.dropout import drop
from beyond_perplexity.models.layers.elman import SigmoidLayer
from beyond_perplexity.models.layers.recurrent_state import RecurrentState
from beyond_perplexity.options import Count, Dropout, Limited, Width


@dataclass(frozen=True)
class ElmanOptions(Limited):
    """Architecture of a simple recurrent network.

    Attributes
    ----------
    embedding_size : int
        E, the width of the vectors of the words that are read. From the number of units on, the
        network can do what one can that reads words one-hot.
    hidden_size : int
        H, the number of units.
    dropout : float
        Probability of dropping an element of the embedding and of the units' output in training.
    classes : int or None
        Classes of words by frequency, of which the output layer tells first the class, then the
        word (the toolkit: 50); null: a softmax over all words.
    """

    embedding_size: Width = 200
    hidden_size: Width = 200
    dropout: Dropout = 0.0
    classes: Count | None = None


class RNN(FactoredNetwork):
    """s(t) = σ(U [w(t−1); s(t−1)]), y(t) = softmax(W s(t)), without limit to the context.

    Parameters and errors are those of `FactoredNetwork`; the options are `ElmanOptions`. There are
    no biases but those of the output layer. s(0) = 0.

    References
    ----------
    Elman (1990). Finding structure in time. Mikolov et al. (2010). Recurrent neural network based
    language model. Arora & Rangarajan (2016). Contrastive entropy, equations 9 to 11.
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
        shape = (1, batch_size, self.options.hidden_size)
        kind = self.embedding.weight.dtype
        return RecurrentState((torch.zeros(shape, device=self.device, dtype=kind),))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        """Advance B prefixes by the tokens (B,): units (B, H), and the new state."""
        assert isinstance(state, RecurrentState)
        (before,) = state.memory  # (1, B, H)
        units = self.layer.step(self.embedding(tokens), before[0])  # (B, H)
        return units, RecurrentState((units[None],))

    def _drop(self, values: Tensor) -> Tensor:
        return drop(values, self.options.dropout, self.training)
