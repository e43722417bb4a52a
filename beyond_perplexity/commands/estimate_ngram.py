"""Estimate an n-gram model from text by modified Kneser–Ney, and write it as an ARPA file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser, output_file, whole
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.ngrams.arpa import write_arpa
from beyond_perplexity.ngrams.kneser_ney import (
    check_pruning,
    count_parts,
    estimate_backoff,
    extend_words,
)
from beyond_perplexity.ngrams.sentence_files import UnknownRule, WordIds, read_sentences
from beyond_perplexity.storage.accounts import accounts_told

NOTES = """The text is read as it is: a sentence a line, words joined by blanks; nothing is cleaned,
lower-cased or tokenized. Standard output is a JSON object with the number of n-grams and the
discounts (D1, D2, D3+) of every order."""


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(description=__doc__, epilog=NOTES)
    add = parser.add_argument
    add("--text", nargs="+", required=True, help="a sentence a line, or .jsonl or .parquet")
    add("--field", help="field or column of the sentences in JSONL or Parquet (default: text)")
    written = "ARPA file to write; .gz means gzip, any other plain"
    add("--arpa", type=output_file, required=True, help=written)
    add("--order", type=whole(1, 100), default=5, help="words of the longest n-grams (default 5)")
    pruned = (
        "leave out n-grams seen so often at most, by order, as in 0 0 1; the last holds for those "
        "above it (default: none is left out)"
    )
    add("--prune", type=whole(), nargs="+", default=[0], metavar="COUNT", help=pruned)
    add("--unk-as", metavar="WORD", help="read a literal <unk> as this ordinary word")
    add("--unk-as-unknown", action="store_true", help="read a literal <unk> as the unknown word")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    options = _read_options(arguments)
    check_pruning(options.prune, options.order)
    ids = WordIds([], UnknownRule(options.unk_as, options.unk_as_unknown), grows=True)
    with accounts_told() as read:
        counts = count_parts(read_sentences(options.text, ids, field=options.field), options.order)
    if counts is None:
        raise InputError(f"{options.text[0]}: holds no sentence; give a text with words")
    found = estimate_backoff(extend_words(counts, ids.size), prune=options.prune)
    write_arpa(options.arpa, found.model, ids.words)
    summary = {"n_counts": found.model.n_counts, "discounts": found.discounts, "files": read}
    json.dump(summary, sys.stdout, indent=2)
    say()
