"""Find the smallest shift of each tendency that numbers of documents detect."""

from __future__ import annotations

import argparse

from beyond_perplexity.arguments import COUNT, ITEM, SEED, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.tendencies import SENSITIVITY
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.definitions import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.document_files import DocumentFiles, choose_documents
from beyond_perplexity.tendencies.sensitivity import draw_groups, smallest_shifts
from beyond_perplexity.tendencies.statistics import read_statistics
from beyond_perplexity.tendencies.tokens import TextView
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--statistics", required=True, help="statistics of the reference")
    add("--documents", nargs="+", required=True, help="Parquet files of the reference")
    add("--split", help="split of the reference's documents")
    add("--first", type=ITEM, help="documents of the reference: so many, the first ones")
    add("--group-column", nargs="?", help="column of the reference with the group of a document")
    add("--stop-words", default="gensim", help="gensim, nltk, language:CODE, or a file")
    add("--count-s-symbols", action=argparse.BooleanOptionalAction, default=True)
    add("--maximum-tokens", nargs="?", type=COUNT, help="tokens that are read of a document")
    add("--minimum-tokens", type=ITEM, default=0, help="of a document to be read")
    add("--source", default="reference", help="name of the reference in the table")
    add("--options", type=json_object, default={}, help="JSON; see tendencies/definitions.py")
    add("--sensitivity-options", type=json_object, default={}, help="JSON object; likewise")
    add("--seed", type=SEED, default=0, help="seed of all draws")
    add("--output", type=output_file, required=True, help="table to write")
    given = parser.parse_args()
    options = MeasurementOptions.from_config(given.options)
    how = SensitivityOptions.from_config(given.sensitivity_options)
    record = run_record("scripts/measure_sensitivity.py", vars(given), seed=given.seed)
    view = TextView(None, given.maximum_tokens, given.minimum_tokens)
    files = DocumentFiles(given.documents, given.split, given.first, view, given.group_column)
    groups = files.groups()
    if note := files.note_on_groups(groups):
        remark(note)
    reference, seed = read_statistics(given.statistics), given.seed
    if groups is None:
        texts = files.drawn(how.largest_population, seed)
        table = smallest_shifts(reference, texts, options, how, seed, given.source, view.batch)
    else:
        chosen = draw_groups(groups, how.largest_population, seed)
        texts = choose_documents(files.texts(), chosen)
        classes = ClassOptions(load_stop_words(given.stop_words), given.count_s_symbols)
        table = smallest_shifts(
            reference, texts, options, how, seed, given.source, view.batch, groups[chosen], classes
        )
    write_shard(given.output, SENSITIVITY, table, record)


if __name__ == "__main__":
    run_command(main)
