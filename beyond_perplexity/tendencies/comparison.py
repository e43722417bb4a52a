"""Two bodies of text as they are compared: documents, groups, readings, and the training text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pkgutil import resolve_name

import pyarrow as pa

from beyond_perplexity.tendencies.bodies import DocumentFiles
from beyond_perplexity.tendencies.copies import TextFacts, text_rows, training_shares
from beyond_perplexity.tendencies.inference.human_text import HumanText, further_pair
from beyond_perplexity.tendencies.measured import MeasureRow
from beyond_perplexity.tendencies.pairs import BodyPair, Groups, paired
from beyond_perplexity.tendencies.rows import SHARES
from beyond_perplexity.tendencies.statistics import Statistics, StatisticsCounter
from beyond_perplexity.tendencies.views import TextView
from beyond_perplexity.tendencies.word_classes import ClassOptions
from beyond_perplexity.verdicts import REASON_FOLLOWS

Bodies = tuple[Statistics, Statistics]  # of the reference and of the samples, read alike


def count_texts(texts: Iterable[pa.Array], classes: ClassOptions, view: TextView) -> Statistics:
    """Count documents that lie elsewhere without writing a file."""
    with StatisticsCounter(classes.stop_words, classes.count_s_symbols, view) as counter:
        for batch in texts:
            counter.add(batch)
        return counter.result()


def _facts(files: DocumentFiles, views: list[TextView], grams: bool) -> TextFacts:
    facts = TextFacts(views, grams)
    known = files.are_generated()
    for batch in files.rows("text", *(["finished"] if known else [])):
        facts.add(batch.column("text"), batch.column("finished") if known else None)
    return facts


@dataclass
class TextComparison:
    """A reference and samples that are compared in one or more readings.

    Attributes
    ----------
    files : tuple of two DocumentFiles
        The documents of the reference and of the samples.
    views : mapping of str to TextView
        The readings by the name of their vocabulary. All cut and leave out documents alike.
    classes : ClassOptions
        How stop words and symbols are counted.
    groups : tuple of two numpy.ndarray of int32, shape (D,), or None
        The groups of the documents of both, where they have groups.
    training : callable, optional
        Streams the training text, to look 8 words in a row up in it.
    pool : DocumentFiles, optional
        Further documents of the population of the reference, for floors.
    """

    files: tuple[DocumentFiles, DocumentFiles]
    views: Mapping[str, TextView]
    classes: ClassOptions
    groups: Groups = (None, None)
    training: Callable[[], Iterator[pa.Array]] | None = None
    pool: DocumentFiles | None = None
    _facts: tuple[TextFacts, TextFacts] = field(init=False)
    _copied: list[list[float | None]] = field(init=False)

    def __post_init__(self) -> None:
        views = list(self.views.values())
        reference, samples = (_facts(files, views, bool(self.training)) for files in self.files)
        self._facts = reference, samples
        self._copied = [[None] * len(views)] * 2
        if self.training:
            self._copied = training_shares(self._facts, self.training())

    @contextmanager
    def pair(self, vocabulary: str, bodies: Bodies) -> Iterator[BodyPair]:
        """Bring both together in a reading; see `pairs.paired`."""
        texts = self.files[0].texts(), self.files[1].texts()
        read, reference, samples = self.views[vocabulary].batch, *bodies
        with paired(
            reference, samples, texts, read=read, groups=self.groups, classes=self.classes
        ) as pair:
            yield pair

    @contextmanager
    def further(self, vocabulary: str, pair: BodyPair) -> Iterator[BodyPair | None]:
        """Put further human documents in the place of the samples of a pair of this reading.

        Yields
        ------
        BodyPair or None
            See `human_text.further_pair`; None where there are no further documents.
        """
        if self.pool is None or pair.documents is None or not pair.defined:
            yield None
            return
        numbers = None if self.groups[0] is None else self.pool.group_numbers()
        groups = None if numbers is None else numbers.codes()
        read = self.views[vocabulary].batch
        human = HumanText(self.pool.texts(), self.classes, read, groups)
        with further_pair(pair, human) as further:
            yield further

    def text_rows(self, vocabulary: str, bodies: Bodies) -> list[MeasureRow]:
        """Return the rows of tendency ``text`` in a reading (`copies`), and what is not counted."""
        place = list(self.views).index(vocabulary)
        reference, samples = (shares[place] for shares in self._copied)
        rows = text_rows(bodies, self._facts, (reference, samples))
        note = f"{REASON_FOLLOWS}{self.classes.stop_words.missing}"
        return rows + [
            MeasureRow(name, row.distance, math.nan, note=note, withheld=True)
            for name, row in SHARES.items()
            if resolve_name(row.word_class)(self.classes) is None
        ]
