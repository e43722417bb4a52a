"""Binary trees as rows of SHIFT and REDUCE, and as they grow, with the vectors of the RNNG.

Rows: R of them, W actions of the longest, T words. A row of T words has 2T − 1 actions and then
`FILLING`. Every action pushes a node: SHIFT the next word, REDUCE the two topmost nodes joined.
Node 0 is the empty stack, node n what action n − 1 pushed.

Particles and samples grow action by action. Their nodes have no row: a node knows the one that it
lies on, and so all of its stack. Particles are numbers of nodes; those whose actions were the same
so far have the same node, which is worked out once. The choice of a word is how many subtrees are
joined before it is shifted; what follows the last word has no choice.

K particles, P nodes of a step, J of these joined from two, M nodes in all, D width, S of a state.
"""

from __future__ import annotations

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
    REDUCE,
    SHIFT,
    SentenceOptions,
    binary_instances,
    find_unknown_classes,
)
from beyond_perplexity.models.latents.rnng_stack_memory import Prefixes, StackLSTM
from beyond_perplexity.models.word_softmax import Words, word_log_probs
from beyond_perplexity.options import parse_options
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

FEWEST_TREES = 4096  # nodes that are never thrown away


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
    known = shifts | reduces | (latents == FILLING)  # (R, W)
    filled = latents != FILLING  # (R, W)
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
    """List the first and the last word that each REDUCE covers, and where one is, (R, W) each.

    0 where there is no REDUCE.
    """
    counts = latents == REDUCE  # (R, W)
    first = traced.words.gather(1, traced.below)[:, 1:]  # (R, W)
    last = traced.words[:, 1:] - 1  # (R, W)
    return first * counts, last.clamp(min=0) * counts, counts


def from_closings(closings: Tensor, lengths: Tensor) -> Tensor:
    """Make rows of actions, (R, 2 T − 1), from the number of REDUCEs after each word, (R, T)."""
    rows, longest = closings.shape
    places = torch.arange(2 * longest - 1, device=closings.device).expand(rows, -1)  # (R, W)
    latents = torch.where(places < 2 * lengths[:, None] - 1, REDUCE, FILLING)  # (R, W)
    word = torch.arange(longest, device=closings.device)  # (T,)
    shifts = word + closings.cumsum(1) - closings  # (R, T): places of the SHIFTs
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


def readable_tree(latent: Tensor) -> dict[str, Any]:
    """Write one row of actions, (W,), as ``{"tree": brackets over #0 #1 ...}``."""
    stack: list[str] = []
    word = 0
    for action in latent.tolist():
        if action == SHIFT:
            stack.append(f"#{word}")
            word += 1
        elif action == REDUCE:
            right, left = stack.pop(), stack.pop()
            stack.append(f"(X {left} {right})")
    return {"tree": " ".join(stack)}


class BinaryTreeModule(LatentModule):
    """The binary RNNG and its proposal: how they are made and what they read.

    `vocabulary_size`: ids of the vocabulary; `architecture`: see `options_kind`; `unknown_classes`:
    classes of unknown words: their ids come after those of the vocabulary.

    Raises InputError when an option is unknown or wrong.
    """

    options_kind: ClassVar[type[SentenceOptions]]
    annotation = ACTIONS

    def __init__(
        self,
        vocabulary_size: int,
        architecture: Mapping[str, Any],
        unknown_classes: Sequence[str] = (),
    ) -> None:
        super().__init__(vocabulary_size, architecture, {"unknown_classes": list(unknown_classes)})

    @property
    def unknown_classes(self) -> tuple[str, ...]:
        """The classes of unknown words."""
        return tuple(self.shapes["unknown_classes"])

    @property
    def support(self) -> dict[str, Any]:
        """The classes of unknown words: their ids are read by both."""
        return self.shapes

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module; see `LatentModule.create`."""
        options = parse_options(cls.options_kind, architecture, "architecture")
        classes = find_unknown_classes(corpus, vocabulary, options)
        return cls(vocabulary.size, architecture, classes)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read sentences with their binary trees; see `rnng_instances.binary_instances`."""
        return binary_instances(corpus, split, vocabulary, self.options, self.unknown_classes)


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
    """Join subtrees, as many as `closings`, (K,), says, and shift the next word: log p, (K,)."""
    course, at = state.course.pruned(state.at)
    log_prob, at = _close(course, at, closings)
    logits, free = course.logits(at), course.depth(at) >= 2  # (K,)
    log_prob = log_prob + functional.logsigmoid(-logits).masked_fill(~free, 0.0)
    words = state.batch.tokens[state.owner, time]  # (K,)
    log_prob = log_prob + next_word_log_probs(network, course, at, words)
    return log_prob, state._replace(course=course, at=course.shift(at, words))


def read_end(network: BinaryNetwork, state: TreeParticles, time: int, ended: bool) -> Tensor:
    """Join what is left and, if `ended`, end the sentence: nats, (K,), 0 where it goes on."""
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


def stack_contexts(
    network: BinaryNetwork,
    tokens: Tensor,
    owner: Tensor,
    latents: Tensor,
    traced: Traced,
    prefixes: Prefixes,
) -> Tensor:
    """Run the stack: the top layer's output at every node, (M, D).

    All numbers of nodes are found beforehand, and words lie in their places from the start, so
    that a step is little more than its matrix products.

    `network`: in evaluation mode; `tokens`: int64, (B, T); `owner`: int64, (R,); `latents`: int64,
    (R, W).
    """
    row, step = prefixes.rows, prefixes.steps  # (M,)
    before = (step - 1).clamp(min=0)  # (M,)
    nodes = prefixes.nodes
    below = nodes[row, traced.below[row, step]].split(prefixes.sizes)  # (P,) at each step
    last = (traced.words[row, step] - 1).clamp(0, tokens.shape[1] - 1)  # (M,)
    embedded = network.embedding(tokens[owner[row], last])  # (M, D)
    size = embedded.shape[1]
    items = functional.pad(embedded, (0, size))  # (M, 2 D)
    items[: prefixes.sizes[0]] = 0.0
    joined = ((latents[row, before] == REDUCE) & (step > 0)).nonzero()[:, 0]  # (J of all,)
    left = nodes[row[joined], traced.below[row[joined], before[joined]]]  # (J of all,)
    right = nodes[row[joined], before[joined]]  # (J of all,)
    counts = torch.bincount(step[joined], minlength=len(prefixes.sizes)).tolist()
    parts = zip(*(part.split(counts) for part in (joined, left, right)), strict=True)
    start = network.embedding(torch.full_like(row[: prefixes.sizes[0]], BOS))  # (P, D)
    contexts, states, end = torch.empty_like(embedded), None, 0
    for place, (many, (here, first, second)) in enumerate(zip(prefixes.sizes, parts, strict=True)):
        if len(here):
            children = items[round_up(first)], items[round_up(second)]  # (J', 2 D) each
            items[here] = network.compose(*children)[: len(here)]
        if many:
            rows = slice(end, end + many)
            known = None if states is None else states[below[place]]  # (P, S)
            entry = start if states is None else items[rows, :size]  # (P, D)
            contexts[rows], state = network.stack(entry, known)
            if states is None:
                states = state.new_empty(len(row), state.shape[1])  # (M, S)
            states[rows] = state
            end += many
    return contexts
