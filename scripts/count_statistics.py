"""Count the sufficient statistics of documents or samples."""

from __future__ import annotations

import argparse

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.arguments import COUNT, ITEM, SEED, CommandParser, output_file
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, count_documents
from beyond_perplexity.tendencies.document_files import DocumentFiles, read_resample
from beyond_perplexity.tendencies.statistics import StatisticsCounter
from beyond_perplexity.tendencies.tokens import TextView, vocabulary_words
from beyond_perplexity.tendencies.word_classes import load_stop_words


def _subset_size(options: argparse.Namespace) -> int | None:
    """Return how many documents the random subset has; None for all documents."""
    size: int | None = options.size
    if options.size_of_split:
        half = count_documents(options.input, options.split) // 2
        sizes = [half, count_documents(options.input, options.size_of_split), options.first]
        size = min(number for number in sizes if number is not None)
    if (options.resample is None) != (size is None):
        raise InputError("--resample needs --size or --size-of-split, and they need --resample")
    return size


def _parser() -> CommandParser:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    files = "Parquet files, in order; x/{00000..00019}.parquet stands for twenty"
    add("--input", nargs="+", required=True, action=FileRanges, help=files)
    add("--kind", choices=["documents", "samples"], required=True)
    add("--split", nargs="?", help="count only this split of documents")
    add("--resample", nargs="?", type=ITEM, help="number of a random subset")
    add("--size", type=ITEM, help="documents of the random subset")
    add(
        "--size-of-split",
        nargs="?",
        help="split that the random subset is as large as; at most half of the documents are drawn",
    )
    add("--first", nargs="?", type=ITEM, help="only so many documents; a random subset: at most")
    add("--vocabulary", nargs="?", help="closed vocabulary that texts are read in")
    add("--maximum-tokens", nargs="?", type=COUNT, help="tokens that are read of a document")
    add("--minimum-tokens", type=ITEM, default=0, help="of a document to be counted")
    add("--seed", nargs="?", type=SEED, const=0, default=0, help="seed of the random subset")
    add("--stop-words", default="gensim", help="gensim, nltk, language:CODE, or a file")
    add(
        "--count-s-symbols",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="category S* is symbols",
    )
    add("--output", type=output_file, required=True, help="statistics file to write")
    return parser


def main() -> None:
    options = _parser().parse_args()
    if options.split and options.kind == "samples":
        raise InputError("--split: samples have no split; leave it out")
    size = _subset_size(options)
    record = run_record("scripts/count_statistics.py", vars(options), seed=options.seed)
    words = vocabulary_words(options.vocabulary) if options.vocabulary else None
    view = TextView(words, options.maximum_tokens, options.minimum_tokens)
    if size is None:
        batches = DocumentFiles(options.input, options.split, options.first, view).texts()
    else:
        drawn = read_resample(options.input, options.split, size, options.resample, options.seed)
        batches = (texts.filter(pa.array(view.admits(texts))) for texts in drawn)
    stop_words = load_stop_words(options.stop_words)
    with StatisticsCounter(stop_words, options.count_s_symbols, view) as counter:
        for texts in tqdm(batches, desc="batches", mininterval=1):
            counter.add(texts)
        counter.write(options.output, record)


if __name__ == "__main__":
    run_command(main)
