"""The code blocks of pages: those of Python and of a shell are run, or read by what would run them.

A line of a shell that is of no known kind is an error: nothing on a page goes unlooked at.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import yaml

from beyond_perplexity.__main__ import SUBCOMMANDS
from beyond_perplexity.__main__ import main as run_subcommand
from beyond_perplexity.arguments import CommandParser

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
    found: list[Block] = []
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
    if name in SUBCOMMANDS:
        run([name, *given])
    else:
        parse_only(module, given)


def parse_only(module, given):
    """Let the parser of a command read its options, and stop there."""
    read = CommandParser.parse_args

    def stop(parser, args=None, namespace=None):
        read(parser, args, namespace)
        raise _ParsedOnly

    # As from a shell, whatever the command does with its arguments.
    with patch.object(CommandParser, "parse_args", stop), patch("sys.argv", [module, *given]):
        try:
            importlib.import_module(module).main()
        except _ParsedOnly:
            return
    raise AssertionError(f"{module}: reads no options")


def parse_subcommand(given):
    """Let the parser of a subcommand read its options, and stop there."""
    if given[0] == "run":
        assert all(word.startswith("-") or Path(given[k - 1]).name for k, word in enumerate(given))
        return
    parse_only(f"beyond_perplexity.commands.{given[0].replace('-', '_')}", given[1:])


def execute_subcommand(given):
    """Run a subcommand as it stands."""
    with patch("sys.argv", ["beyond-perplexity", *given]):
        run_subcommand(given)


def _read_snakemake(given):
    from snakemake.cli import get_argument_parser

    # Profiles would be read from the folder of the test.
    parser: argparse.ArgumentParser = get_argument_parser()
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
