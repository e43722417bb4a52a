"""The proposal for EntityNLM: the same choices of t, e and l, read off the text.

It has an LSTM and entity vectors of its own. Of the text it sees at z_t: `causal` x_0 ... x_{t−1},
as the model ("no peeking" in Logan, Gardner & Singh 2020); `peeking` x_t too, as in their
experiments; `bidirectional` all of x. The logits of each choice are divided by the temperature.

B instances, R rows, T words, D width, W entries of a row of z, A temperatures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.models.latents.entitynlm import EntityOptions
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    EntityModule,
    Steps,
)
from beyond_perplexity.models.latents.entitynlm_scores import MentionRows
from beyond_perplexity.models.latents.entitynlm_walks import (
    WORD_DRAWS,
    EntityState,
    TextStates,
    sample,
)
from beyond_perplexity.models.word_by_word import BeamedProposal, Continuations


@dataclass(frozen=True)
class EntityTaggerOptions(EntityOptions):
    """Architecture of the proposal for EntityNLM; its two maxima are to be those of the model.

    context: What z of a word is predicted from: the words up to it, those before it, or the whole
        text.
    """

    context: Literal["peeking", "causal", "bidirectional"] = "peeking"


class EntityTagger(EntityModule, BeamedProposal):
    """The proposal; see the module. Parameters and errors are those of `ConfiguredModel`."""

    word_draws = WORD_DRAWS

    family = "entity-tagger"
    options_kind = EntityTaggerOptions
    options: EntityTaggerOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        both = options.context == "bidirectional"
        size = options.size
        self.text = TextStates(self.vocabulary_size, size, options.layers, options.dropout, both)
        self.entities = self.make_entities()

    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw one row of codes a row, int64, (R, T); word i uses the numbers 3 i to 3 i + 2."""
        with torch.no_grad():
            state = self.start(batch, owner)
        return sample(state, batch.lengths[TOKENS][owner], uniforms, temperature)

    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q_τ(z | x) for each τ, nats, float64, (R, A); −inf for an impossible z."""
        codes = self.read(batch, owner, latents)
        rows = MentionRows(self.entities, self.encode(batch), owner, codes)
        return rows.score(temperatures).log_prob.masked_fill(~codes.possible[:, None], -math.inf)

    @torch.no_grad()
    def continuations(
        self, state: EntityState, time: int, size: int, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses; see `BeamedProposal.continuations`."""
        at = state.at(time)
        logits = self.entities.entity_logits(at, state.memory, time, time) / temperature
        begin = at.begin.double()[:, None] / temperature  # (K, 1)
        parts = functional.logsigmoid(-begin), logits.log_softmax(1), functional.logsigmoid(begin)
        return state.list_codes(at, *parts, temperature)

    def start(self, batch: InstanceBatch, owner: Tensor) -> EntityState:
        """Return the state of particles; see `SequentialProposal`."""
        return EntityState.of(self.entities, self.encode(batch), owner)

    def propose(
        self, state: EntityState, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, EntityState]:
        """Draw the codes of a word; see `SequentialProposal`."""
        codes = state.draw(state.at(time), time, uniforms, temperature, time)  # (K,)
        return codes, *state.advance(time, codes, temperature)

    def encode_documents(self, tokens: Tensor, lengths: Tensor) -> Steps:
        """Read documents; see `EntityModule.encode_documents`."""
        states = self.text(tokens, lengths)  # (B, T + 2, D)
        after = states[:, 1:-1]  # (B, T, D)
        seen = states[:, :-2] if self.options.context == "causal" else after  # (B, T, D)
        return self.entities.steps(seen, after)
