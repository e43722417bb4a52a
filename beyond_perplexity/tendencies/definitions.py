"""The tendencies: a row says all that counting, measuring, tables and figures know of one.

Everything that can be told of a kind of tendencies is told once, for the kind: a further share of
a document's tokens is a row here and a module with the test of its class.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from beyond_perplexity.inference.exchanged_units import VERDICT_LEVELS
from beyond_perplexity.inference.halves import Floor
from beyond_perplexity.inference.p_values import draw_warning
from beyond_perplexity.verdicts import (
    ALIKE,
    DIFFERS,
    UNTESTED,
    WITHOUT_VERDICT,
    exchanged_text,
    is_known,
    joined_facts,
    no_verdict_text,
)

TendencyKind = Literal[
    "ranks", "types", "words", "length", "share", "embedding", "vocabulary", "text"
]
LENGTH = "length"
EMBEDDING = "embedding"
TEXT = "text"  # what is described and not tested
_CLASSES = "beyond_perplexity.tendencies.word_classes"
DISTANCE_NAMES = {
    "ks": "KS",
    "ks_empirical": "KS",
    "tvd": "TVD",
    "max_difference": "max",
    "mmd": "MMD",
}


class Tendency(NamedTuple):
    """What is known of a tendency.

    `kind` says how it is measured: ranks and words (by counts of types), types (of a document, by
    its length), length and share (one number per document), embedding (a vector per document of a
    few, where an encoder is given), or vocabulary and text (described, not tested). `distance` is
    the measure of how far samples are from the reference: 0 for equal distributions, 1 at most
    (MMD: the root of 2). `histogram` is the statistic that is counted for it; `narrow` the title on
    lines of a narrow column. Of a share, `word_class` is the ``module:function`` that makes the
    test of its class (`word_classes`), `figure` the figure with its density, and `note` says which
    tokens count.
    """

    title: str
    kind: TendencyKind
    distance: str = ""
    histogram: str = ""
    narrow: str = ""
    word_class: str = ""
    figure: str = ""
    note: str = ""

    @property
    def noun(self) -> str:
        """The title inside a sentence."""
        return self.title.lower()

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
        "Bigram types\nper length",
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
    EMBEDDING: Tendency("Embeddings", "embedding", "mmd"),
    "vocabulary": Tendency("Vocabulary", "vocabulary"),
    TEXT: Tendency("Text", "text"),
}


def of_counts() -> dict[str, Tendency]:
    """Return the rows that are measured of every body of text, from what was counted of it."""
    return {name: row for name, row in TENDENCIES.items() if row.kind != "embedding"}


def tendencies_of(*kinds: TendencyKind) -> dict[str, Tendency]:
    """Return the rows of some kinds, in the order of the table."""
    return {name: row for name, row in TENDENCIES.items() if row.kind in kinds}


def histogram_names() -> tuple[str, ...]:
    """Return the statistics that are histograms over documents, sorted."""
    return tuple(sorted(row.histogram for row in TENDENCIES.values() if row.histogram))


SHARES = tendencies_of("share")
_NOUNS = [row.noun for row in SHARES.values()]
SHARE_NOUNS = f"{', '.join(_NOUNS[:-1])} and {_NOUNS[-1]}"  # as in a sentence


MeasureKey = tuple[str, str]  # tendency, measure
LAWS = ("ks_zipf", "ks_heaps")  # distances to a fitted law: they test the law, not the samples
DISTANCES = ("ks", "tvd", "max_difference", "mmd")
SIGNED = "mean_difference"


def compares_texts(measure: str) -> bool:
    """Say whether a measure compares two texts, so that equal texts give 0 and p = 1."""
    return measure == SIGNED or is_distance(measure)


def is_distance(measure: str) -> bool:
    """Say whether a measure is a distance between two texts, none to a law."""
    return measure.startswith(DISTANCES) and not measure.startswith(LAWS)


def verdict_of(measure: str, p_value: Any, p_adjusted: Any, reason: Any) -> str:
    """Say what a test found, by its adjusted p-value alone: one of the words of `verdicts`."""
    if not compares_texts(measure):
        return UNTESTED
    if is_known(p_adjusted):
        return DIFFERS if p_adjusted < VERDICT_LEVELS[0] else ALIKE
    return WITHOUT_VERDICT if is_known(reason) and reason and not is_known(p_value) else UNTESTED


class MeasureRow(NamedTuple):
    """One measure of one tendency; NaN where a number is not defined; see `measures`."""

    tendency: str
    measure: str
    value: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    floor: float = math.nan
    excess: float = math.nan
    fact: str = ""  # what else is to be said of the value
    p_value_law: float = math.nan
    floor_low: float = math.nan
    floor_high: float = math.nan
    value_all: float = math.nan  # of all documents, where `value` is at the floor's size
    reason: str = ""  # why no test of this measure gives a verdict; see `verdicts.reason`
    exchanged: str = ""  # what a test exchanged, where it is not documents
    family: int = 0  # tests that its p-value is adjusted for
    draws: int = 0  # permutations of a test

    @property
    def withheld(self) -> bool:
        """Whether no test of this measure gives a verdict."""
        return bool(self.reason)

    @property
    def verdict(self) -> str:
        """What the test found."""
        return verdict_of(self.measure, self.p_value, self.p_adjusted, self.reason)

    @property
    def note(self) -> str:
        """All that is to be said of the row, in words."""
        few = draw_warning(self.family, self.draws, "permutations") if self.draws else ""
        why = no_verdict_text(self.reason) or exchanged_text(self.exchanged)
        return joined_facts(why, self.fact, few)

    def cells(self) -> dict[str, object]:
        """Return the cells of the row in a table of schema ``tendencies``: None for what is not."""
        held = {**self._asdict(), "note": self.fact, "verdict": self.verdict}
        texts = ("note", "reason", "exchanged", "family", "draws")
        return {
            name: None if not is_known(x) or (name in texts and not x) else x
            for name, x in held.items()
        }

    @property
    def key(self) -> MeasureKey:
        """Tendency and measure."""
        return self.tendency, self.measure

    def above(self, floor: Floor) -> MeasureRow:
        """Put a floor beside a distance, which is taken at its size: value - floor = excess."""
        row = self._replace(floor=floor.mean, floor_low=floor.low, floor_high=floor.high)
        if floor.excess is None:
            return row._replace(excess=self.value - floor.mean)
        value = floor.mean + floor.excess
        return row._replace(value=value, value_all=self.value, excess=floor.excess)
