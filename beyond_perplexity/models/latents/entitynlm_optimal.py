"""The optimal proposal for EntityNLM: z of a word in proportion to what it makes of the word.

h_t does not depend on z, and l has no say in the word that a mention starts with. So for no
mention, and for the start of one of a new entity or of each so far, p(t, e | past) p(x_t | t, e,
past) is formed exactly, one is drawn in proportion, then l from p(l | e). A particle's weight grows
by the sum of all. The temperature is local. Each distinct vector of an entity is scored once.

K particles, S = 2 + E choices of a word (none, new, each entity), E entities at most, M words of a
mention at most, D width, G distinct vectors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.models.latents.entitynlm import EntityNLM, MentionParticles
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    Steps,
    join_mention_codes,
    split_mention_codes,
)
from beyond_perplexity.models.latents.entitynlm_walks import draw_category
from beyond_perplexity.models.word_by_word import Continuations, OptimalProposal
from beyond_perplexity.models.word_softmax import to_rows

_FACTOR, _SPREAD = 0x100000001B3, 0x1E3779B97F4A7C15  # to mix the bits of names
_NEW = 0x5851F42D4C957F2D  # the name of the vector of any new entity


class NamedParticles(NamedTuple):
    """What particles have done so far."""

    particles: MentionParticles
    # int64, (K, 1 + E): names of the vectors of the context and of the entities; equal names are
    # equal vectors
    names: Tensor
    # What `OptimalEntities.weigh_choices` has found for the next word, by its position
    weighed: dict[int, Tensor]

    def select(self, rows: Tensor) -> NamedParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        weighed = {time: found[rows] for time, found in self.weighed.items()}
        return NamedParticles(self.particles.select(rows), self.names[rows], weighed)


class OptimalEntities(OptimalProposal):
    """The proposal; see the module and `OptimalProposal`."""

    word_draws = 2  # for t and e, and for l

    model: EntityNLM

    def start(self, batch: InstanceBatch, owner: Tensor) -> NamedParticles:
        """Return the state of rows; see `OptimalProposal.start`."""
        particles = self.model.start(batch, owner)
        caps = self.model.entities.maximum_entities
        names = torch.full((len(owner), 1 + caps), _NEW, device=owner.device)  # (K, 1 + E)
        names[:, 0] = 0
        return NamedParticles(particles, names, {})

    def propose(
        self, state: NamedParticles, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, NamedParticles]:
        """Draw the codes of a word; see `OptimalProposal.propose`."""
        heads, choices = self.model.entities, state.particles.choices
        scaled = self.weigh_choices(state, time) / temperature  # (K, S)
        slot = draw_category(scaled, uniforms[:, 0])  # (K,)
        entity = torch.where(slot == 1, choices.memory.known, (slot - 2).clamp(min=0))  # (K,)
        vectors = heads.vectors(choices.memory, entity)  # (K, D)
        extents = heads.length_logits(choices.at(time), vectors)  # (K, M)
        remaining = draw_category(extents / temperature, uniforms[:, 1])  # (K,)
        started = join_mention_codes(slot > 0, entity, remaining)  # (K,)
        code = torch.where(choices.running, choices.last - 1, started)  # (K,)
        return code, *self.follow(state, time, code, temperature)

    def follow(
        self, state: NamedParticles, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, NamedParticles]:
        """Take codes for a word; see `OptimalProposal.follow`."""
        heads, choices = self.model.entities, state.particles.choices
        at = choices.at(time)
        log_joint = self.weigh_choices(state, time)  # (K, S)
        mention, entity, remaining = split_mention_codes(choice)  # (K,)
        known, running = choices.memory.known, choices.running  # (K,)
        allowed = (entity <= known) & (entity < heads.maximum_entities)
        allowed = ~mention | allowed & (remaining < heads.maximum_length)  # (K,)
        possible = torch.where(running, choice == choices.last - 1, allowed)  # (K,)
        code = torch.where(possible, choice, torch.where(running, choices.last - 1, 0))  # (K,)
        mention, entity, remaining = split_mention_codes(code)  # (K,)
        slot = torch.where(mention, torch.where(entity == known, 1, 2 + entity), 0)  # (K,)
        slot = slot.masked_fill(running, 0)
        extents = heads.length_logits(at, heads.vectors(choices.memory, entity))  # (K, M)
        log_q = _chosen(log_joint / temperature, slot)  # (K,)
        lengths = _chosen(extents / temperature, remaining)  # (K,)
        log_q = (log_q + lengths.masked_fill(~mention, 0.0)).masked_fill(running, 0.0)  # (K,)
        after = self._read(state, at, time, code)
        return log_q.masked_fill(~possible, -math.inf), after

    def continuations(
        self, state: NamedParticles, time: int, size: int, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses; see `OptimalProposal.continuations`."""
        choices = state.particles.choices
        at = choices.at(time)
        slots = (self.weigh_choices(state, time) / temperature).log_softmax(1)  # (K, S)
        return choices.list_codes(at, slots[:, :1], slots[:, 1:], 0.0, temperature)

    def log_twist(self, state: NamedParticles, time: int) -> Tensor:
        """Return log p(x_t | past), float64, (K,); see `Twisting`."""
        return self.weigh_choices(state, time).logsumexp(1)

    def weigh_choices(self, state: NamedParticles, time: int) -> Tensor:
        """Return log p(t, e, x_t | past) of each choice, float64, (K, S); within a mention none."""
        if time not in state.weighed:
            state.weighed[time] = self._weigh(state, time)
        return state.weighed[time]

    def _weigh(self, state: NamedParticles, time: int) -> Tensor:
        particles, heads = state.particles, self.model.entities
        choices = particles.choices
        at = choices.at(time)
        running = choices.running  # (K,)
        begin = at.begin.double()[:, None]  # (K, 1)
        entities = heads.entity_logits(at, choices.memory, time, time).log_softmax(1)
        starts = (functional.logsigmoid(begin) + entities).masked_fill(running[:, None], -math.inf)
        none = functional.logsigmoid(-begin).masked_fill(running[:, None], 0.0)  # (K, 1)
        log_prior = torch.cat([none, starts], 1)  # (K, S)
        row, slot = (log_prior > -math.inf).nonzero(as_tuple=True)  # (N,)
        words = self._words(state, time, row, slot)  # (N,)
        return log_prior.index_put((row, slot), log_prior[row, slot] + words)  # (K, S)

    def _words(self, state: NamedParticles, time: int, row: Tensor, slot: Tensor) -> Tensor:
        """Return log p(x_t) under choices (N,) of particles, each distinct vector scored once."""
        particles, heads = state.particles, self.model.entities
        choices, owner = particles.choices, particles.choices.owner
        _, held, _ = split_mention_codes(choices.last)  # (K,)
        inside = choices.running[row] & (slot == 0)  # (N,)
        entity = torch.where(inside, held[row], slot - 2)  # (N,): −2 the context, −1 a new one
        column = torch.where(entity == -2, 0, entity + 1)  # (N,)
        name = state.names[row, column].masked_fill(entity == -1, _NEW)  # (N,)
        starts = slot > 0  # (N,)
        key = ((name ^ (owner[row] * _SPREAD)) * _FACTOR) * 2 + starts  # (N,)
        unique, inverse = key.unique(return_inverse=True)  # (G,), (N,)
        chosen = torch.empty_like(unique).scatter_(
            0, inverse, torch.arange(len(inverse), device=inverse.device)
        )  # (G,)
        row, entity, starts = row[chosen], entity[chosen], starts[chosen]  # (G,)
        memory = choices.memory.vectors[row, entity.clamp(min=0)]  # (G, D)
        fresh = heads.new_vectors(1)  # (1, D)
        vectors = torch.where((entity == -1)[:, None], fresh, memory)
        vectors = torch.where((entity == -2)[:, None], choices.context[row], vectors)  # (G, D)
        features = (
            particles.encoded.states[owner[row], time]
            + self.model.context(to_rows(vectors))[: len(vectors)]
        )  # (G, D)
        log_probs = self.model.words.log_probs(features, particles.tokens[owner[row], time], starts)
        return log_probs[inverse]

    def _read(self, state: NamedParticles, at: Steps, time: int, code: Tensor) -> NamedParticles:
        """Let particles take a word with possible codes, (K,)."""
        mention, entity, _ = split_mention_codes(code)  # (K,)
        position = (1 + entity)[:, None]  # (K, 1)
        choices = state.particles.choices
        name = state.names.gather(1, position)  # (K, 1)
        name = torch.where((entity == choices.memory.known)[:, None], _NEW, name)
        after = (name + torch.full_like(name, time + 1) * _SPREAD) * _FACTOR  # (K, 1)
        after = after ^ (after >> 29)
        here = mention[:, None]  # (K, 1)
        names = state.names.scatter(1, position, torch.where(here, after, name))
        names[:, :1] = torch.where(here, name, state.names[:, :1])
        read = choices.take(at, time, code)
        return NamedParticles(state.particles._replace(choices=read), names, {})


def _chosen(logits: Tensor, positions: Tensor) -> Tensor:
    """Return the log softmax of (K, S) at positions (K,), float64."""
    return logits.log_softmax(1).gather(1, positions[:, None])[:, 0]
