"""Measure the tendencies of samples against a reference, and make the curves of the figures."""

from __future__ import annotations

import argparse
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from beyond_perplexity.arguments import COUNT, ITEM, SEED, CommandParser, output_file
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.tendencies import CURVES, SAMPLE_SIZE, TENDENCY_MEASURES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard
from beyond_perplexity.tendencies.curves import curves, sample_sizes
from beyond_perplexity.tendencies.definitions import (
    MeasurementOptions,
    SampleSizeOptions,
    check_inputs,
)
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.human_baselines import least_tokens, split_floors
from beyond_perplexity.tendencies.measures import measure_rows, measure_table, star_warning
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.statistics import check_comparable, read_statistics
from beyond_perplexity.tendencies.text_comparison import Bodies, TextComparison, count_texts
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView, vocabulary_words
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words, without_blanks


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--reference-statistics", required=True, help="statistics of the reference")
    add("--raw-reference-statistics", help="statistics of the reference without a vocabulary")
    add("--sample-statistics", help="statistics; without: curves of the reference")
    add("--reference-documents", nargs="+", default=[], help="Parquet files of the reference")
    add("--reference-split", help="split of the reference's documents")
    add("--pool-split", help="split of the same files with further human documents, for floors")
    add("--training-split", nargs="?", help="split of the same files that the model was trained on")
    add("--first", type=ITEM, help="documents of the reference: so many, the first ones")
    add("--group-column", nargs="?", help="column of the reference with the group of a document")
    files = "Parquet files of the samples"
    add("--sample-documents", nargs="+", default=[], action=FileRanges, help=files)
    add("--sample-split", help="split of the samples, if they are documents")
    add("--vocabulary", nargs="?", help="closed vocabulary that both are read in")
    add("--maximum-tokens", nargs="?", type=COUNT, help="tokens that are read of a document")
    add("--minimum-tokens", type=ITEM, default=0, help="of a document to be read")
    add("--stop-words", default="gensim", help="gensim, nltk, language:CODE, or a file")
    add("--count-s-symbols", action=argparse.BooleanOptionalAction, default=True)
    add("--source", required=True, help="name of the samples in the tables")
    add("--bodies", type=COUNT, default=1, help="bodies of text that share one family of tests")
    add("--options", type=json_object, default={}, help="JSON; see tendencies/definitions.py")
    add("--sample-size-options", type=json_object, default={}, help="JSON object; likewise")
    add("--seed", type=SEED, default=0, help="seed of all draws")
    add("--measures", type=output_file, help="table of measures to write")
    add("--raw", type=output_file, help="table of measures without a vocabulary to write")
    add(
        "--sample-size", type=output_file, help="table of random subsets to write; needs --measures"
    )
    add("--curves", type=output_file, help="table of curves to write")
    given = parser.parse_args()
    options = MeasurementOptions.from_config(given.options)
    check_inputs(given, options)
    record = run_record("scripts/measure_tendencies.py", vars(given), seed=given.seed)
    paths = given.reference_statistics, given.sample_statistics or given.reference_statistics
    check_comparable(*paths)
    reference, body = map(read_statistics, paths)
    if found := without_blanks(body.types, body.counts):
        remark(f"warning: {paths[1]}: {found}")
    if given.measures:
        _measure(given, (reference, body), options, record)
    if given.curves:
        other = reference if given.sample_statistics else None
        write_shard(given.curves, CURVES, curves(body, options, given.source, other), record)


def _comparison(given: Namespace) -> TextComparison:
    """Say where the texts are and how they are read; with --raw, a second time as they are."""
    words = vocabulary_words(given.vocabulary) if given.vocabulary else None
    raw = TextView(None, given.maximum_tokens, given.minimum_tokens)
    views = {} if words is None else {Path(given.vocabulary).stem: replace(raw, words=words)}
    if given.raw or not views:
        views[RAW_TEXT] = raw
    human = DocumentFiles(given.reference_documents, given.reference_split, given.first, raw)
    human = replace(human, group_column=given.group_column)
    samples = DocumentFiles(given.sample_documents, given.sample_split, None, raw)
    groups, training, pool = human.groups(), None, None
    if note := human.note_on_groups(groups):
        remark(note)
    if given.training_split:
        training = human.other_split(given.training_split).texts
    if given.pool_split:
        pool = human.other_split(given.pool_split, as_thin=groups is not None)
    classes = ClassOptions(load_stop_words(given.stop_words), given.count_s_symbols)
    return TextComparison((human, samples), views, classes, (groups, None), training, pool)


def _measure(
    given: Namespace, bodies: Bodies, options: MeasurementOptions, record: dict[str, object]
) -> None:
    """Write the tables of a body of text: read in its vocabulary, as it is, and of subsets."""
    if not (given.reference_documents and given.sample_documents):
        with paired(*bodies, None) as pair:
            rows = measure_rows(pair, options, given.seed)
            table = measure_table(rows, pair, given.source)
        write_shard(given.measures, TENDENCY_MEASURES, table, record)
        return
    comparison = _comparison(given)
    main = next(iter(comparison.views))
    for vocabulary in comparison.views:
        if vocabulary != main:
            bodies = _raw_bodies(given, comparison)
        with (
            comparison.pair(vocabulary, bodies) as pair,
            comparison.further(vocabulary, pair) as further,
        ):
            floors = {}
            if further is not None and options.permutations:
                floors = split_floors(further, least_tokens(pair), options, given.seed)
            rows = measure_rows(pair, options, given.seed, floors=floors, bodies=given.bodies)
            warning = star_warning(rows, options.permutations, given.bodies)
            if warning and vocabulary == main:
                remark(f"warning: {given.source}: {warning}")
            told = comparison.text_rows(vocabulary, bodies)
            table = measure_table([*rows, *told], pair, given.source, vocabulary)
            wanted = {given.measures: vocabulary == main, given.raw: vocabulary == RAW_TEXT}
            for path in (path for path, true in wanted.items() if path and true):
                write_shard(path, TENDENCY_MEASURES, table, record)
            if given.sample_size and vocabulary == main:
                how = SampleSizeOptions.from_config(given.sample_size_options)
                table = sample_sizes(pair, rows, options, how, given.seed, given.source, further)
                write_shard(given.sample_size, SAMPLE_SIZE, table, record)


def _raw_bodies(given: Namespace, comparison: TextComparison) -> Bodies:
    """Return the statistics of both bodies as they are; the samples are counted here."""
    if not given.raw_reference_statistics:
        raise InputError("--raw needs --raw-reference-statistics beside a vocabulary")
    files, view = comparison.files[1], comparison.views[RAW_TEXT]
    samples = count_texts(files.texts(), comparison.classes, view)
    return read_statistics(given.raw_reference_statistics), samples


if __name__ == "__main__":
    run_command(main)
