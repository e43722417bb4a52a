"""Measure the tendencies of samples against a reference, and make the curves of the figures."""

from __future__ import annotations

import argparse

from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.tendencies import CURVES, SAMPLE_SIZE, TENDENCY_MEASURES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import read_texts, write_shard
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.tendencies.options import MeasurementOptions, SampleSizeOptions, check_inputs
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.sample_size import sample_sizes
from beyond_perplexity.tendencies.statistics import check_comparable, read_statistics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--reference-statistics", required=True, help="statistics of the reference")
    add("--sample-statistics", help="statistics; without: curves of the reference")
    add("--reference-documents", nargs="+", default=[], help="Parquet files of the reference")
    add("--reference-split", help="split of the reference's documents")
    add("--sample-documents", nargs="+", default=[], help="Parquet files of the samples")
    add("--sample-split", help="split of the samples, if they are documents")
    add("--source", required=True, help="name of the samples in the tables")
    add("--options", type=json_object, default={}, help="JSON object; see tendencies/options.py")
    add("--sample-size-options", type=json_object, default={}, help="JSON object; likewise")
    add("--seed", type=int, default=0, help="seed of all draws")
    add("--measures", help="table of measures to write")
    add("--sample-size", help="table of measures of random subsets to write; needs --measures")
    add("--curves", help="table of curves to write")
    given = parser.parse_args()
    options, seed = MeasurementOptions.from_config(given.options), given.seed
    how = SampleSizeOptions.from_config(given.sample_size_options)
    check_inputs(given, options)
    record = run_record("scripts/measure_tendencies.py", vars(given), seed=seed)
    paths = given.reference_statistics, given.sample_statistics or given.reference_statistics
    check_comparable(*paths)
    reference, body = map(read_statistics, paths)
    if given.measures:
        texts = (
            read_texts(given.reference_documents, given.reference_split),
            read_texts(given.sample_documents, given.sample_split),
        )
        with paired(reference, body, texts if given.sample_documents else None) as pair:
            rows = measure_rows(pair, options, seed)
            table = measure_table(rows, pair, given.source)
            write_shard(given.measures, TENDENCY_MEASURES, table, record)
            if given.sample_size:
                table = sample_sizes(pair, rows, options, how, seed, given.source)
                write_shard(given.sample_size, SAMPLE_SIZE, table, record)
    if given.curves:
        other = reference if given.sample_statistics else None
        write_shard(given.curves, CURVES, curves(body, options, given.source, other), record)


if __name__ == "__main__":
    run_command(main)
