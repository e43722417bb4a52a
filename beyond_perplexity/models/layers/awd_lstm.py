"""The AWD-LSTM encoder (Merity, Keskar & Socher 2018).

A stack of LSTM layers with dropped recurrent weights, the same elements dropped at all positions,
and activation penalties.

B rows, P positions, E embedding size, H width of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.layers.dropout import drop, drop_words
from beyond_perplexity.options import Amount, Dropout, Layers, Limited, Width


@dataclass(frozen=True)
class AWDOptions(Limited):
    """The encoder of a model; the defaults are small.

    The published KGLM has 3 layers, embedding_size 400, hidden_size 1150, dropout 0.4,
    weight_dropout 0.5, activation_penalty 2 and temporal_penalty 1.

    Attributes
    ----------
    layers : int
        The number of LSTM layers.
    embedding_size : int
        The width of the embedding of words and of what is said about the next word.
    hidden_size : int
        The width of all layers but the last, whose width follows from the output.
    dropout : float
        Probability of dropping an element of the embedding and of each layer's output in training,
        the same elements at all positions.
    embedding_dropout : float
        Probability of dropping a word's embedding wherever it is in a batch, in training.
    weight_dropout : float
        Probability of dropping an element of the recurrent matrices, in training.
    activation_penalty : float
        Weight of the mean square of the last layer's output, after dropout, in nats a token.
    temporal_penalty : float
        Weight of the mean square of its changes between tokens, before dropout.
    """

    layers: Layers = 1
    embedding_size: Width = 64
    hidden_size: Width = 128
    dropout: Dropout = 0.2
    embedding_dropout: Dropout = 0.0
    weight_dropout: Dropout = 0.0
    activation_penalty: Amount = 0.0
    temporal_penalty: Amount = 0.0


class AWDLSTM(nn.Module):
    """A stack of LSTM layers over embedded words.

    Parameters
    ----------
    options : AWDOptions
    width : int
        Of the last layer.
    """

    def __init__(self, options: AWDOptions, width: int) -> None:
        super().__init__()
        self.options = options
        middle = [options.hidden_size] * (options.layers - 1)
        widths = [options.embedding_size, *middle, width]
        self.layers = nn.ModuleList(
            nn.LSTM(narrow, wide, batch_first=True) for narrow, wide in pairwise(widths)
        )

    def forward(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last layer's output with dropout and the penalty per token.

        Parameters
        ----------
        embedded : Tensor
            (B, P, E).

        Returns
        -------
        output : Tensor
            (B, P, width).
        penalty : Tensor
            Scalar, 0 outside training.
        """
        options = self.options
        stream = drop(embedded, options.dropout, self.training, True)  # (B, P, E)
        raw = stream
        for layer in self.layers:
            assert isinstance(layer, nn.LSTM)
            inputs, full, *biases = layer.all_weights[0]
            recurrent = functional.dropout(full, options.weight_dropout, self.training)
            zeros = stream.new_zeros(1, len(stream), layer.hidden_size)  # (1, B, H)
            weights = (inputs, recurrent, *biases)
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
    return drop_words(
        embedding(tokens),
        tokens,
        embedding.num_embeddings,
        options.embedding_dropout,
        embedding.training,
    )  # (B, P, E)
