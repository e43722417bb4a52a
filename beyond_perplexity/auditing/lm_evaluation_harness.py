"""lm-evaluation-harness: tasks whose output is ``loglikelihood_rolling``, such as wikitext.

A document of n tokens is cut into windows of M predictions, M being the model's context, which
share one token: the first begins after the beginning of text, each other after the last token of
the one before it. Only the last, which is shorter, is filled up with tokens before it. The end of a
document is not scored. A tokenizer that adds a beginning of text by itself makes it two, of which
the second is scored like a token. Log P of all documents is divided by their words or bytes: those
of the task's target, split at white space, so that white space at an end makes one more word.

References
----------
EleutherAI, lm-evaluation-harness 0.4.13, ``utils.get_rolling_token_windows``,
``models.huggingface.HFLM.loglikelihood_rolling``, ``api.task``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from beyond_perplexity.auditing.rosetta_programs import PrintedNumber
from beyond_perplexity.auditing.rosetta_speech import Speech, after_beginning, power_of
from beyond_perplexity.models.likelihoods import ScoreWindow

_WINDOWS = (
    "windows of {context} tokens that share one token; the beginning of text is seen; the end of a "
    "document is not scored"
)
_TWICE = "; the tokenizer adds another beginning of text, which is scored like a token"


def roll_windows(document: int, ids: np.ndarray, context: int) -> Iterator[ScoreWindow]:
    """Cut a document of n tokens into windows whose predictions are its n tokens."""
    if len(ids):
        yield ScoreWindow(document, after_beginning(ids[:context]), min(context, len(ids)))
    for begin in range(context, len(ids), context):
        end = min(begin + context, len(ids))
        yield ScoreWindow(document, ids[end - context - 1 : end], end - begin)


def translate_rolling(speech: Speech) -> list[PrintedNumber]:
    """Return word and byte perplexity and bits per byte."""
    encoded = [speech.encode(text, special=True) for text in speech.texts]
    windows = (
        window
        for number, ids in enumerate(encoded)
        for window in roll_windows(number, ids, speech.context)
    )
    log_prob = math.fsum(float(scores.sum()) for _, scores in speech.score(windows))
    words = sum(len(re.split(r"\s+", text)) for text in speech.texts)
    size = sum(len(text.encode()) for text in speech.texts)
    tokens, how = sum(map(len, encoded)), _WINDOWS.format(context=speech.context)
    how += _TWICE if speech.adds_beginning else ""
    bits = -log_prob / size / math.log(2) if size else math.nan
    program = "lm-evaluation-harness"
    return [
        PrintedNumber(
            program, "word_perplexity", power_of(log_prob, words), tokens, f"per word; {how}"
        ),
        PrintedNumber(
            program,
            "byte_perplexity",
            power_of(log_prob, size),
            tokens,
            f"per byte, which is 2 to the bits per byte; {how}",
        ),
        PrintedNumber(program, "bits_per_byte", bits, tokens, f"base 2, per byte of UTF-8; {how}"),
    ]
