"""How alike pairs of texts are, by an evaluator; no language model is needed.

Standard output: one score a pair, in their order; `nan` where an evaluator knows no word of the
second text. With --gold it has the correlations with these scores alone, with 95% intervals. Texts
are raw: for evaluators that read tokens they are cleaned as those were trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.arguments import THREADS, CommandParser, output_path, whole
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.calls import for_command
from beyond_perplexity.library.similarity import similarity
from beyond_perplexity.semantics.evaluators.families import PACKAGES


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--evaluator",
        required=True,
        help=f"{', '.join(PACKAGES)} (extra pretrained), an evaluator of the run, or a path: a "
        "folder of sentence-transformers, of Hugging Face, of a model or evaluator of a run, a "
        "file of word vectors",
    )
    add("--pairs", required=True, type=Path, help="TSV or CSV with a line of names; texts first")
    add("--gold", help="column with scores that people gave: correlations are printed")
    add("--output", type=output_path, help="file for the scores: .csv or .parquet")
    add("--measure", help="of an evaluator with several, such as wmd of word vectors")
    add("--tokenized", action="store_true", help="the texts are tokens: they are not cleaned")
    add("--vectors", help="word vectors that official InferSent weights read: glove or a path")
    add(
        "--layers",
        type=whole(1, 1_000),
        default=2,
        help="upper layers of a Transformer (default 2)",
    )
    add("--config", type=Path, default=Path("config.yaml"), help="of the run (default config.yaml)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    given = parser.parse_args(arguments)
    options = vars(given).copy()
    say(for_command(similarity)(options.pop("pairs"), **options).text)
