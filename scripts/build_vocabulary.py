"""Build a closed or BPE vocabulary from the training split of a documents file."""

from __future__ import annotations

import os

from beyond_perplexity.arguments import THREADS, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet) with a split train")
    add(
        "--config",
        required=True,
        type=json_object,
        help='JSON: {"kind": "closed", "minimum_count": 1, "maximum_size": null} or '
        '{"kind": "bpe", "size": 4000}',
    )
    add("--threads", type=THREADS, default=1, help="CPU threads, used by BPE (default 1)")
    add("--output", type=output_file, required=True, help="vocabulary file (JSON) to write")
    options = parser.parse_args()
    # Read by the tokenizers library when it is imported.
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if options.threads > 1 else "false"
    from beyond_perplexity.storage.shards import read_texts
    from beyond_perplexity.vocabulary import build_vocabulary

    build_vocabulary(read_texts([options.documents], "train"), options.config).save(options.output)


if __name__ == "__main__":
    run_command(main)
