"""What stands beside every verdict: unknown words, unfinished texts, duplicates, copied text.

A program that copies its training text passes every test of a tendency; here it is seen. Rows of
tendency ``text``, described and not tested, of the samples and, with ``_reference``, of the
reference:

==================== ==============================================================================
measure              meaning
==================== ==============================================================================
unknown_share        share of the tokens that are ``<unk>``, as the texts were read
unfinished_share     share of the documents that ended at the model's cap of length (samples only)
duplicate_share      share of the documents that repeat an earlier one of the same sample set word
by word training_8grams      share of the 8 known words in a row that stand in the training text,
read
                     alike
distinct_1grams, ...  share of distinct ones among the n-grams of all documents, n = 1 to 4, at
equal tokens of both texts, 5 million at most
compression_joined   bytes that zstd needs of a byte of all documents together, in their order, at
equal bytes of both texts, a million at most
cut_share            share of the documents that are longer than is read of them
fragment_share       share of the documents without any end of a sentence: headings and the like
neighbour_similarity  mean cosine of documents side by side, less that of random pairs; of the first
4,000 documents of a text without groups, with a note where they depend on each other
(`inference.neighbours`)
==================== ==============================================================================

What cannot be known has no row. Memory holds 8 bytes a document, and of a training text 8 a token
(`TrainingText`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pkgutil import resolve_name

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix

from beyond_perplexity.inference import neighbours
from beyond_perplexity.inference.prompts import PromptCodes, Prompts, shortest
from beyond_perplexity.tendencies import tokens
from beyond_perplexity.tendencies.answers import HumanAnswers, Texts, cut_documents
from beyond_perplexity.tendencies.compression import joined_shares
from beyond_perplexity.tendencies.definitions import SHARES, TEXT, MeasureRow
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.document_values import count_classes
from beyond_perplexity.tendencies.novelty import (
    MOST_TOKENS_OF_BOTH,
    copied_share,
    distinct_shares,
)
from beyond_perplexity.tendencies.pairs import (
    Groups,
    HumanText,
    SampleSetPair,
    further_pair,
    paired,
)
from beyond_perplexity.tendencies.statistics import Statistics, StatisticsCounter
from beyond_perplexity.tendencies.tokens import UNKNOWN_WORD, TextView, tokenize_batch
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions
from beyond_perplexity.verdicts import reason

# A token that ends in one of these, closing quotes and brackets left aside.
_SENTENCE_END = r"""[.?!…。？！]["'’”»)\]」』]*\z"""


def word_blocks(texts: Sequence[pa.Array]) -> Iterator[csr_matrix]:
    """Count the words of documents for `neighbour_test`, whatever their batches."""
    documents = pa.chunked_array(texts, pa.string())
    for start in range(0, len(documents), neighbours.NEIGHBOUR_BLOCK):
        batch = tokenize_batch(documents.slice(start, neighbours.NEIGHBOUR_BLOCK).combine_chunks())
        held = np.ones(len(batch.ids)), batch.ids, batch.offsets
        counts = csr_matrix(held, (len(batch.lengths), len(batch.types)), copy=True)
        counts.sum_duplicates()
        yield counts


@dataclass
class TextFacts:
    """What the documents of one sample set tell, added batch after batch.

    Of a document `maximum_tokens` are read.
    """

    maximum_tokens: int | None = None
    grouped: bool = False
    documents: int = 0
    fragments: int = 0
    cut: int = 0
    unfinished: int | None = None
    _hashes: list[np.ndarray] = field(default_factory=list)
    _long: list[np.ndarray] = field(default_factory=list)  # whether a hash is of a long document
    _first: list[pa.Array] = field(default_factory=list)

    def add(self, texts: pa.Array, finished: pa.Array | None = None) -> None:
        """Add documents (string, shape (D,)); `finished` (bool) says which ended by themselves."""
        batch = tokenize_batch(texts)
        ends = np.asarray(pc.match_substring_regex(batch.types, _SENTENCE_END))
        self.fragments += int(np.sum(count_classes(batch, {"end": ends})["end"] == 0))
        longest = self.maximum_tokens
        self.cut += 0 if longest is None else int(np.sum(batch.lengths > longest))
        self._hashes.append(tokens.document_hashes(batch))
        self._long.append(batch.lengths >= tokens.GRAM)
        if not self.grouped and self.documents < neighbours.NEIGHBOURS:
            self._first.append(texts.slice(0, neighbours.NEIGHBOURS - self.documents))
        if finished is not None:
            cut_off = pc.sum(pc.invert(finished), min_count=0).as_py()
            self.unfinished = (self.unfinished or 0) + int(cut_off)
        self.documents += len(texts)

    def shares(self) -> Iterator[tuple[str, float]]:
        """Yield the measures that need neither counts of types nor a training text."""
        if not self.documents:
            return
        distinct = len(np.unique(np.concatenate(self._hashes)))
        if self.unfinished is not None:
            yield "unfinished_share", self.unfinished / self.documents
        yield "duplicate_share", 1 - distinct / self.documents
        yield "cut_share", self.cut / self.documents
        yield "fragment_share", self.fragments / self.documents

    @cached_property
    def neighbours(self) -> list[MeasureRow]:
        """Return what the order of documents without groups tells, and what is to be done."""
        if self.grouped or self.documents < 2:
            return []
        found = neighbours.neighbour_test(word_blocks(self._first))
        value = found.similarity - found.expected
        fact = found.told(self.documents, "cosine", "compare: --group-size")
        return [MeasureRow(TEXT, "neighbour_similarity", value, fact=fact)]

    def copied(self) -> str:
        """Say which share of the long documents are copies, where that is no chance."""
        long = np.concatenate(self._hashes)[np.concatenate(self._long)]
        return "" if self.grouped else neighbours.told_of_copies(long, f"{tokens.GRAM} tokens")


def text_rows(
    sample_sets: tuple[Statistics, Statistics],
    facts: tuple[TextFacts, TextFacts],
    copied: Sequence[MeasureRow] = (),
) -> list[MeasureRow]:
    """Make the rows of tendency ``text`` of the reference and the samples.

    `copied`: further rows, such as of 8-grams that stand in the training text.
    """
    rows = [*copied]
    for suffix, sample_set in (("", 1), ("_reference", 0)):
        counted, told = sample_sets[sample_set], facts[sample_set]
        unknown = counted.counts[np.asarray(pc.equal(counted.types, UNKNOWN_WORD))].sum()
        share = float(unknown / counted.n_tokens) if counted.n_tokens else None
        found = {"unknown_share": share, **dict(told.shares())}
        for name, value in found.items():
            if value is not None:
                fact = told.copied() if name == "duplicate_share" else ""
                rows.append(MeasureRow(TEXT, f"{name}{suffix}", value, fact=fact))
        rows += [row._replace(measure=f"{row.measure}{suffix}") for row in told.neighbours]
    return rows


def known_training(classes: ClassOptions, training: TrainingText) -> ClassOptions:
    """Let novelty be counted by a training text, unless that holds nothing."""
    return classes._replace(training=training) if training.n_documents else classes


SampleSets = tuple[Statistics, Statistics]  # of the reference and of the samples, read alike


def count_texts(texts: Iterable[pa.Array], classes: ClassOptions, view: TextView) -> Statistics:
    """Count documents that lie elsewhere without writing a file."""
    with StatisticsCounter(classes.stop_words, classes.count_s_symbols, view) as counter:
        for batch in texts:
            counter.add(batch)
        return counter.result()


def _facts(files: DocumentFiles, longest: int | None, groups: np.ndarray | None) -> TextFacts:
    facts = TextFacts(longest, groups is not None)
    known = files.are_generated()
    for batch in files.rows("text", *(["finished"] if known else [])):
        facts.add(batch.column("text"), batch.column("finished") if known else None)
    return facts


def _counted(texts: Texts, classes: ClassOptions, view: TextView) -> SampleSets:
    return count_texts(texts[0], classes, view), count_texts(texts[1], classes, view)


@contextmanager
def with_cut(
    pair: SampleSetPair,
    texts: Callable[[], Texts],
    codes: PromptCodes,
    view: TextView,
    classes: ClassOptions,
) -> Iterator[SampleSetPair]:
    """Put beside a pair the same documents, those of one code (D,) cut to equal lengths."""
    lengths = shortest(codes, pair.document_lengths)

    def cut() -> Texts:
        whole = texts()
        return cut_documents(whole[0], lengths[0]), cut_documents(whole[1], lengths[1])

    counted, groups = _counted(cut(), classes, view), pair.groups
    with paired(*counted, cut(), read=view.batch, groups=groups, classes=classes) as found:
        yield replace(pair, cut=found)


@dataclass
class TextComparison:
    """A reference and samples that are compared in one or more readings."""

    files: tuple[DocumentFiles, DocumentFiles]
    views: Mapping[str, TextView]  # by the name of the vocabulary; all cut and leave out alike
    classes: ClassOptions
    groups: Groups = (None, None)
    training: Callable[[], Iterator[pa.Array]] | None = None  # text to look n-grams up in
    pool: DocumentFiles | None = None  # further documents of the reference's kind, for baselines
    human: HumanAnswers | None = None  # of which a baseline is made
    _facts: tuple[TextFacts, TextFacts] = field(init=False)
    _training: dict[str, TrainingText] = field(default_factory=dict)

    def __post_init__(self) -> None:
        longest = next(iter(self.views.values())).maximum_tokens
        both = zip(self.files, self.groups, strict=True)
        reference, samples = (_facts(files, longest, groups) for files, groups in both)
        self._facts = reference, samples

    def counted_by(self, vocabulary: str) -> ClassOptions:
        """Return what texts are counted by in a reading, with the training text, if there is one.

        That is read whole, whatever is cut of the others.
        """
        if self.training is None:
            return self.classes
        if vocabulary not in self._training:
            view = replace(self.views[vocabulary], maximum_tokens=None)
            read = TrainingText.of(view.batch(texts) for texts in self.training())
            self._training = {vocabulary: read}
        return known_training(self.classes, self._training[vocabulary])

    @contextmanager
    def pair(self, vocabulary: str, sample_sets: SampleSets) -> Iterator[SampleSetPair]:
        """Bring both together in a reading; see `pairs.paired`. Answers to prompts are also cut."""

        def texts() -> Texts:
            return self.files[0].texts(), self.files[1].texts()

        view, classes, groups = self.views[vocabulary], self.counted_by(vocabulary), self.groups
        with paired(*sample_sets, texts(), read=view.batch, groups=groups, classes=classes) as pair:
            if not isinstance(groups, Prompts):
                yield pair
                return
            with with_cut(pair, texts, groups.pairs, view, self.classes) as both:
                yield both

    @contextmanager
    def human_pair(self, vocabulary: str) -> Iterator[SampleSetPair | None]:
        """Bring all answers to prompts together that people answered twice; None without."""
        human = self.human
        if human is None:
            yield None
            return
        view, classes, groups = self.views[vocabulary], self.counted_by(vocabulary), human.codes
        counted = _counted(human.texts(), classes, view)
        texts = human.texts()
        with (
            paired(*counted, texts, read=view.batch, groups=groups, classes=classes) as pair,
            with_cut(pair, human.texts, groups, view, self.classes) as both,
        ):
            yield both

    @contextmanager
    def further(self, vocabulary: str, pair: SampleSetPair) -> Iterator[SampleSetPair | None]:
        """Put further human documents, if any, in the place of the samples of such a pair."""
        if self.pool is None or pair.documents is None or not pair.defined:
            yield None
            return
        numbers = None if self.groups[0] is None else self.pool.group_numbers()
        groups = None if numbers is None else numbers.codes()
        read = self.views[vocabulary].batch
        human = HumanText(self.pool.texts(), self.classes, read, groups)
        with further_pair(pair, human) as further:
            yield further

    def warnings(self, names: Sequence[object]) -> Iterator[str]:
        """Say of both texts, by their names, what makes documents depend on each other."""
        for name, facts in zip(names, self._facts, strict=True):
            for said in filter(None, [facts.copied(), *(row.fact for row in facts.neighbours)]):
                yield f"warning: {name}: {said}"

    def _copied_rows(self, vocabulary: str) -> Iterator[MeasureRow]:
        training, view = self.counted_by(vocabulary).training, self.views[vocabulary]
        if training is None:
            return
        for files, suffix in zip(self.files, ("_reference", ""), strict=True):
            found = copied_share((view.batch(texts) for texts in files.texts()), training)
            if found is not None:
                fact = f"of {found[1]:,} sequences, in {training.told}"
                yield MeasureRow(TEXT, f"training_8grams{suffix}", found[0], fact=fact)

    def _distinct_rows(self, vocabulary: str, sample_sets: SampleSets) -> Iterator[MeasureRow]:
        view, sizes = self.views[vocabulary], [one.n_tokens for one in sample_sets]
        if not (most := min(*sizes, MOST_TOKENS_OF_BOTH)):
            return
        fact = f"among the n-grams of {most:,} tokens of either text"
        for files, n, suffix in zip(self.files, sizes, ("_reference", ""), strict=True):
            batches = (view.batch(texts) for texts in files.texts())
            for words, share in enumerate(distinct_shares(batches, n, most), start=1):
                if not math.isnan(share):
                    name = f"distinct_{words}grams{suffix}"
                    yield MeasureRow(TEXT, name, float(share), fact=fact)

    def _joined_rows(self, vocabulary: str) -> Iterator[MeasureRow]:
        batch = self.views[vocabulary].batch
        shares, size = joined_shares(map(batch, files.texts()) for files in self.files)
        for share, suffix in zip(shares, ("_reference", ""), strict=True):
            if size:
                fact = f"of {size:,} bytes of either text"
                yield MeasureRow(TEXT, f"compression_joined{suffix}", share, fact=fact)

    def text_rows(self, vocabulary: str, sample_sets: SampleSets) -> list[MeasureRow]:
        """Return the rows of tendency ``text`` in a reading, and what is not counted."""
        more = *self._copied_rows(vocabulary), *self._distinct_rows(vocabulary, sample_sets)
        rows = text_rows(sample_sets, self._facts, [*more, *self._joined_rows(vocabulary)])
        why = reason("not_counted", why=self.classes.stop_words.missing)
        return rows + [
            MeasureRow(name, row.distance, math.nan, reason=why)
            for name, row in SHARES.items()
            if resolve_name(row.word_class)(self.classes) is None
        ]
