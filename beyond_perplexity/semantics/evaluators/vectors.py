"""Tables of word vectors: GloVe, word2vec and fastText, as text or binary, packed or not.

gensim reads binary ones into memory. Text is searched once for where each word begins, at 16 bytes
a word, and read for the words asked for: gensim reads none with blanks, as some of GloVe's.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.families import PACKAGES, Options, package_folder
from beyond_perplexity.semantics.measures import NO_WORDS
from beyond_perplexity.semantics.word_cosines import Vectors
from beyond_perplexity.storage import inputs
from beyond_perplexity.storage.provenance import content_hash, hash_bytes
from beyond_perplexity.storage.shards import ParquetInput

_KEPT = 100_000  # vectors of a text that stay in memory, so that frequent words are read once
_HEADER = 64  # bytes: a line with two numbers is no longer
_LONGEST = 1 << 20  # bytes of a line; more is none
_FASTTEXT = (793712314).to_bytes(4, "little")
_PRUNED = slice(84, 92)  # of a model of fastText: −1 where it is whole, not quantized


class VectorTable(ABC):
    """Vectors by word. A word that is not there is looked up in lower case."""

    path: Path
    width: int  # D

    def find(self, words: Sequence[str], exactly: bool = False) -> Vectors:
        """Return vectors, float32 (words, D), NaN where there is none; marks too if `exactly`."""
        found = np.full((len(words), self.width), np.nan, np.float32)
        for place, word in enumerate(words):
            if word in NO_WORDS and not exactly:
                continue
            vector = self.symbol(word)
            if vector is None and not exactly and word != (lower := word.lower()):
                vector = self.symbol(lower)
            if vector is not None:
                found[place] = vector
        return found

    def symbol(self, word: str) -> Vectors | None:
        """Return the vector, (D,), of a word or a mark such as ``</s>``; None: there is none."""
        vector = self._vector(word)
        if vector is not None and not np.isfinite(vector).all():
            wrong = f"{self.path}: the vector of {word!r:.80} has numbers that are NaN or infinite"
            raise InputError(f"{wrong}; fetch the file again")
        return vector

    @property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return content_hash(self.path)

    @abstractmethod
    def _vector(self, word: str) -> Vectors | None:
        """Return the vector, (D,), of just this word, None where there is none."""


class ArrayTable(VectorTable):
    """A matrix in an .npy file, float (words, D), mapped to memory, and its words, of which the
    first row counts; up to `tolerance` more rows or words are left out."""

    def __init__(self, path: str | Path, words: Sequence[str], tolerance: int = 0) -> None:
        self.path = Path(path)
        inputs.refuse_foreign(self.path)
        with inputs.told(f"{path}: is no matrix of NumPy"):
            self._matrix = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if self._matrix.ndim != 2 or self._matrix.dtype.kind != "f":
            held = f"{self._matrix.dtype} of shape {self._matrix.shape}"
            raise InputError(f"{path}: holds {held}, expected a matrix of floats")
        if abs(len(self._matrix) - len(words)) > tolerance:
            raise InputError(f"{path}: has {len(self._matrix):,} rows for {len(words):,} words")
        self.width = self._matrix.shape[1]
        count = min(len(self._matrix), len(words))
        self._rows = {words[row]: row for row in range(count - 1, -1, -1)}

    def _vector(self, word: str) -> Vectors | None:
        row = self._rows.get(word)
        return None if row is None else np.asarray(self._matrix[row], np.float32)


class KeyedTable(VectorTable):
    """What gensim reads: word2vec's binary layout, and whole models of fastText (``.bin``).

    A vector in fastText is the mean of the word's own and its parts', runs of characters between
    ``<`` and ``>``; a word that the model lacks has its parts alone, or no vector. Bojanowski et
    al. (2017), Enriching word vectors with subword information.
    """

    def __init__(self, path: str | Path, fasttext: bool) -> None:
        from gensim.models import KeyedVectors
        from gensim.models.fasttext import load_facebook_vectors

        self.path = Path(path)
        load: Any = load_facebook_vectors
        if not fasttext:
            of_words = KeyedVectors.load_word2vec_format
            load = partial(of_words, binary=True, unicode_errors="replace")
        with inputs.told(f"{path}: gensim cannot read it"):
            self._held: Any = load(str(path))
        self.width = self._held.vector_size

    def _vector(self, word: str) -> Vectors | None:
        try:
            vector = np.asarray(self._held[word], np.float32)
        except KeyError:
            return None
        return vector if word in self._held.key_to_index or vector.any() else None


class TextTable(VectorTable):
    """A text of GloVe's or word2vec's layout, a word and D numbers a line, maybe under a line with
    both numbers; packed ones are unpacked first, and of a repeated word the first vector counts."""

    def __init__(self, path: str | Path, count: int | None, width: int) -> None:
        self.path, self.width = Path(path), width
        self._file = _open_plain(self.path)
        weakref.finalize(self, self._file.close)
        hashes, places = array("q"), array("q")
        for word, place in self._words(0 if count is None else len(self._file.readline())):
            hashes.append(hash_bytes(word))
            places.append(place)
        if not hashes:
            raise InputError(f"{path}: holds no word vectors")
        if count is not None and len(hashes) != count:
            wrong = f"says that it has {count:,} words, but has {len(hashes):,}"
            raise InputError(f"{path}: {wrong}; fetch it again")
        order = np.argsort(np.asarray(hashes), kind="stable")
        self._hashes, self._places = np.asarray(hashes)[order], np.asarray(places)[order]
        self._kept = lru_cache(_KEPT)(self._look_up)

    def _words(self, begin: int) -> Iterator[tuple[bytes, int]]:
        """List the words and where their lines begin."""
        place = begin
        lines = iter(lambda: self._file.readline(_LONGEST), b"")
        for number, line in enumerate(lines, 2 if begin else 1):
            # Some words of GloVe have blanks in them: the last D parts are the numbers.
            word = line.rstrip().rsplit(b" ", self.width)
            if len(word) == self.width + 1:
                yield word[0], place
            elif line.strip():
                wrong = f"line {number} has {len(word) - 1} numbers, but the first has {self.width}"
                raise InputError(f"{self.path}: {wrong}; fetch it again")
            place += len(line)

    def _vector(self, word: str) -> Vectors | None:
        return self._kept(word)

    def _look_up(self, word: str) -> Vectors | None:
        sought = word.encode("utf-8", "surrogatepass")
        key = hash_bytes(sought)
        first, last = (np.searchsorted(self._hashes, key, side) for side in ("left", "right"))
        for place in self._places[first:last].tolist():
            self._file.seek(place)
            held, *numbers = self._file.readline().rstrip().rsplit(b" ", self.width)
            if held == sought:
                with inputs.told(f"{self.path}: the vector of {word!r:.80} is damaged"):
                    return np.array([float(part) for part in numbers], np.float32)
        return None


def _open_plain(path: Path) -> IO[bytes]:
    """Open a file to be read at any place; a packed one is unpacked to a temporary file."""
    packed = inputs.open_input(path, again=True)
    if not inputs.is_packed(packed):
        packed.close()
        return open(path, "rb")
    plain = tempfile.TemporaryFile()  # noqa: SIM115  # closed with its table
    with packed:
        shutil.copyfileobj(packed, plain, 1 << 24)
    plain.seek(0)
    return plain


def open_file(path: str | Path, width: int | None = None) -> VectorTable:
    """Open a file in the layout of GloVe, word2vec (text, binary) or fastText, of a known width."""
    inputs.refuse_foreign(path)
    start = inputs.beginning(path)
    table: VectorTable
    if start.startswith(_FASTTEXT):
        if int.from_bytes(start[_PRUNED], "little", signed=True) >= 0:
            raise InputError(f"{path}: is cut off or quantized; give the whole model (.bin)")
        table = KeyedTable(path, fasttext=True)
    else:
        with inputs.open_input(path, again=True) as file:
            first, second = file.readline(_LONGEST), file.read(1 << 16)
        count, numbers = _read_header(first.rstrip(b"\n"), path)
        if count is not None and not second:
            raise InputError(f"{path}: ends after its first line; fetch it again")
        last = second.split(b"\n", 1)[0].rstrip().split(b" ")[-numbers - 1 :]
        text = len(last) > numbers and all(map(_is_number, last[1:]))  # else a word and float32
        whole = text or count is None
        table = TextTable(path, count, numbers) if whole else KeyedTable(path, fasttext=False)
    if width not in (None, table.width):
        raise InputError(f"{path}: its vectors have {table.width} numbers, expected {width}")
    return table


def _read_header(line: bytes, path: str | Path) -> tuple[int | None, int]:
    """Return the number of words, None where no line says it, and D."""
    parts = line.split()
    if len(line) <= _HEADER and len(parts) == 2 and all(part.isdigit() for part in parts):
        count, width = int(parts[0]), int(parts[1])
    else:  # a word and numbers
        numbers = line.rstrip().split(b" ")[1:]
        count, width = None, len(numbers) if all(map(_is_number, numbers)) else 0
    if width < 1:
        wanted = "expected a word and numbers, or the numbers of words and dimensions"
        fault = f"is no table of word vectors: its first line is {line[:40]!r}"
        raise InputError(f"{path}: {fault}, {wanted}")
    return count, width


def _is_number(part: bytes) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def load_table(options: Options) -> VectorTable:
    """Open the table of ``package``, a key of `PACKAGES`, or ``path``, with ``width`` where it is
    known; an .npy file has its words in ``words.txt`` beside it."""
    package = options.get("package")
    if package:
        folder, files = package_folder(package), PACKAGES[package].files
        if "vectors" not in files:
            raise InputError(f"package: {package} has no word vectors; allowed is glove")
        with ParquetInput(folder / files["words"]) as file:  # of one column
            words: list[str] = file.read().column(0).to_pylist()
        return ArrayTable(folder / files["vectors"], words)
    if not options.get("path"):
        raise InputError("vectors: give path, of a file of word vectors, or package: glove")
    path = Path(options["path"])
    if path.suffix == ".npy":
        names = path.with_name("words.txt")
        if not names.is_file():
            raise InputError(f"{names}: is missing; it has the words of the rows of {path.name}")
        return ArrayTable(path, inputs.read_utf8(names).split("\n")[:-1])
    return open_file(path, options.get("width"))
