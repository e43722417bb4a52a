"""What a user compares, and how: texts are read and counted without holding them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from beyond_perplexity.corpus.external import import_texts
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.statistics import (
    Statistics,
    StatisticsCounter,
    check_comparable,
    read_statistics,
)
from beyond_perplexity.tendencies.word_classes import StopWords


@dataclass(frozen=True)
class Body:
    """A body of text, ready to be compared.

    Attributes
    ----------
    path : pathlib.Path
        The file that the user gave.
    documents : pathlib.Path
        Its cleaned documents, schema ``samples``.
    counted : pathlib.Path
        Its statistics file.
    statistics : Statistics
        Its statistics, read.
    left_out : int
        Lines or rows without a token, which are not counted as documents.
    """

    path: Path
    documents: Path
    counted: Path
    statistics: Statistics
    left_out: int

    def texts(self) -> Iterator[pa.Array]:
        """Stream the cleaned documents in batches."""
        return read_texts([self.documents])


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
        Language of the tokenizer's rules.
    stop_words : str
        See `word_classes.load_stop_words`.
    permutations, bootstrap : int
        Draws of the tests and of the intervals; 0 leaves them out.
    seed : int
        Seed of all draws.
    """

    reference: str
    samples: str
    kind: str = "auto"
    tokenized: bool = False
    language: str = "en"
    stop_words: str = "gensim"
    permutations: int = 1000
    bootstrap: int = 1000
    seed: int = 1

    def preprocessing(self) -> Preprocessing:
        """Return the cleaning steps: those of the paper, or none."""
        return WHITE_SPACE_ONLY if self.tokenized else Preprocessing(language=self.language)

    def measurement(self) -> MeasurementOptions:
        """Return the options of the measures; one-sample tests draw as often as permutations."""
        return MeasurementOptions(
            permutations=self.permutations,
            bootstrap=self.bootstrap,
            monte_carlo=self.permutations,
        )


@dataclass(frozen=True)
class Comparison:
    """The result of `compare.compare_bodies`.

    Attributes
    ----------
    reference, samples : Body
        What was compared.
    measures, curves : pandas.DataFrame
        Schemas ``tendencies`` and ``curves``.
    labels : Labels
        What the two are called in the figures.
    raw : pandas.DataFrame or None
        Schema ``tendencies``, of the raw texts where `measures` are of a closed vocabulary.
    groups : tuple of int or None
        Groups of the reference and of the samples; None: documents are not grouped.
    """

    reference: Body
    samples: Body
    measures: pd.DataFrame
    curves: pd.DataFrame
    labels: Labels
    raw: pd.DataFrame | None = None
    groups: tuple[int | None, int | None] = (None, None)


def read_body(
    path: Path,
    kind: str,
    preprocessing: Preprocessing,
    stop_words: StopWords,
    folder: Path,
    record: dict[str, object],
) -> Body:
    """Read, clean and count a file.

    Parameters
    ----------
    path : pathlib.Path
        Text, JSONL or Parquet; gzip and bz2 are recognized.
    kind : str
        One of `rows.TEXT_FORMATS`, or ``"auto"``: by the suffix.
    preprocessing : Preprocessing
        The cleaning steps.
    stop_words : StopWords
        The list of stop words.
    folder : pathlib.Path
        An existing folder of its own, where the working files go.
    record : dict
        Run record of the working files.

    Returns
    -------
    Body

    Raises
    ------
    InputError
        When the file cannot be read, or has no token; names the file, and the line where it can.
    """
    documents, counted = folder / "documents.parquet", folder / "statistics.parquet"
    _, left_out = import_texts(path, kind, preprocessing, documents, record)
    with StatisticsCounter(stop_words) as counter:
        for texts in read_texts([documents]):
            counter.add(texts)
        counter.write(counted, record)
    return Body(path, documents, counted, read_statistics(counted), left_out)


def check_same_counting(first: Body, second: Body) -> dict[str, object]:
    """Return how both bodies were counted: the list of stop words and what a symbol is."""
    return check_comparable(first.counted, second.counted)
