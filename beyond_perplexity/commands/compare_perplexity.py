"""Compare models by their scores of the same documents: bits per byte, differences, intervals, p.

A file (.parquet, or .csv or .csv.gz with a line of names) has a row for every document: bytes and
log_likelihood (nats, with the end of the document). `beyond-perplexity perplexity --per-document`
writes one; those of other programs are read too. Used where they are there: doc_id (else rows are
matched by their order), group (documents that belong together, such as those of a page),
text_hash, words and characters (to tell other texts), unknown, log_likelihood_spelled, scored_text
(cleaned, raw).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from beyond_perplexity.arguments import COUNT, SEED, CommandParser, output_path
from beyond_perplexity.foreign_text import say


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("scores", nargs="+", help="scores of one model each, of the same documents")
    add("--flips", type=COUNT, default=9_999, help="drawn sign-flips of each test (default 9999)")
    add("--seed", type=SEED, default=1, help="seed of the flips (default 1)")
    add(
        "--no-count-eos",
        action="store_true",
        help="the scores are without the end of documents, and it is no byte",
    )
    add(
        "--leave-out-infinite",
        action="store_true",
        help="name models that find a document impossible, and compare the others",
    )
    add("--csv", type=output_path, help="table to write, in full precision")
    add("--output", type=output_path, help="the same as Parquet; then one model alone is no error")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    given = vars(_parser().parse_args(arguments))
    # Late: it takes a second.
    from beyond_perplexity.library.calls import for_command
    from beyond_perplexity.library.compare_perplexity import compare_perplexity

    say(for_command(compare_perplexity)(given.pop("scores"), **given).text)
