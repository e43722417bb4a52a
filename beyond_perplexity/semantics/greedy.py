"""Greedy alignment: each word with its most similar one in the other text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.aligned import Vectors
from beyond_perplexity.semantics.cosine_matrices import cosine_matrix
from beyond_perplexity.semantics.word_ids import TextIds

_Floats = NDArray[np.float64]


class GreedyScores(NamedTuple):
    """Greedy alignments, each (N,); NaN where a text is empty."""

    precision: _Floats
    recall: _Floats
    f1: _Floats


def greedy_alignments(units: Vectors, predicted: TextIds, target: TextIds) -> GreedyScores:
    """Align texts greedily, as BERTScore does, without weights of words.

    Precision is the mean over words of the prediction of the greatest cosine with a word of the
    target; recall likewise over words of the target. F1 is their harmonic mean, each of
    them at least 0.

    Parameters
    ----------
    units : ndarray of float32, shape (V, D)
        Vectors of length 1. The same in every context, other than BERTScore's.
    predicted, target : TextIds
        N texts each.

    References
    ----------
    Zhang et al. (2020). BERTScore: evaluating text generation with BERT, equations 1 and 2.
    """
    precision, recall = np.full((2, len(target.lengths)), np.nan)
    for pair in np.flatnonzero(np.minimum(predicted.lengths, target.lengths)).tolist():
        cosines = cosine_matrix(units, predicted.text(pair), target.text(pair))
        precision[pair] = cosines.max(axis=1).mean()
        recall[pair] = cosines.max(axis=0).mean()
    p, r = np.maximum(precision, 0.0), np.maximum(recall, 0.0)
    f1 = np.divide(2 * p * r, p + r, out=np.where(np.isnan(p), np.nan, 0.0), where=p + r > 0)
    return GreedyScores(precision, recall, f1)
