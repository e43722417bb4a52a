"""Networks in two halves: features of each position, then an output layer over all ids; dropout.

B rows, T positions, N positions of all rows, E width, D features, V ids.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.token_batches import IGNORED
from beyond_perplexity.models.contract import ConfiguredModel, LanguageModel, State
from beyond_perplexity.models.losses import chosen_log_probs, summed_cross_entropy


class OutputLayer(nn.Module, ABC):
    """A map of features to a distribution over V ids, position by position."""

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """Return logits, float32, (..., V), for features (..., D)."""

    @abstractmethod
    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, (N,), of targets (N,), for features (N, D)."""

    @abstractmethod
    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, float32; `dtype` is of the products on a CPU."""


def impossible_ids(open_vocabulary: bool) -> Tensor:
    """Return the ids without probability: ``<s>``, and ``<unk>`` of an open vocabulary."""
    return torch.tensor([0, 2] if open_vocabulary else [0])


def float_product(features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return features weightᵀ + bias in float32: (..., V), from (..., D) and (V, D).

    On a GPU the sums of products of bfloat16 stay float32. A CPU's product rounds its result to the
    type of its operands.
    """
    if weight.dtype != torch.bfloat16 or weight.device.type == "cpu":
        return functional.linear(features, weight, bias).float()
    flat = features.flatten(0, -2)  # (N, D)
    product = torch.mm(flat, weight.T, out_dtype=torch.float32)  # (N, V)
    product = product.unflatten(0, features.shape[:-1])  # (..., V)
    return product if bias is None else product + bias


class FullSoftmax(nn.Linear, OutputLayer):
    """One linear map to the logits of all ids.

    ``<unk>`` of an open vocabulary has no probability.
    """

    impossible: Tensor

    def __init__(self, width: int, vocabulary_size: int, bias: bool, open_vocabulary: bool) -> None:
        super().__init__(width, vocabulary_size, bias)
        self.register_buffer("impossible", impossible_ids(open_vocabulary), persistent=False)

    def logits(self, features: Tensor) -> Tensor:
        """Return logits, float32, (..., V), for features (..., D)."""
        logits = float_product(features, self.weight, self.bias)  # (..., V)
        return logits.index_fill_(-1, self.impossible, -torch.inf)

    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, (N,), of targets (N,), for features (N, D)."""
        return chosen_log_probs(self.logits(features), targets)

    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, for features (N, D)."""
        return summed_cross_entropy(
            features, self.weight, self.bias, targets, self.impossible, dtype
        )


class FactoredModel(LanguageModel):
    """A model whose output layer, `output`, maps D features to V ids, position by position.

    Scoring and training use the two halves apart, so that logits of (B, T, V) need not be held,
    and are made for no prefix where nothing is drawn.
    """

    output: OutputLayer

    @abstractmethod
    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T)."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance B prefixes by tokens (B,), without dropout.

        Features (B, D), and the new state.
        """

    def forward(self, tokens: Tensor) -> Tensor:
        """Score every next token of prefixes (B, T) in one pass: logits, float32, (B, T, V)."""
        return self.output.logits(self.features(tokens))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance B prefixes by the tokens (B,): logits, float32, (B, V), and the new state."""
        features, state = self.advance(tokens, state)
        return self.output.logits(features), state

    def step_some(self, tokens: Tensor, state: State, rows: Tensor) -> tuple[Tensor, State]:
        """Advance as `step`; return the logits of some rows (N,) only, (N, V), and the state."""
        features, state = self.advance(tokens, state)  # (B, D)
        return self.output.logits(features[rows]), state

    def loss(self, batch: Any, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p of all predictions of a `Batch`, nats, float32 scalar."""
        counted = batch.targets != IGNORED  # (B, T)
        features = self.features(batch.inputs)[counted]  # (N, D)
        return self.output.summed_loss(features, batch.targets[counted], self.products)

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat, in chunks; see `LanguageModel`."""
        features = self.features(inputs).flatten(0, 1)  # (B T, D)
        for start in range(0, len(features), most):
            part = slice(start, start + most)
            yield self.output.log_probs(features[part], targets.flatten()[part])

    def next_logits(self, inputs: Tensor, most: int) -> Iterator[Tensor]:
        """Yield the logits after every prefix, (n, V), in chunks; see `LanguageModel`."""
        features = self.features(inputs).flatten(0, 1)  # (B T, D)
        yield from (self.output.logits(part) for part in features.split(most))


class FactoredNetwork(ConfiguredModel, FactoredModel):
    """A factored model that is made untrained from the options of its family, `options_kind`."""

    def __init__(
        self,
        vocabulary_size: int,
        architecture: Mapping[str, Any],
        open_vocabulary: bool = False,
    ) -> None:
        super().__init__(vocabulary_size, architecture, {"open_vocabulary": open_vocabulary})

    @property
    def open_vocabulary(self) -> bool:
        """Whether the vocabulary is open."""
        return bool(self.shapes["open_vocabulary"])


def drop_words(
    embedded: Tensor, tokens: Tensor, vocabulary_size: int, probability: float, training: bool
) -> Tensor:
    """Drop whole rows of an embedding matrix (Gal & Ghahramani 2016, section 4.2): (..., E).

    A dropped id is zero at all its places in a batch; the others are scaled up.
    """
    if not training or not probability:
        return embedded
    kept = torch.rand(vocabulary_size, device=tokens.device) >= probability  # (V,)
    return embedded * (kept / (1 - probability))[tokens][..., None]  # (..., E)


def drop(values: Tensor, probability: float, training: bool, locked: bool = False) -> Tensor:
    """Drop elements of (B, T, E), or with `locked` the same ones at all positions of a row.

    The latter is the variational dropout of Gal & Ghahramani (2016); in a convolution, where it
    takes whole channels, it is known as spatial dropout.
    """
    if locked and training and probability:
        mask = functional.dropout(torch.ones_like(values[:, :1]), probability)  # (B, 1, E)
        return values * mask
    return functional.dropout(values, probability, training)


def skips_layer(probability: float, training: bool) -> bool:
    """Draw whether a batch skips a residual block (LayerDrop; Fan, Grave & Joulin 2020)."""
    return training and probability > 0 and float(torch.rand(())) < probability
