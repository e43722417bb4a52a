"""Texts of a file that a user names: the format by its suffix, cleaned as a corpus is, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.readers import READERS, Problems, resolve_path

COMPRESSED = (".gz", ".bz2")
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
PART = 1000


def read_tokenized(name: str, tokenized: bool, language: str = "en") -> Iterator[str]:
    """Stream documents as tokens joined by one blank.

    Parameters
    ----------
    name : str
        A text file (one document a line), JSONL or Parquet (by its suffix, ``.gz`` and ``.bz2``
        allowed behind it).
    tokenized : bool
        The texts are tokens joined by blanks already: nothing is done but to join them by one.
    language : str
        Of the tokenization and cleaning of `Preprocessing`, whose other defaults are used.

    Yields
    ------
    str

    Raises
    ------
    InputError
        When the file cannot be read or decoded.
    """
    path = resolve_path(name)
    kind = FORMATS.get(_suffix(path), "text")
    cleaning = Preprocessing(language=language)
    records = READERS[kind](path, Problems(skip=False))
    while part := [record.text for record in islice(records, PART)]:
        yield from [" ".join(text.split()) for text in part] if tokenized else cleaning.apply(part)


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
