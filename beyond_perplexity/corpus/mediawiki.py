"""Streaming reader of MediaWiki page dumps (pages-articles XML).

The stream is cut at the page tags and each page is parsed by itself, away from the reading process.
So the pages can be parsed in parallel, and a broken page breaks no other. Wikitext cannot hold a
raw ``<page>``: in XML its ``<`` is escaped.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beyond_perplexity.corpus.readers import Problems, read_chunks
from beyond_perplexity.errors import InputError

PAGE_OPEN, PAGE_CLOSE, DUMP_CLOSE = b"<page>", b"</page>", b"</mediawiki>"
MAXIMUM_PAGE_BYTES = 1 << 26

_NAMESPACE = re.compile(rb'<namespace key="(-?\d+)"[^>]*>([^<]+)</namespace>')
_TITLE = re.compile(rb"<title>([^<]*)</title>")
_REDIRECT = re.compile(r"\s*#[^\W\d_]+\s*(?::\s*)?\[\[([^\]|]+)")
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True)
class RawPage:
    """The bytes of one page element.

    Parameters
    ----------
    place : str
        File and byte of the decompressed dump where it starts.
    xml : bytes
        From ``<page>`` to ``</page>``.
    """

    place: str
    xml: bytes

    def describe(self) -> str:
        """Return the title, where one can be found, and the place."""
        title = _TITLE.search(self.xml)
        return f"{title[1].decode('utf-8', 'replace')} ({self.place})" if title else self.place


@dataclass(frozen=True)
class Page:
    """One parsed page.

    Parameters
    ----------
    title : str
        With its namespace, as the dump has it.
    namespace : int
        0 for articles.
    model : str
        The content model; ``"wikitext"`` for text.
    redirect : str or None
        The title that a redirect leads to.
    text : str
        The wikitext of the last revision given.
    """

    title: str
    namespace: int
    model: str
    redirect: str | None
    text: str


class PageError(ValueError):
    """A page element that cannot be used; the message is the reason."""


class PageStream:
    """The pages of one dump file, streamed.

    Parameters
    ----------
    path : pathlib.Path
        The dump: plain or packed.
    problems : Problems
        Where a dump that ends early is reported.

    Attributes
    ----------
    namespaces : frozenset of str
        The names of all namespaces but articles, lower case; complete once a page was given.
    """

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
                    self._read_header(buffer[:end])
                yield from self._cut(buffer[start:end], offset + start)
                start = end
                pages += 1
            buffer = buffer[start:]
            offset += start
            if len(buffer) > MAXIMUM_PAGE_BYTES:
                raise InputError(
                    f"{self._path}: byte {offset}: no {PAGE_CLOSE.decode()} within "
                    f"{MAXIMUM_PAGE_BYTES} bytes; this is no MediaWiki XML dump in UTF-8"
                )
        self._check_end(buffer, offset, pages)

    def _read_header(self, header: bytes) -> None:
        names = (name for key, name in _NAMESPACE.findall(header) if key != b"0")
        self.namespaces = frozenset(name.decode("utf-8", "replace").lower() for name in names)

    def _cut(self, piece: bytes, offset: int) -> Iterator[RawPage]:
        """Give the page that ends the piece and, before it, pages that were never closed."""
        start = piece.find(PAGE_OPEN)
        if start < 0:
            yield RawPage(f"{self._path}: byte {offset}", piece)
        while start >= 0:
            following = piece.find(PAGE_OPEN, start + 1)
            end = following if following >= 0 else len(piece)
            yield RawPage(f"{self._path}: byte {offset + start}", piece[start:end])
            start = following

    def _check_end(self, rest: bytes, offset: int, pages: int) -> None:
        place = f"{self._path}: byte {offset + len(rest)}"
        if not pages and PAGE_OPEN not in rest and b"<mediawiki" not in rest:
            detail = "expected MediaWiki's XML export in UTF-8"
            self._problems.report("not a MediaWiki dump", place, detail)
        elif DUMP_CLOSE not in rest:
            inside = f" inside {RawPage(place, rest).describe()}" if PAGE_OPEN in rest else ""
            self._problems.report(
                "dump ends early", place, f"no {DUMP_CLOSE.decode()} at its end{inside}"
            )


def parse_page(raw: RawPage) -> Page:
    """Parse one page element.

    Parameters
    ----------
    raw : RawPage
        The bytes of the element.

    Returns
    -------
    Page
        Title, namespace, redirect and text.

    Raises
    ------
    PageError
        When the bytes are not UTF-8, the XML is not well-formed, or title, namespace or text are
        missing.
    """
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
    return Page(title, int(namespace), model, _redirect(page, text.text or ""), text.text or "")


def _redirect(page: ElementTree.Element, text: str) -> str | None:
    element = page.find("redirect")
    if element is not None and element.get("title"):
        return element.get("title")
    # exports without the element: the text itself says so, in the language of the wiki
    found = _REDIRECT.match(text)
    return found[1] if found else None
