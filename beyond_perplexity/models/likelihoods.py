"""What a model says of documents: log P of each, in windows where its context is limited."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import padded_width, rows_of_batch
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.token_scores import TokenScores, encode_with_starts, shown_tokens
from beyond_perplexity.vocabulary import BOS, EOS, UNK, Vocabulary

# Documents that are sorted by length together, so that a batch has rows of like length.
POOL = 1024
# Positions whose logits are held at once: 2,048 positions times 50,000 ids are 400 MB.
LOGIT_ROWS = 2048


class DocumentScore(NamedTuple):
    """What a model says of one document."""

    log_prob: float  # of its tokens and, unless left out, ``</s>``, nats; −inf if impossible
    tokens: int  # without ``<s>`` and ``</s>``
    unknown: int  # of them ``<unk>``
    impossible: int  # predictions


class ScoreWindow(NamedTuple):
    """A part of a document that is scored at once."""

    document: int
    tokens: np.ndarray  # ids (n + 1,), inputs and then targets
    counted: int  # of the predictions the last ones


def check_window(
    model: LanguageModel, context_length: int | None, stride: int | None
) -> tuple[int | None, int | None]:
    """Settle how many tokens a prediction sees at most (None: the model's limit) and how many
    predictions each window adds (None: half of that); None, None where there is no limit."""
    limit = model.context_length
    if context_length is not None and (context_length < 1 or context_length > (limit or math.inf)):
        raise InputError(f"context_length: is {context_length}, expected 1 to {limit or 'any'}")
    context = context_length or limit
    if context is None:
        if stride is not None:
            raise InputError("stride: has no meaning without a context_length; give one")
        return None, None
    stride = stride or max(1, context // 2)
    if not 1 <= stride <= context:
        raise InputError(f"stride: is {stride}, expected 1 to the context length, {context}")
    return context, stride


Piece = TypeVar("Piece")


def full_batches(
    pieces: Iterable[tuple[int, Piece]], positions: int
) -> Iterator[tuple[int, list[Piece]]]:
    """Gather pieces by the width that each is filled up to, about so many positions at a time."""
    waiting: dict[int, list[Piece]] = defaultdict(list)
    for width, piece in pieces:
        waiting[width].append(piece)
        if len(waiting[width]) == rows_of_batch(width, positions):
            yield width, waiting.pop(width)
    yield from waiting.items()


def window_width(window: ScoreWindow, context: int | None) -> int:
    """Return what a window is filled up to."""
    width = padded_width(len(window.tokens) - 1)
    return width if context is None else min(width, context)


def cut_windows(
    document: int, ids: np.ndarray, context: int | None, stride: int | None
) -> Iterator[ScoreWindow]:
    """Cut a document of ids (n,), without ``<s>`` and ``</s>``, by `check_window`'s two; each
    prediction counts once."""
    whole = np.concatenate([[BOS], ids, [EOS]]).astype(np.int64)
    last = len(whole) - 1
    if context is None or stride is None or last <= context:
        yield ScoreWindow(document, whole, last)
        return
    end = context
    yield ScoreWindow(document, whole[: end + 1], context)
    while end < last:
        counted = min(stride, last - end)
        end += counted
        yield ScoreWindow(document, whole[end - context : end + 1], counted)


def padded_windows(windows: Sequence[ScoreWindow], width: int | None = None) -> np.ndarray:
    """Fill windows up at their ends to a width: inputs and targets, int64, (2, B, T)."""
    width = width or max(len(window.tokens) for window in windows) - 1
    pair = np.full((2, len(windows), width), EOS, np.int64)
    for row, window in enumerate(windows):
        end = len(window.tokens) - 1
        pair[0, row, :end], pair[1, row, :end] = window.tokens[:-1], window.tokens[1:]
    return pair


def counted_parts(windows: Sequence[ScoreWindow], values: Tensor) -> Iterator[np.ndarray]:
    """Yield what values, (B T, ...), of all positions hold of the counted ones of each window."""
    held = values.view(len(windows), -1, *values.shape[1:]).cpu().numpy()
    for row, window in zip(held, windows, strict=True):
        end = len(window.tokens) - 1
        yield row[end - window.counted : end]


def score_windows(
    model: LanguageModel, windows: Sequence[ScoreWindow], width: int | None = None
) -> Iterator[np.ndarray]:
    """Yield log p of the counted predictions of each window, float64; `width`: of the rows."""
    inputs, targets = torch.from_numpy(padded_windows(windows, width)).to(model.device)
    flat = torch.cat(list(model.target_log_probs(inputs, targets, LOGIT_ROWS)))
    yield from counted_parts(windows, flat)


# Gives of each window the values of its counted predictions, (counted, ...).
RunWindows = Callable[[Sequence[ScoreWindow]], Iterable[np.ndarray]]


@torch.no_grad()
def run_windows(
    encoded: Iterable[np.ndarray],
    run: RunWindows,
    context: int | None,
    stride: int | None,
    batch_tokens: int = 8192,
) -> Iterator[tuple[np.ndarray, list[tuple[int, np.ndarray]]]]:
    """Run windows in batches of about so many positions; of each document its ids and its windows'
    values, in the order run, with the number of each one's first prediction."""
    stream = iter(encoded)
    while pool := list(islice(stream, POOL)):
        windows: list[tuple[int, ScoreWindow]] = []
        for document, ids in enumerate(pool):
            first = 0
            for window in cut_windows(document, ids, context, stride):
                windows.append((first, window))
                first += window.counted
        windows.sort(key=lambda held: len(held[1].tokens))
        found: list[list[tuple[int, np.ndarray]]] = [[] for _ in pool]
        while windows:
            rows = max(1, batch_tokens // (len(windows[-1][1].tokens) - 1))
            batch, windows = windows[-rows:], windows[:-rows]
            values = run([window for _, window in batch])
            for (first, window), own in zip(batch, values, strict=True):
                found[window.document].append((first, own))
        yield from zip(pool, found, strict=True)


def score_encoded(
    model: LanguageModel,
    encoded: Iterable[np.ndarray],
    *,
    context_length: int | None = None,
    stride: int | None = None,
    count_eos: bool = True,
    batch_tokens: int = 8192,
) -> Iterator[DocumentScore]:
    """Score documents, ids without ``<s>`` and ``</s>``, one by one, with windows of
    `check_window`; without `count_eos`, log P is that of all texts that begin so."""
    model.eval()
    sizes = *check_window(model, context_length, stride), batch_tokens
    for ids, windows in run_windows(encoded, partial(score_windows, model), *sizes):
        yield _document_score(ids, windows, count_eos)[0]


def _document_score(
    ids: np.ndarray, windows: Iterable[tuple[int, np.ndarray]], count_eos: bool
) -> tuple[DocumentScore, np.ndarray]:
    """Add up the windows of a document, in the order in which they were run; and log p of each."""
    log_probs, total = np.empty(len(ids) + count_eos), 0.0
    for first, found in windows:
        kept = found[: len(log_probs) - first]
        log_probs[first : first + len(kept)] = kept
        total += kept.sum()
    unknown, zeros = np.count_nonzero(ids == UNK), np.count_nonzero(np.isneginf(log_probs))
    return DocumentScore(float(total), len(ids), int(unknown), int(zeros)), log_probs


def score_documents(
    model: LanguageModel, vocabulary: Vocabulary, texts: Iterable[str], **options: Any
) -> Iterator[DocumentScore]:
    """Score texts (tokens joined by one blank), in their order; options as in `score_encoded`."""

    def encoded() -> Iterator[np.ndarray]:
        stream = iter(texts)
        while part := list(islice(stream, POOL)):
            yield from vocabulary.encode(part)

    return score_encoded(model, encoded(), **options)


def score_texts_by_token(
    model: LanguageModel,
    vocabulary: Vocabulary,
    texts: Iterable[str],
    *,
    context_length: int | None = None,
    stride: int | None = None,
    count_eos: bool = True,
    batch_tokens: int = 8192,
) -> Iterator[tuple[DocumentScore, TokenScores]]:
    """Score texts as `score_documents` does, bit for bit, and of each its tokens."""
    model.eval()
    sizes = *check_window(model, context_length, stride), batch_tokens
    stream = iter(texts)
    while part := list(islice(stream, POOL)):
        encoded = list(encode_with_starts(vocabulary, part))
        scored = run_windows((ids for ids, _ in encoded), partial(score_windows, model), *sizes)
        for text, (_, starts), (ids, windows) in zip(part, encoded, scored, strict=True):
            score, log_probs = _document_score(ids, windows, count_eos)
            shown = shown_tokens(text, ids, starts) + ["</s>"] * count_eos
            begins = np.append(starts, len(text.encode()))[: len(shown)].astype(np.int64)
            yield score, TokenScores(log_probs, begins, shown, count_eos)
