"""Count the sufficient statistics of documents or samples."""

from __future__ import annotations

import argparse

from tqdm import tqdm

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import count_documents, read_texts
from beyond_perplexity.tendencies.statistics import StatisticsCounter
from beyond_perplexity.tendencies.tokens import read_resample
from beyond_perplexity.tendencies.word_classes import load_stop_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", nargs="+", required=True, help="Parquet files, in order")
    parser.add_argument("--kind", choices=["documents", "samples"], required=True)
    parser.add_argument("--split", nargs="?", help="count only this split of documents")
    parser.add_argument("--resample", nargs="?", type=int, help="number of a random subset")
    parser.add_argument("--size", type=int, help="documents of the random subset")
    parser.add_argument(
        "--size-of-split",
        nargs="?",
        help="split that the random subset is as large as; at most half of the documents are drawn",
    )
    parser.add_argument(
        "--seed", nargs="?", type=int, const=0, default=0, help="seed of the random subset"
    )
    parser.add_argument("--stop-words", default="gensim", help="gensim, nltk, or a file of words")
    parser.add_argument(
        "--count-s-symbols",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether Unicode's category S* counts as symbol",
    )
    parser.add_argument("--output", required=True, help="statistics file to write")
    options = parser.parse_args()
    if options.split and options.kind == "samples":
        raise InputError("--split: samples have no split; leave it out")
    size = options.size
    if options.size_of_split:
        half = count_documents(options.input, options.split) // 2
        size = min(half, count_documents(options.input, options.size_of_split))
    if (options.resample is None) != (size is None):
        raise InputError("--resample needs --size or --size-of-split, and they need --resample")
    record = run_record("scripts/count_statistics.py", vars(options), seed=options.seed)
    if options.resample is None:
        batches = read_texts(options.input, options.split)
    else:
        batches = read_resample(options.input, options.split, size, options.resample, options.seed)
    stop_words = load_stop_words(options.stop_words)
    with StatisticsCounter(stop_words, options.count_s_symbols) as counter:
        for texts in tqdm(batches, desc="batches", mininterval=1):
            counter.add(texts)
        counter.write(options.output, record)


if __name__ == "__main__":
    run_command(main)
