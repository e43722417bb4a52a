"""Score pairs of a good and a bad sentence under a model: accuracy and H_C of each phenomenon.

A file of pairs is JSONL (an object a line) or TSV with a line of names, plain or compressed. Fields
or columns: sentence_good and sentence_bad, or good and bad; phenomenon or UID, where there is one.
H_C is the mean of score(good) - score(bad), in nats a pair: larger is better, 0 is no difference.
Of several phenomena, as of a folder with a file each, the mean stands at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.call_options import ContrastOptions
from beyond_perplexity.option_sets import add_flags
from beyond_perplexity.storage.accounts import tell

_FLAGS = ("model", "originals=pairs", "tokenized", "name", "threads", "device", "output")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    parser = CommandParser(description=__doc__, raw=True)
    add_flags(parser, ContrastOptions, *_FLAGS, model=MISSING, threads=1)
    given = vars(parser.parse_args(arguments))
    # Late: it takes a second.
    from beyond_perplexity.library.contrast import contrast

    found = contrast(Path(given.pop("pairs")), **given)
    tell(found.files)
    say(found.text)
