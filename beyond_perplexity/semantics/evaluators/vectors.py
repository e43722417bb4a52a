"""Tables of word vectors: GloVe, word2vec and fastText, as text or binary, packed or not.

Only the vectors of the words that are asked for are read, so memory does not grow with the table:
it is searched once for where each word begins, and of that an array of 16 bytes a word is kept.
D numbers a vector.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.aligned import Vectors
from beyond_perplexity.semantics.evaluators.fasttext import MAGIC, FastTextTable
from beyond_perplexity.semantics.evaluators.foreign import beginning, refuse_foreign
from beyond_perplexity.semantics.evaluators.packages import package_folder
from beyond_perplexity.semantics.evaluators.rows import PACKAGES
from beyond_perplexity.semantics.evaluators.vector_table import VectorTable
from beyond_perplexity.storage.inputs import is_packed, open_input, read_utf8, said
from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.storage.shards import ParquetInput

_KEPT = 100_000  # vectors of a file that stay in memory, so that frequent words are read once
_HEADER = 64  # bytes: a line with two numbers is no longer
_LONGEST = 1 << 20  # bytes of a word or a line; more is none


class ArrayTable(VectorTable):
    """A matrix in an .npy file, mapped to memory, and the words of its rows.

    Parameters
    ----------
    path : path
        float, (words, D).
    words : sequence of str
        One a row; of a word that stands twice the first row counts.
    tolerance : int
        How many more rows or words there may be; what is beyond the shorter of both is left out.

    Raises
    ------
    InputError
        When the file is no such matrix, or has not a row a word.
    """

    def __init__(
        self, path: str | os.PathLike[str], words: Sequence[str], tolerance: int = 0
    ) -> None:
        self.path = Path(path)
        refuse_foreign(self.path)
        try:
            self._matrix = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: is no matrix of NumPy ({said(error)})") from error
        if self._matrix.ndim != 2 or self._matrix.dtype.kind != "f":
            raise InputError(f"{path}: holds {self._matrix.dtype} of shape {self._matrix.shape}, "
                             "expected a matrix of floats")  # fmt: skip
        if abs(len(self._matrix) - len(words)) > tolerance:
            raise InputError(f"{path}: has {len(self._matrix):,} rows for {len(words):,} words")
        self.width = self._matrix.shape[1]
        count = min(len(self._matrix), len(words))
        self._rows = {words[row]: row for row in range(count - 1, -1, -1)}

    def _vector(self, word: str) -> Vectors | None:
        row = self._rows.get(word)
        return None if row is None else np.asarray(self._matrix[row], np.float32)


class FileTable(VectorTable):
    """A file in the layout of word2vec or GloVe.

    text: a word and D numbers a line, separated by blanks; a first line with the numbers of words
    and of D may be there or not. binary: that line, then for each word its bytes, a blank and D
    float32. A packed file is unpacked to the folder for temporary files first. Of a word that
    stands twice the first vector counts.

    Parameters
    ----------
    path : path
    width : int, optional
        D, where it is known; another one is an error.

    Raises
    ------
    InputError
        When the file cannot be read, is something else, or is damaged: names the word or the line.
    """

    def __init__(self, path: str | os.PathLike[str], width: int | None = None) -> None:
        self.path = Path(path)
        refuse_foreign(self.path)
        self._file = _open_plain(self.path)
        weakref.finalize(self, self._file.close)
        self._kept: dict[str, Vectors] = {}
        self._size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        start = self._file.read(1 << 16)
        count, self.width = _read_header(start, self.path)
        begin = start.find(b"\n") + 1 if count is not None else 0
        if count is not None and not begin:
            raise InputError(f"{path}: ends after its first line; fetch it again")
        self.binary = count is not None and _is_binary(start[begin:], self.width)
        self._file.seek(begin)
        found = self._binary_words(count or 0) if self.binary else self._text_words(begin)
        hashes, places = array("q"), array("q")
        for word, place in found:
            hashes.append(hash_bytes(word))
            places.append(place)
        if not hashes:
            raise InputError(f"{path}: holds no word vectors")
        if count is not None and len(hashes) != count:
            raise InputError(
                f"{path}: says that it has {count:,} words, but has {len(hashes):,}; fetch it again"
            )
        if width is not None and width != self.width:
            raise InputError(f"{path}: its vectors have {self.width} numbers, expected {width}")
        order = np.argsort(np.asarray(hashes), kind="stable")
        self._hashes, self._places = np.asarray(hashes)[order], np.asarray(places)[order]

    def _text_words(self, begin: int) -> Iterator[tuple[bytes, int]]:
        place, blanks = begin, self.width
        lines = iter(lambda: self._file.readline(_LONGEST), b"")
        for number, line in enumerate(lines, 2 if begin else 1):
            # Some words of GloVe have blanks in them: the last D parts are the numbers.
            word = line.rstrip().rsplit(b" ", blanks)
            if len(word) == blanks + 1:
                yield word[0], place
            elif line.strip():
                raise InputError(
                    f"{self.path}: line {number} has {len(word) - 1} numbers, but the first has "
                    f"{blanks}; fetch it again"
                )
            place += len(line)

    def _binary_words(self, count: int) -> Iterator[tuple[bytes, int]]:
        size = 4 * self.width
        if size > self._size:
            raise InputError(f"{self.path}: is too short for vectors of {self.width:,} numbers")
        for number in range(1, count + 1):
            place, word = self._file.tell(), self._next_word()
            if word is None:
                raise InputError(f"{self.path}: ends or is damaged at word {number:,}")
            if len(self._file.read(size)) != size:
                raise InputError(f"{self.path}: ends within the vector of word {number:,}")
            yield word, place

    def _next_word(self) -> bytes | None:
        """Read a word of a binary file with the blank after it; None where there is none."""
        word = bytearray()
        while (letter := self._file.read(1)) != b" ":
            word += letter
            if not letter or len(word) > _LONGEST:
                return None
        return bytes(word).lstrip(b"\n")

    def _vector(self, word: str) -> Vectors | None:
        if word in self._kept:
            return self._kept[word]
        sought = word.encode("utf-8", "surrogatepass")
        key = hash_bytes(sought)
        first, last = (
            np.searchsorted(self._hashes, key),
            np.searchsorted(self._hashes, key, "right"),
        )
        for place in self._places[first:last]:
            held, vector = self._read(int(place))
            if held == sought:
                if len(self._kept) >= _KEPT:
                    self._kept.clear()
                self._kept[word] = vector
                return vector
        return None

    def _read(self, place: int) -> tuple[bytes, Vectors]:
        self._file.seek(place)
        if self.binary:
            held = self._next_word() or b""
            return held, np.frombuffer(self._file.read(4 * self.width), "<f4").astype(np.float32)
        parts = self._file.readline().rstrip().rsplit(b" ", self.width)
        try:
            return parts[0], np.array([float(part) for part in parts[1:]], np.float32)
        except ValueError as error:
            word = parts[0].decode(errors="replace")
            raise InputError(
                f"{self.path}: the vector of {word!r:.80} is damaged ({said(error)})"
            ) from error


def _open_plain(path: Path) -> IO[bytes]:
    """Open a file to be read at any place; a packed one is unpacked to a temporary file."""
    packed = open_input(path, again=True)
    if not is_packed(packed):
        packed.close()
        return open(path, "rb")
    with packed, ExitStack() as stack:
        plain = stack.enter_context(tempfile.TemporaryFile())
        shutil.copyfileobj(packed, plain, 1 << 24)
        stack.pop_all()
    plain.seek(0)
    return plain


def _read_header(start: bytes, path: Path) -> tuple[int | None, int]:
    """Return the number of words, None where no line says it, and D."""
    line = start.split(b"\n", 1)[0]
    parts = line.split()
    if len(line) <= _HEADER and len(parts) == 2 and all(part.isdigit() for part in parts):
        count, width = int(parts[0]), int(parts[1])
    else:
        count, width = None, len(line.rstrip().split(b" ")) - 1
        # The first line of a file without a header: a word and numbers.
        numbers = line.split(b" ")[1:]
        if not all(_is_number(part) for part in numbers):
            width = 0
    if width < 1:
        raise InputError(
            f"{path}: is no table of word vectors: its first line is {line[:40]!r}, expected a "
            "word and numbers, or the numbers of words and dimensions"
        )
    return count, width


def _is_number(part: bytes) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def _is_binary(start: bytes, width: int) -> bool:
    """Tell whether words and float32 follow a first line, not a line of text a word."""
    line = start.split(b"\n", 1)[0].rstrip().split(b" ")
    return not (len(line) > width and all(_is_number(part) for part in line[-width:]))


def _packaged_words(path: Path) -> list[str]:
    """Read the words of a package's table: the one column of a Parquet file."""
    with ParquetInput(path) as file:
        words: list[str] = file.read().column(0).to_pylist()
    return words


def load_table(options: Mapping[str, Any]) -> VectorTable:
    """Open a table of word vectors.

    Parameters
    ----------
    options : mapping
        ``package``, a key of `PACKAGES`; or ``path``, of a file, and ``sha256``, ``width``, where
        they are known.

    Raises
    ------
    InputError
        When it cannot be read, or is not what it should be.
    """
    package = options.get("package")
    if package:
        folder, files = package_folder(package), PACKAGES[package].files
        if "vectors" not in files:
            raise InputError(f"package: {package} has no word vectors; allowed is glove")
        return ArrayTable(folder / files["vectors"], _packaged_words(folder / files["words"]))
    if not options.get("path"):
        raise InputError("vectors: give path, of a file of word vectors, or package: glove")
    path = Path(options["path"])
    if path.suffix == ".npy":
        names = path.with_name("words.txt")
        if not names.is_file():
            raise InputError(f"{names}: is missing; it has the words of the rows of {path.name}")
        return ArrayTable(path, read_utf8(names).split("\n")[:-1])
    if beginning(path).startswith(MAGIC):
        table = FastTextTable(path)
        if options.get("width") not in (None, table.width):
            wanted = options["width"]
            raise InputError(f"{path}: its vectors have {table.width} numbers, expected {wanted}")
        return table
    return FileTable(path, options.get("width"))
