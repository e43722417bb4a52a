"""Genuine samples of Zipf's law: how often its test rejects them, and how near the fit comes.

Tokens are independent draws of the law with infinitely many ranks, in two halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.levels import LEVEL, SEED, opened
from benchmarks.populations import Articles, Drawn
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.power_laws import Halves, rank_order
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords
from beyond_perplexity.tendencies.word_distances import equal_tokens
from beyond_perplexity.tendencies.word_measures import split_fits
from beyond_perplexity.tendencies.zipf_law import law_p

EXPONENTS = (1.1, 1.2, 1.5)
DRAWS = 199
RANKS = 10_000
FITS = MeasurementOptions(permutations=0, bootstrap=1, monte_carlo=0)


def draw_halves(rng: np.random.Generator, s: float, tokens: int) -> Halves:
    """Draw a sample of the law and rank either half by the other."""
    drawn = rng.zipf(s, tokens)
    _, types = np.unique(drawn, return_inverse=True)
    half = tokens // 2
    n = int(types.max()) + 1
    counts = [np.bincount(part, minlength=n) for part in (types[:half], types[half:])]
    orders = [rank_order(held, RANKS, rng) for held in counts]
    return Halves((counts[1][orders[0]], counts[0][orders[1]]))


def split_intervals(
    pair: BodyPair,
    types: pa.Array,
    laws: tuple[np.ndarray, np.ndarray],
    options: MeasurementOptions,
    seed: int,
) -> dict[tuple[str, str], bool]:
    """Say whether the intervals of the split fits hold what they name.

    Parameters
    ----------
    pair : BodyPair
        The texts.
    types : pyarrow.StringArray, shape (V,)
        Types of the population.
    laws : tuple of two numpy.ndarray of float64, shape (V,)
        Their true shares in the reference and in the samples, up to a factor.
    options : MeasurementOptions
        As they are measured with.
    seed : int
        Of the halves.
    """
    places = pc.index_in(pair.types, types).to_numpy()
    fits = split_fits(pair, equal_tokens(pair, seed), options, seed)
    names = "zipf_s_split_reference", "zipf_s_split"
    return {
        ("rank_frequency", name): fit.low <= fit.target(law[places]) <= fit.high
        for name, fit, law in zip(names, fits, laws, strict=True)
    }


@dataclass(frozen=True)
class GenuineLaw:
    """The test of a genuine sample against the law with its own fitted exponent."""

    s: float
    tokens: int = 20_000
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.075)

    @property
    def name(self) -> str:
        """Exponent and tokens."""
        return f"Zipf's law, s = {self.s:g}, {self.tokens:,} tokens"

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw a sample and test it."""
        halves = draw_halves(stream(SEED, f"calibration/{self.name}", repeat), self.s, self.tokens)
        seed = stream_key(SEED, f"calibration/{self.name}/{repeat}")
        p_value = law_p(halves, halves, DRAWS, RANKS, seed, "calibration")
        return {"ks_zipf_model": p_value <= LEVEL}


@dataclass(frozen=True)
class NearFit:
    """The fit of a large genuine sample; more than a few repeats say nothing new."""

    s: float
    tokens: int = 1_000_000
    nominal: str = "1"
    limits: tuple[float, float] = (1.0, 1.0)
    most_repeats: int = 10

    @property
    def name(self) -> str:
        """Exponent and tokens."""
        return f"split-half fit, s = {self.s:g}, {self.tokens:,} tokens"

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw a sample and fit it: whether the exponent is within 1%."""
        halves = draw_halves(stream(SEED, f"calibration/{self.name}", repeat), self.s, self.tokens)
        return {"zipf_s_split within 1%": abs(halves.exponent / self.s - 1) <= 0.01}


@dataclass(frozen=True)
class SplitInterval:
    """The interval of the split-half exponent of genuine samples in documents.

    What it names is the exponent of the law's own frequencies at the ranks that were found.
    """

    s: float
    documents: int = 400
    length: int = 50
    nominal: str = "0.95"
    limits: tuple[float, float] = (0.93, 1.0)

    @property
    def name(self) -> str:
        """Exponent and documents."""
        return f"split-half interval, s = {self.s:g}, {self.documents} documents"

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw a text and say whether the interval holds what it names."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        drawn = rng.zipf(self.s, 2 * self.documents * self.length)
        numbers, ids = np.unique(drawn, return_inverse=True)
        types = pa.array([f"w{number}" for number in numbers])
        offsets = np.arange(self.documents + 1) * self.length
        texts = [
            Drawn(types, part.astype(np.int32), offsets, np.arange(self.documents, dtype=np.int32))
            for part in np.split(ids, 2)
        ]
        classes = ClassOptions(StopWords("none", frozenset({"w1"})), True)
        law = numbers.astype(float) ** -self.s
        with opened(texts[0], texts[1], classes, (False, False)) as pair:
            held = split_intervals(pair, types, (law, law), FITS, repeat)
        return {" ".join(key): value for key, value in held.items()}


class ZipfCases:
    """The cases of Zipf's law; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[GenuineLaw | SplitInterval | NearFit]:
        for s in EXPONENTS:
            yield GenuineLaw(s)
        for s in EXPONENTS:
            yield SplitInterval(s)
        for s in EXPONENTS:
            yield NearFit(s)
