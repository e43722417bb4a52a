"""Particles of the labelled, top-down RNNG and of its proposal: sentences read word by word.

The choice of a word are the actions up to its SHIFT, (K, C), filled up with `FILLING`; what follows
the last word are the REDUCEs that close what is open. Particles whose actions were the same so far
share a node, which is worked out once.

K particles, R rows, C actions of a choice, A actions that there are, P nodes, T words, W actions of
a row, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.invariant_tensors import round_up
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.rnng.instances import FIRST_LABEL, REDUCE, SHIFT
from beyond_perplexity.models.rnng.top_down import Course, StackEncoder


class LabelledParticles(NamedTuple):
    """What particles have done so far.

    Attributes
    ----------
    course : Course
    choice : nn.Linear
        Scores actions.
    batch : InstanceBatch
    at : Tensor
        int64, (K,): their nodes.
    context : Tensor
        (K, D): at those nodes.
    scores : Tensor
        (K, A): of the next action, before anything is impossible.
    """

    course: Course
    choice: nn.Linear
    batch: InstanceBatch
    at: Tensor
    context: Tensor
    scores: Tensor

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
    """Take the actions of a word, (K, C).

    Parameters
    ----------
    state : LabelledParticles
    choice : Tensor
    score : function of a state, rows, (R,), and their actions, (R,), to log probabilities, (R,)

    Returns
    -------
    log_prob : Tensor
        Nats, float64, (K,).
    state : LabelledParticles
    """
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
