"""Streaming reader of MediaWiki page dumps (pages-articles XML).

The stream is cut at the page tags, so that pages are parsed in parallel, away from the reading
process, and a broken one breaks no other. Wikitext cannot hold a raw ``<page>``: its ``<`` is
escaped.
"""

from __future__ import annotations

import re
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from beyond_perplexity.corpus.markup import Paragraph
from beyond_perplexity.corpus.readers import Mention, Problems, read_chunks
from beyond_perplexity.errors import InputError

PAGE_OPEN, PAGE_CLOSE, DUMP_CLOSE = b"<page>", b"</page>", b"</mediawiki>"
MAXIMUM_PAGE_BYTES = 1 << 26

_NAMESPACE = re.compile(rb'<namespace key="(-?\d+)"[^>]*>([^<]+)</namespace>')
_TITLE = re.compile(rb"<title>([^<]*)</title>")
_REDIRECT = re.compile(r"\s*#[^\W\d_]+\s*(?::\s*)?\[\[([^\]|]+)")
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True)
class RawPage:
    """The bytes of one page element."""

    place: str  # file and byte of the decompressed dump where it starts
    xml: bytes  # from ``<page>`` to ``</page>``

    def describe(self) -> str:
        """Return the title, where one can be found, and the place."""
        title = _TITLE.search(self.xml)
        return f"{title[1].decode('utf-8', 'replace')} ({self.place})" if title else self.place


@dataclass(frozen=True)
class Page:
    """One parsed page."""

    title: str  # with its namespace, as the dump has it
    namespace: int  # 0 for articles
    model: str  # the content model; ``"wikitext"`` for text
    redirect: str | None  # the title that a redirect leads to
    text: str  # the wikitext of the last revision given


class PageError(ValueError):
    """A page element that cannot be used; the message is the reason."""


class PageStream:
    """The pages of one dump file, streamed."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self.namespaces: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[RawPage]:
        buffer = b""
        offset = 0  # of the buffer's first byte in the decompressed dump
        pages = 0
        for chunk in read_chunks(self._path, self._problems):
            buffer += chunk
            start = 0
            while (end := buffer.find(PAGE_CLOSE, start)) >= 0:
                end += len(PAGE_CLOSE)
                if not pages:
                    found = _NAMESPACE.findall(buffer[:end])
                    names = (name for key, name in found if key != b"0")
                    self.namespaces = frozenset(n.decode("utf-8", "replace").lower() for n in names)
                yield from self._cut(buffer[start:end], offset + start)
                start = end
                pages += 1
            buffer = buffer[start:]
            offset += start
            if len(buffer) > MAXIMUM_PAGE_BYTES:
                fault = f"no {PAGE_CLOSE.decode()} within {MAXIMUM_PAGE_BYTES} bytes"
                wanted = "this is no MediaWiki XML dump in UTF-8"
                raise InputError(f"{self._path}: byte {offset}: {fault}; {wanted}")
        self._check_end(buffer, offset, pages)

    def _cut(self, piece: bytes, offset: int) -> Iterator[RawPage]:
        """Give the page that ends the piece and, before it, pages that were never closed."""
        starts = [found.start() for found in re.finditer(PAGE_OPEN, piece)] or [0]
        for start, end in pairwise([*starts, len(piece)]):
            yield RawPage(f"{self._path}: byte {offset + start}", piece[start:end])

    def _check_end(self, rest: bytes, offset: int, pages: int) -> None:
        place = f"{self._path}: byte {offset + len(rest)}"
        if not pages and PAGE_OPEN not in rest and b"<mediawiki" not in rest:
            detail = "expected MediaWiki's XML export in UTF-8"
            self._problems.report("not a MediaWiki dump", place, detail)
        elif DUMP_CLOSE not in rest:
            inside = f" inside {RawPage(place, rest).describe()}" if PAGE_OPEN in rest else ""
            detail = f"no {DUMP_CLOSE.decode()} at its end{inside}"
            self._problems.report("dump ends early", place, detail)


def parse_page(raw: RawPage) -> Page:
    """Parse one page element."""
    try:
        page = ElementTree.fromstring(raw.xml.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PageError("page is not UTF-8") from error
    except ElementTree.ParseError as error:
        raise PageError("page is not well-formed XML") from error
    title = (page.findtext("title") or "").strip()
    namespace = page.findtext("ns") or ""
    revisions = page.findall("revision")
    text = revisions[-1].find("text") if revisions else None
    if not title or text is None or not _NUMBER.fullmatch(namespace):
        raise PageError("page without title, namespace or text")
    if "deleted" in text.attrib:
        raise PageError("page with deleted text")
    model = revisions[-1].findtext("model") or "wikitext"
    body, element = text.text or "", page.find("redirect")
    redirect = None if element is None else element.get("title")
    # exports without the element: the text itself says so, in the language of the wiki
    if not redirect and (found := _REDIRECT.match(body)):
        redirect = found[1]
    return Page(title, int(namespace), model, redirect or None, body)


Preprocess = Callable[[Sequence[str]], list[str]]

_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[^\W\d_]")


class _Surfaces:
    """Strings that name an entity of the page, looked up by their first word."""

    def __init__(self) -> None:
        self._by_word: dict[str, dict[str, tuple[str, str]]] = {}

    def add(self, surface: str, entity: str, source: str) -> None:
        """Remember a surface; a later one takes its place, but an alias never a title's."""
        first = _WORD.match(surface)
        if not first or len(surface) < 2 or not _LETTER.search(surface):
            return
        known = self._by_word.setdefault(first[0], {})
        if source == "title" or known.get(surface, ("", ""))[1] != "title":
            known[surface] = (entity, source)

    def find(self, text: str, start: int, limit: int) -> Iterator[Mention]:
        """Find the longest surface at each whole word, one after the other, up to `limit`."""
        for word in _WORD.finditer(text, start, limit):
            begin = word.start()
            ends: dict[int, tuple[str, str]] = {}
            for surface, known in self._by_word.get(word[0], {}).items():
                end = begin + len(surface)
                whole = not (surface[-1].isalnum() and text[end : end + 1].isalnum())
                if begin >= start and whole and text.startswith(surface, begin, limit):
                    ends[end] = known
            if ends:
                start = max(ends)
                yield begin, start, *ends[start]


def add_matches(title: str, paragraphs: Iterable[Paragraph]) -> None:
    """Add mentions by exact match of a title or an anchor that the page has linked before.

    The page's own title counts as linked from the start. Matches are of whole words, with the same
    case, longest first, outside links. Of an anchor's entities the latest counts, but a title
    always means its own page; surfaces without a letter (years) or of one character are not
    matched.
    """
    surfaces = _Surfaces()
    surfaces.add(title, title, "title")
    for paragraph in paragraphs:
        text = paragraph.text
        found: list[Mention] = []
        position = 0
        end_of_text = (len(text), len(text), "", "")
        for link in [*paragraph.mentions, end_of_text]:
            found += surfaces.find(text, position, link[0])
            if link is not end_of_text:
                found.append(link)
                surfaces.add(text[link[0] : link[1]], link[2], "alias")
                surfaces.add(link[2], link[2], "title")
            position = link[1]
        paragraph.mentions = found


def tokenize(
    paragraphs: Sequence[Paragraph], preprocess: Preprocess
) -> list[tuple[list[str], list[Mention]]]:
    """Preprocess paragraphs and carry their mentions over to token spans [start, end).

    Each paragraph is preprocessed whole and also cut at the edges of its mentions. A mention is
    kept where both agree character for character (blanks aside) up to it or from it to the end, and
    its edges are edges of tokens.
    """
    cuts = [_cut(paragraph) for paragraph in paragraphs]
    texts = [paragraph.text for paragraph in paragraphs]
    done = preprocess([*texts, *(piece for pieces in cuts for piece in pieces)])
    pieces_done = iter(done[len(texts) :])
    result = []
    for paragraph, pieces, whole in zip(paragraphs, cuts, done, strict=False):
        parts = ["".join(next(pieces_done).split()) for _ in pieces]
        tokens = whole.split()
        result.append((tokens, _align(paragraph.mentions, parts, tokens)))
    return result


def _cut(paragraph: Paragraph) -> list[str]:
    """Cut a text at the edges of its mentions: what is before the first, the first, ..."""
    if not paragraph.mentions:
        return []
    edges = [0, *(edge for start, end, *_ in paragraph.mentions for edge in (start, end)), None]
    return [paragraph.text[a:b] for a, b in pairwise(edges)]


def _agreement(first: str, second: str) -> int:
    """Count the characters up to the first difference."""
    if first == second:
        return len(first)
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def _align(mentions: list[Mention], parts: list[str], tokens: list[str]) -> list[Mention]:
    joined, whole = "".join(parts), "".join(tokens)
    from_start = _agreement(joined, whole)
    from_end = _agreement(joined[::-1], whole[::-1])
    shift = len(whole) - len(joined)
    edges = {0: 0}  # characters before a token -> tokens before it
    length = 0
    for index, token in enumerate(tokens):
        length += len(token)
        edges[length] = index + 1
    kept = []
    end = len(parts[0]) if parts else 0
    marked = zip(mentions, parts[1::2], parts[2::2], strict=True)
    for (_, _, entity, source), anchor, following in marked:
        start, end = end, end + len(anchor)
        moved = 0 if end <= from_start else shift
        known = end <= from_start or start >= len(joined) - from_end
        first, last = edges.get(start + moved), edges.get(end + moved)
        if known and anchor and first is not None and last is not None:
            kept.append((first, last, entity, source))
        end += len(following)
    return kept


class Redirects:
    """The redirects of a dump, on disk, so that their number does not count in memory; as a context
    manager it removes the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE redirects (alias TEXT PRIMARY KEY, target TEXT) WITHOUT ROWID"
        )
        self.resolve = lru_cache(maxsize=1 << 18)(self._resolve)

    def __enter__(self) -> Redirects:
        return self

    def __exit__(self, *exception: object) -> None:
        self._database.close()
        self._path.unlink(missing_ok=True)

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add pairs (title of the redirect, title it leads to); the first of a title counts."""
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR IGNORE INTO redirects VALUES (?, ?)", pairs)
        self._database.execute("COMMIT")

    def _resolve(self, title: str) -> str | None:
        """Follow redirects to the end; None when they go in a circle."""
        seen: set[str] = set()
        while title not in seen:
            seen.add(title)
            query = "SELECT target FROM redirects WHERE alias = ?"
            row = self._database.execute(query, (title,)).fetchone()
            if row is None:
                return title
            title = row[0]
        return None

    def aliases(self) -> Iterator[tuple[str, str | None]]:
        """Give every redirect's title, in order, with the entity at the end of its chain."""
        cursor = self._database.execute("SELECT alias, target FROM redirects ORDER BY alias")
        for alias, target in cursor:
            yield alias, self.resolve(target)
