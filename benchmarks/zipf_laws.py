"""Genuine samples of Zipf's law: how often its test rejects them, and how near the fit comes.

Tokens are independent draws of the law with infinitely many ranks, in two halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.levels import LEVEL, SEED, opened
from benchmarks.populations import Articles, Drawn
from beyond_perplexity.invariance.streams import stream, stream_key
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords
from beyond_perplexity.tendencies.zipf_split import Halves, law_p, rank_order

EXPONENTS = (1.1, 1.2, 1.5)
DRAWS = 199
RANKS = 10_000
_FITS = MeasurementOptions(permutations=0, bootstrap=1, monte_carlo=0)


def draw_halves(rng: np.random.Generator, s: float, tokens: int) -> Halves:
    """Draw a sample of the law and rank either half by the other."""
    drawn = rng.zipf(s, tokens)
    _, types = np.unique(drawn, return_inverse=True)
    half = tokens // 2
    n = int(types.max()) + 1
    counts = [np.bincount(part, minlength=n) for part in (types[:half], types[half:])]
    orders = [rank_order(held, RANKS, rng) for held in counts]
    return Halves((counts[1][orders[0]], counts[0][orders[1]]))


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
    """The interval of the split-half exponent of genuine samples in documents."""

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
        """Draw two texts and say whether the intervals hold the exponent."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        drawn = rng.zipf(self.s, 2 * self.documents * self.length)
        names, ids = np.unique(drawn, return_inverse=True)
        types = pa.array([f"w{name}" for name in names])
        offsets = np.arange(self.documents + 1) * self.length
        texts = [
            Drawn(types, part.astype(np.int32), offsets, np.arange(self.documents, dtype=np.int32))
            for part in np.split(ids, 2)
        ]
        classes = ClassOptions(StopWords("none", frozenset({"w1"})), True)
        with opened(texts[0], texts[1], classes, (False, False)) as pair:
            rows = {row.measure: row for row in measure_rows(pair, _FITS, repeat)}
        held = ("zipf_s_split", "zipf_s_split_reference")
        return {name: rows[name].low <= self.s <= rows[name].high for name in held}


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
