"""How alike pairs of texts are, by an evaluator; no language model is needed.

Standard output: one score a pair, in their order; `nan` where an evaluator knows no word of the
second text. With --gold it has the correlations with these scores alone, with 95% intervals. Texts
are raw: for evaluators that read tokens they are cleaned as those were trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.call_options import SimilarityOptions
from beyond_perplexity.option_sets import add_flags
from beyond_perplexity.storage.accounts import tell

_FLAGS = (
    *("evaluator", "references=pairs", "gold", "output", "measure", "tokenized", "vectors"),
    *("layers", "config", "threads", "device"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    parser = CommandParser(description=__doc__, raw=True)
    add_flags(parser, SimilarityOptions, *_FLAGS, threads=1)
    given = vars(parser.parse_args(arguments))
    # Late: it takes a second.
    from beyond_perplexity.library.similarity import similarity

    found = similarity(Path(given.pop("pairs")), **given)
    tell(found.files)
    say(found.text)
