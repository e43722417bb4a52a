"""A body of text that a user brings: read, cleaned and counted without holding it in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from beyond_perplexity.corpus.external import import_texts
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.storage.shards import read_texts
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
        A key of `readers.READERS`, or ``"auto"``: by the suffix.
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
