"""The options of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.options import Count, Limited, Natural


@dataclass(frozen=True)
class ContinuationOptions(Limited):
    """What a model writes itself after the first words of a sentence.

    Attributes
    ----------
    prefix : int
        Words of the sentence that are given; a sentence that is no longer has no continuation.
    decoding : "argmax" or "sample"
        Whether a token is the likeliest one or drawn. The sentence has as many tokens as the true
        one, so that ``</s>`` is neither.
    """

    prefix: Count = 5
    decoding: Literal["argmax", "sample"] = "argmax"


@dataclass(frozen=True)
class PredictionOptions(Limited):
    """What a model is asked of each sentence.

    Attributes
    ----------
    samples : int
        S, words that are drawn at each place, given the true words before it: for scores expected
        under the model's own distribution, beside those of its likeliest words.
    continuation : ContinuationOptions or None
        None: nothing is continued.
    """

    samples: Natural = 3
    continuation: ContinuationOptions | None = None
