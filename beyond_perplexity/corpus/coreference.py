"""Mentions of one document while its file is read: marks that open and close become spans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from beyond_perplexity.corpus.annotated import Annotated
from beyond_perplexity.corpus.options import SourceOptions
from beyond_perplexity.corpus.overlaps import Span, outermost
from beyond_perplexity.corpus.readers import Problems

SOURCE = "gold"
NO_MENTION = frozenset({"-", "_", "*", ""})

MarkKind = Literal["single", "begin", "end"]
Mark = tuple[MarkKind, str]
"""What happens at a token, and to which entity."""

MARK_KINDS: tuple[MarkKind, ...] = ("single", "begin", "end")


@dataclass
class OpenDocument:
    """A document that is being read.

    Parameters
    ----------
    path : pathlib.Path
        Its file.
    place : str
        File and line where it begins.
    title : str
        Its name.
    """

    path: Path
    place: str
    title: str
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

        Raises
        ------
        InputError
            When one is closed that was not opened, unless problems are skipped.
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
        """Return the document with its mentions, entities numbered by their first one.

        Raises
        ------
        InputError
            When a mention is not closed, or mentions cross where that is an error, unless problems
            are skipped.
        """
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
    """Make one entity of all entities that share a span.

    Parameters
    ----------
    spans : sequence of (int, int, str)
        Token span [start, end) and entity.

    Returns
    -------
    list of (int, int, str)
        Each span once, in the order of its start, longer ones first; the entity is one of those
        that were merged.
    """
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
