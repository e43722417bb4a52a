"""The one place that opens outputs: checked before the work, whole or not there after it.

The hash of a result's bytes is noted (``manifest/{path}.sha256``, a line of sha256sum), so that
what is edited or removed later is noticed. Jobs that outlive their Snakemake on a cluster write no
output that a later run has claimed.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from beyond_perplexity.errors import InputError, describe_os_error, os_error_number
from beyond_perplexity.storage.provenance import sealed, value_hash

RESULTS = "BEYOND_PERPLEXITY_RESULTS"  # set by the rules: the folder of the results
MANIFEST, SUFFIX = "manifest", ".sha256"
SKIPPED = ("logs", "benchmarks", "checkpoints", MANIFEST)  # folders that hold no results
RUN = "BEYOND_PERPLEXITY_RUN"  # set by the rules: the number of the run that a job is of
CLAIMS = Path(".snakemake/claims.json")  # the number of the newest run that is about an output
_LONGEST_NAME = 255  # bytes, of all file systems in use
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


# ---- before the work ----


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` where a file cannot be written; nothing is left of the check."""
    with _refused():
        target = Path(path)
        if not target.name or target.is_dir():
            raise InputError(f"{path}: is a folder; name a file in it")
        folder = Path(os.path.realpath(target.parent))  # /dev/stdout may lead to a file
        is_device = folder.is_relative_to("/dev") and not folder.is_relative_to("/dev/shm")
        if is_device or folder.is_relative_to("/proc"):
            raise InputError(f"{path}: is no place for files; name one in a folder of yours")
        if target.exists() and not target.is_file():
            raise InputError(f"{path}: is no regular file, and would be replaced; name a file")
        _check_folder(target.parent)


def check_output_folder(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` where no files can be written to a folder; see `check_output`."""
    with _refused():
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError(f"{path}: is a file; name a folder")
        _check_folder(Path(path))


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(describe_os_error(error)) from error


def _check_folder(folder: Path) -> None:
    """Check that a folder, or the first above it that is there, can be written to."""
    there = folder.absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{folder}: {there} is no folder; name another")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: {there} cannot be written to; check its permissions")


# ---- whole or not there ----


@contextmanager
def atomic_path(
    path: str | os.PathLike[str], name: Callable[[Path], Path] | None = None
) -> Iterator[Path]:
    """Give a temporary path for `path`; on success fsync it and rename it, on failure remove it.

    Of several writers the last one to finish is right, but for jobs of an earlier run. It is an
    empty file of the same suffix, to be written to or replaced. `name` gives the final path where
    the content decides on it. Errors name `path`, whichever library wrote.
    """
    target = Path(path)
    check_output(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_path(target) as temporary:
        try:
            mode = temporary.stat().st_mode
            yield temporary
            if temporary.stat().st_mode != mode:  # as safetensors does, which replaces the file
                temporary.chmod(mode)
            with open(temporary, "rb") as written:
                os.fsync(written)
            check_claim(target)
            note_file(temporary, target)
            temporary.replace(name(temporary) if name else target)
        except Exception as error:
            named = _of_target(error, temporary, target)
            if named is None:
                raise
            raise named from error


@contextmanager
def scratch_path(target: Path) -> Iterator[Path]:
    """Make a file for the time being in a folder beside `target`, both removed at the end; the
    folder is locked while its writer lives, so that a killed one's is removed."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME // 2:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    suffix = target.suffix if len(os.fsencode(target.suffix)) < _LONGEST_NAME // 8 else ""
    start, end = f".{name}.", f".partial{suffix}"
    for left in target.parent.glob(f"{glob.escape(start)}{'[0-9a-f]' * 16}{glob.escape(end)}"):
        with suppress(OSError), _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(left)  # nobody writes it: the lock was free
    while True:
        folder = target.with_name(f"{start}{secrets.token_hex(8)}{end}")
        folder.mkdir()
        with _locked(folder) as held:
            if not held:  # another writer took it for left behind before it was locked
                continue
            temporary = folder / f"file{suffix}"
            try:
                temporary.touch(exist_ok=False)
                yield temporary
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def _locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Hold the lock of a folder; say whether the folder is still there."""
    number = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(number, how)
        except OSError:
            if how & fcntl.LOCK_NB:  # somebody writes it, or the file system has no locks
                raise
        yield folder.exists()
    finally:
        os.close(number)


def _of_target(error: Exception, temporary: Path, target: Path) -> OSError | None:
    """Return the error of a library as one that names the target; None for one of another file."""
    if isinstance(error, OSError):
        number = os_error_number(error)
    else:  # the words of safetensors and tokenizers
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = int(found[1]) if found else None
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


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Write a JSON file atomically, with sorted keys, so that equal values give equal bytes; a run
    record in it (``record``) has the hash of everything else."""
    if isinstance(value, dict) and isinstance(record := value.get("record"), dict):
        content = value_hash({key: held for key, held in value.items() if key != "record"})
        value = {**value, "record": sealed(record, Path(path), {"content_hash": content})}
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")


# ---- the manifest ----


def note_file(written: Path, target: Path) -> None:
    """Note what a result will hold, before it gets its name; without a run nothing is noted."""
    results = os.environ.get(RESULTS)
    if results is None:
        return
    name = Path(os.path.relpath(target, results))
    if name.parts[0] in (os.pardir, *SKIPPED):
        return
    with open(written, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    write_text(Path(results, MANIFEST, f"{name}{SUFFIX}"), f"{content}  {name}\n")


def read_notes(tree: Path) -> Iterator[tuple[Path, str]]:
    """Name the files below a folder of results that jobs have made, there or not, with hashes."""
    folders = (folder for folder in (tree, *tree.parents) if (folder / MANIFEST).is_dir())
    if (results := next(folders, None)) is None:
        return
    for note in sorted((results / MANIFEST / tree.relative_to(results)).rglob(f"*{SUFFIX}")):
        name = note.relative_to(results / MANIFEST)
        if any(part.endswith(f".partial{SUFFIX}") for part in name.parts):  # of a killed writer
            continue
        yield results / name.with_suffix(""), note.read_text(errors="replace")[:64]


def forget_files(results: Path, wanted: Iterable[str]) -> None:
    """Remove the notes of files that are gone and that no job makes any more."""
    kept = {os.path.abspath(path) for path in wanted}
    for path, _ in read_notes(results):
        if not path.exists() and os.path.abspath(path) not in kept:
            (results / MANIFEST / f"{path.relative_to(results)}{SUFFIX}").unlink(missing_ok=True)


# ---- the runs that outputs are left to ----


def number_run() -> None:
    """Give this run, for its jobs, a number after those of all that claimed anything: the time."""
    os.environ[RUN] = str(max(time.time_ns(), 1 + max(_claims().values(), default=0)))


def claim(outputs: Iterable[str]) -> None:
    """Leave outputs to this run: jobs of earlier ones that still run write them no more."""
    ours = dict.fromkeys(map(os.path.relpath, outputs), int(os.environ[RUN]))
    write_json(CLAIMS, {**_claims(), **ours})


def check_claim(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` where a later run than that of this job is about an output."""
    if is_left(path):
        raise InputError(f"{path}: is left to a later run; what this earlier job makes is not kept")


def is_left(path: str | os.PathLike[str]) -> bool:
    """Return whether a later run than that of this job is about an output."""
    run = os.environ.get(RUN)
    return run is not None and _claims().get(os.path.relpath(path), 0) > int(run)


def _claims() -> dict[str, int]:
    with suppress(OSError, ValueError):
        return {str(path): int(run) for path, run in json.loads(CLAIMS.read_bytes()).items()}
    return {}
