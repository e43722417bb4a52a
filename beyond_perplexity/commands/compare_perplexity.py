"""Compare models by their scores of the same documents: bits per byte, differences, intervals, p.

A file (.parquet, or .csv or .csv.gz with a line of names) has a row for every document: bytes and
log_likelihood (nats, with the end of the document). `beyond-perplexity perplexity --per-document`
writes one; those of other programs are read too. Used where they are there: doc_id (else rows are
matched by their order), group (documents that belong together, such as those of a page),
text_hash, words and characters (to tell other texts), unknown, log_likelihood_spelled, scored_text
(cleaned, raw).
"""

from __future__ import annotations

from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.foreign_text import say
from beyond_perplexity.option_sets import add_flags
from beyond_perplexity.perplexities.options import PairOptions
from beyond_perplexity.storage.accounts import tell

_FLAGS = ("flips", "seed", "no_count_eos", "leave_out_infinite", "csv", "output")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    parser = CommandParser(description=__doc__, raw=True)
    parser.add_argument("scores", nargs="+", help="scores of one model each, of the same documents")
    add_flags(parser, PairOptions, *_FLAGS)
    given = parser.parse_args(arguments)
    # Late: it takes a second.
    from beyond_perplexity.library.compare_perplexity import compare_perplexity

    found = compare_perplexity(**vars(given))
    tell(found.files)
    say(found.text)
