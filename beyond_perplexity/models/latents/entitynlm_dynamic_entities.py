"""Entities whose vectors change as a text mentions them: what EntityNLM and its proposals share.

The latents of a word are z = (t, e, l): is it in a mention, of which entity, how many words are to
come. l runs down to 0 without choice, and may run past the end of the text (Ji et al. 2017;
notation of Logan, Gardner & Singh 2020). Its code is 0 outside mentions, else 1 + `RADIX` · e + l,
entities numbered from 0 by their first mention in the document.

B instances, R rows, T words, D width, E entities at most, M words of a mention at most, A
temperatures.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    CorpusFiles,
    Instance,
    InstanceBatch,
    MentionSpan,
    encode_with_text,
    without_overlaps,
)
from beyond_perplexity.models.latent import PADDING, LatentModule
from beyond_perplexity.vocabulary import Vocabulary

RADIX = 1024


def chosen_mentions(
    spans: Iterable[MentionSpan], maximum_length: int, maximum_entities: int
) -> list[MentionSpan]:
    """Choose mentions in the order of the text: those too long are left out first, then those that
    overlap (`without_overlaps`), at last those of an entity too many."""
    short = [span for span in spans if span.end - span.start <= maximum_length]
    chosen: list[MentionSpan] = []
    entities: set[str] = set()
    for span in without_overlaps(short):
        if span.entity in entities or len(entities) < maximum_entities:
            entities.add(span.entity)
            chosen.append(span)
    return chosen


def mention_codes(mentions: Sequence[MentionSpan], length: int) -> np.ndarray:
    """Write mentions that do not overlap, in the order of the text, as codes, int64, (length,)."""
    codes = np.zeros(length, np.int64)
    numbers: dict[str, int] = {}
    for span in mentions:
        entity = numbers.setdefault(span.entity, len(numbers))
        remaining = np.arange(span.end - span.start - 1, -1, -1)
        codes[span.start : span.end] = 1 + RADIX * entity + remaining
    return codes


# The distance to the last mention is counted in hundreds of words: only the pace of learning
# depends on it.
DISTANCE_UNIT = 100.0


class Codes(NamedTuple):
    """A reading of rows of codes."""

    mention: Tensor  # bool, (R, T): t
    entity: Tensor  # entity, remaining: int64, (R, T): e from 0, and l; 0 outside mentions
    remaining: Tensor
    starts: Tensor  # bool, (R, T): the first word of a mention
    free: Tensor  # bool, (R, T): t is decided here
    known: Tensor  # int64, (R, T): entities of the words before
    running: Tensor  # bool, (R,): the last mention runs past the end
    # bool, (R,): false where a row is no canonical form within the caps; nothing else of it counts
    possible: Tensor


def split_mention_codes(codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return t, e and l of codes of any shape."""
    mention = codes > 0
    inner = (codes - 1).clamp(min=0)
    return mention, inner // RADIX, inner % RADIX


def join_mention_codes(mention: Tensor, entity: Tensor, remaining: Tensor) -> Tensor:
    """Return codes, int64, of t, e and l."""
    return torch.where(mention, 1 + RADIX * entity + remaining, 0)


def read_codes(
    latents: Tensor, lengths: Tensor, width: int, maximum_entities: int, maximum_length: int
) -> Codes:
    """Read rows of z, int64, (R, W), of documents of the given lengths (R,), T words at most."""
    missing = width - latents.shape[1]
    outside = (latents[:, width:] != PADDING).any(1)  # (R,)
    codes = functional.pad(latents[:, :width], (0, max(0, missing)), value=PADDING)  # (R, T)
    inside = torch.arange(width, device=codes.device) < lengths[:, None]  # (R, T)
    mention, entity, remaining = split_mention_codes(codes)  # (R, T)
    before = [functional.pad(part, (1, 0))[:, :-1] for part in (mention, entity, remaining)]
    goes_on = before[0] & (before[2] > 0)  # (R, T)
    kept = mention & (entity == before[1]) & (remaining == before[2] - 1)  # (R, T)
    named = torch.where(mention, entity + 1, 0).cummax(1).values  # (R, T)
    known = functional.pad(named, (1, 0))[:, :-1]  # (R, T)
    allowed = (entity <= known) & (entity < maximum_entities) & (remaining < maximum_length)
    right = torch.where(goes_on, kept, ~mention | allowed)  # (R, T)
    possible = ((inside == (codes >= 0)) & (~inside | right)).all(1) & ~outside  # (R,)
    mention = mention & possible[:, None]
    last = (lengths - 1)[:, None]  # (R, 1)
    running = mention.gather(1, last)[:, 0] & (remaining.gather(1, last)[:, 0] > 0)  # (R,)
    entity, remaining = (held.masked_fill(~mention, 0) for held in (entity, remaining))
    begins, free = mention & ~goes_on, inside & ~goes_on  # (R, T)
    return Codes(mention, entity, remaining, begins, free, known, running, possible)


class Steps(NamedTuple):
    """What the words of a document contribute to the choices of z; nothing of it depends on z."""

    begin: Tensor  # (B, T): logit of t = 1
    fresh: Tensor  # (B, T): logit of a new entity
    query: Tensor  # (B, T, D): its product with an entity's vector is the logit of that entity
    extent: Tensor  # (B, T, M): logits of l, without the entity's part
    gate: Tensor  # (B, T, D): its product with an entity's vector is the logit of δ
    update: Tensor  # (B, T, D): what a visited entity's vector is mixed with

    def at(self, owner: Tensor, time: int | Tensor) -> Steps:
        """Return the parts of rows (R,) at one time, or (R,): (R, ...)."""
        return Steps(*(part[owner, time] for part in self))

    @staticmethod
    def padded(parts: Sequence[Steps]) -> Steps:
        """Join the steps of single documents, (1, T, ...) each."""
        pad = nn.utils.rnn.pad_sequence
        fields = zip(*parts, strict=True)
        return Steps(*(pad([part[0] for part in field], batch_first=True) for field in fields))


class EntityMemory(NamedTuple):
    """The entities of R rows."""

    vectors: Tensor  # (R, E, D)
    last: Tensor  # int64, (R, E): time of the last visit
    known: Tensor  # int64, (R,): entities so far

    def select(self, rows: Tensor) -> EntityMemory:
        """Return the memory whose row i is row ``rows[i]`` of this one."""
        return EntityMemory(*(part.index_select(0, rows) for part in self))


class DynamicEntities(nn.Module):
    """The choices of t, e and l, and the vectors of the entities; `noise` is the standard deviation
    of what is added to the vector of a new entity in training."""

    def __init__(
        self, width: int, maximum_entities: int, maximum_length: int, noise: float
    ) -> None:
        super().__init__()
        self.maximum_entities, self.maximum_length = maximum_entities, maximum_length
        self.width, self._noise = width, noise
        self.begin = nn.Linear(width, 1)
        self.entity = nn.Linear(width, width, bias=False)
        self.distance = nn.Parameter(torch.zeros(()))
        self.fresh = nn.Parameter(torch.randn(width))  # (D,)
        self.extent_by_text = nn.Linear(width, maximum_length)
        self.extent_by_entity = nn.Linear(width, maximum_length, bias=False)
        self.gate = nn.Linear(width, width, bias=False)

    def steps(self, predict: Tensor, update: Tensor) -> Steps:
        """Prepare documents: what z is predicted from, and what entities learn, (B, T, D) each."""
        query = self.entity(predict)  # (B, T, D)
        begin, fresh = self.begin(predict)[..., 0], query @ functional.normalize(self.fresh, dim=0)
        extent, gate = self.extent_by_text(predict), self.gate(update)
        return Steps(begin=begin, fresh=fresh, query=query, extent=extent, gate=gate, update=update)

    def empty(self, rows: int) -> EntityMemory:
        """Return the memory of rows that have mentioned nothing."""
        sizes = (rows, self.maximum_entities)
        vectors = self.fresh.new_zeros(*sizes, self.width)  # (R, E, D)
        last = torch.zeros(sizes, dtype=torch.int64, device=vectors.device)  # (R, E)
        return EntityMemory(vectors, last, last.new_zeros(rows))

    def entity_logits(
        self, at: Steps, memory: EntityMemory, time: int | Tensor, most: int
    ) -> Tensor:
        """Return the logits of a new entity and of those so far, float64, (R, 1 + min(most, E)),
        −inf for none; `time` is one or (R, 1), and no row has more than `most` entities."""
        most = min(most, self.maximum_entities)
        held = memory.vectors[:, :most].transpose(1, 2)  # (R, D, most)
        scores = torch.bmm(at.query[:, None], held)[:, 0]  # (R, most)
        away = (time - memory.last[:, :most]).to(scores.dtype)  # (R, most)
        scores = scores + self.nearness(away)
        unknown = torch.arange(most, device=scores.device) >= memory.known[:, None]  # (R, most)
        full = memory.known == self.maximum_entities  # (R,)
        scores = scores.masked_fill(unknown, -math.inf)
        fresh = at.fresh.masked_fill(full, -math.inf)  # (R,)
        return torch.cat([fresh[:, None], scores], 1).double()

    def nearness(self, away: Tensor) -> Tensor:
        """Return the part of an entity's logit that depends on the words since its last visit."""
        return self.distance * (away / DISTANCE_UNIT)

    def length_logits(self, at: Steps, vectors: Tensor) -> Tensor:
        """Return the logits of l, float64, (R, M), for mentions of entities with vectors (R, D)."""
        return (at.extent + self.extent_by_entity(vectors)).double()

    def vectors(self, memory: EntityMemory, entity: Tensor) -> Tensor:
        """Return the present vectors, (R, D), of entities (R,); a new one is like all new ones."""
        index = entity[:, None, None].expand(-1, 1, self.width)  # (R, 1, D)
        held = memory.vectors.gather(1, index)[:, 0]  # (R, D)
        fresh = self.new_vectors(len(entity))  # (R, D)
        return torch.where((entity == memory.known)[:, None], fresh, held)

    @staticmethod
    def mix(before: Tensor, gate: Tensor, update: Tensor) -> Tensor:
        """Return vectors, (N, D), after a mention word: δ before + (1 − δ) update, of length 1."""
        # torch.sigmoid rounds a number by its position in the tensor; this does not.
        logit = (gate * before).sum(-1, keepdim=True)  # (N, 1)
        share = functional.logsigmoid(logit).exp()  # (N, 1): δ
        return functional.normalize(share * before + (1 - share) * update, dim=-1)

    def new_vectors(self, number: int) -> Tensor:
        """Return the vectors, (number, D), of new entities: all the same, but for training."""
        fresh = self.fresh.expand(number, -1)  # (number, D)
        if self.noisy:
            fresh = fresh + self._noise * torch.randn_like(fresh)
        return functional.normalize(fresh, dim=-1)

    @property
    def noisy(self) -> bool:
        """New entities have vectors of their own."""
        return self.training and self._noise > 0

    def visit(
        self,
        at: Steps,
        memory: EntityMemory,
        time: int | Tensor,
        entity: Tensor,
        before: Tensor,
        here: Tensor,
    ) -> EntityMemory:
        """Let rows `here`, bool, (R,), read a mention word of `entity`, int64, (R,), with vectors
        `before`, (R, D), without gradient, in place; `time` is one or (R, 1)."""
        after = self.mix(before, at.gate, at.update)  # (R, D)
        slot = entity.masked_fill(~here, 0)[:, None]  # (R, 1)
        wide = slot[:, :, None].expand(-1, 1, self.width)  # (R, 1, D)
        new = here & (entity == memory.known)  # (R,)
        position = here[:, None]  # (R, 1)
        written = torch.where(position[:, None], after[:, None], memory.vectors.gather(1, wide))
        seen = torch.where(position, time, memory.last.gather(1, slot))  # (R, 1)
        vectors = memory.vectors.scatter_(1, wide, written)  # (R, E, D)
        return EntityMemory(vectors, memory.last.scatter_(1, slot, seen), memory.known + new)


class EntityModule(LatentModule):
    """EntityNLM and its proposals: how they are made and what they read."""

    def make_entities(self) -> DynamicEntities:
        """Make the heads of the choices, untrained."""
        options = self.options
        caps = options.maximum_entities, options.maximum_length
        return DynamicEntities(options.size, *caps, options.noise)

    def read(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Codes:
        """Read rows of z, int64, (R, W), of the documents in those positions of the batch, (R,)."""
        caps = self.options.maximum_entities, self.options.maximum_length
        return read_codes(latents, batch.lengths[TOKENS][owner], batch.tokens.shape[1], *caps)

    @property
    def support(self) -> dict[str, Any]:
        """The caps of the latents."""
        return {key: getattr(self.options, key) for key in ("maximum_entities", "maximum_length")}

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module; nothing of the corpus is needed."""
        return cls(vocabulary.size, architecture)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read documents, those without words left out, with ``tokens`` and the codes of their
        mentions."""
        caps = self.options.maximum_length, self.options.maximum_entities
        for document, tokens in encode_with_text(corpus, split, vocabulary):
            codes = mention_codes(chosen_mentions(document.spans, *caps), len(tokens))
            yield Instance(document.doc_id, {TOKENS: tokens, LATENTS: codes})

    @abstractmethod
    def encode_documents(self, tokens: Tensor, lengths: Tensor) -> Any:
        """Return what does not depend on z, of words (B, T) and lengths (B,)."""

    def encode(self, batch: InstanceBatch) -> Any:
        """Return what does not depend on z; outside training once, each document by itself."""
        tokens, lengths = batch.tokens, batch.lengths[TOKENS]
        if torch.is_grad_enabled():
            return self.encode_documents(tokens, lengths)

        def alone() -> Any:
            parts = [
                self.encode_documents(tokens[row : row + 1, :length], lengths[row : row + 1])
                for row, length in enumerate(lengths.tolist())
            ]
            return parts[0].padded(parts)

        return batch.keep(self, alone)
