"""How often the tests of the tendencies reject text that differs in nothing.

The human side is drawn by documents or by groups, the other side from the same population likewise;
``groups against documents`` is what a perfect model gives. A case rejects a measure where its p is
at most 5%; `ANY` is a star of any measure after the adjustment for many tests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from benchmarks.populations import Articles, Drawn, Topics, count
from beyond_perplexity.inference.halves import paired_differences
from beyond_perplexity.inference.neighbours import neighbour_test
from beyond_perplexity.models.likelihoods import DocumentScore
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasureRow, family_of
from beyond_perplexity.tendencies.human_baselines import reference_baselines, with_halves
from beyond_perplexity.tendencies.judge import Judge, JudgedText, judge_rows
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import SampleSetPair, paired
from beyond_perplexity.tendencies.text_comparison import word_blocks
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions

SEED = 20261122  # fixed before the first run
LEVEL = 0.05
ANY = "any star after adjustment"
BAND = "in the band:"
TESTS = MeasurementOptions(permutations=199, bootstrap=0, monte_carlo=0)
Population = Topics | Articles


@contextmanager
def opened(
    reference: Drawn, samples: Drawn, classes: ClassOptions, grouped: tuple[bool, bool]
) -> Iterator[SampleSetPair]:
    """Bring drawn documents together as the package does, with groups where they have them."""
    groups = [
        side.groups if own else None
        for side, own in zip((reference, samples), grouped, strict=True)
    ]
    sample_sets = count(reference, classes), count(samples, classes)
    texts = ([reference.texts], [samples.texts])
    with paired(*sample_sets, texts, groups=(groups[0], groups[1]), classes=classes) as pair:
        yield pair


def rejected(rows: Sequence[MeasureRow]) -> dict[str, bool]:
    """Say which tested rows reject, and of each family of tests whether any has a star."""
    found = {" ".join(row.key): row.p_value <= LEVEL for row in rows}
    for family in dict.fromkeys(["", *(family_of(row.tendency) for row in rows)]):
        own = [row.p_adjusted < LEVEL for row in rows if family_of(row.tendency) == family]
        found[f"{ANY} ({family})" if family else ANY] = any(own)
    return found


def judged_rows(
    population: Population, human: Drawn, model: Drawn, grouped: tuple[bool, bool], seed: int
) -> list[MeasureRow]:
    """Let the unigrams of a population judge both sides."""
    assert isinstance(population, Topics)
    known = dict(zip(population.types.to_pylist(), np.log(population.law), strict=True))

    def score(texts: Iterable[str]) -> Iterator[DocumentScore]:
        for words in map(str.split, texts):
            yield DocumentScore(float(sum(known[word] for word in words)), len(words), 0, 0)

    judge = Judge("unigrams", score)
    reference = JudgedText.of(human.texts.to_pylist(), judge, None, "the reference")
    samples = JudgedText.of(model.texts.to_pylist(), judge, reference.size, "the samples")
    codes = human.groups if grouped[0] else None, model.groups if grouped[1] else None
    return judge_rows((reference, samples), codes, TESTS, seed, "")


@dataclass(frozen=True)
class EqualTexts:
    """Two draws of one population, called with the number of the repeat.

    The streams are keyed by the name. `grouped` tells which sides are drawn by whole groups;
    `units` are groups of the human side, or of the other one alone, else documents. `documents`
    are those of the side without groups (None: as many as the other side has documents, or
    groups where the human side has none). Both sides are read in a closed `vocabulary` of so
    many types. Novelty is looked up in so many documents of the same population (`training`);
    where they are `judged`, the judge knows the unigrams of the population.
    """

    name: str
    population: Population = field(repr=False)
    units: int
    grouped: tuple[bool, bool]
    vocabulary: int | None = None
    documents: int | None = None
    training: int = 0
    judged: bool = False
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.075)
    any_limits: tuple[float, float] = (0.0, 0.06)

    @cached_property
    def classes(self) -> ClassOptions:
        """What both sides are counted by."""
        if not self.training:
            return self.population.classes
        drawn = self.population.documents(stream(SEED, f"training/{self.name}"), self.training)
        known = TrainingText.of([TokenBatch(drawn.types, drawn.ids, drawn.offsets)])
        return self.population.classes._replace(training=known)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both sides and test them: which measures reject."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        if self.grouped[0]:
            human = self.population.groups(rng, self.units)
        elif self.grouped[1]:
            human = self.population.documents(rng, self.documents or self.units)
        else:
            human = self.population.documents(rng, self.units)
        if self.grouped[1]:
            model = self.population.groups(rng, self.units)
        else:
            model = self.population.documents(rng, self.documents or len(human))
        if self.vocabulary is not None:
            human, model = human.read_in(self.vocabulary), model.read_in(self.vocabulary)
        seed = stream_key(SEED, f"calibration/{self.name}/{repeat}")
        how = self.population, human, model, self.grouped, seed
        others = judged_rows(*how) if self.judged else []
        with opened(human, model, self.classes, self.grouped) as pair:
            rows = measure_rows(pair, TESTS, seed, others=others)
        return rejected([row for row in rows if not math.isnan(row.p_value)])


@dataclass(frozen=True)
class SideBySide:
    """Documents in the order of a file: how often they are found to depend on each other.

    Drawn by documents or by groups, of which the documents stand side by side, each so many `times`
    in a row.
    """

    name: str
    population: Population = field(repr=False)
    units: int
    grouped: bool = False
    times: int = 1
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.06)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw documents and test them; independent ones at 5%, of which fewer repeats tell."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        draw = self.population.groups if self.grouped else self.population.documents
        drawn = draw(rng, self.units)
        order = np.repeat(np.arange(len(drawn)), self.times)
        found = neighbour_test(word_blocks([drawn.take(order, order).texts]), repeat)
        if self.grouped or self.times > 1:
            return {"warned": found.alike}
        return {"neighbours": found.p_value <= LEVEL}


@dataclass(frozen=True)
class FurtherText:
    """Further human text in the place of samples: how often its excess is above 0.

    And how often the band of halves of the reference holds its distance, which no one promises.
    Where it is `shorter`, by a share, of what is counted of documents that are cut to one length.
    """

    name: str
    population: Population = field(repr=False)
    units: int
    grouped: bool
    shorter: float = 0.0
    nominal: str = "0.5"
    limits: tuple[float, float] = (0.3, 0.7)  # the excess of a distance is skewed

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both texts and compare them."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        draw = self.population.groups if self.grouped else self.population.documents
        factors = (1 - self.shorter,) if self.shorter else ()  # real text has no other lengths
        both = draw(rng, self.units), draw(rng, self.units, *factors)
        sides = self.grouped, self.grouped
        how = replace(TESTS, permutations=1)
        with opened(*both, self.population.classes, sides) as pair:
            known = reference_baselines(pair, how, repeat)
            rows = measure_rows(pair, how, repeat, baselines=known)
            if self.shorter:
                rows = [row for row in rows if row.tendency in pair.sizes]
        found = [row for row in rows if not math.isnan(row.excess)]
        above = {f"{' '.join(row.key)} above": row.excess > 0 for row in found}
        within = {
            f"{BAND} {' '.join(row.key)}": row.baseline_low <= row.value <= row.baseline_high
            for row in found
        }
        return above | within


@dataclass(frozen=True)
class EqualModels:
    """Three texts of one law beside a reference: how often one is put behind another one."""

    name: str
    population: Population = field(repr=False)
    human: int  # documents of the reference, or groups
    documents: int
    grouped: bool = False
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.06)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw them and compare all pairs in every distance, a family each."""
        rng = stream(SEED, f"calibration/{self.name}", repeat)
        draw = self.population.groups if self.grouped else self.population.documents
        human = draw(rng, self.human)
        values, halves = (
            defaultdict[MeasureKey, list[float]](list),
            defaultdict[MeasureKey, list[tuple[float, ...]]](list),
        )
        for number in range(3):
            model = self.population.documents(rng, self.documents)
            with opened(human, model, self.population.classes, (self.grouped, False)) as pair:
                rows = measure_rows(pair, replace(TESTS, permutations=0), repeat)
                rows = with_halves(rows, pair, TESTS, repeat, f"{number}")
            for row in (row for row in rows if row.halves):
                values[row.key].append(row.value)
                halves[row.key].append(row.halves)
        found = {
            key: paired_differences(np.array(own), np.array(halves[key]), 59)[2]
            for key, own in values.items()
        }
        return {" ".join(key): bool(np.any(own <= LEVEL)) for key, own in found.items()}


class LevelCases:
    """The cases of the levels; the populations are made once."""

    def __init__(self, articles: Articles | None) -> None:
        self._articles = articles

    @cached_property
    def _small(self) -> Topics:
        return Topics(size=5.0)

    def __iter__(self) -> Iterator[EqualTexts | SideBySide | EqualModels | FurtherText]:
        small, large = self._small, Topics(size=12.0, least=8)
        sides: dict[str, Population] = {"synthetic": small}
        if self._articles:
            sides["real"] = self._articles
        for kind, population in sides.items():
            yield SideBySide(f"{kind}, 400 documents in a file", population, 400)
            found = partial(SideBySide, nominal="0.95", limits=(0.95, 1.0))
            yield found(f"{kind}, each document 4 times", population, 50, times=4)
            yield EqualModels(f"{kind}, three equal models", population, 200, 120)
            grouped = f"{kind}, three equal models, groups of human text"
            yield EqualModels(grouped, population, 160, 120, grouped=True)
            name = f"{kind}, groups in a row without a name"
            yield found(name, population, 60, grouped=True)
            yield FurtherText(f"{kind}, further documents", population, 300, False)
            yield FurtherText(f"{kind}, further groups", population, 80, True)
        yield EqualTexts("documents, 300 + 300", small, 300, (False, False))
        yield EqualTexts("groups, 60 + 60", small, 60, (True, True))
        for units, population in ((26, large), (100, small), (300, small)):
            name = f"{units} groups against documents"
            yield EqualTexts(name, population, units, (True, False))
        for documents in (40, 3_000):
            name = f"100 groups against {documents:,} documents"
            yield EqualTexts(name, small, 100, (True, False), documents=documents)
        for documents, units in ((60, 60), (200, 40), (40, 120)):
            name = f"{documents} single documents against {units} groups"
            yield EqualTexts(name, small, units, (False, True), documents=documents)
        # Documents of 150 words: as long as all tendencies of order need them.
        long, known = Topics(n_types=4_000, size=5.0, mean=150.0), 300
        shorter = partial(FurtherText, population=long, shorter=0.4)
        name = "long documents, 40% shorter, further"
        yield shorter(f"{name} documents", units=300, grouped=False)
        yield shorter(f"{name} groups", units=80, grouped=True)
        yield EqualTexts("long documents, 150 + 150", long, 150, (False, False), training=known)
        yield EqualTexts("long documents, groups, 60 + 60", long, 60, (True, True), training=known)
        # Slopes of Taylor's law grow with the text: .96 and .27 below .05, each of its whole text.
        yield EqualTexts("long documents, 300 + 80", long, 300, (False, False), documents=80)
        name = "long documents, 100 groups against documents"
        yield EqualTexts(name, long, 100, (True, False), training=known)
        judged = partial(EqualTexts, population=long, judged=True)
        yield judged("judged, 150 + 150", units=150, grouped=(False, False))
        yield judged("judged, groups, 60 + 60", units=60, grouped=(True, True))
        yield judged("judged, 100 groups against documents", units=100, grouped=(True, False))
        name = "judged, 60 single documents against 60 groups"
        yield judged(name, units=60, grouped=(False, True), documents=60)
        yield EqualTexts("perfect closed vocabulary", small, 300, (False, False), 400)
        yield EqualTexts("perfect closed vocabulary, 100 groups", small, 100, (True, False), 400)
        if self._articles:
            yield EqualTexts("real, documents, 120 + 120", self._articles, 120, (False, False))
            yield EqualTexts("real, groups, 30 + 30", self._articles, 30, (True, True))
            name = "real, documents, 400 + 130"
            yield EqualTexts(name, self._articles, 400, (False, False), documents=130)
            for units in (26, 100, 300):
                name = f"real, {units} groups against documents"
                yield EqualTexts(name, self._articles, units, (True, False))
            novel = partial(EqualTexts, population=self._articles, training=1_000)
            yield novel("real, training text, 120 + 120", units=120, grouped=(False, False))
            name = "real, training text, 100 groups against documents"
            yield novel(name, units=100, grouped=(True, False))
