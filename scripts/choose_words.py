"""Choose the words of a closed vocabulary that a model's texts and human text are compared in."""

from __future__ import annotations

from dataclasses import replace

from beyond_perplexity.arguments import ITEM, CommandParser, output_file
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.foreign_text import say
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.tendencies.document_files import DocumentFiles, shared_words
from beyond_perplexity.tendencies.tokens import TextView, vocabulary_words


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet) with splits train and test")
    add("--vocabulary", required=True, help="closed vocabulary of its training split (JSON)")
    add("--group-column", nargs="?", help="column with the name of what is in one split as a whole")
    add("--minimum-tokens", type=ITEM, default=0, help="of a document to be read")
    add("--output", type=output_file, required=True, help="file of words to write, one a line")
    options = parser.parse_args()
    words = vocabulary_words(options.vocabulary)
    if words is None:
        raise InputError(f"{options.vocabulary}: is an open vocabulary; texts are compared raw")
    view = TextView(minimum_tokens=options.minimum_tokens)
    test = DocumentFiles((options.documents,), "test", view=view, group_column=options.group_column)
    chosen = shared_words(words, replace(test, split="train"), test)
    with atomic_path(options.output) as temporary:
        temporary.write_text("\n".join([*chosen.to_pylist(), ""]), encoding="utf-8")
    say(f"{len(chosen):,} of {len(words):,} words are compared")


if __name__ == "__main__":
    run_command(main)
