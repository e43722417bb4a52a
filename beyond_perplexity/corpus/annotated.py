"""Documents that come with their tokens and annotations: what every reader of such a format gives.

The tokens of an annotated corpus are the annotators': they are never tokenized again. Only steps
that change a token in place (lower case, accents) apply to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from beyond_perplexity.corpus.extraction_options import SourceOptions
from beyond_perplexity.corpus.mediawiki import Mention
from beyond_perplexity.corpus.normalization import Preprocessing, lower_case, remove_accents
from beyond_perplexity.corpus.readers import Problems
from beyond_perplexity.storage.inputs import PACKED

PLACEHOLDER = "_"


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
    """Make a token fit for a text of tokens joined by blanks.

    Runs of white space inside become ``_``; so does an empty token.
    """
    return PLACEHOLDER.join(text.split()) or PLACEHOLDER


def clean_tokens(tokens: Sequence[str], steps: Preprocessing) -> list[str]:
    """Lower-case tokens and remove their accents, as the steps say; one of accents alone stays."""
    text = "\n".join(tokens)
    if steps.lower_case:
        text = lower_case(text)
    if steps.remove_accents:
        text = remove_accents(text)
    return [new or old for new, old in zip(text.split("\n"), tokens, strict=True)]


def document_name(path: Path) -> str:
    """Name the document that a whole file is: the file's name without its endings of packing."""
    while path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    return path.stem


Span = tuple[int, int, str]


def outermost(
    spans: Sequence[Span],
    place_of: Callable[[int], str],
    crossing: str,
    problems: Problems,
    counts: Counter[str],
) -> list[Span]:
    """Keep the outermost of nested mentions and the first of crossing ones, or report these.

    Spans are [start, end) over tokens, in the order of the start, longer ones first; what is left
    out is counted as ``"nested mentions"`` and ``"crossing mentions"``.
    """
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


SOURCE = "gold"
NO_MENTION = frozenset({"-", "_", "*", ""})

MarkKind = Literal["single", "begin", "end"]
Mark = tuple[MarkKind, str]
"""What happens at a token, and to which entity."""

MARK_KINDS: tuple[MarkKind, ...] = ("single", "begin", "end")


@dataclass
class OpenDocument:
    """A document that is being read."""

    path: Path  # its file
    place: str  # file and line where it begins
    title: str  # its name
    tokens: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each token
    spans: list[Span] = field(default_factory=list)
    begun: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    sentence: int = 0
    trees: list[tuple[int, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add_marks(
        self, place: str, marks: Iterable[Mark], problems: Problems, *, words: int = 1
    ) -> None:
        """Open and close mentions at the last `words` tokens, one or none.

        At no token a mention begins with the next one and ends with the one before; one that has
        no token at all is counted and left out.
        """
        end = len(self.tokens)
        for kind, entity in marks:
            if kind == "begin":
                self.begun[entity].append(end - words)
            elif kind == "single":
                self._add(end - words, end, entity)
            elif self.begun[entity]:
                self._add(self.begun[entity].pop(), end, entity)
            else:
                detail = f"'{entity})' without '({entity}' before it"
                problems.report("mention without beginning", place, detail)

    def _add(self, start: int, end: int, entity: str) -> None:
        if start < end:
            self.spans.append((start, end, entity))
        else:
            self.counts["mentions of no word"] += 1

    def close(self, source: SourceOptions, problems: Problems) -> Annotated:
        """Return the document with its mentions, entities numbered by their first one."""
        for entity, starts in self.begun.items():
            for start in starts:
                detail = f"'({entity}' is never closed"
                problems.report("mention without end", self._place_of(start), detail)
        counts = Counter({f"{SOURCE} found": len(self.spans)}) | self.counts
        spans = merge_entities(self.spans)
        counts["mentions that shared a span"] = len(self.spans) - len(spans)
        if source.mentions == "outermost":
            spans = outermost(spans, self._place_of, source.crossing, problems, counts)
        mentions = [(start, end, entity, SOURCE) for start, end, entity in renumber(spans)]
        return Annotated(self.place, self.title, self.tokens, mentions, self.trees, counts)

    def _place_of(self, token: int) -> str:
        last = len(self.lines) - 1
        return f"{self.path}: line {self.lines[min(token, last)]}" if self.lines else self.place


def merge_entities(spans: Sequence[Span]) -> list[Span]:
    """Make one entity of all that share a span; each span once, by its start, longer ones first."""
    parent: dict[str, str] = {}

    def find(entity: str) -> str:
        while (above := parent.get(entity, entity)) != entity:
            parent[entity] = parent.get(above, above)  # half as far the next time
            entity = above
        return entity

    holder: dict[tuple[int, int], str] = {}
    for start, end, entity in spans:
        parent[find(entity)] = find(holder.setdefault((start, end), entity))
    ordered = sorted(holder.items(), key=lambda item: (item[0][0], -item[0][1]))
    return [(start, end, find(entity)) for (start, end), entity in ordered]


def renumber(spans: Iterable[Span]) -> list[Span]:
    """Rename entities to ``"0"``, ``"1"``, ... by their first mention in the given order."""
    numbers: dict[str, str] = {}
    return [
        (start, end, numbers.setdefault(entity, str(len(numbers)))) for start, end, entity in spans
    ]
