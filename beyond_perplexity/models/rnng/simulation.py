"""Sentences with their trees drawn from an RNNG: what both kinds of RNNG share.

R sentences, W actions of the longest, T words of the longest, V ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance
from beyond_perplexity.invariant_tensors import invert, round_up, uniforms
from beyond_perplexity.models.latent import FILLING, Simulated
from beyond_perplexity.models.rnng.instances import ACTIONS, REDUCE
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

TREES_AT_ONCE = 64
_STEPS_AT_ONCE = 64  # whose random numbers are held


class ActionNumbers:
    """The random numbers of sentences: two for each action, in the order of the actions.

    Parameters
    ----------
    seed, purpose
        See `random_streams.stream`.
    items : Tensor
        int64, (R,): numbers of the sentences.
    device : torch.device
    """

    def __init__(self, seed: int, purpose: str, items: Tensor, device: torch.device) -> None:
        self._key, self._items, self._device = (seed, purpose), items, device
        self._window = torch.empty(0)

    def at(self, step: int) -> Tensor:
        """Return the numbers of an action, float64, (R, 2); to be asked step by step."""
        place = step % _STEPS_AT_ONCE
        if place == 0:
            count = 2 * _STEPS_AT_ONCE
            self._window = uniforms(*self._key, self._items, 2 * step, count, self._device)
        return self._window[:, 2 * place : 2 * place + 2]


class DrawnSentences(NamedTuple):
    """What was drawn.

    Attributes
    ----------
    actions : Tensor
        int64, (R, W): rows of z, `FILLING` after their ends.
    words : Tensor
        int64, (R, at least T).
    lengths : Tensor
        int64, (R,): T of each.
    truncated : Tensor
        bool, (R,).
    """

    actions: Tensor
    words: Tensor
    lengths: Tensor
    truncated: Tensor


def draw_words(
    contexts: Tensor, weight: Tensor, bias: Tensor, may_end: Tensor, numbers: Tensor
) -> Tensor:
    """Draw a word after each context: int64, (R,).

    Parameters
    ----------
    contexts : Tensor
        (R, D).
    weight, bias : Tensor
        (V, D), (V,): of the output layer.
    may_end : Tensor
        bool, (R,): ``</s>`` is possible.
    numbers : Tensor
        float64 in [0, 1), (R,).
    """
    padded = round_up(contexts)  # (R', D)
    logits = (padded @ weight.T + bias)[: len(contexts)].double()  # (R, V)
    logits[:, BOS] = -torch.inf
    logits[:, EOS].masked_fill_(~may_end, -torch.inf)
    return invert(logits.softmax(1).cumsum(1), numbers[:, None])[:, 0]


def close_rows(actions: Tensor, missing: Tensor) -> Tensor:
    """Put as many REDUCEs, (R,), after the last action of rows, (R, W): int64, (R, W')."""
    count = (actions != FILLING).sum(1)  # (R,)
    width = int((count + missing).max())
    place = torch.arange(width, device=actions.device)  # (W',)
    wide = actions.new_full((len(actions), width), FILLING)  # (R, W')
    kept = min(width, actions.shape[1])
    wide[:, :kept] = actions[:, :kept]
    closing = (place >= count[:, None]) & (place < (count + missing)[:, None])  # (R, W')
    return torch.where(closing, REDUCE, wide)


def simulated_sentences(
    draw: Callable[[Tensor], DrawnSentences],
    numbers: range,
    vocabulary: Vocabulary,
    classes: Sequence[str],
) -> list[Simulated]:
    """Draw sentences in blocks, and say what they are.

    Parameters
    ----------
    draw : function of the numbers of sentences, int64, (R,), in whole quanta
    numbers : range
    vocabulary : Vocabulary
        Of V ids.
    classes : sequence of str
        Of unknown words; class i has the id V + i, and is written by its name.
    """
    found: list[Simulated] = []
    for start in range(0, len(numbers), TREES_AT_ONCE):
        block = numbers[start : start + TREES_AT_ONCE]
        drawn = draw(round_up(torch.tensor(block)))
        for row, number in enumerate(block):
            ids = drawn.words[row, : int(drawn.lengths[row])].cpu().numpy()  # (T,)
            latents = drawn.actions[row].cpu()  # (W,)
            latents = latents[latents != FILLING]
            arrays = {TOKENS: ids, ACTIONS: latents.numpy()}
            words = _spelled(ids, vocabulary, classes)
            instance = Instance(number, arrays)
            found.append(Simulated(words, instance, latents, bool(drawn.truncated[row])))
    return found


def _spelled(ids: np.ndarray, vocabulary: Vocabulary, classes: Sequence[str]) -> list[str]:
    known = np.where(ids < vocabulary.size, ids, vocabulary.UNK)  # (T,)
    words = vocabulary.decode([known])[0].split(" ") if len(ids) else []
    for place in np.flatnonzero(ids >= vocabulary.size).tolist():
        words[place] = classes[ids[place] - vocabulary.size]
    return words
