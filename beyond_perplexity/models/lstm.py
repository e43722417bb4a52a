"""The LSTM language model: embedding, L layers, output layer (tied to the embedding or not).

B rows, T positions, V ids, E embedding size, H hidden size, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.contract import State
from beyond_perplexity.models.factored import FactoredModel
from beyond_perplexity.options import parse_options


@dataclass(frozen=True)
class LSTMOptions:
    """Architecture of an `LSTM`.

    Attributes
    ----------
    layers : int
        L, the number of LSTM layers.
    embedding_size : int
        E, the width of the input embedding (and of the output layer, when tied).
    hidden_size : int
        H, the width of each layer.
    dropout : float
        Probability of dropping an element of the embedding and of each layer's output in training.
    tie_weights : bool
        The output layer shares the embedding's matrix; when H is not E, a projection goes between.
    """

    layers: int = 1
    embedding_size: int = 128
    hidden_size: int = 256
    dropout: float = 0.2
    tie_weights: bool = True

    def __post_init__(self) -> None:
        if min(self.layers, self.embedding_size, self.hidden_size) < 1:
            raise ValueError("layers, embedding_size and hidden_size must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: is {self.dropout}, expected 0 <= dropout < 1")


@dataclass(frozen=True)
class LSTMState(State):
    """Hidden and cell vectors of B prefixes, both (L, B, H)."""

    hidden: Tensor
    cell: Tensor

    def select(self, rows: Tensor) -> LSTMState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return LSTMState(self.hidden.index_select(1, rows), self.cell.index_select(1, rows))

    def reset(self, rows: Tensor) -> LSTMState:
        """Return the state with the given rows put back to the empty prefix."""
        return LSTMState(self.hidden.index_fill(1, rows, 0), self.cell.index_fill(1, rows, 0))


class LSTM(FactoredModel):
    """A stack of LSTM layers; without limit to the context.

    Parameters
    ----------
    vocabulary_size : int
        V.
    architecture : dict
        See `LSTMOptions`.
    open_vocabulary : bool
        ``<unk>`` gets no probability.

    Raises
    ------
    InputError
        When an option is unknown or wrong.
    """

    def __init__(
        self,
        vocabulary_size: int,
        architecture: Mapping[str, Any],
        open_vocabulary: bool = False,
    ) -> None:
        super().__init__()
        options = parse_options(LSTMOptions, architecture, "architecture")
        self.vocabulary_size = vocabulary_size
        self.open_vocabulary = open_vocabulary
        self.options = options
        width = options.embedding_size if options.tie_weights else options.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, options.embedding_size)
        self.layers = nn.LSTM(
            options.embedding_size,
            options.hidden_size,
            options.layers,
            dropout=options.dropout if options.layers > 1 else 0.0,
            batch_first=True,
        )
        same = width == options.hidden_size
        self.narrow = None if same else nn.Linear(options.hidden_size, width)
        self.output = nn.Linear(width, vocabulary_size)
        nn.init.normal_(self.embedding.weight, std=options.embedding_size**-0.5)
        nn.init.zeros_(self.output.bias)
        if options.tie_weights:
            self.output.weight = self.embedding.weight
        self._forbid(open_vocabulary)

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same model, with ``family``."""
        return {
            "family": "lstm",
            "vocabulary_size": self.vocabulary_size,
            "architecture": asdict(self.options),
            "open_vocabulary": self.open_vocabulary,
        }

    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, E or H), for tokens (B, T)."""
        embedded = self._drop(self.embedding(tokens))  # (B, T, E)
        hidden, _ = self.layers(embedded)  # (B, T, H)
        return self._to_features(hidden)  # (B, T, E or H)

    def initial_state(self, batch_size: int, maximum_length: int) -> LSTMState:
        """Return the state of B empty prefixes; its size does not depend on `maximum_length`."""
        shape = (self.options.layers, batch_size, self.options.hidden_size)
        zeros = torch.zeros(shape, device=self.device, dtype=self.embedding.weight.dtype)
        return LSTMState(zeros, zeros.clone())

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, LSTMState]:
        """Advance B prefixes by the tokens (B,): logits, float32, (B, V), and the new state."""
        assert isinstance(state, LSTMState)
        inputs = self._drop(self.embedding(tokens))  # (B, E)
        hidden, cell = [], []
        for layer, weights in enumerate(self.layers.all_weights):
            before = (state.hidden[layer], state.cell[layer])  # 2 x (B, H)
            inputs, memory = torch.lstm_cell(inputs, before, *weights)  # (B, H), (B, H)
            hidden.append(inputs)
            cell.append(memory)
        after = LSTMState(torch.stack(hidden), torch.stack(cell))  # 2 x (L, B, H)
        return self.logits(self._to_features(inputs)), after  # (B, V)

    def _to_features(self, hidden: Tensor) -> Tensor:
        hidden = self._drop(hidden)  # (..., H)
        return hidden if self.narrow is None else self.narrow(hidden)  # (..., E or H)

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.options.dropout, self.training)
