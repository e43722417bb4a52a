"""How much work the markup of a page makes, counted before it is parsed.

The parser reads on from every mark that is never closed to the end of the page, and begins again
behind the mark: n such marks cost n times a page's length. What is counted does not depend on the
machine, so neither does which pages are left out.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import mwparserfromhell
from mwparserfromhell.nodes import ExternalLink, Heading, HTMLEntity, Node, Tag, Text, Wikilink
from mwparserfromhell.wikicode import Wikicode

FREE_CHARACTERS = 1 << 21
TIMES_READ = 16

_TOKEN = re.compile(
    r"(?P<open>\{\{|\{\||\[\[|\[(?=//|[a-z]+:))"
    r"|(?P<close>\}\}|\|\}(?!\})|\]\]|\])"
    r"|<(?P<end>/?)(?P<tag>[a-zA-Z][^\s/<>]*)(?P<head>[^<>]*>?)"
)
_CLOSES = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "["}
# What the parser closes by itself.
_SINGLE = frozenset({"br", "wbr", "hr", "meta", "link", "img", "li", "dt", "dd", "th", "td", "tr"})


class MarkupError(ValueError):
    """A page whose markup is not parsed; the message is the reason."""


def _marks(wikitext: str) -> Iterator[tuple[int, str, bool]]:
    """List the marks of a page: position, kind, and whether it is a closing one."""
    for found in _TOKEN.finditer(wikitext):
        if found["open"]:
            yield found.start(), found["open"], False
        elif found["close"]:
            yield found.start(), _CLOSES[found["close"]], True
        else:
            name, head = found["tag"].lower(), found["head"]
            if name not in _SINGLE and not head.endswith("/>"):
                yield found.start(), name, bool(found["end"])


def unclosed_marks(wikitext: str) -> list[int]:
    """Return where templates, tables, links and tags begin that are never closed, in no order."""
    stack: list[tuple[int, str]] = []
    waiting: Counter[str] = Counter()  # of each kind on the stack
    unclosed = []
    for position, kind, closes in _marks(wikitext):
        if not closes:
            stack.append((position, kind))
            waiting[kind] += 1
        elif waiting[kind]:
            while True:
                begun, other = stack.pop()
                waiting[other] -= 1
                if other == kind:
                    break
                unclosed.append(begun)
    return unclosed + [position for position, _ in stack]


def unended_elements(wikitext: str, tags: Sequence[str]) -> list[int]:
    """Return the positions of elements of a page that begin behind the last end of their kind."""
    ends: dict[str, int] = {}
    begun = []
    pattern = rf"<(?P<end>/?)(?P<tag>{'|'.join(tags)})\b(?P<head>[^<>]*)>"
    for found in re.finditer(pattern, wikitext, re.IGNORECASE):
        name = found["tag"].lower()
        if found["end"]:
            ends[name] = found.start() if not found["head"].strip() else ends.get(name, -1)
        elif not found["head"].endswith("/"):
            begun.append((found.start(), name))
    return [position for position, name in begun if position > ends.get(name, -1)]


def _check(wikitext: str, positions: Sequence[int]) -> None:
    """Refuse a page whose characters behind its unclosed marks, in those positions, add up to more
    than `FREE_CHARACTERS` and `TIMES_READ` times its length."""
    length = len(wikitext)
    again = sum(length - position for position in positions)
    if again > FREE_CHARACTERS + TIMES_READ * length:
        raise MarkupError("page with too much unclosed markup")


# A mark is OPEN index MIDDLE anchor CLOSE; INDENTED is the blank that begins a preformatted line.
OPEN, MIDDLE, CLOSE, INDENTED = "\x01", "\x02", "\x03", "\x04"
_MARK = re.compile(f"{OPEN}(\\d+){MIDDLE}([^{CLOSE}]*){CLOSE}")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

# These go before the parser sees them: it is the slow part, and references alone are a quarter.
_UNSEEN_TAGS = (
    "ref|math|chem|ce|gallery|timeline|score|source|syntaxhighlight|pre|hiero|imagemap|graph"
    "|mapframe|templatedata|references|style|script"
)
_UNSEEN = re.compile(
    r"(<nowiki>.*?</nowiki>)|<!--.*?(?:-->|\Z)"
    rf"|<({_UNSEEN_TAGS})\b[^<>]*?(?:/>|>.*?</\2\s*>)",
    re.DOTALL | re.IGNORECASE,
)
_DROPPED_TAGS = frozenset({*_UNSEEN_TAGS.split("|"), "table", "td", "th", "tr"})
_BLOCK_TAGS = frozenset(
    {"blockquote", "center", "div", "dl", "hr", "ol", "p", "poem", "section", "ul"}
)
_LIST_TAGS = frozenset({"dd", "dt", "li"})

_TRAIL = re.compile(f"{CLOSE}([a-z]+)")
_QUOTES = re.compile("'{2,}")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,}__")
# What removed templates leave: "Plato ( ; born 428)", "Plato ()"; but "f()" stays.
_EMPTY_PARENTHESES = re.compile(r" \([\s,;:]*\)")
_HOLLOW_START = re.compile(r"\(\s*(?:[,;:]\s*)+")
_NO_PARAGRAPH = ("*", "#", ":", ";", "=", "{|", "|", "!", INDENTED)
_INFOBOX = re.compile(r"infobox|taxobox|geobox|^speciesbox", re.IGNORECASE)
_NO_TITLE = re.compile(r"[\[\]{}<>|\x00-\x1f]")
_LANGUAGE_PREFIX = re.compile(r"[a-z]{2,3}(-[a-z-]+)?|simple")
# Links to sister projects and the namespaces that every wiki understands, lower case.
_ALWAYS_ELSEWHERE = frozenset(
    {
        *("b", "c", "category", "commons", "d", "doi", "draft", "file", "help", "http", "https"),
        *("image", "m", "media", "mediawiki", "meta", "module", "mw", "n", "portal", "project"),
        *("q", "s", "special", "species", "talk", "template", "user", "v", "w", "wikibooks"),
        *("wikidata", "wikinews", "wikipedia", "wikiquote", "wikisource", "wikispecies"),
        *("wikiversity", "wikivoyage", "wikt", "wiktionary"),
    }
)


@dataclass
class Paragraph:
    """One paragraph of visible text."""

    text: str  # on one line, without edge blanks
    # Character span [start, end) in `text`, entity (a title), source (link, title, alias); ordered,
    # without overlap
    mentions: list[tuple[int, int, str, str]] = field(default_factory=list)


@dataclass
class Article:
    """What one page holds."""

    paragraphs: list[Paragraph]  # in the order of the page
    # Infobox parameter and the title that its value links to, each pair once
    triples: list[tuple[str, str]]
    infoboxes: int  # number of infoboxes


def normalize_title(target: str, namespaces: frozenset[str] = frozenset()) -> str | None:
    """Return the title of the article that a link's target names."""
    target = html.unescape(target).split("#")[0].replace("_", " ")
    title = " ".join(target.split()).removeprefix(":").strip()
    prefix, colon, _ = title.partition(":")
    lowered = prefix.strip().lower()
    elsewhere = lowered in namespaces or lowered in _ALWAYS_ELSEWHERE
    if _NO_TITLE.search(title):
        return None
    if colon and (elsewhere or lowered.endswith(" talk") or _LANGUAGE_PREFIX.fullmatch(prefix)):
        return None
    return title[:1].upper() + title[1:] or None


class _Flattener:
    """Turn the nodes of one page into text with marks; `entities` holds the links' titles."""

    def __init__(self, namespaces: frozenset[str]) -> None:
        self.namespaces = namespaces
        self.entities: list[str] = []
        self._handlers: dict[type[Node], Callable[[Any, bool], str]] = {
            Text: self._text,
            HTMLEntity: self._entity,
            Wikilink: self._wikilink,
            ExternalLink: self._external_link,
            Tag: self._tag,
            Heading: lambda node, top: "\n\n",
        }

    def flatten(self, code: Wikicode, top: bool = False) -> str:
        """Return the visible text; nodes without a handler (templates, comments) have none."""
        handlers = self._handlers
        return "".join(handlers[type(one)](one, top) for one in code.nodes if type(one) in handlers)

    def _text(self, node: Text, top: bool) -> str:
        value = _CONTROL.sub("", str(node.value))
        return value.replace("\n ", f"\n{INDENTED}") if top else value

    def _entity(self, node: HTMLEntity, top: bool) -> str:
        character = str(node.normalize()).encode("utf-8", "ignore").decode()  # no lone surrogate
        return _CONTROL.sub("", character)

    def _wikilink(self, node: Wikilink, top: bool) -> str:
        target = str(node.title).strip()
        entity = normalize_title(target, self.namespaces)
        if entity is None and not target.startswith((":", "#")) and self._is_hidden(target):
            return ""
        shown = self.flatten(node.text) if node.text is not None else target.removeprefix(":")
        anchor = " ".join(_MARK.sub(r"\2", shown).split())
        if entity is None or not anchor:
            return anchor
        self.entities.append(entity)
        return f"{OPEN}{len(self.entities) - 1}{MIDDLE}{anchor}{CLOSE}"

    def _is_hidden(self, target: str) -> bool:
        """Tell whether a link shows nothing here: a file, a category, the page in a language."""
        prefix = target.partition(":")[0].strip()
        visible = {"wikt", "wiktionary", "commons", "wikipedia", "project", "help", "portal"}
        return prefix.lower() not in visible and len(prefix) > 1

    def _external_link(self, node: ExternalLink, top: bool) -> str:
        if node.title is not None:
            return self.flatten(node.title)
        return "" if node.brackets else str(node.url)

    def _tag(self, node: Tag, top: bool) -> str:
        name = str(node.tag).strip().lower()
        if name in _DROPPED_TAGS:
            return ""
        if node.wiki_markup and name in _LIST_TAGS:
            return str(node.wiki_markup)
        inside = self.flatten(node.contents, top) if node.contents is not None else ""
        if name in _LIST_TAGS:
            return f"\n* {inside}\n"
        if name in _BLOCK_TAGS:
            return f"\n\n{inside}\n\n"
        return " " if name == "br" else inside


def _blocks(text: str) -> Iterator[str]:
    """Join the lines of each paragraph; lists, indented lines and remains of tables are none."""
    waiting: list[str] = []
    for line in text.split("\n"):
        content = line.strip(f" \t{INDENTED}")
        if content and not line.startswith(_NO_PARAGRAPH):
            waiting.append(content)
        elif waiting:
            yield " ".join(waiting)
            waiting = []
    if waiting:
        yield " ".join(waiting)


def _clean(block: str) -> str:
    block = _QUOTES.sub(lambda found: "'" if len(found[0]) == 4 else "", block)
    block = _MAGIC_WORD.sub("", block).replace(INDENTED, " ")
    block = _HOLLOW_START.sub("(", _EMPTY_PARENTHESES.sub("", block))
    # a link's trail belongs to it: [[dog]]s shows the link "dogs"
    return " ".join(_TRAIL.sub(rf"\1{CLOSE}", block).split())


def _unmark(block: str, entities: list[str]) -> Paragraph:
    """Take the marks out of a block and remember where they stood."""
    text, *pieces = _MARK.split(block)
    mentions = []
    for index, anchor, following in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        if anchor:
            mentions.append((len(text), len(text) + len(anchor), entities[int(index)], "link"))
        text += anchor + following
    return Paragraph(text, mentions)


def _infobox_links(boxes: Iterable[Any], namespaces: frozenset[str]) -> Iterator[tuple[str, str]]:
    for parameter in chain.from_iterable(box.params for box in boxes):
        for link in parameter.value.filter_wikilinks():
            entity = normalize_title(str(link.title), namespaces)
            if entity is not None:
                yield " ".join(str(parameter.name).split()), entity


def parse_article(wikitext: str, namespaces: frozenset[str] = frozenset()) -> Article:
    """Parse the wikitext of one page."""
    _check(wikitext, unended_elements(wikitext, ("nowiki", *_UNSEEN_TAGS.split("|"))))
    source = _UNSEEN.sub(lambda found: found[1] or "", wikitext)
    _check(source, unclosed_marks(source))
    # quotes are cleaned here: the parser's own handling of unbalanced ones is slow
    code = mwparserfromhell.parse(source, skip_style_tags=True)
    flattener = _Flattener(namespaces)
    text = flattener.flatten(code, top=True)
    blocks = filter(None, map(_clean, _blocks(text)))
    paragraphs = [_unmark(block, flattener.entities) for block in blocks]
    templates = code.ifilter_templates(recursive=False)
    boxes = [box for box in templates if _INFOBOX.search(str(box.name).strip())]
    return Article(paragraphs, list(dict.fromkeys(_infobox_links(boxes, namespaces))), len(boxes))
