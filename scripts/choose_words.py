"""Choose the words of a closed vocabulary that a model's texts and human text are compared in."""

from __future__ import annotations

from dataclasses import replace

from beyond_perplexity.arguments import ITEM
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.tendencies.document_files import DocumentFiles, shared_words
from beyond_perplexity.tendencies.tokens import TextView, vocabulary_words
from scripts._job import Given, flag, job, needed, output


@job(
    needed("--documents", "documents file (Parquet) with splits train and test"),
    needed("--vocabulary", "closed vocabulary of its training split (JSON)"),
    flag("--group-column", "column with the name of what is in one split as a whole", nargs="?"),
    flag("--minimum-tokens", "of a document to be read", ITEM, default=0),
    output("--output", "file of words to write, one a line"),
)
def main(options: Given) -> None:
    words = vocabulary_words(options.vocabulary)
    if words is None:
        raise InputError(f"{options.vocabulary}: is an open vocabulary; texts are compared raw")
    view = TextView(minimum_tokens=options.minimum_tokens)
    test = DocumentFiles((options.documents,), "test", view=view, group_column=options.group_column)
    chosen = shared_words(words, replace(test, split="train"), test)
    with atomic_path(options.output) as temporary:
        temporary.write_text("\n".join([*chosen.to_pylist(), ""]), encoding="utf-8")
    say(f"{len(chosen):,} of {len(words):,} words are compared")
