"""The floor: how far two human texts are apart that are as large as those that are compared.

Every distance between two samples is above 0, the more the smaller they are. The floor of a
distance is its mean over random splits of human text, with the 2.5% and 97.5% quantiles, at the
same numbers of documents, of tokens (for the measures of words) and of groups, in the same
vocabulary; the excess is what the distance has above the floor, at these numbers.

There are two ways. *With further human text* (`split_floors`), the pool is the reference and as
many further documents as there are samples. *Without* (`reference_floors`), the pool is the
reference alone: the floor is that of two halves of it, cut to as many documents as there are
samples, and the excess is the mean distance of as many samples from such halves, less the floor;
see `halves`. Where the reference has groups, whole groups are split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from beyond_perplexity.inference.exchanged_units import ExchangedUnits, exchanged_units, scheme_of
from beyond_perplexity.inference.halves import EXCESS_SPLITS, HUMAN_SPLITS, Floor, floor_of
from beyond_perplexity.inference.histogram_draws import blocks
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import MeasureKey, is_distance
from beyond_perplexity.tendencies.document_measures import randomized_documents
from beyond_perplexity.tendencies.inference.halves import half_draws
from beyond_perplexity.tendencies.inference.human_text import fewer_documents, fewer_tokens
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.word_measures import randomized_words


def split_floors(
    human: BodyPair, tokens: int, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floors of a pair of human texts.

    Parameters
    ----------
    human : BodyPair
        With documents, and groups where whole groups are split.
    tokens : int
        Tokens that the measures of words are taken at, at most.
    options : MeasurementOptions
        What the measures are restricted to.
    seed : int
        Seed of the splits.

    Returns
    -------
    dict of (tendency, measure) to Floor
        Of distances; `Floor.excess` is None.
    """
    how = replace(options, permutations=HUMAN_SPLITS, bootstrap=0, monte_carlo=0)
    draws = _split_documents(human, how, seed)
    draws |= _split_words(human, tokens, how, seed)
    return _floors(draws)


def smaller_floors(
    further: BodyPair, n: int, tokens: int, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floors of the reference and n documents, or `tokens` tokens of either.

    Parameters
    ----------
    further : BodyPair
        See `human_text.further_pair`.
    n, tokens : int
        Documents of the second text; tokens that the measures of words are taken at, at most.
    options, seed
        As for `split_floors`.
    """
    how = replace(options, permutations=HUMAN_SPLITS, bootstrap=0, monte_carlo=0)
    with fewer_documents(further, n, seed) as few:
        draws = _split_documents(few, how, seed)
    draws |= _split_words(further, tokens, how, seed)
    return _floors(draws)


def _units(human: BodyPair, seed: int) -> ExchangedUnits | None:
    reference, other = (body.n_documents for body in human.bodies)
    return exchanged_units(human.groups, (reference, other), seed)


def _split_documents(
    human: BodyPair, how: MeasurementOptions, seed: int
) -> dict[MeasureKey, np.ndarray]:
    """Draw the distances of one number per document under random splits.

    The test of types by length permutes documents of equal length; a floor is of splits of all.
    """
    draws = dict(randomized_documents(human, _units(human, seed), how, seed))
    if scheme_of(human.groups) == "documents":
        for tendency in type_token.HISTOGRAM_OF:
            drawn = _split_cells(human, tendency, how, seed)
            if drawn is not None:
                draws[tendency, "ks_empirical"] = drawn
    return draws


def _split_cells(
    human: BodyPair, tendency: str, how: MeasurementOptions, seed: int
) -> np.ndarray | None:
    paired = type_token.pair_by_length(*human.bodies, tendency, how.heaps_maximum_length)
    if paired is None:
        return None
    pooled, n = paired.reference + paired.samples, int(paired.reference.sum())
    found = []
    for items in blocks(how.permutations, len(pooled)):
        rngs = (stream(seed, f"floor/{tendency}", b) for b in items)
        first = np.stack([rng.multivariate_hypergeometric(pooled, n) for rng in rngs])  # (b, C)
        found.append(type_token.summarize_lengths(paired, first, pooled - first, {}))
    return np.concatenate([part["ks_empirical"] for part in found])


def _split_words(
    human: BodyPair, tokens: int, how: MeasurementOptions, seed: int
) -> dict[MeasureKey, np.ndarray]:
    with fewer_tokens(human, min(tokens, least_tokens(human)), seed) as cut:
        return randomized_words(cut, _units(cut, seed), how, seed) if cut.defined else {}


def _floors(draws: Mapping[MeasureKey, np.ndarray]) -> dict[MeasureKey, Floor]:
    return {key: floor_of(drawn) for key, drawn in draws.items() if _is_known(key, drawn)}


def _is_known(key: MeasureKey, drawn: np.ndarray) -> bool:
    return is_distance(key[1]) and not bool(np.all(np.isnan(drawn)))


def reference_floors(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floor and the excess of every distance of a pair from the reference alone.

    Parameters
    ----------
    pair : BodyPair
        With documents, or there is no floor.
    options : MeasurementOptions
        What the measures are restricted to; without permutations there is no floor.
    seed : int
        Seed of all draws.

    Returns
    -------
    dict of (tendency, measure) to Floor
        Empty where a half would have fewer than two documents, or fewer effective groups than a
        verdict needs.
    """
    if pair.documents is None or not pair.defined or not options.permutations:
        return {}
    drawn = half_draws(pair, HUMAN_SPLITS, EXCESS_SPLITS, options, seed)
    if drawn is None:
        return {}
    found = {}
    for key, floor in _floors(drawn.human).items():
        if not np.all(np.isnan(drawn.against[key])):
            excess = float(np.nanmean(drawn.against[key])) - floor.mean
            found[key] = floor._replace(excess=excess)
    return found


def least_tokens(pair: BodyPair) -> int:
    """Return the tokens of the smaller body."""
    return min(body.n_tokens for body in pair.bodies)
