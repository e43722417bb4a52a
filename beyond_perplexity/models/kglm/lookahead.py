"""What is worked out of a document once, so that KGLM's latents can be chosen word by word.

* Which entities can say a word by a copy: an index from spellings to entities. Of a common word
  those that are most probable as new ones are taken, and those of the word before that go on.
* For each such pair of a place and an entity log p(x_t | h, e), and how much better the text goes
  on with e as the current entity than without one: a backward message ρ_t(e) = β_t(e) / β_t(none),
  β the probability of the words from t + 1 on. It is approximate: it takes a related entity for a
  new one, takes it that some entity is recent, and that a word which no alias has is generated
  half as well as without a mention. Nothing that uses ρ needs more: it is part of a proposal, and
  of what particles promise (Guarniero, Johansen & Lee 2017).

All other entities are taken together, as if none were worth more than another: the *rest*.

B instances, P positions, N entities, W spellings, X pairs of a place and an entity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from beyond_perplexity.models.kglm.instances import NEW, NONE, ONGOING, RELATED
from beyond_perplexity.models.kglm.knowledge_graph import ranges
from beyond_perplexity.models.kglm.latents import LINK_CHUNK, segment_logsumexp
from beyond_perplexity.models.kglm.model import KGLM, EncodedLinks

CANDIDATES = 64  # entities of a word that are looked at one by one, before those that go on
GENERATED = math.log(0.5)  # a word of a mention that no alias has, beside one without a mention


class AliasIndex(NamedTuple):
    """Which entities have an alias with a word.

    Attributes
    ----------
    offsets : Tensor
        int64, (W + 1,): entities [offsets[w], offsets[w + 1]) have spelling w.
    entities : Tensor
        int64, rising within a spelling.
    """

    offsets: Tensor
    entities: Tensor

    @classmethod
    def of(cls, model: KGLM) -> AliasIndex:
        """Turn the aliases of a model around."""
        words = model.alias_words  # (N, S, L)
        held, count = (words >= 0).nonzero(as_tuple=True), model.graph.n_entities
        keys = (words[held].long() * count + held[0]).unique()  # rising
        spellings = torch.arange(model.graph.sizes["words"] + 1, device=keys.device)  # (W + 1,)
        return cls(torch.searchsorted(keys, spellings * count), keys % count)

    def of_words(self, spellings: Tensor) -> tuple[Tensor, Tensor]:
        """List the entities of words, int64, (P,), −1 for none: (place, entity), (X,) each."""
        known = spellings.clamp_min(0)  # (P,)
        start = self.offsets[known]  # (P,)
        end = torch.where(spellings < 0, start, self.offsets[known + 1])  # (P,)
        place, slot = ranges(start, end)  # (X,), (X,)
        return place, self.entities[slot]


class LookAhead(NamedTuple):
    """What the choices at each word of a batch are worth; logarithms, float64, with ρ.

    Attributes
    ----------
    keys : Tensor
        int64, (X,), rising: flat position · N + entity, of the pairs that are looked at.
    as_new : Tensor
        (X,): log p(e) p(x | e) ρ(e).
    as_word : Tensor
        (X,): log p(x | e) ρ(e).
    offsets : Tensor
        int64, (B P + 1,): where the pairs of each position begin.
    nothing : Tensor
        (B P,): log p(x) without a mention; 0 beyond the end.
    other : Tensor
        (B P,): `as_word` of an entity of the rest, about.
    rest : Tensor
        (B P,): `as_new` of the rest together, about.
    rest_total : Tensor
        (B P,): logsumexp of the logits of its entities as new ones.
    copied : dict of float to Tensor
        Σ of `as_new` at each position, by the temperature that divides it before, (B P,).
    """

    keys: Tensor
    as_new: Tensor
    as_word: Tensor
    offsets: Tensor
    nothing: Tensor
    other: Tensor
    rest: Tensor
    rest_total: Tensor
    copied: dict[float, Tensor]

    def find(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Look up keys, (Q,): their places, int64, and whether they are there, bool."""
        if not len(self.keys):
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        place = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)  # (Q,)
        return place, self.keys[place] == keys

    def owners(self) -> Tensor:
        """Return the flat position of each pair, int64, (X,)."""
        return torch.repeat_interleave(self.offsets.diff())


def look_ahead(model: KGLM, index: AliasIndex, encoded: EncodedLinks) -> LookAhead:
    """Work out what each document of a batch needs, from its end to its beginning."""
    streams = encoded.streams
    found = [
        _of_document(model, index, encoded, number, length)
        for number, length in enumerate(streams.lengths.tolist())
    ]
    keys, as_new, as_word, *each = (torch.cat(parts) for parts in zip(*found, strict=True))
    places = torch.arange(streams.lengths.shape[0] * streams.positions + 1, device=keys.device)
    offsets = torch.searchsorted(keys, places * model.graph.n_entities)  # (B P + 1,)
    nothing, other, rest, rest_total = each
    return LookAhead(keys, as_new, as_word, offsets, nothing, other, rest, rest_total, {})


def _of_document(
    model: KGLM, index: AliasIndex, encoded: EncodedLinks, number: int, length: int
) -> tuple[Tensor, ...]:
    """Return what `LookAhead` has of one document, but for the offsets."""
    streams, count = encoded.streams, model.graph.n_entities
    first = number * streams.positions
    place, entity = _candidates(model, index, encoded, number, length)  # (X,), (X,)
    keys = (first + place) * count + entity  # (X,)
    words = model.score_unique(encoded, first + place, entity).logsumexp(1)  # (X,)
    logits, rest = _new_logits(model, encoded, first, length, place, entity)  # (X,), (P,)
    own = segment_logsumexp(logits[:, None], place, streams.positions)[:, 0]  # (P,)
    total = torch.logaddexp(own, rest)  # (P,)
    at = torch.arange(streams.positions, device=keys.device)  # (P,)
    generated = encoded.generated[number]  # (P,)
    other = torch.where(at < length, generated + GENERATED, -math.inf)  # (P,)
    new = logits - total[place]  # (X,)
    beyond = _Messages(model, encoded, number, place, keys - first * count)
    rho, rho_rest = beyond.run(words, new, other, rest - total, length)  # (X,), (P,)
    return (
        keys,
        new + words + rho,
        words + rho,
        generated.masked_fill(at >= length, 0.0),
        other + rho_rest,
        torch.where(at < length, rest - total + other + rho_rest, -math.inf),
        rest,
    )


def _candidates(
    model: KGLM, index: AliasIndex, encoded: EncodedLinks, number: int, length: int
) -> tuple[Tensor, Tensor]:
    """Choose entities that can copy each word of a document: (place, entity), (X,), rising."""
    streams, count = encoded.streams, model.graph.n_entities
    place, entity = index.of_words(encoded.targets.spellings[number, :length])  # (Y,), (Y,)
    if not len(place):
        return place, entity
    mixed = streams.head[number] + streams.relation[number]  # (P, d)
    logits = (mixed[place] * model.graph.entities[entity]).sum(1) + model.heads.entity_bias[entity]
    order = logits.argsort(descending=True, stable=True)  # (Y,)
    order = order[place[order].argsort(stable=True)]  # (Y,): by place, the most probable first
    starts = torch.searchsorted(place, place)  # (Y,)
    rank = torch.arange(len(place), device=place.device) - starts  # (Y,)
    every = place * count + entity  # (Y,), rising
    kept = every[order[rank < CANDIDATES]].sort().values  # (X,)
    for _ in range(model.options.alias_words - 1):
        following = kept + count  # of the next word
        following = following[torch.isin(following, every) & ~torch.isin(following, kept)]
        if not len(following):
            break
        kept = torch.cat([kept, following]).sort().values
    return kept // count, kept % count


def _new_logits(
    model: KGLM, encoded: EncodedLinks, first: int, length: int, place: Tensor, entity: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the logits of candidates as new entities, (X,), and of the rest together, (P,)."""
    positions = encoded.streams.positions
    ends = torch.searchsorted(place, torch.arange(positions + 1, device=place.device))  # (P + 1,)
    own, rest = [], []
    for start in range(0, positions, LINK_CHUNK):
        stop = min(start + LINK_CHUNK, positions)
        part = slice(first + start, first + stop)
        logits = model.heads.entity_logits(encoded.streams, part).double()  # (C, N)
        held = slice(int(ends[start]), int(ends[stop]))
        at = place[held] - start, entity[held]
        own.append(logits[at])
        logits[at] = -math.inf
        rest.append(logits.logsumexp(1))
    return torch.cat(own), torch.cat(rest)


class _Messages:
    """The backward messages of one document; X candidates, P positions."""

    def __init__(
        self, model: KGLM, encoded: EncodedLinks, number: int, place: Tensor, keys: Tensor
    ) -> None:
        kinds = model.heads.kind_log_probs(encoded.streams, 1.0)[number]  # (P, masks, kinds)
        linked = 2 * int(len(model.graph.edge_keys) > 0)
        self.free, self.within = kinds[:, linked], kinds[:, linked + 1]  # (P, kinds) each
        self.generated = encoded.generated[number]  # (P,)
        positions = torch.arange(len(self.generated) + 1, device=keys.device)  # (P + 1,)
        self.ends = torch.searchsorted(place, positions).tolist()
        following = keys + model.graph.n_entities  # (X,)
        spot = torch.searchsorted(keys, following).clamp_max(max(len(keys) - 1, 0))  # (X,)
        self.next = torch.where(keys[spot] == following, spot, -1) if len(keys) else spot  # (X,)

    def run(
        self, words: Tensor, new: Tensor, other: Tensor, rest: Tensor, length: int
    ) -> tuple[Tensor, Tensor]:
        """Return log ρ of the candidates, (X,), and of an entity of the rest, (P,).

        Parameters
        ----------
        words, new : Tensor
            (X,): log p(x | e) and log p(e).
        other, rest : Tensor
            (P,): log p(x | e) of an entity of the rest, log p of the rest.
        length : int
            T.
        """
        rho, rho_rest = torch.zeros_like(words), torch.zeros_like(other)  # (X,), (P,)
        for time in reversed(range(length)):
            after = time + 1  # the position whose kind is chosen next
            none = self.generated[after]
            free = [self.free[after, NONE] + none]
            within = [self.within[after, NONE] + none]
            going = rho.new_full((), -math.inf)
            if after < length:
                held = slice(self.ends[after], self.ends[after + 1])
                begun = torch.cat(
                    [new[held] + words[held] + rho[held], (rest + other + rho_rest)[after, None]]
                ).logsumexp(0)
                for kind in (NEW, RELATED):
                    free.append(self.free[after, kind] + begun)
                    within.append(self.within[after, kind] + begun)
                going = self.within[after, ONGOING] + other[after] + rho_rest[after]
            below = torch.stack(free).logsumexp(0)
            same = torch.stack(within).logsumexp(0)
            rho_rest[time] = torch.logaddexp(same, going) - below
            own = slice(self.ends[time], self.ends[time + 1])
            spot = self.next[own]  # (X',)
            held_on = self.within[after, ONGOING] + words[spot] + rho[spot]  # (X',)
            held_on = torch.where(spot >= 0, held_on, going)  # (X',)
            rho[own] = torch.logaddexp(same, held_on) - below
        return rho, rho_rest
