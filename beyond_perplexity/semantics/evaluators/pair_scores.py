"""Raw pairs of texts scored by one measure of an evaluator.

A block of pairs is in memory at a time, besides a number a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.aligned import Floats
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.human import clean_texts
from beyond_perplexity.semantics.human_pairs import ScoredPair

BLOCK_OF_PAIRS = 2048
# The measure that is taken where an evaluator has several and none is named.
_FIRST_CHOICES = ("average", "head", "similarity", "inner_scaled")


def choose_measure(evaluator: Evaluator, wanted: str | None) -> str:
    """Return the measure that is wanted, or the one that says most of two texts as they are.

    Of word vectors that is the average: measures of words in the same place suppose predictions.
    """
    if wanted is None:
        return next(name for name in _FIRST_CHOICES if name in evaluator.measures)
    if wanted not in evaluator.measures:
        allowed = ", ".join(evaluator.measures)
        raise InputError(f"measure: is {wanted!r}; this evaluator has {allowed}")
    return wanted


def score_text_pairs(
    pairs: Iterator[ScoredPair], evaluator: Evaluator, measure: str, tokenized: bool = False
) -> Iterator[tuple[Floats, Floats]]:
    """Score raw pairs of texts block by block: scores and gold, float64 (N,).

    For an evaluator that reads tokens they are cleaned as it says, unless `tokenized`: one of the
    run as its corpus, word vectors and official encoders by the default steps of corpora (the
    latter with their upper case). NaN where a score is undefined, or people gave none.
    """
    stream = iter(pairs)
    while block := list(islice(stream, BLOCK_OF_PAIRS)):
        texts = [text for pair in block for text in (pair.first, pair.second)]
        if not tokenized:
            texts = clean_texts(evaluator, texts)
        both = list(zip(texts[::2], texts[1::2], strict=True))
        yield evaluator.score(both)[measure], np.array([pair.gold for pair in block])
