"""The recipe of Hugging Face's page "Perplexity of fixed-length models".

All documents are one string, joined by two line ends; nothing ends it, and only a tokenizer that
adds a beginning of text by itself begins it. Windows of M
tokens, M being the model's context, begin every s tokens. Of each window the tokens count that no
window before it had, but the model's loss is a mean that leaves out the first token of the very
first window, which nothing precedes. Every mean is then weighted with one token less than its
window adds, which is right for the first window alone. An earlier version of the page averaged the
windows' means, whatever they added.

References
----------
Hugging Face, transformers, ``docs/source/en/perplexity.md`` (s = 512 of M = 1,024 for GPT-2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from beyond_perplexity.rosetta.numbers import PrintedNumber
from beyond_perplexity.rosetta.speech import Speech, power_of
from beyond_perplexity.scoring.scores import ScoreWindow

_BETWEEN = "\n\n"
_STRIDE = 512


def stride_windows(ids: np.ndarray, context: int, stride: int) -> Iterator[ScoreWindow]:
    """Cut one long text into windows; ``document`` is the number of tokens that one adds."""
    before = 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        added = end - before
        yield ScoreWindow(added, ids[begin:end], min(added, end - begin - 1))
        before = end
        if end == len(ids):
            break


def translate_stride(speech: Speech) -> list[PrintedNumber]:
    """Return the perplexity of the present recipe, and that of the one before it."""
    context = speech.context
    stride = min(_STRIDE, max(1, context // 2))
    ids = speech.join(_BETWEEN, special=True)
    begins = "the tokenizer's" if speech.adds_beginning else "no"
    how = (
        f"{context} tokens of context, a window every {stride}; {begins} beginning, no end of text"
    )
    if len(ids) < 2 or context < 2:  # the first token of a window is never scored
        return [
            PrintedNumber(
                "stride recipe", "perplexity", math.nan, 0, f"too short a text or context; {how}"
            )
        ]
    losses, weights, scored = [], [], 0
    for added, scores in speech.score(stride_windows(ids, context, stride)):
        losses.append(-float(scores.mean()))
        weights.append(added - 1)
        scored += len(scores)
    total = math.fsum(loss * weight for loss, weight in zip(losses, weights, strict=True))
    return [
        PrintedNumber(
            "stride recipe",
            "perplexity",
            power_of(-total, sum(weights)),
            scored,
            f"per token of the documents joined by two line ends, {how}; each window's mean counts "
            "as one token less than it adds",
        ),
        PrintedNumber(
            "stride recipe",
            "perplexity, earlier recipe",
            power_of(-math.fsum(losses), len(losses)),
            scored,
            f"each window's mean counts the same, however few tokens it adds; {how}",
        ),
    ]
