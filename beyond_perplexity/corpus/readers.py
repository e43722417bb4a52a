"""What all streaming readers of corpus files share: places, problems, compression, lines, records.

Every reader holds one chunk or row group at a time. What cannot be read is an `InputError` or,
where the configuration says so, a skip that is counted and listed. The tokens of an annotated
corpus are the annotators': they are never tokenized again.
"""

from __future__ import annotations

import importlib.resources
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from beyond_perplexity.corpus.extraction_options import SourceOptions
from beyond_perplexity.corpus.formats import EMBEDDED
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage import inputs
from beyond_perplexity.storage.accounts import Account

LONGEST_LINE_BYTES = 1 << 26  # as long as a page of a dump may be
CHUNK_BYTES = 1 << 20
LISTED = 20

NumberedLine = tuple[int, str]  # number, from 1, and text without its end

Span = tuple[int, int, str]  # of a mention: tokens [start, end) and its entity

# Of a mention: tokens [start, end), its entity, and the source that says so.
Mention = tuple[int, int, str, str]

PLACEHOLDER = "_"

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
        counts = sorted(self.counts.items())
        return {reason: {"count": n, "first": self.places[reason]} for reason, n in counts}


class UnusableError(ValueError):
    """A value that is no document; the message says why."""


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

    @contextmanager
    def unusable(self, reason: str, place: str) -> Iterator[None]:
        """Report what is unusable of what is read inside."""
        try:
            yield
        except UnusableError as error:
            self.report(reason, place, str(error))


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


@dataclass
class Annotated:
    """One document with its tokens and annotations, as a file gives it."""

    place: str  # file and line where it begins
    title: str  # name of the document; documents of the same title are of one page
    # The words, none of them empty or with white space inside (see `single_word`)
    tokens: list[str]
    # Token span [start, end), entity, source, in the order of the text
    mentions: list[Mention] = field(default_factory=list)
    # Number of the sentence in the document, tree in the form of `penn`; sentences follow each
    # other without gaps, and the leaves of all trees are the tokens unless trees were skipped
    trees: list[tuple[int, str]] = field(default_factory=list)
    # What the reader counted in it, for the report
    counts: Counter[str] = field(default_factory=Counter)


class AnnotatedReader(ABC):
    """A reader of one annotated format; one instance reads all files of a corpus.

    Parameters
    ----------
    source : SourceOptions
        The options of the corpus.
    problems : Problems
        Where malformed input is reported.
    """

    def __init__(self, source: SourceOptions, problems: Problems) -> None:
        self.source = source
        self.problems = problems

    @abstractmethod
    def read(self, path: Path) -> Iterator[Annotated]:
        """Stream the documents of one file."""

    def triples(self) -> Iterable[tuple[str, str, str]]:
        """Give the knowledge graph (subject, relation, object); empty where the format has none."""
        return ()

    def aliases(self) -> Iterable[tuple[str, str]]:
        """Give pairs (entity, alias); empty where the format has none."""
        return ()


def single_word(text: str) -> str:
    """Make a token of runs of white space, which become ``_``; an empty one becomes that too."""
    return PLACEHOLDER.join(text.split()) or PLACEHOLDER


def document_name(path: Path) -> str:
    """Name the document that a whole file is: the file's name without its endings of packing."""
    while path.suffix.lower() in inputs.PACKED:
        path = path.with_suffix("")
    return path.stem


def outermost(
    spans: Sequence[Span],
    place_of: Callable[[int], str],
    crossing: str,
    problems: Problems,
    counts: Counter[str],
) -> list[Span]:
    """Keep the outermost of nested mentions, [start, end) in order of start, longer first, and the
    first of crossing ones, or report these; count what is left out."""
    kept: list[Span] = []
    for span in spans:
        start, end, entity = span
        if not kept or start >= kept[-1][1]:
            kept.append(span)
        elif end <= kept[-1][1]:
            counts["nested mentions"] += 1
        else:
            counts["crossing mentions"] += 1
            if crossing == "error":
                first = kept[-1]
                detail = (
                    f"tokens {start} to {end} of entity {entity} and {first[0]} to {first[1]} of "
                    f"{first[2]}; source.crossing: first keeps the one that begins first"
                )
                problems.report("crossing mentions", place_of(start), detail)
    return kept


def resolve_path(name: str) -> Path:
    """Find a source file: a path, or ``embedded:NAME`` for one that an installed package ships."""
    path = Path(name)
    if name.startswith(EMBEDDED):
        known = name.removeprefix(EMBEDDED)
        if known not in EMBEDDED_CORPORA:
            there = ", ".join(EMBEDDED_CORPORA)
            raise InputError(f"{name}: no such embedded corpus; there are {there}")
        package, inside = EMBEDDED_CORPORA[known]
        # The package is installed as plain files, so that the resource is a path.
        path = Path(str(importlib.resources.files(package).joinpath(inside)))
    inputs.check_input(name if "://" in name else path)
    return path


def read_chunks(path: Path, problems: Problems) -> Iterator[bytes]:
    """Stream the decompressed bytes of a file."""
    try:
        with inputs.open_input(path) as file:
            while chunk := file.read1(CHUNK_BYTES):
                yield chunk
            problems.held = (problems.held or 0) + inputs.count_lines(file)
    except inputs.DamagedError as error:
        problems.report(error.reason, error.place, error.detail)


def read_lines(path: Path, problems: Problems) -> Iterator[NumberedLine]:
    """Give the decoded lines of a UTF-8 file with their numbers, which start at 1."""
    number, begun = 1, b""
    for chunk in read_chunks(path, problems):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield from _decode(f"{path}: line {number}", number, begun + line, problems)
            number, begun = number + 1, b""
        if len(begun) <= LONGEST_LINE_BYTES:  # of a longer line no more is held than shows it
            begun += rest
    if begun:
        yield from _decode(f"{path}: line {number}", number, begun, problems)


def _decode(place: str, number: int, line: bytes, problems: Problems) -> Iterator[NumberedLine]:
    if len(line) > LONGEST_LINE_BYTES:
        detail = f"it has more than {LONGEST_LINE_BYTES:,} bytes"
        problems.report("line too long", place, detail)
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
