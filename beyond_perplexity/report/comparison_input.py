"""What a user compares, and how: texts are read and counted without holding them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.corpus.external import GroupField, import_texts
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.corpus.readers import Record
from beyond_perplexity.corpus.suffixes import AUTOMATIC, check_field, has_named_fields
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.document_files import DocumentFiles, GroupNumbers, found_groups
from beyond_perplexity.tendencies.options import EmbeddingOptions, MeasurementOptions
from beyond_perplexity.tendencies.statistics import (
    Statistics,
    StatisticsCounter,
    check_comparable,
    read_statistics,
)
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView, vocabulary_words
from beyond_perplexity.tendencies.word_classes import AUTOMATIC_LIST, StopWords


@dataclass(frozen=True)
class Body:
    """A body of text, ready to be compared: its file, cleaned documents and statistics.

    Left out are lines without a token, and `short` documents. Groups are an int32 array of shape
    (D,), or None; `grouped` says that the file names them, be they of one document each. Titles are
    counted that an earlier document has, and documents without one.
    """

    path: Path
    documents: Path
    counted: Path
    statistics: Statistics
    left_out: int
    short: int = 0
    groups: np.ndarray | None = None
    grouped: bool = False
    repeated: int = 0
    without_title: int = 0

    @property
    def files(self) -> DocumentFiles:
        """The cleaned documents, as files that are read."""
        return DocumentFiles((self.documents,))


@dataclass(frozen=True)
class CompareOptions:
    """What is compared, and how.

    Attributes
    ----------
    reference, samples : str
        Files with one document a line (text, JSONL with a field ``text``) or row (Parquet).
    kind : str
        ``"text"``, ``"jsonl"``, ``"parquet"``, or ``"auto"``: by the suffix.
    tokenized : bool
        Whether the texts are tokens joined by blanks already; then nothing is cleaned.
    language : str
        Language of the tokenizer's rules, and of the stop words.
    stop_words : str
        See `word_classes.stop_word_list`.
    permutations, bootstrap : int
        Draws of the tests and of the intervals; 0 leaves them out.
    seed : int
        Seed of all draws.
    vocabulary : str or None
        File with the closed vocabulary that both are read in; see `views.vocabulary_words`.
    group_column : str or None
        Key or column with the group of a document, in either text or both. None: ``group`` where
        a text has it; empty: there are no groups.
    minimum_tokens : int
        Documents of fewer tokens are left out.
    maximum_tokens : int or None
        Tokens of a document that are read.
    field : str or None
        Field or column of the texts, in the files that have fields; None: ``text``.
    samples_field : str or None
        That of the samples, where it is another.
    training : str or None
        File with the text that the samples' model was trained on, to find copies of it.
    embedding : str or None
        Encoder that documents are also compared by: ``minilm``, or a folder of
        sentence-transformers.
    embedding_documents : int
        Documents of each text that are embedded at most.
    names : tuple of two str or None
        What both texts are called in warnings and on the page; None: as their files.
    """

    reference: str
    samples: str
    kind: str = AUTOMATIC
    tokenized: bool = False
    language: str = "en"
    stop_words: str = AUTOMATIC_LIST
    permutations: int = 1999
    bootstrap: int = 1000
    seed: int = 1
    vocabulary: str | None = None
    group_column: str | None = None
    minimum_tokens: int = 0
    maximum_tokens: int | None = None
    field: str | None = None
    samples_field: str | None = None
    training: str | None = None
    embedding: str | None = None
    embedding_documents: int = EmbeddingOptions.documents
    names: tuple[str, str] | None = None

    def preprocessing(self) -> Preprocessing:
        """Return the cleaning steps: those of the paper, or none."""
        return WHITE_SPACE_ONLY if self.tokenized else Preprocessing(language=self.language)

    def field_of(self, path: Path, *, samples: bool = False) -> str | None:
        """Return the field of the texts of a file; None where it is plain text, or ``text``."""
        if samples and self.samples_field is not None:
            check_field(path, self.samples_field, self.kind)
            return self.samples_field
        return self.field if has_named_fields(path, self.kind) else None

    def check_fields(self) -> None:
        """Check that a field of the texts is of some use: that not all files are plain text."""
        files = [Path(self.reference), Path(self.samples)]
        if not any(has_named_fields(path, self.kind) for path in files):
            check_field(files[0], self.field, self.kind)

    def views(self) -> dict[str, TextView]:
        """Return how the texts are read, by the name of the vocabulary; raw comes last."""
        raw = TextView(None, self.maximum_tokens, self.minimum_tokens)
        words = vocabulary_words(self.vocabulary) if self.vocabulary else None
        if words is None:
            return {RAW_TEXT: raw}
        path = Path(str(self.vocabulary))
        name = path.stem if path.stem != RAW_TEXT else path.name
        name = name if name != RAW_TEXT else f"{RAW_TEXT} words"  # a file without a suffix
        return {name: replace(raw, words=words), RAW_TEXT: raw}

    def most_embedded(self) -> int:
        """Return how many documents of each text are embedded at most."""
        try:
            return EmbeddingOptions(str(self.embedding), self.embedding_documents).documents
        except ValueError as error:
            raise InputError(f"--embedding-documents: {error}") from error

    def measurement(self) -> MeasurementOptions:
        """Return the options of the measures; one-sample tests draw as often as permutations."""
        return MeasurementOptions(
            permutations=self.permutations,
            bootstrap=self.bootstrap,
            monte_carlo=self.permutations,
        )


@dataclass(frozen=True)
class Comparison:
    """The result of `compare.compare_bodies`: schemas ``tendencies`` and ``curves``.

    `raw` is of the raw texts where the measures are of a closed vocabulary; groups are counted
    (None: documents are not grouped); `exchanged` says what the tests exchange, or why there are
    none, `encoder` what documents were embedded by.
    """

    reference: Body
    samples: Body
    measures: pd.DataFrame
    curves: pd.DataFrame
    labels: Labels
    raw: pd.DataFrame | None = None
    groups: tuple[int | None, int | None] = (None, None)
    exchanged: str = ""
    encoder: str = ""


class _Fields:
    """What stands beside the texts of a file: their groups and titles."""

    def __init__(self) -> None:
        self.groups, self.titles = GroupNumbers(), GroupNumbers()
        self.grouped = False
        self.without_title = 0

    def add(self, records: list[Record]) -> None:
        self.titles.add(pa.array([record.title for record in records], pa.string()))
        self.without_title += sum(not record.title for record in records)
        self.groups.add(pa.array([record.group or "" for record in records], pa.string()))
        self.grouped |= any(record.group is not None for record in records)

    def repeated(self) -> int:
        """Count the documents with a title that an earlier one has."""
        codes = self.titles.codes()
        return len(codes) - len(np.unique(codes))


def read_body(
    path: Path,
    options: CompareOptions,
    view: TextView,
    groups: GroupField | None,
    stop_words: StopWords,
    folder: Path,
    record: dict[str, object],
    field: str | None = None,
) -> Body:
    """Read, clean and count a file (text, JSONL or Parquet; gzip and bz2 are recognized).

    Working files, with their run record, go to an existing folder of its own.
    """
    documents, counted = folder / "documents.parquet", folder / "statistics.parquet"
    fields = _Fields()
    found = import_texts(
        path,
        options.kind,
        options.preprocessing(),
        documents,
        record,
        minimum_tokens=options.minimum_tokens,
        groups=groups,
        field=field,
        seen=fields.add,
    )
    codes = None
    if groups and fields.grouped:
        codes = found_groups(fields.groups, f"{path}: field '{groups.name}'")
    with StatisticsCounter(stop_words, view=view) as counter:
        for texts in read_texts([documents]):
            counter.add(texts)
        counter.write(counted, record)
    statistics = read_statistics(counted)
    counts = found.empty, found.short
    titles = fields.repeated(), fields.without_title
    return Body(path, documents, counted, statistics, *counts, codes, fields.grouped, *titles)


def group_fields(
    paths: tuple[Path, Path], options: CompareOptions
) -> tuple[GroupField | None, GroupField | None]:
    """Say where the groups of both texts stand: in the named field, or in ``group``."""
    name = options.group_column
    first, second = (has_named_fields(path, options.kind) for path in paths)
    if name and not (first or second):
        raise InputError(f"{paths[0]}: plain text has no field '{name}'; give JSONL or Parquet")
    if name == "":
        return None, None
    needed = name is not None and not (first and second)  # where one text alone can have them
    field = GroupField(name or "group", needed, "all documents of a text must have it, or none")
    return field if first else None, field if second else None


def check_groups(bodies: Sequence[Body], options: CompareOptions) -> None:
    """Raise `InputError` where a field is named for the groups that no text has."""
    if options.group_column and not any(body.grouped for body in bodies):
        raise InputError(
            f"{bodies[0].path}: field '{options.group_column}', which names the group, is missing "
            f"here and in {bodies[1].path}; name one that either has"
        )


def check_same_counting(first: Body, second: Body) -> dict[str, object]:
    """Return how both bodies were counted: the list of stop words and what a symbol is."""
    return check_comparable(first.counted, second.counted)
