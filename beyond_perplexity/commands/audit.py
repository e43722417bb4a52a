"""Find out whether a model, its tokenizer and the scoring of texts keep what a perplexity promises.

Each check compares what must be equal, or adds up what must be 1, for some documents of a text. It
has a name, a tolerance and an explanation. An alarm says what was measured and where; one that
follows from another says so. --rosetta adds what other programs would print for the same model and
text, each number with the definition that makes it differ.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.audit import audit
from beyond_perplexity.library.call_options import AuditOptions
from beyond_perplexity.option_sets import add_flags
from beyond_perplexity.storage.accounts import tell

STATUS = """The exit status is 0 when no check sounds an alarm, 1 when one does (or the input cannot
be used), and 2 for a wrong use of the options."""
_FLAGS = (
    *("model", "texts=text", "field", "documents", "check", "rosetta", "precision", "seed"),
    *("threads", "device"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default; an alarm is status 1."""
    parser = CommandParser(description=__doc__, epilog=STATUS, raw=True)
    add_flags(parser, AuditOptions, *_FLAGS, threads=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = vars(parser.parse_args(arguments))
    as_json = given.pop("json")
    found = audit(given.pop("model"), given.pop("text"), **given)
    tell(found.files)
    say(found.to_json() if as_json else found.text)
    if not found.sound:
        sys.exit(1)
