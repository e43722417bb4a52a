"""Find the smallest shift of each tendency that numbers of documents detect."""

from __future__ import annotations

import argparse

from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.tendencies import SENSITIVITY
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.bodies import DocumentFiles
from beyond_perplexity.tendencies.options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.sensitivity import smallest_shifts
from beyond_perplexity.tendencies.statistics import read_statistics
from beyond_perplexity.tendencies.views import TextView


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--statistics", required=True, help="statistics of the reference")
    add("--documents", nargs="+", required=True, help="Parquet files of the reference")
    add("--split", help="split of the reference's documents")
    add("--first", type=int, help="documents of the reference: so many, the first ones")
    add("--maximum-tokens", type=int, help="tokens that are read of a document")
    add("--minimum-tokens", type=int, default=0, help="of a document to be read")
    add("--source", default="reference", help="name of the reference in the table")
    add("--options", type=json_object, default={}, help="JSON object; see tendencies/options.py")
    add("--sensitivity-options", type=json_object, default={}, help="JSON object; likewise")
    add("--seed", type=int, default=0, help="seed of all draws")
    add("--output", required=True, help="table to write")
    given = parser.parse_args()
    options = MeasurementOptions.from_config(given.options)
    how = SensitivityOptions.from_config(given.sensitivity_options)
    record = run_record("scripts/measure_sensitivity.py", vars(given), seed=given.seed)
    view = TextView(None, given.maximum_tokens, given.minimum_tokens)
    files = DocumentFiles(given.documents, given.split, given.first, view)
    texts = files.drawn(how.largest_population, given.seed)
    reference = read_statistics(given.statistics)
    table = smallest_shifts(reference, texts, options, how, given.seed, given.source, view.batch)
    write_shard(given.output, SENSITIVITY, table, record)


if __name__ == "__main__":
    run_command(main)
