"""Particles of the binary RNNG: sentences read word by word, each with the REDUCEs before it.

The choice of a word is how many subtrees are joined before it is shifted, by REDUCEs one after the
other; what follows the last word has no choice. K particles, R rows, W actions of a row, T words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.invariant_tensors import round_up
from beyond_perplexity.models.layers.word_scores import Words, word_log_probs
from beyond_perplexity.models.rnng.binary_course import BinaryCourse, BinaryNetwork
from beyond_perplexity.vocabulary import EOS


class TreeParticles(NamedTuple):
    """What particles have done so far.

    Attributes
    ----------
    course : BinaryCourse
    at : Tensor
        int64, (K,): their nodes.
    owner : Tensor
        int64, (K,): the sentence of each.
    batch : InstanceBatch
    """

    course: BinaryCourse
    at: Tensor
    owner: Tensor
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

    Returns
    -------
    log_prob : Tensor
        Nats, float64, (K,).
    state : TreeParticles
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
