"""Drawing the mentions of documents, many rows at once.

The vectors of the entities change at mention words only, so the walk goes from one to the next,
each row at its own pace, in fixed shapes. Nothing in a row depends on the others.

B instances, R rows, T words, D width, E entities at most, M words of a mention at most.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.entitynlm.dynamic_entities import (
    DynamicEntities,
    EntityMemory,
    Steps,
    join_mention_codes,
)
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.vocabulary import BOS, EOS

# Random numbers of a word: for t, e and l.
WORD_DRAWS = 3


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
            places = torch.arange(text.shape[1], device=text.device)  # (T + 2,)
            mirror = (lengths + 1)[:, None] - places  # (B, T + 2)
            mirror = torch.where(mirror < 0, places, mirror)[:, :, None].expand_as(stream)
            other = self.back(stream.gather(1, mirror))[0].gather(1, mirror)  # (B, T + 2, D)
            states = self.join(torch.cat([states, other], 2))  # (B, T + 2, D)
        return functional.dropout(states, self._dropout, self.training)


def draw_category(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Return one place a row, int64, (R,), with p = softmax of logits, float64, (R, S)."""
    return invert(logits.softmax(1).cumsum(1), uniforms[:, None])[:, 0]


def draw_start(
    heads: DynamicEntities,
    at: Steps,
    memory: EntityMemory,
    time: Tensor,
    uniforms: Tensor,
    temperature: float,
    most: int,
) -> tuple[Tensor, Tensor]:
    """Draw e and l, int64, (R,), of mentions that start, with the numbers (R, 2)."""
    logits = heads.entity_logits(at, memory, time, most)  # (R, 1 + most)
    slot = draw_category(logits / temperature, uniforms[:, 0])  # (R,)
    entity = torch.where(slot == 0, memory.known, slot - 1)  # (R,)
    extents = heads.length_logits(at, heads.vectors(memory, entity))  # (R, M)
    return entity, draw_category(extents / temperature, uniforms[:, 1])


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

    Word i uses the numbers `WORD_DRAWS` i and the next two, for t, e and l.

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
    lots = uniforms[:, : WORD_DRAWS * width].unflatten(1, (width, WORD_DRAWS))  # (R, T, 3)
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
            here, join_mention_codes(here, entity, remaining), codes[rows, time]
        )
        before = heads.vectors(memory, entity)  # (R, D)
        memory = heads.visit(at, memory, time, entity, before, here)
        position = torch.where(here, time + 1, position)  # (R,)
        remaining = remaining.masked_fill(~here, 0)  # (R,)
    return codes
