"""Level, limits and power of the comparison of texts by the vectors of their documents.

Run ``python -m benchmarks.calibration_embeddings [--repeats 1000] [--text FILE]``. Populations are
finite, so that the distance of their laws is known: pages of documents with a topic, synthetic
vectors; and, where FILE is a text with articles in the format of WikiText and the extra
`pretrained` is installed, the paragraphs of its articles under MiniLM. Whole pages are drawn with
replacement, as people write them, or independent documents, as a perfect model would. A second text
may have a share of its documents of one topic (`embeddings.shifts`). Every line is one measure of
one case, as in `benchmarks.calibration`; the exit status is 1 where a rate is not allowed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.calibration import FEWEST, REPEATS, Case, parser_of, rates
from benchmarks.populations import Articles
from benchmarks.powers import Promised
from beyond_perplexity.inference.permuted_units import Groups
from beyond_perplexity.inference.prompts import Prompts
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.discrepancy import distances, gaussian_kernel
from beyond_perplexity.tendencies.embedded_documents import (
    EmbeddedPair,
    EmbeddedText,
    chosen_documents,
)
from beyond_perplexity.tendencies.embedding_measures import (
    TopicShift,
    answered_shifts,
    embedding_rows,
    human_shifts,
    smallest_topic_share,
)
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions

SEED = 20261122  # fixed before the first run
LEVEL, POWER = 0.05, 0.8
TESTS = MeasurementOptions(permutations=199)
_WIDTH, _TOPICS = 48, 40
_SPREAD = np.arange(1, _WIDTH + 1.0) ** -0.5


def _topics(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(_TOPICS, _WIDTH)) * _SPREAD


def _pages(rng: np.random.Generator, topics: np.ndarray, n: int) -> np.ndarray:
    law = np.arange(1, _TOPICS + 1.0) ** -1
    own = topics[rng.choice(_TOPICS, n, p=law / law.sum())]
    return own + 0.7 * rng.normal(size=own.shape) * _SPREAD


def _written(rng: np.random.Generator, own: np.ndarray, alike: float) -> np.ndarray:
    """Write documents with what they have in common, (N, D): float32, of length 1."""
    noise = rng.normal(size=own.shape) * _SPREAD
    found = math.sqrt(alike) * own + math.sqrt(1 - alike) * noise
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class Pages:
    """A population of documents as vectors, float32, (N, D), in pages: int64 codes, (N,)."""

    vectors: np.ndarray = field(repr=False)
    codes: np.ndarray = field(repr=False)

    @classmethod
    def made(cls, pages: int, size: float, alike: float) -> Pages:
        """Make pages of a geometric number of documents, with a share of variance in common."""
        rng = stream(SEED, "embeddings/population", pages)
        own = _pages(rng, _topics(rng), pages)
        codes = np.repeat(np.arange(pages), rng.geometric(1 / size, pages))
        return cls(_written(rng, own[codes], alike), codes)

    def partly_silent(self, share: float) -> Pages:
        """Take the vectors of a share of documents away, of some pages more than of others."""
        rng = stream(SEED, "embeddings/silent", len(self.codes))
        chances = rng.beta(0.5, 0.5 / share - 0.5, int(self.codes.max()) + 1)[self.codes]
        gone = rng.random(len(self.codes)) < chances
        return Pages(np.where(gone[:, None], np.float32(np.nan), self.vectors), self.codes)

    @cached_property
    def shift(self) -> TopicShift:
        """The shift of its documents; which of them are near does not depend on the bandwidth."""
        return TopicShift(gaussian_kernel(self.vectors, 1.0))

    def pages(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw n whole pages: documents, and the page of each."""
        members = [np.flatnonzero(self.codes == code) for code in range(self.codes.max() + 1)]
        chosen = [members[code] for code in rng.integers(len(members), size=n)]
        return np.concatenate(chosen), np.repeat(np.arange(n), list(map(len, chosen)))

    def documents(self, rng: np.random.Generator, n: int, x: float, topic: int) -> np.ndarray:
        """Draw n documents, a share x of them of a topic."""
        return np.repeat(np.arange(len(self.codes)), self.shift.documents(rng, n, x, topic))

    def distance(self, x: float, topic: int, bandwidth: float) -> float:
        """Return the MMD of the law and of that with a share x of a topic."""
        weights = self.shift.topic_weights()[:, [topic]]
        return x * float(distances(gaussian_kernel(self.vectors, bandwidth), weights)[0])


@dataclass(frozen=True)
class TwoTexts:
    """Two texts of a population, called with the number of the repeat.

    The streams are keyed by the name. `grouped` tells whether the reference and the samples are
    of whole pages; `units` are pages of the reference, or documents where it has none, and
    `documents` those of the samples (None: as many). At most `most` of each are embedded; a
    `share` x of the samples is of one topic. Unless `told` the pages, the test permutes
    documents.
    """

    name: str
    population: Pages = field(repr=False)
    units: int
    grouped: tuple[bool, bool]
    documents: int | None = None
    most: int = 4000
    share: float = 0.0
    told: bool = True
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.075)

    def pair(self, repeat: int) -> tuple[EmbeddedPair, int]:
        """Draw two texts; return them and the topic."""
        rng = stream(SEED, f"embeddings/{self.name}", repeat)
        held, topic = self.population, self.population.shift.topic(rng)
        codes: list[np.ndarray | None] = [None, None]
        if self.grouped[0]:
            first, codes[0] = held.pages(rng, self.units)
        else:
            first = held.documents(rng, self.units, 0, topic)
        if self.grouped[1]:
            second, codes[1] = held.pages(rng, self.documents or self.units)
        else:
            second = held.documents(rng, self.documents or len(first), self.share, topic)
        groups: Groups = (codes[0], codes[1]) if self.told else (None, None)
        sizes = len(first), len(second)
        places = chosen_documents(sizes, groups, self.most, repeat)
        texts = [
            EmbeddedText(held.vectors[drawn[chosen]], _thinned(own, chosen), len(drawn))
            for drawn, chosen, own in zip((first, second), places, groups, strict=True)
        ]
        return EmbeddedPair.of(texts[0], texts[1]), topic

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both and compare them: whether the test rejects and the limits are wrong."""
        pair, topic = self.pair(repeat)
        seed = stream_key(SEED, f"embeddings/{self.name}/{repeat}")
        row = next(iter(embedding_rows(pair, TESTS, seed)))
        truth = self.population.distance(self.share, topic, pair.bandwidth)
        found = {"lower limit above the truth": row.low > truth + 1e-9}
        found["upper limit below the truth"] = row.high < truth - 1e-9
        if not self.share and not math.isnan(row.p_value):
            found["rejected"] = row.p_value <= LEVEL
        return found


def _thinned(codes: np.ndarray | None, chosen: np.ndarray) -> np.ndarray | None:
    return None if codes is None else np.unique(codes[chosen], return_inverse=True)[1]


@dataclass(frozen=True)
class PromisedShift(Promised):
    """The smallest share of a topic by several references, and whether new pairs show it.

    A reference has `units` pages or documents.
    """

    case: TwoTexts
    pairs: int = 300
    units: int = 400
    references: int = 20

    @property
    def name(self) -> str:
        """The name of the case."""
        return self.case.name

    @cached_property
    def printed(self) -> np.ndarray:  # type: ignore[override]
        """The share and its power, of each reference: (R, 2)."""
        return np.array([self._smallest(number) for number in range(self.references)])

    def _smallest(self, number: int) -> tuple[float, float]:
        held, case = self.case.population, self.case
        rng = stream(SEED, f"embeddings/reference/{self.name}", number)
        documents, codes = held.documents(rng, self.units, 0, 0), None
        if case.grouped[0]:
            documents, codes = held.pages(rng, self.units)
        how = SensitivityOptions(level=LEVEL, power=POWER, pairs=self.pairs)
        n = case.units if codes is None else round(case.units * len(documents) / self.units)
        human = EmbeddedText(held.vectors[documents], codes, len(documents))
        both = human_shifts(human, seed=number)
        return smallest_topic_share(both, (n, case.documents or n), how, number)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw a pair with the promised shift and test it."""
        shifted = replace(self.case, share=self.shift(repeat))
        pair, _ = shifted.pair(repeat)
        row = next(iter(embedding_rows(pair, TESTS, repeat)))
        return {"mmd": bool(row.p_value <= LEVEL)}


@dataclass(frozen=True)
class TwoAnswers:
    """Answers of people and of a model to the same prompts, called with the number of the repeat.

    Of each of so many `prompts` either writes as many `answers`, which are `alike`; so many prompts
    in a row are of one of the `authors` of either side, who write alike. A `share` of the model's
    answers is of one topic, a tenth of all documents.
    """

    name: str
    prompts: int
    answers: int = 1
    authors: int = 1
    alike: float = 0.5
    share: float = 0.0
    nominal: str = f"{LEVEL:g}"
    limits: tuple[float, float] = (0.0, 0.075)

    @cached_property
    def _everything(self) -> tuple[np.ndarray, np.ndarray]:
        """The topics, and documents that stand for all."""
        rng = stream(SEED, "embeddings/answers")
        topics = _topics(rng)
        return topics, _written(rng, _pages(rng, topics, 4000), self.alike)

    def pair(self, purpose: str, repeat: int) -> EmbeddedPair:
        """Draw answers and give them their prompts."""
        rng = stream(SEED, f"{purpose}/{self.name}", repeat)
        (topics, every), n = self._everything, self.prompts * self.answers
        own, numbers = _pages(rng, topics, self.prompts), np.arange(n)
        units = numbers // self.answers // self.authors
        sides = []
        for _ in range(2):
            common = own.repeat(self.answers, axis=0)
            if self.authors > 1:
                common = common + 0.5 * rng.normal(size=(n, _WIDTH))[units] * _SPREAD
            sides.append(_written(rng, common, self.alike))
        if self.share:
            order = np.argsort(-(every @ every[rng.integers(len(every))]))
            topical = rng.random(n) < self.share
            sides[1][topical] = every[rng.choice(order[: len(every) // 10], topical.sum())]
        human, model = (EmbeddedText(own, None, n) for own in sides)
        prompts = Prompts.of((numbers, numbers), units, self.authors > 1)
        return replace(EmbeddedPair.of(human, model), prompts=prompts)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both and compare them: whether tests reject."""
        pair = self.pair("embeddings", repeat)
        seed = stream_key(SEED, f"embeddings/{self.name}/{repeat}")
        rows = embedding_rows(pair, TESTS, seed)
        return {row.measure: row.p_value <= LEVEL for row in rows if not math.isnan(row.p_value)}


@dataclass(frozen=True)
class PromisedAnswers(Promised):
    """The same of answers to the same prompts."""

    case: TwoAnswers
    references: int = 20
    pairs: int = 100

    @property
    def name(self) -> str:
        """The name of the case."""
        return self.case.name

    @cached_property
    def printed(self) -> np.ndarray:  # type: ignore[override]
        """The share and its power, of each reference: (R, 2)."""
        how = SensitivityOptions(level=LEVEL, power=POWER, pairs=self.pairs)
        pairs = [self.case.pair("references", number) for number in range(self.references)]
        n = pairs[0].n_documents
        found = [
            smallest_topic_share(answered_shifts(x, k), n, how, k) for k, x in enumerate(pairs)
        ]
        return np.array(found)

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw answers with the share of one of the references in turn, and test them."""
        return {"mmd": replace(self.case, share=self.shift(repeat))(repeat)["mmd"]}


def answered_cases() -> Iterator[TwoAnswers | PromisedAnswers]:
    """List cases of answers to prompts."""
    yield TwoAnswers("80 prompts", 80)
    yield TwoAnswers("30 prompts, 3 answers each", 30, 3)
    yield TwoAnswers("90 prompts of 30 authors", 90, authors=3)
    yield PromisedAnswers(TwoAnswers("promised, 100 prompts", 100))
    yield PromisedAnswers(TwoAnswers("promised, 80 prompts, 3 answers each", 80, 3))


def real_pages(path: Path) -> Pages:
    """Embed the articles of a text by MiniLM."""
    from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator

    drawn = Articles(path, FEWEST).everything
    vectors = encoder_of(named_evaluator("minilm")).encode(drawn.texts.to_pylist())
    return Pages(vectors, drawn.groups.astype(np.int64))


def level_cases(population: Pages, name: str) -> Iterator[TwoTexts]:
    """List cases of texts that differ in nothing."""
    both, alone, one = (True, True), (False, False), (True, False)
    yield TwoTexts(f"{name}, documents, 60 + 60", population, 60, alone)
    yield TwoTexts(f"{name}, documents, 60 + 400", population, 60, alone, 400)
    yield TwoTexts(f"{name}, pages, 60 + 60", population, 60, both)
    yield TwoTexts(f"{name}, pages, 60 + 120", population, 60, both, 120)
    yield TwoTexts(f"{name}, pages, 60 + 180, 150 embedded", population, 60, both, 180, 150)
    yield TwoTexts(f"{name}, 60 pages to documents", population, 60, one)
    yield TwoTexts(f"{name}, 60 pages to 60 documents", population, 60, one, 60)
    yield TwoTexts(f"{name}, 60 pages to 1,000 documents", population, 60, one, 1000)
    silent = population.partly_silent(0.1)
    yield TwoTexts(f"{name}, documents, a tenth silent", silent, 60, alone)
    yield TwoTexts(f"{name}, pages, a tenth silent", silent, 60, both)
    yield TwoTexts(f"{name}, 60 pages to documents, a tenth silent", silent, 60, one)
    yield TwoTexts(f"{name}, 200 pages, 100 embedded", population, 200, one, None, 100)


def shifted_cases(population: Pages, name: str) -> Iterator[TwoTexts]:
    """List cases of texts that differ, whose limits are looked at."""
    for share in (0.2, 0.6):
        yield TwoTexts(
            f"{name}, documents, share {share}", population, 80, (False, False), share=share
        )
        yield TwoTexts(f"{name}, pages, share {share}", population, 80, (True, False), share=share)


def promised_cases(population: Pages, name: str) -> Iterator[PromisedShift]:
    """List cases of the smallest share that is promised to be found."""
    for n, grouped in ((60, False), (240, False), (60, True)):
        what = "pages" if grouped else "documents"
        yield PromisedShift(TwoTexts(f"{name}, {n} {what}", population, n, (grouped, False)))


def cases(population: Pages, name: str) -> Iterator[Case]:
    """List all cases of a population."""
    yield from level_cases(population, name)
    yield from shifted_cases(population, name)
    yield from promised_cases(population, name)
    if name == "synthetic":
        yield from answered_cases()


def main() -> int:
    given = parser_of(__doc__, REPEATS).parse_args()
    populations = {"synthetic": Pages.made(150, 5.0, 0.5)}
    if given.text:
        populations["real"] = real_pages(given.text)
    failing = 0
    for name, population in populations.items():
        for case in cases(population, name):
            found = rates("embeddings", case, given.repeats, given.jobs)
            print("\n".join(map(str, found)), flush=True)
            failing += sum(not rate.allowed for rate in found)
        unaware = TwoTexts(f"{name}, 60 pages, not told", population, 60, (True, False), told=False)
        print("\n".join(map(str, rates("embeddings", unaware, given.repeats, given.jobs))))
    print(f"{failing} rates are not allowed" if failing else "All rates are allowed")
    return int(failing > 0)


if __name__ == "__main__":
    sys.exit(main())
