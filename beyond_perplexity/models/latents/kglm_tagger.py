"""Proposals for KGLM: the same distribution of latents, over an encoder that reads the words.

B instances, R rows, T tokens, C tokens of recency, N entities, A temperatures, K hypotheses of a
beam or particles, Q and X flat lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.models.latents import kglm_steps
from beyond_perplexity.models.latents.kglm_instances import (
    NEW,
    NONE,
    ONGOING,
    RELATED,
    KnowledgeGraph,
)
from beyond_perplexity.models.latents.kglm_latents import LatentHeads, Streams, read_latents
from beyond_perplexity.models.latents.kglm_words import GraphModule
from beyond_perplexity.models.recurrent_layers import AWDLSTM, AWDOptions, embed_words
from beyond_perplexity.models.word_by_word import BeamedProposal, Continuations
from beyond_perplexity.vocabulary import BOS


@dataclass(frozen=True)
class TaggerOptions(AWDOptions):
    """Architecture of a proposal for KGLM.

    context: What a token's latent depends on: the words before it; these and the word itself; all
        words of the document.
    """

    context: Literal["causal", "peeking", "bidirectional"] = "peeking"


class KGLMTagger(GraphModule, BeamedProposal):
    """A proposal q(z | x) for KGLM. Parameters and errors are those of `GraphModule`."""

    word_draws = kglm_steps.TOKEN_DRAWS

    family = "kglm-tagger"
    options_kind = TaggerOptions
    options: TaggerOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        self.embedding = nn.Embedding(self.vocabulary_size, options.embedding_size)
        self.heads = LatentHeads(options.embedding_size, KnowledgeGraph(self.shapes["graph"]))
        width = self.heads.width
        self.encoder = AWDLSTM(options, width)
        both = options.context == "bidirectional"
        self.backward_encoder = AWDLSTM(options, width) if both else None
        self.join = nn.Linear(2 * width, width) if both else None
        nn.init.normal_(self.embedding.weight, std=options.embedding_size**-0.5)

    def encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read the words, T positions; see `GraphModule.encode`."""
        if self.options.context == "causal":
            tokens = functional.pad(tokens[:, :-1], (1, 0), value=BOS)  # (B, T)
        embedded = embed_words(self.embedding, tokens, self.options)  # (B, T, E)
        hidden, penalty = self.encoder(embedded)  # (B, T, D + 2 d)
        if self.backward_encoder is not None and self.join is not None:
            position = torch.arange(tokens.shape[1], device=tokens.device)  # (T,)
            turned = (lengths[:, None] - 1 - position).clamp_min(0)[..., None]  # (B, T, 1)
            backward, more = self.backward_encoder(embedded.take_along_dim(turned, 1))
            joined = torch.cat([hidden, backward.take_along_dim(turned, 1)], 2)
            hidden, penalty = self.join(joined), penalty + more  # (B, T, D + 2 d)
        return hidden, penalty

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log q(z | x) of the annotated z, nats; in training also the penalties."""
        streams, penalty = self.learnable(batch)
        reading = read_latents(self.annotated(batch), streams.lengths, batch.tokens.shape[1])
        owner = torch.arange(len(batch), device=self.device)  # (B,)
        scores = self.heads.log_prob(streams, owner, reading, [1.0])  # (B, 1)
        return -scores.sum().float() + penalty * batch.predictions

    def _prepared(self, batch: InstanceBatch) -> Streams:
        with torch.no_grad():
            return batch.keep(self, lambda: self.read(batch))

    @torch.no_grad()
    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q_τ(z | x) for each τ, nats, float64, (R, A)."""
        streams = self._prepared(batch)
        reading = read_latents(latents, streams.lengths[owner], batch.tokens.shape[1])
        return self.heads.log_prob(streams, owner, reading, temperatures)

    def learnable_log_prob(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log q(z | x) with a gradient; see `Proposal.learnable_log_prob`."""
        streams, _ = self.learnable(batch)
        reading = read_latents(latents, streams.lengths[owner], batch.tokens.shape[1])
        return self.heads.log_prob(streams, owner, reading, [1.0])[:, 0]

    @torch.no_grad()
    def start(self, batch: InstanceBatch, owner: Tensor) -> kglm_steps.LatentState:
        """Return the state of particles; see `SequentialProposal`."""
        return kglm_steps.LatentState.of(self.heads, self._prepared(batch), owner)

    @torch.no_grad()
    def propose(
        self, state: kglm_steps.LatentState, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, kglm_steps.LatentState]:
        """Draw the codes of a word; see `SequentialProposal`."""
        codes = state.draw(time, uniforms, temperature)  # (K,)
        return codes, *state.advance(time, codes, temperature)

    def draw_word(
        self, state: kglm_steps.LatentState, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, kglm_steps.LatentState]:
        """Draw the codes of a word alone; see `BeamedProposal.draw_word`."""
        codes = state.draw(time, uniforms, temperature)  # (K,)
        return codes, state.follow(codes, time)

    def continuations(
        self, state: kglm_steps.LatentState, time: int, size: int, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses of one document; of new entities the `size` best."""
        streams, memory, number = state.streams, state.memory, int(state.owner[0])
        flat = number * streams.positions + time
        kinds = state.kind_log_probs(time, temperature)  # (K, 4)
        every = torch.arange(len(kinds), device=kinds.device)  # (K,)
        logits = self.heads.entity_logits_at(streams, flat)[0].double()  # (N,)
        new, entities = (logits / temperature).log_softmax(0).topk(min(size, len(logits)))
        flats = torch.full_like(memory.current, flat)  # (K,)
        owner, objects, related = kglm_steps.linked_entities(
            self.heads, streams, flats, memory.recent, temperature
        )
        inside = (memory.current >= 0).nonzero()[:, 0]  # (K',)
        begun = every.repeat_interleave(len(entities)), (NEW + 2 * entities).repeat(len(every))
        parts = (
            (every, torch.full_like(every, NONE), kinds[:, NONE]),
            (inside, torch.full_like(inside, ONGOING), kinds[inside, ONGOING]),
            (*begun, (kinds[:, NEW, None] + new).flatten()),
            (owner, RELATED + 2 * objects, kinds[owner, RELATED] + related),
        )
        return Continuations(*(torch.cat(column) for column in zip(*parts, strict=True)))
