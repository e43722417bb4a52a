"""Answers to prompts: levels where prompts differ much, what a star is attributed to, and power.

A prompt has a topic, a share of topical words and a factor of its answers' lengths: those of a
group of `populations.Topics`, of which people and the model draw documents independently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.levels import LEVEL, SEED, TESTS, rejected
from benchmarks.populations import Articles, Drawn, Topics, count
from beyond_perplexity.inference.permuted_units import Groups
from beyond_perplexity.inference.prompts import Prompts, answers_of
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.definitions import OF_FAMILIES, MeasureRow
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.text_comparison import with_cut
from beyond_perplexity.tendencies.tokens import WHOLE_TEXT
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF

WORDS = ("rank_frequency", "unigram", *HISTOGRAM_OF)
Change = Callable[[np.random.Generator, Drawn], Drawn]


def beginnings(drawn: Drawn, lengths: np.ndarray) -> Drawn:
    """Keep so many tokens, (D,), of documents."""
    held = np.diff(drawn.offsets)
    kept = np.arange(drawn.offsets[-1]) - np.repeat(drawn.offsets[:-1], held)
    ids = drawn.ids[kept < np.repeat(lengths, held)]
    return replace(drawn, ids=ids, offsets=np.concatenate([[0], np.cumsum(lengths)]))


def shorter(share: float) -> Change:
    """Stop documents earlier: each keeps so large a share of its tokens, and its law."""

    def change(rng: np.random.Generator, drawn: Drawn) -> Drawn:
        del rng
        return beginnings(
            drawn, np.maximum(1, np.round(share * np.diff(drawn.offsets))).astype(int)
        )

    return change


def sentences(change: Change | None = None) -> Change:
    """End a sentence with the same word, after 3 to 12 others, and documents with a sentence."""

    def made(rng: np.random.Generator, drawn: Drawn) -> Drawn:
        drawn = drawn if change is None else change(rng, drawn)
        ids = drawn.ids.copy()
        places = np.cumsum(rng.integers(4, 14, size=len(ids)))
        ids[places[places < len(ids)]] = 3
        ids[drawn.offsets[1:] - 1] = 3
        return replace(drawn, ids=ids)

    return made


def other_words(share: float, before: Change) -> Change:
    """Put a frequent word in the place of so large a share of the tokens, after another change."""

    def change(rng: np.random.Generator, drawn: Drawn) -> Drawn:
        drawn = before(rng, drawn)
        ids = np.where(rng.random(len(drawn.ids)) < share, 1, drawn.ids)
        return replace(drawn, ids=ids.astype(np.int32))

    return change


@dataclass(frozen=True)
class Answered:
    """Answers of people and of a model, called with the number of the repeat.

    `answers`: of people and of the model to each of so many `prompts`; so many in a row are of
    one of the `authors` of either side, whose answers are alike, and `named` says whether these
    are groups. Whether answers are `cut` to equal lengths; all are `longer` by a factor. `human`
    and `model` change what either has drawn. `unpaired`: the same texts are compared as if they
    were independent. Rates are of the tests of `of`, and of any star in either family of them.
    """

    name: str
    population: Topics = field(repr=False)
    prompts: int
    answers: tuple[int, int] = (1, 1)
    human: Change | None = field(default=None, repr=False)
    model: Change | None = field(default=None, repr=False)
    of: tuple[str, ...] = ()
    unpaired: bool = False
    authors: int = 1
    named: bool = True
    cut: bool = True
    longer: float = 1.0
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.075)
    any_limits: tuple[float, float] = (0.0, 0.06)

    def drawn(self, rng: np.random.Generator) -> tuple[Drawn, Drawn]:
        """Draw answers to each prompt, first those of people."""
        n = sum(self.answers)
        prompts = np.repeat(np.arange(self.prompts), n)
        every = self.population._write(rng, prompts, self.longer)
        human = np.arange(len(prompts)) % n < self.answers[0]
        sides = [every.take(np.flatnonzero(own), prompts[own]) for own in (human, ~human)]
        if self.authors > 1:
            sides = [self._by_authors(rng, side) for side in sides]
        changed = [
            side if change is None else change(rng, side)
            for side, change in zip(sides, (self.human, self.model), strict=True)
        ]
        return changed[0], changed[1]

    def _by_authors(self, rng: np.random.Generator, drawn: Drawn) -> Drawn:
        """Put a word of the author in the place of a tenth of the tokens."""
        authors = drawn.groups // self.authors
        words = rng.integers(5, 400, size=int(authors.max()) + 1)[authors]
        own = np.repeat(words, np.diff(drawn.offsets))
        ids = np.where(rng.random(len(own)) < 0.1, own, drawn.ids)
        return replace(drawn, ids=ids.astype(np.int32))

    def answers_of(self, sides: tuple[Drawn, Drawn], seed: int) -> tuple[Drawn, Drawn, Prompts]:
        """Keep as many answers of either side to each prompt."""
        codes = sides[0].groups.astype(int), sides[1].groups.astype(int)
        above: Groups = (None, None)
        if self.authors > 1 and self.named:
            above = codes[0] // self.authors, codes[1] // self.authors
        kept, prompts, _ = answers_of(codes, above, seed)
        human, model = (
            side.take(np.flatnonzero(own), side.groups[own])
            for side, own in zip(sides, kept, strict=True)
        )
        return human, model, prompts

    def rows(self, repeat: int) -> list[MeasureRow]:
        """Draw both sides and test them."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        seed = stream_key(SEED, f"calibration/{self.name}/{repeat}")
        human, model, prompts = self.answers_of(self.drawn(rng), seed)
        classes = self.population.classes
        sample_sets, texts = (count(human, classes), count(model, classes)), (human, model)

        def both() -> tuple[Iterator, Iterator]:
            return iter([texts[0].texts]), iter([texts[1].texts])

        groups: Groups = (None, None) if self.unpaired else prompts
        with paired(*sample_sets, both(), groups=groups, classes=classes) as pair:
            if not self.cut:
                return measure_rows(pair, TESTS, seed)
            with with_cut(pair, both, prompts.pairs, WHOLE_TEXT, classes) as cut:
                return measure_rows(cut.of_words if self.unpaired else cut, TESTS, seed)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Say which measures reject."""
        tested = [
            row
            for row in self.rows(repeat)
            if not math.isnan(row.p_value) and (not self.of or row.tendency in self.of)
        ]
        return rejected(tested)


class PromptCases:
    """The cases; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[Answered]:
        topics, anything = Topics(n_topics=40, own=60), (0.0, 1.0)
        yield Answered("prompts, 100 pairs", topics, 100)
        yield Answered("prompts, 40 with 3 and 3 answers", topics, 40, (3, 3))
        yield Answered("prompts, 100 with 3 and 1 answers", topics, 100, (3, 1))
        yield Answered("prompts, 120 pairs of 40 authors", topics, 120, authors=3)
        name = "prompts, 120 pairs, authors not named"
        everyone = Answered(name, topics, 120, authors=3, named=False)
        yield replace(everyone, limits=anything, any_limits=anything)
        # Long enough for burstiness, compression and recurrence to be told.
        yield Answered("prompts, 80 long pairs", topics, 80, longer=8)
        yield Answered("prompts, 40 with 2 and 2 long answers", topics, 40, (2, 2), longer=8)
        yield Answered("prompts, 90 long pairs of 30 authors", topics, 90, authors=3, longer=8)
        # Fewer of them are long enough for a number.
        name = "prompts, 40 with 4 and 4 long answers, 40% shorter"
        order = tuple(OF_FAMILIES)
        yield Answered(name, topics, 40, (4, 4), model=shorter(0.6), of=order, longer=8)
        yield Answered(
            "prompts, 100 pairs of sentences", topics, 100, human=sentences(), model=sentences()
        )
        for share in (0.9, 0.8, 0.6):
            name = f"prompts, model {1 - share:.0%} shorter"
            yield Answered(name, topics, 100, model=shorter(share), of=WORDS)
            yield Answered(
                f"{name}, sentences",
                topics,
                100,
                human=sentences(),
                model=sentences(shorter(share)),
                of=WORDS,
            )
        stopped = shorter(0.8)
        name = "prompts, model 20% shorter, whole answers"
        whole = Answered(name, topics, 100, model=stopped, of=WORDS, cut=False)
        yield replace(whole, limits=anything, any_limits=anything)
        name = "prompts, 3 and 3, model 20% shorter"
        yield Answered(name, topics, 40, (3, 3), model=stopped, of=WORDS)
        for n_topics in (1, 40):
            population = Topics(n_topics=n_topics, own=15)
            for how, unpaired, cut in (
                ("within prompts", False, True),
                ("as independent documents", True, False),
                ("as independent cut documents", True, True),
            ):
                yield Answered(
                    f"power, {n_topics} topics, {how}",
                    population,
                    100,
                    model=other_words(0.03, shorter(0.85)),
                    unpaired=unpaired,
                    cut=cut,
                    nominal="0",
                    limits=anything,
                    any_limits=anything,
                )
