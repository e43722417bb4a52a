"""Batches of documents as arrays of type ids, by pyarrow's split and dictionary encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.shards import count_documents, read_texts

_UNICODE_SPACE = r"[\x{a0}\x{85}\p{Zl}\p{Zp}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}]"


@dataclass(frozen=True)
class TokenBatch:
    """Documents of one batch as ids.

    Attributes
    ----------
    types : pyarrow.StringArray, shape (V,)
        Distinct tokens of the batch.
    ids : numpy.ndarray of int32, shape (T,)
        Index into `types` of every token, document after document.
    offsets : numpy.ndarray of int64, shape (D + 1,)
        Document d has the tokens ``ids[offsets[d]:offsets[d + 1]]``.
    """

    types: pa.Array
    ids: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every document: int64, shape (D,)."""
        return np.diff(self.offsets)

    def documents(self, start: int, end: int | None = None) -> TokenBatch:
        """Return the documents from `start` up to `end`, over the same types."""
        offsets = self.offsets[start : None if end is None else end + 1]
        return TokenBatch(self.types, self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])


def _drop_empty(types: pa.Array, ids: np.ndarray, offsets: np.ndarray) -> TokenBatch:
    """Remove the empty tokens that the split leaves at the ends of a text and in an empty one."""
    empty = pc.index(types, "").as_py()
    if empty < 0:
        return TokenBatch(types, ids, offsets)
    kept = ids != empty
    before = np.concatenate([[0], np.cumsum(kept)])
    ids = ids[kept]
    types = pa.concat_arrays([types.slice(0, empty), types.slice(empty + 1)])
    return TokenBatch(types, ids - (ids > empty).astype(np.int32), before[offsets])


def _has_other_space(types: pa.Array) -> bool:
    """Say whether a type holds white space other than the blank at its end."""
    data = np.frombuffer(types.buffers()[2] or b"", np.uint8)
    if np.any((data - np.uint8(9) < 5) | (data - np.uint8(28) < 4)):
        return True
    strange = types.filter(pc.invert(pc.string_is_ascii(types)))
    return bool(pc.any(pc.match_substring_regex(strange, _UNICODE_SPACE)).as_py())


def tokenize_batch(texts: pa.Array) -> TokenBatch:
    """Split texts at white space, exactly as `str.split`, and number the types.

    Parameters
    ----------
    texts : pyarrow.StringArray, shape (D,)
        Documents; a null or an empty text is a document of zero tokens.

    Returns
    -------
    TokenBatch
        Ids by first occurrence in the batch.
    """
    # With a blank after each document, one array of offsets into the text cuts "token ", "token ".
    ended = pc.binary_join_element_wise(pc.fill_null(texts, ""), "", " ")
    data = np.frombuffer(ended.buffers()[2] or b"", np.uint8)
    blanks = np.flatnonzero(data == 32)
    cuts = np.zeros(len(blanks) + 1, np.int32)
    np.add(blanks, 1, out=cuts[1:], casting="unsafe")
    text_ends = np.frombuffer(ended.buffers()[1], np.int32)[: len(texts) + 1]
    buffers = [None, pa.py_buffer(cuts), ended.buffers()[2]]
    tokens = pa.Array.from_buffers(pa.string(), len(cuts) - 1, buffers)
    encoded = tokens.dictionary_encode()
    if _has_other_space(encoded.dictionary):
        return tokenize_batch(
            pa.array([" ".join((text or "").split()) for text in texts.to_pylist()])
        )
    types = pc.ascii_rtrim(encoded.dictionary, " ")
    return _drop_empty(types, encoded.indices.to_numpy(), np.searchsorted(cuts, text_ends))


def read_resample(
    paths: Sequence[str | Path], split: str | None, size: int, resample: int, seed: int
) -> Iterator[pa.Array]:
    """Stream a random subset of the documents, drawn without replacement.

    Parameters
    ----------
    paths, split
        As for `read_texts`.
    size : int
        Documents of the subset.
    resample, seed : int
        The subset is drawn from the stream (`seed`, ``"resample"``, `resample`).

    Yields
    ------
    pyarrow.StringArray
        Texts of the subset, in the order of the files.

    Raises
    ------
    InputError
        When there are fewer documents than `size`.
    """
    total = count_documents(paths, split)
    if not 0 < size <= total:
        raise InputError(
            f"{paths[0]}: a resample of {size} documents cannot be drawn from {total}; "
            f"give a size from 1 to {total}"
        )
    yield from draw_documents(read_texts(paths, split), total, size, resample, seed)


def draw_documents(
    texts: Iterable[pa.Array], total: int, size: int, resample: int, seed: int
) -> Iterator[pa.Array]:
    """Keep `size` of `total` documents, drawn as for `read_resample`, of a stream."""
    drawn = np.zeros(total, bool)
    drawn[stream(seed, "resample", resample).choice(total, size, replace=False)] = True
    yield from choose_documents(texts, drawn)


def choose_documents(texts: Iterable[pa.Array], chosen: np.ndarray) -> Iterator[pa.Array]:
    """Keep the documents of a stream that are chosen (bool, shape (D,))."""
    start = 0
    for batch in texts:
        yield batch.filter(pa.array(chosen[start : start + len(batch)]))
        start += len(batch)
