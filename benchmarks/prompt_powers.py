"""How often tests of answers to prompts find the minimum detectable effect: as `powers` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from benchmarks.levels import LEVEL, SEED
from benchmarks.order_shifts import RISES, Larger
from benchmarks.populations import Articles, Drawn, Topics, count
from benchmarks.powers import PrintedPower, References, Shifted, p_value_of
from benchmarks.prompts import Answered, beginnings
from beyond_perplexity.inference.prompts import Prompts, shortest
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.answers import Texts
from beyond_perplexity.tendencies.definitions import TENDENCIES
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import SampleSetPair, paired
from beyond_perplexity.tendencies.prompt_shifts import prompt_effects
from beyond_perplexity.tendencies.text_comparison import with_cut
from beyond_perplexity.tendencies.tokens import WHOLE_TEXT
from beyond_perplexity.tendencies.word_classes import ClassOptions

PROMPT_REFERENCES, PROMPT_PAIRS = 20, 100  # of answers to prompts: the pairs of `compare`


@dataclass(frozen=True)
class PromptReferences(References):
    """The same of answers to prompts; words are shifted as their cut answers have them."""

    asked: Answered = field(kw_only=True, repr=False)

    @cached_property
    def sides(self) -> list[tuple[Drawn, Drawn, Prompts]]:
        """The answers of both sides of each reference."""
        rngs = (stream(SEED, f"powers/{self.asked.name}", r) for r in range(self.many))
        return [self.asked.answers_of(self.asked.drawn(rng), SEED) for rng in rngs]

    @cached_property
    def drawn(self) -> list[Drawn]:
        """The cut answers of both sides of each reference."""
        found = []
        for human, model, prompts in self.sides:
            first, second = cut_alike(human, model, prompts)
            ends = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
            ids, groups = (
                np.concatenate([getattr(x, k) for x in (first, second)]) for k in ("ids", "groups")
            )
            found.append(Drawn(first.types, ids, ends, groups))
        return found

    def pool(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw answers to so many prompts, one to each."""
        return replace(self.asked, prompts=n, answers=(1, 1)).drawn(rng)[0]

    def _table(self, number: int) -> pa.Table:
        human, model, prompts = self.sides[number]
        with opened_answers(human, model, prompts, self.population.classes) as pair:
            return prompt_effects(pair, MeasurementOptions(), self._how, SEED, "reference")


def cut_alike(human: Drawn, model: Drawn, prompts: Prompts) -> tuple[Drawn, Drawn]:
    """Cut pairs of answers to equal lengths."""
    lengths = shortest(prompts.pairs, (np.diff(human.offsets), np.diff(model.offsets)))
    return beginnings(human, lengths[0]), beginnings(model, lengths[1])


@contextmanager
def opened_answers(
    human: Drawn, model: Drawn, prompts: Prompts, classes: ClassOptions
) -> Iterator[SampleSetPair]:
    """Bring answers together as the package does."""
    sets = count(human, classes), count(model, classes)

    def both() -> Texts:
        return iter([human.texts]), iter([model.texts])

    with (
        paired(*sets, both(), groups=prompts, classes=classes) as pair,
        with_cut(pair, both, prompts.pairs, WHOLE_TEXT, classes) as cut,
    ):
        yield cut


@dataclass(frozen=True)
class PrintedPromptPower(PrintedPower):
    """The same of answers to prompts: those of one side are shifted, words behind the cut but for
    shared n-grams, which are of whole answers."""

    references: PromptReferences = field(repr=False)

    @cached_property
    def larger(self) -> list[Larger]:
        """The shifts of numbers and curves, of whole answers."""
        both = zip(self.references.sides, self.printed, strict=True)
        classes = self.references.population.classes
        return [Larger.of(count(human, classes), self.key[0], x) for (human, *_), (x, _) in both]

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw answers and test them: whether the shift is found."""
        held, number = self.references, repeat % self.references.many
        rng = stream(SEED, f"calibration/{self.name}/{self.key}", repeat)
        seed = stream_key(SEED, f"calibration/{self.name}/{self.key}/{repeat}")
        human, plain, prompts = held.asked.answers_of(held.asked.drawn(rng), seed)
        if self.key[0] in RISES:
            given = human, plain, held.population.classes, prompts, rng
            with self.larger[number].opened(*given) as pair:
                return {" ".join(self.key): p_value_of(pair, self.key, seed) <= LEVEL}
        of_words = TENDENCIES[self.key[0]].kind in ("words", "ranks", "types")
        if of_words:
            human, plain = cut_alike(human, plain, prompts)
        model = self.shifted(Shifted.of(held.drawn[number]), plain, self.printed[number][0], rng)
        classes, texts = held.population.classes, ([human.texts], [model.texts])
        sets = count(human, classes), count(model, classes)
        with paired(*sets, texts, groups=prompts, classes=classes) as pair:
            pair = replace(pair, cut=pair)
            return {" ".join(self.key): p_value_of(pair, self.key, seed) <= LEVEL}


class PromptPowerCases:
    """The cases of answers to prompts; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[PrintedPromptPower]:
        topics = Topics(n_topics=40, own=60)
        for name, n, answers, authors, longer in (
            ("200 prompts", 200, 1, 1, 1),
            ("80 prompts with 3 answers each", 80, 3, 1, 1),
            ("240 prompts of 80 authors", 240, 1, 3, 1),
            ("200 prompts with long answers", 200, 1, 1, 8),
        ):
            asked = Answered(name, topics, n, (answers,) * 2, authors=authors, longer=longer)
            given = topics, n, n * answers, authors > 1, PROMPT_REFERENCES, PROMPT_PAIRS
            held = PromptReferences(*given, asked=asked)
            for key in held.keys:
                yield PrintedPromptPower(f"power, {name}", held, key)
