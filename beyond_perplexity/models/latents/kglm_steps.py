"""KGLM's latents token by token, for many particles of documents at once.

Documents and latents are drawn so too, (x, z) ~ p of the penalized model: an unknown word that is
generated is one of U types, all as probable: a word of an alias, or any other, written ``<unk>``.

K particles, N entities, C tokens of recency, Q of the particles, X pairs of one of these and an
entity, G edges of one entity at most, R rows (documents of a block, in whole quanta), V ids, S
aliases of an entity, L words of an alias.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.latents.kglm_instances import (
    NEW,
    ONGOING,
    RELATED,
    UNSPELLED,
    KnowledgeGraph,
)
from beyond_perplexity.models.latents.kglm_latents import (
    LatentHeads,
    Streams,
    join_link_codes,
    segment_logsumexp,
    split_link_codes,
)
from beyond_perplexity.vocabulary import BOS, EOS, UNK

if TYPE_CHECKING:
    from beyond_perplexity.models.latents.kglm import KGLM


class RecentEntities(NamedTuple):
    """What the latents of a token depend on, of those before it."""

    current: Tensor  # int64, (K,): the entity of the token before; −1 for none
    # int64, (K, C): a ring of the entities with edges of the last C tokens, that of token t in
    # position t mod C; −1 for none. An entity is in it once, where it came last.
    recent: Tensor
    able: Tensor  # bool, (N,): entities with edges

    @classmethod
    def empty(cls, graph: KnowledgeGraph, count: int) -> RecentEntities:
        """Return the memory of particles that have read nothing."""
        recent = torch.full((count, graph.cutoff), -1, device=graph.edge_keys.device)  # (K, C)
        return cls(recent[:, 0], recent, graph.degrees > 0)

    @property
    def mask(self) -> Tensor:
        """int64, (K,): which kinds are possible; see `kglm_latents`."""
        return (self.current >= 0) + 2 * (self.recent >= 0).any(1)

    def parents(self, rows: Tensor, time: int) -> tuple[Tensor, Tensor]:
        """Find the recent entities of particles (Q,) at a token, as `LatentHeads.parents` does."""
        back = torch.arange(1, self.recent.shape[1] + 1, device=rows.device)  # (C,)
        found = self.recent[rows[:, None], (time - back) % len(back)]  # (Q, C)
        query, slot = (found >= 0).nonzero(as_tuple=True)  # (X,), (X,)
        return query, found[query, slot]

    def entities(self, codes: Tensor) -> Tensor:
        """Return the entities that a token with these codes, (K,), mentions; −1 for none."""
        kinds, own = split_link_codes(codes)  # (K,), (K,)
        return torch.where(kinds == ONGOING, self.current, own)

    def follow(self, codes: Tensor, time: int) -> RecentEntities:
        """Return the memory after a token with these codes, (K,)."""
        entities = self.entities(codes)  # (K,)
        kept = torch.where(self.able[entities.clamp_min(0)], entities, -1)  # (K,)
        recent = self.recent.masked_fill(self.recent == kept[:, None], -1)  # (K, C)
        recent[:, time % recent.shape[1]] = kept
        return self._replace(current=entities, recent=recent)

    def select(self, rows: Tensor) -> RecentEntities:
        """Return the memory whose row i is row ``rows[i]`` of this one."""
        return self._replace(current=self.current[rows], recent=self.recent[rows])


TOKEN_DRAWS = 3  # a token: its kind, its entity or parent, the parent's edge


class LatentState(NamedTuple):
    """What particles have done so far."""

    heads: LatentHeads
    streams: Streams  # Of the documents
    owner: Tensor  # int64, (K,): the document of each particle
    memory: RecentEntities

    @classmethod
    def of(cls, heads: LatentHeads, streams: Streams, owner: Tensor) -> LatentState:
        """Return the state of particles that have read nothing."""
        return cls(heads, streams, owner, RecentEntities.empty(heads.graph, len(owner)))

    def select(self, rows: Tensor) -> LatentState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(owner=self.owner[rows], memory=self.memory.select(rows))

    def flat(self, time: int) -> Tensor:
        """Return the positions of a token in the flat batch, int64, (K,)."""
        return self.owner * self.streams.positions + time

    def kind_log_probs(self, time: int, temperature: float) -> Tensor:
        """Return log p_τ(t) of all kinds at a position, float64, (K, kinds); −inf: impossible."""
        every = self.heads.kind_log_probs(self.streams, temperature)  # (B, P, masks, kinds)
        return every[self.owner, time, self.memory.mask]

    def follow(self, codes: Tensor, time: int) -> LatentState:
        """Return the state after a token with these codes, (K,)."""
        return self._replace(memory=self.memory.follow(codes, time))

    def advance(self, time: int, codes: Tensor, temperature: float) -> tuple[Tensor, LatentState]:
        """Take codes, (K,), for a token: their log probability, float64, (K,), of the terms of
        `LatentHeads.log_prob`, to the last bit on a CPU, and the new state."""
        kinds, entities = split_link_codes(codes)  # (K,), (K,)
        every = self.kind_log_probs(time, temperature)  # (K, kinds)
        log_prob = every[torch.arange(len(kinds), device=kinds.device), kinds]  # (K,)
        for kind in (NEW, RELATED):
            rows = (kinds == kind).nonzero()[:, 0]  # (Q,)
            if len(rows):
                begun = self.streams, self.flat(time)[rows], entities[rows]
                if kind == NEW:
                    found = self.heads.new_log_probs(*begun, [temperature])  # (Q, 1)
                else:
                    parents = self.memory.parents(rows, time)
                    found = self.heads.related_log_probs(*begun, parents, [temperature])
                log_prob[rows] += found[:, 0]
        return log_prob, self.follow(codes, time)

    def draw(self, position: int, draws: Tensor, temperature: float) -> Tensor:
        """Draw the codes of the token at a position of the streams as `advance` gives them
        probabilities, int64, (K,), by numbers in [0, 1), float64, (K, 3)."""
        sums = self.kind_log_probs(position, temperature).exp().cumsum(-1)  # (K, kinds)
        kind = invert(sums, draws[:, :1])[:, 0]  # (K,)
        entity = torch.full_like(kind, -1)  # (K,)
        for wanted, draw in ((NEW, self._draw_new), (RELATED, self._draw_related)):
            rows = (kind == wanted).nonzero()[:, 0]  # (Q,)
            if len(rows):
                entity[rows] = draw(self.flat(position)[rows], rows, draws[rows], temperature)
        return join_link_codes(kind, entity)

    def _draw_new(self, flat: Tensor, rows: Tensor, draws: Tensor, temperature: float) -> Tensor:
        """Draw entities of some particles at flat positions, (Q,)."""
        found = torch.empty_like(flat)  # (Q,)
        # One position at a time: products of few rows depend on how many there are.
        for position in flat.unique().tolist():
            logits = self.heads.entity_logits_at(self.streams, position).double()  # (1, N)
            scaled = logits / temperature  # (1, N)
            sums = (scaled - scaled.amax(1, keepdim=True)).exp_().cumsum(1)  # (1, N)
            own = (flat == position).nonzero()[:, 0]  # (Q',)
            found[own] = invert(sums, draws[own, 1][None])[0]
        return found

    def _draw_related(
        self, flat: Tensor, rows: Tensor, draws: Tensor, temperature: float
    ) -> Tensor:
        """Draw a recent parent and one of its edges at flat positions: where it leads to, (Q,)."""
        heads, recent = self.heads, self.memory.recent[rows]  # (Q, C)
        logits = heads.parent_logits(self.streams, flat[:, None], recent.clamp_min(0))  # (Q, C)
        slot = _draw_logits(logits / temperature, recent >= 0, draws[:, 1])  # (Q,)
        parents = recent.gather(1, slot[:, None])[:, 0]  # (Q,)
        degrees = heads.graph.degrees[parents]  # (Q,)
        step = torch.arange(int(degrees.max()), device=flat.device)  # (G,)
        held = step < degrees[:, None]  # (Q, G)
        edges = torch.where(held, heads.graph.edge_offsets[parents][:, None] + step, 0)  # (Q, G)
        relations = heads.relation_logits(self.streams)  # (B T, relations)
        logits = relations[flat[:, None], heads.graph.edge_relations[edges]]  # (Q, G)
        chosen = _draw_logits(logits / temperature, held, draws[:, 2])  # (Q,)
        return heads.graph.objects(edges.gather(1, chosen[:, None])[:, 0])


def linked_entities(
    heads: LatentHeads, streams: Streams, flat: Tensor, recent: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """List where edges from recent entities, (K, C), at flat positions, (K,), lead: row and entity,
    int64, rising, and log p_τ(o), float64, (X,) each."""
    graph = heads.graph
    rows, slots = (recent >= 0).nonzero(as_tuple=True)  # (Q,), (Q,)
    parents = recent[rows, slots]  # (Q,)
    scores = heads.parent_logits(streams, flat[rows], parents)[:, None] / temperature  # (Q, 1)
    scores = scores - segment_logsumexp(scores, rows, len(recent))[rows]  # (Q, 1)
    pair, edges = graph.edges_from(parents)  # (Z,), (Z,)
    relations = heads.relation_logits(streams)  # (B P, relations)
    chosen = relations[flat[rows][pair], graph.edge_relations[edges]]  # (Z,)
    logits = (chosen / temperature)[:, None]  # (Z, 1)
    totals = segment_logsumexp(logits, pair, len(parents))  # (Q, 1)
    keys = rows[pair] * graph.n_entities + graph.objects(edges)  # (Z,)
    unique, back = keys.unique(return_inverse=True)  # (X,), (Z,)
    summed = segment_logsumexp(scores[pair] + logits - totals[pair], back, len(unique))
    return unique // graph.n_entities, unique % graph.n_entities, summed[:, 0]


def _draw_logits(logits: Tensor, possible: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a position of each row of logits (Q, X), float64, among the possible ones: (Q,)."""
    masked = logits.masked_fill(~possible, -torch.inf)  # (Q, X)
    sums = (masked - masked.amax(1, keepdim=True)).exp().cumsum(1)  # (Q, X)
    return invert(sums, uniforms[:, None])[:, 0]


class _Encoder:
    """The model's LSTMs, a word at a time."""

    def __init__(self, model: KGLM) -> None:
        self._embedding, self._layers = model.embedding, model.encoder.layers
        self._states: list[tuple[Tensor, Tensor] | None] = [None] * len(self._layers)

    def read(self, tokens: Tensor) -> Tensor:
        """Read words (R,): what stands at the next position, (R, 1, D + 2 d)."""
        stream: Tensor = self._embedding(tokens)[:, None]  # (R, 1, E)
        for number, layer in enumerate(self._layers):
            assert isinstance(layer, nn.LSTM)
            stream, self._states[number] = layer(stream, self._states[number])
        return stream


def draw_linked_texts(
    model: KGLM, count: int, lots: Iterator[Tensor], longest: int, types: int
) -> np.ndarray:
    """Draw documents of at most T words and what follows: ids, `EOS` from the end on, spellings of
    what is copied or unknown, `UNSPELLED` elsewhere, and codes, int64, (R, T, 3)."""
    reader, rows = _Encoder(model), torch.arange(count, device=model.device)  # (R,)
    words, ones = torch.full_like(rows, BOS), torch.ones_like(rows)  # (R,)
    unknown = functional.pad(model.unknown_spellings, (0, 1), value=UNSPELLED)  # (A + 1,)
    memory, columns = RecentEntities.empty(model.graph, count), []
    ended = words < 0  # (R,)
    for time, draws in zip(range(longest + 1), lots, strict=False):
        streams = model.heads.split(reader.read(words), ones, keep=True)
        state = LatentState(model.heads, streams, rows, memory)
        codes = state.draw(0, draws[:, :TOKEN_DRAWS], 1.0)  # (R,)
        memory = memory.follow(codes, time)
        drawn_by = draws[:, TOKEN_DRAWS:-1]  # (R, 1)
        words, spelled = model.draw_words(streams.token[:, 0], memory.current, drawn_by)
        nameless = (words == UNK) & (spelled == UNSPELLED)  # (R,)
        drawn = (draws[:, -1] * types).long().clamp_max(len(unknown) - 1)  # (R,): of U types
        spelled = torch.where(nameless, unknown[drawn], spelled)  # (R,)
        words = words.masked_fill(ended, EOS)  # (R,)
        ended = words == EOS
        columns.append(torch.stack([words, spelled, codes], 1))
        if ended.all():
            break
    return torch.stack(columns, 1).cpu().numpy()
