"""The recurrent families, LSTM and GRU, which share all but the cell.

B rows, T positions, V ids, E embedding size, H hidden size, L layers.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from beyond_perplexity.models.contract import State
from beyond_perplexity.models.factored import TiedNetwork
from beyond_perplexity.models.recurrent_layers import RecurrentState
from beyond_perplexity.options import Dropout, Layers, Limited, Width


@dataclass(frozen=True)
class RecurrentOptions(Limited):
    """Architecture of a recurrent model.

    layers: L, the number of recurrent layers.
    embedding_size: E, the width of the input embedding (and of the output layer, when tied).
    hidden_size: H, the width of each layer.
    dropout: Probability of dropping an element of the embedding and of each layer's output in
        training.
    locked_dropout: Whether dropout takes the same elements at all positions of a document.
    embedding_dropout: Probability of dropping a word's embedding wherever it is in a batch, in
        training.
    tie_weights: The output layer shares the embedding's matrix; when H is not E, a projection goes
        between.
    initialization: Weights before training. torch: uniform within 1/√H in the layers, normal with
        variance 1/E in the embedding. xavier: uniform within √(6 / (inputs + outputs)) for each
        matrix, each gate's by itself (Glorot & Bengio 2010), and no bias.
    """

    layers: Layers = 1
    embedding_size: Width = 128
    hidden_size: Width = 256
    dropout: Dropout = 0.2
    locked_dropout: bool = False
    embedding_dropout: Dropout = 0.0
    tie_weights: bool = True
    initialization: Literal["torch", "xavier"] = "torch"


class RecurrentModel(TiedNetwork):
    """Recurrent layers of torch's class `kind`, without limit to the context; `cell` and `fused`
    step one and all positions; `memories` are a state's tensors, the layer's output first."""

    options_kind = RecurrentOptions
    options: RecurrentOptions
    kind: ClassVar[type[nn.LSTM] | type[nn.GRU]]
    cell: ClassVar[Any]
    fused: ClassVar[Any]
    memories: ClassVar[int]

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        self.embedding = nn.Embedding(self.vocabulary_size, options.embedding_size)
        sizes = options.embedding_size, options.hidden_size, options.layers
        dropout = options.dropout if options.layers > 1 else 0.0
        self.layers = self.kind(*sizes, dropout=dropout, batch_first=True)
        self._make_output(options.hidden_size)
        nn.init.normal_(self.embedding.weight, std=options.embedding_size**-0.5)
        if options.initialization == "xavier":
            self._initialize_xavier()

    def _initialize_xavier(self) -> None:
        gates = {id(weight) for weight in self.layers.parameters()}
        for weight in self.parameters():
            if weight.dim() == 1:
                nn.init.zeros_(weight)
                continue
            height = self.options.hidden_size if id(weight) in gates else len(weight)
            for part in weight.split(height):  # a view
                nn.init.xavier_uniform_(part)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, E or H), for tokens (B, T)."""
        options = self.options
        stream = self._drop_words(self.embedding(tokens), tokens)  # (B, T, E)
        stream = self._drop(stream)  # (B, T, E)
        if options.locked_dropout and self.training:
            return self._to_features(self._layer_by_layer(stream))  # (B, T, E or H)
        hidden, _ = self.layers(stream)  # (B, T, H)
        return self._to_features(self._drop(hidden))  # (B, T, E or H)

    def initial_state(self, batch_size: int, maximum_length: int) -> RecurrentState:
        """Return the state of B empty prefixes; its size does not depend on `maximum_length`."""
        shape = (self.options.layers, batch_size, self.options.hidden_size)
        return RecurrentState.empty(self.embedding.weight, *shape, parts=self.memories)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        """Advance B prefixes by the tokens (B,): features (B, E or H), and the new state."""
        assert isinstance(state, RecurrentState)
        stream = self.embedding(tokens)  # (B, E)
        after = []
        for layer, weights in enumerate(self.layers.all_weights):
            before = self._memory(tuple(part[layer] for part in state.parts))  # each (B, H)
            found = self.cell(stream, before, *weights)  # each (B, H)
            after.append(found if self.memories > 1 else (found,))
            stream = after[-1][0]  # (B, H)
        memory = tuple(torch.stack(parts) for parts in zip(*after, strict=True))  # each (L, B, H)
        return self._to_features(stream), RecurrentState(memory)

    @staticmethod
    @abstractmethod
    def _memory(parts: tuple[Tensor, ...]) -> Any:
        """Return the parts of a memory as torch's functions take them."""

    def _layer_by_layer(self, stream: Tensor) -> Tensor:
        """Run the layers with the same elements dropped at all positions between them."""
        for weights in self.layers.all_weights:
            zeros = stream.new_zeros(1, len(stream), self.options.hidden_size)  # (1, B, H)
            start, held = self._memory((zeros,) * self.memories), tuple(weights)
            outputs, *_ = self.fused(stream, start, held, True, 1, 0.0, True, False, True)
            stream = self._drop(outputs)  # (B, T, H)
        return stream


class LSTM(RecurrentModel):
    """LSTM layers (Hochreiter & Schmidhuber 1997, with forget gates); hidden and cell vectors."""

    family = "lstm"
    kind, cell, fused = nn.LSTM, torch.lstm_cell, torch.lstm
    memories = 2

    @staticmethod
    def _memory(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return parts


class GRU(RecurrentModel):
    """GRU layers (Cho et al. 2014), with the reset gate after the matrix as in cuDNN."""

    family = "gru"
    kind, cell, fused = nn.GRU, torch.gru_cell, torch.gru
    memories = 1

    @staticmethod
    def _memory(parts: tuple[Tensor, ...]) -> Tensor:
        return parts[0]
