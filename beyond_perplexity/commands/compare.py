"""Compare two bodies of text in every statistical tendency. No model is needed.

Each file holds one document a line: plain text, or in JSONL an object with a field "text" or a
string; or it is Parquet with a column "text". The folder of --out gets tendencies.csv, the figures,
and compare.html; with --vocabulary also raw.csv, of the texts as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.foreign_text import say
from beyond_perplexity.option_sets import add_flags
from beyond_perplexity.storage.accounts import tell
from beyond_perplexity.tendencies.compare_options import CompareOptions

_FLAGS = (
    *("reference", "samples", "out", "format", "field", "samples_field", "tokenized", "language"),
    *("stop_words", "permutations", "bootstrap", "seed", "vocabulary", "group_column"),
    *("minimum_tokens", "maximum_tokens", "embedding", "embedding_documents", "training"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    parser = CommandParser(description=__doc__, raw=True)
    add_flags(parser, CompareOptions, *_FLAGS, out=MISSING)
    given = parser.parse_args(arguments)
    # Late: it takes a second.
    from beyond_perplexity.library.compare import compare

    found = compare(**vars(given))
    tell(found.files)
    say(found.text)
    say(f"\nOpen {given.out / 'compare.html'}; in full precision: {given.out / 'tendencies.csv'}")
