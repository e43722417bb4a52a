"""The GRU language model: everything but the cell is in `models.recurrent`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from beyond_perplexity.models.recurrent import RecurrentModel


class GRU(RecurrentModel):
    """A stack of GRU layers (Cho et al. 2014), with the reset gate after the matrix as in cuDNN.

    A state consists of the hidden vectors. The options are `RecurrentOptions`.
    """

    family = "gru"
    kind = nn.GRU
    memories = 1

    @staticmethod
    def _cell(
        inputs: Tensor, before: tuple[Tensor, ...], weights: list[nn.Parameter]
    ) -> tuple[Tensor, ...]:
        (hidden,) = before  # (B, H)
        return (torch.gru_cell(inputs, hidden, *weights),)

    @staticmethod
    def _fused(inputs: Tensor, before: tuple[Tensor, ...], weights: list[nn.Parameter]) -> Tensor:
        (hidden,) = before  # (1, B, H)
        outputs, _ = torch.gru(inputs, hidden, tuple(weights), True, 1, 0.0, True, False, True)
        return outputs
