"""Binary trees as rows of SHIFT and REDUCE, and as they grow, with the vectors of the RNNG.

A row of T words has 2T − 1 actions, then `PADDING`. Every action pushes a node: SHIFT the next
word, REDUCE the two topmost joined. Node 0 is the empty stack, node n what action n − 1 pushed.
Particles and samples with the same actions so far have the same node of a `NodeTable`. The choice
of a word is how many subtrees are joined before it is shifted; what follows the last word has no
choice.

R rows, W actions of the longest, K particles, P nodes of a step, J of these joined from two, M
nodes in all, D width, S of a state.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.invariant_tensors import round_up
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.rnng_instances import (
    REDUCE,
    SHIFT,
    DrawnSentences,
    close_rows,
    draw_words,
)
from beyond_perplexity.models.latents.rnng_stack_memory import NodeTable
from beyond_perplexity.models.word_softmax import Words, word_log_probs
from beyond_perplexity.vocabulary import BOS, EOS

if TYPE_CHECKING:
    from beyond_perplexity.models.latents.rnng import RNNG


class Traced(NamedTuple):
    """The course of each row."""

    below: Tensor  # int64, (R, W + 1): the node that each node lies on
    depth: Tensor  # int64, (R, W + 1): nodes on the stack, this one included
    words: Tensor  # int64, (R, W + 1): words shifted so far
    valid: Tensor  # bool, (R,): the row is one binary tree over its words


def trace(latents: Tensor, lengths: Tensor) -> Traced:
    """Follow rows of actions, (R, W), over sentences of T words each, (R,)."""
    shifts, reduces = latents == SHIFT, latents == REDUCE  # (R, W)
    start = (1, 0)
    words = functional.pad(shifts.cumsum(1), start)  # (R, W + 1)
    depth = words - functional.pad(reduces.cumsum(1), start)  # (R, W + 1)
    known = shifts | reduces | (latents == PADDING)  # (R, W)
    filled = latents != PADDING  # (R, W)
    valid = (
        known.all(1)
        & (filled.sum(1) == 2 * lengths - 1)
        & (filled[:, 1:] <= filled[:, :-1]).all(1)
        & (words[:, -1] == lengths)
        & (~reduces | (depth[:, :-1] >= 2)).all(1)
    )  # (R,)
    level = depth.clamp(min=1)  # (R, W + 1)
    newest = torch.zeros_like(level)  # (R, W + 1): the node pushed last at each depth
    below = torch.zeros_like(level)  # (R, W + 1)
    for node in range(1, level.shape[1]):
        at = level[:, node, None]  # (R, 1)
        below[:, node, None] = newest.gather(1, at - 1)
        newest.scatter_(1, at, node)
    return Traced(below, depth, words, valid)


def spans(latents: Tensor, traced: Traced) -> tuple[Tensor, Tensor, Tensor]:
    """List the first and the last word that each REDUCE covers, 0 elsewhere, and where one is, (R,
    W) each."""
    counts = latents == REDUCE  # (R, W)
    first = traced.words.gather(1, traced.below)[:, 1:]  # (R, W)
    last = traced.words[:, 1:] - 1  # (R, W)
    return first * counts, last.clamp(min=0) * counts, counts


def from_closings(closings: Tensor, lengths: Tensor) -> Tensor:
    """Make rows of actions, (R, 2 T − 1), from the number of REDUCEs after each word, (R, T)."""
    rows, longest = closings.shape
    positions = torch.arange(2 * longest - 1, device=closings.device).expand(rows, -1)  # (R, W)
    latents = torch.where(positions < 2 * lengths[:, None] - 1, REDUCE, PADDING)  # (R, W)
    word = torch.arange(longest, device=closings.device)  # (T,)
    shifts = word + closings.cumsum(1) - closings  # (R, T): positions of the SHIFTs
    inside = word < lengths[:, None]  # (R, T)
    wide = functional.pad(latents, (0, 1))  # (R, W + 1): the last column takes what is too much
    wide.scatter_(1, torch.where(inside, shifts, wide.shape[1] - 1), SHIFT)
    return wide[:, :-1]


def closings_before(latents: Tensor, longest: int) -> Tensor:
    """Count the REDUCEs before each word of rows of trees, (R, W): int64, (R, T)."""
    shifts = latents == SHIFT  # (R, W)
    word = shifts.cumsum(1)  # (R, W): words so far, the next one has this number
    counted = (latents == REDUCE) & (word < longest)  # (R, W)
    found = torch.zeros(len(latents), longest + 1, dtype=torch.int64, device=latents.device)
    return found.scatter_add(1, torch.where(counted, word, longest), counted.long())[:, :longest]


class BinaryCourse:
    """A growing set of nodes, the first `count` ones given, by a model in evaluation mode.

    `nodes`: the item on top of the stack, (M, 2 D), the state, (M, S), and what the stack LSTM
    says, `context`, (M, D); the `logit` of REDUCE, float64, and the `depth` of the stack, (M,).
    """

    def __init__(self, model: RNNG, count: int) -> None:
        self.model, self.nodes = model, NodeTable()
        first = round_up(torch.arange(count, device=model.device))  # (P,)
        embedded = model.embedding(torch.full_like(first, BOS))  # (P, D)
        item = functional.pad(torch.zeros_like(embedded), (0, embedded.shape[1]))  # (P, 2 D)
        self._append(item, model.stack(embedded), first, torch.zeros_like(first), count)

    def shift(self, at: Tensor, words: Tensor) -> Tensor:
        """Put words, (R,), on the stacks of nodes, (R,); return the new nodes, (R,)."""
        many = self.model.embedding.num_embeddings
        distinct, inverse = torch.unique(at * many + words, return_inverse=True)  # (P,), (R,)
        made = round_up(distinct)  # (P',)
        item = self.model.embedding(made % many)  # (P', D)
        item = functional.pad(item, (0, item.shape[1]))  # (P', 2 D)
        return self._push(item, made // many, len(distinct))[inverse]

    def reduce(self, at: Tensor) -> Tensor:
        """Join the two topmost subtrees of nodes, (R,); return the new nodes, (R,)."""
        distinct, inverse = torch.unique(at, return_inverse=True)  # (P,), (R,)
        right = round_up(distinct)  # (P',)
        left = self.nodes.below[right]  # (P',)
        item = self.model.compose(self.nodes.item[left], self.nodes.item[right])  # (P', 2 D)
        return self._push(item, self.nodes.below[left], len(distinct))[inverse]

    def close(self, at: Tensor, closings: Tensor) -> tuple[Tensor, Tensor]:
        """Join subtrees of nodes, (K,): the log probability, float64, and the new nodes."""
        log_prob = torch.zeros(len(at), dtype=torch.float64, device=at.device)  # (K,)
        for step in range(int(closings.max()) if len(at) else 0):
            rows = (closings > step).nonzero()[:, 0]  # (J,)
            here = at[rows]  # (J,)
            log_prob = log_prob.index_add(0, rows, functional.logsigmoid(self.nodes.logit[here]))
            at = at.index_copy(0, rows, self.reduce(here))
        return log_prob, at

    def word_log_probs(self, at: Tensor, words: Tensor) -> Tensor:
        """Return log p of words, (K,), after nodes, (K,), nats, float64; each pair once."""
        many = self.model.embedding.num_embeddings
        distinct, inverse = torch.unique(at * many + words, return_inverse=True)  # (P,), (K,)
        asked = round_up(distinct)  # (P',)
        nodes = asked // many  # (P',)
        may_end = (self.nodes.depth[nodes] == 1) & self.model.options.eos  # (P',)
        weight, bias = self.model.embedding.weight, self.model.word_bias
        goal = Words(asked % many, may_end)
        return word_log_probs(self.nodes.context[nodes], weight, bias, goal)[inverse]

    def pruned(self, at: Tensor) -> tuple[BinaryCourse, Tensor]:
        """Return a course with all that rows, (R,), still need (this one unless most nodes are
        needed no more), and their nodes in it, (R,)."""
        if not self.nodes.spent():
            return self, at
        course = copy.copy(self)
        course.nodes, number = self.nodes.picked(self.nodes.stacked(at))
        return course, number[at]

    def _push(self, item: Tensor, below: Tensor, count: int) -> Tensor:
        """Make nodes of items, (P', 2 D), on nodes, (P',); return the first `count`, (P,)."""
        top = item[:, : item.shape[1] // 2]  # (P', D)
        found = self.model.stack(top, self.nodes.state[below])
        return self._append(item, found, below, self.nodes.depth[below] + 1, count)

    def _append(
        self, item: Tensor, found: tuple[Tensor, Tensor], below: Tensor, depth: Tensor, count: int
    ) -> Tensor:
        context, state = found  # (P', D), (P', S)
        logit = self.model.reduce(context)[:, 0].double()  # (P',)
        parts = {"item": item, "state": state, "context": context, "logit": logit}
        return self.nodes.append(count, **parts, below=below, depth=depth)


class TreeParticles(NamedTuple):
    """What particles have done so far."""

    course: BinaryCourse
    at: Tensor  # int64, (K,): their nodes
    owner: Tensor  # int64, (K,): the sentence of each
    batch: InstanceBatch

    def select(self, rows: Tensor) -> TreeParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        course, at = self.course.pruned(self.at[rows])
        return TreeParticles(course, at, self.owner[rows], self.batch)


@torch.no_grad()
def draw_binary_trees(
    model: RNNG, count: int, numbers: Iterator[Tensor], maximum_words: int
) -> DrawnSentences:
    """Draw sentences from an RNNG that has ends, by two numbers an action, (R, 2); one of more
    words than the maximum is cut, and its subtrees are joined."""
    course, device = BinaryCourse(model, count), model.device
    at = torch.arange(count, device=device)  # (R,)
    lengths, cut = torch.zeros_like(at), torch.zeros_like(at, dtype=torch.bool)  # (R,)
    words = torch.zeros(count, maximum_words, dtype=torch.int64, device=device)  # (R, T)
    going, columns = at, []  # (R',): sentences that go on
    for _ in range(2 * maximum_words + 1):
        both, here = next(numbers)[going], at[going]  # (R', 2), (R',)
        depth = course.nodes.depth[here]  # (R',)
        joins = (depth >= 2) & (both[:, 0] < course.nodes.logit[here].sigmoid())  # (R',)
        rows, shifting = going[joins], going[~joins]  # (J,), (S,)
        after = at.index_copy(0, rows, course.reduce(at[rows]))
        contexts, may_end = course.nodes.context[at[shifting]], depth[~joins] == 1  # (S, D), (S,)
        layer = model.embedding.weight, model.word_bias
        drawn = draw_words(contexts, *layer, may_end, both[~joins, 1])  # (S,)
        more = drawn != EOS  # (S,)
        long = more & (lengths[shifting] == maximum_words)  # (S,)
        cut[shifting[long]] = True
        shifting, drawn = shifting[more & ~long], drawn[more & ~long]
        words[shifting, lengths[shifting]] = drawn
        lengths[shifting] += 1
        after[shifting] = course.shift(at[shifting], drawn)
        columns.append(torch.full_like(at, PADDING))
        columns[-1][rows], columns[-1][shifting] = REDUCE, SHIFT
        going = torch.cat([rows, shifting]).sort().values
        if not len(going):
            break
        course, at = course.pruned(after)
    actions = close_rows(torch.stack(columns, 1), (course.nodes.depth[at] - 1).clamp(min=0))
    return DrawnSentences(actions, words, lengths, cut)
