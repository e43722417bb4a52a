"""The metric "perplexity" of Hugging Face's library evaluate.

Each text is scored after the beginning of text, without its end, and cut off at the model's context
(``max_length``; without it, the program fails at a longer text). What is printed is the arithmetic
mean of the texts' perplexities, which the worst texts decide: it is never less than the perplexity
of all tokens, and may be many times as much.

References
----------
Hugging Face, evaluate 0.4.6, ``metrics/perplexity/perplexity.py`` (add_start_token=True).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from beyond_perplexity.rosetta.numbers import PrintedNumber
from beyond_perplexity.rosetta.speech import Speech, after_beginning, power_of
from beyond_perplexity.scoring.scores import ScoreWindow


def translate_metric(speech: Speech) -> list[PrintedNumber]:
    """Return the mean of the perplexities of the texts."""
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
