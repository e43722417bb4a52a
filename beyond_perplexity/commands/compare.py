"""Compare two bodies of text in every statistical tendency. No model is needed.

Each file holds one document a line: plain text, or in JSONL an object with a field "text" or a
string; or it is Parquet with a column "text". The folder of --out gets tendencies.csv, the figures,
and compare.html; with --vocabulary also raw.csv, of the texts as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from beyond_perplexity.arguments import COUNT, ITEM, SEED, CommandParser, output_folder, whole
from beyond_perplexity.corpus.rows import TEXT_FORMATS
from beyond_perplexity.foreign_text import say
from beyond_perplexity.tendencies.options import EmbeddingOptions


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--reference", required=True, help="human text, or what to compare with")
    add("--samples", required=True, help="generated text, or what to compare")
    add(
        "--out",
        type=output_folder,
        required=True,
        help="folder for the results; files of their names are replaced",
    )
    add("--format", default="auto", choices=["auto", *TEXT_FORMATS], help="default: by the suffix")
    add("--field", help="field or column of the texts in JSONL or Parquet (default: text)")
    add("--samples-field", help="that of the samples, where it is another")
    add(
        "--tokenized",
        action="store_true",
        help="the texts are tokens joined by blanks: no tokenizer, lower case or other cleaning",
    )
    add("--language", default="en", help="of tokenizer and stop words (default: en)")
    _add_measurement(parser)
    add("--training", help="text that the samples' model was trained on, to find copies of it")
    return parser


def _add_measurement(parser: CommandParser) -> None:
    add = parser.add_argument
    add(
        "--stop-words",
        default="auto",
        help="auto (default: the language's list, gensim's for en), gensim, nltk, or a file",
    )
    add(
        "--permutations",
        type=whole(),
        default=1999,
        help="draws of each test (default: 1999; 0: none)",
    )
    add(
        "--bootstrap",
        type=whole(),
        default=1000,
        help="draws of the intervals (default: 1000; 0: none)",
    )
    add("--seed", type=SEED, default=1, help="seed of all draws (default: 1)")
    add(
        "--vocabulary",
        help="vocabulary.json of a model's folder, or a file with one word a line: both texts are "
        "read in it, other words as <unk>",
    )
    add(
        "--group-column",
        help="key or column with the group of a document, such as its page or prompt (default: "
        "'group' where a text has it; '' for none)",
    )
    add("--minimum-tokens", type=ITEM, default=0, help="documents of fewer tokens are left out (0)")
    add("--maximum-tokens", type=COUNT, help="tokens read of a document (all)")
    add(
        "--embedding",
        help="minilm (extra 'pretrained') or a folder of sentence-transformers: documents are also "
        "compared by their vectors",
    )
    add(
        "--embedding-documents",
        type=whole(20, 4_000),
        default=EmbeddingOptions.documents,
        help="documents of each text for --embedding, at random "
        f"(default: {EmbeddingOptions.documents})",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    given = _parser().parse_args(arguments)
    # Late: it takes a second.
    from beyond_perplexity.library.calls import for_command
    from beyond_perplexity.library.compare import compare

    say(for_command(compare)(**vars(given)).text)
    say(f"\nOpen {given.out / 'compare.html'}; in full precision: {given.out / 'tendencies.csv'}")
