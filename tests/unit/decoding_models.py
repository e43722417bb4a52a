"""A tiny language model whose distribution over documents can be enumerated exactly."""

from __future__ import annotations

import torch

from beyond_perplexity.models.contract import LanguageModel, State

BOS, EOS = 0, 1


class LastToken(State):
    """Nothing to remember but how many steps were made: the table reads the newest token."""

    def __init__(self, steps):
        self.steps = steps

    def select(self, rows):
        return LastToken(self.steps[rows])

    def reset(self, rows):
        return LastToken(self.steps.index_fill(0, rows, 0))


class TableModel(LanguageModel):
    """Log probabilities (positions, V, V): of the next token given the position and the newest one.

    Past the last position the last one holds.
    """

    def __init__(self, table):
        super().__init__()
        self.table = torch.nn.Parameter(table.float(), requires_grad=False)
        self.vocabulary_size = table.shape[-1]

    @classmethod
    def random(cls, size=5, positions=3, seed=0):
        """Draw a table; at its last position EOS is certain, so that documents are few."""
        generator = torch.Generator().manual_seed(seed)
        logits = 1.5 * torch.randn(positions, size, size, generator=generator)
        logits[:, :, BOS] = -torch.inf
        logits[-1] = -torch.inf
        logits[-1, :, EOS] = 0
        return cls(logits.log_softmax(-1))

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1]).clamp(max=len(self.table) - 1)
        return self.table[places[None], tokens]

    def initial_state(self, batch_size, maximum_length):
        return LastToken(torch.zeros(batch_size, dtype=torch.int64))

    def step(self, tokens, state):
        assert isinstance(state, LastToken)
        logits = self.table[state.steps.clamp(max=len(self.table) - 1), tokens]
        return logits, LastToken(state.steps + 1)

    @property
    def config(self):
        return {"family": "table"}
