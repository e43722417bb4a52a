"""How KGLM gives probabilities to words: generated, or copied from an alias of an entity.

One softmax over

* the vocabulary, with logits V (W_h h + W_e E_e + c) + b (V is the embedding of words, E_e is zero
  without a mention);
* the positions of the entity's aliases, with logits h · tanh(W LSTM(alias));

and p(x) sums all that give x. A position gives x when it is the same string, known to the
vocabulary or not. An unknown word is generated as ``<unk>``, with all of p(``<unk>``), or, where it
is penalized, with p(``<unk>``) / U of each of the U types that the vocabulary lacks; copies cost
nothing. So penalized, the probabilities of all texts sum to 1 (aliases having no more than U of
these words), else those of texts that agree in their ids, unknown words merged, to no more.

B instances, P positions, V ids, D embedding size, d of the graph's embeddings, S aliases of an
entity, L words of an alias, X pairs of a position and an entity, Y entities, R rows that are drawn,
Q of them mentions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import QUANTUM, invert, round_up
from beyond_perplexity.models.latent import PADDING, LatentModule
from beyond_perplexity.models.latents.kglm_instances import (
    SPELLINGS,
    UNSPELLED,
    KnowledgeGraph,
    linked_documents,
    read_graph,
)
from beyond_perplexity.models.latents.kglm_latents import LINK_CHUNK, LatentHeads, Streams
from beyond_perplexity.vocabulary import BOS, EOS, UNK, Vocabulary


class GraphModule(LatentModule):
    """KGLM and its proposals: the graph that they share, of sizes `graph`, and what they read."""

    shapes = MappingProxyType({"graph": {}})
    heads: LatentHeads

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module with the graph of a corpus."""
        graph, aliases = read_graph(corpus.graph)
        module = cls(vocabulary.size, architecture, graph=graph.sizes)
        module.graph.load_state_dict(graph.state_dict())
        module.take_aliases(aliases, vocabulary)
        return module

    def take_aliases(self, aliases: Sequence[Sequence[str]], vocabulary: Vocabulary) -> None:
        """Learn how the entities of the graph are called, where it matters."""

    @property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph."""
        return self.heads.graph

    @property
    def support(self) -> dict[str, Any]:
        """The entities and edges of the graph, and how long an entity is recent."""
        return self.graph.support

    @abstractmethod
    def encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read documents, int64, (B, T), with lengths (B,), as `LatentHeads.split` takes them, and
        the penalty per token."""

    def learnable(self, batch: InstanceBatch) -> tuple[Streams, Tensor]:
        """Read documents together, with a gradient: their streams and the penalty per token."""
        lengths = batch.lengths[TOKENS]  # (B,)
        hidden, penalty = self.encode(batch.tokens, lengths)
        return self.heads.split(hidden, lengths, keep=False), penalty

    def read(self, batch: InstanceBatch) -> Streams:
        """Read each document by itself, in positions rounded up: no number knows its batch."""
        lengths = batch.lengths[TOKENS]  # (B,)
        parts = [
            self.encode(batch.tokens[row : row + 1, :length], lengths[row : row + 1])[0][0]
            for row, length in enumerate(lengths.tolist())
        ]  # (P_b, D + 2 d) each
        hidden = nn.utils.rnn.pad_sequence(parts, batch_first=True)  # (B, P', D + 2 d)
        hidden = functional.pad(hidden, (0, 0, 0, -hidden.shape[1] % QUANTUM))  # (B, P, D + 2 d)
        return self.heads.split(hidden, lengths, keep=True)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read the documents of a split with their latents; see `linked_documents`."""
        return linked_documents(corpus, split, vocabulary, self.graph)


# The position of an alias with a word that stands for others: it is read, never copied.
UNCOPIED = -2


class Targets(NamedTuple):
    """The words of a batch with ``</s>`` after the last, filled up to P positions."""

    ids: Tensor  # int64, (B, P): of the vocabulary
    spellings: Tensor  # int64, (B, P): see `kglm_instances.SPELLINGS`

    @classmethod
    def of(cls, batch: InstanceBatch, positions: int) -> Targets:
        """Take those of a batch."""
        missing = positions - batch.tokens.shape[1]
        ids = functional.pad(batch.tokens, (0, missing))  # (B, P)
        spellings = functional.pad(
            batch.filled(SPELLINGS, UNSPELLED), (0, missing), value=UNSPELLED
        )  # (B, P)
        return cls(ids.scatter(1, batch.lengths[TOKENS][:, None], EOS), spellings)


class LinkedWords(GraphModule):
    """The words of KGLM; its layers are those that `KGLM` makes."""

    embedding: nn.Embedding
    mix_words: nn.Linear
    mix_entity: nn.Linear
    bias: Tensor
    alias_encoder: nn.LSTM
    alias_output: nn.Linear
    # int32, (N, S, L): spellings; `PADDING` after the last, `UNCOPIED` for what is not copied
    alias_words: Tensor
    word_ids: Tensor  # int32, (W,): the id in the vocabulary of each spelling

    @property
    def unknown_spellings(self) -> Tensor:
        """The words unknown to the vocabulary that can be copied, int64, rising."""
        held = self.alias_words[self.alias_words >= 0].unique().long()  # (A',)
        return held[self.ids_of(held) == UNK]  # (A,)

    def types_of_unknown(self, unknown_types: int) -> int:
        """Return U of texts that the model draws: at least the unknown words that aliases have."""
        return max(1, unknown_types, len(self.unknown_spellings))

    def generate_words(self, streams: Streams, targets: Targets) -> Tensor:
        """Return log p of the words without a mention, float64, (B, P)."""
        features = self.mix_words(streams.token).flatten(0, 1)  # (B P, D)
        goals = targets.ids.flatten()[:, None]  # (B P, 1)
        parts = []
        for start in range(0, len(features), LINK_CHUNK):
            goal = goals[start : start + LINK_CHUNK]  # (C, 1)
            chosen, total = self.score_vocabulary(features[start : start + LINK_CHUNK], goal, [BOS])
            parts.append(chosen - total)
        return torch.cat(parts).view(targets.ids.shape)

    def score_pairs(
        self, streams: Streams, targets: Targets, flat: Tensor, entities: Tensor
    ) -> Tensor:
        """Return log p(x | h, mention of e), generated and copied, float64, (X, 2), of entities at
        flat positions, int64, (X,) each."""
        hidden = streams.token.flatten(0, 1)[flat]  # (X, D)
        mixed = self._mixed(hidden, entities)  # (X, D)
        goals = targets.ids.flatten()[flat, None]  # (X, 1)
        spelled = targets.spellings.flatten()[flat, None]  # (X, 1)
        generated, total = self.score_vocabulary(mixed, goals, [BOS, EOS])  # (X,), (X,)
        # after them: a gradient is summed in the order of the steps that it comes from
        words, copies = self._copies(hidden, entities)  # (X, S L)
        copies = copies.double()  # (X, S L)
        right = copies.masked_fill((words != spelled) | (spelled < 0), -torch.inf)  # (X, S L)
        # In place of the whole row, what is not finite has no gradient.
        everything = torch.cat([total[:, None], copies], 1).logsumexp(1)  # (X,)
        nothing = (right == -torch.inf).all(1)  # (X,): rows whose gradient is 0
        copied = right.masked_fill(nothing[:, None], 0.0).logsumexp(1)  # (X,)
        copied = copied.masked_fill(nothing, -torch.inf)  # (X,)
        chosen = torch.stack([generated, copied], 1)  # (X, 2)
        return chosen - everything[:, None]

    def score_vocabulary(
        self, features: Tensor, goals: Tensor, impossible: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of words (X, 1) and the logsumexp of all, float64, (X,) each."""
        logits = self.vocabulary_logits(features, impossible)  # (X, V)
        chosen = logits.gather(1, goals)[:, 0].double()  # (X,)
        if torch.is_grad_enabled():
            return chosen, logits.logsumexp(1).double()
        # In place: passes over memory are what takes the time here.
        top = logits.amax(1, keepdim=True)  # (X, 1)
        total = logits.sub_(top).exp_().sum(1).log_().add_(top[:, 0])  # (X,)
        return chosen, total.double()

    def vocabulary_logits(self, features: Tensor, impossible: list[int]) -> Tensor:
        """Return the logits of all words, (X, V), for features (X, D); −inf for impossible ids."""
        logits = torch.addmm(self.bias, features, self.embedding.weight.T)  # (X, V)
        return logits.index_fill_(1, torch.tensor(impossible, device=logits.device), -torch.inf)

    def mention_logits(self, hidden: Tensor, entities: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits, (X, V + S · L), of all that mentions, (X,), can say after h, (X, D),
        copies last, and the spellings of these, int64, (X, S · L)."""
        generated = self.vocabulary_logits(self._mixed(hidden, entities), [BOS, EOS])  # (X, V)
        words, copies = self._copies(hidden, entities)  # (X, S L)
        return torch.cat([generated, copies], 1), words

    def draw_words(self, hidden: Tensor, entities: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Draw words after h, (R, D), in mentions of entities, (R,), −1 for none: ids, copies."""
        logits = self.vocabulary_logits(self.mix_words(hidden), [BOS])  # (R, V)
        mentioned = (entities >= 0).nonzero()[:, 0]  # (Q,)
        width, slots = logits.shape[1], self.alias_words[0].numel()  # V, S L
        wide = functional.pad(logits, (0, slots), value=-torch.inf)  # (R, V + S L)
        spelled = torch.full((len(hidden), slots), UNSPELLED, device=hidden.device)  # (R, S L)
        if len(mentioned):
            rows = round_up(mentioned)  # (Q',)
            scores, words = self.mention_logits(hidden[rows], entities[rows])
            wide[mentioned] = scores[: len(mentioned)]
            spelled[mentioned] = words[: len(mentioned)]
        sums = (wide - wide.amax(1, keepdim=True)).double().exp_().cumsum(1)  # (R, V + S L)
        position = invert(sums, draws)  # (R, 1)
        slot = (position - width).clamp_min(0)  # (R, 1)
        copies = torch.where(position >= width, spelled.gather(1, slot), UNSPELLED)[:, 0]  # (R,)
        return torch.where(copies == UNSPELLED, position[:, 0], self.ids_of(copies)), copies

    def _mixed(self, hidden: Tensor, entities: Tensor) -> Tensor:
        """Return the features of mentions (X,) that words are generated by, (X, D)."""
        return self.mix_words(hidden) + self.mix_entity(self.graph.entities[entities])

    def _copies(self, hidden: Tensor, entities: Tensor) -> tuple[Tensor, Tensor]:
        """Return spellings and logits of the words that mentions (X,) may copy, (X, S · L)."""
        distinct, back = entities.unique(return_inverse=True)  # (Y,), (X,)
        words, slots = self.encode_aliases(distinct)  # (Y, S L), (Y, S L, D)
        copies = (slots[back] @ hidden[:, :, None])[..., 0]  # (X, S L)
        return words[back], copies.masked_fill(words[back] < 0, -torch.inf)

    def ids_of(self, spellings: Tensor) -> Tensor:
        """Return the ids of spellings, int64, of any shape; ``<unk>`` where there is none."""
        if not len(self.word_ids):
            return torch.full_like(spellings, UNK)
        return torch.where(spellings >= 0, self.word_ids[spellings.clamp_min(0)].long(), UNK)

    def encode_aliases(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """Return spellings, (Y, S · L), and vectors, (Y, S · L, D), to copy from."""
        words = self.alias_words[entities].long()  # (Y, S, L)
        held = words[..., 0] != PADDING  # (Y, S)
        longest = int((words != PADDING).sum(2).max()) if len(words) else 0  # L' ≤ L
        rows = words[held][:, :longest]  # (Z, L')
        rows = functional.pad(rows, (0, 0, 0, -len(rows) % QUANTUM))  # (Z', L')
        slots = self.embedding.weight.new_zeros(*words.shape, self.alias_output.out_features)
        if rows.numel():
            embedded = self.embedding(self.ids_of(rows))  # (Z', L', D)
            vectors = self.alias_output(self.alias_encoder(embedded)[0]).tanh()  # (Z', L', D)
            vectors = functional.pad(vectors, (0, 0, 0, words.shape[2] - longest))  # (Z', L, D)
            found = vectors[: int(held.sum())].to(slots.dtype)  # (Z, L, D)
            slots = slots.index_put((held,), found)  # (Y, S, L, D)
        return words.flatten(1), slots.flatten(1, 2)
