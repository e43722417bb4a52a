"""The actions of the labelled, top-down RNNG: which there are, when, and the trees that they make.

Actions (Dyer et al. 2016): SHIFT a word, REDUCE the phrase opened last, or open a phrase of label
k, action 2 + k. Every action makes a node from that of the prefix before: what lies on top of the
stack. All nodes of a course know each other by number, so that rows (samples, beams, annotated
trees) are nothing but numbers of nodes.

T words of the longest, P nodes of a step, M nodes in all, A actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import CorpusFiles, Instance, encode_words
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.latents.rnng_instances import (
    FIRST_LABEL,
    REDUCE,
    SHIFT,
    SentenceOptions,
    labelled_actions,
    read_instances,
)
from beyond_perplexity.models.latents.rnng_stack_memory import Prefixes
from beyond_perplexity.options import Dropout, Layers, Length, Width
from beyond_perplexity.vocabulary import Vocabulary


@dataclass(frozen=True)
class TopDownOptions(SentenceOptions):
    """Architecture that the labelled, top-down RNNG and its proposal share.

    The paper's scale is size 256 with 2 layers.

    Attributes
    ----------
    size : int
        D, the width of embeddings and LSTMs.
    layers : int
        L, layers of the LSTMs over the stack, the actions and the words.
    dropout : float
        Probability of dropping an element of an embedding and of an LSTM's output in training.
    maximum_open : int
        Phrases that may be open at once.
    maximum_run : int
        Phrases that may be opened one right after the other.
    """

    size: Width = 64
    layers: Layers = 1
    dropout: Dropout = 0.2
    maximum_open: Length = 100
    maximum_run: Length = 10


def labelled_instances(
    corpus: CorpusFiles,
    split: str,
    vocabulary: Vocabulary,
    options: TopDownOptions,
    labels: Sequence[str],
    classes: Sequence[str],
) -> Iterator[Instance]:
    """Read sentences with their labelled trees.

    Trees that break a limit of the options are left out of training and validation; in the test
    split such a sentence has no actions.
    """
    return read_instances(
        corpus,
        split,
        lambda words: encode_words(words, vocabulary, classes),
        options,
        lambda one: labelled_actions(one, labels, options.maximum_open, options.maximum_run),
    )


def readable_labelled_tree(latent: Tensor, labels: Sequence[str]) -> dict[str, Any]:
    """Write one row of actions, (W,), as ``{"tree": brackets over #0 #1 ...}``."""
    parts: list[str] = []
    word = 0
    for action in latent.tolist():
        if action == SHIFT:
            parts.append(f" #{word}")
            word += 1
        elif action == REDUCE:
            parts.append(")")
        elif action >= FIRST_LABEL:
            parts.append(f" ({labels[action - FIRST_LABEL]}")
    return {"tree": "".join(parts).strip()}


class Nodes:
    """What is known of the nodes of a course, by number; int64, (P,) for P numbers.

    `owner`: place of the instance in the batch; `below`: the node beneath on the stack; a first
    node lies on itself; `innermost`: the node that opened the phrase which is open now; itself for
    a first node; `opened`: phrases open; `run`: phrases opened since the last other action;
    `words`: words shifted; `action`: what made the node, `FILLING` for a first node.
    """

    NAMES = ("owner", "below", "innermost", "opened", "run", "words", "action")

    def __init__(self, owner: Tensor) -> None:
        """Make the first nodes, one for each entry of `owner`, (P,)."""
        here = torch.arange(len(owner), device=owner.device)  # (P,)
        zero = torch.zeros_like(owner)  # (P,)
        self._table = torch.stack([owner, here, here, zero, zero, zero, zero + FILLING])  # (7, P)
        self._end = len(owner)

    def __len__(self) -> int:
        return self._end

    def __getattr__(self, name: str) -> Tensor:
        if name not in Nodes.NAMES:
            raise AttributeError(name)
        column: Tensor = self._table[Nodes.NAMES.index(name), : self._end]  # (M,)
        return column

    def extend(self, parent: Tensor, action: Tensor) -> Tensor:
        """Make nodes from nodes by an action each; return their numbers, (P,)."""
        here = torch.arange(len(parent), device=parent.device) + self._end  # (P,)
        reduces, opens = action == REDUCE, action >= FIRST_LABEL  # (P,)
        closed = self.innermost[parent]  # (P,)
        beneath = self.below[closed]  # (P,)
        columns = [
            self.owner[parent],
            torch.where(reduces, beneath, parent),
            torch.where(opens, here, torch.where(reduces, self.innermost[beneath], closed)),
            self.opened[parent] + opens.long() - reduces.long(),
            (self.run[parent] + 1) * opens,
            self.words[parent] + (action == SHIFT),
            action,
        ]
        while self._end + len(parent) > self._table.shape[1]:
            self._table = torch.cat([self._table, torch.zeros_like(self._table)], 1)
        self._table[:, self._end : self._end + len(parent)] = torch.stack(columns)
        self._end += len(parent)
        return here

    def pruned(self, at: Tensor) -> tuple[Nodes, Tensor, Tensor]:
        """Keep the nodes that lie on the stacks of some, (R,).

        Returns `chosen`: int64, (N,): the old numbers of its nodes; `number`: int64, (M,): the new
        numbers of the old nodes, of meaning for those kept.
        """
        needed = torch.zeros(self._end, dtype=torch.bool, device=at.device)  # (M,)
        level = torch.unique(at)  # (P,)
        while not bool(needed[level].all()):
            needed[level] = True
            level = torch.unique(self.below[level])  # (P,)
        chosen, number = needed.nonzero()[:, 0], needed.cumsum(0) - 1  # (N,), (M,)
        nodes = object.__new__(Nodes)
        nodes._table, nodes._end = self._table[:, chosen], len(chosen)
        for name in ("below", "innermost"):
            place = Nodes.NAMES.index(name)
            nodes._table[place] = number[nodes._table[place]]
        return nodes, chosen, number


def root_is_closed(nodes: Nodes, at: Tensor) -> Tensor:
    """Tell at which nodes, (P,), the root has been closed, bool, (P,)."""
    return (nodes.opened[at] == 0) & (nodes.words[at] > 0)


def allowed(nodes: Nodes, at: Tensor, options: TopDownOptions, labels: int) -> Tensor:
    """Tell which actions the model can take at nodes (P,): bool, (P, A).

    On an empty stack only a phrase can be opened; a phrase is not closed right after it was opened;
    limits hold for open phrases and for phrases opened in a row; after the root nothing comes.
    """
    opened, run = nodes.opened[at], nodes.run[at]  # (P,)
    inside = opened >= 1  # (P,)
    opens = (opened < options.maximum_open) & (run < options.maximum_run)  # (P,)
    opens &= ~root_is_closed(nodes, at)
    columns = [inside, inside & (run == 0), *[opens] * labels]
    return torch.stack(columns, 1)


def check_rows(
    nodes: Nodes, prefixes: Prefixes, latents: Tensor, lengths: Tensor, possible: Tensor
) -> Tensor:
    """Tell which rows of a followed course are trees over their words, bool, (R,).

    `latents`: int64, (R, W); `lengths`: int64, (R,): T of each row; `possible`: bool, (M, A):
    actions that can be taken at each node.
    """
    filled = latents != FILLING  # (R, W)
    taken = possible[prefixes.nodes[:, :-1], latents.clamp(min=0)]  # (R, W)
    end = prefixes.nodes[:, -1]  # (R,)
    return (
        (taken | ~filled).all(1)
        & (filled[:, 1:] <= filled[:, :-1]).all(1)
        & root_is_closed(nodes, end)
        & (nodes.words[end] == lengths)
    )


def known_actions(latents: Tensor, labels: int) -> tuple[Tensor, Tensor]:
    """Replace what is no action by SHIFT: the rows, int64, (R, W), and which had none, (R,)."""
    known = (latents >= FILLING) & (latents < FIRST_LABEL + labels)  # (R, W)
    return torch.where(known, latents, SHIFT), known.all(1)


def action_log_probs(scores: Tensor, possible: Tensor, temperature: float = 1.0) -> Tensor:
    """Return log p of every action at nodes (P,), nats, float64, (P, A).

    `scores`: (P, A); `possible`: bool, (P, A); where nothing is possible the first action counts as
    if it were; `temperature`: divides the scores.
    """
    first = torch.zeros_like(possible)  # (P, A)
    first[:, 0] = ~possible.any(1)
    scores = (scores.double() / temperature).masked_fill(~(possible | first), -torch.inf)
    return scores.log_softmax(1)
