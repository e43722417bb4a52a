"""Sentences with their trees drawn from the labelled, top-down RNNG, action by action.

R sentences, W actions of the longest, T words, D width, L layers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.rnng.instances import FIRST_LABEL, REDUCE, SHIFT
from beyond_perplexity.models.rnng.simulation import (
    ActionNumbers,
    DrawnSentences,
    close_rows,
    draw_words,
)
from beyond_perplexity.models.rnng.top_down import StackEncoder
from beyond_perplexity.models.rnng.top_down_actions import (
    action_log_probs,
    allowed,
    root_is_closed,
)
from beyond_perplexity.models.rnng.top_down_particles import LabelledParticles
from beyond_perplexity.vocabulary import BOS


class LabelledNetwork(NamedTuple):
    """The parts of a top-down RNNG.

    Attributes
    ----------
    encoder : StackEncoder
    terminals : nn.LSTM
    choice : nn.Linear
    word_bias : Tensor
        (V,), of the output layer, whose weights are those of the embedding.
    labels : int
    """

    encoder: StackEncoder
    terminals: nn.LSTM
    choice: nn.Linear
    word_bias: Tensor
    labels: int


class _Reader:
    """The words so far, and what the LSTM over them says, written as they come."""

    def __init__(self, network: LabelledNetwork, count: int, maximum_words: int) -> None:
        self._network = network
        device, size = network.word_bias.device, network.encoder.options.size
        self.words = torch.zeros(count, maximum_words, dtype=torch.int64, device=device)  # (R, T)
        self.reading = network.word_bias.new_zeros(count, maximum_words + 1, size)  # (R, T + 1, D)
        first = torch.full((count,), BOS, device=device)  # (R,)
        output, self._state = self._step(first, None)  # (R, D)
        self.reading[:, 0] = output

    def read(self, rows: Tensor, places: Tensor, words: Tensor) -> None:
        """Read words, (S,), of some sentences, (S,), at their places, (S,)."""
        self.words[rows, places] = words
        every = torch.zeros_like(self.words[:, 0]).index_copy(0, rows, words)  # (R,)
        output, after = self._step(every, self._state)  # (R, D)
        self.reading[rows, places + 1] = output[rows]
        for old, new in zip(self._state, after, strict=True):  # (L, R, D) each
            old[:, rows] = new[:, rows]

    def _step(
        self, words: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        embedded = self._network.encoder.embedding(words)[:, None]  # (R, 1, D)
        output, after = self._network.terminals(embedded, state)
        return output[:, 0], after


@torch.no_grad()
def draw_labelled_trees(
    network: LabelledNetwork, count: int, numbers: ActionNumbers, maximum_words: int
) -> DrawnSentences:
    """Draw sentences from a top-down RNNG in evaluation mode.

    A sentence that would have more words than the maximum is cut: phrases without a word are
    dropped, the others closed.
    """
    reader = _Reader(network, count, maximum_words)
    going = torch.arange(count, device=reader.words.device)  # (R',): sentences that go on
    lengths, cut = torch.zeros_like(going), torch.zeros_like(going, dtype=torch.bool)  # (R,)
    batch = InstanceBatch(going, {TOKENS: reader.words}, {TOKENS: lengths})
    state = LabelledParticles.of(network.encoder, network.choice, batch, reader.reading, going)
    columns, step = [], 0
    while len(going):
        nodes, at = state.course.nodes, state.at[going]  # (R',)
        possible = allowed(nodes, at, network.encoder.options, network.labels)  # (R', A)
        each = action_log_probs(state.scores[going], possible)  # (R', A)
        both = numbers.at(step)[going]  # (R', 2)
        action = invert(each.exp().cumsum(1), both[:, :1])[:, 0]  # (R',)
        long = (action == SHIFT) & (lengths[going] == maximum_words)  # (R',)
        cut[going[long]] = True
        going, action, both = going[~long], action[~long], both[~long]
        shifts = action == SHIFT  # (R',)
        rows = going[shifts]  # (S,)
        weight, bias = network.encoder.embedding.weight, network.word_bias
        never = torch.zeros_like(rows, dtype=torch.bool)  # (S,)
        drawn = draw_words(state.context[rows], weight, bias, never, both[shifts, 1])  # (S,)
        reader.read(rows, lengths[rows], drawn)
        lengths[rows] += 1
        columns.append(torch.full_like(lengths, FILLING).index_copy(0, going, action))
        state = state.take(going, action).pruned() if len(going) else state
        going = going[~root_is_closed(state.course.nodes, state.at[going])]
        step += 1
    return DrawnSentences(_closed(torch.stack(columns, 1), cut), reader.words, lengths, cut)


def _closed(actions: Tensor, cut: Tensor) -> Tensor:
    """Drop the phrases without a word of rows that are cut, (R, W), and close the others."""
    place = torch.arange(actions.shape[1], device=actions.device)  # (W,)
    solid = (actions != FILLING) & (actions < FIRST_LABEL)  # (R, W)
    last = torch.where(solid, place, -1).amax(1, keepdim=True)  # (R, 1)
    actions = actions.masked_fill(cut[:, None] & (place > last), FILLING)  # (R, W)
    opened = (actions >= FIRST_LABEL).sum(1) - (actions == REDUCE).sum(1)  # (R,)
    return close_rows(actions, opened)
