"""EntityNLM (Ji et al. 2017): a language model of words x and of who is mentioned where, z.

At each word: z given the past, then the word given z. p(word) is a softmax of V (h + W c) + b, h
the state of an LSTM over the words before, c the vector of the entity mentioned (before it reads
the word), outside mentions c of the word before, at first 0. ``</s>`` is a word that no mention
starts with; outside mentions it costs p(t = 0). So Σ p(x, z) over all texts and all z is 1. Nothing
is random at evaluation; the published program draws the noise of new entities there too.

B instances, R rows, W entries of a row of z, T words, D width, V ids, G vectors of entities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import LATENTS, TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import QUANTUM, round_up, sum_rows
from beyond_perplexity.models.latent import PADDING, DrawnText, LatentModel, check_ends
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    RADIX,
    EntityModule,
    Steps,
    split_mention_codes,
)
from beyond_perplexity.models.latents.entitynlm_scores import MentionRows, Scores
from beyond_perplexity.models.latents.entitynlm_walks import WORD_DRAWS, EntityState, TextStates
from beyond_perplexity.models.word_softmax import ClassSoftmax, to_rows
from beyond_perplexity.options import Amount, Count, Dropout, Layers, Limit, Limited, Width
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary, split_words

# Words whose features are held at once.
WORDS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class EntityOptions(Limited):
    """What EntityNLM and its proposal have in common.

    size: D, the width of embeddings, states and entities (300 in the paper).
    layers: Layers of the LSTM.
    dropout: Probability of dropping an element of embeddings and states in training.
    maximum_entities: Largest number of entities of a document; it is part of the distribution (100
        in the paper).
    maximum_length: Largest number of words of a mention; it is part of the distribution (25 in the
        paper).
    noise: Standard deviation of the noise on a new entity's vector, in training only.
    """

    size: Width = 64
    layers: Layers = 1
    dropout: Dropout = 0.1
    maximum_entities: Count = 50
    maximum_length: Annotated[int, Limit(minimum=1, maximum=RADIX)] = 8
    noise: Amount = 0.01


@dataclass(frozen=True)
class EntityNLMOptions(EntityOptions):
    """Architecture of EntityNLM.

    word_classes: Number of classes by frequency: a word is predicted in two steps, its class first;
        1: a full softmax.
    tie_weights: The output layer shares the embedding's matrix.
    count_eos: T counts the end of a document, and log p has it.
    train_eos: The training loss has the end too; where log p has it, it must.
    """

    word_classes: Count = 100
    tie_weights: bool = True
    count_eos: bool = True
    train_eos: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ends(self.count_eos, self.train_eos)


class EncodedMentions(NamedTuple):
    """What does not depend on z."""

    states: Tensor  # (B, T + 1, D): before each word and the end
    end: Tensor  # float64, (B,): log p(t = 0) at the end
    steps: Steps

    @staticmethod
    def padded(parts: Sequence[EncodedMentions]) -> EncodedMentions:
        """Join what is of single documents."""
        return EncodedMentions(
            nn.utils.rnn.pad_sequence([part.states[0] for part in parts], batch_first=True),
            torch.cat([part.end for part in parts]),
            Steps.padded([part.steps for part in parts]),
        )


class MentionParticles(NamedTuple):
    """What particles have done so far, and the documents that they read."""

    choices: EntityState
    encoded: EncodedMentions
    tokens: Tensor

    def select(self, rows: Tensor) -> MentionParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(choices=self.choices.select(rows))


class EntityNLM(EntityModule, LatentModel):
    """The model; see the module; ids come by falling frequency."""

    texts_at_once = 256
    text_draws = WORD_DRAWS + 2  # for t, e and l, and for the word in two steps

    family = "entitynlm"
    options_kind = EntityNLMOptions
    options: EntityNLMOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        size = options.size
        self.text = TextStates(self.vocabulary_size, size, options.layers, options.dropout, False)
        self.entities = self.make_entities()
        self.context = nn.Linear(size, size, bias=False)
        tied = self.text.embedding.weight if options.tie_weights else None
        assert tied is None or isinstance(tied, nn.Parameter)
        self.words = ClassSoftmax(size, self.vocabulary_size, options.word_classes, tied)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p(x, z) of the annotated z, nats, float32 scalar."""
        owner = torch.arange(len(batch), device=batch.ids.device)  # (B,)
        ended = self.options.train_eos
        return -self._log_joint(batch, owner, self.annotated(batch), ended).sum().float()

    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe a row of codes: ``mentions`` with ``start``, ``end``, ``entity``, cut at the
        end."""
        mentions, end = list[dict[str, int]](), 0
        codes = [code for code in latent.tolist() if code != PADDING]
        for start, code in enumerate(codes):
            if code and start >= end:
                entity, remaining = divmod(code - 1, RADIX)
                end = min(start + remaining + 1, len(codes))
                mentions.append({"start": start, "end": end, "entity": entity})
        return {"mentions": mentions}

    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,); without ``count_eos`` that of all documents that
        begin so."""
        return self._log_joint(batch, owner, latents, self.options.count_eos)

    def _log_joint(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, ended: bool
    ) -> Tensor:
        codes = self.read(batch, owner, latents)
        encoded = self.encode(batch)
        rows = MentionRows(self.entities, encoded.steps, owner, codes)
        scores = rows.score([1.0])
        end = encoded.end[owner].masked_fill(codes.running | (not ended), 0.0)  # (R,)
        words = self._words(batch, rows, encoded.states, scores, ended)  # (R, T + 1)
        log_joint = scores.log_prob[:, 0] + end + sum_rows(words)  # (R,)
        return log_joint.masked_fill(~codes.possible, -math.inf)

    def start(self, batch: InstanceBatch, owner: Tensor) -> MentionParticles:
        """Return the state of particles; see `SequentialModel`."""
        encoded = self.encode(batch)
        return MentionParticles(
            EntityState.of(self.entities, encoded.steps, owner), encoded, batch.tokens
        )

    def extend(
        self, state: MentionParticles, time: int, choice: Tensor
    ) -> tuple[Tensor, MentionParticles]:
        """Read a word with its code; see `SequentialModel`."""
        log_prob, choices = state.choices.advance(time, choice, 1.0)
        owner = choices.owner  # (K,)
        features = state.encoded.states[owner, time] + self.context(choices.context)  # (K, D)
        words = self.words.log_probs(features, state.tokens[owner, time], choices.starts)  # (K,)
        return log_prob + words, state._replace(choices=choices)

    def finish(self, state: MentionParticles, time: int) -> Tensor:
        """Read the end; see `SequentialModel`."""
        if not self.options.count_eos:
            return torch.zeros(len(state.choices.owner), dtype=torch.float64, device=self.device)
        choices, owner = state.choices, state.choices.owner
        _, entity, _ = split_mention_codes(choices.last)  # (K,)
        running = choices.running  # (K,)
        held = self.entities.vectors(choices.memory, entity)  # (K, D)
        context = torch.where(running[:, None], held, choices.context)  # (K, D)
        features = state.encoded.states[owner, time] + self.context(context)  # (K, D)
        end = torch.full_like(owner, EOS)  # (K,)
        words = self.words.log_probs(features, end, torch.zeros_like(running))  # (K,)
        return words + state.encoded.end[owner].masked_fill(running, 0.0)

    def encode_documents(self, tokens: Tensor, lengths: Tensor) -> EncodedMentions:
        """Read documents; see `EntityModule.encode_documents`."""
        states = self.text(tokens, lengths)[:, :-1]  # (B, T + 1, D)
        begin = self.entities.begin(states)[..., 0].double()  # (B, T + 1)
        end = functional.logsigmoid(-begin.gather(1, lengths[:, None])[:, 0])  # (B,)
        return EncodedMentions(states, end, self.entities.steps(states[:, :-1], states[:, 1:]))

    def _words(
        self, batch: InstanceBatch, held: MentionRows, states: Tensor, scores: Scores, ended: bool
    ) -> Tensor:
        """Return log p of each word and, if `ended`, of the end behind them, (R, T + 1)."""
        owner, (rows, width) = held.owner, scores.positions.shape
        lengths = batch.lengths[TOKENS][owner]  # (R,)
        times = torch.arange(width, device=owner.device)  # (T + 1,)
        at_end = times == width - 1  # (T + 1,)
        inside = (times < lengths[:, None]) | (at_end & ended)  # (R, T + 1)
        time = torch.where(at_end, lengths[:, None], times)  # (R, T + 1)
        targets = functional.pad(batch.tokens, (0, 1), value=EOS)  # (B, T + 1)
        starts = functional.pad(held.codes.starts, (0, 1))  # (R, T + 1)
        row, position = inside.nonzero(as_tuple=True)  # (N,)
        own = owner[row]
        known = own, time[row, position], targets[own, position], starts[row, position]
        spot = scores.positions[row, position]  # (N,)
        log_probs = self._word_log_probs(scores.vectors, spot, known, states)  # (N,)
        result = log_probs.new_zeros(rows, width)  # (R, T + 1)
        return result.index_put((row, position), log_probs)

    def _word_log_probs(
        self,
        vectors: Tensor,
        spot: Tensor,
        known: tuple[Tensor, Tensor, Tensor, Tensor],
        states: Tensor,
    ) -> Tensor:
        """Return log p of N words, each worked out once where several rows agree on it."""
        owner, time, targets, starts = known
        shift = self.context(to_rows(vectors))  # (G', D)
        inverse = None
        if not torch.is_grad_enabled():
            key = ((spot * len(states) + owner) * states.shape[1] + time) * 2 + starts  # (N,)
            unique, inverse = key.unique(return_inverse=True)
            chosen = torch.empty_like(unique).scatter_(
                0, inverse, torch.arange(len(key), device=key.device)
            )
            owner, time, targets, starts, spot = (
                part[chosen] for part in (owner, time, targets, starts, spot)
            )
        parts = []
        for begin in range(0, len(spot), WORDS_AT_ONCE):
            part = slice(begin, begin + WORDS_AT_ONCE)
            features = states[owner[part], time[part]] + shift[spot[part]]  # (C, D)
            parts.append(self.words.log_probs(features, targets[part], starts[part]))
        log_probs = torch.cat(parts)
        return log_probs if inverse is None else log_probs[inverse]

    def draw_texts(
        self, count: int, lots: Iterator[Tensor], maximum_words: int, vocabulary: Vocabulary
    ) -> Iterator[DrawnText]:
        """Draw (x, z) ~ p; a document may have no words. See `LatentModel.draw_texts`."""
        written = self._write(count, lots, maximum_words)
        for ids, codes, length in zip(*(part.numpy() for part in written), strict=True):
            arrays = {TOKENS: ids[:length], LATENTS: codes[:length]}
            words = split_words(vocabulary.decode([arrays[TOKENS]])[0])
            yield words, arrays, bool(length > maximum_words)

    def _write(
        self, count: int, lots: Iterator[Tensor], most: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return words and codes, (R, N), and lengths, (R,), on the CPU; N + 1 where a document
        goes on."""
        tokens = torch.full((count, most), EOS)  # (R, N)
        codes = torch.full((count, most), PADDING)  # (R, N)
        lengths = torch.full((count,), most + 1)  # (R,)
        position = torch.arange(count, device=self.device)  # (R',): the document of each row
        word, code = torch.full_like(position, BOS), torch.zeros_like(position)  # (R',)
        choices: EntityState | None = None
        carried: Any = None  # of the LSTM
        for time, draws in enumerate(lots):
            states, carried = self.text.layers(self.text.embedding(word)[:, None], carried)
            steps = self.entities.steps(states, states)  # (R', 1, ...)
            at = Steps(*(part[:, 0] for part in steps))
            if choices is None:
                choices = EntityState.of(self.entities, steps, position)
            else:
                choices = choices.take(at, time - 1, code)
            # (R',) each
            word, code = self._choose(choices, at, states[:, 0], time, draws[position])
            here, said, held = (part.cpu() for part in (position, word, code))
            alive = lengths[here] > most  # (R',): others are carried along until a quantum is free
            ended = alive & (said == EOS)
            lengths[here[ended]] = time
            going = (alive & ~ended).nonzero()[:, 0]  # (R'',)
            if time == most or not len(going):
                break
            tokens[here[going], time], codes[here[going], time] = said[going], held[going]
            if len(going) <= len(word) - QUANTUM:
                kept = round_up(going).to(self.device)
                position, word, code = position[kept], word[kept], code[kept]
                carried = carried[0][:, kept].contiguous(), carried[1][:, kept].contiguous()
                choices = choices.select(kept)
        return tokens, codes, lengths

    def _choose(
        self, choices: EntityState, at: Steps, states: Tensor, time: int, draws: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw the word, or the end, and the code of documents, int64, (R',) each."""
        code = choices.draw(at, time, draws, 1.0, time)  # (R',)
        inside, entity, _ = split_mention_codes(code)  # (R',)
        held = self.entities.vectors(choices.memory, entity)  # (R', D)
        context = torch.where(inside[:, None], held, choices.context)  # (R', D)
        features = states + self.context(context)  # (R', D)
        word = self.words.sample(features, inside & ~choices.running, draws[:, WORD_DRAWS:])
        return word, code
