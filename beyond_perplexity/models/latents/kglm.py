"""KGLM, the knowledge graph language model (Logan, Liu, Peters, Gardner & Singh 2019).

A token's latent is no mention, or one of an entity that is new, related to a recent one by an edge
of a knowledge graph, or ongoing (`kglm_latents`); a word is generated or, in a mention, copied from
an alias (`kglm_words`). The end is a word that only no mention generates: the last latent is none,
at the cost of its probability. The parts of h are `Streams`.

B instances, R rows, T tokens, P positions (at least T + 1), K particles, V ids, N entities, D
embedding size, d of the graph's embeddings, S aliases of an entity, L words of an alias, W words of
all aliases, Q mentions, X pairs of a position and an entity.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import LATENTS, TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.factored import summed_cross_entropy
from beyond_perplexity.models.latent import PADDING, DrawnText, LatentModel, check_ends
from beyond_perplexity.models.latents import kglm_instances
from beyond_perplexity.models.latents.kglm_latents import (
    LINK_CHUNK,
    LatentHeads,
    Reading,
    Streams,
    read_latents,
)
from beyond_perplexity.models.latents.kglm_steps import TOKEN_DRAWS, LatentState, draw_linked_texts
from beyond_perplexity.models.latents.kglm_words import UNCOPIED, LinkedWords, Targets
from beyond_perplexity.models.recurrent_layers import AWDLSTM, AWDOptions, embed_words
from beyond_perplexity.options import Count, Length
from beyond_perplexity.vocabulary import BOS, EOS, UNK, Vocabulary, split_words


@dataclass(frozen=True)
class KGLMOptions(AWDOptions):
    """Architecture of KGLM.

    aliases: Aliases of an entity that can be copied from, at most.
    alias_words: Words of an alias; longer ones are cut.
    count_eos: T counts the end of a document, and log p has it.
    train_eos: The training loss has the end too; where log p has it, it must.
    """

    aliases: Count = 4
    alias_words: Length = 8
    count_eos: bool = True
    train_eos: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ends(self.count_eos, self.train_eos)


class EncodedLinks(NamedTuple):
    """What does not depend on z."""

    streams: Streams
    targets: Targets  # The words and the end
    generated: Tensor  # float64, (B, P): log p of these without a mention
    # Of the pairs of a position and an entity that were scored, ``keys``, rising, and ``pairs``
    scored: dict[str, Tensor]
    cost: Tensor  # float64, (B P,): nats that generating each word costs

    @property
    def end(self) -> Tensor:
        """float64, (B,): log p(</s>) after the last word."""
        return self.generated.gather(1, self.streams.lengths[:, None])[:, 0]


class LinkParticles(NamedTuple):
    """What particles have done so far, and the documents that they read."""

    latents: LatentState
    encoded: EncodedLinks

    def select(self, rows: Tensor) -> LinkParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(latents=self.latents.select(rows))


class KGLM(LinkedWords, LatentModel):
    """A distribution of documents and of their links to a knowledge graph; `unknown_cost` is the
    nats that a word costs which is generated as ``<unk>``."""

    unknown_cost = 0.0
    particles_at_once = 4096
    text_draws = TOKEN_DRAWS + 2  # of a token: its latent, its word, which unknown one

    family = "kglm"
    options_kind = KGLMOptions
    options: KGLMOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        size = options.embedding_size
        self.embedding = nn.Embedding(self.vocabulary_size, size)
        self.heads = LatentHeads(size, kglm_instances.KnowledgeGraph(self.shapes["graph"]))
        self.encoder = AWDLSTM(options, self.heads.width)
        self.mix_words = nn.Linear(size, size)
        self.mix_entity = nn.Linear(self.graph.sizes["dimension"], size, bias=False)
        self.bias = nn.Parameter(torch.zeros(self.vocabulary_size))
        self.alias_encoder = nn.LSTM(size, size, batch_first=True)
        self.alias_output = nn.Linear(size, size)
        shape = (self.graph.n_entities, options.aliases, options.alias_words)
        self.register_buffer("alias_words", torch.full(shape, PADDING, dtype=torch.int32))
        ids = torch.full((self.graph.sizes["words"],), UNK, dtype=torch.int32)  # (W,)
        self.register_buffer("word_ids", ids)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)

    def take_aliases(self, aliases: Sequence[Sequence[str]], vocabulary: Vocabulary) -> None:
        """Fill the table of what can be copied."""
        table, spellings = self.alias_words.numpy(), kglm_instances.Spellings(self.graph)
        for entity, held in enumerate(aliases):
            for position, alias in enumerate(held[: self.options.aliases]):
                cut = split_words(alias)[: self.options.alias_words]
                table[entity, position, : len(cut)] = spellings.of(cut, UNCOPIED)
        if words := self.graph.alias_vocabulary():
            ids = np.concatenate(vocabulary.encode(words))  # (W,)
            self.word_ids.copy_(torch.from_numpy(ids))

    def encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read the words before each position, T + 1 of them; see `GraphModule.encode`."""
        before = functional.pad(tokens, (1, 0), value=BOS)  # (B, T + 1)
        hidden, penalty = self.encoder(embed_words(self.embedding, before, self.options))
        return hidden, penalty  # (B, T + 1, D + 2 d)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p(x, z) of the annotated z, nats; in training also the penalties."""
        streams, penalty = self.learnable(batch)
        reading = read_latents(self.annotated(batch), streams.lengths, batch.tokens.shape[1])
        owner = torch.arange(len(batch), device=self.device)  # (B,)
        latents = self.heads.log_prob(streams, owner, reading, [1.0])[:, 0]  # (B,)
        end = self._end_kind(streams, owner, reading) * self.options.train_eos  # (B,)
        *_, flat, entities = reading.mentions(owner, streams.positions)  # (Q,), (Q,)
        targets = Targets.of(batch, streams.positions)  # of (B, T + 1)
        pairs = self.score_pairs(streams, targets, flat, entities)  # (Q, 2)
        last = streams.lengths[:, None] - int(not self.options.train_eos)  # (B, 1)
        free = torch.arange(streams.positions, device=self.device) <= last  # (B, T + 1)
        free[:, :-1] &= reading.entities < 0  # (B, T + 1)
        features = self.mix_words(streams.token[free])  # (Q', D)
        nothing = torch.tensor([BOS], device=self.device)
        words = summed_cross_entropy(
            features, self.embedding.weight, self.bias, targets.ids[free], nothing, self.products
        )
        total = words - (latents.sum() + end.sum() + pairs.logsumexp(1).sum()).float()
        return total + penalty * batch.predictions

    @torch.no_grad()
    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,)."""
        encoded = self.prepare(batch)
        streams = encoded.streams
        width = batch.tokens.shape[1]
        reading = read_latents(latents, streams.lengths[owner], width)
        total = self.heads.log_prob(streams, owner, reading, [1.0])[:, 0]  # (R,)
        row, column, flat, entities = reading.mentions(owner, streams.positions)  # (Q,) each
        words = torch.where(reading.inside, encoded.generated[owner, :width], 0.0)  # (R, T)
        words[row, column] = self.score_unique(encoded, flat, entities).logsumexp(1)
        total = total + words.sum(1)  # (R,)
        if not self.options.count_eos:
            return total
        return total + self._end_kind(streams, owner, reading) + encoded.end[owner]

    @torch.no_grad()
    def start(self, batch: InstanceBatch, owner: Tensor) -> LinkParticles:
        """Return the state of particles; see `SequentialModel`."""
        encoded = self.prepare(batch)
        return LinkParticles(LatentState.of(self.heads, encoded.streams, owner), encoded)

    @torch.no_grad()
    def extend(
        self, state: LinkParticles, time: int, choice: Tensor
    ) -> tuple[Tensor, LinkParticles]:
        """Read a word with its code; see `SequentialModel`."""
        log_prob, latents = state.latents.advance(time, choice, 1.0)
        words = state.encoded.generated[latents.owner, time]  # (K,)
        mentioned = (latents.memory.current >= 0).nonzero()[:, 0]  # (Q,)
        pairs = self.score_unique(
            state.encoded, latents.flat(time)[mentioned], latents.memory.current[mentioned]
        )  # (Q, 2)
        words[mentioned] = pairs.logsumexp(1)
        return log_prob + words, state._replace(latents=latents)

    @torch.no_grad()
    def finish(self, state: LinkParticles, time: int) -> Tensor:
        """Read the end; see `SequentialModel`."""
        if not self.options.count_eos:
            return torch.zeros_like(state.latents.owner, dtype=torch.float64)
        kinds = state.latents.kind_log_probs(time, 1.0)  # (K, 4)
        return kinds[:, kglm_instances.NONE] + state.encoded.end[state.latents.owner]

    def prepare(self, batch: InstanceBatch) -> EncodedLinks:
        """Return what does not depend on z, worked out once for this model and penalized ones."""
        if self.embedding not in batch.cache:
            streams = self.read(batch)
            targets = Targets.of(batch, streams.positions)  # of (B, P)
            generated = self.generate_words(streams, targets)  # (B, P)
            nothing = torch.zeros_like(generated.flatten())  # (B P,)
            scored = {"keys": targets.ids.new_empty(0), "pairs": generated.new_empty(0, 2)}
            found = EncodedLinks(streams, targets, generated, scored, nothing)
            batch.cache[self.embedding] = found
        found = batch.cache[self.embedding]
        cost = self.unknown_cost * (found.targets.ids == UNK).double()  # (B, P)
        return found._replace(generated=found.generated - cost, cost=cost.flatten())

    @torch.no_grad()
    def unknown_penalty(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, unknown_types: int
    ) -> Tensor:
        """Return what unknown words cost of log p(x, z), nats, float64, (R,); a copy costs nothing.

        Where a word is generated, all U unknown types share p(<unk>). Of a word that is both, the
        sum of the two counts: ln (g + c) − ln (g / U + c).
        """
        encoded = self.prepare(batch)
        streams, width, each = encoded.streams, batch.tokens.shape[1], math.log(unknown_types)
        reading = read_latents(latents, streams.lengths[owner], width)
        unknown = reading.inside & (batch.tokens == UNK)[owner]  # (R, T)
        cost = unknown.double() * each  # (R, T)
        row, column, flat, entities = reading.mentions(owner, streams.positions)  # (Q,) each
        spelled = encoded.targets.spellings.flatten()[flat]  # (Q,)
        held = (self.alias_words[entities].flatten(1) == spelled[:, None]).any(1)  # (Q,)
        held &= unknown[row, column] & (spelled >= 0)
        pairs = self.score_unique(encoded, flat[held], entities[held])  # (Q', 2)
        shared = pairs - pairs.new_tensor([each, 0.0])  # (Q', 2)
        cost[row[held], column[held]] = pairs.logsumexp(1) - shared.logsumexp(1)
        return cost.sum(1)

    def penalized(self, unknown_types: int) -> Self:
        """Return the same model with p(<unk>) shared by U types; see `unknown_penalty`."""
        found = copy.copy(self)
        found.unknown_cost = math.log(unknown_types)
        return found

    def as_simulated(self, unknown_types: int) -> Self:
        """Return the model with each unknown word a word of its own; see `simulation`."""
        return self.penalized(self.types_of_unknown(unknown_types))

    def _end_kind(self, streams: Streams, owner: Tensor, reading: Reading) -> Tensor:
        """Return log p(t = none) after the last word, float64, (R,)."""
        ends = streams.lengths[owner]  # (R,)
        masks = self.heads.possible_kinds(reading).gather(1, ends[:, None])[:, 0]  # (R,)
        return self.heads.kind_log_probs(streams, 1.0)[owner, ends, masks, 0]

    def score_unique(self, encoded: EncodedLinks, flat: Tensor, entities: Tensor) -> Tensor:
        """Score each pair of a position and an entity once, some at a time, float64, (Q, 2)."""
        # By entity: the aliases of one are then encoded for few chunks.
        width, scored = encoded.targets.ids.numel(), encoded.scored
        keys, back = (entities * width + flat).unique(return_inverse=True)
        missing = keys[~kglm_instances.find_key(scored["keys"], keys)[1]]  # (X,)
        if len(missing):
            filled = functional.pad(missing, (0, -len(missing) % QUANTUM))  # (X',)
            position, entity = filled % width, filled // width
            known = encoded.streams, encoded.targets
            parts = [
                self.score_pairs(*known, position[i : i + LINK_CHUNK], entity[i : i + LINK_CHUNK])
                for i in range(0, len(filled), LINK_CHUNK)
            ]
            pairs = torch.cat([scored["pairs"], torch.cat(parts)[: len(missing)]])
            scored["keys"], order = torch.cat([scored["keys"], missing]).sort()
            scored["pairs"] = pairs[order]
        found = scored["pairs"][kglm_instances.find_key(scored["keys"], keys)[0][back]]  # (Q, 2)
        return found - functional.pad(encoded.cost[flat, None], (0, 1))

    def draw_texts(
        self, count: int, lots: Iterator[Tensor], maximum_words: int, vocabulary: Vocabulary
    ) -> Iterator[DrawnText]:
        """Draw documents and their latents; see `LatentModel.draw_texts`."""
        spellings = kglm_instances.Spellings(self.graph)
        types = self.types_of_unknown(getattr(vocabulary, "unknown_types", None) or 1)
        spelled = np.array([*self.graph.alias_vocabulary(), ""], dtype=object)
        for document in draw_linked_texts(self, count, lots, maximum_words, types):
            end = int(np.argmax(np.append(document[:, 0], EOS) == EOS))
            ids, numbered, codes = document[: min(end, maximum_words)].T  # (T,) each
            generated = [vocabulary.decode([ids[i : i + 1]])[0] for i in range(len(ids))]
            words = np.where(
                numbered == kglm_instances.UNSPELLED, np.array(generated, object), spelled[numbered]
            )
            copied = spellings.of(words.tolist(), kglm_instances.UNSPELLED)  # (T,)
            arrays = {TOKENS: ids, kglm_instances.SPELLINGS: copied, LATENTS: codes}
            yield words.tolist(), arrays, end > maximum_words

    def outline(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe a row of codes by its mentions, without their edges."""
        held = latent[: len(instance.arrays[TOKENS])].tolist()
        return {
            "mentions": [
                {"start": start, "end": end, "entity": f"#{entity}"}
                for start, end, entity, _ in kglm_instances.decode_latents(held)
            ]
        }

    @torch.no_grad()
    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe ``mentions`` with start, end, entity and kind, and the relation and parent of
        the most probable edge that the latent sums over, null for a new entity."""
        batch = InstanceBatch.of([instance]).to(self.device)
        streams = self.read(batch)
        codes = latent.to(self.device)[None]  # (1, W)
        reading = read_latents(codes, streams.lengths, batch.tokens.shape[1])
        names, relations = self.graph.entity_names(), self.graph.names_of_relations()
        held = latent[: len(instance.arrays[TOKENS])].tolist()
        mentions = []
        for start, end, entity, kind in kglm_instances.decode_latents(held):
            found: dict[str, Any] = {"start": start, "end": end, "entity": names[entity]}
            found |= {"kind": "new", "relation": None, "parent": None}
            if kind == kglm_instances.RELATED:
                parent, relation = self.heads.best_edge(streams, reading, start, entity)
                found |= {"kind": "related", "parent": names[parent]}
                found["relation"] = relations[relation]
            mentions.append(found)
        return {"mentions": mentions}
