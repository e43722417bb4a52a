"""Rows of SHIFT and REDUCE actions: what they build, worked out for all rows at once.

R rows, W actions of the longest row, T words. A row of T words has 2T − 1 actions and then
`FILLING`. Every action pushes a node: SHIFT the next word, REDUCE the two topmost nodes joined.
Node 0 is the empty stack, node n what action n − 1 pushed.
M nodes, P of them of a step, J of these joined from two, D width, S width of a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import CorpusFiles, Instance
from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.latent import FILLING, LatentModule
from beyond_perplexity.models.latents.rnng_binary_particles import BinaryNetwork
from beyond_perplexity.models.latents.rnng_instances import (
    REDUCE,
    SHIFT,
    SentenceOptions,
    binary_instances,
    find_unknown_classes,
)
from beyond_perplexity.models.latents.rnng_stack_memory import Prefixes
from beyond_perplexity.options import parse_options
from beyond_perplexity.vocabulary import BOS, Vocabulary


class Traced(NamedTuple):
    """The course of each row."""

    below: Tensor  # int64, (R, W + 1): the node that each node lies on
    depth: Tensor  # int64, (R, W + 1): nodes on the stack, this one included
    words: Tensor  # int64, (R, W + 1): words shifted so far
    valid: Tensor  # bool, (R,): the row is one binary tree over its words


def trace(latents: Tensor, lengths: Tensor) -> Traced:
    """Follow rows of actions.

    `latents`: int64, (R, W); `lengths`: int64, (R,): T of each row.
    """
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
    """List the words that each REDUCE covers.

    Returns `first, last`: int64, (R, W): the first and the last word; 0 where there is no REDUCE;
    `counts`: bool, (R, W): there is one.
    """
    counts = latents == REDUCE  # (R, W)
    first = traced.words.gather(1, traced.below)[:, 1:]  # (R, W)
    last = traced.words[:, 1:] - 1  # (R, W)
    return first * counts, last.clamp(min=0) * counts, counts


def from_closings(closings: Tensor, lengths: Tensor) -> Tensor:
    """Make rows of actions from the number of REDUCEs after each word.

    `closings`: int64, (R, T of the longest); `lengths`: int64, (R,).

    Returns int64, (R, 2 T − 1).
    """
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
            missing = -len(here) % QUANTUM
            children = items[
                torch.cat([first, first[-1:].expand(missing), second, second[-1:].expand(missing)])
            ]  # (2 J', 2 D)
            items[here] = network.compose(*children.chunk(2))[: len(here)]
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
