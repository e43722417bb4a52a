"""Pages that follow from the code: the library by its docstrings, the commands by their parsers."""

from __future__ import annotations

import argparse
import html
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from unittest.mock import patch

import beyond_perplexity
from beyond_perplexity.__main__ import SUBCOMMANDS, main_of
from beyond_perplexity.arguments import CommandParser

# What is called by hand beside the commands of the package, from a checkout.
SCRIPTS = ("estimate_partition", "choose_words")
RESULTS = ("library.result.Result", "library.results_folder.ResultsFolder")
CONTRACTS = (
    ("Language models", "beyond_perplexity.models.contract"),
    ("Models with latent variables, and proposals", "beyond_perplexity.models.latent"),
    ("Estimators", "beyond_perplexity.importance.estimator"),
    ("Evaluators of meaning", "beyond_perplexity.semantics.evaluators.contract"),
    ("Random streams", "beyond_perplexity.random_streams"),
)
_LIBRARY = """# The library

Every function returns a result with a table, figures and JSON. `import beyond_perplexity` loads
none of the libraries that a function needs; its first call does.
"""
_RESULTS = "## What they return"
_CONTRACTS = """## What a part of your own fulfils

[Contributing](../contributing.md) says which file and which row each kind of part is.
"""
_COMMANDS = """# The commands

What `--help` says, from the same parsers. How commands end: [exit codes](exit-codes.md).
"""
_MARKUP = re.compile(r"([\\\\`*_{}\[\]#$])")


class _Found(BaseException):
    """A command has come to parse its arguments."""


def library_page() -> str:
    """Write the page of the public functions and of the contracts of parts; mkdocstrings fills it.

    Returns
    -------
    str
        Markdown.
    """
    names = [name for name in getattr(beyond_perplexity, "__all__", ()) if name[0].islower()]
    functions = [f"::: beyond_perplexity.{name}" for name in names]
    contracts = [
        f"### {title}\n\n::: {module}\n    options: {{show_root_heading: false, heading_level: 4}}"
        for title, module in CONTRACTS
    ]
    results = [
        f"::: beyond_perplexity.{name}\n    options: {{heading_level: 3}}" for name in RESULTS
    ]
    parts = [_LIBRARY, *functions, _RESULTS, *results, _CONTRACTS, *contracts]
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Write the page of the commands out of their parsers.

    Returns
    -------
    str
        Markdown.
    """
    parts = [
        _command(main_of(name), "##", f"beyond-perplexity {name}") for name in sorted(SUBCOMMANDS)
    ]
    scripts = [
        _command(
            importlib.import_module(f"scripts.{name}").main, "###", f"python -m scripts.{name}"
        )
        for name in SCRIPTS
    ]
    heading = "## Of the workflow\n\nThese are called in a checkout."
    return "\n\n".join([_COMMANDS, *parts, heading, *scripts]) + "\n"


def parser_of(main: Callable[[], Any]) -> argparse.ArgumentParser:
    """Return the parser of a command, whatever it is called there.

    Parameters
    ----------
    main : callable
        Parses the arguments before anything else.
    """

    def stop(parser: CommandParser, *_: Any, **__: Any) -> NoReturn:
        raise _Found(parser)

    with patch.multiple(CommandParser, parse_args=stop, parse_known_args=stop):
        try:
            main()
        except _Found as found:
            parser: argparse.ArgumentParser = found.args[0]
            return parser
    raise AssertionError(f"{main}: parses no arguments")


def _command(main: Callable[[], Any], level: str, title: str) -> str:
    parser = parser_of(main)
    parser.prog = title
    parts = [f"{level} {title}", escaped(parser.description or ""), *_options(parser)]
    return "\n\n".join(part for part in parts if part)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = argparse.HelpFormatter(parser.prog, width=100)
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or "--help" in action.option_strings:
            continue
        words = formatter._expand_help(action) if action.help else ""
        needed = "" if not action.required else " Needed." if words.endswith(".") else "; needed"
        name = formatter._format_action_invocation(action)
        yield f"`{name}`\n:   {escaped(words) or ' '}{needed}"


def escaped(text: str) -> str:
    """Return text in which nothing is markup.

    Parameters
    ----------
    text : str
        Its empty lines part paragraphs.
    """
    return _MARKUP.sub(r"\\\1", html.escape(text, quote=False))
