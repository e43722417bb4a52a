"""How often intervals and limits hold what they name.

The samples differ from the human text by known amounts: a share of the documents has its words
exchanged by a fixed permutation of the types, and all documents are longer on average. True
distances of the unigrams, the lengths and the means follow from the laws of the population; Heaps'
law is that of a very large draw. Limits are one-sided: the lower and the upper one of a distance
are counted each on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pkgutil import resolve_name

import numpy as np

from benchmarks.levels import SEED, opened
from benchmarks.populations import Articles, Drawn, Topics, count
from benchmarks.zipf_laws import split_intervals
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import SHARES
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions

INTERVALS = MeasurementOptions(permutations=0, bootstrap=399, monte_carlo=0)
LARGE = 200_000  # documents of the draw that stands for the population
Target = tuple[float, str]  # the true value; which limit holds it: "both", "low" or "high"


@dataclass(frozen=True)
class Shifted:
    """A population of samples that differ from those of `Topics` by known amounts.

    Attributes
    ----------
    population : Topics
        The human one.
    exchanged : float
        Share of the documents whose words are exchanged.
    longer : float
        Factor of the expected lengths beyond the shortest one.
    """

    population: Topics
    exchanged: float
    longer: float

    @cached_property
    def exchange(self) -> np.ndarray:
        """The type that each type becomes: (V,)."""
        return stream(SEED, "calibration/exchange").permutation(len(self.population.types))

    def draw(self, rng: np.random.Generator, n: int, grouped: bool) -> Drawn:
        """Draw n groups or documents."""
        draw = self.population.groups if grouped else self.population.documents
        plain = draw(rng, n, self.longer)
        chosen = rng.random(len(plain)) < self.exchanged
        tokens = np.repeat(chosen, np.diff(plain.offsets))
        return replace(plain, ids=np.where(tokens, self.exchange[plain.ids], plain.ids))

    @property
    def law(self) -> np.ndarray:
        """The unigrams: float64, (V,)."""
        law = self.population.law
        moved = np.zeros(len(law))
        moved[self.exchange] = law
        return (1 - self.exchanged) * law + self.exchanged * moved

    def targets(self, large: int = LARGE) -> dict[tuple[str, str], Target]:
        """Compute what is covered, by tendency and measure; Heaps' law from so many documents."""
        human, own = self.population.law, self.law
        apart = np.abs(own - human)
        found: dict[tuple[str, str], Target] = {
            ("unigram", "tvd"): (apart.sum() / 2, "each"),
            ("unigram", "max_difference"): (apart.max(), "high"),
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
        plain = Shifted(self.population, 0.0, 1.0)
        for suffix, population in (("_reference", plain), ("", self)):
            counted = count(population.draw(rng, large, False), self.population.classes)
            for tendency, name in type_token.HISTOGRAM_OF.items():
                law = type_token.fit(counted.histograms[name])
                found[tendency, f"heaps_alpha{suffix}"] = (law.alpha, "both")
                found[tendency, f"heaps_beta{suffix}"] = (law.beta, "both")
        return found


def _means(tendency: str, reference: float, samples: float) -> dict[tuple[str, str], Target]:
    values = {"mean": samples, "mean_reference": reference, "mean_difference": samples - reference}
    return {(tendency, name): (value, "both") for name, value in values.items()}


@dataclass(frozen=True)
class Covered:
    """Intervals of shifted samples, called with the number of the repeat."""

    name: str
    shifted: Shifted = field(repr=False)
    targets: dict[tuple[str, str], Target] = field(repr=False)
    units: int
    grouped: tuple[bool, bool]
    nominal: str = "0.95"
    limits: tuple[float, float] = (0.93, 1.0)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both sides and measure them: which limits hold."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        human = Shifted(self.shifted.population, 0.0, 1.0).draw(rng, self.units, self.grouped[0])
        n = self.units if self.grouped[1] else len(human)
        model = self.shifted.draw(rng, n, self.grouped[1])
        seed = stream_key(SEED, f"calibration/{self.name}/{repeat}")
        with opened(human, model, self.shifted.population.classes, self.grouped) as pair:
            rows = {row.key: row for row in measure_rows(pair, INTERVALS, seed)}
            laws = self.shifted.population.law, self.shifted.law
            split = split_intervals(pair, human.types, laws, INTERVALS, seed)
        found = {" ".join(key): held for key, held in split.items()}
        for key, (target, which) in self.targets.items():
            low, high = rows[key].low, rows[key].high
            name = " ".join(key)
            if which == "both":
                found[name] = low <= target <= high
                continue
            found[f"{name} high"] = target <= high
            if which == "each":
                found[f"{name} low"] = low <= target
        return found


class CoverageCases:
    """The cases of the coverages; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[Covered]:
        small, large = (
            Shifted(topics, exchanged=0.15, longer=1.15)
            for topics in (Topics(size=5.0), Topics(size=12.0, least=8))
        )
        targets = small.targets()
        yield Covered("intervals, 300 + 300 documents", small, targets, 300, (False, False))
        yield Covered("intervals, 60 + 60 groups", small, targets, 60, (True, True))
        # The groups of the large ones have more documents, of the same law.
        for units, shifted in ((26, large), (60, small), (100, small), (300, small)):
            name = f"intervals, {units} groups, documents"
            yield Covered(name, shifted, targets, units, (True, False))
