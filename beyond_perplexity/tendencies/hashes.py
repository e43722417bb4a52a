"""Stable 64-bit hashes of words, of sequences of words and of documents, many at once.

Polynomials modulo 2^64 over pseudo-random numbers, the same on every machine and in every run; the
last step mixes the bits. Two different ones of n are taken for equal with a chance of about
n^2 / 2^65: 3e-8 for a million.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.tendencies.tokens import TokenBatch

GRAM = 8
_BASE = np.uint64(0x9E3779B97F4A7C15)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Mix the bits of unsigned 64-bit integers, one to one (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_BYTES = _mixed(np.arange(1, 257, dtype=np.uint64) * _BASE)


def _sequence_hashes(numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hash sequences of numbers (uint64, shape (T,)) that end at offsets (D + 1): shape (D,)."""
    lengths = np.diff(offsets)
    places = np.arange(len(numbers)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    powers = np.full(int(lengths.max(initial=0)) + 1, _BASE)
    powers[0] = 1
    np.cumprod(powers, out=powers)
    total = np.zeros(len(numbers) + 1, np.uint64)
    np.cumsum(numbers * powers[places], out=total[1:])
    sums = np.diff(total[offsets - offsets[0]])
    return _mixed(sums + powers.dtype.type(0x632BE59BD9B4E019) * lengths.astype(np.uint64))


def string_hashes(strings: pa.Array) -> np.ndarray:
    """Hash strings without nulls (string, shape (V,)) by their bytes: uint64, shape (V,)."""
    if len(strings) == 0:
        return np.zeros(0, np.uint64)
    _, places, data = strings.buffers()
    offsets = np.frombuffer(places, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    held = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    return _sequence_hashes(_BYTES[held], offsets.astype(np.int64))


def document_hashes(batch: TokenBatch) -> np.ndarray:
    """Hash the sequence of tokens of every document: uint64, shape (D,)."""
    return _sequence_hashes(string_hashes(batch.types)[batch.ids], batch.offsets)


def gram_hashes(batch: TokenBatch, without: str) -> np.ndarray:
    """Hash every 8 tokens in a row of a document, document after document: uint64, shape (G,).

    Those that hold the word `without` are left out.
    """
    n = len(batch.ids) - GRAM + 1
    if n <= 0:
        return np.zeros(0, np.uint64)
    tokens = string_hashes(batch.types)[batch.ids]
    hashes = tokens[:n].copy()
    for place in range(1, GRAM):
        hashes *= _BASE
        hashes += tokens[place : place + n]
    last = np.repeat(batch.offsets[1:], batch.lengths)[:n] - GRAM  # where the last one may begin
    left_out = np.asarray(pc.equal(batch.types, without))[batch.ids]
    before = np.concatenate([[0], np.cumsum(left_out)])
    return _mixed(hashes[(np.arange(n) <= last) & (before[GRAM:] == before[:n])])
