"""EntityNLM's choices: drawn many rows at once, word by word for particles, or listed for a beam.

The vectors of the entities change at mention words only, so the walk goes from one to the next,
each row at its own pace.

B instances, R rows, K particles or hypotheses, T words, D width, E entities at most, M words of a
mention at most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    DynamicEntities,
    EntityMemory,
    Steps,
    join_mention_codes,
    split_mention_codes,
)
from beyond_perplexity.models.word_by_word import Continuations
from beyond_perplexity.vocabulary import BOS, EOS

# Random numbers of a word: for t, e and l.
WORD_DRAWS = 3


class TextStates(nn.Module):
    """An LSTM over ``<s>``, the words and ``</s>``, or one in each direction, joined linearly."""

    def __init__(
        self, vocabulary_size: int, width: int, layers: int, dropout: float, bidirectional: bool
    ) -> None:
        super().__init__()
        self._dropout = dropout
        self.embedding = nn.Embedding(vocabulary_size, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        between = dropout if layers > 1 else 0.0
        self.layers = nn.LSTM(width, width, layers, batch_first=True, dropout=between)
        self.back, self.join = None, None
        if bidirectional:
            self.back = nn.LSTM(width, width, layers, batch_first=True, dropout=between)
            self.join = nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the states, (B, T + 2, D), after each of ``<s>``, the words (B, T), ``</s>``."""
        text = functional.pad(tokens, (1, 1), value=BOS)  # (B, T + 2)
        text = text.scatter(1, (lengths + 1)[:, None], EOS)
        stream = functional.dropout(self.embedding(text), self._dropout, self.training)
        states, _ = self.layers(stream)  # (B, T + 2, D)
        if self.back is not None and self.join is not None:
            positions = torch.arange(text.shape[1], device=text.device)  # (T + 2,)
            mirror = (lengths + 1)[:, None] - positions  # (B, T + 2)
            mirror = torch.where(mirror < 0, positions, mirror)[:, :, None].expand_as(stream)
            other = self.back(stream.gather(1, mirror))[0].gather(1, mirror)  # (B, T + 2, D)
            states = self.join(torch.cat([states, other], 2))  # (B, T + 2, D)
        return functional.dropout(states, self._dropout, self.training)


def draw_category(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Return one position a row, int64, (R,), with p = softmax of logits, float64, (R, S)."""
    return invert(logits.softmax(1).cumsum(1), uniforms[:, None])[:, 0]


def begins(begin: Tensor, uniforms: Tensor, temperature: float) -> Tensor:
    """Draw t, bool, in the shape of its logits and numbers."""
    return uniforms < functional.logsigmoid(begin.double() / temperature).exp()


class EntityState(NamedTuple):
    """What particles (or hypotheses) have done so far."""

    heads: DynamicEntities
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
        memory, nothing = heads.empty(len(owner)), torch.zeros_like(owner)  # (K,)
        context = memory.vectors[:, 0].clone()  # (K, D)
        return cls(heads, steps, owner, memory, nothing, context, nothing > 0)

    def select(self, rows: Tensor) -> EntityState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        names = ("owner", "last", "context", "starts")
        parts = {name: getattr(self, name)[rows] for name in names}
        return self._replace(memory=self.memory.select(rows), **parts)

    @property
    def running(self) -> Tensor:
        """bool, (K,): the mention goes on with the next word."""
        return split_mention_codes(self.last)[2] > 0

    def at(self, time: int | Tensor) -> Steps:
        """Return what words at a time, one or (K,), contribute to the choices: (K, ...)."""
        return self.steps.at(self.owner, time)

    def draw(
        self, at: Steps, time: int | Tensor, uniforms: Tensor, temperature: float, most: int
    ) -> Tensor:
        """Draw the codes of words at a time, int64, (K,), by numbers (K, 3) for t, e and l; `time`
        is one or (K, 1), and no particle has more than `most` entities."""
        heads, memory = self.heads, self.memory
        mention = begins(at.begin, uniforms[:, 0], temperature)  # (K,)
        logits = heads.entity_logits(at, memory, time, most)  # (K, 1 + most)
        slot = draw_category(logits / temperature, uniforms[:, 1])  # (K,)
        entity = torch.where(slot == 0, memory.known, slot - 1)  # (K,)
        extents = heads.length_logits(at, heads.vectors(memory, entity))  # (K, M)
        remaining = draw_category(extents / temperature, uniforms[:, 2])  # (K,)
        started = join_mention_codes(mention, entity, remaining)  # (K,)
        return torch.where(self.running, self.last - 1, started)

    def advance(self, time: int, code: Tensor, temperature: float) -> tuple[Tensor, EntityState]:
        """Take possible codes for a word: their log probability, float64, (K,); the new state."""
        at, memory, heads = self.at(time), self.memory, self.heads
        mention, entity, remaining = split_mention_codes(code)  # (K,)
        starts = mention & ~self.running  # (K,)
        begin = torch.where(mention, at.begin, -at.begin).double() / temperature  # (K,)
        log_prob = functional.logsigmoid(begin).masked_fill(self.running, 0.0)  # (K,)
        entities = heads.entity_logits(at, memory, time, time)  # (K, 1 + most)
        slot = torch.where(entity == memory.known, 0, entity + 1)  # (K,)
        extents = heads.length_logits(at, heads.vectors(memory, entity))  # (K, M)
        pairs = ((entities, slot), (extents, remaining))
        for logits, chosen in pairs:
            index = chosen.masked_fill(~starts, 0)[:, None]  # (K, 1)
            each = (logits / temperature).log_softmax(1).gather(1, index)[:, 0]  # (K,)
            log_prob = log_prob + each.masked_fill(~starts, 0.0)
        return log_prob, self.take(at, time, code)

    def take(self, at: Steps, time: int | Tensor, code: Tensor) -> EntityState:
        """Return the state after words with possible codes, (K,); this one is overwritten."""
        mention, entity, _ = split_mention_codes(code)  # (K,)
        starts = mention & ~self.running  # (K,)
        before = self.heads.vectors(self.memory, entity)  # (K, D)
        memory = self.heads.visit(at, self.memory, time, entity, before, mention)
        context = torch.where(mention[:, None], before, self.context)  # (K, D)
        return self._replace(memory=memory, last=code, context=context, starts=starts)

    def list_codes(
        self, at: Steps, nothing: Tensor, starts: Tensor, begin: Tensor | float, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses, with log q: `nothing`, (K, 1), of no mention; `begin` +
        `starts`, (K, S), plus that of a length, of mentions of a new entity and of each so far."""
        heads, known = self.heads, self.memory.known[:, None]  # (K, 1)
        positions = torch.arange(starts.shape[1], device=known.device)  # (S,)
        entity = torch.where(positions == 0, known, positions - 1)  # (K, S)
        fresh = heads.new_vectors(1).expand(len(starts), 1, -1)  # (K, 1, D)
        vectors = torch.cat([fresh, self.memory.vectors[:, : starts.shape[1] - 1]], 1)  # (K, S, D)
        extents = at.extent[:, None] + heads.extent_by_entity(vectors)  # (K, S, M)
        lengths = (extents.double() / temperature).log_softmax(2)  # (K, S, M)
        each = begin + (starts[:, :, None] + lengths).flatten(1)  # (K, S M)
        log_q = torch.cat([nothing, each], 1)  # (K, 1 + S M)
        remaining = torch.arange(heads.maximum_length, device=known.device)  # (M,)
        started = join_mention_codes(entity[..., None] >= 0, entity[..., None], remaining)
        codes = functional.pad(started.flatten(1), (1, 0))  # (K, 1 + S M)
        fixed = torch.full_like(log_q, -math.inf)
        fixed[:, 0] = 0.0
        running = self.running[:, None]  # (K, 1)
        log_q = torch.where(running, fixed, log_q)
        codes = torch.where(running, self.last[:, None] - 1, codes)
        origin, position = (log_q > -math.inf).nonzero(as_tuple=True)  # (X,)
        return Continuations(origin, codes[origin, position], log_q[origin, position])


@torch.no_grad()
def sample(state: EntityState, lengths: Tensor, uniforms: Tensor, temperature: float) -> Tensor:
    """Draw a row of codes each, int64, (R, T), for documents of `lengths`, (R,); word i uses the
    numbers from `WORD_DRAWS` i on for t, e and l."""
    owner, width = state.owner, state.steps.begin.shape[1]
    lots = uniforms[:, : WORD_DRAWS * width].unflatten(1, (width, WORD_DRAWS))  # (R, T, 3)
    times = torch.arange(width + 1, device=owner.device)  # (T + 1,)
    wanted = begins(state.steps.begin[owner], lots[..., 0], temperature)  # (R, T)
    found = torch.where(functional.pad(wanted, (0, 1)), times, width)  # (R, T + 1)
    following = found.flip(1).cummin(1).values.flip(1)  # (R, T + 1)
    codes = torch.where(times[:-1] < lengths[:, None], 0, PADDING)  # (R, T)
    rows, position = torch.arange(len(owner), device=owner.device), torch.zeros_like(owner)  # (R,)
    for step in range(width):
        time = torch.where(state.running, position, following[rows, position])  # (R,)
        here = time < lengths  # (R,)
        if not here.any():
            break
        time = time.clamp(max=width - 1)
        at = state.at(time)
        code = state.draw(at, time[:, None], lots[rows, time], temperature, step)  # (R,)
        code = code.masked_fill(~here, 0)
        codes[rows, time] = torch.where(here, code, codes[rows, time])
        state = state.take(at, time[:, None], code)
        position = torch.where(here, time + 1, position)
    return codes
