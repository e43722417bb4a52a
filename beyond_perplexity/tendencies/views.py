"""How texts are read before they are compared: in a vocabulary, up to a length.

Human text holds words that a model of a closed vocabulary cannot write. Both sides of a fair
comparison are therefore read alike: what the vocabulary lacks is ``<unk>`` in both.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import JSONTextError, parse_json, read_whole
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch

UNKNOWN_WORD = "<unk>"  # as closed vocabularies write it
RAW_TEXT = "raw"  # what a reading without a vocabulary is called


def _used_types(batch: TokenBatch) -> TokenBatch:
    """Leave out the types that no token of the batch is of."""
    used = np.bincount(batch.ids, minlength=len(batch.types)) > 0
    if used.all():
        return batch
    places = (np.cumsum(used) - 1).astype(np.int32)
    return TokenBatch(batch.types.filter(pa.array(used)), places[batch.ids], batch.offsets)


def _cut(batch: TokenBatch, maximum_tokens: int) -> TokenBatch:
    lengths = batch.lengths
    if lengths.max(initial=0) <= maximum_tokens:
        return batch
    kept = np.arange(len(batch.ids)) - np.repeat(batch.offsets[:-1], lengths) < maximum_tokens
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, maximum_tokens))])
    return _used_types(TokenBatch(batch.types, batch.ids[kept], offsets))


def _closed(batch: TokenBatch, words: pa.Array) -> TokenBatch:
    known = np.asarray(pc.is_in(batch.types, value_set=words))
    unknown = pc.index(batch.types, UNKNOWN_WORD).as_py()
    if unknown >= 0:
        known[unknown] = True
    if known.all():
        return batch
    places = (np.cumsum(known) - 1).astype(np.int32)
    types = batch.types.filter(pa.array(known))
    if unknown < 0:
        types = pa.concat_arrays([types, pa.array([UNKNOWN_WORD], pa.string())])
    places[~known] = len(types) - 1 if unknown < 0 else places[unknown]
    return TokenBatch(types, places[batch.ids], batch.offsets)


@dataclass(frozen=True)
class TextView:
    """How documents are read.

    Attributes
    ----------
    words : pyarrow.StringArray or None
        The closed vocabulary: every other token is read as ``<unk>``. None reads all as they are.
    maximum_tokens : int or None
        Tokens of a document that are read; the rest of a longer one is cut off. None: no limit.
    minimum_tokens : int
        Documents of fewer tokens are left out where documents are read (`admits`).

    Raises
    ------
    InputError
        When a number of tokens is not allowed.
    """

    words: pa.Array | None = None
    maximum_tokens: int | None = None
    minimum_tokens: int = 0

    def __post_init__(self) -> None:
        if self.minimum_tokens < 0 or (self.maximum_tokens is not None and self.maximum_tokens < 1):
            raise InputError(
                f"--minimum-tokens {self.minimum_tokens}, --maximum-tokens {self.maximum_tokens}: "
                "give at least 0 and at least 1"
            )

    def batch(self, texts: pa.Array) -> TokenBatch:
        """Split texts (string, shape (D,)) at white space and read them so: D documents."""
        return self.read(tokenize_batch(texts))

    def read(self, batch: TokenBatch) -> TokenBatch:
        """Read documents that are split already; types without a token are left out."""
        if self.maximum_tokens is not None:
            batch = _cut(batch, self.maximum_tokens)
        return batch if self.words is None else _closed(batch, self.words)

    def admits(self, texts: pa.Array) -> np.ndarray:
        """Say which documents are long enough before any cut: bool, shape (D,)."""
        if self.minimum_tokens == 0:
            return np.ones(len(texts), bool)
        return tokenize_batch(texts).lengths >= self.minimum_tokens

    @cached_property
    def vocabulary_hash(self) -> str:
        """``raw``, or the start of the SHA-256 of the sorted words."""
        if self.words is None:
            return RAW_TEXT
        joined = "\n".join(sorted(set(self.words.to_pylist())))
        return hashlib.sha256(joined.encode()).hexdigest()[:16]

    def describe(self) -> dict[str, object]:
        """Return what must be equal where two bodies of text are compared."""
        return {
            "vocabulary": self.vocabulary_hash,
            "maximum_tokens": self.maximum_tokens,
            "minimum_tokens": self.minimum_tokens,
        }


WHOLE_TEXT = TextView()


def _described_words(path: Path, held: dict[str, object]) -> pa.Array | None:
    """Take the words of a description that a model's folder holds."""
    if held.get("kind") != "closed":
        return None
    words = held.get("words")
    if not isinstance(words, list) or not words:
        raise InputError(f"{path}: a closed vocabulary without 'words'; build it again")
    for number, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"{path}: words[{number}] is no string; build the vocabulary again")
    return pa.array(words, pa.string())


def _listed_words(path: Path, text: str) -> pa.Array:
    words = []
    for number, line in enumerate(text.split("\n"), start=1):
        found = line.split()
        if len(found) > 1 or "\0" in line:
            wrong = "holds NUL" if "\0" in line else f"holds {len(found)} words"
            raise InputError(
                f"{path}: line {number}: {wrong}, so this is no vocabulary; give a model's "
                "vocabulary.json, or a file with one word a line"
            )
        words += found
    if not words:
        raise InputError(f"{path}: holds no word; give one word a line, or a vocabulary.json")
    return pa.array(words, pa.string())


def vocabulary_words(path: str | Path) -> pa.Array | None:
    """Read the words of a vocabulary.

    Parameters
    ----------
    path : path
        ``vocabulary.json`` of a model's folder, or a UTF-8 file with one word a line.

    Returns
    -------
    pyarrow.StringArray or None
        The words of a closed vocabulary; None of an open one, which can write every word.

    Raises
    ------
    InputError
        When the file is missing or is no vocabulary; names the line.
    """
    path = Path(path)
    content = read_whole(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}: line {line}: not UTF-8, so this is no vocabulary; give a model's "
            "vocabulary.json, or a file with one word a line"
        ) from error
    if path.suffix.lower() != ".json" and not text.lstrip().startswith('{"'):
        return _listed_words(path, text)
    try:
        held = parse_json(text)
    except JSONTextError as error:
        raise InputError(
            f"{path}: line {error.line}: not JSON ({error}); give a vocabulary"
        ) from error
    if not isinstance(held, dict) or not isinstance(held.get("kind"), str):
        raise InputError(f"{path}: has no 'kind', so this is no vocabulary.json of a model")
    return _described_words(path, held)
