"""The LSTM language model: everything but the cell is in `models.recurrent`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from beyond_perplexity.models.recurrent import RecurrentModel


class LSTM(RecurrentModel):
    """A stack of LSTM layers (Hochreiter & Schmidhuber 1997, with forget gates).

    A state consists of the hidden and the cell vectors. The options are `RecurrentOptions`.
    """

    family = "lstm"
    kind = nn.LSTM
    memories = 2

    @staticmethod
    def _cell(
        inputs: Tensor, before: tuple[Tensor, ...], weights: list[nn.Parameter]
    ) -> tuple[Tensor, ...]:
        return torch.lstm_cell(inputs, before, *weights)

    @staticmethod
    def _fused(inputs: Tensor, before: tuple[Tensor, ...], weights: list[nn.Parameter]) -> Tensor:
        outputs, *_ = torch.lstm(inputs, before, tuple(weights), True, 1, 0.0, True, False, True)
        return outputs
