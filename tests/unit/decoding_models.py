"""A tiny language model whose distribution over documents can be enumerated exactly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from beyond_perplexity.models.contract import LanguageModel, State

BOS, EOS = 0, 1


class LastToken(State):
    """Nothing to remember but how many steps were made: the table reads the newest token."""

    def __init__(self, steps: Tensor) -> None:
        self.steps = steps

    def select(self, rows: Tensor) -> LastToken:
        return LastToken(self.steps[rows])

    def reset(self, rows: Tensor) -> LastToken:
        return LastToken(self.steps.index_fill(0, rows, 0))


class TableModel(LanguageModel):
    """Log probabilities (positions, V, V): of the next token given the position and the newest one.

    Past the last position the last one holds.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(table.float(), requires_grad=False)
        self.vocabulary_size = table.shape[-1]

    @classmethod
    def random(cls, size: int = 5, positions: int = 3, seed: int = 0) -> TableModel:
        """Draw a table; at its last position EOS is certain, so that documents are few."""
        generator = torch.Generator().manual_seed(seed)
        logits = 1.5 * torch.randn(positions, size, size, generator=generator)
        logits[:, :, BOS] = -torch.inf
        logits[-1] = -torch.inf
        logits[-1, :, EOS] = 0
        return cls(logits.log_softmax(-1))

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1]).clamp(max=len(self.table) - 1)
        return self.table[places[None], tokens]

    def initial_state(self, batch_size: int, maximum_length: int) -> LastToken:
        return LastToken(torch.zeros(batch_size, dtype=torch.int64))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        assert isinstance(state, LastToken)
        logits = self.table[state.steps.clamp(max=len(self.table) - 1), tokens]
        return logits, LastToken(state.steps + 1)

    @property
    def config(self) -> dict[str, Any]:
        return {"family": "table"}
