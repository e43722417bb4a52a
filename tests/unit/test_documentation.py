"""The documentation: it builds without a warning, its links lead somewhere, it asks for nothing.

Needs mkdocs (extra `docs`). Oracles: the parser of HTML, the files of the site and of the tree.
What pages tell their readers to type is run as it stands (README, tutorials) or read by the
commands' own parsers; configurations by the schema. Needs the extra `hf`.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import shlex
import subprocess
import sys
import warnings
from copy import deepcopy
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pandas as pd
import pytest
import yaml

import beyond_perplexity
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from tests.unit.huggingface_models import make_gpt2
from tests.unit.page_snippets import (
    code_blocks,
    execute_subcommand,
    parse_subcommand,
    read_command,
    shell_commands,
)
from tests.unit.test_results_folder import write_tree

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


TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
RUN_PAGES = [ROOT / "README.md", *TUTORIALS]
OTHERS = sorted(
    {
        *ROOT.glob("docs/*.md"),
        ROOT / "CONTRIBUTING.md",
        ROOT / "results/README.md",
    }
)


def lines_of_words(seed, n=40):
    """Write n short documents of words with frequencies like those of a language."""
    draws = random.Random(seed)
    words = [*["the", "of", "a", ","], *(f"w{k}" for k in range(150))]
    weights = [1 / (k + 1) for k in range(len(words))]
    texts = (" ".join(draws.choices(words, weights, k=draws.randint(8, 20))) for _ in range(n))
    return "".join(f"{text} .\n" for text in texts)


@pytest.fixture(scope="module")
def readers_folder(tmp_path_factory):
    """Give the files that the pages suppose a reader has."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "human.txt").write_text(lines_of_words(1))
    (folder / "generated.txt").write_text(lines_of_words(2))
    (folder / "test.txt").write_text(lines_of_words(3, 6))
    make_gpt2(folder / "gpt2", seed=0)
    make_gpt2(folder / "gpt2-tuned", seed=1)
    rows = [(n, k, 5, -20.0 - k % 3, -2.0 - n) for n in range(3) for k in range(8)]
    names = ["instance_id", "sample_id", "n_tokens", "log_p", "log_q"]
    pd.DataFrame(rows, columns=names).to_parquet(folder / "weights.parquet")
    write_tree(folder / "results")
    return folder


@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_as_they_stand(page, readers_folder, monkeypatch, capsys):
    monkeypatch.chdir(readers_folder)
    names: dict[str, object] = {"__name__": "page"}
    for block in code_blocks(page.read_text()):
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), names)
        elif block.language == "sh":
            for words in shell_commands(block.text):
                read_command(words, lambda given: run(*given))
    if page.stem == "latent-weights":
        printed = capsys.readouterr().out + names["result"].text  # type: ignore[attr-defined]
        for number in ("404.01", "400.06 to 406.09", "413.21", "1.77", "42.94"):
            assert number in printed
            assert number in page.read_text().replace("\n", " ")


@cache
def run(*given):
    """Run a subcommand; what two pages say in the same words is run once."""
    if given[0] == "run":
        return parse_subcommand(list(given))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return execute_subcommand(list(given))


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_are_known(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in code_blocks(page.read_text()):
        if block.language == "sh":
            for words in shell_commands(block.text):
                read_command(words, parse_subcommand)


@pytest.mark.parametrize("page", [*RUN_PAGES, *OTHERS], ids=lambda page: page.stem)
def test_configurations_of_a_page_are_valid(page, tmp_path, monkeypatch):
    """What a page says replaces what the default configuration has of the same name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "litbank").mkdir()
    (tmp_path / "litbank/one.conll").touch()  # for a pattern
    base = yaml.safe_load((ROOT / "config.yaml").read_text())
    for block in code_blocks(page.read_text()):
        if block.language == "yaml":
            config = deepcopy(base)
            for section, held in yaml.safe_load(block.text).items():
                config[section] = {**config.get(section, {}), **held}
            validate(config, ROOT / "rules/config.schema.yaml")
            Run(config)


def test_a_page_that_is_wrong_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "text\n\n    make nothing   # a comment\n\n```sh\nrm -r /\n```\n\n```yaml\na: 1\n```\n"
    blocks = code_blocks(page)
    assert [block.language for block in blocks] == ["sh", "sh", "yaml"]
    for block in blocks[:2]:
        with pytest.raises(AssertionError, match=r"nothing|known kind"):
            read_command(next(shell_commands(block.text)), parse_subcommand)
    for wrong in (
        "pip install '.[no-such-extra]'",
        "snakemake --configfile configs/none.yaml",
        "conda env create -f envs/none.yaml",
        "pytest tests/none",
    ):
        with pytest.raises((AssertionError, FileNotFoundError)):
            read_command(next(shell_commands(wrong)), parse_subcommand)
    with pytest.raises(SystemExit):
        read_command(["beyond-perplexity", "compare", "--refrence", "a"], parse_subcommand)
