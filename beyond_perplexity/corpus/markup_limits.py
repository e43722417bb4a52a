"""How much work the markup of a page makes, counted before it is parsed.

The parser reads on from every mark that is never closed to the end of the page, finds nothing, and
begins again behind the mark. So a page of n such marks costs n times its length. What is counted
here does not depend on the machine, so neither does which pages are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

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
    """List the marks of a page: place, kind, and whether it is a closing one."""
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
    """Return the places of the marks of a page that are never closed.

    Parameters
    ----------
    wikitext : str
        The source of a page: templates, tables, links and tags in it are marks.

    Returns
    -------
    list of int
        In no order. A mark that another one's end closes too early is among them.
    """
    stack: list[tuple[int, str]] = []
    waiting: Counter[str] = Counter()  # of each kind on the stack
    unclosed = []
    for place, kind, closes in _marks(wikitext):
        if not closes:
            stack.append((place, kind))
            waiting[kind] += 1
        elif waiting[kind]:
            while True:
                begun, other = stack.pop()
                waiting[other] -= 1
                if other == kind:
                    break
                unclosed.append(begun)
    return unclosed + [place for place, _ in stack]


def unended_elements(wikitext: str, tags: Sequence[str]) -> list[int]:
    """Return the places of the elements of a page that begin behind the last end of their kind.

    Parameters
    ----------
    wikitext : str
        The source of a page.
    tags : sequence of str
        The kinds, lower case.

    Returns
    -------
    list of int
        In the order of the page.
    """
    ends: dict[str, int] = {}
    begun = []
    pattern = rf"<(?P<end>/?)(?P<tag>{'|'.join(tags)})\b(?P<head>[^<>]*)>"
    for found in re.finditer(pattern, wikitext, re.IGNORECASE):
        name = found["tag"].lower()
        if found["end"]:
            ends[name] = found.start() if not found["head"].strip() else ends.get(name, -1)
        elif not found["head"].endswith("/"):
            begun.append((found.start(), name))
    return [place for place, name in begun if place > ends.get(name, -1)]


def check_elements(wikitext: str, tags: Sequence[str]) -> None:
    """Refuse a page in which too often an end is looked for that is not there.

    Parameters
    ----------
    wikitext, tags
        As for `unended_elements`.

    Raises
    ------
    MarkupError
        As `check_markup` does.
    """
    _check(wikitext, unended_elements(wikitext, tags))


def check_markup(wikitext: str) -> None:
    """Refuse a page that would be read over and over.

    Parameters
    ----------
    wikitext : str
        The source of a page.

    Raises
    ------
    MarkupError
        When the characters behind its unclosed marks, summed over the marks, are more than
        `FREE_CHARACTERS` and `TIMES_READ` times its length.
    """
    _check(wikitext, unclosed_marks(wikitext))


def _check(wikitext: str, places: Sequence[int]) -> None:
    length = len(wikitext)
    again = sum(length - place for place in places)
    if again > FREE_CHARACTERS + TIMES_READ * length:
        raise MarkupError("page with too much unclosed markup")
