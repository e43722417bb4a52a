"""Which files the process has read so far: what its outputs are made of."""

from __future__ import annotations

import os

_reads: dict[str, str | None] = {}
_writes: set[str] = set()


def note_read(path: str | os.PathLike[str], content: str | None) -> None:
    """Remember that a file was read.

    Parameters
    ----------
    path : path
        The file.
    content : str or None
        The hash of its content; None where it has none, being of somebody else.
    """
    _reads.setdefault(os.fspath(path), content)


def inputs_of(output: str | os.PathLike[str]) -> dict[str, str | None]:
    """Return what was read so far, for the footer of an output; not what was written here too.

    Returns
    -------
    dict of str to str or None
        The hash of the content, by the path as seen from the output's folder: files that move
        together keep finding each other.
    """
    folder = os.path.dirname(os.path.abspath(output))
    _writes.add(os.path.abspath(output))
    return {
        os.path.relpath(path, folder): content
        for path, content in sorted(_reads.items())
        if os.path.abspath(path) not in _writes
    }


def forget_reads() -> None:
    """Forget what was read and written, where one process does the work of several."""
    _reads.clear()
    _writes.clear()
