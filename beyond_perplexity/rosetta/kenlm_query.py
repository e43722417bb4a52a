"""KenLM's program ``query``.

Each document is a sentence on a line of its own: words are split at blanks, and the end of the
sentence is one more token. Its logarithms have base 10, the perplexity has none. Words that the
model lacks ("OOVs") are scored as ``<unk>``, once among all tokens and once left out with their
share of N. For a model of pieces of words the same N is taken, and nothing is unknown.

References
----------
Heafield (2011). KenLM: faster and smaller language model queries. ``lm/ngram_query.hh``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from beyond_perplexity.rosetta.numbers import PrintedNumber
from beyond_perplexity.rosetta.speech import Speech, power_of
from beyond_perplexity.scoring.scores import ScoreWindow, check_window, cut_windows, score_windows
from beyond_perplexity.vocabulary import UNK, ClosedVocabulary

_AT_ONCE = 16


@torch.no_grad()
def translate_query(speech: Speech) -> list[PrintedNumber]:
    """Return both perplexities."""
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
