"""Binary trees that grow action by action, with the vectors of the RNNG: for particles and samples.

A node is what a prefix of actions has led to, as in `rnng_binary_trees`, but without a row: it
knows the node that it lies on, and so all of its stack. Rows (particles, samples) are numbers of
nodes; those whose actions were the same so far have the same node, which is worked out once.
The choice of a word is how many subtrees are joined before it is shifted, by REDUCEs one after the
other; what follows the last word has no choice.

K particles, W actions of a row, T words, P nodes of a step, M nodes in all, R rows, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.invariant_tensors import round_up
from beyond_perplexity.models.latents.rnng_stack_memory import StackLSTM
from beyond_perplexity.models.word_softmax import Words, word_log_probs
from beyond_perplexity.vocabulary import BOS, EOS

FEWEST_TREES = 4096  # nodes that are never thrown away


class BinaryNetwork(NamedTuple):
    """The parts of an RNNG that make vectors of nodes."""

    embedding: nn.Embedding
    stack: StackLSTM
    compose: Callable[[Tensor, Tensor], Tensor]
    reduce: nn.Linear  # Gives the logit of REDUCE
    word_bias: Tensor  # (V,), of the output layer, whose weights are those of the embedding
    eos: bool  # Sentences have an end


class _Made(NamedTuple):
    """Columns of nodes: item (P, 2 D), state (P, S), context (P, D), the rest (P,)."""

    item: Tensor
    state: Tensor
    context: Tensor
    logit: Tensor
    below: Tensor
    depth: Tensor


class BinaryCourse:
    """A growing set of nodes.

    `network`: in evaluation mode; `count`: first nodes, with nothing on their stacks: nodes 0, 1,
    ... One for each sentence that is followed, so that different sentences share nothing.
    """

    def __init__(self, network: BinaryNetwork, count: int) -> None:
        self._network = network
        self._end = self._kept = 0
        first = round_up(torch.arange(count, device=network.reduce.weight.device))  # (P,)
        embedded = network.embedding(torch.full_like(first, BOS))  # (P, D)
        context, state = network.stack(embedded)  # (P, D), (P, S)
        item = functional.pad(torch.zeros_like(embedded), (0, embedded.shape[1]))  # (P, 2 D)
        logit = network.reduce(context)[:, 0].double()  # (P,)
        made = _Made(item, state, context, logit, first, torch.zeros_like(first))
        self._table = _Made(*(column[:0] for column in made))
        self._append(made, count)

    def __len__(self) -> int:
        return self._end

    def contexts(self, at: Tensor) -> Tensor:
        """Return what the stack LSTM says at nodes (R,): (R, D)."""
        return self._table.context[at]

    def logits(self, at: Tensor) -> Tensor:
        """Return the logit of REDUCE at nodes (R,): float64, (R,)."""
        return self._table.logit[at]

    def depth(self, at: Tensor) -> Tensor:
        """Return how many subtrees lie on the stack at nodes (R,): int64, (R,)."""
        return self._table.depth[at]

    def shift(self, at: Tensor, words: Tensor) -> Tensor:
        """Put words, (R,), on the stacks of nodes, (R,); return the new nodes, (R,)."""
        many = self._network.embedding.num_embeddings
        distinct, place = torch.unique(at * many + words, return_inverse=True)  # (P,), (R,)
        made = round_up(distinct)  # (P',)
        item = self._network.embedding(made % many)  # (P', D)
        item = functional.pad(item, (0, item.shape[1]))  # (P', 2 D)
        return self._push(item, made // many, len(distinct))[place]

    def reduce(self, at: Tensor) -> Tensor:
        """Join the two topmost subtrees of nodes, (R,); return the new nodes, (R,)."""
        distinct, place = torch.unique(at, return_inverse=True)  # (P,), (R,)
        right = round_up(distinct)  # (P',)
        left = self._table.below[right]  # (P',)
        item = self._network.compose(self._table.item[left], self._table.item[right])  # (P', 2 D)
        return self._push(item, self._table.below[left], len(distinct))[place]

    def pruned(self, at: Tensor) -> tuple[BinaryCourse, Tensor]:
        """Return a course with all that rows, (R,), still need, and their nodes in it, (R,).

        It is this course itself unless most of its nodes are needed no more.
        """
        if self._end < max(FEWEST_TREES, 2 * self._kept):
            return self, at
        needed = torch.zeros(self._end, dtype=torch.bool, device=at.device)  # (M,)
        level = torch.unique(at)  # (P,)
        while not bool(needed[level].all()):
            needed[level] = True
            level = torch.unique(self._table.below[level])  # (P,)
        chosen = needed.nonzero()[:, 0]  # (M',)
        number = needed.cumsum(0) - 1  # (M,)
        course = object.__new__(BinaryCourse)
        course._network = self._network
        made = _Made(*(column[chosen] for column in self._table))
        course._table = made._replace(below=number[made.below])
        course._end = course._kept = len(chosen)
        return course, number[at]

    def _push(self, item: Tensor, below: Tensor, count: int) -> Tensor:
        """Make nodes of items, (P', 2 D), on nodes, (P',); return the first `count`, (P,)."""
        network = self._network
        width = item.shape[1] // 2
        context, state = network.stack(item[:, :width], self._table.state[below])
        logit = network.reduce(context)[:, 0].double()  # (P',)
        made = _Made(item, state, context, logit, below, self._table.depth[below] + 1)
        return self._append(made, count)

    def _append(self, made: _Made, count: int) -> Tensor:
        end = self._end + count
        if end > len(self._table.below):
            room = max(end, 2 * len(self._table.below)) - self._end
            self._table = _Made(
                *(
                    torch.cat([old[: self._end], new.new_zeros(room, *new.shape[1:])])
                    for old, new in zip(self._table, made, strict=True)
                )
            )
        for old, new in zip(self._table, made, strict=True):
            old[self._end : end] = new[:count]
        found = torch.arange(self._end, end, device=made.below.device)  # (P,)
        self._end = end
        return found


class TreeParticles(NamedTuple):
    """What particles have done so far."""

    course: BinaryCourse
    at: Tensor  # int64, (K,): their nodes
    owner: Tensor  # int64, (K,): the sentence of each
    batch: InstanceBatch

    @classmethod
    def of(cls, network: BinaryNetwork, batch: InstanceBatch, owner: Tensor) -> TreeParticles:
        """Return the state of particles that have read nothing."""
        return cls(BinaryCourse(network, len(batch)), owner, owner, batch)

    def select(self, rows: Tensor) -> TreeParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        course, at = self.course.pruned(self.at[rows])
        return TreeParticles(course, at, self.owner[rows], self.batch)


def read_word(
    network: BinaryNetwork, state: TreeParticles, time: int, closings: Tensor
) -> tuple[Tensor, TreeParticles]:
    """Join subtrees, as many as `closings`, (K,), says, and shift the next word.

    Returns `log_prob`: Nats, float64, (K,).
    """
    course, at = state.course.pruned(state.at)
    log_prob, at = _close(course, at, closings)
    logits, free = course.logits(at), course.depth(at) >= 2  # (K,)
    log_prob = log_prob + functional.logsigmoid(-logits).masked_fill(~free, 0.0)
    words = state.batch.tokens[state.owner, time]  # (K,)
    log_prob = log_prob + next_word_log_probs(network, course, at, words)
    return log_prob, state._replace(course=course, at=course.shift(at, words))


def read_end(network: BinaryNetwork, state: TreeParticles, time: int, ended: bool) -> Tensor:
    """Join what is left and, if `ended`, end the sentence: nats, float64, (K,).

    0 where it goes on.
    """
    log_prob = torch.zeros(len(state.at), dtype=torch.float64, device=state.at.device)  # (K,)
    rows = (state.batch.lengths[TOKENS][state.owner] == time).nonzero()[:, 0]  # (E,)
    course, at = state.course.pruned(state.at)
    closed, at = _close(course, at[rows], course.depth(at[rows]) - 1)  # (E,)
    if ended:
        closed = closed + next_word_log_probs(network, course, at, torch.full_like(at, EOS))
    return log_prob.index_copy(0, rows, closed)


def _close(course: BinaryCourse, at: Tensor, closings: Tensor) -> tuple[Tensor, Tensor]:
    """Join subtrees of nodes, (K,): the log probability, float64, and the new nodes."""
    log_prob = torch.zeros(len(at), dtype=torch.float64, device=at.device)  # (K,)
    for step in range(int(closings.max()) if len(at) else 0):
        rows = (closings > step).nonzero()[:, 0]  # (J,)
        here = at[rows]  # (J,)
        log_prob = log_prob.index_add(0, rows, functional.logsigmoid(course.logits(here)))
        at = at.index_copy(0, rows, course.reduce(here))
    return log_prob, at


def next_word_log_probs(
    network: BinaryNetwork, course: BinaryCourse, at: Tensor, words: Tensor
) -> Tensor:
    """Return log p of words, (K,), after nodes, (K,), nats, float64; worked out once for a pair."""
    many = network.embedding.num_embeddings
    distinct, place = torch.unique(at * many + words, return_inverse=True)  # (P,), (K,)
    asked = round_up(distinct)  # (P',)
    nodes = asked // many  # (P',)
    may_end = (course.depth(nodes) == 1) & network.eos  # (P',)
    weight, bias = network.embedding.weight, network.word_bias
    goal = Words(asked % many, may_end)
    return word_log_probs(course.contexts(nodes), weight, bias, goal)[place]
