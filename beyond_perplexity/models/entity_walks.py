"""Walks of many rows through the mention words of documents: scoring z and drawing it.

The vectors of the entities change at mention words only, so a walk goes from visit to visit, each
row at its own pace: J steps instead of T, in fixed shapes. Nothing in a row depends on the others.

B instances, R rows, T words, D width, E entities at most, M words of a mention at most, J visits of
a row at most, A temperatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.dynamic_entities import (
    Codes,
    DynamicEntities,
    Memory,
    Steps,
    join_codes,
)
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.vocabulary import BOS, EOS

# Random numbers of a word: for t, e and l.
DRAWS = 3


class Replay(NamedTuple):
    """What a known z does.

    Attributes
    ----------
    log_prob : Tensor
        float64, (R, A): of z without the words.
    contexts : Tensor
        (R, J + 2, D): 0; the vectors of the visited entities before each visit; at the end of the
        rows that have visits, the last entity's vector after its visit.
    places : Tensor
        int64, (R, T + 1): which of the contexts each word has, and in `lengths` the end.
    """

    log_prob: Tensor
    contexts: Tensor
    places: Tensor


class TextStates(nn.Module):
    """An LSTM over ``<s>``, the words and ``</s>``.

    Parameters
    ----------
    vocabulary_size, width, layers : int
    dropout : float
        On the embeddings and the outputs, in training.
    bidirectional : bool
        Two LSTMs, one in each direction, and a linear map of both to the width.
    """

    def __init__(
        self, vocabulary_size: int, width: int, layers: int, dropout: float, bidirectional: bool
    ) -> None:
        super().__init__()
        self._dropout = dropout
        self.embedding = nn.Embedding(vocabulary_size, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        between = dropout if layers > 1 else 0.0
        self.layers = nn.LSTM(
            width, width, layers, batch_first=True, dropout=between, bidirectional=bidirectional
        )
        self.join = nn.Linear(2 * width, width) if bidirectional else None

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the states, (B, T + 2, D), after each of ``<s>``, the words (B, T), ``</s>``."""
        text = functional.pad(tokens, (1, 1), value=BOS)  # (B, T + 2)
        text = text.scatter(1, (lengths + 1)[:, None], EOS)
        stream = functional.dropout(self.embedding(text), self._dropout, self.training)
        if self.join is not None and len(text) > 1:
            sizes = (lengths + 2).cpu()
            pack = nn.utils.rnn.pack_padded_sequence
            packed, _ = self.layers(pack(stream, sizes, True, enforce_sorted=False))
            unpack = nn.utils.rnn.pad_packed_sequence
            states, _ = unpack(packed, True, total_length=text.shape[1])  # (B, T + 2, 2 D)
        else:
            states, _ = self.layers(stream)  # (B, T + 2, D or 2 D)
        states = functional.dropout(states, self._dropout, self.training)
        return states if self.join is None else self.join(states)  # (B, T + 2, D)


def total(values: Tensor) -> Tensor:
    """Sum (R, T) over T one after the other, so that zeros at the end change nothing."""
    return values.cumsum(1)[:, -1]


def replay(
    heads: DynamicEntities,
    steps: Steps,
    owner: Tensor,
    codes: Codes,
    temperatures: Sequence[float],
) -> Replay:
    """Score rows of z.

    Parameters
    ----------
    heads : DynamicEntities
    steps : Steps
    owner : Tensor
        int64, (R,): the document of each row.
    codes : Codes
    temperatures : sequence of float
        Each vector of logits is divided by them.
    """
    begin = begin_log_prob(steps.begin[owner], codes, temperatures)  # (R, A)
    counts = codes.mention.sum(1)  # (R,)
    visits = int(counts.max())
    order = (~codes.mention).to(torch.int8).argsort(dim=1, stable=True)[:, :visits]  # (R, J)
    entity, remaining = codes.entity.gather(1, order), codes.remaining.gather(1, order)  # (R, J)
    starts = codes.starts.gather(1, order)  # (R, J)
    memory = heads.empty(len(owner))
    nothing = memory.vectors[:, 0].clone()  # (R, D)
    contexts, last = [nothing], nothing
    log_prob = begin
    for step in range(visits):
        here, time = step < counts, order[:, step]  # (R,)
        at = steps.at(owner, time)
        before = heads.vectors(memory, entity[:, step])  # (R, D)
        first = here & starts[:, step]  # (R,)
        slot = torch.where(entity[:, step] == memory.count, 0, entity[:, step] + 1)  # (R,)
        choice = torch.stack([slot, remaining[:, step]]).masked_fill(~first, 0)  # (2, R)
        logits = heads.entity_logits(at, memory, time, step)  # (R, 1 + min(J, E))
        extents = heads.length_logits(at, before)  # (R, M)
        chosen = heads.start_log_prob(logits, extents, choice, temperatures)  # (R, A)
        log_prob = log_prob + chosen.masked_fill(~first[:, None], 0.0)
        memory, after = heads.visit(at, memory, time, entity[:, step], before, here)
        contexts.append(before)
        last = torch.where(here[:, None], after, last)  # (R, D)
    passed = codes.mention.cumsum(1)  # (R, T)
    end = torch.where(codes.running, visits + 1, counts)  # (R,)
    places = torch.cat([passed, end[:, None]], 1)  # (R, T + 1)
    return Replay(log_prob, torch.stack([*contexts, last], 1), places)


def begin_log_prob(begin: Tensor, codes: Codes, temperatures: Sequence[float]) -> Tensor:
    """Return log p of all choices of t, float64, (R, A), from the logits (R, T)."""
    signed = torch.where(codes.mention, begin, -begin).double()  # (R, T)
    parts = []
    for temperature in temperatures:
        each = functional.logsigmoid(signed / temperature)  # (R, T)
        parts.append(total(each.masked_fill(~codes.free, 0.0)))
    return torch.stack(parts, 1)


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Return one place a row, int64, (R,), with p = softmax of logits, float64, (R, S).

    The place is the first whose cumulated probability is above the row's number, (R,) in [0, 1).
    """
    heights = logits.softmax(1).cumsum(1)  # (R, S)
    aim = (uniforms * heights[:, -1])[:, None]  # (R, 1)
    place = torch.searchsorted(heights, aim, right=True)[:, 0]  # (R,)
    places = torch.arange(logits.shape[1], device=logits.device)  # (S,)
    last = (places * (logits > -torch.inf)).amax(1)  # (R,)
    return torch.minimum(place, last)


def draw_start(
    heads: DynamicEntities,
    at: Steps,
    memory: Memory,
    time: Tensor,
    uniforms: Tensor,
    temperature: float,
    most: int,
) -> tuple[Tensor, Tensor]:
    """Draw e and l, int64, (R,), of mentions that start, with the numbers (R, 2)."""
    logits = heads.entity_logits(at, memory, time, most)  # (R, 1 + most)
    slot = draw(logits / temperature, uniforms[:, 0])  # (R,)
    entity = torch.where(slot == 0, memory.count, slot - 1)  # (R,)
    extents = heads.length_logits(at, heads.vectors(memory, entity))  # (R, M)
    return entity, draw(extents / temperature, uniforms[:, 1])


def begins(begin: Tensor, uniforms: Tensor, temperature: float) -> Tensor:
    """Draw t, bool, in the shape of its logits and numbers."""
    return uniforms < functional.logsigmoid(begin.double() / temperature).exp()


@torch.no_grad()
def sample(
    heads: DynamicEntities,
    steps: Steps,
    owner: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
    temperature: float,
) -> Tensor:
    """Draw one row of codes a row, int64, (R, T).

    Word i uses the numbers `DRAWS` i and the next two, for t, e and l.

    Parameters
    ----------
    heads : DynamicEntities
    steps : Steps
    owner, lengths : Tensor
        int64, (R,): the document of each row and its words.
    uniforms : Tensor
        float64, (R, U).
    temperature : float
    """
    width = steps.begin.shape[1]
    lots = uniforms[:, : DRAWS * width].unflatten(1, (width, DRAWS))  # (R, T, 3)
    times = torch.arange(width + 1, device=owner.device)  # (T + 1,)
    wanted = begins(steps.begin[owner], lots[..., 0], temperature)  # (R, T)
    found = torch.where(functional.pad(wanted, (0, 1)), times, width)  # (R, T + 1)
    following = found.flip(1).cummin(1).values.flip(1)  # (R, T + 1)
    codes = torch.where(times[:-1] < lengths[:, None], 0, FILLING)  # (R, T)
    rows = torch.arange(len(owner), device=owner.device)  # (R,)
    position = entity = remaining = torch.zeros_like(owner)  # (R,)
    memory = heads.empty(len(owner))
    for step in range(width):
        inside = remaining > 0  # (R,)
        time = torch.where(inside, position, following[rows, position])  # (R,)
        here = time < lengths  # (R,)
        if not here.any():
            break
        time = time.clamp(max=width - 1)
        at = steps.at(owner, time)
        start = draw_start(heads, at, memory, time, lots[rows, time, 1:], temperature, step)
        entity = torch.where(inside, entity, start[0])  # (R,)
        remaining = torch.where(inside, remaining - 1, start[1])  # (R,)
        codes[rows, time] = torch.where(
            here, join_codes(here, entity, remaining), codes[rows, time]
        )
        before = heads.vectors(memory, entity)  # (R, D)
        memory, _ = heads.visit(at, memory, time, entity, before, here)
        position = torch.where(here, time + 1, position)  # (R,)
        remaining = remaining.masked_fill(~here, 0)  # (R,)
    return codes
