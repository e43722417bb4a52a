"""Count the sufficient statistics of documents or samples."""

from __future__ import annotations

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.arguments import ITEM, SEED
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.shards import count_documents
from beyond_perplexity.tendencies.document_files import DocumentFiles, read_resample
from beyond_perplexity.tendencies.statistics import StatisticsCounter
from beyond_perplexity.tendencies.tokens import TextView, vocabulary_words
from beyond_perplexity.tendencies.word_classes import load_stop_words
from scripts._job import COUNTING, Given, flag, job, needed, output, shards


def _subset_size(options: Given) -> int | None:
    """Return how many documents the random subset has; None for all documents."""
    size: int | None = options.size
    if options.size_of_split:
        half = count_documents(options.input, options.split) // 2
        sizes = [half, count_documents(options.input, options.size_of_split), options.first]
        size = min(number for number in sizes if number is not None)
    if (options.resample is None) != (size is None):
        raise InputError("--resample needs --size or --size-of-split, and they need --resample")
    return size


@job(
    shards("--input", "Parquet files, in order; x/{00000..00019}.parquet stands for twenty"),
    needed("--kind", "what the files hold", choices=["documents", "samples"]),
    flag("--split", "count only this split of documents", nargs="?"),
    flag("--resample", "number of a random subset", ITEM, nargs="?"),
    flag("--size", "documents of the random subset", ITEM),
    flag(
        "--size-of-split",
        "split that the random subset is as large as; at most half of the documents are drawn",
        nargs="?",
    ),
    flag("--first", "only so many documents; a random subset: at most", ITEM, nargs="?"),
    flag("--vocabulary", "closed vocabulary that texts are read in", nargs="?"),
    flag("--seed", "seed of the random subset", SEED, nargs="?", const=0, default=0),
    *COUNTING,
    output("--output", "statistics file to write"),
)
def main(options: Given) -> None:
    if options.split and options.kind == "samples":
        raise InputError("--split: samples have no split; leave it out")
    size = _subset_size(options)
    record = options.record()
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
