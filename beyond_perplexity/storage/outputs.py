"""The one place that opens outputs: checked before the work, whole or not there after it."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import platform
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from beyond_perplexity.errors import InputError, describe_os_error, os_error_number

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


RESULTS = "BEYOND_PERPLEXITY_RESULTS"  # set by the rules: the folder of the results
MANIFEST = "manifest"
SUFFIX = ".sha256"
SKIPPED = ("logs", "benchmarks", "checkpoints", MANIFEST)  # folders that hold no results


def note_file(written: Path, target: Path) -> None:
    """Note what a result will hold, before it gets its name; without a run nothing is noted."""
    results = os.environ.get(RESULTS)
    if results is None:
        return
    name = Path(os.path.relpath(target, results))
    if name.parts[0] in (os.pardir, *SKIPPED):
        return
    from beyond_perplexity.storage.outputs import write_text

    with open(written, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    write_text(Path(results, MANIFEST, f"{name}{SUFFIX}"), f"{content}  {name}\n")


def read_notes(tree: Path) -> Iterator[tuple[Path, str]]:
    """Name the files below a folder that jobs have made, there or not, with their hashes.

    Parameters
    ----------
    tree : pathlib.Path
        A folder of results, or any folder below it.
    """
    folders = (folder for folder in (tree, *tree.parents) if (folder / MANIFEST).is_dir())
    if (results := next(folders, None)) is None:
        return
    for note in sorted((results / MANIFEST / tree.relative_to(results)).rglob(f"*{SUFFIX}")):
        name = note.relative_to(results / MANIFEST)
        yield results / name.with_suffix(""), note.read_text(errors="replace")[:64]


def forget_files(results: Path, wanted: Iterable[str]) -> None:
    """Remove the notes of files that are gone and that no job makes any more."""
    kept = {os.path.abspath(path) for path in wanted}
    for path, _ in read_notes(results):
        if not path.exists() and os.path.abspath(path) not in kept:
            (results / MANIFEST / f"{path.relative_to(results)}{SUFFIX}").unlink(missing_ok=True)


RUN = "BEYOND_PERPLEXITY_RUN"  # set by the rules: the number of the run that a job is of
CLAIMS = Path(".snakemake/claims.json")  # the number of the newest run that is about an output


def number_run() -> None:
    """Give this run, for its jobs, a number after those of all that claimed anything: the time."""
    os.environ[RUN] = str(max(time.time_ns(), 1 + max(_claims().values(), default=0)))


def claim(outputs: Iterable[str]) -> None:
    """Leave outputs to this run: jobs of earlier ones that still run write them no more."""
    from beyond_perplexity.storage.outputs import write_json

    ours = dict.fromkeys(map(os.path.relpath, outputs), int(os.environ[RUN]))
    write_json(CLAIMS, {**_claims(), **ours})


def check_claim(path: str | os.PathLike[str]) -> None:
    """Check that an output is left to the run that this job is of.

    Raises
    ------
    InputError
        When a later run is about it.
    """
    if is_left(path):
        raise InputError(
            f"{path}: is left to a later run; what this job of an earlier one makes is not kept"
        )


def is_left(path: str | os.PathLike[str]) -> bool:
    """Return whether a later run than that of this job is about an output."""
    run = os.environ.get(RUN)
    return run is not None and _claims().get(os.path.relpath(path), 0) > int(run)


def _claims() -> dict[str, int]:
    with suppress(OSError, ValueError):
        return {str(path): int(run) for path, run in json.loads(CLAIMS.read_bytes()).items()}
    return {}
