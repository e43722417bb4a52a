"""The tendencies: a row says all that counting, measuring, tables and figures know of one.

Everything that can be told of a kind of tendencies is told once, for the kind: a further share of
a document's tokens, a number or a curve of it is a row here and a module with what counts it.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from beyond_perplexity import verdicts
from beyond_perplexity.inference.halves import Baseline
from beyond_perplexity.inference.p_values import draw_warning
from beyond_perplexity.inference.permuted_units import VERDICT_LEVELS

TendencyKind = Literal[
    "ranks",
    "types",
    "words",
    "length",
    "share",
    "number",
    "curve",
    "slope",
    "pairs",
    "embedding",
    "vocabulary",
    "text",
]
LENGTH = "length"
EMBEDDING = "embedding"
TAYLOR = "taylor"
SHARED_NGRAMS = "shared_ngrams"
TEXT = "text"  # what is described and not tested
_HERE = "beyond_perplexity.tendencies"
_CLASSES = f"{_HERE}.word_classes"
ORDER = "order"
NOVELTY = "novelty"  # counted where a training text is known, beside the texts and not in shards
JUDGE = "judge"  # of documents that a model scores, and not in shards either
CUT_TO = (8, 16, 32, 64, 128, 256, 512)
DISTANCE_NAMES = {
    "ks": "KS",
    "ks_empirical": "KS",
    "tvd": "TVD",
    "max_difference": "max",
    "slope_difference": "slope",
    "mmd": "MMD",
}


class Tendency(NamedTuple):
    """What is known of a tendency."""

    title: str
    # How it is measured: ranks and words (by counts of types), types (of a document, by its
    # length), length and share (one number per document), number and curve (one number, or one at
    # each place, of the beginning of a document: `document_statistics`), slope (of a text), pairs
    # (of documents), embedding (a vector per document of a few, where an encoder is given), or
    # vocabulary and text (described, not tested).
    kind: TendencyKind
    distance: str = (
        ""  # measure of how far samples are: 0 for equal distributions, 1 (MMD: √2) at most
    )
    histogram: str = ""  # the statistic that is counted for it
    narrow: str = ""  # the title on lines of a narrow column
    # Of a share: the ``module:function`` that makes the test of its class (`word_classes`), the
    # figure with its density, and which tokens count. Of a curve: its figure, what its places are,
    # and a sentence for below.
    word_class: str = ""
    figure: str = ""
    note: str = ""
    caption: str = ""
    # Of a number or a curve: the ``module:function`` that makes what counts it, none where it is
    # counted of some documents alone (`judge`); to how many tokens documents are cut, alternatively
    # (`Statistics.sizes`, `document_statistics.chosen_size`); the places of a curve, and in which
    # unit whole numbers are held of it.
    statistic: str = ""
    sizes: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    unit: float = 1e-4
    measured_in: str = "tokens"  # the sizes
    family: str = ""  # whose tests are adjusted for many together

    @property
    def noun(self) -> str:
        """The title inside a sentence."""
        return self.title if "'" in self.title else self.title.lower()  # a law is a person's

    @property
    def distance_name(self) -> str:
        """What tables call the distance."""
        return DISTANCE_NAMES[self.distance]

    @property
    def lines(self) -> str:
        """The title on lines of a narrow column."""
        return self.narrow or self.title.replace(" ", "\n")


TENDENCIES = {
    "rank_frequency": Tendency(
        "Rank-frequency", "ranks", "ks_empirical", narrow="Rank–\nfrequency"
    ),
    "type_token_unigrams": Tendency(
        "Types per length", "types", "ks_empirical", "types", "Types per\nlength"
    ),
    "type_token_bigrams": Tendency(
        "Bigram types per length",
        "types",
        "ks_empirical",
        "bigram_types",
        "Bigram\ntypes per\nlength",
    ),
    "unigram": Tendency("Unigrams", "words", "tvd"),
    LENGTH: Tendency("Length", "length", "ks", LENGTH),
    "stop_words": Tendency(
        "Stop words",
        "share",
        "ks",
        "stop_words",
        word_class=f"{_CLASSES}:stop_word_test",
        figure="figure_8",
    ),
    "symbols": Tendency(
        "Symbols",
        "share",
        "ks",
        "symbols",
        word_class=f"{_CLASSES}:symbol_test",
        figure="figure_9",
        note="punctuation and numbers",
    ),
    "recurrence": Tendency(
        "Recurrence",
        "curve",
        "max_difference",
        "recurrence",
        figure="recurrence",
        note="Distance in words",
        caption="How much more often a document has the same word so many words later than its "
        "words shuffled (0).",
        statistic=f"{_HERE}.recurrence:recurrence",
        sizes=CUT_TO,
        places=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256),
        unit=1e-5,
        family=ORDER,
    ),
    "repetition": Tendency(
        "Repeated words",
        "number",
        "ks",
        "repetition",
        statistic=f"{_HERE}.repetition:repeated_words",
        sizes=CUT_TO,
        family=ORDER,
    ),
    "burstiness": Tendency(
        "Burstiness",
        "number",
        "ks",
        "burstiness",
        note="(1 + B) / 2",
        statistic=f"{_HERE}.repetition:burstiness",
        sizes=CUT_TO[2:],
        family=ORDER,
    ),
    "compression": Tendency(
        "Compression",
        "number",
        "ks",
        "compression",
        statistic=f"{_HERE}.compression:compression",
        sizes=(400, 4000),
        measured_in="bytes",
        family=ORDER,
    ),
    NOVELTY: Tendency(
        "Novelty",
        "curve",
        "max_difference",
        NOVELTY,
        figure=NOVELTY,
        note="Words of an n-gram",
        caption="Share of the n-grams that do not stand in the training text.",
        statistic=f"{_HERE}.novelty:novelty",
        sizes=CUT_TO[:4],
        places=tuple(range(1, 33)),
        family=ORDER,
    ),
    JUDGE: Tendency(
        "Judge", "number", "ks", JUDGE, note="bits per byte", sizes=CUT_TO, family=ORDER
    ),
    TAYLOR: Tendency("Taylor's law", "slope", "slope_difference", unit=1e-6, family=ORDER),
    SHARED_NGRAMS: Tendency(
        "Shared n-grams",
        "pairs",
        "max_difference",
        sizes=CUT_TO[:4],
        places=(1, 2, 3, 4),
        family=ORDER,
    ),
    EMBEDDING: Tendency("Embeddings", "embedding", "mmd"),
    "vocabulary": Tendency("Vocabulary", "vocabulary"),
    TEXT: Tendency("Text", "text"),
}


def of_counts() -> dict[str, Tendency]:
    """Return the rows that are measured of every sample set, from what was counted of it."""
    return {name: row for name, row in TENDENCIES.items() if row.kind != "embedding"}


def tendencies_of(*kinds: TendencyKind) -> dict[str, Tendency]:
    """Return the rows of some kinds, in the order of the table."""
    return {name: row for name, row in TENDENCIES.items() if row.kind in kinds}


def family_of(tendency: str) -> str:
    """Return the family of the tests of a tendency."""
    return TENDENCIES[tendency].family if tendency in TENDENCIES else ""


def counted_code() -> list[str]:
    """List the functions that rows name: what is counted is their code."""
    named = (row.word_class or row.statistic for row in TENDENCIES.values())
    return list(filter(None, named))


SHARES = tendencies_of("share")
OF_FAMILIES = {name: row for name, row in TENDENCIES.items() if row.family}
STATISTICS_OF_DOCUMENTS = tendencies_of("number", "curve")
_NOUNS = [row.noun for row in SHARES.values()]
SHARE_NOUNS = f"{', '.join(_NOUNS[:-1])} and {_NOUNS[-1]}"  # as in a sentence


MeasureKey = tuple[str, str]  # tendency, measure
LAWS = ("ks_zipf", "ks_heaps")  # distances to a fitted law: they test the law, not the samples
DISTANCES = ("ks", "tvd", "max_difference", "slope_difference", "mmd")
SIGNED = "mean_difference"
SIMILARITY = "similarity_difference"


def compares_texts(measure: str) -> bool:
    """Say whether a measure compares two texts, so that equal texts give 0 and p = 1."""
    return measure in (SIGNED, SIMILARITY) or is_distance(measure)


def is_distance(measure: str) -> bool:
    """Say whether a measure is a distance between two texts, none to a law."""
    return measure.startswith(DISTANCES) and not measure.startswith(LAWS)


def verdict_of(measure: str, p_value: Any, p_adjusted: Any, reason: Any) -> str:
    """Say what a test found, by its adjusted p-value: one of the words of `verdicts`.

    Where so few permutations cannot give one below the level, that is no finding; nor is a distance
    that two human texts of this size have too.
    """
    if not compares_texts(measure):
        return verdicts.UNTESTED
    if verdicts.is_known(p_adjusted):
        if verdicts.cannot_tell(reason):
            return verdicts.CANNOT_TELL
        small = p_adjusted < VERDICT_LEVELS[0] and not verdicts.within_band(reason)
        return verdicts.DIFFERS if small else verdicts.ALIKE
    withheld = verdicts.is_known(reason) and reason and not verdicts.is_known(p_value)
    return verdicts.WITHOUT_VERDICT if withheld else verdicts.UNTESTED


class MeasureRow(NamedTuple):
    """One measure of one tendency; NaN where a number is not defined; see `measures`."""

    tendency: str
    measure: str
    value: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    baseline: float = math.nan
    excess: float = math.nan
    fact: str = ""  # what else is to be said of the value
    p_value_law: float = math.nan
    baseline_low: float = math.nan
    baseline_high: float = math.nan
    value_all: float = math.nan  # of all documents, where `value` is at the baseline's size
    reason: str = ""  # why no test of this measure gives or can give one; see `verdicts.reason`
    permuted: str = ""  # what a test permuted, where it is not documents
    family: int = 0  # tests that its p-value is adjusted for
    draws: int = 0  # permutations of a test
    halves: tuple[float, ...] = ()  # of a distance: between random halves of both texts

    @property
    def withheld(self) -> bool:
        """Whether no test of this measure gives a verdict."""
        return bool(self.reason) and not verdicts.is_of_test(self.reason)

    @property
    def verdict(self) -> str:
        """What the test found."""
        return verdict_of(self.measure, self.p_value, self.p_adjusted, self.reason)

    @property
    def note(self) -> str:
        """All that is to be said of the row, in words."""
        few = draw_warning(self.family, self.draws, "permutations") if self.draws else ""
        why = verdicts.no_verdict_text(self.reason) if self.withheld else ""
        why = why or verdicts.permuted_text(self.permuted)
        band = verdicts.reason_text(self.reason) if verdicts.within_band(self.reason) else ""
        return verdicts.joined_facts(why, self.fact, few, band)

    def cells(self) -> dict[str, object]:
        """Return the cells of the row in a table of schema ``tendencies``: None for what is not."""
        held = {**self._asdict(), "note": self.fact, "verdict": self.verdict}
        texts = ("note", "reason", "permuted", "family", "draws", "halves")
        return {
            name: None if not verdicts.is_known(x) or (name in texts and not x) else x
            for name, x in held.items()
        }

    @property
    def key(self) -> MeasureKey:
        """Tendency and measure."""
        return self.tendency, self.measure

    def above(self, baseline: Baseline) -> MeasureRow:
        """Put a baseline beside a distance, taken at its size: value - baseline = excess."""
        row = self._replace(
            baseline=baseline.mean, baseline_low=baseline.low, baseline_high=baseline.high
        )
        if baseline.excess is None:
            return row._replace(excess=self.value - baseline.mean)
        value = baseline.mean + baseline.excess
        return row._replace(value=value, value_all=self.value, excess=baseline.excess)
