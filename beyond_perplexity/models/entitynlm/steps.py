"""EntityNLM's choices word by word, for many particles of documents at once.

K particles, D width, E entities at most.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.models.entitynlm.dynamic_entities import (
    DynamicEntities,
    EntityMemory,
    Steps,
    join_mention_codes,
    split_mention_codes,
)
from beyond_perplexity.models.entitynlm.walks import begins, draw_start


class EntityState(NamedTuple):
    """What particles have done so far."""

    steps: Steps  # Of the documents
    owner: Tensor  # int64, (K,): the document of each particle
    memory: EntityMemory
    last: Tensor  # int64, (K,): the newest code
    # (K, D): vector of the entity that the newest mention word mentions, before it is read
    context: Tensor
    starts: Tensor  # bool, (K,): the newest word starts a mention

    @classmethod
    def of(cls, heads: DynamicEntities, steps: Steps, owner: Tensor) -> EntityState:
        """Return the state of particles that have read nothing."""
        memory = heads.empty(len(owner))
        nothing = torch.zeros_like(owner)  # (K,)
        return cls(steps, owner, memory, nothing, memory.vectors[:, 0].clone(), nothing > 0)

    def select(self, rows: Tensor) -> EntityState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        parts = (part[rows] for part in (self.last, self.context, self.starts))
        return EntityState(self.steps, self.owner[rows], self.memory.select(rows), *parts)

    @property
    def running(self) -> Tensor:
        """bool, (K,): the mention goes on with the next word."""
        return split_mention_codes(self.last)[2] > 0


def propose_code(
    heads: DynamicEntities, state: EntityState, time: int, uniforms: Tensor, temperature: float
) -> Tensor:
    """Draw the codes of a word, int64, (K,), with numbers (K, 3) for t, e and l."""
    times = torch.full_like(state.owner, time)  # (K,)
    at = state.steps.at(state.owner, times)
    mention = begins(at.begin, uniforms[:, 0], temperature)  # (K,)
    entity, remaining = draw_start(
        heads, at, state.memory, times, uniforms[:, 1:], temperature, time
    )
    started = join_mention_codes(mention, entity, remaining)  # (K,)
    return torch.where(state.running, state.last - 1, started)


def advance_mentions(
    heads: DynamicEntities, state: EntityState, time: int, code: Tensor, temperature: float
) -> tuple[Tensor, EntityState]:
    """Take possible codes for a word: their log probability, float64, (K,), and the new state."""
    times = torch.full_like(state.owner, time)  # (K,)
    at, memory = state.steps.at(state.owner, times), state.memory
    mention, entity, remaining = split_mention_codes(code)  # (K,)
    starts = mention & ~state.running  # (K,)
    before = heads.vectors(memory, entity)  # (K, D)
    begin = torch.where(mention, at.begin, -at.begin).double() / temperature  # (K,)
    log_prob = functional.logsigmoid(begin).masked_fill(state.running, 0.0)  # (K,)
    slot = torch.where(entity == memory.known, 0, entity + 1)  # (K,)
    pairs = (
        (heads.entity_logits(at, memory, times, time), slot),
        (heads.length_logits(at, before), remaining),
    )
    for logits, chosen in pairs:
        place = chosen.masked_fill(~starts, 0)[:, None]  # (K, 1)
        each = (logits / temperature).log_softmax(1).gather(1, place)[:, 0]  # (K,)
        log_prob = log_prob + each.masked_fill(~starts, 0.0)
    return log_prob, take_code(heads, state, at, time, code)


def take_code(
    heads: DynamicEntities, state: EntityState, at: Steps, time: int, code: Tensor
) -> EntityState:
    """Return the state after a word with possible codes, (K,); that before it is overwritten."""
    mention, entity, _ = split_mention_codes(code)  # (K,)
    starts = mention & ~state.running  # (K,)
    before = heads.vectors(state.memory, entity)  # (K, D)
    times = torch.full_like(code, time)  # (K,)
    memory = heads.visit(at, state.memory, times, entity, before, mention)
    context = torch.where(mention[:, None], before, state.context)  # (K, D)
    return EntityState(state.steps, state.owner, memory, code, context, starts)
