"""What mkdocs calls while it builds the documentation.

Pages that stand elsewhere in the tree, or that follow from the code, are made here; a link to a
file outside of docs/ leads to a copy of it in the site; formulas become MathML, which needs no
script.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from reference import commands_page, library_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = {  # pages of the site that are files for whoever has the tree alone
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "results.md": "results/README.md",
}
GENERATED = {"reference/library.md": library_page, "reference/commands.md": commands_page}
SOURCES = "sources"  # the folder of the site with files of the tree that pages link to
_LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# Functions without parentheses, which latex2mathml sets as close as the factors of a product.
_FUNCTION = re.compile(r"<mi>(log|ln)</mi>")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/, and the files that pages link to."""
    for place, path in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text()))
    for place, write in GENERATED.items():
        files.append(File.generated(config, place, content=write()))
    for path in _linked_files(files):
        place = f"{SOURCES}/{path}.txt"
        files.append(File.generated(config, place, content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead where their files are in the site."""
    return _outside_code(markdown, lambda text: _LINK.sub(lambda m: _link(m, page.file), text))


def on_page_content(page_html: str, **_: Any) -> str:
    """Turn formulas into MathML."""
    return _FORMULA.sub(_formula, page_html)


def _formula(found: re.Match[str]) -> str:
    text = html.unescape(found.group(2)).strip()
    display = "block" if found.group(1) == "div" else "inline"
    drawn: str = convert(text[2:-2].strip(), display=display)
    return _FUNCTION.sub(r'<mo lspace="0.17em" rspace="0.17em">\1</mo>', drawn)


def _outside_code(markdown: str, change: Any) -> str:
    parts = _CODE.split(markdown)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def _home(place: str) -> Path:
    """Return the file of the tree that a page of the site is."""
    return ROOT / ELSEWHERE[place] if place in ELSEWHERE else DOCS / place


def _target(place: str, address: str) -> str | None:
    """Return where in the site a relative link of a page leads; None: it is not ours to change."""
    if re.match(r"[a-z][a-z+.-]*:|/|<", address):
        return None
    path = Path(os.path.normpath(_home(place).parent / address))
    if not path.is_relative_to(ROOT) or not path.exists():
        return None
    elsewhere = {ROOT / home: page for page, home in ELSEWHERE.items()}
    if path in elsewhere:
        return elsewhere[path]
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"{SOURCES}/{path.relative_to(ROOT).as_posix()}.txt" if path.is_file() else None


def _link(found: re.Match[str], file: File) -> str:
    words, address, anchor = found.group(1), found.group(2), found.group(3) or ""
    target = _target(file.src_uri, address)
    if target is None:
        return found.group(0)
    relative = os.path.relpath(target, os.path.dirname(file.src_uri) or ".")
    return f"{words}({relative}{anchor})"


def _linked_files(files: Files) -> list[str]:
    """List the files outside of docs/ that pages link to, by their path in the tree."""
    found = set()
    for file in files.documentation_pages():
        for match in _LINK.finditer(file.content_string):
            target = _target(file.src_uri, match.group(2))
            if target and target.startswith(f"{SOURCES}/"):
                found.add(target.removeprefix(f"{SOURCES}/").removesuffix(".txt"))
    return sorted(found)
