"""How often intervals and limits hold what they name, and a test of Zipf's law rejects its samples.

The samples differ from the human text by known amounts: a share of the documents has its words
swapped by a fixed permutation of the types, and all documents are longer on average. True
distances of the unigrams, the lengths and the means follow from the laws of the population; Heaps'
law and what is said of order are those of a very large draw, in which a share of the documents says
its first words again and again. Limits are one-sided, and counted each on its own. Samples of
Zipf's law are independent draws, with infinitely many ranks, in two halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pkgutil import resolve_name

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.levels import LEVEL, SEED, opened
from benchmarks.populations import Articles, Drawn, Topics, count
from beyond_perplexity.inference.held_out import PARTITION_TYPES
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import SHARES
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import SampleSetPair
from beyond_perplexity.tendencies.power_laws import Halves, rank_order, split_fit
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords
from beyond_perplexity.tendencies.word_distances import equal_tokens
from beyond_perplexity.tendencies.zipf_law import law_p

EXPONENTS = (1.1, 1.2, 1.5)
DRAWS = 199
RANKS = 10_000
FITS = MeasurementOptions(permutations=0, bootstrap=1, monte_carlo=0)
INTERVALS = MeasurementOptions(permutations=0, bootstrap=399, monte_carlo=0)
LARGE = 200_000  # documents of the draw that stands for the population
LARGE_ORDER = 100_000  # likewise, of long documents
VALUES = MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
# Not the slope of Taylor's law, which is of the words that are frequent in so many documents.
NUMBERS, CURVES = ("repetition", "burstiness", "compression"), ("recurrence", "shared_ngrams")
Target = tuple[float, str]  # the true value; which limit holds it: "both", "low" or "high"


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
    pair: SampleSetPair,
    types: pa.Array,
    laws: tuple[np.ndarray, np.ndarray],
    options: MeasurementOptions,
    seed: int,
) -> dict[tuple[str, str], bool]:
    """Say whether the intervals of the split fits hold what they name.

    `laws` are the true shares of the types, (V,), in the reference and in the samples, up to a
    factor; `seed` is that of the halves.
    """
    places = pc.index_in(pair.types, types).to_numpy()
    assert pair.documents is not None
    equal, given = equal_tokens(pair, seed), (options.zipf_ranks, options.confidence, seed)
    fits = (split_fit(pair.documents, b, equal.units(b), *given) for b in (0, 1))
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


@dataclass(frozen=True)
class Shifted:
    """A population of samples that differ from those of `Topics` by known amounts.

    A share (`permuted`) of the documents has its words swapped; expected lengths beyond the
    shortest one are `longer` by a factor.
    """

    population: Topics
    permuted: float
    longer: float

    @cached_property
    def permute(self) -> np.ndarray:
        """The type that each type becomes: (V,)."""
        return stream(SEED, "calibration/exchange").permutation(len(self.population.types))

    def draw(self, rng: np.random.Generator, n: int, grouped: bool) -> Drawn:
        """Draw n groups or documents."""
        draw = self.population.groups if grouped else self.population.documents
        plain = draw(rng, n, self.longer)
        chosen = rng.random(len(plain)) < self.permuted
        tokens = np.repeat(chosen, np.diff(plain.offsets))
        return replace(plain, ids=np.where(tokens, self.permute[plain.ids], plain.ids))

    @property
    def plain(self) -> Shifted:
        """The population without a shift."""
        return Shifted(self.population, 0.0, 1.0)

    @property
    def law(self) -> np.ndarray:
        """The unigrams: float64, (V,)."""
        law = self.population.law
        moved = np.zeros(len(law))
        moved[self.permute] = law
        return (1 - self.permuted) * law + self.permuted * moved

    def targets(self, large: int = LARGE) -> dict[tuple[str, str], Target]:
        """Compute what is covered, by tendency and measure; Heaps' law from so many documents."""
        human, own = self.population.law, self.law
        apart = np.abs(own - human)
        found: dict[tuple[str, str], Target] = {
            ("unigram", "tvd"): (apart.sum() / 2, "each"),
            ("unigram", "max_difference"): (apart.max(), "high"),
            ("unigram", "partitioned_tvd"): (over_partition(human, own), "each"),
        }
        lengths = np.arange(2_000)
        cdfs = [self.population.length_cdf(lengths, factor) for factor in (1.0, self.longer)]
        means = [float(np.sum(1 - cdf)) for cdf in cdfs]
        found["length", "ks"] = (float(np.abs(cdfs[0] - cdfs[1]).max()), "high")
        found |= _means("length", *means)
        for name, row in SHARES.items():
            mask = resolve_name(row.word_class)(self.population.classes)(self.population.types)
            found |= _means(name, float(human @ mask), float(own @ mask))
        return found | self._heaps(large)

    def _heaps(self, large: int) -> dict[tuple[str, str], Target]:
        rng, found = stream(SEED, "calibration/heaps"), {}
        for suffix, population in (("_reference", self.plain), ("", self)):
            counted = count(population.draw(rng, large, False), self.population.classes)
            for tendency, name in type_token.HISTOGRAM_OF.items():
                law = type_token.fit(counted.histograms[name])
                found[tendency, f"heaps_alpha{suffix}"] = (law.alpha, "both")
                found[tendency, f"heaps_beta{suffix}"] = (law.beta, "both")
        return found


def over_partition(human: np.ndarray, own: np.ndarray) -> float:
    """Return the total variation over the most frequent types of the human text and the rest."""
    most = np.argsort(-human)[:PARTITION_TYPES]
    rest = abs(human[most].sum() - own[most].sum())
    return float(np.abs(human - own)[most].sum() + rest) / 2


def _means(tendency: str, reference: float, samples: float) -> dict[tuple[str, str], Target]:
    values = {"mean": samples, "mean_reference": reference, "mean_difference": samples - reference}
    return {(tendency, name): (value, "both") for name, value in values.items()}


@dataclass(frozen=True)
class Looped:
    """A population of samples of which a share of the documents repeats its first words."""

    population: Topics
    share: float
    period: int = 24
    exact: bool = False  # whether just that share of a draw is: of the one that is the population

    @property
    def plain(self) -> Looped:
        """The population without loops."""
        return replace(self, share=0.0)

    def draw(self, rng: np.random.Generator, n: int, grouped: bool) -> Drawn:
        """Draw n groups or documents."""
        draw = self.population.groups if grouped else self.population.documents
        plain = draw(rng, n)
        lengths = np.diff(plain.offsets)
        drawn = rng.random(len(plain))
        if self.exact:  # at every length
            drawn[np.argsort(lengths)] = np.arange(len(plain)) * (5**0.5 - 1) / 2 % 1
        period = np.where(drawn < self.share, self.period, lengths)
        starts = np.repeat(plain.offsets[:-1], lengths)
        places = starts + (np.arange(plain.offsets[-1]) - starts) % np.repeat(period, lengths)
        return replace(plain, ids=plain.ids[places])

    def targets(self, large: int = LARGE_ORDER) -> dict[tuple[str, str], Target]:
        """Compute what is covered, by tendency and measure, from so many documents."""
        rng = stream(SEED, "calibration/loops")
        exact = replace(self, exact=True)
        human, model = (own.draw(rng, large, False) for own in (self.plain, exact))
        with opened(human, model, self.population.classes, (False, False)) as pair:
            value = {row.key: row.value for row in measure_rows(pair, VALUES, 1)}
        found: dict[tuple[str, str], Target] = {}
        for name in NUMBERS:
            found |= _means(name, value[name, "mean_reference"], value[name, "mean"])
            found[name, "ks"] = value[name, "ks"], "high"
        keys = ((name, "max_difference") for name in CURVES)
        return found | {key: (value[key], "high") for key in keys if key in value}


@contextmanager
def opened_shifted(
    name: str, shifted: Shifted | Looped, units: int, grouped: tuple[bool, bool], repeat: int
) -> Iterator[tuple[SampleSetPair, int]]:
    """Draw human text and shifted samples for a repeat of a case, with the seed of its tests."""
    rng = stream(SEED, f"calibration/{name}", repeat)
    human = shifted.plain.draw(rng, units, grouped[0])
    model = shifted.draw(rng, units if grouped[1] else len(human), grouped[1])
    with opened(human, model, shifted.population.classes, grouped) as pair:
        yield pair, stream_key(SEED, f"calibration/{name}/{repeat}")


@dataclass(frozen=True)
class Covered:
    """Intervals of shifted samples, called with the number of the repeat."""

    name: str
    shifted: Shifted | Looped = field(repr=False)
    targets: dict[tuple[str, str], Target] = field(repr=False)
    units: int
    grouped: tuple[bool, bool]
    nominal: str = "0.95"
    limits: tuple[float, float] = (0.93, 1.0)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both sides and measure them: which limits hold."""
        given = self.name, self.shifted, self.units, self.grouped, repeat
        with opened_shifted(*given) as (pair, seed):
            rows = {row.key: row for row in measure_rows(pair, INTERVALS, seed)}
            found = self._split(pair, self.shifted.population.types, seed)
        for key, (target, which) in self.targets.items():
            if key not in rows:  # groups beside documents share no n-grams that are compared
                continue
            low, high = rows[key].low, rows[key].high
            if np.isnan(high):  # too few effective groups
                continue
            name = " ".join(key)
            if which == "both":
                found[name] = low <= target <= high
                continue
            found[f"{name} high"] = target <= high
            if which == "each":
                found[f"{name} low"] = low <= target
        return found

    def _split(self, pair: SampleSetPair, types: pa.Array, seed: int) -> dict[str, bool]:
        if isinstance(self.shifted, Looped):
            return {}
        laws = self.shifted.population.law, self.shifted.law
        split = split_intervals(pair, types, laws, INTERVALS, seed)
        return {" ".join(key): held for key, held in split.items()}


class CoverageCases:
    """The cases of the coverages; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[Covered]:
        small, large = (
            Shifted(topics, permuted=0.15, longer=1.15)
            for topics in (Topics(size=5.0), Topics(size=12.0, least=8))
        )
        targets = small.targets()
        yield Covered("intervals, 300 + 300 documents", small, targets, 300, (False, False))
        yield Covered("intervals, 60 + 60 groups", small, targets, 60, (True, True))
        # The groups of the large ones have more documents, of the same law.
        for units, shifted in ((26, large), (60, small), (100, small), (300, small)):
            name = f"intervals, {units} groups, documents"
            yield Covered(name, shifted, targets, units, (True, False))
        # 71% of them have 64 words and 27% have 128: no draw is cut to another size.
        looped = Looped(Topics(n_types=4_000, size=5.0, mean=100.0), 0.3)
        order = looped.targets()
        yield Covered("order, 150 + 150 documents", looped, order, 150, (False, False))
        yield Covered("order, 60 + 60 groups", looped, order, 60, (True, True))
        yield Covered("order, 100 groups, documents", looped, order, 100, (True, False))
