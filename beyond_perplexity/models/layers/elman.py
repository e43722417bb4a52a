"""A recurrent layer of sigmoid units (Elman 1990), as word and sentence level RNNs share it.

B rows, T positions, E inputs, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class SigmoidLayer(nn.Module):
    """x(t) = σ(U [w(t); x(t−1)]) with x(0) = 0, without biases.

    Parameters
    ----------
    inputs : int
        E.
    units : int
        H.

    References
    ----------
    Mikolov et al. (2010). Recurrent neural network based language model.
    """

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
        weights = (self.of_input / 2, self.of_state / 4, bias, torch.zeros_like(bias))
        start = stream.new_full((1, len(stream), len(bias)), -1.0)  # (1, B, H)
        hidden, _ = torch.rnn_tanh(stream, start, weights, True, 1, 0.0, self.training, False, True)
        return (hidden + 1) / 2

    def step(self, inputs: Tensor, before: Tensor) -> Tensor:
        """Return the units, (B, H), after inputs (B, E) and units (B, H)."""
        driven = functional.linear(inputs, self.of_input)  # (B, H)
        return torch.sigmoid(driven + functional.linear(before, self.of_state))  # (B, H)
