"""What a user compares, and how: texts are read and counted without holding them in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.corpus.external import GroupField, import_texts
from beyond_perplexity.corpus.formats import has_named_fields
from beyond_perplexity.corpus.readers import Record
from beyond_perplexity.corpus.text_files import HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.compare_options import CompareOptions
from beyond_perplexity.tendencies.definitions import MeasureRow, SensitivityOptions
from beyond_perplexity.tendencies.document_files import DocumentFiles, GroupNumbers, found_groups
from beyond_perplexity.tendencies.statistics import Statistics, StatisticsCounter, read_statistics
from beyond_perplexity.tendencies.tokens import TextView
from beyond_perplexity.tendencies.word_classes import StopWords

_SHIFT_PAIRS = 100  # of samples, that the smallest shift is found by


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
class Comparison:
    """The result of `compare.compare_bodies`: schemas ``tendencies`` and ``curves``.

    `described` says how both texts were counted (the list of stop words, what a symbol is); `raw`
    is of the raw texts where the measures are of a closed vocabulary; groups are counted (None:
    documents are not grouped); `exchanged` says what the tests exchange, or why there are none,
    `encoder` what documents were embedded by.
    """

    reference: Body
    samples: Body
    measures: pd.DataFrame
    curves: pd.DataFrame
    labels: Labels
    described: Mapping[str, object]
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
    path: Path | HeldTexts,
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
    counts = import_texts(
        path,
        options.format,
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
    titles = fields.repeated(), fields.without_title
    return Body(
        Path(str(path)), documents, counted, statistics, *counts, codes, fields.grouped, *titles
    )


def group_fields(
    paths: tuple[Path | HeldTexts, Path | HeldTexts], options: CompareOptions
) -> tuple[GroupField | None, GroupField | None]:
    """Say where the groups of both texts stand: in the named field, or in ``group``."""
    name = options.group_column
    first, second = (has_named_fields(path, options.format) for path in paths)
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


class EmbeddingComparison:
    """Compares documents by their vectors; the encoder is loaded at once: errors come first."""

    def __init__(self, options: CompareOptions) -> None:
        from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator

        self._options, self._most = options, options.most_embedded()
        evaluator = named_evaluator(str(options.embedding))
        self._encoder, held = encoder_of(evaluator), evaluator.describe()
        # What the encoder is called, and its weights' hash.
        self.title = f"{held['title']} (SHA-256 {str(held['sha256'])[:12]}…)"

    def rows(self, reference: Body, samples: Body, view: TextView) -> list[MeasureRow]:
        """Compare two texts as they are read in a view; see `tendencies.embedding_measures`."""
        from beyond_perplexity.tendencies.embedded_documents import embedded_pair
        from beyond_perplexity.tendencies.embedding_measures import rows_of_pair

        remark(f"embedding {self._most:,} documents of each text at most")
        options = self._options
        pair = embedded_pair(
            (reference.files, samples.files),
            (reference.statistics.n_documents, samples.statistics.n_documents),
            (reference.groups, samples.groups),
            view.batch,
            self._most,
            options.seed,
            self._encoder,
        )
        how = SensitivityOptions(pairs=_SHIFT_PAIRS)
        return rows_of_pair(pair, options.measurement(), how, options.seed)
