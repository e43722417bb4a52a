"""The documentation: it builds without a warning, its links lead somewhere, it asks for nothing.

Needs mkdocs (extra `docs`). Oracles: the parser of HTML, the files of the site and of the tree.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import beyond_perplexity

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what a browser loads with it."""

    def __init__(self, path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.text = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        held = {name: value or "" for name, value in attrs}
        self.anchors |= {held[name] for name in ("id", "name") if name in held}
        if tag == "a" and "href" in held:
            self.links.add(held["href"])
        if "src" in held:
            self.loaded.add(held["src"])
        if tag == "link" and held.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.add(held["href"])

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the documentation by the command of the Makefile; a warning of mkdocs ends it."""
    folder = tmp_path_factory.mktemp("documentation") / "site"
    (recipe,) = re.findall(r"^docs:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = recipe.replace("$(BIN)", str(Path(sys.executable).parent))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        f"{command} --site-dir {shlex.quote(str(folder))}",
        shell=True,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def broken(links, path, pages):
    """Name the links of a page that lead nowhere; of addresses of others the form is checked."""
    found = []
    for link in sorted(links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if parts.scheme != "https" or "." not in parts.netloc or " " in link:
                found.append(link)
            continue
        address, anchor = urldefrag(link)
        target = path if not address else Path(os.path.normpath(path.parent / unquote(address)))
        if not target.is_file() or (anchor and unquote(anchor) not in pages[target].anchors):
            found.append(link)
    return found


def test_every_link_leads_somewhere(pages):
    lost = {str(path): broken(page.links, path, pages) for path, page in pages.items()}
    assert {path: links for path, links in lost.items() if links} == {}
    assert sum(len(page.links) for page in pages.values()) > 300


def test_broken_links_are_found(tmp_path):
    path = tmp_path / "a.html"
    text = '<a href="b.html">x</a><a href="#no">x</a><a href="#yes">x</a><a href="http://x.y">x</a>'
    path.write_text(f'<p id="yes">{text}</p>')
    page = Page(path)
    assert broken(page.links, path, {path: page}) == ["#no", "b.html", "http://x.y"]


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        assert not [link for link in page.loaded if urlsplit(link).netloc], path
        assert broken({link for link in page.loaded if link[:5] != "data:"}, path, pages) == []
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text())


def test_links_of_the_tree_name_files_that_are_there():
    """Pages are read in the tree, too, where no hook changes their links."""
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for address in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            if not urlsplit(address).scheme:
                assert (path.parent / address).exists(), f"{path}: {address}"


def test_formulas_are_drawn(pages):
    for path, page in pages.items():
        assert "\\frac" not in page.text, path
        assert "arithmatex" not in path.read_text(), path


def test_every_folder_of_the_package_is_described():
    table = (ROOT / "docs/architecture.md").read_text()
    folders = [path.parent.name for path in ROOT.glob("beyond_perplexity/*/__init__.py")]
    assert len(folders) > 10
    assert [name for name in folders if f"`{name}/`" not in table] == []


def test_defaults_of_the_reference_are_those_of_the_functions(site, pages):
    """Oracle: the signatures. Parameters that are described together have defaults of their own."""
    path = site / "reference/library.html"
    text = re.sub(r"\s+", " ", pages[path].text)
    for name in beyond_perplexity.__all__:
        if not name[0].islower():
            continue
        signature = inspect.signature(getattr(beyond_perplexity, name)).parameters.values()
        shown = text[text.index(f" {name}( ") :]
        for one in signature:
            if one.default is not one.empty:
                value = str(one.default) if not isinstance(one.default, str) else f'"{one.default}"'
                assert re.search(rf"\b{one.name}: [^=()]+ = {re.escape(value)}\W", shown), one
    row = re.search(r"maximum_tokens int Tokens .{0,120}? (\S+) field str", text)
    assert row is not None
    assert row.group(1) == "None"
