"""How often the tests find the minimum detectable effect, beside the power that is printed with it.

Several references are drawn from a population, and the effects of each are looked up with the power
that they are said to reach. Then pairs are drawn from the population itself: human documents or
groups, and documents that are shifted, as `tendencies.shifts` says, by the effect of one of the
references in turn: word by word, or in what is counted of them (`order_shifts`). The rate of what
is found is held against the mean of what is printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pkgutil import resolve_name

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq

from benchmarks.levels import LEVEL, SEED, TESTS, Population, opened
from benchmarks.order_shifts import RISES, Larger
from benchmarks.populations import Articles, Drawn, Topics, count
from beyond_perplexity.inference.held_out import held_out_distance
from beyond_perplexity.inference.p_values import permutation_p
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.definitions import (
    LENGTH,
    OF_FAMILIES,
    SHARED_NGRAMS,
    SHARES,
    SIGNED,
    TENDENCIES,
)
from beyond_perplexity.tendencies.document_curves import randomized_curves
from beyond_perplexity.tendencies.document_measures import randomized_numbers, randomized_types
from beyond_perplexity.tendencies.document_shifts import RankShift
from beyond_perplexity.tendencies.document_statistics import ABSENT, chosen_size
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.measures import without_verdict
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.sensitivity import Population as Text
from beyond_perplexity.tendencies.sensitivity import (
    count_documents_by_type,
    minimum_detectable_effects,
)
from beyond_perplexity.tendencies.shared_ngrams import beginnings, shared_by_document
from beyond_perplexity.tendencies.shifts import Shift
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from beyond_perplexity.tendencies.word_measures import randomized_words

POWER = 0.8
REFERENCES, PAIRS = 10, 400
_POOL = 4_000  # documents that stand for a population
RANDOMIZED = {
    "ranks": randomized_words,
    "words": randomized_words,
    "types": randomized_types,
    "curve": randomized_curves,
    "pairs": randomized_curves,
    "slope": randomized_curves,
}
Key = tuple[str, str]
Printed = tuple[float, float]  # the shift, and the power that it reaches


class OfLongText(Text):
    """The tendencies of a text for which it matters how long its documents are: types and order."""

    def shifts(self, options: MeasurementOptions, seed: int) -> Iterator[Shift]:
        """List their shifts alone."""
        for shift in super().shifts(options, seed):
            if shift.tendency in (*OF_FAMILIES, *HISTOGRAM_OF):
                yield shift


@dataclass(frozen=True)
class References:
    """References of one population: so many groups of it, or documents, for samples of n."""

    population: Population
    units: int
    n: int
    grouped: bool
    many: int = REFERENCES
    pairs: int = PAIRS
    kind: type[Text] = Text  # whose shifts are looked at

    @cached_property
    def drawn(self) -> list[Drawn]:
        """The references."""
        draw = self.population.groups if self.grouped else self.population.documents
        rngs = (stream(SEED, f"powers/{self.n}/{self.grouped}", r) for r in range(self.many))
        return [draw(rng, self.units) for rng in rngs]

    @cached_property
    def effects(self) -> list[dict[Key, Printed]]:
        """The effect and its power by tendency and measure, of each reference."""
        return [self._effects(number) for number in range(self.many)]

    @property
    def _how(self) -> SensitivityOptions:
        return SensitivityOptions((self.n,), level=LEVEL, power=POWER, pairs=self.pairs)

    def _table(self, number: int) -> pa.Table:
        drawn = self.drawn[number]
        return minimum_detectable_effects(
            count(drawn, self.population.classes),
            [drawn.texts],
            MeasurementOptions(),
            self._how,
            SEED,
            "reference",
            self.population.classes,
            groups=drawn.groups if self.grouped else None,
            kind=self.kind,
        )

    def _effects(self, number: int) -> dict[Key, Printed]:
        drawn, table = self.drawn[number], self._table(number)
        types = count(drawn, self.population.classes).types
        ranks = RankShift(count_documents_by_type([drawn.texts], types), TESTS.zipf_ranks)
        found = {}
        for row in table.to_pylist():
            if row["minimum_detectable_effect"] is not None:
                x, power = row["relative"], row["power_reached"]
                if row["tendency"] in OF_FAMILIES:  # in its own unit
                    x = row["minimum_detectable_effect"]
                if row["tendency"] in SHARES:  # a share s grows by x (1 - s)
                    change = row["minimum_detectable_effect"]
                    x = change / (1 - change / x)
                if row["tendency"] == "rank_frequency":  # Zipf's s grows by less than s x
                    x = brentq(lambda y, r=x: ranks.size("", y)[1] - r, 0, 1)
                if row["tendency"] == SHARED_NGRAMS:
                    x = self._rarer(number, x)
                found[row["tendency"], row["measure"]] = x, power
        return found

    def _rarer(self, number: int, wanted: float) -> float:
        """Return how much rarer rare words become where documents share so much more."""
        how, plain = Shifted.of(self.drawn[number]), self.pool(stream(SEED, "pool", number), _POOL)
        before = mean_shared(plain)

        def more(x: float) -> float:
            moved = how.rarer(plain, x, stream(SEED, "powers/rarer", number))
            return float(np.max(mean_shared(moved) - before)) - wanted

        return float(brentq(more, 0, 1, xtol=1e-4))

    @property
    def keys(self) -> list[Key]:
        """What all references have an effect of."""
        return [key for key in self.effects[0] if all(key in own for own in self.effects)]

    def pool(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw so many documents, which stand for the population."""
        return self.population.documents(rng, n)

    def human(self, rng: np.random.Generator) -> Drawn:
        """Draw the human side: documents, or as many groups as have that many documents."""
        if not self.grouped:
            return self.population.documents(rng, self.n)
        sizes = [len(drawn) for drawn in self.drawn]
        return self.population.groups(rng, round(self.n * self.units / float(np.mean(sizes))))


@dataclass(frozen=True)
class Shifted:
    """Shifts of documents of the types of a population (V,), of which `counts` were seen."""

    types: pa.Array
    counts: np.ndarray

    @classmethod
    def of(cls, drawn: Drawn) -> Shifted:
        """Take those of a reference."""
        return cls(drawn.types, np.bincount(drawn.ids, minlength=len(drawn.types)))

    @cached_property
    def swap(self) -> np.ndarray:
        """The type that each type becomes where words are permuted, as `HeldOutShift` has it."""
        names = self.types.to_pylist()
        seen = sorted((-k, names[v], v) for v, k in enumerate(self.counts) if k)
        order = np.array([v for *_, v in seen])  # by frequency, then by name
        moved = np.arange(len(names))
        moved[order[stream(SEED, "sensitivity/exchange").permutation(len(order))]] = order
        return moved

    def longer(self, plain: Drawn, x: float, rng: np.random.Generator) -> Drawn:
        """Continue every document with its own words to 1 + x times its length."""
        lengths = np.diff(plain.offsets)
        longer = (lengths * (1 + x) + rng.random(len(lengths))).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(longer)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], longer)
        places = np.repeat(plain.offsets[:-1], longer) + within % np.repeat(lengths, longer)
        return replace(plain, ids=plain.ids[places], offsets=offsets)

    def swapped(self, plain: Drawn, x: float, rng: np.random.Generator) -> Drawn:
        """Swap the words of a share x of the documents."""
        tokens = np.repeat(rng.random(len(plain)) < x, np.diff(plain.offsets))
        return replace(plain, ids=np.where(tokens, self.swap[plain.ids], plain.ids))

    def rarer(self, plain: Drawn, x: float, rng: np.random.Generator) -> Drawn:
        """Make rare words rarer: p becomes p^(1 + x), up to a factor."""
        kept = (np.maximum(self.counts, 0.5) / self.counts.max()) ** x
        law = self.counts * kept
        others = rng.choice(len(law), len(plain.ids), p=law / law.sum())
        stays = rng.random(len(plain.ids)) < kept[plain.ids]
        return replace(plain, ids=np.where(stays, plain.ids, others).astype(np.int32))

    def fewer(self, plain: Drawn, x: float, rng: np.random.Generator) -> Drawn:
        """Replace a share x of the types of every document by others of it."""
        parts = []
        for own in np.split(plain.ids, plain.offsets[1:-1]):
            types, indices = np.unique(own, return_inverse=True)
            lost = min(int(x * len(types) + rng.random()), len(types) - 1)
            order = rng.permutation(len(types))
            types[order[:lost]] = types[rng.choice(order[lost:], lost)]
            parts.append(types[indices])
        return replace(plain, ids=np.concatenate(parts))

    def fewer_bigrams(self, plain: Drawn, x: float, rng: np.random.Generator) -> Drawn:
        """End every document as it began, until it has so few types of bigrams, by a share x."""
        parts = []
        for own in np.split(plain.ids.astype(np.int64), plain.offsets[1:-1]):

            def bigrams(ids: np.ndarray) -> int:
                return len(np.unique(ids[:-1] * len(self.types) + ids[1:]))

            n, repeated, moved = bigrams(own), 0, own
            wanted = n - int(x * n + rng.random())
            while bigrams(moved) > wanted and repeated < len(own) - 1:
                repeated += 1
                moved = np.concatenate([own[:-repeated], own[:repeated]])
            parts.append(moved)
        return replace(plain, ids=np.concatenate(parts).astype(np.int32))

    def of_class(self, plain: Drawn, x: float, rng: np.random.Generator, mask: np.ndarray) -> Drawn:
        """Turn tokens that are not of a class (V,) into one of it."""
        turned = ~mask[plain.ids] & (rng.random(len(plain.ids)) < x)
        return replace(plain, ids=np.where(turned, np.argmax(mask), plain.ids).astype(np.int32))


def mean_shared(drawn: Drawn) -> np.ndarray:
    """Compute the share of the n-grams of each length that two documents have in common: (K,)."""
    row = TENDENCIES[SHARED_NGRAMS]
    size = chosen_size(row.sizes, np.diff(drawn.offsets))
    words = beginnings(TokenBatch(drawn.types, drawn.ids, drawn.offsets), size)
    words = words[words[:, 0] != ABSENT]
    return shared_by_document(words, np.arange(len(words)), len(row.places)).mean(axis=0)


class Promised:
    """What several references promise to find, a shift and its power each; each is used in turn."""

    printed: Sequence[Printed] | np.ndarray

    @property
    def nominal(self) -> str:
        """The mean power that is printed."""
        return f"{np.mean([power for _, power in self.printed]):.3f}"

    @property
    def limits(self) -> tuple[float, float]:
        """Within .05 of it."""
        return float(self.nominal) - 0.05, float(self.nominal) + 0.05

    def shift(self, repeat: int) -> float:
        """Return the shift of the reference whose turn it is."""
        return float(self.printed[repeat % len(self.printed)][0])


@dataclass(frozen=True)
class PrintedPower(Promised):
    """Pairs with the minimum detectable effect of a test, called with the number of the repeat."""

    name: str
    references: References = field(repr=False)
    key: Key

    @cached_property
    def printed(self) -> list[Printed]:  # type: ignore[override]
        """The shift and its power, of each reference."""
        return [own[self.key] for own in self.references.effects]

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw a pair and test it: whether the shift is found."""
        held, number = self.references, repeat % self.references.many
        rng = stream(SEED, f"calibration/{self.name}/{self.key}", repeat)
        human, classes = held.human(rng), held.population.classes
        plain = held.population.documents(rng, len(human))
        seed = stream_key(SEED, f"calibration/{self.name}/{self.key}/{repeat}")
        if self.key[0] in RISES:
            groups = human.groups if held.grouped else None, None
            pairs = self.larger[number].opened(human, plain, classes, groups, rng)
        else:
            how = Shifted.of(held.drawn[number])
            model = self.shifted(how, plain, self.printed[number][0], rng)
            pairs = opened(human, model, classes, (held.grouped, False))
        with pairs as pair:
            return {" ".join(self.key): p_value_of(pair, self.key, seed) <= LEVEL}

    @cached_property
    def larger(self) -> list[Larger]:
        """The shifts of a number, a curve or the slope, of each reference."""
        both = zip(self.references.drawn, self.printed, strict=True)
        classes = self.references.population.classes
        return [Larger.of(count(own, classes), self.key[0], x) for own, (x, _) in both]

    def shifted(self, how: Shifted, plain: Drawn, x: float, rng: np.random.Generator) -> Drawn:
        """Shift documents word by word."""
        tendency = self.key[0]
        if tendency in SHARES:
            classes = self.references.population.classes
            mask = resolve_name(SHARES[tendency].word_class)(classes)(plain.types)
            return how.of_class(plain, x, rng, mask)
        shifts = {LENGTH: how.longer, "unigram": how.swapped, "rank_frequency": how.rarer}
        shifts[SHARED_NGRAMS] = how.rarer
        shifts["type_token_bigrams"] = how.fewer_bigrams
        return shifts.get(tendency, how.fewer)(plain, x, rng)


def p_value_of(pair: SampleSetPair, key: Key, seed: int) -> float:
    """Test one measure as `measures.tested_rows` does, without the others; 1 for no verdict."""
    if without_verdict(pair, key[0]):
        return 1.0
    how, kind = Measuring.of(pair, TESTS, seed), TENDENCIES[key[0]].kind
    how = how.for_words if kind in ("words", "ranks", "types") else how
    if key[1] == "tvd":
        assert pair.documents is not None
        p_value = held_out_distance(pair.documents, pair.groups, seed).p_value
    else:
        drawn = RANDOMIZED.get(kind, randomized_numbers)(how)[key]
        p_value = permutation_p(float(drawn[-1]), drawn[:-1], two_sided=key[1] == SIGNED)
    return 1.0 if math.isnan(p_value) else p_value


class PowerCases:
    """The cases of the power."""

    def __init__(self, articles: Articles | None) -> None:
        self._articles = articles

    def __iter__(self) -> Iterator[PrintedPower]:
        populations: dict[str, Population] = {"": Topics(size=8.0)}
        if self._articles:
            populations["real, "] = self._articles
        # Symbols are a share, as stop words are. A text that is drawn with replacement has the same
        # document in both samples at most lengths, of which a loss of types is seen at once.
        left = {"symbols": populations, **dict.fromkeys(HISTOGRAM_OF, ("real, ",))}
        left[SHARED_NGRAMS] = ("real, ",)  # drawn with replacement: the same phrases
        # As long as tendencies of order need documents; more references in less time.
        populations["long, "] = Topics(n_types=4_000, size=5.0, mean=150.0)
        for name, population in populations.items():
            for units, n, grouped in ((600, 200, False), (150, 600, True)):
                how = REFERENCES, PAIRS, Text
                if name == "long, ":
                    how = 10 if grouped else 20, 100, OfLongText
                held = References(population, units, n, grouped, *how)
                unit = "groups, documents" if grouped else "documents"
                for key in held.keys:
                    if name not in left.get(key[0], ()):
                        yield PrintedPower(f"{name}power, {n} {unit}", held, key)
