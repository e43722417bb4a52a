"""A body of text that a user brings: read, cleaned and counted without holding it in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.readers import READERS, Problems
from beyond_perplexity.errors import InputError
from beyond_perplexity.shards import ShardWriter
from beyond_perplexity.tendencies.statistics import (
    Statistics,
    StatisticsCounter,
    check_comparable,
    read_statistics,
)
from beyond_perplexity.tendencies.tokens import read_texts
from beyond_perplexity.tendencies.word_classes import StopWords

BATCH = 4096
SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".bz2")


class StrictProblems(Problems):
    """Let the first unreadable line end the command."""

    def report(self, reason: str, place: str, detail: str) -> None:
        """Raise an `InputError` that names the file and line."""
        raise InputError(f"{place}: {reason} ({detail}); repair or remove it")


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


def guess_format(path: Path) -> str:
    """Tell the format by the suffix, before that of a compression: text, jsonl or parquet."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED]
    return SUFFIXES.get(suffixes[-1], "text") if suffixes else "text"


def check_file(path: Path) -> None:
    """Check that a file can be read and holds something.

    Raises
    ------
    InputError
        When it is missing, a folder, or empty.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file with one document a line")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: is empty; give a file with one document a line")


def _clean(texts: Iterable[str], preprocessing: Preprocessing) -> Iterator[list[str]]:
    stream = iter(texts)
    while batch := list(islice(stream, BATCH)):
        yield preprocessing.apply(batch)


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
    check_file(path)
    reader = READERS[guess_format(path) if kind == "auto" else kind]
    documents, counted = folder / "documents.parquet", folder / "statistics.parquet"
    problems = StrictProblems(skip=False)
    progress = tqdm(reader(path, problems), desc=path.name, unit=" documents", mininterval=1)
    texts = (found.text for found in progress)
    kept = left_out = 0
    with (
        ShardWriter(documents, "samples", record) as writer,
        StatisticsCounter(stop_words) as counter,
    ):
        for cleaned in _clean(texts, preprocessing):
            filled = [text for text in cleaned if text]
            left_out += len(cleaned) - len(filled)
            column = pa.array(filled, pa.string())
            writer.write(_sample_columns(column, kept))
            counter.add(column)
            kept += len(filled)
        if kept == 0:
            raise InputError(f"{path}: has no document with a token in it")
        counter.write(counted, record)
    left_out += problems.skips.counts.total()
    return Body(path, documents, counted, read_statistics(counted), left_out)


def _sample_columns(texts: pa.Array, first: int) -> dict[str, object]:
    n = len(texts)
    lengths = [text.count(" ") + 1 for text in texts.to_pylist()]
    return {
        "doc_id": pa.array(range(first, first + n), pa.int64()),
        "text": texts,
        "n_tokens": pa.array(lengths, pa.int32()),
        "log_prob": pa.nulls(n, pa.float64()),
        "log_prob_decoding": pa.nulls(n, pa.float64()),
        "finished": pa.array([True] * n, pa.bool_()),
    }


def check_same_counting(first: Body, second: Body) -> dict[str, object]:
    """Return how both bodies were counted: the list of stop words and what a symbol is."""
    return check_comparable(first.counted, second.counted)
