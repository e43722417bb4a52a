"""Compression: how many bytes zstd (level 19) needs of a byte of a document's beginning.

Documents are cut to one number of bytes, as short texts are compressed less. The size of the
document's own frame is in it, the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.tendencies.document_statistics import DocumentCount
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions

_LEVEL = 19
MOST_JOINED = 1_000_000  # bytes of all documents of a text that are compressed together


def compressed_bytes(text: bytes | memoryview) -> int:
    """Return how many bytes zstd needs of a text."""
    return len(pa.Codec("zstd", _LEVEL).compress(text))


def compression(options: ClassOptions) -> DocumentCount:
    """Return what counts the compressed size of the first bytes, words being joined by a blank."""

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        widths = pc.binary_length(batch.types).to_numpy().astype(np.int64) + 1
        ends = np.concatenate([[0], np.cumsum(widths[batch.ids])])  # (T + 1,)
        kept = np.diff(ends[batch.offsets]) > size  # a blank stands behind the last word, too
        first = batch.offsets[:-1][kept]
        words = np.searchsorted(ends, ends[first] + size) - first  # as many as are needed
        offsets = np.concatenate([[0], np.cumsum(words)])
        places = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], words)
        held = batch.types.cast(pa.binary()).take(pa.array(batch.ids[places]))
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), held)
        texts = pc.binary_join(lists, b" ").to_pylist()
        sizes = [compressed_bytes(text.ljust(size)[:size]) for text in texts]
        return kept, np.array(sizes)[:, None] / size

    return count


def joined_shares(texts: Iterable[Iterable[TokenBatch]]) -> tuple[list[float], int]:
    """Compress the documents of each text together, in their order: a line each, words by a blank.

    Of all texts as many bytes, the first ones, since a longer text is compressed more.

    Returns
    -------
    tuple of list of float and int
        Bytes that zstd needs of a byte, of each text, and of how many bytes: 0 where one has none.
    """
    starts = [_first_bytes(batches) for batches in texts]
    size = min(map(len, starts))
    return [compressed_bytes(start[:size]) / max(size, 1) for start in starts], size


def _first_bytes(batches: Iterable[TokenBatch]) -> bytes:
    held = bytearray()
    for batch in batches:
        held += "".join(f"{text}\n" for text in batch.texts().to_pylist()).encode()
        if len(held) >= MOST_JOINED:
            break
    return bytes(held[:MOST_JOINED])
