"""A model that tells how often each token of a text was scored, and after what.

It is no model of language: ln p of a marked word is −1, of all others the same small number, so
that the score of a text tells how often the marked one was counted. So the program that scores can
be tried by itself, without looking inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from beyond_perplexity.models.contract import LanguageModel, State
from beyond_perplexity.vocabulary import BOS, N_SPECIAL, ClosedVocabulary


class WitnessState(State):
    """Nothing is remembered."""

    def select(self, rows: Tensor) -> WitnessState:
        """Return itself."""
        return self

    def reset(self, rows: Tensor) -> WitnessState:
        """Return itself."""
        return self


class Witness(LanguageModel):
    """Unigrams with one marked id; it keeps the rows that it was given.

    Parameters
    ----------
    vocabulary_size : int
        V.
    context_length : int or None
        What it says of itself.

    Attributes
    ----------
    marked : int
        The id whose ln p is −1; all others but ``<s>`` share the rest evenly.
    inputs : list of list of int
        The rows so far.
    """

    def __init__(self, vocabulary_size: int, context_length: int | None) -> None:
        super().__init__()
        self.vocabulary_size, self.context_length = vocabulary_size, context_length
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.marked = N_SPECIAL
        self.inputs: list[list[int]] = []

    @property
    def config(self) -> dict[str, Any]:
        """It cannot be built again."""
        return {}

    @property
    def other(self) -> float:
        """Ln p of an id that is not marked."""
        return math.log((1 - math.exp(-1)) / (self.vocabulary_size - 2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return log probabilities, float32, (B, T, V), and keep the rows (B, T)."""
        self.inputs += tokens.tolist()
        return self._row().float().expand(*tokens.shape, self.vocabulary_size)

    def _row(self) -> Tensor:
        row = torch.full((self.vocabulary_size,), self.other, dtype=torch.float64)  # (V,)
        row[self.marked], row[BOS] = -1.0, -torch.inf
        return row

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat, and keep the rows."""
        self.inputs += inputs.tolist()
        yield self._row()[targets.flatten()]

    def initial_state(self, batch_size: int, maximum_length: int) -> WitnessState:
        """Return nothing."""
        return WitnessState()

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return log probabilities, float32, (B, V)."""
        self.inputs += [[token] for token in tokens.tolist()]
        return self._row().float().expand(len(tokens), self.vocabulary_size), state


def numbered_words(count: int) -> tuple[ClosedVocabulary, list[str]]:
    """Return a vocabulary of so many words, and the words."""
    words = [f"w{number}" for number in range(count)]
    return ClosedVocabulary(words, 0), words
