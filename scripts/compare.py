"""Compare two bodies of text in every statistical tendency. No model is needed.

Each file holds one document a line: plain text, or JSON with a field "text"; or it is Parquet with
a column "text". The folder of --out gets tendencies.csv, the figures, and compare.html.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from beyond_perplexity.corpus.rows import TEXT_FORMATS
from beyond_perplexity.errors import run_command
from beyond_perplexity.report.compare import run
from beyond_perplexity.report.comparison_input import CompareOptions


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reference", required=True, help="human text, or what to compare with")
    parser.add_argument("--samples", required=True, help="generated text, or what to compare")
    parser.add_argument("--out", required=True, type=Path, help="folder for the results")
    parser.add_argument(
        "--format", default="auto", choices=["auto", *TEXT_FORMATS], help="default: by the suffix"
    )
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the texts are tokens joined by blanks: no tokenizer, lower case or other cleaning",
    )
    parser.add_argument("--language", default="en", help="of the tokenizer (default: en)")
    parser.add_argument("--stop-words", default="gensim", help="gensim (default), nltk, or a file")
    parser.add_argument("--permutations", type=int, default=1000, help="draws of each test")
    parser.add_argument("--bootstrap", type=int, default=1000, help="draws of the intervals")
    parser.add_argument("--seed", type=int, default=1, help="seed of all draws (default: 1)")
    given = parser.parse_args()
    options = CompareOptions(
        reference=given.reference,
        samples=given.samples,
        kind=given.format,
        tokenized=given.tokenized,
        language=given.language,
        stop_words=given.stop_words,
        permutations=given.permutations,
        bootstrap=given.bootstrap,
        seed=given.seed,
    )
    print(run(options, given.out))
    print(f"\nOpen {given.out / 'compare.html'}; in full precision: {given.out / 'tendencies.csv'}")


if __name__ == "__main__":
    run_command(main)
