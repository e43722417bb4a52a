"""Measure the tendencies of samples against a reference, and make the curves of the figures."""

from __future__ import annotations

import argparse

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.provenance import run_record
from beyond_perplexity.shards import read_texts, write_shard
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.measures import measure
from beyond_perplexity.tendencies.options import Options
from beyond_perplexity.tendencies.statistics import check_comparable, read_statistics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference-statistics", required=True, help="statistics of the reference")
    parser.add_argument("--sample-statistics", help="statistics; without: curves of the reference")
    parser.add_argument("--reference-documents", nargs="+", help="Parquet files of the reference")
    parser.add_argument("--reference-split", help="split of the reference's documents")
    parser.add_argument("--sample-documents", nargs="+", help="Parquet files of the samples")
    parser.add_argument("--sample-split", help="split of the samples, if they are documents")
    parser.add_argument("--source", required=True, help="name of the samples in the tables")
    parser.add_argument(
        "--options", type=json_object, default={}, help="JSON object; see tendencies/options.py"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all draws")
    parser.add_argument("--measures", help="table of measures to write")
    parser.add_argument("--curves", help="table of curves to write")
    given = parser.parse_args()
    options = Options.from_config(given.options)
    record = run_record("scripts/measure_tendencies.py", vars(given), seed=given.seed)
    reference = read_statistics(given.reference_statistics)
    if given.sample_statistics is None:
        if given.measures:
            raise InputError("--measures needs --sample-statistics; give it, or --curves alone")
        samples = None
    else:
        check_comparable(given.reference_statistics, given.sample_statistics)
        samples = read_statistics(given.sample_statistics)
    if given.measures and samples:
        draws = options.permutations or options.bootstrap
        if draws and not (given.reference_documents and given.sample_documents):
            raise InputError("--measures needs --reference-documents and --sample-documents")
        reference_texts = read_texts(given.reference_documents or [], given.reference_split)
        sample_texts = read_texts(given.sample_documents or [], given.sample_split)
        table = measure(
            reference, samples, reference_texts, sample_texts, options, given.seed, given.source
        )
        write_shard(given.measures, "tendencies", table, record)
    if given.curves:
        body, other = (samples, reference) if samples else (reference, None)
        write_shard(given.curves, "curves", curves(body, options, given.source, other), record)


if __name__ == "__main__":
    run_command(main)
