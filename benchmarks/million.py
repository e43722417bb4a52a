"""Time and peak memory of statistics, all tests, subsets and sensitivity at a million documents.

Run ``python -m benchmarks.million --reference F... --samples F...`` with two lists of sample
shards (or of documents, with --reference-split), or without them on synthetic documents, drawn in
shards. With ``--groups 50000`` the reference has groups; ``--options '{"permutations": 1999}'`` is
what the workflow takes.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.statistics import STOP_WORDS, synthetic_texts, write_samples
from beyond_perplexity.options import json_object
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.curves import curves, sample_sizes
from beyond_perplexity.tendencies.document_files import read_resample
from beyond_perplexity.tendencies.human_baselines import reference_baselines
from beyond_perplexity.tendencies.measurement_options import (
    MeasurementOptions,
    SampleSizeOptions,
    SensitivityOptions,
)
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.sensitivity import minimum_detectable_effects
from beyond_perplexity.tendencies.statistics import (
    Statistics,
    StatisticsCounter,
    merge_statistics,
    read_statistics,
)
from beyond_perplexity.tendencies.word_classes import ClassOptions

SHARD = 100_000


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Print the seconds of a stage and the peak memory of the process so far."""
    start = time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:32s} {time.perf_counter() - start:8.1f} s   peak {peak:6.0f} MiB", flush=True)


def synthesize(folder: Path, name: str, n_documents: int, seed: int) -> list[Path]:
    """Write synthetic documents in shards."""
    paths = []
    for shard, first in enumerate(range(0, n_documents, SHARD)):
        rng = np.random.default_rng([seed, shard])
        paths.append(folder / f"{name}-{shard}.parquet")
        write_samples(paths[-1], synthetic_texts(rng, min(SHARD, n_documents - first)), first)
    return paths


def count(paths: list[Path], split: str | None, folder: Path, name: str) -> Statistics:
    """Count every file on its own and add up."""
    record = run_record("benchmarks/million.py", {})
    shards = []
    with stage(f"count {name}, {len(paths)} files"):
        for shard, path in enumerate(paths):
            shards.append(folder / f"{name}-{shard}.statistics.parquet")
            with StatisticsCounter(STOP_WORDS) as counter:
                for texts in read_texts([path], split):
                    counter.add(texts)
                counter.write(shards[-1], record)
    merged = folder / f"{name}.statistics.parquet"
    with stage(f"merge {name}"):
        merge_statistics(shards, merged, record)
    return read_statistics(merged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", nargs="+", type=Path, help="Parquet files of the reference")
    parser.add_argument("--samples", nargs="+", type=Path, help="Parquet files of the samples")
    parser.add_argument("--reference-split", help="split, if the reference is documents")
    parser.add_argument("--documents", type=int, default=1_000_000, help="synthetic documents")
    parser.add_argument("--groups", type=int, help="groups of the reference, of equal size")
    parser.add_argument("--options", type=json_object, default={}, help="options of the tendencies")
    for name in ("sample-size", "sensitivity"):
        parser.add_argument(f"--{name}-options", type=json_object, default={}, help="likewise")
    given = parser.parse_args()
    options = MeasurementOptions.from_config(given.options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference_files, sample_files = given.reference, given.samples
        if not (reference_files and sample_files):
            with stage("synthesize"):
                reference_files = synthesize(folder, "reference", given.documents, 1)
                sample_files = synthesize(folder, "samples", given.documents, 2)
        reference = count(reference_files, given.reference_split, folder, "reference")
        samples = count(sample_files, None, folder, "samples")
        print(f"reference {reference.n_documents} documents, {reference.n_tokens} tokens")
        print(f"samples   {samples.n_documents} documents, {samples.n_tokens} tokens")
        with stage("curves"):
            curves(samples, options, "samples", reference)
        texts = read_texts(reference_files, given.reference_split), read_texts(sample_files)
        start = time.perf_counter()
        codes = None
        if given.groups:
            n = reference.n_documents
            codes = (np.arange(n) * given.groups // n).astype(np.int32)
        classes = ClassOptions(STOP_WORDS, True)
        with paired(reference, samples, texts, groups=(codes, None), classes=classes) as pair:
            print(f"documents stored in {time.perf_counter() - start:.1f} s", flush=True)
            with stage("all measures and tests"):
                rows = measure_rows(pair, options, 0)
            with stage("baseline, halves of the reference"):
                reference_baselines(pair, options, 0)
            with stage("random subsets"):
                how = SampleSizeOptions.from_config(given.sample_size_options)
                sample_sizes(pair, rows, options, how, 0, "samples")
            table = measure_table(rows, pair, "samples")
        how_sensitive = SensitivityOptions.from_config(given.sensitivity_options)
        with stage("sensitivity"):
            size = min(how_sensitive.largest_population, reference.n_documents)
            chosen = read_resample(reference_files, given.reference_split, size, 0, 0)
            own = options, how_sensitive, 0, "reference", classes
            minimum_detectable_effects(reference, chosen, *own)
        print(table.to_pandas().drop(columns=["source", "n_reference", "n_samples"]).to_string())


if __name__ == "__main__":
    main()
