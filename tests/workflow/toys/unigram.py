"""Unigrams: p(w) does not depend on what came before. V ids."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beyond_perplexity.models.contract import State
from beyond_perplexity.models.factored import FactoredNetwork, FullSoftmax


class Forgetful(State):
    """Nothing is remembered."""

    def select(self, rows: Tensor) -> Forgetful:
        """Return the same."""
        return self

    def reset(self, rows: Tensor) -> Forgetful:
        """Return the same."""
        return self


@dataclass(frozen=True)
class UnigramOptions:
    """There are none."""


class Unigram(FactoredNetwork):
    """A softmax over V logits that are its parameters."""

    family = "unigram"
    options_kind = UnigramOptions

    def build(self) -> None:
        """Make the logits: the weights of a single feature, which is always 1."""
        self.output = FullSoftmax(1, self.vocabulary_size, False, self.open_vocabulary)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the feature, (B, T, 1)."""
        return torch.ones(*tokens.shape, 1, device=self.device)

    def initial_state(self, batch_size: int, maximum_length: int) -> State:
        """Return nothing."""
        return Forgetful()

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the feature, (B, 1)."""
        return self.features(tokens), state
