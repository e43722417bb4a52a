"""KGLM, the knowledge graph language model (Logan, Liu, Peters, Gardner & Singh 2019).

Each token has a latent: no mention, or a mention of an entity that is new, related to a recent one
by an edge of a knowledge graph, or ongoing; see `kglm.latents` for their distribution. A
word is then generated or, in a mention, copied from an alias of the entity: one softmax over

* the vocabulary, with logits V (W_h h + W_e E_e + c) + b (V is the embedding of words, E_e is zero
  without a mention);
* the places of the entity's aliases, with logits h · tanh(W LSTM(alias));

and p(x) sums all that give x. The end is a word like any other that only no mention generates: the
last latent is none, at the cost of its probability. The parts of h are `Streams`.

B instances, R rows, T tokens, P positions (at least T + 1), K particles, V ids, N entities, D
embedding size, d of the graph's embeddings, S aliases of an entity, L words of an alias, Q
mentions, X pairs of a position and an entity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.instances.store import LATENTS, TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.invariance.quantum import QUANTUM
from beyond_perplexity.models.kglm.graph_module import GraphModule
from beyond_perplexity.models.kglm.instances import (
    NONE,
    RELATED,
    decode_latents,
)
from beyond_perplexity.models.kglm.knowledge_graph import KnowledgeGraph, read_graph
from beyond_perplexity.models.kglm.latents import (
    LINK_CHUNK,
    LatentHeads,
    Reading,
    Streams,
    read_latents,
)
from beyond_perplexity.models.kglm.steps import LatentState, advance_links, kind_log_prob
from beyond_perplexity.models.latent import FILLING, LatentModel
from beyond_perplexity.models.layers.awd_lstm import AWDLSTM, AWDOptions, embed_words
from beyond_perplexity.models.losses import summed_cross_entropy
from beyond_perplexity.options import Count
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary


@dataclass(frozen=True)
class KGLMOptions(AWDOptions):
    """Architecture of KGLM.

    Attributes
    ----------
    aliases : int
        Aliases of an entity that can be copied from, at most.
    alias_words : int
        Words of an alias; longer ones are cut.
    """

    aliases: Count = 4
    alias_words: Count = 8


class EncodedLinks(NamedTuple):
    """What does not depend on z.

    Attributes
    ----------
    streams : Streams
    targets : Tensor
        int64, (B, P): the words and the end.
    generated : Tensor
        float64, (B, P): log p of these without a mention.
    """

    streams: Streams
    targets: Tensor
    generated: Tensor

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


class KGLM(GraphModule, LatentModel):
    """A distribution of documents and of their links to a knowledge graph.

    Latents are codes, one a token, as in `kglm.instances`: W = T.

    Parameters and errors are those of `GraphModule`; the options are `KGLMOptions`.
    """

    alias_words: Tensor

    family = "kglm"
    options_kind = KGLMOptions
    options: KGLMOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        size = options.embedding_size
        self.embedding = nn.Embedding(self.vocabulary_size, size)
        self.heads = LatentHeads(size, KnowledgeGraph(self.shapes["graph"]))
        self.encoder = AWDLSTM(options, self.heads.width)
        self.mix_words = nn.Linear(size, size)
        self.mix_entity = nn.Linear(self.graph.sizes["dimension"], size, bias=False)
        self.bias = nn.Parameter(torch.zeros(self.vocabulary_size))
        self.alias_encoder = nn.LSTM(size, size, batch_first=True)
        self.alias_output = nn.Linear(size, size)
        shape = (self.graph.n_entities, options.aliases, options.alias_words)
        self.register_buffer("alias_words", torch.full(shape, FILLING, dtype=torch.int32))
        nn.init.normal_(self.embedding.weight, std=size**-0.5)

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained model with the graph and the aliases of a corpus."""
        graph, aliases = read_graph(corpus.graph)
        model = cls(vocabulary.size, architecture, graph.sizes)
        model.graph.load_state_dict(graph.state_dict())
        table = model.alias_words.numpy()
        for entity, held in enumerate(aliases):
            for place, words in enumerate(vocabulary.encode(held[: model.options.aliases])):
                cut = words[: model.options.alias_words]
                table[entity, place, : len(cut)] = cut
        return model

    def n_tokens(self, batch: InstanceBatch) -> Tensor:
        """Return the words and the end of each document, int64, (B,)."""
        return batch.lengths[TOKENS] + 1

    def annotated(self, batch: InstanceBatch) -> Tensor:
        """Return the annotated codes, int64, (B, T)."""
        return batch.filled(LATENTS, FILLING)

    def encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read the words before each position, T + 1 of them; see `GraphModule.encode`."""
        before = functional.pad(tokens, (1, 0), value=BOS)  # (B, T + 1)
        hidden, penalty = self.encoder(embed_words(self.embedding, before, self.options))
        return hidden, penalty  # (B, T + 1, D + 2 d)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p(x, z) of the annotated z, nats; in training also the penalties."""
        hidden, penalty = self.encode(batch.tokens, batch.lengths[TOKENS])
        streams = self.heads.split(hidden, batch.lengths[TOKENS], keep=False)
        reading = read_latents(
            batch.filled(LATENTS, FILLING), streams.lengths, batch.tokens.shape[1]
        )
        owner = torch.arange(len(batch), device=self.device)  # (B,)
        latents = self.heads.log_prob(streams, owner, reading, [1.0])[:, 0]  # (B,)
        end = self._end_kind(streams, owner, reading)  # (B,)
        mentioned = (reading.entities >= 0).nonzero(as_tuple=True)  # (Q,), (Q,)
        places = mentioned[0] * streams.positions + mentioned[1]  # (Q,)
        targets = with_end(batch, streams.positions)  # (B, T + 1)
        copied = self._pairs(streams, targets, places, reading.entities[mentioned])  # (Q,)
        free = torch.arange(streams.positions, device=self.device) <= streams.lengths[:, None]
        free[:, :-1] &= reading.entities < 0  # (B, T + 1)
        features = self.mix_words(streams.token[free])  # (Q', D)
        nothing = torch.tensor([BOS], device=self.device)
        words = summed_cross_entropy(
            features, self.embedding.weight, self.bias, targets[free], nothing, self.products
        )
        total = words - (latents.sum() + end.sum() + copied.sum()).float()
        return total + penalty * batch.predictions

    @torch.no_grad()
    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,)."""
        encoded = self._prepared(batch)
        streams = encoded.streams
        width = batch.tokens.shape[1]
        reading = read_latents(latents, streams.lengths[owner], width)
        total = self.heads.log_prob(streams, owner, reading, [1.0])[:, 0]  # (R,)
        total = total + self._end_kind(streams, owner, reading)  # (R,)
        mentioned = (reading.entities >= 0).nonzero(as_tuple=True)  # (Q,), (Q,)
        places = owner[mentioned[0]] * streams.positions + mentioned[1]  # (Q,)
        words = torch.where(reading.inside, encoded.generated[owner, :width], 0.0)  # (R, T)
        words[mentioned] = self._unique_pairs(encoded, places, reading.entities[mentioned])
        return total + words.sum(1) + encoded.end[owner]

    @torch.no_grad()
    def start(self, batch: InstanceBatch, owner: Tensor) -> LinkParticles:
        """Return the state of particles; see `importance.drawing.smc.SequentialModel`."""
        encoded = self._prepared(batch)
        return LinkParticles(LatentState.of(self.graph, encoded.streams, owner), encoded)

    @torch.no_grad()
    def extend(
        self, state: LinkParticles, time: int, choice: Tensor
    ) -> tuple[Tensor, LinkParticles]:
        """Read a word with its code; see `importance.drawing.smc.SequentialModel`."""
        log_prob, latents = advance_links(self.heads, state.latents, time, choice, 1.0)
        words = state.encoded.generated[latents.owner, time]  # (K,)
        mentioned = (latents.memory.current >= 0).nonzero()[:, 0]  # (Q,)
        words[mentioned] = self._unique_pairs(
            state.encoded, latents.places(time)[mentioned], latents.memory.current[mentioned]
        )
        return log_prob + words, state._replace(latents=latents)

    @torch.no_grad()
    def finish(self, state: LinkParticles, time: int) -> Tensor:
        """Read the end; see `importance.drawing.smc.SequentialModel`."""
        kinds = kind_log_prob(self.heads, state.latents, time, NONE, 1.0)  # (K,)
        return kinds + state.encoded.end[state.latents.owner]

    def _prepared(self, batch: InstanceBatch) -> EncodedLinks:
        if self not in batch.cache:
            streams = self.read(batch)
            targets = with_end(batch, streams.positions)  # (B, P)
            batch.cache[self] = EncodedLinks(streams, targets, self._generated(streams, targets))
        found: EncodedLinks = batch.cache[self]
        return found

    def _generated(self, streams: Streams, targets: Tensor) -> Tensor:
        features = self.mix_words(streams.token).flatten(0, 1)  # (B P, D)
        goals = targets.flatten()[:, None]  # (B P, 1)
        parts = []
        for start in range(0, len(features), LINK_CHUNK):
            goal = goals[start : start + LINK_CHUNK]  # (C, 1)
            chosen, total = self._vocabulary(features[start : start + LINK_CHUNK], goal, [BOS])
            parts.append(chosen - total)
        return torch.cat(parts).view(targets.shape)

    def _end_kind(self, streams: Streams, owner: Tensor, reading: Reading) -> Tensor:
        """Return log p(t = none) after the last word, float64, (R,)."""
        ends = streams.lengths[owner]  # (R,)
        masks = self.heads.possible_kinds(reading).gather(1, ends[:, None])[:, 0]  # (R,)
        return self.heads.kind_log_probs(streams, 1.0)[owner, ends, masks, 0]

    def _unique_pairs(self, encoded: EncodedLinks, places: Tensor, entities: Tensor) -> Tensor:
        """Score each pair of a place and an entity once, some at a time, float64, (Q,)."""
        keys, back = (places * self.graph.n_entities + entities).unique(return_inverse=True)
        filled = functional.pad(keys, (0, -len(keys) % QUANTUM))  # (X,)
        place, entity = filled // self.graph.n_entities, filled % self.graph.n_entities
        known = encoded.streams, encoded.targets
        parts = [
            self._pairs(*known, place[i : i + LINK_CHUNK], entity[i : i + LINK_CHUNK])
            for i in range(0, len(filled), LINK_CHUNK)
        ]
        return torch.cat(parts)[back] if parts else places.new_zeros(0, dtype=torch.float64)

    def _pairs(self, streams: Streams, targets: Tensor, places: Tensor, entities: Tensor) -> Tensor:
        """Return log p(x | h, mention of e), float64, (X,), generated and copied.

        Parameters
        ----------
        streams : Streams
        targets : Tensor
            int64, (B, P).
        places : Tensor
            int64, (X,): positions of the flat batch.
        entities : Tensor
            int64, (X,).
        """
        hidden = streams.token.flatten(0, 1)[places]  # (X, D)
        mixed = self.mix_words(hidden) + self.mix_entity(self.graph.entities[entities])  # (X, D)
        goals = targets.flatten()[places, None]  # (X, 1)
        generated, total = self._vocabulary(mixed, goals, [BOS, EOS])  # (X,), (X,)
        distinct, back = entities.unique(return_inverse=True)  # (Y,), (X,)
        words, slots = self._encode_aliases(distinct)  # (Y, S L), (Y, S L, D)
        words = words[back]  # (X, S L)
        copies = (slots[back] @ hidden[:, :, None])[..., 0]  # (X, S L)
        copies = copies.masked_fill(words == FILLING, -torch.inf)  # (X, S L)
        right = copies.masked_fill(words != goals, -torch.inf)  # (X, S L)
        chosen = torch.cat([generated[:, None], right.double()], 1)  # (X, 1 + S L)
        everything = torch.cat([total[:, None], copies.double()], 1)  # (X, 1 + S L)
        return chosen.logsumexp(1) - everything.logsumexp(1)

    def _vocabulary(
        self, features: Tensor, goals: Tensor, impossible: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of words (X, 1) and the logsumexp of all, float64, (X,) each."""
        logits = torch.addmm(self.bias, features, self.embedding.weight.T)  # (X, V)
        logits = logits.index_fill_(1, torch.tensor(impossible, device=logits.device), -torch.inf)
        chosen = logits.gather(1, goals)[:, 0].double()  # (X,)
        if torch.is_grad_enabled():
            return chosen, logits.logsumexp(1).double()
        # In place: passes over memory are what takes the time here.
        top = logits.amax(1, keepdim=True)  # (X, 1)
        total = logits.sub_(top).exp_().sum(1).log_().add_(top[:, 0])  # (X,)
        return chosen, total.double()

    def _encode_aliases(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """Return ids, (Y, S · L), and vectors, (Y, S · L, D), of the places to copy from."""
        words = self.alias_words[entities].long()  # (Y, S, L)
        held = words[..., 0] != FILLING  # (Y, S)
        longest = int((words != FILLING).sum(2).max()) if len(words) else 0  # L' ≤ L
        rows = words[held][:, :longest]  # (Z, L')
        rows = functional.pad(rows, (0, 0, 0, -len(rows) % QUANTUM))  # (Z', L')
        slots = self.embedding.weight.new_zeros(*words.shape, self.alias_output.out_features)
        if rows.numel():
            embedded = self.embedding(rows.clamp_min(0))  # (Z', L', D)
            vectors = self.alias_output(self.alias_encoder(embedded)[0]).tanh()  # (Z', L', D)
            vectors = functional.pad(vectors, (0, 0, 0, words.shape[2] - longest))  # (Z', L, D)
            found = vectors[: int(held.sum())].to(slots.dtype)  # (Z, L, D)
            slots = slots.index_put((held,), found)  # (Y, S, L, D)
        return words.flatten(1), slots.flatten(1, 2)

    def outline(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe a row of codes by its mentions, without their edges."""
        held = latent[: len(instance.arrays[TOKENS])].tolist()
        return {
            "mentions": [
                {"start": start, "end": end, "entity": f"#{entity}"}
                for start, end, entity, _ in decode_latents(held)
            ]
        }

    @torch.no_grad()
    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe a row of codes: ``mentions`` with start, end, entity, kind, relation, parent.

        ``relation`` and ``parent``, null for a new entity, are those of the most probable of the
        edges that the latent sums over.
        """
        batch = InstanceBatch.of([instance]).to(self.device)
        streams = self.read(batch)
        codes = latent.to(self.device)[None]  # (1, W)
        reading = read_latents(codes, streams.lengths, batch.tokens.shape[1])
        names, relations = self.graph.entity_names(), self.graph.names_of_relations()
        held = latent[: len(instance.arrays[TOKENS])].tolist()
        mentions = []
        for start, end, entity, kind in decode_latents(held):
            found: dict[str, Any] = {"start": start, "end": end, "entity": names[entity]}
            found |= {"kind": "new", "relation": None, "parent": None}
            if kind == RELATED:
                parent, relation = self.heads.best_edge(streams, reading, start, entity)
                found |= {"kind": "related", "parent": names[parent]}
                found["relation"] = relations[relation]
            mentions.append(found)
        return {"mentions": mentions}


def with_end(batch: InstanceBatch, positions: int) -> Tensor:
    """Return the words with ``</s>`` after the last, filled up to P positions, int64, (B, P)."""
    wide = functional.pad(batch.tokens, (0, positions - batch.tokens.shape[1]))  # (B, P)
    return wide.scatter(1, batch.lengths[TOKENS][:, None], EOS)
