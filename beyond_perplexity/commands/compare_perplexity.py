"""Compare models by their scores of the same documents: bits per byte, differences, intervals, p.

A file (.parquet, or .csv or .csv.gz with a line of names) has a row for every document: bytes and
log_likelihood (nats, with the end of the document). `scripts.perplexity --per-document` writes one;
those of other programs are read too. Used where they are there: doc_id (else rows are matched by
their order), group (documents that belong together, such as those of a page), text_hash, words and
characters (to tell other texts), unknown, log_likelihood_spelled, scored_text (cleaned, raw).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.arguments import SEED, CommandParser, output_path, whole
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import say
from beyond_perplexity.report.layout import csv_text
from beyond_perplexity.report.perplexity_differences import describe_differences
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.scoring.paired import PairOptions, check_company, compare_scores
from beyond_perplexity.scoring.score_files import read_scores
from beyond_perplexity.storage.outputs import write_text
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("scores", nargs="+", help="scores of one model each, of the same documents")
    add(
        "--flips", type=whole(1), default=9_999, help="drawn sign-flips of each test (default 9999)"
    )
    add("--seed", type=SEED, default=1, help="seed of the flips (default 1)")
    add(
        "--no-count-eos",
        action="store_true",
        help="the scores are without the end of documents, and it is no byte",
    )
    add(
        "--leave-out-infinite",
        action="store_true",
        help="name models that find a document impossible, and compare the others",
    )
    add("--csv", type=output_path, help="table to write, in full precision")
    add("--output", type=output_path, help="the same as Parquet; then one model alone is no error")
    return parser


def _names(paths: list[str]) -> dict[str, str]:
    """Name models by their files, by the whole path where two have the same name."""
    stems = [Path(path).name.split(".")[0] for path in paths]
    unique = len(set(stems)) == len(stems)
    return dict(zip(paths, stems if unique else paths, strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    given = _parser().parse_args(arguments)
    paths = [str(Path(path)) for path in given.scores]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"{path}: is given twice; give each model's scores once")
    files = [scores for path in paths for scores in read_scores(path)]
    if not given.output:
        check_company(files)
    options = PairOptions(given.flips, given.seed, not given.no_count_eos, given.leave_out_infinite)
    names = _names(paths)
    table = compare_scores(files, names, options)
    frame = table.to_pandas().astype({"groups": "Int64"})
    called = list(names.values())
    labels = Labels(models=called, names={name: name for name in called})
    say(describe_differences(frame, labels))
    if given.csv:
        write_text(given.csv, csv_text(frame))
    if given.output:
        record = run_record("scripts/compare_perplexity.py", options._asdict(), seed=given.seed)
        write_shard(given.output, PERPLEXITY_DIFFERENCES, table, record)
