"""The one place that opens outputs: checked before the work, whole or not there after it."""

from __future__ import annotations

import errno
import glob
import json
import os
import platform
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from beyond_perplexity.errors import InputError, describe_os_error, os_error_number
from beyond_perplexity.storage.manifest import note_file
from beyond_perplexity.storage.outlived import check_claim

SILENT_SECONDS = 86_400.0
_HOST = re.sub(r"\W", "-", platform.node()) or "host"
_LONGEST_NAME = 255  # bytes, of all file systems in use
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def check_output(path: str | os.PathLike[str]) -> None:
    """Check, without leaving anything, that a file can be written.

    Parameters
    ----------
    path : path
        Of a file that may be there, in a folder that may be missing.

    Raises
    ------
    InputError
        When it is a folder or a device, its name is too long, or its folder cannot be made or
        written to or has no room.
    """
    target = Path(path)
    _check_name(target)
    try:
        if target.is_dir():
            raise InputError(f"{path}: is a folder; name a file in it")
        if _is_of_the_system(target):
            raise InputError(f"{path}: is no place for files; name one in a folder of yours")
        if target.exists() and not target.is_file():
            raise InputError(f"{path}: is no regular file, and would be replaced; name a file")
        _check_folder(target.parent)
    except OSError as error:
        raise InputError(describe_os_error(error)) from error


def check_output_folder(path: str | os.PathLike[str]) -> None:
    """Check, without leaving anything, that files can be written to a folder.

    Raises
    ------
    InputError
        As for `check_output`; also when it is a file.
    """
    folder = Path(path)
    _check_name(folder.absolute() if os.fspath(path) else folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{path}: is a file; name a folder")
        _check_folder(folder)
    except OSError as error:
        raise InputError(describe_os_error(error)) from error


def _check_name(path: Path) -> None:
    if not path.name:
        raise InputError(f"{str(path)!r}: names no file; give its path")
    for part in path.parts:
        if len(os.fsencode(part)) > _LONGEST_NAME:
            raise InputError(
                f"{path}: a name in it has {len(os.fsencode(part))} bytes; give one of at most "
                f"{_LONGEST_NAME}"
            )


def _is_of_the_system(path: Path) -> bool:
    """Tell what leads to a device or a stream: /dev/stdout may lead to a file, and is none."""
    folder = Path(os.path.realpath(path.parent))
    if folder.is_relative_to("/dev/shm"):  # a file system in memory
        return False
    return any(folder.is_relative_to(top) for top in ("/dev", "/proc"))


def _check_folder(folder: Path) -> None:
    """Check that a folder, or the first above it that is there, can be written to."""
    there = folder.absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{folder}: {there} is no folder; name another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: {there} cannot be written to; check its permissions")
    held = os.statvfs(there)
    free = held.f_bfree if os.geteuid() == 0 else held.f_bavail
    if (held.f_blocks and not free) or (held.f_files and not held.f_ffree):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@contextmanager
def atomic_path(
    path: str | os.PathLike[str], name: Callable[[Path], Path] | None = None
) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success fsync it and rename it, on failure remove it.

    Several processes may write the same file: the last one to finish is right, but for jobs of an
    earlier run (`outlived.check_claim`). What a killed process left of it is removed.

    Parameters
    ----------
    path : path
        The final path; its folder is made when it is missing.
    name : callable, optional
        Where the content decides on it: the final path, by the finished temporary one.

    Yields
    ------
    pathlib.Path
        An empty file, in the same folder and with the same suffix, to be written to or replaced.

    Raises
    ------
    InputError
        When the path cannot be an output (see `check_output`), or is left to a later run.
    OSError
        When writing fails; it names `path`, whichever library was writing.
    """
    target = Path(path)
    check_output(target)
    temporary = _temporary(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        temporary.write_bytes(b"")
        mode = temporary.stat().st_mode
        yield temporary
        if temporary.stat().st_mode != mode:  # as safetensors does, which replaces the file
            temporary.chmod(mode)
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        check_claim(target)
        note_file(temporary, target)
        temporary.replace(name(temporary) if name else target)
    except Exception as error:
        named = _of_target(error, temporary, target)
        if named is None:
            raise
        raise named from error
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # there is no such folder either; what failed before says why
        if os.path.lexists(path):
            raise


def _temporary(target: Path) -> Path:
    start, end = _around(target)
    return target.with_name(f"{start}{_HOST}.{os.getpid()}-{threading.get_native_id()}{end}")


def _around(target: Path) -> tuple[str, str]:
    """Return how the names of a target's temporary files begin and end; they have room for more."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME // 2:
        name = blake2b(os.fsencode(name), digest_size=16).hexdigest()
    suffix = target.suffix if len(os.fsencode(target.suffix)) < _LONGEST_NAME // 8 else ""
    return f".{name}.", f".partial{suffix}"


def _of_target(error: Exception, temporary: Path, target: Path) -> OSError | None:
    """Return the error of a library as one that names the target; None for one of another file."""
    number = os_error_number(error) if isinstance(error, OSError) else _rust_number(error)
    if number is None:
        return None
    held = getattr(error, "filename", None)
    if held is None and number in _OF_WRITING:
        spilled = number in (errno.ENOSPC, errno.EDQUOT)
        name = f"{target}, or a file in {tempfile.gettempdir()}" if spilled else str(target)
    elif held is not None and os.fspath(held) in (str(temporary), os.fsencode(temporary)):
        name = str(target)
    else:
        return None
    return OSError(number, os.strerror(number), name)


def _rust_number(error: Exception) -> int | None:
    """Read the number of a system's error from the words of safetensors and tokenizers."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files of a target whose processes are no more.

    Of another machine's processes nothing is known: a file of theirs counts as left when nothing
    was written to it for `SILENT_SECONDS`.
    """
    start, end = _around(target)
    for left in target.parent.glob(f"{glob.escape(start)}*{glob.escape(end)}"):
        writer = left.name.removeprefix(start).removesuffix(end)
        found = re.fullmatch(r"([^.]+)\.(\d+)-\d+", writer)
        if found is None:
            continue
        if found[1] == _HOST:
            dead = not _is_running(int(found[2]))
        else:
            dead = _silent_seconds(left) > SILENT_SECONDS
        if dead:
            left.unlink(missing_ok=True)


def _silent_seconds(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # its writer has just finished
        return 0.0


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


@contextmanager
def scratch_path(path: Path) -> Iterator[Path]:
    """Give a path beside `path` for the time being; it is removed, however the work ends.

    If the process is killed, by the next one that asks for the same.
    """
    temporary = _temporary(path)
    _remove_leftovers(path)
    try:
        yield temporary
    finally:
        _remove(temporary)


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Write a JSON file atomically, with sorted keys, so that equal values give equal bytes.

    A run record in it (``record``) is given the hash of everything else.
    """
    if isinstance(value, dict) and isinstance(record := value.get("record"), dict):
        from beyond_perplexity.storage.provenance import sealed, value_hash

        content = value_hash({key: held for key, held in value.items() if key != "record"})
        value = {**value, "record": sealed(record, Path(path), {"content_hash": content})}
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
