"""Sentences with their trees drawn from an RNNG, binary or top-down, action by action.

R sentences, W actions of the longest, T words of the longest, V ids,
D width, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import invert, round_up, uniforms_by_step
from beyond_perplexity.models.latent import FILLING, Simulated
from beyond_perplexity.models.latents.rnng_binary_trees import BinaryCourse
from beyond_perplexity.models.latents.rnng_instances import (
    ACTIONS,
    FIRST_LABEL,
    REDUCE,
    SHIFT,
    TreeModule,
)
from beyond_perplexity.models.latents.rnng_top_down import LabelledParticles
from beyond_perplexity.models.latents.rnng_top_down_actions import (
    close_phrases,
    close_rows,
    root_is_closed,
)
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

if TYPE_CHECKING:
    from beyond_perplexity.models.latents.rnng import RNNG
    from beyond_perplexity.models.latents.rnng_top_down_model import TopDownRNNG

TREES_AT_ONCE = 64


class DrawnSentences(NamedTuple):
    """What was drawn."""

    actions: Tensor  # int64, (R, W): rows of z, `FILLING` after their ends
    words: Tensor  # int64, (R, at least T)
    lengths: Tensor  # int64, (R,): T of each
    truncated: Tensor  # bool, (R,)


def draw_words(
    contexts: Tensor, weight: Tensor, bias: Tensor, may_end: Tensor, numbers: Tensor
) -> Tensor:
    """Draw a word after each context: int64, (R,).

    `contexts`: (R, D); `weight`, `bias`: (V, D), (V,): of the output layer; `may_end`: bool, (R,):
    ``</s>`` is possible; `numbers`: float64 in [0, 1), (R,).
    """
    padded = round_up(contexts)  # (R', D)
    logits = (padded @ weight.T + bias)[: len(contexts)].double()  # (R, V)
    logits[:, BOS] = -torch.inf
    logits[:, EOS].masked_fill_(~may_end, -torch.inf)
    return invert(logits.softmax(1).cumsum(1), numbers[:, None])[:, 0]


def simulate_sentences(
    model: TreeModule,
    draw: Callable[[int, Iterator[Tensor], int], DrawnSentences],
    seed: int,
    purpose: str,
    numbers: range,
    maximum_words: int,
    vocabulary: Vocabulary,
) -> list[Simulated]:
    """Draw sentences in blocks, by two numbers an action; see `LatentModel.simulate`.

    Class i of unknown words has the id V + i, and is written by its name.
    """
    found: list[Simulated] = []
    for start in range(0, len(numbers), TREES_AT_ONCE):
        block = numbers[start : start + TREES_AT_ONCE]
        items = round_up(torch.tensor(block))  # (R,)
        chosen = uniforms_by_step(seed, purpose, items, 2, model.device)
        drawn = draw(len(items), chosen, maximum_words)
        for row, number in enumerate(block):
            ids = drawn.words[row, : int(drawn.lengths[row])].cpu().numpy()  # (T,)
            latents = drawn.actions[row].cpu()  # (W,)
            latents = latents[latents != FILLING]
            words = _spelled(ids, vocabulary, model.unknown_classes)
            instance = Instance(number, {TOKENS: ids, ACTIONS: latents.numpy()})
            found.append(Simulated(words, instance, latents, bool(drawn.truncated[row])))
    return found


def _spelled(ids: np.ndarray, vocabulary: Vocabulary, classes: Sequence[str]) -> list[str]:
    known = np.where(ids < vocabulary.size, ids, vocabulary.UNK)  # (T,)
    words = vocabulary.decode([known])[0].split(" ") if len(ids) else []
    for place in np.flatnonzero(ids >= vocabulary.size).tolist():
        words[place] = classes[ids[place] - vocabulary.size]
    return words


@torch.no_grad()
def draw_binary_trees(
    model: RNNG, count: int, numbers: Iterator[Tensor], maximum_words: int
) -> DrawnSentences:
    """Draw sentences from an RNNG that has ends, by two numbers an action, (R, 2).

    A sentence that would have more words than the maximum is cut, and its subtrees are joined.
    """
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
        drawn = draw_words(
            course.nodes.context[at[shifting]],
            model.embedding.weight,
            model.word_bias,
            depth[~joins] == 1,
            both[~joins, 1],
        )  # (S,)
        more = drawn != EOS  # (S,)
        long = more & (lengths[shifting] == maximum_words)  # (S,)
        cut[shifting[long]] = True
        shifting, drawn = shifting[more & ~long], drawn[more & ~long]
        words[shifting, lengths[shifting]] = drawn
        lengths[shifting] += 1
        after[shifting] = course.shift(at[shifting], drawn)
        columns.append(torch.full_like(at, FILLING))
        columns[-1][rows], columns[-1][shifting] = REDUCE, SHIFT
        going = torch.cat([rows, shifting]).sort().values
        if not len(going):
            break
        course, at = course.pruned(after)
    actions = close_rows(torch.stack(columns, 1), (course.nodes.depth[at] - 1).clamp(min=0))
    return DrawnSentences(actions, words, lengths, cut)


class _Reader:
    """The words so far, and what the LSTM over them says, written as they come."""

    def __init__(self, model: TopDownRNNG, count: int, maximum_words: int) -> None:
        self._model = model
        device, size = model.device, model.options.size
        self.words = torch.zeros(count, maximum_words, dtype=torch.int64, device=device)  # (R, T)
        self.reading = model.word_bias.new_zeros(count, maximum_words + 1, size)  # (R, T + 1, D)
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
        embedded = self._model.encoder.embedding(words)[:, None]  # (R, 1, D)
        output, after = self._model.terminals(embedded, state)
        return output[:, 0], after


@torch.no_grad()
def draw_labelled_trees(
    model: TopDownRNNG, count: int, numbers: Iterator[Tensor], maximum_words: int
) -> DrawnSentences:
    """Draw sentences from a top-down RNNG in evaluation mode, by two numbers an action, (R, 2).

    A sentence that would have more words than the maximum is cut: phrases without a word are
    dropped, the others closed.
    """
    reader = _Reader(model, count, maximum_words)
    going = torch.arange(count, device=reader.words.device)  # (R',): sentences that go on
    lengths, cut = torch.zeros_like(going), torch.zeros_like(going, dtype=torch.bool)  # (R,)
    batch = InstanceBatch(going, {TOKENS: reader.words}, {TOKENS: lengths})
    state = LabelledParticles.of(model, batch, reader.reading, going)
    columns: list[Tensor] = []
    while len(going):
        each = model.action_log_probs(state, going)  # (R', A)
        both = next(numbers)[going]  # (R', 2)
        action = invert(each.exp().cumsum(1), both[:, :1])[:, 0]  # (R',)
        long = (action == SHIFT) & (lengths[going] == maximum_words)  # (R',)
        cut[going[long]] = True
        going, action, both = going[~long], action[~long], both[~long]
        shifts = action == SHIFT  # (R',)
        rows = going[shifts]  # (S,)
        weight, bias = model.encoder.embedding.weight, model.word_bias
        never = torch.zeros_like(rows, dtype=torch.bool)  # (S,)
        drawn = draw_words(state.context[rows], weight, bias, never, both[shifts, 1])  # (S,)
        reader.read(rows, lengths[rows], drawn)
        lengths[rows] += 1
        columns.append(torch.full_like(lengths, FILLING).index_copy(0, going, action))
        state = state.take(going, action).pruned() if len(going) else state
        going = going[~root_is_closed(state.course.nodes, state.at[going])]
    return DrawnSentences(_closed(torch.stack(columns, 1), cut), reader.words, lengths, cut)


def _closed(actions: Tensor, cut: Tensor) -> Tensor:
    """Drop the phrases without a word of rows that are cut, (R, W), and close the others."""
    place = torch.arange(actions.shape[1], device=actions.device)  # (W,)
    solid = (actions != FILLING) & (actions < FIRST_LABEL)  # (R, W)
    last = torch.where(solid, place, -1).amax(1, keepdim=True)  # (R, 1)
    actions = actions.masked_fill(cut[:, None] & (place > last), FILLING)  # (R, W)
    return close_phrases(actions)
