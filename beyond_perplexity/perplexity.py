"""Perplexity in every definition that it is quoted in, never one number alone.

PP = exp(−log P / N) (001; base-free). What differs between programs is N and P: so each perplexity
stands beside its N, what N counts, the share of unknown words, and the context.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.vocabulary import BOS, EOS, UNK, ClosedVocabulary, Vocabulary, split_words

# Documents that are sorted by length together, so that a batch has rows of like length.
POOL = 1024
# Positions whose logits are held at once: 2,048 positions times 50,000 ids are 400 MB.
LOGIT_ROWS = 2048


class DocumentScore(NamedTuple):
    """What a model says of one document.

    Attributes
    ----------
    log_prob : float
        log P of the tokens and ``</s>``, nats; −inf when one of them is impossible.
    tokens : int
        Tokens of the model, ``<s>`` and ``</s>`` not counted.
    unknown : int
        How many of them are ``<unk>``.
    impossible : int
        Predictions, ``</s>`` included, of probability zero.
    """

    log_prob: float
    tokens: int
    unknown: int
    impossible: int


class _Window(NamedTuple):
    document: int
    tokens: np.ndarray  # the inputs and, one place on, the targets
    counted: int  # only the last so many predictions count


def check_window(
    model: LanguageModel, context_length: int | None, stride: int | None
) -> tuple[int | None, int | None]:
    """Settle the context of a scoring.

    Parameters
    ----------
    model : LanguageModel
    context_length : int, optional
        Tokens that a prediction sees at most; None: as many as the model can.
    stride : int, optional
        Predictions that a window adds to the one before it; None: half the context.

    Returns
    -------
    context_length, stride : int or None
        None, None when there is no limit.

    Raises
    ------
    InputError
        When they are not possible.
    """
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


def _windows(
    document: int, ids: np.ndarray, context: int | None, stride: int | None
) -> Iterator[_Window]:
    """Cut a document of n + 1 predictions into windows; each prediction counts once."""
    whole = np.concatenate([[BOS], ids, [EOS]]).astype(np.int64)
    last = len(whole) - 1
    if context is None or stride is None or last <= context:
        yield _Window(document, whole, last)
        return
    end = context
    yield _Window(document, whole[: end + 1], context)
    while end < last:
        counted = min(stride, last - end)
        end += counted
        yield _Window(document, whole[end - context : end + 1], counted)


def _score_batch(model: LanguageModel, windows: Sequence[_Window]) -> Iterator[np.ndarray]:
    """Yield log p of the counted predictions of each window, float64."""
    width = max(len(window.tokens) for window in windows) - 1
    inputs = np.full((len(windows), width), EOS, np.int64)
    targets = np.full((len(windows), width), EOS, np.int64)
    for row, window in enumerate(windows):
        inputs[row, : len(window.tokens) - 1] = window.tokens[:-1]
        targets[row, : len(window.tokens) - 1] = window.tokens[1:]
    device = model.device
    pair = torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device)
    flat = torch.cat(list(model.target_log_probs(*pair, LOGIT_ROWS)))
    scores = flat.view(len(windows), width).cpu().numpy()
    for row, window in enumerate(windows):
        end = len(window.tokens) - 1
        yield scores[row, end - window.counted : end]


@torch.no_grad()
def score_encoded(
    model: LanguageModel,
    encoded: Iterable[np.ndarray],
    *,
    context_length: int | None = None,
    stride: int | None = None,
    batch_tokens: int = 8192,
) -> Iterator[DocumentScore]:
    """Score documents given as token ids, in their order, without holding them all.

    Parameters
    ----------
    model : LanguageModel
        Put to evaluation mode.
    encoded : iterable of ndarray
        Token ids of each document, without ``<s>`` and ``</s>``.
    context_length, stride : int, optional
        See `check_window`.
    batch_tokens : int
        Positions of a batch at most; changes results by rounding only.

    Yields
    ------
    DocumentScore
    """
    model.eval()
    context, stride = check_window(model, context_length, stride)
    stream = iter(encoded)
    while pool := list(islice(stream, POOL)):
        windows = [
            window
            for document, ids in enumerate(pool)
            for window in _windows(document, ids, context, stride)
        ]
        totals = np.zeros(len(pool))
        impossible = np.zeros(len(pool), np.int64)
        windows.sort(key=lambda window: len(window.tokens))
        while windows:
            rows = max(1, batch_tokens // (len(windows[-1].tokens) - 1))
            batch, windows = windows[-rows:], windows[:-rows]
            for window, scores in zip(batch, _score_batch(model, batch), strict=True):
                totals[window.document] += scores.sum()
                impossible[window.document] += np.count_nonzero(np.isneginf(scores))
        for ids, total, zeros in zip(pool, totals, impossible, strict=True):
            unknown = int(np.count_nonzero(ids == UNK))
            yield DocumentScore(float(total), len(ids), unknown, int(zeros))


def score_documents(
    model: LanguageModel, vocabulary: Vocabulary, texts: Iterable[str], **options: Any
) -> Iterator[DocumentScore]:
    """Score texts (tokens joined by one blank), in their order; options as in `score_encoded`."""

    def encoded() -> Iterator[np.ndarray]:
        stream = iter(texts)
        while part := list(islice(stream, POOL)):
            yield from vocabulary.encode(part)

    return score_encoded(model, encoded(), **options)


@dataclass
class Totals:
    """Sums over documents, of which every perplexity is made.

    Attributes
    ----------
    log_prob : float
        Sum of log P, nats.
    documents, tokens, words, characters, bytes : int
        What the texts have, without ``<s>`` and ``</s>``; bytes are those of UTF-8, and blanks
        between words are characters.
    unknown : int
        ``<unk>`` tokens.
    impossible_tokens, impossible_documents : int
        Predictions of probability zero, and documents with one.
    """

    log_prob: float = 0.0
    documents: int = 0
    tokens: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    unknown: int = 0
    impossible_tokens: int = 0
    impossible_documents: int = 0

    def add(self, text: str, score: DocumentScore) -> None:
        """Add one document.

        Raises
        ------
        InputError
            When its score is no number: that is no infinite perplexity, but a broken model.
        """
        if math.isnan(score.log_prob):
            raise InputError(
                f"document {self.documents + 1}: the model gives it the log-probability NaN; its "
                "weights are damaged or its numbers overflow: train or bring the model again"
            )
        words = split_words(text)
        joined = " ".join(words)
        self.log_prob += score.log_prob
        self.documents += 1
        self.tokens += score.tokens
        self.words += len(words)
        self.characters += len(joined)
        self.bytes += len(joined.encode())
        self.unknown += score.unknown
        self.impossible_tokens += score.impossible
        self.impossible_documents += score.impossible > 0


def perplexity(log_prob: float, n: int) -> float:
    """Return exp(−log_prob / n), infinite where log_prob is −inf or the power overflows."""
    exponent = -log_prob / n
    return math.inf if exponent >= 709 else math.exp(exponent)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def summarize(
    totals: Totals,
    vocabulary: Vocabulary,
    *,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Turn totals into the perplexities and what they mean.

    Parameters
    ----------
    totals : Totals
        Of at least one document.
    vocabulary : Vocabulary
        The model's.
    count_eos, count_bos : bool
        Whether ``</s>`` and ``<s>`` count in every N: as a token, a word, a character (the line
        feed of a file with one document a line) and a byte. log P always has ``</s>`` and never
        ``<s>``. The perplexity tutorial (001) counts both; KenLM and the default only ``</s>``.

    Returns
    -------
    dict
        JSON-safe: an infinite perplexity is null, and ``infinite`` is true; nothing is given over
        the documents that are left. ``perplexity`` and ``n`` have the keys ``token``, ``word``,
        ``character``, ``byte``. ``bits`` (per character, per byte) are base 2; ``log_prob`` is in
        nats. ``unknown_penalized`` is given for a closed vocabulary: log P minus ln U for each
        unknown token, U the number of training types that are not in the vocabulary (at least 1),
        as if ``<unk>`` shared its probability evenly among them.

    Raises
    ------
    InputError
        When there are no documents, or N is zero.
    """
    extra = totals.documents * (count_eos + count_bos)
    n = {
        "token": totals.tokens + extra,
        "word": totals.words + extra,
        "character": totals.characters + extra,
        "byte": totals.bytes + extra,
    }
    if not totals.documents or not n["token"]:
        raise InputError("there is nothing to score: no documents, or all of them are empty")
    values = {unit: perplexity(totals.log_prob, count) for unit, count in n.items()}
    counted = [name for name, on in (("</s>", count_eos), ("<s>", count_bos)) if on]
    summary: dict[str, Any] = {
        "perplexity": {unit: _number(value) for unit, value in values.items()},
        "infinite": not math.isfinite(totals.log_prob),
        "bits": {
            unit: _number(-totals.log_prob / n[unit] / math.log(2))
            for unit in ("character", "byte")
        },
        "log_prob": _number(totals.log_prob),
        "n": n,
        "n_counts": " and ".join(["units of the text", *counted]),
        "documents": totals.documents,
        "tokens": totals.tokens,
        "unknown": totals.unknown,
        "unknown_share": totals.unknown / max(1, totals.tokens),
        "impossible_tokens": totals.impossible_tokens,
        "impossible_documents": totals.impossible_documents,
        "vocabulary": {"kind": vocabulary.kind, "size": vocabulary.size},
    }
    if isinstance(vocabulary, ClosedVocabulary):
        types = max(1, vocabulary.unknown_types)
        penalized = totals.log_prob - totals.unknown * math.log(types)
        summary["unknown_penalized"] = {
            "unknown_types": vocabulary.unknown_types,
            "log_prob": _number(penalized),
            "perplexity": {unit: _number(perplexity(penalized, n[unit])) for unit in n},
        }
    return summary


def measure(
    model: LanguageModel,
    vocabulary: Vocabulary,
    texts: Iterable[str],
    *,
    context_length: int | None = None,
    stride: int | None = None,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Score a stream of texts and summarize it.

    Parameters
    ----------
    model, vocabulary
        From `models.checkpoint.load_model`.
    texts : iterable of str
        Tokens joined by one blank.
    context_length, stride : int, optional
        See `check_window`.
    count_eos, count_bos : bool
        See `summarize`.

    Returns
    -------
    dict
        As `summarize`, and ``context_length`` and ``stride`` (null: no limit).
    """
    context, step = check_window(model, context_length, stride)
    totals = Totals()
    stream = iter(texts)
    options = {"context_length": context_length, "stride": stride}
    while part := list(islice(stream, POOL)):
        for text, score in zip(
            part, score_documents(model, vocabulary, part, **options), strict=True
        ):
            totals.add(text, score)
    summary = summarize(totals, vocabulary, count_eos=count_eos, count_bos=count_bos)
    return {**summary, "context_length": context, "stride": step}
