"""Find the words and phrases that samples over- and under-use, beside a reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from beyond_perplexity import arguments
from beyond_perplexity.foreign_text import say
from beyond_perplexity.schemas.tendencies import WORDS_AND_PHRASES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import Measuring, paired
from beyond_perplexity.tendencies.statistics import read_statistics
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView, vocabulary_words
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words
from beyond_perplexity.tendencies.words_and_phrases import compare_words
from scripts._job import COUNTING, OF_REFERENCE, Given, flag, job, json_flag, needed, output, shards


@job(
    needed("--reference-statistics", "statistics of the reference"),
    needed("--reference-documents", "Parquet files of the reference", nargs="+"),
    flag("--reference-split", "split of the reference's documents"),
    *OF_REFERENCE,
    needed("--sample-statistics", "statistics of the samples"),
    shards("--sample-documents", "Parquet files of the samples"),
    flag("--vocabulary", "closed vocabulary that both are read in", nargs="?"),
    *COUNTING,
    needed("--source", "name of the samples in the table"),
    flag("--sample-sets", "sample sets that share one family of tests", arguments.COUNT, default=1),
    json_flag("--options", "JSON; see tendencies/measurement_options.py"),
    flag("--seed", "seed of all draws", arguments.SEED, default=0),
    output("--output", "table of words and phrases to write"),
)
def main(given: Given) -> None:
    options = MeasurementOptions.from_config(given.options)
    words = vocabulary_words(given.vocabulary) if given.vocabulary else None
    view = TextView(words, given.maximum_tokens, given.minimum_tokens)
    human = DocumentFiles(given.reference_documents, given.reference_split, given.first, view)
    human = replace(human, group_column=given.group_column)
    samples = DocumentFiles(given.sample_documents, view=view)
    texts, groups = (human.texts, samples.texts), (human.groups(), None)
    files = given.reference_statistics, given.sample_statistics
    classes = ClassOptions(load_stop_words(given.stop_words), given.count_s_symbols)
    streams = human.texts(), samples.texts()
    counted = [read_statistics(file) for file in files]
    how_read: Any = {"read": view.batch, "groups": groups, "classes": classes}
    with paired(counted[0], counted[1], streams, **how_read) as pair:
        how = Measuring.of(pair, options, given.seed)
        name = RAW_TEXT if words is None else Path(given.vocabulary).stem
        table = compare_words(how, texts, view.batch, given.source, name, given.sample_sets)
    write_shard(given.output, WORDS_AND_PHRASES, table, given.record())
    say(f"{given.source}: {len(table):,} words and phrases were tested")
