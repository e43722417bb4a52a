"""The commands that are functions of the library: an option set makes the flags of each."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pkgutil import resolve_name

import beyond_perplexity
from beyond_perplexity.arguments import CommandParser, add_flags
from beyond_perplexity.foreign_text import say
from beyond_perplexity.storage.accounts import tell

# Function -> its option set, whose docstring the command describes itself by.
OPTION_SETS = {
    "audit": "library.call_options:AuditOptions",
    "compare": "tendencies.compare_options:CompareOptions",
    "compare_perplexity": "perplexities.options:PairOptions",
    "contrast": "library.call_options:ContrastOptions",
    "estimate": "library.call_options:EstimateOptions",
    "similarity": "library.call_options:SimilarityOptions",
    "thoughts": "library.call_options:DrawThoughtsOptions",
}


def run_function(name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a function as a command; a result that fails is status 1."""
    options = resolve_name(f"beyond_perplexity.{OPTION_SETS[name]}")
    parser = CommandParser(description=inspect.getdoc(options), raw=True)
    add_flags(parser, options)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = vars(parser.parse_args(arguments))
    as_json = given.pop("json")
    found = getattr(beyond_perplexity, name)(**given)  # imported late: it takes a second
    tell(found.files)
    say(found.to_json() if as_json else found.text)
    if not found.sound:
        sys.exit(1)
