"""Many numbered files as few words: ``samples/{00000..00019}.parquet``.

A command with thousands of paths is longer than the system allows (128 KiB for what a shell is
given). Rules write runs of numbers as ranges, as Bash does; scripts read them back, so that no
shell, nor its version, has a part in it.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_NUMBERED = re.compile(r"(\d+)(\.[^./]*)?$")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}(\.[^./{}]*)?$")


def _split(file: str) -> tuple[str, str, str] | None:
    """Cut a path before and after the number that its name ends with; None where it has none."""
    found = _NUMBERED.search(file)
    return (file[: found.start()], found[1], found[2] or "") if found else None


def as_ranges(files: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Write the paths of numbered files shortly, in their order."""
    words: list[str] = []
    run: list[str] = []  # beginning, first number, last number, ending

    def finish() -> None:
        if run:
            start, first, last, end = run
            words.append(f"{start}{first if first == last else f'{{{first}..{last}}}'}{end}")
            run.clear()

    for file in (os.fspath(path) for path in files):
        parts = _split(file)
        if parts is None:
            finish()
            words.append(file)
            continue
        start, number, end = parts
        alike = run and (start, len(number), end) == (run[0], len(run[2]), run[3])
        if alike and int(number) == int(run[2]) + 1:
            run[2] = number
        else:
            finish()
            run[:] = [start, number, number, end]
    finish()
    return words


def from_ranges(words: Iterable[str]) -> list[str]:
    """Return the paths that `as_ranges` wrote, in their order.

    A file that is really called so is itself.
    """
    return [file for word in words for file in _expand(word)]


def _expand(word: str) -> Iterator[str]:
    found = _RANGE.search(word)
    if found is None or len(found[1]) != len(found[2]) or Path(word).exists():
        yield word
        return
    start, end = word[: found.start()], found[3] or ""
    for number in range(int(found[1]), int(found[2]) + 1):
        yield f"{start}{number:0{len(found[1])}d}{end}"


class FileRanges(argparse.Action):
    """The paths of an option with several values, given as words of `as_ranges` or one by one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep the paths that the words stand for."""
        setattr(namespace, self.dest, from_ranges(values))
