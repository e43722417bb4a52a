"""What every document of a batch holds: distinct unigrams and bigrams, tokens of word classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name

import numpy as np

from beyond_perplexity.tendencies.definitions import LENGTH, SHARES
from beyond_perplexity.tendencies.document_statistics import SIZED, Sized, sized_counter
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions

_KEY_BITS = 63
_BLOCK = 1024  # documents that are counted at a time: their arrays stay in the processor's cache


def _marks_per_document(marks: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Count the marks (bool, shape (T,)) of each document: int64, shape (D,)."""
    return np.diff(np.searchsorted(np.flatnonzero(marks), offsets))


def count_types(batch: TokenBatch) -> tuple[np.ndarray, np.ndarray]:
    """Count the distinct unigrams and bigrams of every document: int64, (D,) each."""
    # Fewer documents at a time where keys would overflow.
    width = len(batch.types).bit_length()
    size = min(_BLOCK, 1 << max(0, _KEY_BITS - 1 - 2 * width))
    n_documents = len(batch.lengths)
    found = np.zeros((2, n_documents), np.int64)
    for start in range(0, n_documents, size):
        end = min(start + size, n_documents)
        found[:, start:end] = _count_types(batch.documents(start, end), width)
    return found[0], found[1]


def _count_types(batch: TokenBatch, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Do the same by sorting one key a token: document, type, following type (V: none)."""
    ids = batch.ids.astype(np.int64)
    keys = np.repeat(np.arange(len(batch.lengths)) << 2 * width, batch.lengths)  # (T,)
    keys |= ids << width
    filled = batch.lengths > 0
    last = batch.offsets[1:][filled] - 1
    ids[:-1] = ids[1:]
    ids[last] = len(batch.types)
    keys |= ids
    keys.sort()
    changed = np.full(len(keys), 2**_KEY_BITS - 1)
    np.bitwise_xor(keys[1:], keys[:-1], out=changed[1:])
    unigrams = _marks_per_document(changed >> width != 0, batch.offsets)
    return unigrams, _marks_per_document(changed != 0, batch.offsets) - filled


def _sum_per_document(numbers: np.ndarray, batch: TokenBatch) -> np.ndarray:
    """Add up a number of each type (int64, shape (V,)) over each document, modulo 2^64."""
    sums = np.zeros(len(batch.lengths), np.int64)
    for start in range(0, len(sums), _BLOCK):
        part = batch.documents(start, min(start + _BLOCK, len(sums)))
        total = np.zeros(len(part.ids) + 1, np.int64)
        np.cumsum(numbers.take(part.ids), out=total[1:])
        sums[start : start + _BLOCK] = np.diff(total[part.offsets])
    return sums


def count_classes(batch: TokenBatch, masks: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Count the tokens of every document whose type is in a mask (V,): int64, (D,) by class."""
    width = max(int(batch.lengths.max(initial=1)).bit_length(), 1)
    names, together = list(masks), _KEY_BITS // width
    found = {}
    for start in range(0, len(names), together):
        # Several classes in one pass, each in bits of its own. Running totals may pass 64 bits: the
        # difference between two of them is exact all the same.
        chosen = names[start : start + together]
        packed = np.zeros(len(batch.types), np.int64)
        for index, name in enumerate(chosen):
            packed |= masks[name].astype(np.int64) << index * width
        sums = _sum_per_document(packed, batch)
        for index, name in enumerate(chosen):
            found[name] = sums >> index * width & (1 << width) - 1
    return found


def value_counter(
    classes: ClassOptions, names: Mapping[str, Sized] = SIZED
) -> Callable[[TokenBatch], dict[str, np.ndarray]]:
    """Return what counts the value of every histogram for each document of a batch.

    ``length``, ``types``, ``bigram_types`` and the tokens of each class that can be told, int64,
    shape (D,), and some of `SIZED`.
    """
    count_sized = sized_counter(classes, names)
    tests = {row.histogram: resolve_name(row.word_class)(classes) for row in SHARES.values()}

    def count(batch: TokenBatch) -> dict[str, np.ndarray]:
        unigrams, bigrams = count_types(batch)
        masks = {name: test(batch.types) for name, test in tests.items() if test}
        counted = {LENGTH: batch.lengths, "types": unigrams, "bigram_types": bigrams}
        return counted | count_classes(batch, masks) | count_sized(batch)

    return count
