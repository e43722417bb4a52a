"""Finished documents of a scoring that may be killed: kept as they come, and used when it goes on.

A line is a key, the hash of the text and of all that decides its scores, the hash of the rest, and
the scores as JSON; a line half written at a kill is cut off.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path
from typing import Any, Self

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.storage.outputs import check_output

_SUFFIX = ".journal"


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()


class Journal:
    """The scores of documents beside an output; None: there is none, and nothing is kept."""

    def __init__(self, output: Path | None = None) -> None:
        self.path = None if output is None else output.with_name(output.name + _SUFFIX)
        self.settings: object = None  # all that decides scores, besides the text; JSON-safe
        self._places: dict[bytes, int] = {}  # of each record in the file, by its key
        self._size = self._lost = 0

    def __enter__(self) -> Self:
        if self.path is None:
            return self
        check_output(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise InputError(f"{self.path}: another process scores to this output") from error
        self._reader = open(self.path, "rb")
        for line in self._reader:
            key, whole, content = [*line.rstrip(b"\n").split(b" ", 2), b"", b""][:3]
            if line.endswith(b"\n") and whole == _digest(content):
                self._places[key] = self._size
            elif not line.endswith(b"\n"):
                self._file.truncate(self._size)
                break
            self._size += len(line)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.path is None:
            if kind is not None and self._lost:
                advice = "name a file of scores (per document), beside which they are kept"
                remark(f"{self._lost:,} finished documents are lost; {advice}")
            return
        self._file.close()
        self._reader.close()
        if kind is None or not self._places:
            self.path.unlink(missing_ok=True)
        else:
            kept = (
                f"keeps {len(self._places):,} finished documents; the same call goes on from them"
            )
            remark(f"{self.path}: {kept}")

    def _key(self, text: str) -> bytes:
        return _digest(json.dumps([self.settings, text], sort_keys=True).encode())

    def find(self, text: str) -> TokenScores | None:
        """Return the scores of a text that was scored before."""
        place = self._places.get(self._key(text))
        if place is None:
            return None
        self._reader.seek(place)
        values, starts, tokens, ended = json.loads(self._reader.readline().split(b" ", 2)[2])
        return TokenScores(np.array(values, float), np.array(starts, np.int64), tokens, ended)

    def keep(self, text: str, scores: TokenScores) -> None:
        """Write a record, whole or not at all."""
        if self.path is None:
            self._lost += 1
            return
        held: list[Any] = [one.tolist() for one in scores[:2]]
        content = json.dumps([*held, *scores[2:]]).encode()
        line = b" ".join([self._key(text), _digest(content), content]) + b"\n"
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            self._file.truncate(self._size)
            error.filename = str(self.path)
            raise
        self._places[self._key(text)] = self._size
        self._size += len(line)
