"""Words and phrases that are named: how often where nothing differs, and planted ones.

The texts are those of `levels` and `attributions`; planted is a word that no text has, in the place
of a random token of some documents. Its power is computed beforehand: k such documents make t about
sqrt(k), k is binomial, and the least t that is named is the 95% quantile of the largest one of
texts without a planted word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import binom

from benchmarks.attributions import KINDS, Draw, Drawing
from benchmarks.levels import LEVEL, SEED, TESTS, Population, opened
from benchmarks.populations import Articles, Drawn, Topics
from beyond_perplexity.inference.log_odds import log_odds
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.pairs import Measuring
from beyond_perplexity.tendencies.tokens import tokenize_batch
from beyond_perplexity.tendencies.word_classes import ClassOptions
from beyond_perplexity.tendencies.words_and_phrases import compare_words
from beyond_perplexity.verdicts import DIFFERS

PLANTED = "planted"


def words_of(
    sides: tuple[Drawn, Drawn],
    classes: ClassOptions,
    grouped: tuple[bool, bool],
    seed: int,
    permutations: int = TESTS.permutations,
) -> pd.DataFrame:
    """Compare the words and phrases of two texts, the human one first."""
    human, model = sides
    with opened(human, model, classes, grouped) as pair:
        texts = (lambda: [human.texts]), (lambda: [model.texts])
        how = Measuring.of(pair, replace(TESTS, permutations=permutations), seed)
        return compare_words(how, texts, tokenize_batch, "").to_pandas()


@dataclass(frozen=True)
class AlikeWords:
    """Two texts of one law of words, called with the number of the repeat."""

    name: str
    human: Draw = field(repr=False)
    model: Draw = field(repr=False)
    grouped: tuple[bool, bool]
    classes: ClassOptions = field(repr=False)
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.06)

    def table(self, repeat: int) -> pd.DataFrame:
        """Draw both sides and compare them."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        seed = stream_key(SEED, f"calibration/{self.name}/{repeat}")
        return words_of((self.human(rng), self.model(rng)), self.classes, self.grouped, seed)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Say whether any word is named; nothing where there is no verdict."""
        found = self.table(repeat)
        if found["p_adjusted"].isna().all():
            return {}
        return {
            "any word named": bool((found["p_adjusted"] < LEVEL).any()),
            "any q below the level": bool((found["q_value"] < LEVEL).any()),
        }


@dataclass(frozen=True)
class Halves:
    """Two halves of a human text without replacement, of n documents or groups each."""

    name: str
    articles: Articles = field(repr=False)
    n: int
    grouped: bool
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.06)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Cut the text and compare the halves."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        whole = self.articles.everything
        units = whole.groups if self.grouped else np.arange(len(whole))
        order = rng.permutation(units.max() + 1)
        sides = []
        for own in (order[: self.n], order[self.n : 2 * self.n]):
            chosen = np.flatnonzero(np.isin(units, own))
            sides.append(whole.take(chosen, np.unique(units[chosen], return_inverse=True)[1]))
        both = (self.grouped, self.grouped)
        found = words_of((sides[0], sides[1]), self.articles.classes, both, repeat)
        if found["p_adjusted"].isna().all():
            return {}
        return {"any word named": bool((found["verdict"] == DIFFERS).any())}


def plant(drawn: Drawn, share: float | np.ndarray, rng: np.random.Generator) -> Drawn:
    """Put a new word in the place of a random token of a share of the documents."""
    lengths = np.diff(drawn.offsets)
    chosen = np.flatnonzero((rng.random(len(drawn)) < share) & (lengths > 0))
    ids = drawn.ids.copy()
    ids[drawn.offsets[chosen] + (rng.random(len(chosen)) * lengths[chosen]).astype(int)] = len(
        drawn.types
    )
    return replace(drawn, types=pa.concat_arrays([drawn.types, pa.array([PLANTED])]), ids=ids)


@dataclass(frozen=True)
class Planted:
    """A planted word in a share of n documents: whether it is named, and whether others are."""

    name: str
    population: Population = field(repr=False)
    n: int
    share: float
    beforehand: int = 200  # repeats that the least t is taken from

    def _table(self, purpose: str, repeat: int, share: float) -> pd.DataFrame:
        rng = stream(SEED, f"calibration/{self.name}/{purpose}", repeat)
        sides = (self.population.documents(rng, self.n) for _ in range(2))
        human, model = next(sides), plant(next(sides), share, rng)
        human = replace(human, types=model.types)
        return words_of((human, model), self.population.classes, (False, False), repeat)

    @cached_property
    def nominal(self) -> str:
        """The power that is computed beforehand."""
        tables = (self._table("beforehand", repeat, 0.0) for repeat in range(self.beforehand))
        least = float(np.quantile([table["t"].abs().max() for table in tables], 1 - LEVEL))
        return f"{binom.sf(math.floor(least**2), self.n, self.share):.3f}"

    @property
    def limits(self) -> tuple[float, float]:
        """Within .05 of it."""
        return float(self.nominal) - 0.05, float(self.nominal) + 0.05

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Say whether the planted word is named."""
        found = self._table("planted", repeat, self.share)
        named = set(found["ngram"][found["verdict"] == DIFFERS])
        return {"planted word named": PLANTED in named}


@dataclass(frozen=True)
class BesidePlanted(Planted):
    """The same: whether a word or phrase is named that is neither planted nor around it."""

    nominal = f"{LEVEL:g}"
    limits = (0.0, 0.06)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Say whether anything without the planted word is named."""
        found = self._table("planted", repeat, self.share)
        named = found["ngram"][found["verdict"] == DIFFERS]
        return {"others named": any(PLANTED not in name.split() for name in named)}


@dataclass(frozen=True)
class WordIntervals:
    """Intervals of log odds: of a planted word of known shares, and of words that are alike.

    Groups plant it in a share of their documents that varies around these.
    """

    name: str
    population: Topics = field(repr=False)
    units: int
    grouped: bool
    shares: tuple[float, float]
    nominal: str = "0.95"
    limits: tuple[float, float] = (0.93, 1.0)

    def _side(self, rng: np.random.Generator, share: float) -> Drawn:
        if not self.grouped:
            return plant(self.population.documents(rng, self.units), share, rng)
        drawn = self.population.groups(rng, self.units)
        own = rng.beta(4 * share, 4 * (1 - share), self.units)
        return plant(drawn, own[drawn.groups], rng)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Say whether the intervals hold what is true."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        sides = [self._side(rng, share) for share in self.shares]
        both = (self.grouped, self.grouped)
        texts = sides[0], sides[1]
        found = words_of(texts, self.population.classes, both, repeat, permutations=0)
        words = found[found["words"] == 1]
        documents, tokens = (np.array([f(own) for own in sides]) for f in (len, _tokens))
        counts = (documents * self.shares)[:, None]
        truth = {PLANTED: log_odds(counts, tokens[:, None]).value[0]}
        both_texts = words["count"] + words["count_reference"]  # a choice that knows no side
        ordered = words.assign(all=both_texts).sort_values("all", kind="stable")["ngram"].to_list()
        plain = [name for name in ordered if name != PLANTED]
        chosen = {
            "planted": PLANTED,
            "frequent": plain[-1 - repeat % 10],
            "rare": plain[repeat % 50],
        }
        held = words.set_index("ngram")
        return {
            f"interval, {kind}": bool(
                held.loc[name, "low"] <= truth.get(name, 0.0) <= held.loc[name, "high"]
            )
            for kind, name in chosen.items()
            if name in held.index
        }


def _tokens(drawn: Drawn) -> int:
    return int(drawn.offsets[-1])


class WordCases:
    """The cases; with a real text also its halves."""

    def __init__(self, articles: Articles | None) -> None:
        self._articles = articles

    def __iter__(self) -> Iterator[AlikeWords | Halves | Planted | WordIntervals]:
        small = Topics(size=5.0)
        for shorter in (0.0, 0.2):
            for name, (grouped, n, m) in KINDS.items():
                human, model = (
                    Drawing(small, size, own, factor)
                    for size, own, factor in zip((n, m), grouped, (1, 1 - shorter), strict=True)
                )
                case = f"words, {shorter:.0%} shorter, {name}"
                yield AlikeWords(case, human, model, grouped, small.classes)
        for n, m in ((1_000, 100), (100, 1_000)):
            sides = Drawing(small, n, False), Drawing(small, m, False)
            yield AlikeWords(f"words, {n} + {m}", *sides, (False, False), small.classes)
        for share in (0.08, 0.12):
            yield Planted(f"planted in {share:.0%} of 200", small, 200, share)
            yield BesidePlanted(f"beside planted in {share:.0%} of 200", small, 200, share)
        for units, whole in ((200, False), (60, True)):
            for shares in ((0.1, 0.3), (0.02, 0.2)):
                unit = "groups" if whole else "documents"
                name = f"planted in {shares[0]:.0%} and {shares[1]:.0%} of {units} {unit}"
                yield WordIntervals(name, small, units, whole, shares)
        if self._articles:
            half = len(self._articles.everything) // 2
            for n, whole in ((min(400, half), False), (25, True)):
                unit = "articles" if whole else "documents"
                yield Halves(f"real, halves of {n} {unit}", self._articles, n, whole)
