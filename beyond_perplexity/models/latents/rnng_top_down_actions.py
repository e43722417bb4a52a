"""The actions of the labelled, top-down RNNG: which there are, when, and the trees that they make.

Actions (Dyer et al. 2016): SHIFT a word, REDUCE the phrase opened last, or open a phrase of label
k, action 2 + k. Every action makes a node from that of the prefix before: what lies on top of the
stack. T words of the longest, P nodes of a step, M nodes in all, A actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.rnng_instances import (
    FIRST_LABEL,
    REDUCE,
    SHIFT,
    SentenceOptions,
    close_rows,
)
from beyond_perplexity.models.latents.rnng_stack_memory import NodeTable, Prefixes
from beyond_perplexity.options import Dropout, Layers, Length, Width


@dataclass(frozen=True)
class TopDownOptions(SentenceOptions):
    """Architecture that the labelled, top-down RNNG and its proposal share.

    The paper's scale is size 256 with 2 layers.

    size: D, the width of embeddings and LSTMs.
    layers: L, layers of the LSTMs over the stack, the actions and the words.
    dropout: Probability of dropping an element of an embedding and of an LSTM's output in training.
    maximum_open: Phrases that may be open at once.
    maximum_run: Phrases that may be opened one right after the other.
    """

    size: Width = 64
    layers: Layers = 1
    dropout: Dropout = 0.2
    maximum_open: Length = 100
    maximum_run: Length = 10


class Nodes(NodeTable):
    """What is known of the nodes of a course, by number; int64, (P,) for P numbers.

    `owner`: the instance in the batch; `below`: the node beneath on the stack; `innermost`: the one
    that opened the phrase which is open now (of a first node both are itself); `opened`: phrases
    open; `run`: phrases opened since the last other action; `words`: words shifted.
    """

    def __init__(self, owner: Tensor) -> None:
        """Make the first nodes, one for each entry of `owner`, (P,)."""
        super().__init__(("below", "innermost"))
        here = torch.arange(len(owner), device=owner.device)  # (P,)
        columns = {"owner": owner, "below": here, "innermost": here}
        columns |= dict.fromkeys(("opened", "run", "words"), torch.zeros_like(owner))
        self.append(len(owner), **columns)

    def extend(self, parent: Tensor, action: Tensor) -> Tensor:
        """Make nodes from nodes by an action each; return their numbers, (P,)."""
        here = torch.arange(len(parent), device=parent.device) + len(self)  # (P,)
        reduces, opens = action == REDUCE, action >= FIRST_LABEL  # (P,)
        closed = self.innermost[parent]  # (P,)
        beneath = self.below[closed]  # (P,)
        inner = torch.where(reduces, self.innermost[beneath], closed)  # (P,)
        return self.append(
            len(parent),
            owner=self.owner[parent],
            below=torch.where(reduces, beneath, parent),
            innermost=torch.where(opens, here, inner),
            opened=self.opened[parent] + opens.long() - reduces.long(),
            run=(self.run[parent] + 1) * opens,
            words=self.words[parent] + (action == SHIFT),
        )


def root_is_closed(nodes: Nodes, at: Tensor) -> Tensor:
    """Tell at which nodes, (P,), the root has been closed, bool, (P,)."""
    return (nodes.opened[at] == 0) & (nodes.words[at] > 0)


def allowed(nodes: Nodes, at: Tensor, options: TopDownOptions, labels: int) -> Tensor:
    """Tell which actions the model can take at nodes (P,): bool, (P, A), within the limits; a
    phrase has at least a word, and after the root nothing comes."""
    opened, run = nodes.opened[at], nodes.run[at]  # (P,)
    inside = opened >= 1  # (P,)
    opens = (opened < options.maximum_open) & (run < options.maximum_run)  # (P,)
    opens &= ~root_is_closed(nodes, at)
    columns = [inside, inside & (run == 0), *[opens] * labels]
    return torch.stack(columns, 1)


def check_rows(
    nodes: Nodes, prefixes: Prefixes, latents: Tensor, lengths: Tensor, possible: Tensor
) -> Tensor:
    """Tell which rows, int64, (R, W), of a followed course are trees over their `lengths`, int64,
    (R,), bool, (R,); `possible`, bool, (M, A), has the actions that each node can take."""
    filled = latents != PADDING  # (R, W)
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
    known = (latents >= PADDING) & (latents < FIRST_LABEL + labels)  # (R, W)
    return torch.where(known, latents, SHIFT), known.all(1)


def close_phrases(actions: Tensor) -> Tensor:
    """Close what is open at the end of rows, (R, W): int64, (R, W')."""
    opened = (actions >= FIRST_LABEL).sum(1) - (actions == REDUCE).sum(1)  # (R,)
    return close_rows(actions, opened)


def action_log_probs(scores: Tensor, possible: Tensor, temperature: float = 1.0) -> Tensor:
    """Return log p of every action at nodes, nats, float64, (P, A), of scores (P, A) over a
    temperature; where nothing is possible, the first counts as if it were."""
    first = torch.zeros_like(possible)  # (P, A)
    first[:, 0] = ~possible.any(1)
    scores = (scores.double() / temperature).masked_fill(~(possible | first), -torch.inf)
    return scores.log_softmax(1)
