"""What two programs of the command line print: KenLM's ``query`` and ``llama-perplexity``."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from beyond_perplexity.auditing.rosetta_programs import PrintedNumber
from beyond_perplexity.auditing.rosetta_speech import Speech, after_beginning, power_of
from beyond_perplexity.models.likelihoods import (
    ScoreWindow,
    check_window,
    cut_windows,
    score_windows,
)
from beyond_perplexity.vocabulary import BOS, UNK, ClosedVocabulary

_AT_ONCE = 16
_CONTEXT = 512


@torch.no_grad()
def translate_query(speech: Speech) -> list[PrintedNumber]:
    """Return both perplexities of KenLM's program ``query``.

    Each document is a sentence on a line of its own: words are split at blanks, and the end of the
    sentence is one more token. Its logarithms have base 10, the perplexity has none. Words that the
    model lacks ("OOVs") are scored as ``<unk>``, once among all tokens and once left out with their
    share of N. For a model of pieces of words the same N is taken, and nothing is unknown.

    References
    ----------
    Heafield (2011). KenLM: faster and smaller language model queries. ``lm/ngram_query.hh``.
    """
    encoded = speech.vocabulary.encode(speech.texts)
    context, stride = check_window(speech.model, speech.context_length, None)
    windows = [
        window
        for number, ids in enumerate(encoded)
        for window in cut_windows(number, ids, context, stride)
    ]
    closed = isinstance(speech.vocabulary, ClosedVocabulary)
    total = unknown = 0.0
    scored = 0
    for window, scores in _scores(speech, windows):
        total += float(scores.sum())
        scored += len(scores)
        if closed:
            unknown += float(scores[window.tokens[-window.counted :] == UNK].sum())
    oov = sum(int((ids == UNK).sum()) for ids in encoded) if closed else 0
    tokens = sum(len(text.split()) for text in speech.texts) + len(speech.texts)
    how = "per word, the end of each line being a word; each document is a line"
    program = "KenLM"
    return [
        PrintedNumber(program, "Perplexity including OOVs", power_of(total, tokens), scored, how),
        PrintedNumber(
            program,
            "Perplexity excluding OOVs",
            power_of(total - unknown, tokens - oov),
            scored - oov,
            f"{how}; {oov:,} words that the model lacks are left out of log P and of N",
        ),
    ]


def _scores(speech: Speech, windows: list[ScoreWindow]) -> Iterator[tuple[ScoreWindow, np.ndarray]]:
    """Yield windows with ln p of their counted predictions."""
    for start in range(0, len(windows), _AT_ONCE):
        batch = windows[start : start + _AT_ONCE]
        yield from zip(batch, score_windows(speech.model, batch), strict=True)


def chunk_windows(ids: np.ndarray, context: int, begins: bool) -> Iterator[ScoreWindow]:
    """Cut a text of ids, the beginning of text among them where there is one, into chunks."""
    for number in range(len(ids) // context):
        chunk = ids[number * context : (number + 1) * context].copy()
        if begins:
            chunk[0] = BOS
        yield ScoreWindow(number, chunk, context - context // 2 - 1)


def translate_chunks(speech: Speech) -> list[PrintedNumber]:
    """Return the "Final estimate" of llama.cpp's program ``llama-perplexity``.

    The file is one string of tokens, after the beginning of text where the model adds one. It is
    cut into chunks of n_ctx tokens that share nothing; where the model adds a beginning of text,
    that replaces the first token of each chunk. Only the second half of a chunk is scored, so that
    each prediction sees at least n_ctx / 2 tokens; the other half, and what is left at the end,
    never is. Special tokens that the text says are characters to it.

    References
    ----------
    ggml-org, llama.cpp, ``tools/perplexity/perplexity.cpp``, ``perplexity`` (n_ctx = 512).
    """
    context = min(_CONTEXT, speech.context)
    begins = speech.adds_beginning
    ids = speech.join("\n", literal=True)
    ids = after_beginning(ids) if begins else ids
    how = (
        f"per token of the second halves of chunks of {context} tokens; the others are context "
        "alone, and the last, shorter chunk is left out; documents are lines of one text"
    )
    if len(ids) < 2 * context or context < 3:
        refused = f"the program refuses a text of fewer than {2 * context} tokens; {how}"
        return [PrintedNumber("llama.cpp", "PPL", math.nan, 0, refused)]
    scores = [found for _, found in speech.score(chunk_windows(ids, context, begins))]
    scored = sum(map(len, scores))
    log_prob = math.fsum(float(found.sum()) for found in scores)
    return [PrintedNumber("llama.cpp", "PPL", power_of(log_prob, scored), scored, how)]
