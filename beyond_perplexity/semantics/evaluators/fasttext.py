"""Models of fastText (``.bin``): vectors of words, and of words that it lacks from their parts.

The file is mapped to memory; of the words an array of 24 bytes each is kept. D numbers a vector.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.aligned import Vectors
from beyond_perplexity.semantics.evaluators.vector_table import VectorTable
from beyond_perplexity.storage.provenance import hash_bytes

MAGIC = struct.pack("<i", 793712314)
_VERSIONS = (11, 12)
_HEAD = struct.Struct("<ii12id")  # magic, version, the options of the training
_SIZES = struct.Struct("<iiiqq")  # entries, words, labels, tokens, pruned
_ENTRY = struct.Struct("<qb")  # count and kind, after a word and a zero
_MATRIX = struct.Struct("<qq")
_LONGEST_PART = 256  # characters; fastText takes 6 by default
_END = "</s>"  # has no parts


class _Options(NamedTuple):
    """What of a training's options counts here."""

    width: int
    buckets: int
    shortest: int
    longest: int


class FastTextTable(VectorTable):
    """A model of fastText.

    A word's vector is the mean of its own row and of those of its parts: runs of characters of the
    word between ``<`` and ``>``. A word that the model lacks has its parts alone; it has no vector
    where the model was trained without parts.

    Source: Bojanowski et al. (2017). Enriching word vectors with subword information.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open(path, "rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        weakref.finalize(self, self._bytes.close)
        try:
            self._options = self._read_options()
            place, count = self._read_words(_HEAD.size)
            self._begin, rows = self._read_shape(place)
        except (struct.error, ValueError) as error:
            raise InputError(f"{path}: ends or is damaged ({error}); fetch it again") from error
        self.width = self._options.width
        if rows != count + self._options.buckets:
            raise InputError(f"{path}: has {rows:,} rows, which are not those of its words")
        self._words = count

    def _read_options(self) -> _Options:
        _, version, width, *held = _HEAD.unpack_from(self._bytes)
        if version not in _VERSIONS:
            raise InputError(f"{self.path}: is of version {version} of fastText's format, "
                             "expected 12")  # fmt: skip
        buckets, shortest, longest = held[7:10]
        if width < 1 or max(shortest, longest) > _LONGEST_PART:
            raise ValueError(f"vectors of {width} numbers, parts of {longest} characters")
        supervised = held[6] == 3
        return _Options(width, buckets, shortest, 0 if supervised and version == 11 else longest)

    def _read_words(self, place: int) -> tuple[int, int]:
        """Read the dictionary: where it ends, and how many words it has."""
        entries, words, _, _, pruned = _SIZES.unpack_from(self._bytes, place)
        if pruned >= 0:
            raise InputError(f"{self.path}: is quantized; give the whole model (.bin)")
        place += _SIZES.size
        if not 0 <= words <= entries <= (len(self._bytes) - place) // (1 + _ENTRY.size):
            raise ValueError(f"it has no room for {entries:,} words")
        hashes, places = np.empty(entries, np.int64), np.empty(entries, np.int64)
        for entry in range(entries):
            end = self._bytes.find(b"\0", place)
            if end < 0:
                raise ValueError("its words do")
            hashes[entry], places[entry] = hash_bytes(self._bytes[place:end]), place
            place = end + 1 + _ENTRY.size
        order = np.argsort(hashes[:words], kind="stable")
        self._rows, self._hashes, self._places = order, hashes[order], places[order]
        return place, words

    def _read_shape(self, place: int) -> tuple[int, int]:
        """Read the shape of the matrix of inputs: where it begins, and how many rows it has."""
        if self._bytes[place]:
            raise InputError(f"{self.path}: is quantized; give the whole model (.bin)")
        rows, width = _MATRIX.unpack_from(self._bytes, place + 1)
        begin = place + 1 + _MATRIX.size
        if width != self._options.width or begin + 4 * rows * width > len(self._bytes):
            raise ValueError("its matrix does not fit")
        return begin, rows

    def _row(self, row: int) -> Vectors:
        place = self._begin + 4 * self.width * row
        return np.frombuffer(self._bytes[place : place + 4 * self.width], "<f4")

    def _vector(self, word: str) -> Vectors | None:
        sought = word.encode("utf-8", "surrogatepass")
        rows = [*self._find(sought), *(self._parts(sought) if word != _END else ())]
        if not rows:
            return None
        total = np.zeros(self.width, np.float32)
        for row in rows:
            total += self._row(row)
        return total / np.float32(len(rows))

    def _find(self, sought: bytes) -> list[int]:
        """Return the row of a word, in a list; none where the model lacks it."""
        key = hash_bytes(sought)
        first, last = (int(np.searchsorted(self._hashes, key, side)) for side in ("left", "right"))
        for place, row in zip(self._places[first:last], self._rows[first:last], strict=True):
            if self._bytes[place : place + len(sought) + 1] == sought + b"\0":
                return [int(row)]
        return []

    def _parts(self, word: bytes) -> Iterator[int]:
        """List the rows of the parts of a word: by a hash, as fastText does it."""
        options = self._options
        letters = f"<{word.decode('utf-8', 'surrogatepass')}>"
        if options.longest < 1 or options.buckets < 1:
            return
        for start in range(len(letters)):
            most = min(options.longest, len(letters) - start)
            for size in range(max(1, options.shortest), most + 1):
                end = start + size
                mark_alone = size == 1 and (start == 0 or end == len(letters))
                if not mark_alone:
                    part = letters[start:end].encode("utf-8", "surrogatepass")
                    yield self._words + _fnv(part) % options.buckets


def _fnv(part: bytes) -> int:
    """Hash bytes as fastText does: FNV-1a of 32 bits over signed bytes."""
    found = 2166136261
    for byte in part:
        signed = byte | 0xFFFFFF00 if byte > 127 else byte
        found = ((found ^ signed) * 16777619) & 0xFFFFFFFF
    return found
