"""What the networks of the labelled, top-down RNNG and of its proposal share: vectors of the stack.

They follow the actions of `rnng_top_down_actions`; the vectors of all nodes lie in common tensors.
A particle's choice of a word is its actions up to SHIFT, (K, C), padded with `FILLING`; after the
last word REDUCEs close what is open. Particles with the same actions so far share a node.

B instances, T words of the longest, P nodes of a step, M nodes in all, A actions, D width, L
layers, K particles, R rows, C actions of a choice, W actions of a row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import round_up
from beyond_perplexity.models.latent import FILLING, LatentModule
from beyond_perplexity.models.latents.rnng_instances import (
    ACTIONS,
    FIRST_LABEL,
    REDUCE,
    SHIFT,
    find_labels,
    find_unknown_classes,
)
from beyond_perplexity.models.latents.rnng_stack_memory import Prefixes, StackLSTM, StackMemory
from beyond_perplexity.models.latents.rnng_top_down_actions import (
    Nodes,
    TopDownOptions,
    labelled_instances,
)
from beyond_perplexity.options import parse_options
from beyond_perplexity.vocabulary import BOS, Vocabulary

FEWEST_NODES = 4096  # that are never thrown away


def word_lstm(options: TopDownOptions) -> nn.LSTM:
    """Make the LSTM that reads the words beside the stack and the actions."""
    between = options.dropout if options.layers > 1 else 0.0
    size, layers = options.size, options.layers
    return nn.LSTM(size, size, layers, batch_first=True, dropout=between)


class StackEncoder(nn.Module):
    """The vectors of stack and actions (Dyer et al. 2016, sections 2.4 and 3.1).

    `ids`: Words; `labels`: Labels.
    """

    def __init__(self, ids: int, labels: int, options: TopDownOptions) -> None:
        super().__init__()
        size, layers, dropout = options.size, options.layers, options.dropout
        self.options = options
        self.embedding = nn.Embedding(ids, size)
        self.label = nn.Embedding(labels, size)
        self.action = nn.Embedding(FIRST_LABEL + labels + 1, size)  # the last begins a course
        self.stack = StackLSTM(size, layers, dropout)
        self.history = StackLSTM(size, layers, dropout)
        self.forward_children = StackLSTM(size, 1, dropout)
        self.backward_children = StackLSTM(size, 1, dropout)
        self.composition = nn.Linear(2 * size, size)
        self.context = nn.Linear(3 * size, size)
        for embedding in (self.embedding, self.label, self.action):
            nn.init.normal_(embedding.weight, std=size**-0.5)

    def drop(self, values: Tensor) -> Tensor:
        """Apply dropout."""
        return functional.dropout(values, self.options.dropout, self.training)


class Course:
    """A growing set of nodes with their vectors.

    `tokens`: int64, (B, T); `reading`: (B, T + 1, D): what the words before (or from) each place
    come to; `owner`: int64, (P,): makes the first nodes.
    """

    def __init__(
        self, encoder: StackEncoder, tokens: Tensor, reading: Tensor, owner: Tensor
    ) -> None:
        self.nodes = Nodes(owner)
        self._kept = 0
        self._encoder, self._reading = encoder, reading
        self._tokens = tokens
        size = encoder.options.size
        widths = (size, encoder.stack.width, encoder.history.width, 2 * size)
        self._items, self._stacks, self._histories, self._children = (
            StackMemory(max(1, len(owner)), width, reading) for width in widths
        )
        bottom = encoder.drop(encoder.embedding(torch.full_like(owner, BOS)))  # (P, D)
        begin = torch.full_like(owner, encoder.action.num_embeddings - 1)  # (P,)
        stack, state = encoder.stack(bottom)  # (P, D), (P, 2 D L)
        history, past = encoder.history(encoder.drop(encoder.action(begin)))
        _, children = encoder.forward_children(bottom)  # (P, 2 D)
        self._write(bottom, state, past, children)
        self.contexts = [self._context(self.nodes.innermost, stack, history)]  # (P, D) each

    def _write(self, item: Tensor, state: Tensor, past: Tensor, children: Tensor) -> None:
        self._items.write(item)
        self._stacks.write(state)
        self._histories.write(past)
        self._children.write(children)

    def _context(self, at: Tensor, stack: Tensor, history: Tensor) -> Tensor:
        """Return u = ReLU(b + S stack + A actions + T words) at new nodes, (P, D)."""
        place = self.nodes.words[at].clamp(max=self._reading.shape[1] - 1)  # (P,)
        words = self._reading[self.nodes.owner[at], place]  # (P, D)
        together = torch.cat([stack, history, words], 1)  # (P, 3 D)
        encoder = self._encoder
        return encoder.drop(torch.relu(encoder.context(encoder.drop(together))))

    def extend(self, parent: Tensor, action: Tensor) -> Tensor:
        """Make nodes with their vectors from nodes (P,) by an action each; return their numbers."""
        encoder, nodes = self._encoder, self.nodes
        at = nodes.extend(parent, action)  # (P,)
        last = (nodes.words[at] - 1).clamp(0, self._tokens.shape[1] - 1)  # (P,)
        words = encoder.embedding(self._tokens[nodes.owner[at], last])  # (P, D)
        opens = encoder.label((action - FIRST_LABEL).clamp(min=0))  # (P, D)
        item = encoder.drop(torch.where((action == SHIFT)[:, None], words, opens))  # (P, D)
        closing = (action == REDUCE).nonzero()[:, 0]  # (J,)
        if len(closing):
            composed = self._compose(parent[round_up(closing)])[: len(closing)]  # (J, D)
            item = item.index_copy(0, closing, composed.to(item.dtype))
        below = nodes.below[at]  # (P,)
        stack, state = encoder.stack(item, self._stacks.read(below))
        chosen = encoder.drop(encoder.action(action))  # (P, D)
        history, past = encoder.history(chosen, self._histories.read(parent))
        older = self._children.read(below) * (action < FIRST_LABEL)[:, None]  # (P, 2 D)
        _, children = encoder.forward_children(item, older)
        self._write(item, state, past, children)
        self.contexts.append(self._context(at, stack, history))
        return at

    def pruned(self, at: Tensor) -> tuple[Course, Tensor]:
        """Return a course with all that rows at nodes, (R,), still need, and their nodes in it.

        It is this course itself unless most of its nodes are needed no more. For inference alone:
        no gradient leads back to this course.
        """
        if len(self.nodes) < max(FEWEST_NODES, 2 * self._kept):
            return self, at
        nodes, chosen, number = self.nodes.pruned(at)
        course = object.__new__(Course)
        course.nodes, course._kept, course.contexts = nodes, len(chosen), []
        course._encoder, course._reading, course._tokens = (
            self._encoder,
            self._reading,
            self._tokens,
        )
        parts = (self._items, self._stacks, self._histories, self._children)
        course._items, course._stacks, course._histories, course._children = (
            memory.picked(chosen) for memory in parts
        )
        return course, number[at]

    def _compose(self, last: Tensor) -> Tensor:
        """Join the phrase whose last child is on top at nodes (J,): its vector, (J, D).

        Forwards an LSTM has run over label and children as they came; backwards it runs now, over
        the label and the children from the last to the first.
        """
        encoder, nodes = self._encoder, self.nodes
        size = encoder.options.size
        opening = nodes.innermost[last]  # (J,)
        ahead = self._children.read(last)[:, :size]  # (J, D)
        _, state = encoder.backward_children(self._items.read(opening))  # (J, 2 D)
        child = last
        while bool((child != opening).any()):
            going = (child != opening)[:, None]  # (J, 1)
            _, after = encoder.backward_children(self._items.read(child), state)
            state = torch.where(going, after, state)
            child = torch.where(going[:, 0], nodes.below[child], child)
        back = state[:, :size]  # (J, D)
        return torch.relu(encoder.composition(torch.cat([ahead, back], 1)))


def follow(
    encoder: StackEncoder,
    tokens: Tensor,
    reading: Tensor,
    owner: Tensor,
    latents: Tensor,
    prefixes: Prefixes,
) -> Course:
    """Build the course of known rows of actions; node i is node i of the prefixes.

    `tokens`: int64, (B, T); `reading`: (B, T + 1, D); `owner`: int64, (R,); `latents`: int64, (R,
    W), without unknown actions; `prefixes`: of these rows.
    """
    row, step = prefixes.rows, prefixes.steps  # (M,)
    before = (step - 1).clamp(min=0)  # (M,)
    parents = prefixes.nodes[row, before].split(prefixes.sizes)  # (P,) at each step
    actions = latents[row, before].split(prefixes.sizes) if latents.shape[1] else ()
    course = Course(encoder, tokens, reading, owner[row[: prefixes.sizes[0]]])
    for parent, action in zip(parents[1:], actions[1:], strict=True):
        if len(parent):
            course.extend(parent, action)
    return course


class LabelledTreeModule(LatentModule):
    """The labelled, top-down RNNG and its proposal: how they are made and what they read.

    `vocabulary_size`: ids of the vocabulary; `architecture`: see `options_kind`; the limits of a
    proposal have to be those of the model; `labels`: labels of phrases; `unknown_classes`: classes
    of unknown words: their ids come after those of the vocabulary.

    Raises InputError when an option is unknown or wrong.
    """

    options_kind: ClassVar[type[TopDownOptions]]
    annotation = ACTIONS

    def __init__(
        self,
        vocabulary_size: int,
        architecture: Mapping[str, Any],
        labels: Sequence[str],
        unknown_classes: Sequence[str] = (),
    ) -> None:
        shapes = {"labels": list(labels), "unknown_classes": list(unknown_classes)}
        super().__init__(vocabulary_size, architecture, shapes)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of phrases."""
        return tuple(self.shapes["labels"])

    @property
    def unknown_classes(self) -> tuple[str, ...]:
        """The classes of unknown words."""
        return tuple(self.shapes["unknown_classes"])

    def build(self) -> None:
        """Make the encoder of the stack, untrained."""
        ids = self.vocabulary_size + len(self.unknown_classes)
        self.encoder = StackEncoder(ids, len(self.labels), self.options)

    @property
    def support(self) -> dict[str, Any]:
        """The caps of the latents, their labels, and the classes of unknown words."""
        caps = {name: getattr(self.options, name) for name in ("maximum_open", "maximum_run")}
        return {**caps, **self.shapes}

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module; see `LatentModule.create`."""
        options = parse_options(cls.options_kind, architecture, "architecture")
        classes = find_unknown_classes(corpus, vocabulary, options)
        return cls(vocabulary.size, architecture, find_labels(corpus), classes)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read sentences with their labelled trees; see `labelled_instances`."""
        return labelled_instances(
            corpus, split, vocabulary, self.options, self.labels, self.unknown_classes
        )

    @abstractmethod
    def _read(self, batch: InstanceBatch) -> Tensor:
        """Run the LSTM over the words: its output at each place, (B, T + 1, D)."""

    def reading(self, batch: InstanceBatch) -> Tensor:
        """Return `_read`, worked out once a batch."""
        return batch.keep((self, "reading"), lambda: self._read(batch))


class LabelledParticles(NamedTuple):
    """What particles have done so far."""

    course: Course
    choice: nn.Linear  # Scores actions
    batch: InstanceBatch
    at: Tensor  # int64, (K,): their nodes
    context: Tensor  # (K, D): at those nodes
    scores: Tensor  # (K, A): of the next action, before anything is impossible

    @classmethod
    def of(
        cls,
        encoder: StackEncoder,
        choice: nn.Linear,
        batch: InstanceBatch,
        reading: Tensor,
        owner: Tensor,
    ) -> LabelledParticles:
        """Return the state of particles that have read nothing; reading is (B, T + 1, D)."""
        first = round_up(torch.arange(len(batch), device=owner.device))  # (P,)
        course = Course(encoder, batch.tokens, reading, first)
        context = course.contexts[-1]  # (P, D)
        return cls(course, choice, batch, owner, context[owner], choice(context)[owner])

    @property
    def owner(self) -> Tensor:
        """int64, (K,): the sentence of each."""
        return self.course.nodes.owner[self.at]

    def select(self, rows: Tensor) -> LabelledParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(at=self.at[rows], context=self.context[rows], scores=self.scores[rows])

    def pruned(self) -> LabelledParticles:
        """Return the same state without nodes that nobody needs any more."""
        course, at = self.course.pruned(self.at)
        return self._replace(course=course, at=at)

    def take(self, rows: Tensor, action: Tensor) -> LabelledParticles:
        """Let some particles, (R,), take an action each, (R,)."""
        kinds = self.scores.shape[1]
        distinct, place = torch.unique(self.at[rows] * kinds + action, return_inverse=True)
        made = round_up(distinct)  # (P,)
        nodes = self.course.extend(made // kinds, made % kinds)  # (P,)
        context = self.course.contexts.pop()  # (P, D)
        scores = self.choice(context)  # (P, A)
        return self._replace(
            at=self.at.index_copy(0, rows, nodes[place]),
            context=self.context.index_copy(0, rows, context[place]),
            scores=self.scores.index_copy(0, rows, scores[place]),
        )


def read_actions(
    state: LabelledParticles,
    choice: Tensor,
    score: Callable[[LabelledParticles, Tensor, Tensor], Tensor],
) -> tuple[Tensor, LabelledParticles]:
    """Take the actions of a word, (K, C); return their log probability, nats, float64, (K,)."""
    state = state.pruned()
    log_prob = torch.zeros(len(choice), dtype=torch.float64, device=choice.device)  # (K,)
    for actions in choice.unbind(1):
        rows = (actions != FILLING).nonzero()[:, 0]  # (R,)
        if len(rows):
            log_prob = log_prob.index_add(0, rows, score(state, rows, actions[rows]))
            state = state.take(rows, actions[rows])
    return log_prob, state


def close_all(
    state: LabelledParticles,
    time: int,
    score: Callable[[LabelledParticles, Tensor, Tensor], Tensor],
    ended: bool,
) -> Tensor:
    """Close what is open in sentences that end after `time` words: log p, float64, (K,).

    Without `ended` the root stays open. 0 where the sentence goes on.
    """
    log_prob = torch.zeros(len(state.at), dtype=torch.float64, device=state.at.device)  # (K,)
    here = state.batch.lengths[TOKENS][state.owner] == time  # (K,)
    state = state.pruned()
    while True:
        opened = state.course.nodes.opened[state.at]  # (K,)
        rows = (here & (opened > (0 if ended else 1))).nonzero()[:, 0]  # (R,)
        if not len(rows):
            return log_prob
        action = torch.full_like(rows, REDUCE)  # (R,)
        log_prob = log_prob.index_add(0, rows, score(state, rows, action))
        state = state.take(rows, action)


def join_actions(choices: Tensor, lengths: Tensor) -> Tensor:
    """Make rows of z of the actions up to each word, (R, T, C): int64, (R, W)."""
    word = torch.arange(choices.shape[1], device=choices.device)  # (T,)
    inside = (word < lengths[:, None])[..., None]  # (R, T, 1)
    flat = torch.where(inside, choices, FILLING).flatten(1)  # (R, T C)
    opened = (flat >= FIRST_LABEL).sum(1) - (flat == REDUCE).sum(1)  # (R,)
    count = (flat != FILLING).sum(1)  # (R,)
    width = int((count + opened).max())
    order = (flat == FILLING).long().argsort(stable=True, dim=1)  # (R, T C)
    flat = functional.pad(flat.gather(1, order), (0, width), value=FILLING)[:, :width]  # (R, W)
    place = torch.arange(width, device=flat.device)  # (W,)
    closing = (place >= count[:, None]) & (place < (count + opened)[:, None])  # (R, W)
    return torch.where(closing, REDUCE, flat)


def split_actions(latents: Tensor, longest: int) -> Tensor:
    """Cut rows of z, (R, W), into the actions up to each word, int64, (R, T, C)."""
    shifts = (latents == SHIFT).long()  # (R, W)
    word = shifts.cumsum(1) - shifts  # (R, W): the word that an action leads to
    counted = (latents != FILLING) & (word < longest)  # (R, W)
    slot = torch.where(counted, word, longest)  # (R, W)
    counts = torch.zeros(len(latents), longest + 1, dtype=torch.int64, device=latents.device)
    counts = counts.scatter_add(1, slot, torch.ones_like(slot))  # (R, T + 1)
    place = torch.arange(latents.shape[1], device=latents.device)  # (W,)
    before = (counts.cumsum(1) - counts).gather(1, slot)  # (R, W): actions of earlier words
    widest = max(1, int(counts[:, :-1].max()))
    found = latents.new_full((len(latents), (longest + 1) * widest + 1), FILLING)
    spot = torch.where(counted, slot * widest + place - before, found.shape[1] - 1)  # (R, W)
    found = found.scatter(1, spot, torch.where(counted, latents, FILLING))
    return found[:, : longest * widest].unflatten(1, (longest, widest))
