"""The documentation: it builds without a warning, its links lead somewhere, it asks for nothing.

Needs mkdocs (`docs`) and `hf`. Oracles: the parser of HTML, the files of site and tree; what
readers are told to type is run (README, tutorials) or parsed; the schema of configurations.
"""

import importlib
import inspect
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from contextlib import redirect_stdout
from copy import deepcopy
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import unquote, urldefrag, urlsplit

import numpy as np
import pandas as pd
import pytest
import yaml

import beyond_perplexity
from beyond_perplexity import __main__
from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.outputs import write_json
from tests.unit import huggingface_models, test_linked, test_results_folder
from tests.unit.fake_server import FakeServer

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What is neither run nor read further, as a whole line: it changes the machine or its shell.
MACHINE = {
    "python3 -m venv .venv",
    ". .venv/bin/activate",
    "conda activate beyond-perplexity",
    "cd my-run",
    "apt-get install -y --no-install-recommends slurm-wlm munge",
    'eval "$(python -m tests.cluster.slurm start)"',
    "python -m tests.cluster.slurm stop",
    "squeue --me --noheader --Format=JobID,Name:60 | awk '$2 ~ /^beyond-perplexity_/ {print $1}' "
    "| xargs -r scancel",
    "squeue --me --Format=JobID,Name:60,State,Comment:80 | grep beyond-perplexity",
}


class Block(NamedTuple):
    """A block of code: its language (sh, python, yaml, or another) and its text."""

    language: str
    text: str


class _ParsedOnly(BaseException):
    """A command has read its options, and shall not do more."""


def code_blocks(page):
    """List the blocks of a page, in order; what is indented after an empty line is a shell's."""
    found = []
    fence, before = "", ""
    for line in page.splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
            if fence:
                found.append(Block(line[3:], ""))
        elif fence or (line.startswith("    ") and (not before or before.startswith("    "))):
            if not fence and not before:
                found.append(Block("sh", ""))
            found[-1] = found[-1]._replace(text=f"{found[-1].text}{line if fence else line[4:]}\n")
        before = line
    return found


def shell_commands(text):
    """Split lines of a shell into the words of each command, without comments and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#.*$", "", line).strip()
        for part in filter(None, (part.strip() for part in bare.split("&&"))):
            if part in MACHINE:
                continue
            words = shlex.split(part)
            yield words[: words.index(">")] if ">" in words else words


def read_command(words, run):
    """Check a command; one of the package, without its name, is given to `run`."""
    match words:
        case ["beyond-perplexity", *given]:
            run(given)
        case ["python", "-m", module, *given] if module.startswith(("scripts.", "benchmarks.")):
            _read_script(module, given, run)
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        case ["snakemake", *given]:
            _read_snakemake(given)
        case ["pip", "install", *given]:
            _read_requirements(given)
        case ["conda", "env", "create", "-f", file]:
            assert yaml.safe_load((ROOT / file).read_text())["name"] == "beyond-perplexity"
        case ["pytest", *paths]:
            assert all((ROOT / path).exists() for path in paths)
        case ["python", "-c", code]:
            compile(code, "snippet", "exec")
        case _:
            raise AssertionError(f"no known kind of command: {shlex.join(words)}")


def _read_script(module, given, run):
    name = module.partition(".")[2].replace("_", "-")
    if name in __main__.SUBCOMMANDS:
        run([name, *given])
    else:
        parse_only(importlib.import_module(module).main, given)


def parse_only(main, given):
    read = CommandParser.parse_args

    def stop(parser, args=None, namespace=None):
        read(parser, args, namespace)
        raise _ParsedOnly

    # As from a shell, whatever the command does with its arguments.
    with patch.object(CommandParser, "parse_args", stop), patch("sys.argv", ["x", *given]):
        try:
            main()
        except _ParsedOnly:
            return
    raise AssertionError(f"{main}: reads no options")


def parse_subcommand(given):
    if given[0] == "run":
        assert all(word.startswith("-") or Path(given[k - 1]).name for k, word in enumerate(given))
        return
    parse_only(__main__.main_of(given[0]), given[1:])


def execute_subcommand(given):
    with patch("sys.argv", ["beyond-perplexity", *given]):
        __main__.main(given)


def _read_snakemake(given):
    from snakemake.cli import get_argument_parser

    # Profiles would be read from the folder of the test.
    parser = get_argument_parser()
    known = parser.parse_args([word for word in given if word])
    files = map(Path, [*np.ravel(known.profile or []), *np.ravel(known.configfile or [])])
    # A file of the reader's own has no folder on a page; what follows --configfile is a file.
    missing = [path for path in files if not (ROOT / path).exists()]
    assert all(path.suffix == ".yaml" and len(path.parts) == 1 for path in missing), missing


def _read_requirements(given):
    pinned = [(ROOT / name).read_text() for name in ("requirements.lock", "Makefile")]
    for word in given:
        if extras := re.fullmatch(r"(?:\.|beyond-perplexity)\[(.+)\]", word):
            missing = set(extras.group(1).split(",")) - set(PROJECT["optional-dependencies"])
            assert not missing, word
        elif "==" in word:
            assert any(re.search(rf"(^|= ){re.escape(word)}( |$)", text, re.M) for text in pinned)
        else:
            known = word.startswith(("-", "https://")) or word == "." or (ROOT / word).exists()
            assert known, word


PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results/README.md"),
    *sorted(set((ROOT / "docs").rglob("*.md")) - set((ROOT / "docs/templates").glob("*.md"))),
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
    """Name the links of a page that lead nowhere; of URLs of others the form is checked."""
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


def test_links_lead_somewhere_nothing_is_loaded_from_elsewhere_and_formulas_are_drawn(pages, site):
    lost = {str(path): broken(page.links, path, pages) for path, page in pages.items()}
    assert {path: links for path, links in lost.items() if links} == {}
    assert sum(len(page.links) for page in pages.values()) > 300
    for path, page in pages.items():
        assert not [link for link in page.loaded if urlsplit(link).netloc], path
        assert broken({link for link in page.loaded if link[:5] != "data:"}, path, pages) == []
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text())
    for path, page in pages.items():
        assert "\\frac" not in page.text, path
        assert "arithmatex" not in path.read_text(), path


def test_broken_links_are_found(tmp_path):
    path = tmp_path / "a.html"
    text = '<a href="b.html">x</a><a href="#no">x</a><a href="#yes">x</a><a href="http://x.y">x</a>'
    path.write_text(f'<p id="yes">{text}</p>')
    page = Page(path)
    assert broken(page.links, path, {path: page}) == ["#no", "b.html", "http://x.y"]


def test_links_of_the_tree_name_files_that_are_there():
    """Pages are read in the tree, too, where no hook changes their links."""
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for address in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            if not urlsplit(address).scheme:
                assert (path.parent / address).exists(), f"{path}: {address}"


def test_the_architecture_describes_folders_calls_and_what_computes_a_kind_of_file():
    """Oracles: the schemas that there are, and the names that the modules use."""
    table = (ROOT / "docs/architecture.md").read_text()
    folders = [path.parent.name for path in ROOT.glob("beyond_perplexity/*/__init__.py")]
    assert len(folders) > 10
    assert [name for name in folders if f"`{name}/`" not in table] == []
    page = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`([\w/]+\.py)`", page.partition("## Three calls")[2])
    places = [ROOT, *((ROOT / "beyond_perplexity" / name).parent for name in named)]
    missing = {name for name in named if not any((place / name).is_file() for place in places)}
    assert len(named) > 100
    assert not missing
    page = (ROOT / "docs/architecture.md").read_text().partition("## From a column")[2]
    rows = re.findall(r"^\| `([A-Z_]+)` \| `schemas/(\w+)\.py` \| (.*) \|$", page, re.M)
    found = {(name, file) for name, file, _ in rows}
    folder = ROOT / "beyond_perplexity/schemas"
    names = re.compile(r"^([A-Z_]+) = columns\(", re.M)
    texts = {file.stem: file.read_text() for file in folder.glob("*.py")}
    defined = {(name, stem) for stem, text in texts.items() for name in names.findall(text)}
    assert found == defined
    for name, _, modules in rows:
        for module in re.findall(r"`(\S+)`", modules):
            places = ROOT / module, ROOT / "beyond_perplexity" / module
            (file,) = (place for place in places if place.exists())
            assert re.search(rf"\b{name}\b", file.read_text()), f"{module} knows no {name}"


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


def write_finished_run(folder):
    """Write of a run what the page of notebooks prints, and what its queries must leave out."""
    numbers = json.loads((ROOT / "docs/numbers.json").read_text())["notebook"]
    for model, value, low, high in [*numbers["bits"], ("trigram", None, None, None)]:
        bits = {"open_vocabulary": {"bits": {"byte": value}}}
        limits = {} if value is None else {"open_vocabulary": {"bits": {"byte": [low, high]}}}
        summary = test_results_folder.SUMMARY
        cleaned = summary["cleaned"] | bits | {"interval": limits}
        write_json(folder / f"perplexity/{model}.json", summary | {"cleaned": cleaned})
    models = ("lstm", "transformer", "trigram")
    for model, decoding in [*((model, "nucleus") for model in models), ("lstm", "beam")]:
        rows = [
            {"source": f"{model}/{decoding}", "tendency": tendency, "measure": measure}
            | {"excess": excess[models.index(model)] + (decoding == "beam"), "p_adjusted": 0.5}
            for tendency, measure, *excess in numbers["excess"]
        ]
        path = folder / f"tendencies/{model}/{decoding}/measures.parquet"
        test_results_folder.write(path, TENDENCY_MEASURES, *rows)
    write_json(folder / "configuration.json", {"seed": 1})


@pytest.fixture(scope="module")
def readers_folder(tmp_path_factory):
    """Give the files that the pages suppose a reader has."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "human.txt").write_text(lines_of_words(1))
    (folder / "generated.txt").write_text(lines_of_words(2))
    (folder / "test.txt").write_text(lines_of_words(3, 6))
    for seed, name in enumerate(("people", "model")):
        answers = enumerate(lines_of_words(seed).splitlines())
        rows = [json.dumps({"question": n, "answer": text}) for n, text in answers]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    huggingface_models.make_gpt2(folder / "gpt2", seed=0)
    huggingface_models.make_gpt2(folder / "gpt2-tuned", seed=1)
    weights = [(n, k, 5, -20.0 - k % 3, -2.0 - n) for n in range(3) for k in range(8)]
    names = ["instance_id", "sample_id", "n_tokens", "log_p", "log_q"]
    pd.DataFrame(weights, columns=names).to_parquet(folder / "weights.parquet")
    write_finished_run(folder / "results")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def assert_printed(shown, printed):
    """Assert that each line of a page's output was printed, where columns may be left out."""
    lines = printed.splitlines()
    for line in filter(None, map(str.strip, shown.splitlines())):
        cells = [cell for cell in re.split(r" {2,}", line) if cell.strip("-")]
        pattern = ".*".join(map(re.escape, cells))
        assert any(re.search(pattern, other) for other in lines), line


@pytest.fixture
def server_of_pages(readers_folder, monkeypatch):
    """Answer at the address of the pages, by standing in between as a proxy does."""
    with FakeServer(str(readers_folder / "gpt2"), "openai", begins=0) as fake:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, fake.url)
        for name in ("NO_PROXY", "no_proxy", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        yield fake


@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_as_they_stand(
    page, readers_folder, server_of_pages, monkeypatch, capsys
):
    monkeypatch.chdir(readers_folder)
    names = {"__name__": "page"}
    said = ""
    for block in code_blocks(page.read_text()):
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), names)
        elif block.language == "sh":
            for words in shell_commands(block.text):
                read_command(words, lambda given: run(*given))
        elif block.language == "text":
            said = capsys.readouterr().out or said  # of one output in two blocks
            assert_printed(block.text, said)
    if page.stem == "latent-weights":
        printed = capsys.readouterr().out + names["result"].text  # type: ignore[attr-defined]
        for number in ("404.01", "400.06 to 406.09", "413.21", "1.77", "42.94"):
            assert number in printed
            assert number in page.read_text().replace("\n", " ")


def run(*given):
    print(printed(*given))


@cache
def printed(*given):
    """Run a subcommand; what two pages say in the same words is run once."""
    with redirect_stdout(StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        execute = given[0] != "run" or "--init" in given
        (execute_subcommand if execute else parse_subcommand)(list(given))
    return out.getvalue()


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_are_known(page, tmp_path, monkeypatch, capsys):
    """A page that shows what a command prints has it run."""
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(page.read_text())
    for block, after in zip(blocks, [*blocks, Block("", "")][1:], strict=True):
        if block.language == "sh":
            shown = after.language == "text" and "run --init" in block.text
            for words in shell_commands(block.text):
                read_command(words, (lambda given: run(*given)) if shown else parse_subcommand)
            if shown:
                assert_printed(after.text, capsys.readouterr().out)


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
            validate(config)
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


TREE = "( (S (NP (DT The) (NN cat{0})) (VP (VBZ sits))) )\n"
COLUMNS = "#begin document ({0})\n0\tAnn{0}\t(1)\n1\tsat\t-\n2\tshe\t(1)\n#end document\n"
LINKED = {"title": "A", "tokens": ["The", "cat"], "annotations": []}


def examples():
    """Return the configurations that the page of latent models shows of annotated text."""
    text = (ROOT / "docs/latent-models.md").read_text(encoding="utf-8")
    section = text.partition("Your own annotated text")[2].partition("\n## ")[0]
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("wsj", "litbank"):
        (tmp_path / name).mkdir()
    for name in ("02-21", "22", "23"):
        (tmp_path / "wsj" / f"{name}.mrg").write_text("".join(map(TREE.format, range(3))))
    for n in range(60):  # so that every split has some
        (tmp_path / "litbank" / f"{n}.conll").write_text(COLUMNS.format(n))
    test_linked.write(tmp_path, LINKED)
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jsonl").write_text((tmp_path / "d.jsonl").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_annotated_examples_are_whole_plan_their_jobs_and_are_read(folder):
    whole, others = examples()
    whole["corpora"] |= others["corpora"]
    validate(whole)
    corpora = Run(whole).corpora
    assert corpora.source_files("treebank") == [f"wsj/{n}.mrg" for n in ("02-21", "22", "23")]
    assert len(corpora.source_files("coreference")) == 60
    found = {}
    for example in examples():
        for name, corpus in example["corpora"].items():
            paths = corpus["source"]["paths"]
            if isinstance(paths, list):  # the workflow expands patterns
                paths[:] = [str(path) for pattern in paths for path in sorted(Path().glob(pattern))]
            found[name] = test_linked.run_options(folder / "out" / name, corpus)
    assert len(found["treebank"]["trees"]) == 9
    assert found["treebank"]["documents"][0]["text"].startswith("The cat")
    assert (len(found["coreference"]["mentions"]), len(found["linked"]["documents"])) == (120, 1)
    assert not any(held["report"]["warnings"] for name, held in found.items() if name != "linked")
