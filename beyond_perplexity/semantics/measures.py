"""The measures: a row says all that scores, tables and figures know of one; nothing heavy is
imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from beyond_perplexity.options import Count, Limited, Natural, Positive, Rows

Pooling = Literal["sentences", "words", "bleu"]
Needs = Literal["texts", "model", "word vectors", "sentence encoder"]

UNRELATED = "the same predictions against unrelated sentences of like length"
BLEU_NAMES = {"bleu_2": 2, "bleu_3": 3, "bleu_4": 4}
ACCURACY, CROSS_ENTROPY = "accuracy", "cross_entropy"
# What is printed where a model predicts no word: it matches nothing, not even itself.
NO_WORDS = frozenset({"<s>", "</s>", "<unk>"})


class Measure(NamedTuple):
    """What is known of a measure of two texts, the target and what is compared with it."""

    title: str  # What tables and figures call it
    words: str  # What it is, in a line, for README and tables
    # low, high: Its range, with the paper's constants; `high` is what identical texts have where it
    # `reaches`
    low: float = 0.0
    high: float = 1.0
    needs: Needs = "word vectors"  # What it is computed from
    equation: str = ""  # Number in the paper, if it has one
    higher: bool = True  # Whether more is better
    # Whether it compares words position by position: null for models whose tokens are no words
    aligned: bool = False
    # How values of sentences become one: their mean, their mean weighted by words of the target, or
    # counts that are added up before they are divided (BLEU)
    pooling: Pooling = "sentences"
    # What a prediction scores that is empty, or of which an evaluator knows no word; a target of
    # which it knows none leaves the value undefined. None: is of no prediction.
    nothing: float | None = 0.0
    # Whether it adds up inner products of the words of each position. Then what samples score, less
    # half of what they score among themselves, is a proper scoring rule; see `model_measures`.
    by_place: bool = False
    reaches: bool = True  # Whether identical texts have the most of all texts
    baseline: str = UNRELATED  # What stands beside it as its baseline; empty where it has none
    caution: str = ""  # What it does not say

    @property
    def scalable(self) -> bool:
        """Whether equation 12, which is of values from 0 to 1, applies."""
        return self.higher and self.low >= 0 and self.high <= 1


def _bleu(order: int) -> Measure:
    return Measure(
        f"BLEU-{order}",
        f"matching n-grams of 1 to {order} words over all sentences, their geometric mean with a "
        "penalty of short texts; the mean of sentences stands beside",
        needs="texts",
        pooling="bleu",
        caution="predictions of one word at a time are no translations: their n-grams follow true "
        "words that they may not repeat, and the penalty of short texts never applies to them",
    )


MEASURES: Rows[Measure] = {
    "bleu_2": _bleu(2),
    "bleu_3": _bleu(3),
    "bleu_4": _bleu(4),
    "accuracy": Measure(
        "Accuracy",
        "share of the target's words that are predicted",
        needs="texts",
        aligned=True,
        pooling="words",
        by_place=True,
        caution="a synonym is as wrong as any other word",
    ),
    "cross_entropy": Measure(
        "Cross-entropy",
        "−ln p of the target's words in their document, per word; its power of e is the perplexity "
        "on these sentences",
        high=float("inf"),
        needs="model",
        higher=False,
        pooling="words",
        nothing=None,
        baseline="",
        caution="of the target alone; vocabularies differ, and <unk> is easy to predict",
    ),
    "aligned_cosine": Measure(
        "Aligned cosine",
        "mean cosine of the vectors of words at the same position",
        low=-1.0,
        aligned=True,
        by_place=True,
        caution="frequent words are like one another: two unrelated sentences are far from 0",
    ),
    "cosine": Measure(
        "Cosine",
        "σ of the mean cosine of the vectors of words at the same position",
        low=0.2689414213699951,  # σ(−1)
        high=0.7310585786300049,  # σ(1)
        equation="10",
        aligned=True,
        nothing=0.5,
        caution="σ leaves values from .27 to .73; some of the paper's Table I lie above",
    ),
    "cosine_scaled": Measure(
        "Cosine, scaled",
        "1 / (1 + exp(−s/τ + b)) of the mean cosine s of words at the same position",
        low=1.5229979512760347e-08,  # of s = −1
        high=0.8807970779778823,  # of s = 1
        equation="13",
        aligned=True,
        nothing=0.0003353501304664781,  # of s = 0
        caution="a steep curve with a fixed middle (s = τb = .8): with other vectors the same "
        "texts lie elsewhere on it",
    ),
    "pairwise_cosine": Measure(
        "Pairwise cosine",
        "cosines of words at most k positions apart, weighted by 1 − distance/(k + 1), over the "
        "root of both texts' own",
        low=-1.0,
        equation="11",
        aligned=True,
        caution="as printed the equation weighs distant words more, and a text is not the nearest "
        "to itself",
    ),
    "wmd": Measure(
        "WMD",
        "1 − d/2, d the least mean distance over which the words of one text, as vectors of length "
        "1, are moved to those of the other",
        nothing=0.2928932188134524,  # of d = √2, as of what is no word
        caution="blind to order",
    ),
    "greedy_f1": Measure(
        "Greedy F1",
        "each word with its most similar one in the other text: harmonic mean of both directions, "
        "as BERTScore with vectors that know no context",
        caution="blind to order; unrelated sentences score high",
    ),
    "greedy_precision": Measure(
        "Greedy precision",
        "mean over words of the prediction of the cosine with the target's most similar one",
        low=-1.0,
        caution="a prediction of one frequent word can score well",
    ),
    "greedy_recall": Measure(
        "Greedy recall",
        "mean over words of the target of the cosine with the prediction's most similar one",
        low=-1.0,
    ),
    "average": Measure(
        "Average of vectors",
        "cosine of the mean vectors of both texts",
        low=-1.0,
        caution="blind to order; frequent words dominate, so any two sentences are near",
    ),
    "similarity": Measure(
        "Similarity",
        "cosine of the vectors of both texts by a sentence encoder",
        low=-1.0,
        needs="sentence encoder",
        caution="what counts as like is what the encoder was trained to distinguish",
    ),
    "head": Measure(
        "Trained head",
        "the score that a trained classifier gives the vectors u, v, |u − v|, u·v of both texts",
        needs="sentence encoder",
        equation="6",
        reaches=False,
        caution="of what it was trained on; identical texts need not have the most",
    ),
    "inner": Measure(
        "Inner product",
        "σ of the mean inner product of both texts' states in the top layers",
        needs="sentence encoder",
        equation="9",
        nothing=0.5,
        reaches=False,
        caution="hundreds of units saturate σ; longer vectors score more than equal ones",
    ),
    "inner_scaled": Measure(
        "Inner product by width",
        "as equation 9, the products divided by the width of the layer",
        needs="sentence encoder",
        equation="9",
        nothing=0.5,
        reaches=False,
        caution="longer vectors score more than equal ones",
    ),
}


@dataclass(frozen=True)
class MeasureOptions(Limited):
    """Constants of measures, the paper's by default where it gives them.

    temperature: τ of equation 13, 1 / (1 + exp(−s/τ + b)).
    bias: b of equation 13.
    window: k of equation 11: words at most k positions apart are compared.
    weighting: How equation 11 weighs words that are j positions apart. normalized: 1 − j/(k + 1),
        and the sum is divided by the root of the sums of both texts with themselves, so that a text
        and itself have 1. weighted: the same weights, and the sum is divided by theirs; a text need
        not be the nearest to itself. printed: j/k, divided by T·k.
    movers: How the Word Mover's Distance d becomes a similarity. linear: 1 − d/2, which is within 0
        and 1 for vectors of length 1. exponential: exp(−d).
    resamples: Resampled sets of documents for the intervals of BLEU.
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

    prefix: Words of the sentence that are given; a sentence that is no longer has no continuation.
    decoding: Whether a token is the argmax or drawn. The sentence has as many tokens as the true
        one, so that ``</s>`` is neither.
    """

    prefix: Count = 5
    decoding: Literal["argmax", "sample"] = "argmax"


@dataclass(frozen=True)
class PredictionOptions(Limited):
    """What a model is asked of each sentence.

    samples: S, words that are drawn at each position, given the true words before it: for scores
        expected under the model's own distribution, beside those of its argmax words.
    continuation: None: nothing is continued.
    """

    samples: Natural = 3
    continuation: ContinuationOptions | None = None
