"""What networks with a full softmax share: features of each position, then one output layer."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from beyond_perplexity.models.contract import LanguageModel


class FactoredModel(LanguageModel):
    """A model whose logits are a linear map of features, position by position.

    Scoring and training use the two halves apart, so that logits of (B, T, V) need not be held.

    Attributes
    ----------
    output : nn.Linear
        The output layer, D to V.
    impossible : Tensor
        int64: ids that have no probability: ``<s>``, and ``<unk>`` of an open vocabulary.
    """

    output: nn.Linear
    impossible: Tensor

    def _forbid(self, open_vocabulary: bool) -> None:
        ids = torch.tensor([0, 2] if open_vocabulary else [0])
        self.register_buffer("impossible", ids, persistent=False)

    @abstractmethod
    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T)."""

    def logits(self, features: Tensor) -> Tensor:
        """Return logits, float32, (..., V), for the output layer's input (..., D)."""
        logits: Tensor = self.output(features).float()  # (..., V)
        return logits.index_fill_(-1, self.impossible, -torch.inf)

    def forward(self, tokens: Tensor) -> Tensor:
        """Score every next token of prefixes (B, T) in one pass: logits, float32, (B, T, V)."""
        return self.logits(self.features(tokens))
