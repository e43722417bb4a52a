"""Each word has a hidden bit, and a proposal that guesses it from the word alone.

p(x, z) = s Π_t (1 - s) p(z_t) p(x_t | z_t). B instances, R rows, T words, V ids, A temperatures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from beyond_perplexity.corpus.latent_instances import CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.models.latent import PADDING, LatentModel, LatentModule, Proposal
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import Vocabulary

STOP = 0.1  # s


@dataclass(frozen=True)
class BitOptions:
    """There are none."""


class _Bits(LatentModule):
    """What both read; words of an even id are annotated with 0."""

    options_kind = BitOptions

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module."""
        return cls(vocabulary.size, architecture)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read the documents of a split."""
        for batch in read_batches(corpus.documents, DOCUMENTS, ["doc_id", "split", "text"]):
            for row in batch.to_pylist():
                if row["split"] == split:
                    tokens = vocabulary.encode([row["text"]])[0]
                    yield Instance(row["doc_id"], {"tokens": tokens, "bits": tokens % 2})

    def annotated(self, batch: InstanceBatch) -> Tensor:
        """Return the bits, (B, T)."""
        return batch.arrays["bits"].masked_fill(~inside(batch), PADDING)


def inside(batch: InstanceBatch) -> Tensor:
    """Return the places that are no padding, bool, (B, T)."""
    places = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)  # (T,)
    return places < batch.lengths["tokens"][:, None]


class HiddenBits(_Bits, LatentModel):
    """p(x, z)."""

    family = "hidden-bits"

    def build(self) -> None:
        """Make the logits of the bits and of the words after each."""
        self.of_bits = nn.Parameter(torch.zeros(2))
        self.of_words = nn.Parameter(torch.randn(2, self.vocabulary_size))

    def n_tokens(self, batch: InstanceBatch) -> Tensor:
        """Return T + 1."""
        return batch.lengths["tokens"] + 1

    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), float64, (R,)."""
        bits = latents.clamp(min=0)  # (R, T)
        log_bits = self.of_bits.double().log_softmax(0)[bits]  # (R, T)
        log_words = self.of_words.double().log_softmax(1)[bits, batch.tokens[owner]]  # (R, T)
        terms = (log_bits + log_words + math.log(1 - STOP)).where(latents != PADDING, 0)  # (R, T)
        return terms.sum(1) + math.log(STOP)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p(x, z) of the annotation."""
        owner = torch.arange(len(batch), device=self.device)
        return -self.log_joint(batch, owner, self.annotated(batch)).sum().float()

    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Show each word whose bit is 1 as a mention."""
        places = (latent == 1).nonzero()[:, 0].tolist()
        return {"mentions": [{"start": t, "end": t + 1, "entity": 0} for t in places]}


class BitTagger(_Bits, Proposal):
    """q(z | x) = Π_t q(z_t | x_t)."""

    family = "bit-tagger"

    def build(self) -> None:
        """Make the logits of the bit of each word."""
        self.of_bits = nn.Parameter(torch.randn(self.vocabulary_size, 2))

    def _log_q(self, tokens: Tensor, temperature: float) -> Tensor:
        """Return log q of both bits, float64, (..., 2)."""
        return (self.of_bits[tokens].double() / temperature).log_softmax(-1)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log q of the annotation."""
        owner = torch.arange(len(batch), device=self.device)
        return -self.log_prob(batch, owner, self.annotated(batch), [1.0]).sum().float()

    def draws(self, batch: InstanceBatch) -> int:
        """Return T."""
        return batch.tokens.shape[1]

    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw each bit with its own number, (R, T)."""
        zero = self._log_q(batch.tokens[owner], temperature)[..., 0].exp()  # (R, T)
        bits = (uniforms[:, : zero.shape[1]] >= zero).long()  # (R, T)
        return bits.masked_fill(~inside(batch)[owner], PADDING)

    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q, (R, A)."""
        bits = latents.clamp(min=0)[..., None]  # (R, T, 1)
        columns = [
            self._log_q(batch.tokens[owner], temperature)
            .gather(2, bits)[..., 0]
            .where(latents != PADDING, 0)
            .sum(1)
            for temperature in temperatures
        ]
        return torch.stack(columns, 1)  # (R, A)

    def beam(self, batch: InstanceBatch, size: int, temperature: float = 1.0) -> Tensor:
        """Keep the best beginnings word by word: exact, as the bits are independent."""
        length = batch.tokens.shape[1]
        found = torch.full((len(batch), size, length), PADDING, device=self.device)
        for row, tokens in enumerate(batch.tokens):
            scores, beams = torch.zeros(1), torch.zeros(1, 0, dtype=torch.int64)  # (K,), (K, t)
            for log_q in self._log_q(tokens[: batch.lengths["tokens"][row]], temperature):
                both = (scores[:, None] + log_q).flatten()  # (2 K,)
                order = both.argsort(descending=True, stable=True)[:size]
                scores, beams = both[order], torch.cat([beams[order // 2], order[:, None] % 2], 1)
            found[row, : len(beams), : beams.shape[1]] = beams
        return found
