"""What is worked out of a document once, so that KGLM's latents can be chosen word by word.

* Which entities can copy a word: an index from spellings to entities. Of a common word the most
  probable as new ones are taken, and those of the words beside it that go on or began before ("of
  asia"); the others that have it are *far*. All that do not have it are the *rest*.
* For each such pair of a position and an entity log p(x_t | h, e), and how much better the text
  goes on with e as the current entity than without one: ρ_t(e) = β_t(e) / β_t(none), β the
  probability of the words from t + 1 on. But for mentions of e itself it takes a related entity for
  a new one, and takes it that some entity is recent: it need not be exact, as it is part of a
  proposal, and of what particles promise (Guarniero, Johansen & Lee 2017).
* How much better the text is where e, being recent, is mentioned again, by an edge to itself, for
  as long as it is recent. The other parents are not known: e is one of `RECENT_PARENTS` alike.
* What stands for the others: of far ones the mean of those that were looked at there, of the rest
  what a mention generates on average in the document, beside what is generated without one.

B instances, P positions, N entities, W spellings, X pairs of a position and an entity that are
looked at, Y far ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.models.latents.kglm import KGLM, EncodedLinks
from beyond_perplexity.models.latents.kglm_instances import (
    NEW,
    NONE,
    ONGOING,
    RELATED,
    find_key,
    ranges,
)
from beyond_perplexity.models.latents.kglm_latents import ENTITY_CHUNK, segment_logsumexp

CANDIDATES = 64  # entities of a word that are looked at one by one, before those that go on
RECENT_PARENTS = 10  # entities that are recent where one is mentioned again, about
GENERATED = math.log(0.5)  # of a word in a mention, beside one without: where nothing was looked at


class AliasIndex(NamedTuple):
    """Which entities have an alias with a word."""

    offsets: Tensor  # int64, (W + 1,): entities [offsets[w], offsets[w + 1]) have spelling w
    entities: Tensor  # int64, rising within a spelling

    @classmethod
    def of(cls, model: KGLM) -> AliasIndex:
        """Turn the aliases of a model around."""
        words = model.alias_words  # (N, S, L)
        held, count = (words >= 0).nonzero(as_tuple=True), model.graph.n_entities
        keys = (words[held].long() * count + held[0]).unique()  # rising
        width = max(1, model.graph.sizes["words"])
        spellings = torch.arange(width + 1, device=keys.device)  # (W + 1,)
        return cls(torch.searchsorted(keys, spellings * count), keys % count)

    def of_words(self, spellings: Tensor) -> tuple[Tensor, Tensor]:
        """List the entities of words, int64, (P,), −1 for none: (position, entity), (X,) each."""
        known = spellings.clamp_min(0)  # (P,)
        start = self.offsets[known]  # (P,)
        end = torch.where(spellings < 0, start, self.offsets[known + 1])  # (P,)
        position, slot = ranges(start, end)  # (X,), (X,)
        return position, self.entities[slot]


class Others(NamedTuple):
    """What stands for entities that are not looked at one by one; logarithms, float64, (B P,)."""

    as_word: Tensor  # log p(x | e) ρ(e) of each, about
    together: Tensor  # log Σ p(e) p(x | e) ρ(e) over them as new ones, about
    total: Tensor  # logsumexp of their logits as new ones


class LookAhead(NamedTuple):
    """What the choices at each word of a batch are worth; logarithms, float64, with ρ."""

    keys: Tensor  # int64, (X,), rising: flat position · N + entity, of the pairs that are looked at
    as_new: Tensor  # (X,): log p(e) p(x | e) ρ(e)
    as_word: Tensor  # (X,): log p(x | e) ρ(e)
    far_keys: Tensor  # int64, (Y,), rising: of the far ones
    far_logits: Tensor  # (Y,): as new ones
    nothing: Tensor  # (B P,): log p(x) without a mention; 0 beyond the end
    # int64, (X,), rising: (instance · N + entity) · P + position, of the pairs that are looked at
    again_keys: Tensor
    # (X,): how much better the text is with a related mention there, the entity being recent
    again: Tensor
    far: Others
    rest: Others

    def begun(self, far: bool, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the keys, and by what they are drawn as new ones, of far ones or the others."""
        if far:
            return self.far_keys, self.far_logits
        return self.keys, self.as_new / temperature

    def word_of(self, keys: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return about log p(x | e) ρ(e) of keys (Q,) at flat positions (Q,), and whether each was
        looked at, so that ρ(e) has what e promises, bool, (Q,)."""
        far = find_key(self.far_keys, keys)[1]  # (Q,)
        other = torch.where(far, self.far.as_word[flat], self.rest.as_word[flat])  # (Q,)
        spot, there = find_key(self.keys, keys)  # (Q,), (Q,)
        return (torch.where(there, self.as_word[spot], other) if len(self.keys) else other), there

    def mentioned_again(self, first: Tensor, last: Tensor) -> Tensor:
        """Return log of 1 + Σ `again` over the keys [first, last), (Q,) each: (Q,)."""
        ends = (torch.searchsorted(self.again_keys, end) for end in (first, last))
        owner, position = ranges(*ends)
        found = segment_logsumexp(self.again[position, None], owner, len(first))[:, 0]  # (Q,)
        return functional.softplus(found)


def look_ahead(model: KGLM, index: AliasIndex, encoded: EncodedLinks) -> LookAhead:
    """Work out what each document of a batch needs, from its end to its beginning."""
    return _join(
        [
            _Document(model, encoded, number, length).look(index)
            for number, length in enumerate(encoded.streams.lengths.tolist())
        ]
    )


def _join(parts: Sequence[Any]) -> Any:
    """Join tuples of tensors field by field."""
    if isinstance(parts[0], Tensor):
        return torch.cat(list(parts))
    return type(parts[0])(*map(_join, zip(*parts, strict=True)))


class _Document:
    """One document of a batch; P positions, T words, X pairs that are looked at, Y far ones."""

    def __init__(self, model: KGLM, encoded: EncodedLinks, number: int, length: int) -> None:
        self.model, self.encoded, self.number, self.length = model, encoded, number, length
        self.positions = encoded.streams.positions
        self.first = number * self.positions  # its first flat position
        self.generated = encoded.generated[number]  # (P,)

    def look(self, index: AliasIndex) -> LookAhead:
        """Work out what `LookAhead` has of the document."""
        count = self.model.graph.n_entities
        at, held = index.of_words(self.encoded.targets.spellings[self.number, : self.length])
        everyone = at * count + held  # (X + Y,)
        keys = self._choose(everyone)  # (X,)
        far_keys = everyone[~torch.isin(everyone, keys)]  # (Y,)
        position, entity = keys // count, keys % count  # (X,), (X,)
        logits, far_logits, rest = self._logits(keys, far_keys)  # (X,), (Y,), (P,)
        far = self._sum(far_logits, far_keys // count)  # (P,)
        total = torch.stack([self._sum(logits, position), far, rest]).logsumexp(0)  # (P,)
        pairs = self.model.score_unique(self.encoded, self.first + position, entity)  # (X, 2)
        words, new = pairs.logsumexp(1), logits - total[position]  # (X,), (X,)
        inside = torch.arange(self.positions, device=keys.device) < self.length  # (P,)
        ratio = pairs.new_tensor(GENERATED)
        if len(keys):
            ratio = (pairs[:, 0] - self.generated[position]).logsumexp(0) - math.log(len(keys))
        other = torch.where(inside, self.generated + ratio, -math.inf)  # (P,)
        messages = _Messages(self.model, self.encoded, self.number, keys)
        shares = far - total, rest - total  # (P,), (P,)
        rho, again, far_word, rest_word = messages.run(words, new, other, shares, self.length)
        by_entity = (entity * self.positions + position).sort()  # (X,)
        shift = self.first * count
        near = keys + shift, new + words + rho, words + rho
        nothing = self.generated.masked_fill(~inside, 0.0)  # (P,)
        mentioned = by_entity.values + shift, again[by_entity.indices]  # (X,), (X,)
        words_of = (far_word, shares[0], far), (rest_word, shares[1], rest)
        others = [Others(word, share + word, total) for word, share, total in words_of]
        return LookAhead(*near, far_keys + shift, far_logits, nothing, *mentioned, *others)

    def _sum(self, logits: Tensor, position: Tensor) -> Tensor:
        return segment_logsumexp(logits[:, None], position, self.positions)[:, 0]  # (P,)

    def _choose(self, every: Tensor) -> Tensor:
        """Choose which pairs of a word and an entity that has it are looked at, keys (X,)."""
        streams, count = self.encoded.streams, self.model.graph.n_entities
        position, entity = every // count, every % count  # (X + Y,)
        logits = self.model.heads.new_logits(streams, self.first + position, entity)  # (X + Y,)
        order = logits.argsort(descending=True, stable=True)  # (X + Y,)
        order = order[position[order].argsort(stable=True)]  # by position, the most probable first
        starts = torch.searchsorted(position, position)  # (X + Y,)
        rank = torch.arange(len(position), device=position.device) - starts  # (X + Y,)
        kept = every[order[rank < CANDIDATES]].sort().values  # (X,)
        found = kept
        for _ in range(self.model.options.alias_words - 1):
            beside = torch.cat([found + count, found - count]).unique()  # of the words beside
            found = beside[torch.isin(beside, every) & ~torch.isin(beside, kept)]
            if not len(found):
                break
            kept = torch.cat([kept, found]).sort().values
        return kept

    def _logits(self, keys: Tensor, far_keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits as new entities: (X,), (Y,), and those of the rest summed up, (P,)."""
        count, found = self.model.graph.n_entities, []
        for start in range(0, self.positions, ENTITY_CHUNK):
            stop = min(start + ENTITY_CHUNK, self.positions)
            part = slice(self.first + start, self.first + stop)
            logits = self.model.heads.entity_logits(self.encoded.streams, part).double().flatten()
            held = []
            for some in (keys, far_keys):
                ends = torch.searchsorted(some, some.new_tensor([start, stop]) * count).tolist()
                at = some[slice(*ends)] - start * count
                held.append((at, logits[at]))
            for at, _ in held:
                logits[at] = -math.inf
            rest = logits.view(stop - start, count).logsumexp(1)  # (C,)
            found.append((held[0][1], held[1][1], rest))
        own, far, rest = (torch.cat(parts) for parts in zip(*found, strict=True))
        return own, far, rest


class _Messages:
    """The backward messages of one document; X candidates, P positions."""

    def __init__(self, model: KGLM, encoded: EncodedLinks, number: int, keys: Tensor) -> None:
        kinds = model.heads.kind_log_probs(encoded.streams, 1.0)[number]  # (P, masks, kinds)
        linked = 2 * int(len(model.graph.edge_keys) > 0)
        self.free, self.within = kinds[:, linked], kinds[:, linked + 1]  # (P, kinds) each
        self.generated, count = encoded.generated[number], model.graph.n_entities
        positions = torch.arange(len(self.generated) + 1, device=keys.device)  # (P + 1,)
        self.ends = torch.searchsorted(keys, positions * count).tolist()
        spot, there = find_key(keys, keys + count)  # (X,), (X,)
        self.next = torch.where(there, spot, -1)  # (X,)
        position, entity = keys // count, keys % count  # (X,), (X,)
        self.column = entity.unique(return_inverse=True)[1]  # (X,)
        self.cutoff = model.graph.cutoff
        able = (model.graph.degrees[entity] > 0).nonzero()[:, 0]  # (X',)
        chosen = number * encoded.streams.positions + position, entity, (able, entity[able])
        loops = model.heads.related_log_probs(encoded.streams, *chosen, [1.0])[:, 0]  # (X,)
        self.again = loops - math.log(RECENT_PARENTS) + self.free[position, RELATED]  # (X,)

    def run(
        self,
        words: Tensor,
        new: Tensor,
        other: Tensor,
        shares: tuple[Tensor, Tensor],
        length: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return log ρ, `LookAhead.again`, (X,), and log p(x | e) ρ(e) of far and rest, (P,).

        `words`, `new`: log p(x | e) and log p(e), (X,); `other`: about log p(x | e) of the rest,
        (P,); `shares`: log p of a new entity that is far, or of the rest, (P,) each; `length`: T.
        """
        rho, again = torch.zeros_like(words), torch.full_like(words, -math.inf)  # (X,), (X,)
        width = int(self.column.max()) + 1 if len(words) else 0
        ring = words.new_full((self.cutoff, width), -math.inf)  # `again` at the next C positions
        far, rest = torch.full_like(other, -math.inf), torch.full_like(other, -math.inf)  # (P,)
        for time in reversed(range(length)):
            after = time + 1  # the position whose kind is chosen next
            held = slice(self.ends[after], self.ends[after + 1])
            begun = [new[held] + words[held] + rho[held]]
            ways = zip(shares, (far, rest), strict=True)
            begun += [(share + one)[after, None] for share, one in ways]
            mention = torch.cat(begun).logsumexp(0)  # −inf after the last word
            gone = torch.stack([self.generated[after], mention, mention])  # without, new, related
            below = (self.free[after, [NONE, NEW, RELATED]] + gone).logsumexp(0)
            same = (self.within[after, [NONE, NEW, RELATED]] + gone).logsumexp(0)
            again[held] = self.again[held] + words[held] + rho[held] - below
            ring[after % self.cutoff] = -math.inf
            ring[after % self.cutoff, self.column[held]] = again[held]
            ongoing = self.within[after, ONGOING]
            own = slice(self.ends[time], self.ends[time + 1])
            spot = self.next[own]  # (X',)
            gain = functional.softplus(ring[:, self.column[own]].logsumexp(0))  # (X',)
            held_on = torch.where(spot >= 0, words[spot] + rho[spot], rest[after] + gain)  # (X',)
            rho[own] = torch.logaddexp(same + gain, ongoing + held_on) - below
            rest[time] = other[time] + torch.logaddexp(same, ongoing + rest[after]) - below
            if own.stop > own.start:
                worth = (words[own] + rho[own] - gain).logsumexp(0)
                far[time] = worth - math.log(own.stop - own.start)
        return rho, again, far, rest
