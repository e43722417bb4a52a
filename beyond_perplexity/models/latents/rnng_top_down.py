"""What the networks of the labelled, top-down RNNG and of its proposal share: vectors of the stack.

They follow the actions of `rnng_top_down_actions`; the vectors of all nodes lie in common tensors.
A particle's choice of a word is its actions up to SHIFT, (K, C), padded with `PADDING`; after the
last word REDUCEs close what is open. Particles with the same actions so far share a node.

B instances, T words of the longest, P nodes of a step, M nodes in all, A actions, D width, L
layers, K particles, R rows, C actions of a choice, W actions of a row.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, InstanceBatch
from beyond_perplexity.invariant_tensors import round_up
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents import rnng_stack_memory
from beyond_perplexity.models.latents.rnng_instances import (
    FIRST_LABEL,
    REDUCE,
    SHIFT,
    ParsedTree,
    TreeModule,
    find_labels,
    labelled_actions,
)
from beyond_perplexity.models.latents.rnng_top_down_actions import (
    Nodes,
    TopDownOptions,
    action_log_probs,
    allowed,
    check_rows,
    known_actions,
)
from beyond_perplexity.vocabulary import BOS


def word_lstm(options: TopDownOptions) -> nn.LSTM:
    """Make the LSTM that reads the words beside the stack and the actions."""
    between = options.dropout if options.layers > 1 else 0.0
    size, layers = options.size, options.layers
    return nn.LSTM(size, size, layers, batch_first=True, dropout=between)


class StackEncoder(nn.Module):
    """The vectors of stack and actions (Dyer et al. 2016, sections 2.4 and 3.1)."""

    def __init__(self, ids: int, labels: int, options: TopDownOptions) -> None:
        super().__init__()
        size, layers, dropout = options.size, options.layers, options.dropout
        self.options = options
        self.embedding = nn.Embedding(ids, size)
        self.label = nn.Embedding(labels, size)
        self.action = nn.Embedding(FIRST_LABEL + labels + 1, size)  # the last begins a course
        self.stack = rnng_stack_memory.StackLSTM(size, layers, dropout)
        self.history = rnng_stack_memory.StackLSTM(size, layers, dropout)
        self.forward_children = rnng_stack_memory.StackLSTM(size, 1, dropout)
        self.backward_children = rnng_stack_memory.StackLSTM(size, 1, dropout)
        self.composition = nn.Linear(2 * size, size)
        self.context = nn.Linear(3 * size, size)
        for embedding in (self.embedding, self.label, self.action):
            nn.init.normal_(embedding.weight, std=size**-0.5)

    def drop(self, values: Tensor) -> Tensor:
        """Apply dropout."""
        return functional.dropout(values, self.options.dropout, self.training)


class Course:
    """A growing set of nodes with their vectors; `tokens`, int64, (B, T), `reading`, (B, T + 1, D),
    of the words before (or from) each position, `owner`, int64, (P,), for the first nodes."""

    def __init__(
        self, encoder: StackEncoder, tokens: Tensor, reading: Tensor, owner: Tensor
    ) -> None:
        self.nodes = Nodes(owner)
        self._encoder, self._tokens, self._reading = encoder, tokens, reading
        size = encoder.options.size
        widths = (size, encoder.stack.width, encoder.history.width, 2 * size)
        # Of items, stacks, histories and children
        self._memories = [
            rnng_stack_memory.StackMemory(max(1, len(owner)), width, reading) for width in widths
        ]
        bottom = encoder.drop(encoder.embedding(torch.full_like(owner, BOS)))  # (P, D)
        begin = torch.full_like(owner, encoder.action.num_embeddings - 1)  # (P,)
        stack, state = encoder.stack(bottom)  # (P, D), (P, 2 D L)
        history, past = encoder.history(encoder.drop(encoder.action(begin)))
        _, children = encoder.forward_children(bottom)  # (P, 2 D)
        self._write(bottom, state, past, children)
        self.contexts = [self._context(self.nodes.innermost, stack, history)]  # (P, D) each

    def _write(self, *parts: Tensor) -> None:
        for memory, part in zip(self._memories, parts, strict=True):
            memory.write(part)

    def _context(self, at: Tensor, stack: Tensor, history: Tensor) -> Tensor:
        """Return u = ReLU(b + S stack + A actions + T words) at new nodes, (P, D)."""
        position = self.nodes.words[at].clamp(max=self._reading.shape[1] - 1)  # (P,)
        words = self._reading[self.nodes.owner[at], position]  # (P, D)
        together = torch.cat([stack, history, words], 1)  # (P, 3 D)
        encoder = self._encoder
        return encoder.drop(torch.relu(encoder.context(encoder.drop(together))))

    def extend(self, parent: Tensor, action: Tensor) -> Tensor:
        """Make nodes with their vectors from nodes (P,) by an action each; return their numbers."""
        encoder, nodes = self._encoder, self.nodes
        _, stacks, histories, open_children = self._memories
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
        stack, state = encoder.stack(item, stacks.read(below))
        chosen = encoder.drop(encoder.action(action))  # (P, D)
        history, past = encoder.history(chosen, histories.read(parent))
        older = open_children.read(below) * (action < FIRST_LABEL)[:, None]  # (P, 2 D)
        _, children = encoder.forward_children(item, older)
        self._write(item, state, past, children)
        self.contexts.append(self._context(at, stack, history))
        return at

    def pruned(self, at: Tensor) -> tuple[Course, Tensor]:
        """Return a course with all that rows at nodes, (R,), still need (this one unless most are
        needed no more), and their nodes in it; no gradient leads back."""
        if not self.nodes.spent():
            return self, at
        chosen = self.nodes.stacked(at)  # (N,)
        course, course.contexts = copy.copy(self), []
        course.nodes, number = self.nodes.picked(chosen)
        course._memories = [memory.picked(chosen) for memory in self._memories]
        return course, number[at]

    def _compose(self, last: Tensor) -> Tensor:
        """Join the phrase whose last child is on top at nodes (J,), (J, D): an LSTM has run over
        label and children as they came; the backward one runs now."""
        encoder, nodes = self._encoder, self.nodes
        size = encoder.options.size
        items, *_, children = self._memories
        opening = nodes.innermost[last]  # (J,)
        ahead = children.read(last)[:, :size]  # (J, D)
        _, state = encoder.backward_children(items.read(opening))  # (J, 2 D)
        child = last
        while bool((child != opening).any()):
            going = (child != opening)[:, None]  # (J, 1)
            _, after = encoder.backward_children(items.read(child), state)
            state = torch.where(going, after, state)
            child = torch.where(going[:, 0], nodes.below[child], child)
        back = state[:, :size]  # (J, D)
        return torch.relu(encoder.composition(torch.cat([ahead, back], 1)))


class Followed(NamedTuple):
    """Known rows of actions, and the course that they take: node i is node i of the prefixes."""

    latents: Tensor  # int64, (R, W), SHIFT in place of what is no action
    valid: Tensor  # bool, (R,): the row is a tree over its words
    counted: Tensor  # bool, (R, W): actions of such rows
    prefixes: rnng_stack_memory.Prefixes
    nodes: Nodes
    contexts: Tensor  # (M, D)
    possible: Tensor  # bool, (M, A)


class LabelledTreeModule(TreeModule):
    """The labelled, top-down RNNG and its proposal, of phrases with `labels`; the limits of a
    proposal have to be those of the model."""

    options_kind: ClassVar[type[TopDownOptions]]
    shapes = MappingProxyType({"unknown_classes": [], "labels": []})
    choice: nn.Linear  # Scores actions

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of phrases."""
        return tuple(self.shapes["labels"])

    def build(self) -> None:
        """Make the encoder of the stack, untrained."""
        self.encoder = StackEncoder(self.ids, len(self.labels), self.options)

    @property
    def support(self) -> dict[str, Any]:
        """The caps of the latents, their labels, and the classes of unknown words."""
        caps = {name: getattr(self.options, name) for name in ("maximum_open", "maximum_run")}
        return {**caps, **self.shapes}

    @classmethod
    def labels_of(cls, corpus: CorpusFiles) -> dict[str, Any]:
        """Return those of the training split."""
        return {"labels": list(find_labels(corpus))}

    def actions(self, one: ParsedTree) -> list[int] | None:
        """Return the actions of a tree; None where it breaks a limit of the options."""
        options = self.options
        return labelled_actions(one, self.labels, options.maximum_open, options.maximum_run)

    @abstractmethod
    def _read(self, batch: InstanceBatch) -> Tensor:
        """Run the LSTM over the words: its output at each position, (B, T + 1, D)."""

    def reading(self, batch: InstanceBatch) -> Tensor:
        """Return `_read`, worked out once a batch."""
        return batch.keep((self, "reading"), lambda: self._read(batch))

    def possible(self, batch: InstanceBatch, nodes: Nodes, at: Tensor) -> Tensor:
        """Tell which actions can be taken at nodes (P,): bool, (P, A)."""
        return allowed(nodes, at, self.options, len(self.labels))

    def action_log_probs(
        self, state: LabelledParticles, rows: Tensor, temperature: float = 1.0
    ) -> Tensor:
        """Return log p of all next actions of some particles, (R,): nats, float64, (R, A)."""
        possible = self.possible(state.batch, state.course.nodes, state.at[rows])  # (R, A)
        return action_log_probs(state.scores[rows], possible, temperature)

    def start(self, batch: InstanceBatch, owner: Tensor) -> LabelledParticles:
        """Return the state of particles; see `SequentialModel` and `SequentialProposal`."""
        return LabelledParticles.of(self, batch, self.reading(batch), owner)

    def follow_rows(
        self, batch: InstanceBatch, reading: Tensor, owner: Tensor, latents: Tensor
    ) -> Followed:
        """Follow rows of actions, (R, W); reading is (B, T + 1, D)."""
        latents, known = known_actions(latents, len(self.labels))
        prefixes = rnng_stack_memory.share_prefixes(owner, latents)
        row, step = prefixes.rows, prefixes.steps  # (M,)
        before = (step - 1).clamp(min=0)  # (M,)
        parents = prefixes.nodes[row, before].split(prefixes.sizes)  # (P,) at each step
        actions = latents[row, before].split(prefixes.sizes) if latents.shape[1] else ()
        first = owner[row[: prefixes.sizes[0]]]  # (P,)
        course = Course(self.encoder, batch.tokens, reading, first)
        for parent, action in zip(parents[1:], actions[1:], strict=True):
            if len(parent):
                course.extend(parent, action)
        nodes, contexts = course.nodes, torch.cat(course.contexts)  # (M, D)
        possible = self.possible(batch, nodes, torch.arange(len(nodes), device=owner.device))
        lengths = batch.lengths[TOKENS][owner]  # (R,)
        valid = known & check_rows(nodes, prefixes, latents, lengths, possible)  # (R,)
        counted = (latents != PADDING) & valid[:, None]  # (R, W)
        return Followed(latents, valid, counted, prefixes, nodes, contexts, possible)


class LabelledParticles(NamedTuple):
    """What particles have done so far."""

    course: Course
    model: LabelledTreeModule
    batch: InstanceBatch
    at: Tensor  # int64, (K,): their nodes
    context: Tensor  # (K, D): at those nodes
    scores: Tensor  # (K, A): of the next action, before anything is impossible

    @classmethod
    def of(
        cls, model: LabelledTreeModule, batch: InstanceBatch, reading: Tensor, owner: Tensor
    ) -> LabelledParticles:
        """Return the state of particles that have read nothing; reading is (B, T + 1, D)."""
        first = round_up(torch.arange(len(batch), device=owner.device))  # (P,)
        course = Course(model.encoder, batch.tokens, reading, first)
        context = course.contexts[-1]  # (P, D)
        return cls(course, model, batch, owner, context[owner], model.choice(context)[owner])

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
        distinct, inverse = torch.unique(self.at[rows] * kinds + action, return_inverse=True)
        made = round_up(distinct)  # (P,)
        nodes = self.course.extend(made // kinds, made % kinds)  # (P,)
        context = self.course.contexts.pop()  # (P, D)
        scores = self.model.choice(context)  # (P, A)
        return self._replace(
            at=self.at.index_copy(0, rows, nodes[inverse]),
            context=self.context.index_copy(0, rows, context[inverse]),
            scores=self.scores.index_copy(0, rows, scores[inverse]),
        )

    def read(
        self, choice: Tensor, score: Callable[[LabelledParticles, Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, LabelledParticles]:
        """Take the actions of a word, (K, C); return their log probability, float64, (K,)."""
        state = self.pruned()
        log_prob = torch.zeros(len(choice), dtype=torch.float64, device=choice.device)  # (K,)
        for actions in choice.unbind(1):
            rows = (actions != PADDING).nonzero()[:, 0]  # (R,)
            if len(rows):
                log_prob = log_prob.index_add(0, rows, score(state, rows, actions[rows]))
                state = state.take(rows, actions[rows])
        return log_prob, state
