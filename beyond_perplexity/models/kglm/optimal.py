"""The optimal proposal for KGLM: the latent of a word in proportion to what it makes of the text.

KGLM's recurrent state does not depend on z. So at each word the few latents that can say it are
listed with p(z_t | past) p(x_t | z_t) ρ_t: none, ongoing, the entities whose aliases have the word
(as new ones, or as related ones where an edge leads), and with an estimate in place of
p(x_t | z_t) all other entities, so that no latent is missed. ρ is the look-ahead of
`kglm.lookahead`. One is drawn in proportion; a particle's weight grows by the sum of all but for
where an estimate was drawn from, and that sum is what the particle promises before.

Temperatures divide the logarithms of what is listed. The rest of the new entities, those that no
alias brings in, is one item of the list; among them draws are as in the model.

K rows (particles), G distinct ones of them at a word, N entities, X related entities of these, C
tokens of recency.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from beyond_perplexity.instances.store import InstanceBatch
from beyond_perplexity.invariance.inversion import invert
from beyond_perplexity.models.kglm.instances import NEW, NONE, ONGOING, RELATED
from beyond_perplexity.models.kglm.latents import (
    join_link_codes,
    segment_logsumexp,
    split_link_codes,
)
from beyond_perplexity.models.kglm.lookahead import AliasIndex, LookAhead, look_ahead
from beyond_perplexity.models.kglm.model import KGLM
from beyond_perplexity.models.kglm.steps import LatentState, linked_entities
from beyond_perplexity.models.latent import LatentModel
from beyond_perplexity.models.optimal import Continuations, OptimalProposal

_NONE, _ONGOING, _RELATED, _COPIED, _REST = range(5)  # what the first number of a word draws


class Listed(NamedTuple):
    """What rows may choose at a word, each distinct row once; logarithms / τ, float64.

    Attributes
    ----------
    group : Tensor
        int64, (K,): the distinct row that each row is like.
    sums : Tensor
        (G, 5): of nothing, ongoing, all related, all new ones that can be copied, the rest.
    row, entity, related : Tensor
        (X,) each: distinct row, entity and worth of each related one; in rising order.
    """

    group: Tensor
    sums: Tensor
    row: Tensor
    entity: Tensor
    related: Tensor


class LinkWalk(NamedTuple):
    """What rows have done so far.

    Attributes
    ----------
    latents : LatentState
    ahead : LookAhead
        Of the documents.
    listed : dict
        What has been listed in this state, by word and temperature.
    """

    latents: LatentState
    ahead: LookAhead
    listed: dict[tuple[int, float], Listed]

    def select(self, rows: Tensor) -> LinkWalk:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        kept = {key: one._replace(group=one.group[rows]) for key, one in self.listed.items()}
        return LinkWalk(self.latents.select(rows), self.ahead, kept)


class OptimalLinks(OptimalProposal):
    """The proposal; see the module and `OptimalProposal`."""

    word_draws = 2  # which kind of choice, and which one

    def __init__(self, model: LatentModel) -> None:
        super().__init__(model)
        assert isinstance(model, KGLM)
        self._of: tuple[KGLM, ...] = (model,)  # in a tuple: it is not a part of this module
        self._index: AliasIndex | None = None

    @torch.no_grad()
    def start(self, batch: InstanceBatch, owner: Tensor) -> LinkWalk:
        """Return the state of rows; see `OptimalProposal.start`."""
        (model,) = self._of
        if self._index is None:
            self._index = AliasIndex.of(model)
        encoded = model.prepare(batch)
        if self not in batch.cache:
            batch.cache[self] = look_ahead(model, self._index, encoded)
        latents = LatentState.of(model.graph, encoded.streams, owner)
        return LinkWalk(latents, batch.cache[self], {})

    @torch.no_grad()
    def log_twist(self, state: LinkWalk, time: int) -> Tensor:
        """Return log of what rows promise before a word; see `importance.drawing.smc.Twisting`."""
        listed = self._list(state, time, 1.0)
        return listed.sums.logsumexp(1)[listed.group]

    @torch.no_grad()
    def propose(
        self, state: LinkWalk, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, LinkWalk]:
        """Draw the codes of a word; see `OptimalProposal.propose`."""
        listed, places = self._list(state, time, temperature), state.latents.places(time)
        kinds = listed.sums.log_softmax(1).exp().cumsum(1)[listed.group]  # (K, 5)
        item = invert(kinds, uniforms[:, :1])[:, 0]  # (K,)
        entity = torch.full_like(item, -1)  # (K,)
        rows = (item == _RELATED).nonzero()[:, 0]  # (Q,)
        if len(rows):
            items = listed.related, listed.row, len(listed.sums)
            drawn = _draw_in_segments(*items, listed.group[rows], uniforms[rows, 1])  # (Q,)
            entity[rows] = listed.entity[drawn]
        rows = (item == _COPIED).nonzero()[:, 0]  # (Q,)
        if len(rows):
            entity[rows] = self._draw_copied(state.ahead, places[rows], uniforms[rows], temperature)
        rows = (item == _REST).nonzero()[:, 0]  # (Q,)
        if len(rows):
            entity[rows] = self._draw_rest(state, places[rows], uniforms[rows])
        kind = item.new_tensor([NONE, ONGOING, RELATED, NEW, NEW])[item]  # (K,)
        codes = join_link_codes(kind, entity)  # (K,)
        log_q, after = self.advance(state, time, codes, temperature)
        return codes, log_q, after

    @torch.no_grad()
    def advance(
        self, state: LinkWalk, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, LinkWalk]:
        """Take codes for a word; see `OptimalProposal.advance`."""
        (model,) = self._of
        listed = self._list(state, time, temperature)
        kinds, entities = split_link_codes(choice)  # (K,), (K,)
        item = kinds.new_tensor([_NONE, _ONGOING, _COPIED, _RELATED])[kinds]  # (K,)
        worth = listed.sums[listed.group, item]  # (K,)
        rows = (kinds == RELATED).nonzero()[:, 0]  # (Q,)
        if len(rows):
            count = model.graph.n_entities
            wanted = listed.group[rows] * count + entities[rows]  # (Q,)
            worth[rows] = _look_up(listed.row * count + listed.entity, listed.related, wanted)
        rows = (kinds == NEW).nonzero()[:, 0]  # (Q,)
        if len(rows):
            worth[rows] = self._worth_as_new(state, listed, time, rows, entities[rows], temperature)
        log_q = worth - listed.sums.logsumexp(1)[listed.group]  # (K,)
        memory = state.latents.memory.follow(choice, time)
        after = LinkWalk(state.latents._replace(memory=memory), state.ahead, {})
        return log_q, after

    @torch.no_grad()
    def continuations(
        self, state: LinkWalk, time: int, size: int, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses; of the rest just the `size` best entities."""
        (model,) = self._of
        listed, ahead = self._list(state, time, temperature), state.ahead
        every = torch.arange(len(listed.group), device=listed.group.device)  # (K,)
        sums = listed.sums.log_softmax(1)[listed.group]  # (K, 5)
        place = int(state.latents.places(time)[0])
        held = slice(int(ahead.offsets[place]), int(ahead.offsets[place + 1]))
        copied = ahead.keys[held] % model.graph.n_entities  # (Y,)
        as_new = (ahead.as_new[held] / temperature).log_softmax(0)  # (Y,)
        logits = self._rest_logits(state, place)  # (N,)
        rest, others = (logits - ahead.rest_total[place]).topk(min(size, len(logits)))
        others, rest = others[rest > -torch.inf], rest[rest > -torch.inf]  # (Z,), (Z,)
        wide = torch.cat([sums[:, [_COPIED]] + as_new, sums[:, [_REST]] + rest], 1)  # (K, Y + Z)
        inside = (state.latents.memory.current >= 0).nonzero()[:, 0]  # (K',)
        row, slot = (listed.group[:, None] == listed.row).nonzero(as_tuple=True)  # (X',), (X',)
        totals = listed.sums.logsumexp(1)[listed.row[slot]]  # (X',)
        codes = NEW + 2 * torch.cat([copied, others])  # (Y + Z,)
        return Continuations(
            torch.cat([every, inside, row, every.repeat_interleave(len(codes))]),
            torch.cat(
                [
                    torch.full_like(every, NONE),
                    torch.full_like(inside, ONGOING),
                    RELATED + 2 * listed.entity[slot],
                    codes.repeat(len(every)),
                ]
            ),
            torch.cat(
                [
                    sums[:, _NONE],
                    sums[inside, _ONGOING],
                    listed.related[slot] - totals,
                    wide.flatten(),
                ]
            ),
        )

    # ---- what is listed ----

    def _list(self, state: LinkWalk, time: int, temperature: float) -> Listed:
        """List the choices at a word, once."""
        if (time, temperature) not in state.listed:
            state.listed[time, temperature] = self._weigh(state, time, temperature)
        return state.listed[time, temperature]

    def _weigh(self, state: LinkWalk, time: int, temperature: float) -> Listed:
        (model,) = self._of
        streams, memory = state.latents.streams, state.latents.memory
        ahead, count = state.ahead, model.graph.n_entities
        signs = torch.cat(
            [state.latents.owner[:, None], memory.current[:, None], memory.recent], 1
        )  # (K, 2 + C)
        distinct, group = signs.unique(dim=0, return_inverse=True)  # (G, 2 + C), (K,)
        owner, current, recent = distinct[:, 0], distinct[:, 1], distinct[:, 2:]
        places = owner * streams.positions + time  # (G,)
        masks = (current >= 0) + 2 * (recent >= 0).any(1)  # (G,)
        kinds = model.heads.kind_log_probs(streams, 1.0)[owner, time, masks]  # (G, kinds)
        going = self._as_word(ahead, places, current.clamp_min(0), count)  # (G,)
        row, entity, related = linked_entities(model.heads, streams, places, recent, 1.0)
        related = related + self._as_word(ahead, places[row], entity, count)  # (X,)
        related = (related + kinds[row, RELATED]) / temperature  # (X,)
        sums = [
            (kinds[:, NONE] + ahead.nothing[places]) / temperature,
            (kinds[:, ONGOING] + going) / temperature,
            segment_logsumexp(related[:, None], row, len(distinct))[:, 0],
            kinds[:, NEW] / temperature + _copied_total(ahead, temperature)[places],
            (kinds[:, NEW] + ahead.rest[places]) / temperature,
        ]
        return Listed(group, torch.stack(sums, 1), row, entity, related)

    def _as_word(self, ahead: LookAhead, places: Tensor, entities: Tensor, count: int) -> Tensor:
        """Return what entities, (Q,), of mentions make of the words at flat positions, (Q,)."""
        spot, there = ahead.find(places * count + entities)  # (Q,), (Q,)
        other = ahead.other[places]  # (Q,)
        return torch.where(there, ahead.as_word[spot], other) if len(ahead.keys) else other

    def _worth_as_new(
        self,
        state: LinkWalk,
        listed: Listed,
        time: int,
        rows: Tensor,
        entities: Tensor,
        temperature: float,
    ) -> Tensor:
        """Return the worth of new entities of some rows, (Q,)."""
        (model,) = self._of
        ahead, streams = state.ahead, state.latents.streams
        owner, places = state.latents.owner[rows], state.latents.places(time)[rows]  # (Q,), (Q,)
        mixed = (streams.head + streams.relation).flatten(0, 1)[places]  # (Q, d)
        logits = (mixed * model.graph.entities[entities]).sum(1) + model.heads.entity_bias[entities]
        share = logits.double() - ahead.rest_total[places]  # (Q,)
        rest = listed.sums[listed.group[rows], _REST] + share  # (Q,)
        spot, there = ahead.find(places * model.graph.n_entities + entities)  # (Q,), (Q,)
        if not len(ahead.keys):
            return rest
        masks = state.latents.memory.mask[rows]  # (Q,)
        kinds = model.heads.kind_log_probs(streams, 1.0)[owner, time, masks, NEW]  # (Q,)
        return torch.where(there, (kinds + ahead.as_new[spot]) / temperature, rest)

    # ---- draws among what is listed ----

    def _draw_copied(
        self, ahead: LookAhead, places: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw new entities, (Q,), among those that can be copied at flat positions."""
        (model,) = self._of
        scaled, owners = ahead.as_new / temperature, ahead.owners()  # (X,), (X,)
        drawn = _draw_in_segments(scaled, owners, len(ahead.nothing), places, uniforms[:, 1])
        return ahead.keys[drawn] % model.graph.n_entities

    def _rest_logits(self, state: LinkWalk, place: int) -> Tensor:
        """Return the logits of all new entities at a flat position, −inf for the copied ones."""
        (model,) = self._of
        ahead = state.ahead
        held = slice(int(ahead.offsets[place]), int(ahead.offsets[place + 1]))
        logits = model.heads.entity_logits(state.latents.streams, slice(place, place + 1))[0]
        copied = ahead.keys[held] % model.graph.n_entities  # (Y,)
        return logits.double().index_fill_(0, copied, -math.inf)  # (N,)

    def _draw_rest(self, state: LinkWalk, places: Tensor, uniforms: Tensor) -> Tensor:
        """Draw new entities, (Q,), among all others at flat positions."""
        found = torch.empty_like(places)  # (Q,)
        for place in places.unique().tolist():
            logits = self._rest_logits(state, place)[None]  # (1, N)
            sums = (logits - logits.amax(1, keepdim=True)).exp_().cumsum(1)  # (1, N)
            rows = (places == place).nonzero()[:, 0]  # (Q',)
            found[rows] = invert(sums, uniforms[rows, 1][None])[0]
        return found


def _copied_total(ahead: LookAhead, temperature: float) -> Tensor:
    """Return Σ over all new entities that can be copied, logarithm, float64, (B P,)."""
    if temperature not in ahead.copied:
        scaled = ahead.as_new[:, None] / temperature  # (X, 1)
        total = segment_logsumexp(scaled, ahead.owners(), len(ahead.nothing))[:, 0]  # (B P,)
        ahead.copied[temperature] = total
    return ahead.copied[temperature]


def _look_up(keys: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """Return the values (Q,) of wanted keys among rising ones, −inf where one is missing."""
    if not len(keys):
        return torch.full(wanted.shape, -math.inf, dtype=torch.float64, device=wanted.device)
    spot = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)  # (Q,)
    return torch.where(keys[spot] == wanted, values[spot], -math.inf)


def _draw_in_segments(
    logits: Tensor, owner: Tensor, count: int, segments: Tensor, uniforms: Tensor
) -> Tensor:
    """Draw a place of each of some segments of (X,) logits, float64: int64, (Q,).

    Parameters
    ----------
    logits : Tensor
        (X,).
    owner : Tensor
        int64, (X,), rising: the segment of each.
    count : int
        How many segments there are.
    segments : Tensor
        int64, (Q,): none of them empty.
    uniforms : Tensor
        float64 in [0, 1), (Q,).
    """
    offsets = torch.searchsorted(owner, torch.arange(count + 1, device=owner.device))
    start, end = offsets[segments], offsets[segments + 1]  # (Q,), (Q,)
    width = torch.arange(int((end - start).max()), device=owner.device)  # (Y,)
    place = torch.minimum(start[:, None] + width, end[:, None] - 1)  # (Q, Y)
    held = logits[place].masked_fill(start[:, None] + width >= end[:, None], -math.inf)  # (Q, Y)
    sums = (held - held.amax(1, keepdim=True)).exp().cumsum(1)  # (Q, Y)
    return start + invert(sums, uniforms[:, None])[:, 0]
