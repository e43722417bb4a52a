"""All measures of a table of word vectors at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.aligned import aligned_cosines, pairwise_cosines, unit_rows
from beyond_perplexity.semantics.averages import mean_vectors
from beyond_perplexity.semantics.evaluators.contract import cosines
from beyond_perplexity.semantics.greedy import greedy_alignments
from beyond_perplexity.semantics.measure_options import MeasureOptions
from beyond_perplexity.semantics.movers import movers_distances
from beyond_perplexity.semantics.scaling import logistic, movers_similarity, scaled_cosine
from beyond_perplexity.semantics.word_ids import TextIds

VECTOR_MEASURES = (
    "aligned_cosine",
    "cosine",
    "cosine_scaled",
    "pairwise_cosine",
    "wmd",
    "greedy_f1",
    "greedy_precision",
    "greedy_recall",
    "average",
)


def measure_vectors(
    vectors: NDArray[np.float32], predicted: TextIds, target: TextIds, options: MeasureOptions
) -> dict[str, NDArray[np.float64]]:
    """Measure N pairs of texts by the vectors (V, D) of their words, as they are.

    Float64 (N,) by measure; NaN where a text is empty, and of ``average`` where it has no word with
    a vector.
    """
    units = unit_rows(vectors)
    aligned = aligned_cosines(units, predicted, target)
    greedy = greedy_alignments(units, predicted, target)
    pairwise = pairwise_cosines(units, predicted, target, options.window, options.weighting)
    means = [mean_vectors(vectors, texts) for texts in (predicted, target)]
    found = (
        aligned,
        logistic(aligned),
        scaled_cosine(aligned, options.temperature, options.bias),
        pairwise,
        movers_similarity(movers_distances(units, predicted, target), options),
        greedy.f1,
        greedy.precision,
        greedy.recall,
        cosines(*means),
    )
    return dict(zip(VECTOR_MEASURES, found, strict=True))
