"""The one place that opens what a user gives: what it is packed by, and why it cannot be read."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import re
import reprlib
import shutil
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from beyond_perplexity.errors import InputError

INPUT_BYTES = 1 << 20
PACKED = (".gz", ".bz2", ".xz", ".zst")  # endings of names of what is unpacked

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a path makes one slash of two
_USER = re.compile(r"^(\w+://)[^/@]*@")
_SECRET = "token|key|sig|secret|passw|credential"
_SECRET_QUERY = re.compile(rf"([?&][^=&]*(?:{_SECRET})[^=&]*=)[^&]*", re.IGNORECASE)
_MARK = b"\xef\xbb\xbf"  # of the order of bytes, as some editors write it
_LONGEST_NAME = 300  # characters of a path that a message shows
_LONGEST_SAID = 200  # and of what a library says
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)
_PACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"BZh": bz2.BZ2File,
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(file, "zstd"),
}
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive; unpack it, or name its member where a configuration has an url",
    b"PAR1\x15": "a Parquet file; give it a name that ends in .parquet",
}


class DamagedError(InputError):
    """A file that breaks off or holds nonsense."""

    def __init__(self, place: str, reason: str, detail: str) -> None:
        super().__init__(f"{place}: {reason} ({detail}); fetch or make it again")
        self.place, self.reason, self.detail = place, reason, detail


def said(error: Exception) -> str:
    """Return what a library says, in one line that is not too long: it may quote the file."""
    return " ".join(str(error).split() or [repr(error)])[:_LONGEST_SAID]


@contextmanager
def told(
    wrong: str, advice: str = "", kinds: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Turn what a library raises into an `InputError`: what is wrong, what it says, what to do."""
    try:
        yield
    except kinds as error:
        raise InputError(f"{wrong} ({said(error)}){advice}") from error


def is_url(name: str) -> bool:
    """Tell a URL, such as ``https://…``, from a path."""
    return bool(_URL.match(name))


def without_secrets(url: str) -> str:
    """Leave user name and password, and what a query calls a key, out of a URL."""
    return _SECRET_QUERY.sub(r"\1…", _USER.sub(r"\1…@", url))


def unreadable(path: object, error: OSError) -> InputError:
    """Say in one line why the system does not give a file."""
    name = without_secrets(str(path))
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
    if is_url(name):
        advice = "fetch it first, or give url and sha256 in a configuration"
        return InputError(f"{shown}: is a URL, not a file; {advice}")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{shown}: cannot be read (is a folder, expected a file)")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        where = "; standard input is /dev/stdin" if name == "-" else ""
        return InputError(f"{shown}: no such file{where}")
    reason = error.strerror or said(error)
    return InputError(f"{shown}: cannot be read ({reason}); check the file and who may read it")


def check_input(path: str | os.PathLike[str], *, again: bool = False) -> None:
    """Raise `InputError` unless there is something to read; `again`: a pipe will not do."""
    if "\0" in os.fspath(path):
        raise InputError(f"{os.fspath(path)!r}: is no path, it has a NUL character; check the path")
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise unreadable(path, error) from error
    if stat.S_ISDIR(mode):
        raise unreadable(path, IsADirectoryError())
    if again and not stat.S_ISREG(mode):
        advice = "this kind of file is read at several places: write it to a file first"
        raise InputError(f"{path}: is a pipe or a device, which gives its content once; {advice}")


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of an input; whatever reading raises is an `InputError`."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self._position = self._breaks = 0
        self._in_line = False
        self._source = _unpack(path, file)

    @property
    def packed(self) -> bool:
        """Whether there is anything to unpack."""
        return self._source is not self._file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            # read1: a plain read loses what it has gathered when the archive breaks off
            data = self._source.read1(len(buffer))
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self._path, error) from error
            place = f"{self._path}: decompressed byte {self._position}"
            raise DamagedError(place, "truncated or damaged archive", said(error)) from error
        buffer[: len(data)] = data
        self._position += len(data)
        self._breaks += data.count(b"\n")
        if data:
            self._in_line = not data.endswith(b"\n")
        return len(data)

    @property
    def lines(self) -> int:
        """How many lines have been unpacked so far; the last may have no line feed."""
        return self._breaks + self._in_line

    def close(self) -> None:
        self._file.close()
        super().close()


def _unpack(path: Path, file: IO[bytes]) -> Any:
    """Say by its first bytes what a file is packed by, and unpack it."""
    start = cast(io.BufferedReader, file).peek(8)
    for magic, unpacked in _PACKERS.items():
        if start.startswith(magic):
            return unpacked(file)
    for magic, what in _OTHER_KINDS.items():
        if start.startswith(magic):
            raise InputError(f"{path}: is {what}")
    return file


def open_input(path: str | os.PathLike[str], *, again: bool = False) -> io.BufferedReader:
    """Open a file for reading, unpacked by its first bytes (gzip, bz2, xz, zstandard); a pipe can
    be read once, with `again` not at all; a broken archive ends with `DamagedError`."""
    check_input(path, again=again)
    try:
        with ExitStack() as stack:
            file = stack.enter_context(open(path, "rb", buffering=INPUT_BYTES))
            opened: io.BufferedReader = io.BufferedReader(_Unpacked(Path(path), file), INPUT_BYTES)
            stack.pop_all()
            return opened
    except OSError as error:
        raise unreadable(path, error) from error


def is_packed(file: io.BufferedReader) -> bool:
    """Tell whether a file of `open_input` is unpacked as it is read."""
    return isinstance(file.raw, _Unpacked) and file.raw.packed


def count_lines(file: io.BufferedReader) -> int:
    """Count by their bytes the lines that have been read of a file of `open_input`."""
    return file.raw.lines if isinstance(file.raw, _Unpacked) else 0


def copy_member(path: str | os.PathLike[str], member: str, target: IO[bytes]) -> None:
    """Unpack one member of a zip archive, part by part."""
    check_input(path, again=True)
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as source:
            shutil.copyfileobj(source, target, INPUT_BYTES)
    except KeyError as error:
        raise InputError(f"{path}: no zip archive with a member '{member}'") from error
    except (NotImplementedError, RuntimeError, zipfile.BadZipFile, *_DAMAGE) as error:
        # A damaged archive lets Python look before its beginning.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        wrong = f"{path}: member '{member}' cannot be unpacked ({said(error)})"
        raise InputError(f"{wrong}; fetch the archive again, or unpack it by hand") from error


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Read a file that is held whole, unpacked."""
    with open_input(path) as file:
        return file.read()


def read_utf8(path: str | os.PathLike[str]) -> str:
    """Read a text that is held whole, without a byte order mark; see `read_whole`."""
    content = read_whole(path).removeprefix(_MARK)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: is not UTF-8; convert the file") from error


_SHOWN = 80  # characters of a foreign value in a message


class JSONTextError(ValueError):
    """A text that is no JSON, or has what no reader takes; one line, and where it is, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def parse_json(text: str | bytes) -> Any:
    """Read a JSON text, bytes as UTF-8, floats also NaN or infinite, which Python itself writes;
    one at fault, too deeply nested or with too many digits raises `JSONTextError`."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except RecursionError as error:
        raise JSONTextError("its brackets are nested too deeply") from error
    except json.JSONDecodeError as error:
        raise JSONTextError(str(error), error.lineno) from error
    except UnicodeDecodeError as error:
        raise JSONTextError(f"it is not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        digits = sys.get_int_max_str_digits()
        raise JSONTextError(f"it has a whole number of more than {digits} digits") from error


def parse_object(text: str | bytes, place: str, advice: str) -> dict[str, Any]:
    """Read a JSON object that stands in a file; place and advice are for the message."""
    try:
        value = parse_json(text)
    except JSONTextError as error:
        raise InputError(f"{place} is no JSON ({error}); {advice}") from error
    if not isinstance(value, dict):
        raise InputError(f"{place} is no JSON object; {advice}")
    return value


def read_json(path: str | os.PathLike[str], what: str, advice: str) -> Any:
    """Read a JSON file, which should be a `what`, such as "vocabulary file"."""
    content = read_whole(path)
    try:
        return parse_json(content)
    except JSONTextError as error:
        raise InputError(f"{path}: is no {what}: it is no JSON ({error}); {advice}") from error


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, _SHOWN, _SHOWN

    def repr_int(self, x: int, level: int) -> str:  # of very many digits Python writes none
        return repr(x) if x.bit_length() < 300 else f"<a whole number of {x.bit_length()} bits>"


def brief_repr(value: object) -> str:
    """Show a foreign value in a message, in some characters and little work, three levels deep."""
    return f"{_Brief().repr(value):.{_SHOWN}}"


_PAGES = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<error")
_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_LFS = b"version https://git-lfs"


def beginning(path: str | os.PathLike[str], count: int = 512) -> bytes:
    """Return the first bytes of a file that is there and not empty."""
    check_input(path, again=True)
    try:
        with open(path, "rb") as file:
            start = file.read(count)
    except OSError as error:
        raise unreadable(path, error) from error
    if not start:
        raise InputError(f"{path}: is empty; fetch it again")
    return start


def refuse_page(path: str | os.PathLike[str]) -> bytes:
    """Refuse a page of HTML in place of a file, and a pointer of Git LFS; return the beginning."""
    start = beginning(path)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PAGES):
        fault = "the URL has moved or asks for a login; fetch it from where it is now"
        raise InputError(f"{path}: is a page of HTML, not the file that was wanted: {fault}")
    if start.startswith(_LFS):
        raise InputError(f"{path}: is a pointer of Git LFS, not the file itself; run: git lfs pull")
    return start


def refuse_foreign(path: str | os.PathLike[str]) -> bytes:
    """Refuse, besides what `refuse_page` does, a pickle and an archive; return the beginning."""
    start = refuse_page(path)
    if start.startswith(_PICKLES):
        advice = "give the weights in the layout that the documentation names"
        raise InputError(f"{Path(path)}: is a pickle, which runs code when it is read; {advice}")
    if start.startswith(b"PK\x03\x04"):
        raise InputError(f"{Path(path)}: is a zip archive; unpack it, or name its member")
    return start
