"""What a star is attributed to: texts that are alike in what is tested, and differ in another way.

Every case draws two texts of which a named property is the same; the rate is that of p <= 5% of the
measures of this property, and of any star on one of them after the adjustment for many tests, of
each family of tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.levels import LEVEL, SEED, TESTS, opened, rejected
from benchmarks.populations import Articles, Drawn, Topics
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.definitions import LENGTH, OF_FAMILIES, SHARES, SIGNED
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from beyond_perplexity.tendencies.word_classes import ClassOptions

Draw = Callable[[np.random.Generator], Drawn]
WORDS = ("rank_frequency", "unigram", *HISTOGRAM_OF)


@dataclass(frozen=True)
class AlikeIn:
    """Two texts that are alike in some measures, called with the number of the repeat."""

    name: str
    human: Draw = field(repr=False)
    model: Draw = field(repr=False)
    grouped: tuple[bool, bool]
    of: Callable[[str, str], bool] = field(repr=False)  # tendency and measure that are alike
    classes: ClassOptions = field(repr=False)
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.075)
    any_limits: tuple[float, float] = (0.0, 0.06)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both sides and test them: which measures reject."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        human, model = self.human(rng), self.model(rng)
        seed = stream_key(SEED, f"calibration/{self.name}/{repeat}")
        with opened(human, model, self.classes, self.grouped) as pair:
            rows = measure_rows(pair, TESTS, seed)
        return rejected([x for x in rows if not math.isnan(x.p_value) and self.of(*x.key)])


def _not_lengths(tendency: str, measure: str) -> bool:
    """Tell what is the same in shorter documents: not the spread of shares, which is larger."""
    cut_to_one_length = tendency in WORDS or tendency in OF_FAMILIES
    return cut_to_one_length or (tendency in SHARES and measure == SIGNED)


def _all(tendency: str, measure: str) -> bool:
    return True


def _means(tendency: str, measure: str) -> bool:
    return tendency == LENGTH and measure == SIGNED


def _spread(population: Topics, n: int, spread: float) -> Draw:
    """Draw documents whose lengths have one mean and a standard deviation of so many times 6."""

    def draw(rng: np.random.Generator) -> Drawn:
        plain = population.documents(rng, n, 3.0)
        lengths = np.clip(np.round(25 + 6 * spread * rng.standard_normal(n)), 1, 49).astype(int)
        while (short := np.diff(plain.offsets) < lengths).any():
            more = population.documents(rng, int(short.sum()), 3.0)
            plain = _put(plain, np.flatnonzero(short), more)
        held = np.diff(plain.offsets)
        keep = np.arange(plain.offsets[-1]) - np.repeat(plain.offsets[:-1], held)
        ids = plain.ids[keep < np.repeat(lengths, held)]
        return replace(plain, ids=ids, offsets=np.concatenate([[0], np.cumsum(lengths)]))

    return draw


def _put(plain: Drawn, documents: np.ndarray, more: Drawn) -> Drawn:
    parts = np.split(plain.ids, plain.offsets[1:-1])
    for document, part in zip(documents, np.split(more.ids, more.offsets[1:-1]), strict=True):
        parts[document] = part
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return replace(plain, ids=np.concatenate(parts), offsets=offsets)


@dataclass(frozen=True)
class Drawing:
    """Draw n groups or documents of a population, whose lengths differ by a factor."""

    population: Topics
    n: int
    grouped: bool
    factor: float = 1.0

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """Draw them."""
        own = self.population
        return (own.groups if self.grouped else own.documents)(rng, self.n, self.factor)


@dataclass(frozen=True)
class Fixed:
    """Draw n groups of as many documents each."""

    population: Topics
    n: int
    size: int

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """Draw them."""
        return self.population._write(rng, np.repeat(np.arange(self.n), self.size), 1.0)


@dataclass(frozen=True)
class Correlated:
    """Draw groups of few long or of many short documents, or as many documents of the same law."""

    population: Topics
    n: int
    grouped: bool

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """Draw them: documents are those of groups that are drawn by their size."""
        if self.grouped:
            short = rng.random(self.n) < 0.5
            sizes = np.where(short, 12, 3) + rng.integers(3, size=self.n)
        else:
            short = rng.random(self.n) < 13 / 17
            sizes = np.ones(self.n, np.int64)
        groups = np.repeat(np.arange(self.n), sizes)
        return self.population._write(rng, groups, np.where(short, 0.7, 1.5))


KINDS = {
    "documents": ((False, False), 300, 300),
    "groups": ((True, True), 60, 60),
    "groups, documents": ((True, False), 60, 300),
    "documents, groups": ((False, True), 200, 60),
}


class AttributionCases:
    """The cases; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[AlikeIn]:
        small, long = Topics(size=5.0), Topics(n_types=4_000, size=5.0, mean=150.0)
        shorter = [("", small, share, name) for share in (0.1, 0.2, 0.4) for name in KINDS]
        shorter += [("long documents, ", long, 0.4, name) for name in KINDS]
        for kind, population, share, name in shorter:
            grouped, n, m = KINDS[name]
            human, model = (
                Drawing(population, size, own, factor)
                for size, own, factor in zip((n, m), grouped, (1, 1 - share), strict=True)
            )
            case = f"{kind}{share:.0%} shorter, {name}"
            yield AlikeIn(case, human, model, grouped, _not_lengths, population.classes)
        large = Topics(size=20.0)
        for other in (20, 16, 11):
            kinds: dict[str, tuple[Draw, Draw]] = {
                "fixed": (Fixed(small, 60, 20), Fixed(small, 60, other)),
                "on average": (
                    Drawing(large, 60, True),
                    Drawing(Topics(size=float(other)), 60, True),
                ),
            }
            for kind, sides in kinds.items():
                case = f"groups of 20 and {other}, {kind}"
                yield AlikeIn(case, *sides, (True, True), _all, small.classes)
        for grouped in ((True, False), (True, True)):
            case = f"sizes correlated with lengths, {'groups, ' * sum(grouped)}"
            sides = (
                Correlated(small, 60, grouped[0]),
                Correlated(small, 60 if grouped[1] else 400, grouped[1]),
            )
            yield AlikeIn(case, *sides, grouped, _all, small.classes)
        for n, m in ((400, 400), (400, 100), (100, 400)):
            sides = _spread(small, n, 1.0), _spread(small, m, 2.0)
            case = f"spreads 1 : 2, {n} + {m}"
            yield AlikeIn(case, *sides, (False, False), _means, small.classes)
