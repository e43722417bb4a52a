"""Where a result came from: the code fingerprint of a step and the run record of a file."""

from __future__ import annotations

import ast
import hashlib
import json
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import beyond_perplexity
from beyond_perplexity.errors import InputError

# Modules of rows alone: what a job uses of a row is in its parameters, and the row's own module is
# given to `fingerprint`, so that a further row reruns nothing that does not use it.
TABLES_OF_ROWS = frozenset({"beyond_perplexity.corpus.rows", "beyond_perplexity.decoding.rows"})

PACKAGE = Path(beyond_perplexity.__file__).parent
ROOT = PACKAGE.parent


def _module_file(name: str) -> Path | None:
    """Find the file of an in-package module; None for anything else."""
    if name.split(".")[0] not in (PACKAGE.name, "scripts"):
        return None
    path = ROOT.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None


def _imported(tree: ast.AST) -> Iterator[str]:
    """Name every module that the code may import, at the top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


@cache
def _read_module(path: Path) -> tuple[str, tuple[Path, ...]]:
    """Hash the meaning of one source file and list the in-package files it imports."""
    tree = ast.parse(path.read_bytes(), filename=str(path))
    found: set[Path] = set()
    for name in _imported(tree):
        if any(name == table or name.startswith(f"{table}.") for table in TABLES_OF_ROWS):
            continue
        parts = name.split(".")
        prefixes = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        found |= {file for prefix in prefixes if (file := _module_file(prefix))}
    dump = ast.dump(_without_docstrings(tree))
    return hashlib.sha256(dump.encode()).hexdigest(), tuple(sorted(found))


def fingerprint(script: str | Path, *others: str | Path) -> str:
    """Hash a script together with all in-package modules that it imports, transitively.

    Comments, blank lines, docstrings and formatting do not count: editing them reruns nothing.

    Parameters
    ----------
    script : str or path
        The script, relative to the repository.
    *others : str or path
        Files it uses without naming them in an import, such as the model family of a config.

    Returns
    -------
    str
        16 hexadecimal digits.

    Raises
    ------
    FileNotFoundError
        When there is no such script.
    """
    waiting = [ROOT / path for path in (script, *others)]
    seen = set(waiting)
    while waiting:
        _, imports = _read_module(waiting.pop())
        fresh = set(imports) - seen
        seen |= fresh
        waiting += fresh
    total = hashlib.sha256()
    for path in sorted(seen):
        total.update(f"{path.relative_to(ROOT)}={_read_module(path)[0]}\n".encode())
    return total.hexdigest()[:16]


@cache
def git_commit() -> str | None:
    """Return the commit of the checkout, ``+dirty`` when it differs; None without git."""
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
    return {
        "package_version": beyond_perplexity.__version__,
        "git_commit": git_commit(),
        "code_fingerprint": fingerprint(script),
        "config_hash": value_hash(options),
        "checkpoint_hash": content_hash(checkpoint) if checkpoint else None,
        "seed": seed,
        "host": socket.gethostname(),
        "device": device,
        "start": _now(),
    }


def finished(record: dict[str, object]) -> dict[str, object]:
    """Return the run record with its end time."""
    return {**record, "end": _now()}
