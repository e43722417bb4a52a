"""Build a closed or BPE vocabulary from the training split of a documents file."""

from __future__ import annotations

import os

from beyond_perplexity.arguments import THREADS, output_file
from beyond_perplexity.options import json_object
from scripts._job import Given, flag, job, needed


@job(
    needed("--documents", "documents file (Parquet) with a split train"),
    needed(
        "--config",
        'JSON: {"kind": "closed", "minimum_count": 1, "maximum_size": null} or '
        '{"kind": "bpe", "size": 4000}',
        json_object,
    ),
    flag("--threads", "CPU threads, used by BPE (default 1)", THREADS, default=1),
    needed("--output", "vocabulary file (JSON) to write", output_file),
)
def main(options: Given) -> None:
    # Read by the tokenizers library when it is imported.
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if options.threads > 1 else "false"
    from beyond_perplexity.storage.shards import read_texts
    from beyond_perplexity.vocabulary import build_vocabulary

    build_vocabulary(read_texts([options.documents], "train"), options.config).save(options.output)
