"""What is known of every single document: its length, types and tokens of each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name

import numpy as np

from beyond_perplexity.tendencies.rows import LENGTH, SHARES
from beyond_perplexity.tendencies.statistics import Histogram, count_classes, count_types
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions


def value_counter(classes: ClassOptions) -> Callable[[TokenBatch], dict[str, np.ndarray]]:
    """Return what counts the value of every histogram for each document of a batch.

    Parameters
    ----------
    classes : ClassOptions
        What the shares of tokens are counted by.

    Returns
    -------
    callable
        Of a `TokenBatch` of D documents: ``length``, ``types``, ``bigram_types`` and the tokens of
        each class, int64, shape (D,).
    """
    tests = {row.histogram: resolve_name(row.word_class)(classes) for row in SHARES.values()}

    def count(batch: TokenBatch) -> dict[str, np.ndarray]:
        unigrams, bigrams = count_types(batch)
        masks = {name: test(batch.types) for name, test in tests.items()}
        counted = {LENGTH: batch.lengths, "types": unigrams, "bigram_types": bigrams}
        return counted | count_classes(batch, masks)

    return count


def histograms_of(values: Mapping[str, np.ndarray]) -> dict[str, Histogram]:
    """Count documents by length and value, from what `value_counter` found of each."""
    lengths = values[LENGTH]
    ones = np.ones(len(lengths), np.int64)
    pairs = {name: x if name != LENGTH else np.zeros_like(x) for name, x in values.items()}
    return {name: Histogram.of(lengths, x, ones) for name, x in pairs.items()}
