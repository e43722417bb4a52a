"""Time and memory of the statistics of one shard against a plain program of Counter and set.

Run ``python -m benchmarks.statistics``. Both count the same documents, read from the same Parquet
file, in one run; the plain program is what a user would write, with the class of every type cached.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter, read_batches, read_texts
from beyond_perplexity.tendencies.definitions import CUT_TO
from beyond_perplexity.tendencies.document_statistics import SIZED
from beyond_perplexity.tendencies.statistics import (
    HISTOGRAMS,
    StatisticsCounter,
    read_statistics,
)
from beyond_perplexity.tendencies.taylor import SEGMENT
from beyond_perplexity.tendencies.word_classes import load_stop_words

STOP_WORDS = load_stop_words("gensim")


def synthetic_texts(
    rng: np.random.Generator, n_documents: int, n_types: int = 150_000
) -> list[str]:
    """Draw documents of Zipfian unigrams with log-normal lengths of mean 57 tokens."""
    stop = sorted(STOP_WORDS.words)
    words = np.array([*stop, ",", ".", "(", ")", *(f"w{k:x}" for k in range(n_types))], object)
    order = rng.permutation(len(stop) + 4)
    words[: len(order)] = words[order]
    mass = np.cumsum(1.0 / np.arange(1, len(words) + 1) ** 1.1)
    lengths = np.maximum(1, rng.lognormal(3.8, 0.7, n_documents)).astype(int)
    ids = np.searchsorted(mass, rng.random(lengths.sum()) * mass[-1])
    tokens = words[np.minimum(ids, len(words) - 1)].tolist()
    ends = np.cumsum(lengths).tolist()
    return [" ".join(tokens[end - n : end]) for end, n in zip(ends, lengths.tolist(), strict=True)]


def write_samples(path: Path, texts: list[str], first: int = 0) -> None:
    """Write texts as a shard of kind ``samples``."""
    n = len(texts)
    record = run_record("benchmarks/statistics.py", {})
    with ShardWriter(path, TEXT_SAMPLES, record) as writer:
        writer.write(
            {
                "doc_id": pa.array(range(first, first + n), pa.int64()),
                "text": pa.array(texts, pa.string()),
                "n_tokens": pa.array([len(text.split()) for text in texts], pa.int32()),
                "log_prob": pa.nulls(n, pa.float64()),
                "log_prob_decoding": pa.nulls(n, pa.float64()),
                "finished": pa.array([True] * n),
            }
        )


def of_order(tokens: list[str], text: str, counts: dict[str, Counter[object]]) -> None:
    """Count the repetition and the recurrence of a document, and its segments and compression."""
    for size in CUT_TO:
        if len(tokens) < size:
            break
        words = tokens[:size]
        held = Counter(words)
        share = round(1e4 * (size - len(held)) / size)
        counts[f"repetition_{size}"][size, share] += 1
        expected = sum(c * (c - 1) for c in held.values()) / (size * (size - 1))
        for place in SIZED[f"recurrence_{size}"].places.tolist():
            same = sum(a == b for a, b in zip(words, words[place:], strict=False))
            value = round(1e5 * (same / (size - place) - expected))
            for power in range(3):
                counts[f"recurrence_{size}"][place, power] += value**power
    for start in range(0, len(tokens) - SEGMENT + 1, SEGMENT):
        for token, c in Counter(tokens[start : start + SEGMENT]).items():
            counts["segments"][token] += c * c
    data = text.encode()
    if len(data) >= 400:
        size = len(pa.Codec("zstd", 19).compress(data[:400]))
        counts["compression_400"][400, round(1e4 * size / 400)] += 1


def plain(path: Path) -> dict[str, Counter[object]]:
    """Count everything with the standard library."""
    counts: dict[str, Counter[object]] = {
        name: Counter() for name in (*HISTOGRAMS, "unigram", "segments")
    }
    symbol: dict[str, bool] = {}
    for batch in read_batches(path, TEXT_SAMPLES, ["text"]):
        for text in batch.column("text").to_pylist():
            tokens = text.split()
            n = len(tokens)
            counts["unigram"].update(tokens)
            counts["length"][n, 0] += 1
            counts["types"][n, len(set(tokens))] += 1
            counts["bigram_types"][n, len(set(pairwise(tokens)))] += 1
            counts["stop_words"][n, sum(token in STOP_WORDS.words for token in tokens)] += 1
            for token in tokens:
                if token not in symbol:
                    symbol[token] = all(unicodedata.category(c)[0] in "PNS" for c in token)
            counts["symbols"][n, sum(symbol[token] for token in tokens)] += 1
            of_order(tokens, text, counts)
    return counts


def ours(paths: list[Path], output: Path) -> None:
    """Count everything with the library and write it."""
    with StatisticsCounter(STOP_WORDS) as counter:
        for texts in read_texts(paths):
            counter.add(texts)
        counter.write(output, run_record("benchmarks/statistics.py", {}))


def check_equal(expected: dict[str, Counter[object]], path: Path) -> None:
    """Fail unless the two programs counted the same."""
    found = read_statistics(path)
    assert dict(zip(found.types.to_pylist(), found.counts.tolist(), strict=True)) == dict(
        expected["unigram"]
    )
    assert found.segments is not None
    squares = zip(found.types.to_pylist(), found.segments[1].tolist(), strict=True)
    assert {name: n for name, n in squares if n} == dict(expected["segments"])
    for name, histogram in found.histograms.items():
        if name.startswith(("burstiness", "recurrence", "compression_4000")):
            continue  # burstiness is not counted, and rounding differs by the order of sums
        cells = zip(histogram.lengths.tolist(), histogram.values.tolist(), strict=True)
        assert dict(zip(cells, histogram.counts.tolist(), strict=True)) == expected[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000, help="documents of a shard")
    parser.add_argument("--repeat", type=int, default=10, help="shards of the memory measurement")
    parser.add_argument("--child", nargs="+", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        ours(options.child[1:], options.child[0])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    with tempfile.TemporaryDirectory() as folder:
        shard, output = Path(folder, "samples.parquet"), Path(folder, "statistics.parquet")
        write_samples(shard, synthetic_texts(np.random.default_rng(0), options.documents))
        tokens = sum(
            b.column(0).to_numpy().sum() for b in read_batches(shard, TEXT_SAMPLES, ["n_tokens"])
        )
        seconds: dict[str, list[float]] = {"plain": [], "ours": []}
        for _ in range(3):
            start = time.perf_counter()
            expected = plain(shard)
            middle = time.perf_counter()
            ours([shard], output)
            seconds["plain"].append(middle - start)
            seconds["ours"].append(time.perf_counter() - middle)
        check_equal(expected, output)
        best = {name: min(values) for name, values in seconds.items()}
        print(f"one shard: {options.documents} documents, {tokens} tokens; equal counts")
        for name, value in best.items():
            print(f"{name:6s} {value:7.3f} s {tokens / value / 1e6:6.2f} M tokens/s")
        print(f"ratio  {best['plain'] / best['ours']:7.2f}")
        for n in (1, options.repeat):
            shards = [str(shard)] * n
            command = [sys.executable, "-m", "benchmarks.statistics", "--child", str(output)]
            command += shards
            peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            print(f"peak memory of {n * options.documents:8d} documents: {float(peak):6.0f} MiB")


if __name__ == "__main__":
    main()
