"""Samples with groups against single documents: measures averaged over draws of one document each.

See `inference.units` for the draws and for what a randomization swaps. Every draw is a pair of
texts of its own, which is measured and randomized as any other; then measures are averaged over
draws, those of the texts and those of each randomization. Types by length are of the first draw
alone, which is exact: at single lengths there are so few documents that their average would reject
up to 10% at .05 with 60 groups.
"""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np

from beyond_perplexity.inference.exchanged_units import GroupDraws
from beyond_perplexity.tendencies.document_measures import cell_comparisons, randomized_documents
from beyond_perplexity.tendencies.inference.human_text import part_of
from beyond_perplexity.tendencies.measured import MeasureKey, compares_texts
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from beyond_perplexity.tendencies.word_measures import observed_words, randomized_words

_Draws = dict[MeasureKey, np.ndarray]


def group_draws(pair: BodyPair, seed: int) -> GroupDraws:
    """Return the draws of a pair whose samples alone have groups."""
    assert pair.groups[1] is not None
    return GroupDraws(pair.groups[1], pair.reference.n_documents, seed)


def averaged_draws(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> tuple[dict[MeasureKey, float], _Draws]:
    """Compute the comparing measures of a pair, and under randomizations.

    Parameters
    ----------
    pair : BodyPair
        With documents; its samples alone have groups.
    options : MeasurementOptions
        Number of randomizations and what the measures are restricted to.
    seed : int
        Seed of all draws and randomizations.

    Returns
    -------
    observed : dict of (tendency, measure) to float
        The mean over draws of one document per group; of types by length that of one draw.
    null : dict of (tendency, measure) to numpy.ndarray of float64, shape (B,)
        The same of each randomization. Draws of which a measure is not defined count not.
    """
    draws = group_draws(pair, seed)
    held: dict[MeasureKey, list[np.ndarray]] = defaultdict(list)
    for drawn in draws:
        kept = np.zeros(pair.n_documents[0], bool), np.zeros(pair.n_documents[1], bool)
        for mask, places in zip(kept, drawn, strict=True):
            mask[places] = True
        with part_of(pair, kept) as part:
            units = draws.units(drawn)
            null = randomized_words(part, units, options, seed)
            null |= randomized_documents(part, units, options, seed)
            observed = observed_words(part, units, options) | _observed_documents(part, options)
        for key in null.keys() & observed.keys():
            if key[0] in HISTOGRAM_OF and held[key]:
                continue
            held[key].append(np.append(null[key], observed[key]))
    means = {key: _mean(found) for key, found in sorted(held.items())}
    observed = {key: float(found[-1]) for key, found in means.items()}
    return observed, {key: found[:-1] for key, found in means.items()}


def _observed_documents(part: BodyPair, options: MeasurementOptions) -> dict[MeasureKey, float]:
    return {
        (cells.tendency, name): float(value)
        for cells in cell_comparisons(part, options)
        for name, value in cells.evaluate(*cells.counts).items()
        if compares_texts(name)
    }


def _mean(found: list[np.ndarray]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of nothing but NaN
        mean: np.ndarray = np.nanmean(found, axis=0)
    return mean
