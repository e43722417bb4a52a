"""Recurrent layers that several families share, and what they remember of prefixes.

B rows, T or P positions, E embedding size, H width of a layer, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.contract import TensorState
from beyond_perplexity.models.factored import drop, drop_words
from beyond_perplexity.options import Amount, Dropout, Layers, Limited, Width


class RecurrentState(TensorState):
    """The memory of B prefixes: tensors (L, B, H), one or more as the cell has it."""

    axis = 1

    @classmethod
    def empty(cls, like: Tensor, *shape: int, parts: int = 1) -> RecurrentState:
        """Return the memory of empty prefixes, of the type and on the device of a tensor."""
        return cls(tuple(like.new_zeros(shape) for _ in range(parts)))


@dataclass(frozen=True)
class AWDOptions(Limited):
    """The encoder of a model; the defaults are small.

    The published KGLM has 3 layers, embedding_size 400, hidden_size 1150, dropout 0.4,
    weight_dropout 0.5, activation_penalty 2 and temporal_penalty 1.

    layers: The number of LSTM layers.
    embedding_size: The width of the embedding of words and of what is said about the next word.
    hidden_size: The width of all layers but the last, whose width follows from the output.
    dropout: Probability of dropping an element of the embedding and of each layer's output in
        training, the same elements at all positions.
    embedding_dropout: Probability of dropping a word's embedding wherever it is in a batch, in
        training.
    weight_dropout: Probability of dropping an element of the recurrent matrices, in training.
    activation_penalty: Weight of the mean square of the last layer's output, after dropout, in nats
        a token.
    temporal_penalty: Weight of the mean square of its changes between tokens, before dropout.
    """

    layers: Layers = 1
    embedding_size: Width = 64
    hidden_size: Width = 128
    dropout: Dropout = 0.2
    embedding_dropout: Dropout = 0.0
    weight_dropout: Dropout = 0.0
    activation_penalty: Amount = 0.0
    temporal_penalty: Amount = 0.0


def in_one_piece(weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the weights of one layer where cuDNN wants them: one after the other in memory."""
    if weights[0].device.type != "cuda":
        return tuple(weights)
    parts = torch.cat([weight.flatten() for weight in weights]).split([w.numel() for w in weights])
    return tuple(part.view_as(weight) for part, weight in zip(parts, weights, strict=True))


class AWDLSTM(nn.Module):
    """The AWD-LSTM encoder (Merity, Keskar & Socher 2018), recurrent weights dropped alike at all
    positions and activations penalized; its last layer has `width`."""

    def __init__(self, options: AWDOptions, width: int) -> None:
        super().__init__()
        self.options = options
        middle = [options.hidden_size] * (options.layers - 1)
        widths = [options.embedding_size, *middle, width]
        layers = (nn.LSTM(*sizes, batch_first=True) for sizes in pairwise(widths))
        self.layers = nn.ModuleList(layers)

    def forward(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, P, E) to the output with dropout, (B, P, width), and a penalty, nats a token."""
        options = self.options
        stream = drop(embedded, options.dropout, self.training, True)  # (B, P, E)
        raw = stream
        for layer in self.layers:
            assert isinstance(layer, nn.LSTM)
            inputs, full, *biases = layer.all_weights[0]
            recurrent = functional.dropout(full, options.weight_dropout, self.training)
            zeros = stream.new_zeros(1, len(stream), layer.hidden_size)  # (1, B, H)
            weights = in_one_piece((inputs, recurrent, *biases))
            raw, *_ = torch.lstm(stream, (zeros, zeros), weights, True, 1, 0.0, True, False, True)
            stream = drop(raw, options.dropout, self.training, True)  # (B, P, H)
        penalty = stream.new_zeros(())
        if self.training and options.activation_penalty:
            penalty = penalty + options.activation_penalty * stream.square().mean()
        if self.training and options.temporal_penalty and raw.shape[1] > 1:
            penalty = penalty + options.temporal_penalty * raw.diff(dim=1).square().mean()
        return stream, penalty


def embed_words(embedding: nn.Embedding, tokens: Tensor, options: AWDOptions) -> Tensor:
    """Embed tokens (B, P), whole words dropped in training: (B, P, E)."""
    share, training = options.embedding_dropout, embedding.training
    return drop_words(embedding(tokens), tokens, embedding.num_embeddings, share, training)


class SigmoidLayer(nn.Module):
    """x(t) = σ(U [w(t); x(t−1)]), x(0) = 0, without biases, E inputs, H units (Elman 1990; Mikolov
    et al. 2010, Recurrent neural network based language model)."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.of_input = nn.Parameter(torch.empty(units, inputs))  # (H, E)
        self.of_state = nn.Parameter(torch.empty(units, units))  # (H, H)
        nn.init.xavier_uniform_(self.of_input)
        nn.init.xavier_uniform_(self.of_state)

    def forward(self, stream: Tensor) -> Tensor:
        """Return the units after each input, (B, T, H), for inputs (B, T, E)."""
        # torch's fused layers know tanh alone: with h = 2x − 1 and σ(z) = (1 + tanh(z / 2)) / 2 the
        # layer is h(t) = tanh(U_w w(t) / 2 + U_x h(t−1) / 4 + U_x 1 / 4), from h(0) = −1.
        bias = self.of_state.sum(1) / 4  # (H,)
        parts = self.of_input / 2, self.of_state / 4, bias, torch.zeros_like(bias)
        weights = in_one_piece(parts)
        start = stream.new_full((1, len(stream), len(bias)), -1.0)  # (1, B, H)
        hidden, _ = torch.rnn_tanh(stream, start, weights, True, 1, 0.0, self.training, False, True)
        return (hidden + 1) / 2

    def step(self, inputs: Tensor, before: Tensor) -> Tensor:
        """Return the units, (B, H), after inputs (B, E) and units (B, H)."""
        driven = functional.linear(inputs, self.of_input)  # (B, H)
        return torch.sigmoid(driven + functional.linear(before, self.of_state))  # (B, H)
