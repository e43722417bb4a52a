"""Draws of KGLM's latents, token by token.

K rows, N entities, C tokens of recency, Q of the rows, G edges of one entity at most.
"""

from __future__ import annotations

import torch
from torch import Tensor

from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.kglm.instances import NEW, RELATED
from beyond_perplexity.models.kglm.latents import LatentHeads, Streams, join_link_codes
from beyond_perplexity.models.kglm.steps import LatentState

TOKEN_DRAWS = 3  # a token: its kind, its entity or parent, the parent's edge


def draw_links(
    heads: LatentHeads, state: LatentState, place: int, draws: Tensor, temperature: float
) -> Tensor:
    """Draw the codes of a token as `LatentHeads` gives them probabilities, int64, (K,).

    Parameters
    ----------
    heads : LatentHeads
    state : LatentState
        Before the token.
    place : int
        The token's position in the streams.
    draws : Tensor
        float64 in [0, 1), (K, 3).
    temperature : float
    """
    streams, owner, memory = state
    kinds = heads.kind_log_probs(streams, temperature)  # (B, P, masks, kinds)
    sums = kinds[owner, place, memory.mask].exp().cumsum(-1)  # (K, kinds)
    kind = invert(sums, draws[:, :1])[:, 0]  # (K,)
    entity = torch.full_like(kind, -1)  # (K,)
    for wanted, draw in ((NEW, _draw_new), (RELATED, _draw_related)):
        rows = (kind == wanted).nonzero()[:, 0]  # (Q,)
        if len(rows):
            entity[rows] = draw(
                heads, streams, place, owner[rows], memory.recent[rows], draws[rows], temperature
            )
    return join_link_codes(kind, entity)


def _draw_new(
    heads: LatentHeads,
    streams: Streams,
    place: int,
    owner: Tensor,
    recent: Tensor,
    draws: Tensor,
    temperature: float,
) -> Tensor:
    """Draw entities (Q,) at a token."""
    found = torch.empty_like(owner)  # (Q,)
    # One instance at a time: products of few rows depend on how many there are.
    for number in owner.unique().tolist():
        flat = number * streams.positions + place
        logits = heads.entity_logits_at(streams, flat).double()  # (1, N)
        scaled = logits / temperature  # (1, N)
        sums = (scaled - scaled.amax(1, keepdim=True)).exp_().cumsum(1)  # (1, N)
        rows = (owner == number).nonzero()[:, 0]  # (Q',)
        found[rows] = invert(sums, draws[rows, 1][None])[0]
    return found


def _draw_related(
    heads: LatentHeads,
    streams: Streams,
    place: int,
    owner: Tensor,
    recent: Tensor,
    draws: Tensor,
    temperature: float,
) -> Tensor:
    """Draw a recent parent and one of its edges at a token: where it leads to, (Q,)."""
    flat = owner * streams.positions + place  # (Q,)
    logits = heads.parent_logits(streams, flat[:, None], recent.clamp_min(0))  # (Q, C)
    slot = _draw_logits(logits / temperature, recent >= 0, draws[:, 1])  # (Q,)
    parents = recent.gather(1, slot[:, None])[:, 0]  # (Q,)
    degrees = heads.graph.degrees[parents]  # (Q,)
    step = torch.arange(int(degrees.max()), device=owner.device)  # (G,)
    held = step < degrees[:, None]  # (Q, G)
    edges = torch.where(held, heads.graph.edge_offsets[parents][:, None] + step, 0)  # (Q, G)
    relations = heads.relation_logits(streams)  # (B T, relations)
    logits = relations[flat[:, None], heads.graph.edge_relations[edges]]  # (Q, G)
    chosen = _draw_logits(logits / temperature, held, draws[:, 2])  # (Q,)
    return heads.graph.objects(edges.gather(1, chosen[:, None])[:, 0])


def _draw_logits(logits: Tensor, possible: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a place of each row of logits (Q, X), float64, among the possible ones: (Q,)."""
    masked = logits.masked_fill(~possible, -torch.inf)  # (Q, X)
    sums = (masked - masked.amax(1, keepdim=True)).exp().cumsum(1)  # (Q, X)
    return invert(sums, uniforms[:, None])[:, 0]
