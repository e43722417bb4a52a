"""The options of predictions and measures; nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.options import (
    Count,
    Limited,
    Natural,
    Positive,
)


@dataclass(frozen=True)
class MeasureOptions(Limited):
    """Constants of measures, the paper's by default where it gives them.

    Attributes
    ----------
    temperature : float
        τ of equation 13, 1 / (1 + exp(−s/τ + b)).
    bias : float
        b of equation 13.
    window : int
        k of equation 11: words at most k places apart are compared.
    weighting : str
        How equation 11 weighs words that are j places apart. normalized: 1 − j/(k + 1), and the
        sum is divided by the root of the sums of both texts with themselves, so that a text and
        itself have 1. weighted: the same weights, and the sum is divided by theirs; a text need
        not be the nearest to itself. printed: j/k, divided by T·k.
    movers : str
        How the Word Mover's Distance d becomes a similarity. linear: 1 − d/2, which is within 0
        and 1 for vectors of length 1. exponential: exp(−d).
    resamples : int
        Resampled sets of documents for the intervals of BLEU.
    """

    temperature: Positive = 0.1
    bias: float = 8.0
    window: Count = 2
    weighting: Literal["normalized", "weighted", "printed"] = "normalized"
    movers: Literal["linear", "exponential"] = "linear"
    resamples: Count = 999


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
