"""SkipThought: a GRU encoder, and decoders of the sentences before and after.

B sentences, T words of the longest, V ids, E numbers of a word, H of a sentence, K units of a
decoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.losses import summed_cross_entropy
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators.options import SkipThoughtOptions
from beyond_perplexity.semantics.evaluators.recurrent_reader import RecurrentReader
from beyond_perplexity.vocabulary import BOS, EOS


@dataclass(frozen=True)
class NeighbourBatch:
    """Sentences with those before and after them, each of lengths of its own."""

    tokens: Tensor  # int64, (B, T) each, of lengths of their own; behind the end any valid id
    lengths: Tensor  # int64, (B,), at least 1; of neighbours 0 where there is none
    before: Tensor
    before_lengths: Tensor
    after: Tensor
    after_lengths: Tensor

    @property
    def predictions(self) -> int:
        """The words of the neighbours and their ends: what a loss is divided by."""
        held = (self.before_lengths, self.after_lengths)
        return int(sum((part + (part > 0)).sum() for part in held))

    def to(self, device: torch.device) -> NeighbourBatch:
        """Return the batch on a device."""
        return NeighbourBatch(*(part.to(device) for part in vars(self).values()))


class SkipThoughtNetwork(TrainedModel):
    """The uni-skip or bi-skip model with its decoders.

    A decoder is a GRU whose gates are biased by the sentence's vector: the vector stands beside
    each input, which is the same. Source: Kiros et al. (2015). Skip-thought vectors, section 2.
    """

    def __init__(self, vocabulary_size: int, architecture: Mapping[str, Any]) -> None:
        super().__init__()
        options = parse_options(SkipThoughtOptions, architecture, "architecture")
        self.options, self.vocabulary_size = options, vocabulary_size
        both = options.directions == "bi"
        size = options.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, options.embedding_size)
        self.reader = RecurrentReader("gru", options.embedding_size, size // (1 + both), both)
        inputs = options.embedding_size + size
        self.before = nn.GRU(inputs, options.decoder_size, batch_first=True)
        self.after = nn.GRU(inputs, options.decoder_size, batch_first=True)
        self.output = nn.Linear(options.decoder_size, vocabulary_size)
        nn.init.normal_(self.embedding.weight, std=options.embedding_size**-0.5)
        nn.init.zeros_(self.output.bias)
        self.impossible: Tensor  # <s> is never predicted
        self.register_buffer("impossible", torch.tensor([BOS]), persistent=False)

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same network, with ``family``."""
        return {
            "family": "skipthought",
            "vocabulary_size": self.vocabulary_size,
            "architecture": asdict(self.options),
        }

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of sentences, (B, H), of word vectors (B, T, E); lengths (B,)."""
        return self.reader.last(vectors, lengths)

    def loss(self, batch: NeighbourBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p of both neighbours given the sentence, nats, float32 scalar."""
        vectors = self.encode(self.embedding(batch.tokens), batch.lengths)  # (B, H)
        features, targets = [], []
        for decoder, tokens, lengths in (
            (self.before, batch.before, batch.before_lengths),
            (self.after, batch.after, batch.after_lengths),
        ):
            rows = lengths.nonzero()[:, 0]  # (B',): those with such a neighbour
            if len(rows):
                found, goal = self._decode(decoder, vectors[rows], tokens[rows], lengths[rows])
                features.append(found)
                targets.append(goal)
        if not features:
            return vectors.sum() * 0
        return summed_cross_entropy(
            torch.cat(features),
            self.output.weight,
            self.output.bias,
            torch.cat(targets),
            self.impossible,
            self.products,
        )

    def _decode(
        self, decoder: nn.GRU, vectors: Tensor, tokens: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the features, (N, K), of the words and ends of sentences, and those, (N,)."""
        tokens = tokens[:, : int(lengths.max())]  # (B', T')
        start = tokens.new_full((len(tokens), 1), BOS)  # (B', 1)
        inputs = self.embedding(torch.cat([start, tokens], 1))  # (B', T' + 1, E)
        beside = vectors[:, None].expand(-1, inputs.shape[1], -1)  # (B', T' + 1, H)
        states, _ = decoder(torch.cat([inputs, beside], 2))  # (B', T' + 1, K)
        places = torch.arange(inputs.shape[1], device=tokens.device)  # (T' + 1,)
        goal = torch.cat([tokens, tokens.new_full((len(tokens), 1), EOS)], 1)  # (B', T' + 1)
        goal = torch.where(places == lengths[:, None], EOS, goal)  # (B', T' + 1)
        within = places <= lengths[:, None]  # (B', T' + 1)
        return states[within], goal[within]
