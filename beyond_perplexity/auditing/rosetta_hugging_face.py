"""What two programs of Hugging Face print: the metric of `evaluate`, and a page's recipe."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from beyond_perplexity.auditing.rosetta_programs import PrintedNumber
from beyond_perplexity.auditing.rosetta_speech import Speech, after_beginning, power_of
from beyond_perplexity.models.likelihoods import ScoreWindow

_BETWEEN = "\n\n"
_STRIDE = 512


def translate_metric(speech: Speech) -> list[PrintedNumber]:
    """Return the mean of the perplexities of the texts, as the metric "perplexity" of evaluate.

    Each text is scored after the beginning of text, without its end, and cut off at the model's
    context (``max_length``; without it, the program fails at a longer text). The arithmetic mean of
    the texts' perplexities is decided by the worst texts: it is never less than the perplexity of
    all tokens, and may be many times as much.

    References
    ----------
    Hugging Face, evaluate 0.4.6, ``metrics/perplexity/perplexity.py`` (add_start_token=True).
    """
    most = speech.context - 1  # max_length leaves room for the beginning of text

    def windows() -> Iterator[ScoreWindow]:
        for number, ids in enumerate(speech.encoded):
            if len(ids) and most:
                kept = ids[:most]
                yield ScoreWindow(number, after_beginning(kept), len(kept))

    found = [(power_of(float(s.sum()), len(s)), len(s)) for _, s in speech.score(windows())]
    refused = not found or len(found) < len(speech.texts)
    mean = math.nan if refused else math.fsum(value for value, _ in found) / len(found)
    cut = sum(len(ids) > most for ids in speech.encoded)
    how = (
        "arithmetic mean of the texts' perplexities per token; the beginning of text is seen, the "
        f"end is not scored; {cut} of {len(speech.texts)} texts are cut off at {most} tokens"
    )
    if refused:
        how = f"the program refuses a text without a token, and a context of one; {how}"
    scored = sum(count for _, count in found)
    return [PrintedNumber("evaluate", "mean_perplexity", mean, scored, how)]


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
    """Return the perplexities of the page "Perplexity of fixed-length models", present and earlier.

    All documents are one string, joined by two line ends; nothing ends it, and only a tokenizer
    that adds a beginning of text by itself begins it. Windows of M tokens, M being the model's
    context, begin every s tokens. Of each window the tokens count that no window before it had, but
    the model's loss is a mean that leaves out the first token of the very first window, which
    nothing precedes. Every mean is then weighted with one token less than its window adds, which is
    right for the first window alone. An earlier version averaged the windows' means, whatever they
    added.

    References
    ----------
    Hugging Face, transformers, ``docs/source/en/perplexity.md`` (s = 512 of M = 1,024 for GPT-2).
    """
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
