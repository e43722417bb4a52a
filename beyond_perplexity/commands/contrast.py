"""Score pairs of a good and a bad sentence under a model: accuracy and H_C of each phenomenon.

A file of pairs is JSONL (an object a line) or TSV with a line of names, plain or compressed. Fields
or columns: sentence_good and sentence_bad, or good and bad; phenomenon or UID, where there is one.
H_C is the mean of score(good) - score(bad), in nats a pair: larger is better, 0 is no difference.
Of several phenomena, as of a folder with a file each, the mean stands at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.arguments import THREADS, CommandParser, output_file
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.calls import for_command
from beyond_perplexity.library.contrast import contrast


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
        "--model",
        required=True,
        help="folder of a model: of a run or of Hugging Face; or its name on the hub; or an n-gram "
        "model: ARPA file, plain or .gz",
    )
    add("--pairs", required=True, type=Path, help="file of pairs, .jsonl or .tsv; or their folder")
    add("--tokenized", action="store_true", help="the sentences are cleaned already")
    add("--name", help="name of the model (default: that of its folder)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_file, help="Parquet file to write, a row a phenomenon")
    given = parser.parse_args(arguments)
    options = vars(given).copy()
    say(for_command(contrast)(options.pop("pairs"), **options).text)
