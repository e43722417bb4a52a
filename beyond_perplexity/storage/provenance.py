"""Where a result came from: the run record of a file, and hashes of contents."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from beyond_perplexity import __version__
from beyond_perplexity.errors import InputError
from beyond_perplexity.gpu_use import gpus_used, watch_gpu
from beyond_perplexity.storage.fingerprint import PACKAGE, ROOT, fingerprint
from beyond_perplexity.storage.lineage import inputs_of, note_read

LONGEST_OPTIONS = 100_000  # characters of JSON; of longer options the record has the hash alone


@cache
def git_commit() -> str | None:
    """Return the commit of the checkout, ``+dirty`` when it differs; None without git.

    Of an installed package there is none: the folders around it may be another project's.
    """
    if PACKAGE.parent != ROOT:
        return None
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+dirty", "--abbrev=40"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def content_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: str | Path, expected: str, name: str | None = None) -> None:
    """Check the content of a file.

    Parameters
    ----------
    path : path
        The file.
    expected : str
        Its SHA-256, 64 hexadecimal digits.
    name : str, optional
        What the message calls it; the path by default.

    Raises
    ------
    InputError
        When the SHA-256 differs; names the file, both sums and what the file begins with.
    """
    found = content_hash(path)
    if found != expected.strip().lower():
        with open(path, "rb") as file:
            beginning = file.read(40)
        raise InputError(
            f"{name or path}: SHA-256 is {found}, expected {expected}; "
            f"the file begins with {beginning!r}. "
            "Check the address, or correct sha256 if the file is the right one"
        )


def value_hash(value: object) -> str:
    """Return the SHA-256 of a JSON-serializable value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def hash_bytes(content: bytes) -> int:
    """Hash bytes to a signed 64-bit integer (BLAKE2b), the same on every machine."""
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_record(
    script: str,
    options: dict[str, object],
    *,
    seed: int | None = None,
    device: str = "cpu",
    checkpoint: str | Path | None = None,
) -> dict[str, object]:
    """Start the run record of a step.

    Parameters
    ----------
    script : str
        The script that runs, e.g. ``"scripts/generate.py"``.
    options : dict
        Every option that determines the result; JSON-serializable. Its hash is ``config_hash``.
        Kept in the record up to `LONGEST_OPTIONS`.
    seed : int, optional
        The seed of the random streams, for steps that draw.
    device : str
        The device it runs on.
    checkpoint : path, optional
        The model file whose SHA-256 is recorded, for steps that use a model.

    Returns
    -------
    dict
        JSON-serializable; `finished` adds the end.
    """
    checkpoint_hash = content_hash(checkpoint) if checkpoint else None
    if checkpoint:
        note_read(checkpoint, checkpoint_hash)
    watch_gpu(device)
    short = len(json.dumps(options)) <= LONGEST_OPTIONS
    return {
        "script": script,
        "options": dict(options) if short else None,
        "arguments": _arguments(script),
        "package_version": __version__,
        "git_commit": git_commit(),
        "code_fingerprint": fingerprint(script),
        "config_hash": value_hash(options),
        "checkpoint_hash": checkpoint_hash,
        "seed": seed,
        "host": socket.gethostname(),
        "device": device,
        "start": _now(),
    }


def _arguments(script: str) -> list[str] | None:
    """Return the command line, where the process runs the script; None where it is too long."""
    runs = Path(sys.argv[0]).parts[-2:] == Path(script).parts
    return sys.argv[1:] if runs and sum(map(len, sys.argv)) <= LONGEST_OPTIONS else None


def finished(record: dict[str, object]) -> dict[str, object]:
    """Return the run record with its end, and with what was used of GPUs (``gpus``) if any was."""
    gpus = gpus_used()
    return {**record, "end": _now(), **({"gpus": gpus} if gpus else {})}


def sealed(
    record: dict[str, object], output: str | Path, content: dict[str, object]
) -> dict[str, object]:
    """Return the run record as it goes into an output.

    Parameters
    ----------
    record : dict
        Of `run_record`.
    output : path
        The file that it goes into.
    content : dict
        What is known of what the file holds: ``content_hash`` at least.

    Returns
    -------
    dict
        The record with its end, the file's name, and the hash of every file that was read
        (``inputs``).
    """
    named = {"output": str(output), "inputs": inputs_of(output), **content}
    return {**finished(record), **named}
