"""A time-synchronous beam over the mentions of one document.

K places of the beam at most, T words, D width, E entities at most, M words of a mention at most.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.models.entitynlm.dynamic_entities import (
    DynamicEntities,
    EntityMemory,
    Steps,
    split_mention_codes,
)
from beyond_perplexity.models.entitynlm.instances import RADIX


def beam_codes(
    heads: DynamicEntities,
    steps: Steps,
    document: int,
    length: int,
    size: int,
    temperature: float,
) -> Tensor:
    """Return distinct rows of codes under the proposal, best first, int64, (≤ size, length).

    After each word the best `size` beginnings stay. Codes are canonical, and each beginning has one
    way to it, so no two places hold the same z.

    `document`: place of the document in the batch; `length`: its words; `size`: K.
    """
    device = steps.begin.device
    memory = heads.empty(1)
    scores = torch.zeros(1, dtype=torch.float64, device=device)  # (K,)
    codes = torch.zeros(1, length, dtype=torch.int64, device=device)  # (K, T)
    for time in range(length):
        last = codes[:, time - 1] if time else torch.zeros_like(codes[:, 0])  # (K,)
        rows = torch.full_like(last, document)  # (K,)
        times = torch.full_like(last, time)  # (K,)
        at = steps.at(rows, times)
        # Every choice follows from the beginning and a number: 0 no mention, then (e, l).
        choices = _choices(heads, at, memory, times, last, temperature, time)  # (K, 1 + S M)
        extended = (scores[:, None] + choices).flatten()  # (K (1 + S M),)
        kept = min(size, int((extended > -math.inf).sum()))
        scores, best = extended.topk(kept)  # (K,)
        parent, choice = best // choices.shape[1], best % choices.shape[1]  # (K,)
        memory, codes, last = memory.select(parent), codes[parent], last[parent]
        at = steps.at(rows[parent], times[parent])
        code = _code(memory, last, choice, heads.maximum_length)  # (K,)
        codes[:, time] = code
        mention, entity, _ = split_mention_codes(code)  # (K,)
        before = heads.vectors(memory, entity)  # (K, D)
        memory = heads.visit(at, memory, times[parent], entity, before, mention)
    return codes


def _choices(
    heads: DynamicEntities,
    at: Steps,
    memory: EntityMemory,
    times: Tensor,
    last: Tensor,
    temperature: float,
    most: int,
) -> Tensor:
    """Return log q of each choice at a word, float64, (K, 1 + (1 + min(most, E)) M)."""
    _, _, remaining = split_mention_codes(last)
    logits = heads.entity_logits(at, memory, times, most) / temperature  # (K, S)
    starts = logits.log_softmax(1)  # (K, S)
    fresh = functional.normalize(heads.fresh, dim=0).expand(len(last), 1, -1)  # (K, 1, D)
    vectors = torch.cat([fresh, memory.vectors[:, : logits.shape[1] - 1]], 1)  # (K, S, D)
    extents = at.extent[:, None] + heads.extent_by_entity(vectors)  # (K, S, M)
    both = starts[:, :, None] + (extents.double() / temperature).log_softmax(2)  # (K, S, M)
    begin = at.begin.double() / temperature  # (K,)
    none, some = functional.logsigmoid(-begin)[:, None], functional.logsigmoid(begin)[:, None]
    free = torch.cat([none, some + both.flatten(1)], 1)  # (K, 1 + S M)
    fixed = torch.full_like(free, -math.inf)
    fixed[:, 0] = 0.0
    return torch.where((remaining > 0)[:, None], fixed, free)


def _code(memory: EntityMemory, last: Tensor, choice: Tensor, maximum_length: int) -> Tensor:
    """Return the code, (K,), that a choice stands for."""
    slot, extent = (choice - 1) // maximum_length, (choice - 1) % maximum_length  # (K,)
    entity = torch.where(slot == 0, memory.known, slot - 1)  # (K,)
    started = torch.where(choice == 0, 0, 1 + RADIX * entity + extent)  # (K,)
    _, _, remaining = split_mention_codes(last)
    return torch.where(remaining > 0, last - 1, started)
