"""Find the minimum detectable effect of each tendency by number of documents."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from beyond_perplexity.arguments import SEED
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.schemas.tendencies import SENSITIVITY
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.document_files import DocumentFiles, population_texts
from beyond_perplexity.tendencies.judge import read_judged
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.sensitivity import (
    Population,
    effects_of,
    minimum_detectable_effects,
)
from beyond_perplexity.tendencies.statistics import read_statistics
from beyond_perplexity.tendencies.text_comparison import known_training
from beyond_perplexity.tendencies.tokens import TextView
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words
from scripts._job import COUNTING, OF_REFERENCE, Given, flag, job, json_flag, needed, output


@job(
    needed("--statistics", "statistics of the reference"),
    needed("--documents", "Parquet files of the reference", nargs="+"),
    flag("--split", "split of the reference's documents"),
    flag("--training-split", "split of the same files, for the novelty of n-grams"),
    *OF_REFERENCE,
    *COUNTING,
    flag("--judged", "what a judge said of the reference", nargs="*", default=[]),
    flag("--source", "name of the reference in the table", default="reference"),
    json_flag("--options", "JSON; see tendencies/measurement_options.py"),
    json_flag("--sensitivity-options", "JSON object; likewise"),
    flag("--seed", "seed of all draws", SEED, default=0),
    output("--output", "table to write"),
)
def main(given: Given) -> None:
    options = MeasurementOptions.from_config(given.options)
    how = SensitivityOptions.from_config(given.sensitivity_options)
    record = given.record()
    view = TextView(None, given.maximum_tokens, given.minimum_tokens)
    files = DocumentFiles(given.documents, given.split, given.first, view, given.group_column)
    groups = files.groups()
    if note := files.note_on_groups(groups):
        remark(note)
    reference, seed = read_statistics(given.statistics), given.seed
    classes = ClassOptions(load_stop_words(given.stop_words), given.count_s_symbols)
    if given.training_split:
        read = replace(view, maximum_tokens=None).batch
        training = map(read, files.other_split(given.training_split).texts())
        classes = known_training(classes, TrainingText.of(training))
    texts, groups = population_texts(files, groups, how.largest_population, seed)
    given_texts = reference, texts, options, how, seed, given.source, classes, view.batch, groups
    tables = [minimum_detectable_effects(*given_texts)]
    for path in given.judged:
        (text, *_), codes = read_judged(path)
        judged = Population.of_documents(text.values, codes, None)
        tables.append(effects_of(judged, options, how, seed, given.source))
    write_shard(given.output, SENSITIVITY, pa.concat_tables(tables), record)
