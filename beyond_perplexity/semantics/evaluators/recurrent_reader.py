"""A recurrent layer that reads sentences in one direction or both, without seeing their filling.

B sentences, T places, E numbers of a word, H units in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn


class RecurrentReader(nn.Module):
    """An LSTM or GRU over sentences of different lengths, `both`: also from right to left.

    Each direction reads a sentence from its own first word on, so that what fills up a row comes
    after all that is used, and no number depends on it.
    """

    def __init__(
        self, cell: Literal["lstm", "gru"], width: int, hidden_size: int, both: bool
    ) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.layer = kind(width, hidden_size, batch_first=True, bidirectional=both)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the state at each word, (B, T, H or 2 H), of words (B, T, E); lengths (B,)."""
        forth, *back = self.layer.all_weights
        parts = [self._read(inputs, forth)]
        for weights in back:
            turned = turn(inputs, lengths)  # (B, T, E)
            parts.append(turn(self._read(turned, weights), lengths))
        return torch.cat(parts, 2)  # (B, T, H or 2 H)

    def last(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the state after all words, of each direction, (B, H or 2 H)."""
        forth, *back = self.layer.all_weights
        end = (lengths - 1)[:, None, None]  # (B, 1, 1)
        states = [self._read(inputs, forth)]
        states += [self._read(turn(inputs, lengths), weights) for weights in back]
        parts = [
            state.gather(1, end.expand(-1, 1, state.shape[2]))[:, 0] for state in states
        ]  # (B, H) each
        return torch.cat(parts, 1)  # (B, H or 2 H)

    def _read(self, inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Return the outputs of one direction, (B, T, H)."""
        zeros = inputs.new_zeros(1, len(inputs), self.layer.hidden_size)  # (1, B, H)
        flags = (True, 1, 0.0, self.training, False, True)
        if isinstance(self.layer, nn.LSTM):
            outputs, *_ = torch.lstm(inputs, (zeros, zeros), tuple(weights), *flags)
        else:
            outputs, _ = torch.gru(inputs, zeros, tuple(weights), *flags)
        return outputs


def turn(rows: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row, (B, T, D), within its length; what comes after has no meaning."""
    places = torch.arange(rows.shape[1], device=rows.device)  # (T,)
    source = (lengths[:, None] - 1 - places).clamp(min=0)  # (B, T)
    return rows.gather(1, source[:, :, None].expand_as(rows))  # (B, T, D)
