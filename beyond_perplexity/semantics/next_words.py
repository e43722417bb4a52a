"""The next-word distributions of a model at every place of a text: its likeliest token, and draws.

As with scores of contrastive entropy, a text is filled up to a width that its own length decides,
and batches have whole quanta of rows: on a CPU no prediction depends on the batch, shard or order
that a text is in.

N texts, n tokens of a text, S draws at each place, R rows, V ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.decoding.kernels import pick, unnormalized
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM, padded_width, round_up, rows_of_batch
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import LOGIT_ROWS, ScoreWindow, check_window, cut_windows
from beyond_perplexity.models.losses import chosen_log_probs
from beyond_perplexity.vocabulary import EOS, UNK


class NextWords(NamedTuple):
    """What a model expects at every place of a text, given the true tokens before it.

    Attributes
    ----------
    best : ndarray of int32, shape (n,)
        The likeliest token, that of the lowest id among equals; ``<unk>`` where the model gives
        nothing a probability, as a trigram after words that it has not seen.
    drawn : ndarray of int32, shape (n, S)
        Independent draws; ``<unk>`` likewise.
    log_prob : ndarray of float64, shape (n,)
        Of the true token, nats.
    """

    best: np.ndarray
    drawn: np.ndarray
    log_prob: np.ndarray


class _Part(NamedTuple):
    """A window of a text: its number, the place of the first prediction that counts."""

    text: int
    first: int
    window: ScoreWindow


@torch.no_grad()
def predict_tokens(
    model: LanguageModel,
    texts: Sequence[np.ndarray],
    numbers: Sequence[np.ndarray],
    batch_positions: int = LOGIT_ROWS,
) -> list[NextWords]:
    """Predict every token of texts from those before it, in the windows of the perplexity.

    Parameters
    ----------
    model : LanguageModel
    texts : sequence of ndarray of int32, shape (n,)
        Ids, without ``<s>`` and ``</s>``.
    numbers : sequence of ndarray of float64, shape (n, S)
        Uniform numbers in [0, 1): one for each draw.
    batch_positions : int
        Positions of a batch, about; on a CPU no prediction depends on it.

    Raises
    ------
    InputError
        When a probability is no number, as of a broken model.
    """
    context, stride = check_window(model, None, None)
    results = [
        NextWords(
            np.empty(len(ids), np.int32),
            np.empty(given.shape, np.int32),
            np.empty(len(ids)),
        )
        for ids, given in zip(texts, numbers, strict=True)
    ]
    waiting: dict[int, list[_Part]] = defaultdict(list)
    for text, ids in enumerate(texts):
        first = 0
        for window in cut_windows(text, ids, context, stride):
            width = padded_width(len(window.tokens) - 1)
            width = width if context is None else min(width, context)
            waiting[width].append(_Part(text, first, window))
            first += window.counted
            if len(waiting[width]) == rows_of_batch(width, batch_positions):
                _run(model, waiting.pop(width), width, numbers, results)
    for width, left in waiting.items():
        _run(model, left, width, numbers, results)
    return results


def _run(
    model: LanguageModel,
    parts: Sequence[_Part],
    width: int,
    numbers: Sequence[np.ndarray],
    results: Sequence[NextWords],
) -> None:
    """Predict the tokens of a batch, the last row repeated up to a whole number of quanta."""
    inputs = np.full((-(-len(parts) // QUANTUM) * QUANTUM, width), EOS, np.int64)
    flat: list[np.ndarray] = []  # the places of predictions that count in the batch
    owners: list[tuple[int, slice]] = []  # and in the texts
    for row, (text, first, window) in enumerate(parts):
        size = len(window.tokens) - 1
        inputs[row, :size] = window.tokens[:-1]
        count = min(window.counted, len(results[text].best) - first)  # not </s>
        start = row * width + size - window.counted
        flat.append(np.arange(start, start + count))
        owners.append((text, slice(first, first + count)))
    inputs[len(parts) :] = inputs[len(parts) - 1]
    places = np.concatenate(flat)
    if not len(places):
        return
    targets = np.concatenate(
        [
            part.window.tokens[-part.window.counted :][: len(own)]
            for part, own in zip(parts, flat, strict=True)
        ]
    )
    uniform = np.concatenate([numbers[text][own] for text, own in owners])
    found = _choose_all(model, inputs, places, targets, uniform)
    begin = 0
    for text, part in owners:
        own = slice(begin, begin := begin + part.stop - part.start)
        for held, values in zip(results[text], found, strict=True):
            held[part] = values[own]


def _choose_all(
    model: LanguageModel,
    inputs: np.ndarray,
    places: np.ndarray,
    targets: np.ndarray,
    numbers: np.ndarray,
) -> NextWords:
    """Predict at rising places of flat inputs: (P,) places, (P,) targets, (P, S) numbers."""
    device, begin, found = model.device, 0, []
    wanted = torch.from_numpy(targets).to(device)  # (P,)
    uniform = torch.from_numpy(numbers).to(device)  # (P, S)
    for logits in model.next_logits(torch.from_numpy(inputs).to(device), LOGIT_ROWS):
        first, last = np.searchsorted(places, [begin, begin + len(logits)])
        if first < last:
            own = slice(first, last)
            rows = torch.from_numpy(places[own] - begin).to(device)  # (R,)
            found.append(_choose(logits, rows, wanted[own], uniform[own]))
        begin += len(logits)
    return NextWords(*(torch.cat(held).cpu().numpy() for held in zip(*found, strict=True)))


def _choose(
    logits: Tensor, rows: Tensor, targets: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best (R,), the draws (R, S) and log p of the targets (R,) of rows of logits."""
    count = len(rows)
    held = logits[round_up(rows)]  # (R', V)
    log_prob = chosen_log_probs(held, round_up(targets))[:count]  # (R,)
    if log_prob.isnan().any():
        raise InputError(
            "the model gives a token the log-probability NaN; its weights are damaged or its "
            "numbers overflow: train or bring the model again"
        )
    best = best_tokens(held)[:count].int()  # (R,)
    if not numbers.shape[1]:
        return best, numbers.int(), log_prob
    weights, uniform = unnormalized(held), round_up(numbers)  # (R', S)
    drawn = torch.stack([pick(weights, column) for column in uniform.unbind(1)], 1)  # (R', S)
    return best, drawn[:count].int(), log_prob


def best_tokens(logits: Tensor) -> Tensor:
    """Return the likeliest id of each row, (R,), of logits (R, V), ties by id.

    Where nothing is possible ``<unk>`` becomes so, in place.
    """
    logits[logits.amax(1) == -torch.inf, UNK] = 0
    return logits.argmax(1)
