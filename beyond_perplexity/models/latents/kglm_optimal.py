"""The optimal proposal for KGLM: the latent of a word in proportion to what it makes of the text.

KGLM's recurrent state does not depend on z. So the latents that can say a word are listed with
p(z_t | past) p(x_t | z_t) ρ_t: none, ongoing, the entities whose aliases have it, new or related,
and all others with an estimate of p(x_t | z_t) ρ_t, so that no latent is missed. One is drawn in
proportion; a particle's weight times what it promises grows by the same, whichever is drawn, but
for the estimates and what ρ (`kglm_lookahead`) leaves out.

Temperatures divide the logarithms of what is listed; among far ones and the rest, draws are as in
the model. What is recent keeps its promise to be mentioned again whatever is drawn, but for the
entity that is: its promise is made anew, as a part of ρ_t. K rows (particles), G distinct ones of
them at a word, N entities, X related ones, C recent tokens.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.latents import kglm_latents
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_instances import (
    NEW,
    NONE,
    ONGOING,
    RELATED,
    find_key,
    ranges,
)
from beyond_perplexity.models.latents.kglm_lookahead import AliasIndex, LookAhead, look_ahead
from beyond_perplexity.models.latents.kglm_steps import LatentState, linked_entities
from beyond_perplexity.models.word_by_word import Continuations, OptimalProposal

_FACTOR = 0x5851F42D4C957F2D  # odd; its powers are the weights of a hash
_NONE, _ONGOING, _RELATED, _COPIED, _FAR, _REST = range(6)  # what the first number of a word draws


class Listed(NamedTuple):
    """What rows may choose at a word, each distinct row once; logarithms / τ, float64."""

    group: Tensor  # int64, (K,): the distinct row that each row is like
    # (G, 6): of nothing, ongoing, all related, all new ones that are looked at, the far ones, the
    # rest
    sums: Tensor
    # row, entity, related: (X,) each: distinct row, entity and worth of each related one; in rising
    # order
    row: Tensor
    entity: Tensor
    related: Tensor
    # (G,): how much better the text goes on because of what is recent, not divided by τ
    promise: Tensor


class LinkWalk(NamedTuple):
    """What rows have done so far."""

    latents: LatentState
    ahead: LookAhead  # Of the documents
    # What has been listed in this state, by word and temperature
    listed: dict[tuple[int, float], Listed]

    def select(self, rows: Tensor) -> LinkWalk:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        kept = {key: one._replace(group=one.group[rows]) for key, one in self.listed.items()}
        return LinkWalk(self.latents.select(rows), self.ahead, kept)


class OptimalLinks(OptimalProposal):
    """The proposal; see the module and `OptimalProposal`."""

    word_draws = 2  # which kind of choice, and which one

    model: KGLM
    _index: AliasIndex | None = None

    @torch.no_grad()
    def start(self, batch: InstanceBatch, owner: Tensor) -> LinkWalk:
        """Return the state of rows; see `OptimalProposal.start`."""
        if self._index is None:
            self._index = AliasIndex.of(self.model)
        encoded = self.model.prepare(batch)
        if self not in batch.cache:
            batch.cache[self] = look_ahead(self.model, self._index, encoded)
        latents = LatentState.of(self.model.heads, encoded.streams, owner)
        return LinkWalk(latents, batch.cache[self], {})

    @torch.no_grad()
    def log_twist(self, state: LinkWalk, time: int) -> Tensor:
        """Return log of what rows promise before a word; see `Twisting`."""
        listed = self._list(state, time, 1.0)
        return (listed.sums.logsumexp(1) + listed.promise)[listed.group]

    @torch.no_grad()
    def propose(
        self, state: LinkWalk, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, LinkWalk]:
        """Draw the codes of a word; see `OptimalProposal.propose`."""
        listed, flat = self._list(state, time, temperature), state.latents.flat(time)
        kinds = listed.sums.log_softmax(1).exp().cumsum(1)[listed.group]  # (K, 6)
        item = invert(kinds, uniforms[:, :1])[:, 0]  # (K,)
        entity = torch.full_like(item, -1)  # (K,)
        for wanted in (_RELATED, _COPIED, _FAR, _REST):
            rows = (item == wanted).nonzero()[:, 0]  # (Q,)
            if not len(rows):
                continue
            numbers = uniforms[rows, 1]  # (Q,)
            if wanted == _RELATED:
                groups = listed.group[rows]  # (Q,)
                drawn = _draw_in_segments(listed.related, listed.row, groups, numbers)  # (Q,)
                entity[rows] = listed.entity[drawn]
            elif wanted == _REST:
                entity[rows] = self._draw_rest(state, flat[rows], numbers)
            else:
                keys, logits = state.ahead.begun(wanted == _FAR, temperature)  # (X,), (X,)
                count = self.model.graph.n_entities
                drawn = _draw_in_segments(logits, keys // count, flat[rows], numbers)  # (Q,)
                entity[rows] = keys[drawn] % count
        kind = item.new_tensor([NONE, ONGOING, RELATED, NEW, NEW, NEW])[item]  # (K,)
        codes = kglm_latents.join_link_codes(kind, entity)  # (K,)
        log_q, after = self.follow(state, time, codes, temperature)
        return codes, log_q, after

    @torch.no_grad()
    def follow(
        self, state: LinkWalk, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, LinkWalk]:
        """Take codes for a word; see `OptimalProposal.follow`."""
        listed = self._list(state, time, temperature)
        kinds, entities = kglm_latents.split_link_codes(choice)  # (K,), (K,)
        item = kinds.new_tensor([_NONE, _ONGOING, _COPIED, _RELATED])[kinds]  # (K,)
        worth = listed.sums[listed.group, item]  # (K,)
        rows = (kinds == RELATED).nonzero()[:, 0]  # (Q,)
        if len(rows):
            count = self.model.graph.n_entities
            wanted = listed.group[rows] * count + entities[rows]  # (Q,)
            worth[rows] = _look_up(listed.row * count + listed.entity, listed.related, wanted)
        rows = (kinds == NEW).nonzero()[:, 0]  # (Q,)
        if len(rows):
            ahead, flat = state.ahead, state.latents.flat(time)[rows]  # (Q,)
            keys = flat * self.model.graph.n_entities + entities[rows]  # (Q,)
            logits = self.model.heads.new_logits(state.latents.streams, flat, entities[rows])
            far = find_key(ahead.far_keys, keys)[1]  # (Q,)
            total = torch.where(far, ahead.far.total[flat], ahead.rest.total[flat])  # (Q,)
            other = listed.sums[listed.group[rows], torch.where(far, _FAR, _REST)]  # (Q,)
            worth[rows] = other + logits.double() - total
            spot, there = find_key(ahead.keys, keys)  # (Q,), (Q,)
            as_new = state.latents.kind_log_probs(time, 1.0)[rows, NEW][there]
            worth[rows[there]] = (as_new + ahead.as_new[spot[there]]) / temperature
        log_q = worth - listed.sums.logsumexp(1)[listed.group]  # (K,)
        return log_q, LinkWalk(state.latents.follow(choice, time), state.ahead, {})

    @torch.no_grad()
    def continuations(
        self, state: LinkWalk, time: int, size: int, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses; of the rest just the `size` best entities."""
        listed = self._list(state, time, temperature)
        every = torch.arange(len(listed.group), device=listed.group.device)  # (K,)
        sums = listed.sums.log_softmax(1)[listed.group]  # (K, 6)
        position = int(state.latents.flat(time)[0])
        given = state, position
        begun = [self._begun(*given, way, size, temperature) for way in (_COPIED, _FAR, _REST)]
        items = zip((_COPIED, _FAR, _REST), begun, strict=True)
        wide = torch.cat([sums[:, [item]] + shares for item, (_, shares) in items], 1)  # (K, Y)
        inside = (state.latents.memory.current >= 0).nonzero()[:, 0]  # (K',)
        row, slot = (listed.group[:, None] == listed.row).nonzero(as_tuple=True)  # (X',), (X',)
        related = listed.related[slot] - listed.sums.logsumexp(1)[listed.row[slot]]  # (X',)
        codes = NEW + 2 * torch.cat([one[0] for one in begun])  # (Y,)
        parts = (
            (every, torch.full_like(every, NONE), sums[:, _NONE]),
            (inside, torch.full_like(inside, ONGOING), sums[inside, _ONGOING]),
            (row, RELATED + 2 * listed.entity[slot], related),
            (every.repeat_interleave(len(codes)), codes.repeat(len(every)), wide.flatten()),
        )
        return Continuations(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _begun(
        self, state: LinkWalk, position: int, item: int, size: int, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """List the new entities of an item at a flat position, the `size` best, with log shares."""
        ahead, count = state.ahead, self.model.graph.n_entities
        if item == _REST:
            logits = self._rest_logits(state, position).log_softmax(0)  # (N,)
            best = logits.topk(min(size, int((logits > -torch.inf).sum())))
            return best.indices, best.values
        keys, logits = ahead.begun(item == _FAR, temperature)  # (X,), (X,)
        ends = torch.searchsorted(keys, keys.new_tensor([position, position + 1]) * count).tolist()
        return keys[slice(*ends)] % count, logits[slice(*ends)].log_softmax(0)

    # ---- what is listed ----

    def _list(self, state: LinkWalk, time: int, temperature: float) -> Listed:
        """List the choices at a word, once."""
        if (time, temperature) not in state.listed:
            state.listed[time, temperature] = self._weigh(state, time, temperature)
        return state.listed[time, temperature]

    def _weigh(self, state: LinkWalk, time: int, temperature: float) -> Listed:
        streams, memory = state.latents.streams, state.latents.memory
        ahead, count = state.ahead, self.model.graph.n_entities
        # (K, 2 + C)
        signs = torch.cat([state.latents.owner[:, None], memory.current[:, None], memory.recent], 1)
        distinct, group = _distinct_rows(signs)  # (G, 2 + C), (K,)
        owner, current, recent = distinct[:, 0], distinct[:, 1], distinct[:, 2:]
        flat = owner * streams.positions + time  # (G,)
        masks = (current >= 0) + 2 * (recent >= 0).any(1)  # (G,)
        kinds = self.model.heads.kind_log_probs(streams, 1.0)[owner, time, masks]  # (G, kinds)
        keys, gains = self._promises(ahead, owner, recent, time, streams.positions)  # (Q,), (Q,)
        promise = gains.new_zeros(len(distinct)).index_add(0, keys // count, gains)  # (G,)

        def worth(row: Tensor, entity: Tensor) -> Tensor:
            """Say the word as a mention of entities, (Q,), that may be recent."""
            found, there = ahead.word_of(flat[row] * count + entity, flat[row])  # (Q,), (Q,)
            return found - there * _look_up(keys, gains, row * count + entity, 0.0)

        going = worth(torch.arange(len(distinct), device=flat.device), current.clamp_min(0))
        row, entity, related = linked_entities(self.model.heads, streams, flat, recent, 1.0)
        related = related + worth(row, entity)  # (X,)
        related = (related + kinds[row, RELATED]) / temperature  # (X,)
        sums = [
            (kinds[:, NONE] + ahead.nothing[flat]) / temperature,
            (kinds[:, ONGOING] + going) / temperature,
            kglm_latents.segment_logsumexp(related[:, None], row, len(distinct))[:, 0],
            kinds[:, NEW] / temperature + self._copied_total(ahead, flat, temperature),
            (kinds[:, NEW] + ahead.far.together[flat]) / temperature,
            (kinds[:, NEW] + ahead.rest.together[flat]) / temperature,
        ]
        return Listed(group, torch.stack(sums, 1), row, entity, related, promise)

    def _promises(
        self, ahead: LookAhead, owner: Tensor, recent: Tensor, time: int, positions: int
    ) -> tuple[Tensor, Tensor]:
        """Return what each recent entity of rows, (G, C), promises after a word: keys row · N +
        entity, rising, and logarithms, (Q,) each."""
        count, cutoff = self.model.graph.n_entities, recent.shape[1]
        row, slot = (recent >= 0).nonzero(as_tuple=True)  # (Q,), (Q,)
        entity = recent[row, slot]  # (Q,)
        since = (time - 1 - slot) % cutoff  # (Q,): 0 of the word before
        end = (time + cutoff - since).clamp_max(positions)  # (Q,)
        own = (owner[row] * count + entity) * positions  # (Q,)
        gains = ahead.mentioned_again(own + time + 1, own + end)  # (Q,)
        keys, order = (row * count + entity).sort()
        return keys, gains[order]

    def _copied_total(self, ahead: LookAhead, flat: Tensor, temperature: float) -> Tensor:
        """Return the sum over all new entities that are looked at, float64, for positions (G,)."""
        distinct, back = flat.unique(return_inverse=True)  # (B',), (G,)
        count = self.model.graph.n_entities
        start, end = (torch.searchsorted(ahead.keys, (distinct + i) * count) for i in (0, 1))
        owner, pair = ranges(start, end)  # (X',), (X',)
        scaled = ahead.as_new[pair, None] / temperature  # (X', 1)
        return kglm_latents.segment_logsumexp(scaled, owner, len(distinct))[back, 0]

    # ---- draws among what is listed ----

    def _rest_logits(self, state: LinkWalk, position: int) -> Tensor:
        """Return the logits of all new entities at a flat position, −inf but for the rest, (N,)."""
        count = self.model.graph.n_entities
        logits = (
            self.model.heads.entity_logits_at(state.latents.streams, position)[0].double().clone()
        )
        for keys in (state.ahead.keys, state.ahead.far_keys):
            limits = keys.new_tensor([position, position + 1]) * count
            ends = torch.searchsorted(keys, limits).tolist()
            logits[keys[slice(*ends)] % count] = -math.inf
        return logits

    def _draw_rest(self, state: LinkWalk, flat: Tensor, uniforms: Tensor) -> Tensor:
        """Draw new entities, (Q,), among all others at flat positions."""
        found = torch.empty_like(flat)  # (Q,)
        for position in flat.unique().tolist():
            logits = self._rest_logits(state, position)[None]  # (1, N)
            sums = (logits - logits.amax(1, keepdim=True)).exp_().cumsum(1)  # (1, N)
            rows = (flat == position).nonzero()[:, 0]  # (Q',)
            found[rows] = invert(sums, uniforms[rows][None])[0]
        return found


def _distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Find the distinct rows of whole numbers (K, C): (G, C), and which each is, (K,), by hashes,
    as sorting whole rows takes longer than all that is done with them."""
    factors = torch.full((rows.shape[1],), _FACTOR, device=rows.device).cumprod(0)  # (C,)
    group = (rows * factors).sum(1).unique(return_inverse=True)[1]  # (K,)
    first = torch.empty_like(group).scatter_(0, group, torch.arange(len(group), device=rows.device))
    distinct = rows[first[: int(group.max()) + 1]]  # (G, C)
    if torch.equal(distinct[group], rows):
        return distinct, group
    distinct, group = rows.unique(dim=0, return_inverse=True)
    return distinct, group


def _look_up(keys: Tensor, values: Tensor, wanted: Tensor, otherwise: float = -math.inf) -> Tensor:
    """Return the values (Q,) of wanted keys among rising ones, another where one is missing."""
    spot, there = find_key(keys, wanted)  # (Q,), (Q,)
    missing = values.new_full(wanted.shape, otherwise)  # (Q,)
    return torch.where(there, values[spot], missing) if len(keys) else missing


def _draw_in_segments(logits: Tensor, owner: Tensor, wanted: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a position of each `wanted` segment, (Q,), none empty, by `uniforms`, (Q,): int64, (Q,);
    of the `logits`, float64, (X,), `owner`, rising, are the segments."""
    start = torch.searchsorted(owner, wanted)  # (Q,)
    end = torch.searchsorted(owner, wanted, right=True)  # (Q,)
    # (Q, Y)
    position = start[:, None] + torch.arange(int((end - start).max()), device=owner.device)
    held = logits[position.clamp_max(len(logits) - 1)]  # (Q, Y)
    held = held.masked_fill(position >= end[:, None], -math.inf)  # (Q, Y)
    sums = (held - held.amax(1, keepdim=True)).exp().cumsum(1)  # (Q, Y)
    return start + invert(sums, uniforms[:, None])[:, 0]
