"""InferSent's architecture: a recurrent encoder of word vectors with pooling, and a classifier.

B sentences, T words of the longest, E numbers of a word vector, H units in each direction, D = 2 H
of a sentence; N pairs, C classes or scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators.options import InferSentOptions
from beyond_perplexity.semantics.evaluators.recurrent_reader import RecurrentReader


@dataclass(frozen=True)
class PairBatch:
    """Sentences, and which of them are pairs."""

    vectors: Tensor  # float32, (B, T, E): vectors of the words; behind the end anything finite
    lengths: Tensor  # int64, (B,), at least 1
    first: Tensor  # int64, (N,): places among the sentences
    second: Tensor
    labels: Tensor  # (N,): int64 classes, or float32 from 0 to 1

    @property
    def predictions(self) -> int:
        """The pairs: what a loss is divided by."""
        return len(self.labels)

    def to(self, device: torch.device) -> PairBatch:
        """Return the batch on a device."""
        parts = (self.vectors, self.lengths, self.first, self.second, self.labels)
        return PairBatch(*(part.to(device) for part in parts))


class InferSentNetwork(TrainedModel):
    """Equations 6 to 8 of the paper; without the classifier's middle layer of the original.

    Of one class the labels are scores from 0 to 1. Source: Conneau et al. (2017). Supervised
    learning of universal sentence representations from natural language inference data.
    """

    normalized = False

    def __init__(self, width: int, classes: int, architecture: Mapping[str, Any]) -> None:
        super().__init__()
        options = parse_options(InferSentOptions, architecture, "architecture")
        self.options, self.width, self.classes = options, width, classes
        size = 2 * options.hidden_size
        self.reader = RecurrentReader(options.cell, width, options.hidden_size, both=True)
        self.attention: nn.Sequential | None = None
        if options.pooling == "attention":
            self.attention = nn.Sequential(
                nn.Linear(size, options.attention_size),
                nn.Tanh(),
                nn.Linear(options.attention_size, 1, bias=False),
            )
        self.head = nn.Linear(4 * size, classes)

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same network, with ``family``."""
        return {
            "family": "infersent",
            "width": self.width,
            "classes": self.classes,
            "architecture": asdict(self.options),
        }

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of sentences, (B, D), of word vectors (B, T, E); lengths (B,)."""
        states = self.reader(self._drop(vectors), lengths)  # (B, T, D)
        places = torch.arange(states.shape[1], device=states.device)  # (T,)
        beyond = (places >= lengths[:, None])[:, :, None]  # (B, T, 1)
        if self.options.pooling == "max":
            return states.masked_fill(beyond, -torch.inf).amax(1)  # (B, D)
        if self.attention is None:
            shares = (~beyond).float() / lengths[:, None, None]  # (B, T, 1)
        else:
            shares = self.attention(states).masked_fill(beyond, -torch.inf).softmax(1)  # (B, T, 1)
        # Words are added up one after the other: zeros at the end change no rounding.
        return (states * shares).cumsum(1)[:, -1]  # (B, D)

    def logits(self, first: Tensor, second: Tensor) -> Tensor:
        """Return what equation 6 is before φ, (N, C), for vectors of sentences, two (N, D)."""
        parts = [first, second, (first - second).abs(), first * second]
        logits: Tensor = self.head(self._drop(torch.cat(parts, 1)))
        return logits

    def loss(self, batch: PairBatch, epoch: float = math.inf) -> Tensor:
        """Return the cross entropy summed over pairs, nats, float32 scalar.

        Of scores it is that of a coin with the score as its bias.
        """
        vectors = self.encode(batch.vectors, batch.lengths)  # (B, D)
        logits = self.logits(vectors[batch.first], vectors[batch.second])  # (N, C)
        if self.classes > 1:
            return functional.cross_entropy(logits, batch.labels, reduction="sum")
        return functional.binary_cross_entropy_with_logits(
            logits[:, 0], batch.labels, reduction="sum"
        )

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.options.dropout, self.training)
