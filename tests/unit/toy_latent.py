"""A latent model and its proposal that are small enough to be enumerated.

Each word has a hidden bit: p(x, z) = prod_t p(z_t | z_{t-1}) p(x_t | z_t) (1 - s), times s for the
end; q(z_t | x_t) with a local temperature. Both have tables for parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from beyond_perplexity.corpus.latent_instances import CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.models.latent import FILLING, LatentModel, Proposal, Simulated
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import Vocabulary

STOP = 0.25


def _instances(corpus: CorpusFiles, split: str, vocabulary: Vocabulary) -> Iterator[Instance]:
    for batch in read_batches(corpus.documents, DOCUMENTS, ["doc_id", "split", "text"]):
        for row in batch.to_pylist():
            if row["split"] == split:
                tokens = vocabulary.encode([row["text"]])[0]
                yield Instance(row["doc_id"], {"tokens": tokens, "bits": tokens % 2})


@dataclass(frozen=True)
class ToyOptions:
    """There are none."""


class ToyModel(LatentModel):
    """p(x, z)."""

    family = "toy"
    options_kind = ToyOptions

    def build(self) -> None:
        self.words = nn.Parameter(torch.randn(2, self.vocabulary_size, dtype=torch.float64))
        self.bits = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> ToyModel:
        return cls(vocabulary.size, architecture)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        return _instances(corpus, split, vocabulary)

    def n_tokens(self, batch: InstanceBatch) -> Tensor:
        return batch.lengths["tokens"] + 1

    def annotated(self, batch: InstanceBatch) -> Tensor:
        places = torch.arange(batch.tokens.shape[1])  # (T,)
        outside = places >= batch.lengths["tokens"][:, None]  # (B, T)
        return batch.arrays["bits"].masked_fill(outside, FILLING)

    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        tokens = batch.tokens[owner]  # (R, T)
        inside = latents != FILLING  # (R, T)
        bits = latents.clamp(min=0)  # (R, T)
        before = torch.cat([torch.full_like(bits[:, :1], 2), bits[:, :-1]], 1)  # (R, T)
        log_bits = self.bits.log_softmax(1)[before, bits]  # (R, T)
        log_words = self.words.log_softmax(1)[bits, tokens]  # (R, T)
        terms = (log_bits + log_words + math.log(1 - STOP)).where(inside, 0)  # (R, T)
        return terms.sum(1) + math.log(STOP)

    def simulate(
        self, seed: int, purpose: str, numbers: range, maximum_words: int, vocabulary: Vocabulary
    ) -> list[Simulated]:
        found = []
        bits, words = (table.softmax(1).detach().numpy() for table in (self.bits, self.words))
        for number in numbers:
            random, z, x = stream(seed, purpose, number), [2], []
            while random.random() >= STOP:
                z.append(int(random.random() >= bits[z[-1], 0]))
                x.append(int(random.choice(words.shape[1], p=words[z[-1]])))
            truncated = len(x) > maximum_words
            x, latents = x[:maximum_words], torch.tensor(z[1:][:maximum_words])
            arrays = {"tokens": np.array(x, np.int64), "bits": latents.numpy()}
            names = [f"w{word}" for word in x]
            found.append(Simulated(names, Instance(number, arrays), latents, truncated))
        return found

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        return -self.log_joint(batch, torch.arange(len(batch)), self.annotated(batch)).sum().float()

    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        return {"mentions": []}


class ToyProposal(Proposal):
    """q(z | x)."""

    family = "toy-proposal"
    options_kind = ToyOptions

    def build(self) -> None:
        self.logits = nn.Parameter(torch.randn(self.vocabulary_size, 2, dtype=torch.float64))

    create = classmethod(ToyModel.create.__func__)  # type: ignore[attr-defined]
    instances = ToyModel.instances  # type: ignore[assignment]

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        bits = ToyModel.annotated(self, batch)  # type: ignore[arg-type]
        rows = torch.arange(len(batch))
        return -self.log_prob(batch, rows, bits, [1.0]).sum().float()

    def draws(self, batch: InstanceBatch) -> int:
        return batch.tokens.shape[1]

    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        logits = self.logits[batch.tokens[owner]] / temperature  # (R, T, 2)
        bits = (uniforms >= logits.softmax(2)[..., 0]).long()  # (R, T)
        places = torch.arange(bits.shape[1])  # (T,)
        return bits.masked_fill(places >= batch.lengths["tokens"][owner][:, None], FILLING)

    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        logits = self.logits[batch.tokens[owner]]  # (R, T, 2)
        inside, bits = latents != FILLING, latents.clamp(min=0)[..., None]  # (R, T), (R, T, 1)
        columns = [
            (logits / t).log_softmax(2).gather(2, bits)[..., 0].where(inside, 0).sum(1)
            for t in temperatures
        ]
        return torch.stack(columns, 1)  # (R, A)

    def beam(self, batch: InstanceBatch, size: int, temperature: float = 1.0) -> Tensor:
        found = []
        for row in range(len(batch)):
            length = int(batch.lengths["tokens"][row])
            every = torch.cartesian_prod(*[torch.arange(2)] * length).reshape(-1, length)
            owner = torch.full((len(every),), row)  # (2 ** T,)
            padded = torch.full((len(every), batch.tokens.shape[1]), FILLING)
            padded[:, :length] = every
            log_q = self.log_prob(batch, owner, padded, [temperature])[:, 0]
            best = padded[log_q.argsort(descending=True, stable=True)[:size]]
            missing = torch.full((size - len(best), padded.shape[1]), FILLING)
            found.append(torch.cat([best, missing]))
        return torch.stack(found)
