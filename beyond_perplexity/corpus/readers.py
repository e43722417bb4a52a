"""What all streaming readers of corpus files share: places, problems, compression, lines.

Every reader holds one chunk or row group at a time. What cannot be read is an `InputError` or,
where the configuration says so, a skip that is counted and listed.
"""

from __future__ import annotations

import importlib.resources
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from beyond_perplexity.corpus.formats import EMBEDDED
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.inputs import DamagedError, check_input, count_lines, open_input

LONGEST_LINE_BYTES = 1 << 26  # as long as a page of a dump may be
CHUNK_BYTES = 1 << 20
LISTED = 20

NumberedLine = tuple[int, str]
"""Number, from 1, and text without its end."""

# The corpora that installed packages ship: name after "embedded:" -> package, path inside it.
EMBEDDED_CORPORA = {
    "enwiki-excerpt": (
        "gensim",
        "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2",
    ),
}


@dataclass
class Skips:
    """What was left out: how often for each reason, and where for the first few."""

    counts: Counter[str] = field(default_factory=Counter)  # occurrences by reason
    # The first `LISTED` places (titles, lines, bytes) by reason
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str, count: int = 1) -> None:
        """Count skips for a reason and list where, unless enough are listed."""
        self.counts[reason] += count
        listed = self.places.setdefault(reason, [])
        if len(listed) < LISTED:
            listed.append(place)

    def merge(self, other: Skips) -> None:
        """Add the skips of a later part of the corpus."""
        self.counts.update(other.counts)
        for reason, places in other.places.items():
            listed = self.places.setdefault(reason, [])
            listed += places[: LISTED - len(listed)]

    def to_json(self) -> dict[str, dict[str, object]]:
        """Return ``{reason: {"count": int, "first": [place, ...]}}``."""
        return {
            reason: {"count": count, "first": self.places[reason]}
            for reason, count in sorted(self.counts.items())
        }


@dataclass
class Problems:
    """What happens on unreadable input: an error, or a skip that is counted."""

    skip: bool  # whether to skip (``on_error: skip``) instead of raising
    skips: Skips = field(default_factory=Skips)  # where skips are counted
    # Lines, by their bytes, or rows, by their metadata, of the files that were read to their end;
    # None: a reader does not say
    held: int | None = None

    def report(self, reason: str, place: str, detail: str) -> None:
        """Raise an `InputError` about this place, or count it when skipping."""
        if not self.skip:
            advice = "repair the input, or set source.on_error to skip"
            raise InputError(f"{place}: {reason} ({detail:.600}); {advice}")
        self.skips.add(reason, place)


def close_account(account: Account, problems: Problems) -> None:
    """Close the account of a file that a reader of this package read."""
    account.left_out.update(problems.skips.counts)
    account.read += problems.skips.counts.total()
    account.close(problems.held)


@dataclass(frozen=True)
class Record:
    """One document as a file gives it."""

    place: str  # file and line or row
    title: str  # empty when the file has none
    text: str  # the raw text, without line breaks
    # The string as the file has it, with all its blanks and line breaks; None: it is `text`
    raw: str | None = None
    # The group of documents that it belongs to; None where none was asked for or it has none
    group: str | None = None

    @property
    def as_it_is(self) -> str:
        """The string as the file has it."""
        return self.text if self.raw is None else self.raw


def resolve_path(name: str) -> Path:
    """Find a source file: a path, or ``embedded:NAME`` for one that an installed package ships."""
    path = Path(name)
    if name.startswith(EMBEDDED):
        known = name.removeprefix(EMBEDDED)
        if known not in EMBEDDED_CORPORA:
            raise InputError(
                f"{name}: no such embedded corpus; there are {', '.join(EMBEDDED_CORPORA)}"
            )
        package, inside = EMBEDDED_CORPORA[known]
        # The package is installed as plain files, so that the resource is a path.
        path = Path(str(importlib.resources.files(package).joinpath(inside)))
    check_input(name if "://" in name else path)
    return path


def read_chunks(path: Path, problems: Problems) -> Iterator[bytes]:
    """Stream the decompressed bytes of a file."""
    try:
        with open_input(path) as file:
            while chunk := file.read1(CHUNK_BYTES):
                yield chunk
            problems.held = (problems.held or 0) + count_lines(file)
    except DamagedError as error:
        problems.report(error.reason, error.place, error.detail)


def _report_length(place: str, problems: Problems) -> None:
    problems.report("line too long", place, f"it has more than {LONGEST_LINE_BYTES:,} bytes")


class _Line:
    """A line as it comes in pieces; what is beyond the limit is not held."""

    def __init__(self, path: Path, number: int) -> None:
        self._path, self.number = path, number
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes, problems: Problems) -> None:
        if not part or self._size > LONGEST_LINE_BYTES:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > LONGEST_LINE_BYTES:
            self._parts.clear()
            _report_length(f"{self._path}: line {self.number}", problems)

    @property
    def is_begun(self) -> bool:
        return self._size > 0

    def decoded(self, problems: Problems) -> Iterator[NumberedLine]:
        if self._size <= LONGEST_LINE_BYTES:
            yield from _decode(self._path, self.number, b"".join(self._parts), problems)


def read_lines(path: Path, problems: Problems) -> Iterator[NumberedLine]:
    """Give the decoded lines of a UTF-8 file with their numbers, which start at 1.

    A line of more than `LONGEST_LINE_BYTES` is reported; see `read_chunks` for the parameters.
    """
    waiting = _Line(path, 1)
    for chunk in read_chunks(path, problems):
        first, *others = chunk.split(b"\n")
        waiting.add(first, problems)
        if not others:
            continue
        yield from waiting.decoded(problems)
        *lines, rest = others
        for number, line in enumerate(lines, waiting.number + 1):
            yield from _decode(path, number, line, problems)
        waiting = _Line(path, waiting.number + len(others))
        waiting.add(rest, problems)
    if waiting.is_begun:
        yield from waiting.decoded(problems)


def _decode(path: Path, number: int, line: bytes, problems: Problems) -> Iterator[NumberedLine]:
    place = f"{path}: line {number}"
    if len(line) > LONGEST_LINE_BYTES:
        _report_length(place, problems)
        return
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {line[error.start]:#04x} at byte {error.start} of the line"
        problems.report("not UTF-8", place, detail)
        return
    if "\0" in text:
        problems.report("holds NUL characters", place, "UTF-16 or binary?")
        return
    yield number, text
