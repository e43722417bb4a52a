"""A file of texts that a user brings: format by suffix, strictly read, cleaned, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.readers import Problems
from beyond_perplexity.corpus.rows import FORMATS
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.samples import TEXT_SAMPLES
from beyond_perplexity.storage.shards import ShardWriter

BATCH = 4096
FORMAT_BY_SUFFIX = {suffix: name for name, row in FORMATS.items() for suffix in row.suffixes}
COMPRESSED = (".gz", ".bz2")


class StrictProblems(Problems):
    """Let the first unreadable line end the command."""

    def report(self, reason: str, place: str, detail: str) -> None:
        """Raise an `InputError` that names the file and line."""
        raise InputError(f"{place}: {reason} ({detail}); repair or remove it")


def guess_format(path: Path) -> str:
    """Tell the format by the suffix, before that of a compression: text, jsonl or parquet."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED]
    return FORMAT_BY_SUFFIX.get(suffixes[-1], "text") if suffixes else "text"


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


def read_cleaned(
    path: Path, preprocessing: Preprocessing | None, kind: str = "auto"
) -> Iterator[list[str]]:
    """Stream the documents of a file as tokens joined by one blank, or as they are.

    Parameters
    ----------
    path : pathlib.Path
        Text, JSONL or Parquet with one document a line or row; gzip and bz2 are recognized.
    preprocessing : Preprocessing or None
        The cleaning steps; None: no blank and no line feed of a document is changed.
    kind : str
        One of `rows.TEXT_FORMATS`, or ``"auto"``: by the suffix.

    Yields
    ------
    list of str
        Batches; a document without a token is an empty string, or blanks where nothing is cleaned.

    Raises
    ------
    InputError
        When the file cannot be read; names the file, and the line where it can.
    """
    check_file(path)
    reader = FORMATS[guess_format(path) if kind == "auto" else kind].load()
    records = reader(path, StrictProblems(skip=False))
    texts = (
        record.text if preprocessing else record.as_it_is
        for record in tqdm(records, desc=path.name, unit=" documents", mininterval=1)
    )
    while batch := list(islice(texts, BATCH)):
        yield preprocessing.apply(batch) if preprocessing else batch


def import_texts(
    path: Path, kind: str, preprocessing: Preprocessing, output: Path, record: dict[str, object]
) -> tuple[int, int]:
    """Write the documents of a file as one shard of samples, without probabilities.

    Parameters
    ----------
    path, kind, preprocessing
        As for `read_cleaned`.
    output : pathlib.Path
        The shard, schema ``samples``; it appears only when it is complete.
    record : dict
        Its run record.

    Returns
    -------
    kept, left_out : int
        Documents that were written, and documents without a token, which were not.

    Raises
    ------
    InputError
        When the file cannot be read, or has no token.
    """
    kept = left_out = 0
    with ShardWriter(output, TEXT_SAMPLES, record) as writer:
        for cleaned in read_cleaned(path, preprocessing, kind):
            filled = [text for text in cleaned if text]
            left_out += len(cleaned) - len(filled)
            writer.write(_sample_columns(filled, kept))
            kept += len(filled)
        if kept == 0:
            raise InputError(f"{path}: has no document with a token in it")
    return kept, left_out


def _sample_columns(texts: list[str], first: int) -> dict[str, object]:
    n = len(texts)
    lengths = [text.count(" ") + 1 for text in texts]
    return {
        "doc_id": pa.array(range(first, first + n), pa.int64()),
        "text": pa.array(texts, pa.string()),
        "n_tokens": pa.array(lengths, pa.int32()),
        "log_prob": pa.nulls(n, pa.float64()),
        "log_prob_decoding": pa.nulls(n, pa.float64()),
        "finished": pa.array([True] * n, pa.bool_()),
    }
