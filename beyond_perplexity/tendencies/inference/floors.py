"""The floor: how far two human texts are apart that are as large as those that are compared.

Every distance between two samples is above 0, the more the smaller they are. The floor of a
distance is its mean over random splits of human text, with the 2.5% and 97.5% quantiles, at the
same numbers of documents, of tokens (for the measures of words) and of groups, in the same
vocabulary; the excess is what the distance has above the floor, at these numbers.

There are two ways. *With further human text*, the pool is the reference and as many further
documents as there are samples. *Without*, the pool is the reference alone: the floor is that of two
halves of it, the samples are cut to as many documents, and the excess is the mean distance of the
cut samples from either half, less the floor. Where the reference has groups, whole groups are drawn
and split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from beyond_perplexity.invariance.streams import stream
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.document_measures import randomized_documents
from beyond_perplexity.tendencies.histograms import blocks
from beyond_perplexity.tendencies.inference.halves import Halved, halved
from beyond_perplexity.tendencies.inference.human_text import (
    HumanText,
    fewer_documents,
    first_tokens,
    further_pair,
)
from beyond_perplexity.tendencies.inference.units import (
    ExchangedUnits,
    exchanged_units,
    scheme_of,
)
from beyond_perplexity.tendencies.measured import Floor, MeasureKey, is_distance
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.word_measures import randomized_words

HUMAN_SPLITS = 199  # random splits of human text that a floor is the mean of
_BAND = (0.025, 0.975)


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
    with first_tokens(human, min(tokens, least_tokens(human))) as cut:
        return randomized_words(cut, _units(cut, seed), how, seed) if cut.defined else {}


def _floors(draws: Mapping[MeasureKey, np.ndarray]) -> dict[MeasureKey, Floor]:
    return {key: _floor(drawn) for key, drawn in draws.items() if _is_known(key, drawn)}


def _is_known(key: MeasureKey, drawn: np.ndarray) -> bool:
    return is_distance(key[1]) and not bool(np.all(np.isnan(drawn)))


def _floor(drawn: np.ndarray) -> Floor:
    low, high = np.nanquantile(drawn, _BAND)
    return Floor(float(np.nanmean(drawn)), float(low), float(high))


def _with_excess(
    floors: Mapping[MeasureKey, Floor], parts: Halved, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Add what the mean distance of the cut samples from both halves has above the floor."""
    plain = replace(options, permutations=0, bootstrap=0, monte_carlo=0)
    values = [
        {row.key: row.value for row in measure_rows(pair, plain, seed)} for pair in parts.against
    ]
    found = {}
    for key, floor in floors.items():
        if all(key in held for held in values):
            excess = float(np.mean([held[key] for held in values])) - floor.mean
            found[key] = floor._replace(excess=excess)
    return found


def floors_of(
    pair: BodyPair, human: HumanText | None, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Floor]:
    """Compute the floor of every distance of a pair, for `measures.measure_rows`.

    Parameters
    ----------
    pair : BodyPair
        With documents, or there is no floor.
    human : HumanText or None
        Further human documents of the same population; None to split the reference alone.
    options : MeasurementOptions
        What the measures are restricted to; without permutations there is no floor.
    seed : int
        Seed of all draws.

    Returns
    -------
    dict of (tendency, measure) to Floor
        Empty where the human text has too few documents: with `human` fewer than there are samples,
        without it fewer than four.
    """
    if pair.documents is None or not pair.defined or not options.permutations:
        return {}
    if human is None:
        with halved(pair, seed) as parts:
            if parts is None:
                return {}
            floors = split_floors(parts.human, parts.tokens, options, seed)
            return _with_excess(floors, parts, options, seed)
    with further_pair(pair, human) as further:
        if further is None:
            return {}
        return split_floors(further, least_tokens(pair), options, seed)


def least_tokens(pair: BodyPair) -> int:
    """Return the tokens of the smaller body."""
    return min(body.n_tokens for body in pair.bodies)
