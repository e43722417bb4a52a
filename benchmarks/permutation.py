"""Time of the permutation tests against scipy's, side by side in one run.

Run ``python -m benchmarks.permutation``. Part 1: one permutation of the documents of two sample
sets with the total variation of their unigrams, against `scipy.stats.permutation_test` on document
indices with `numpy.bincount`. Part 2: 1,000 permutations of the length, stop-word and symbol tests
(mean difference and Kolmogorov-Smirnov in one draw) at one million documents a side, against
scipy's test of the mean difference of the same documents, whose few permutations are scaled up.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
import pyarrow as pa
from scipy.stats import permutation_test

from benchmarks.statistics import synthetic_texts
from beyond_perplexity.inference import histogram_draws
from beyond_perplexity.tendencies.document_counts import DocumentCounts
from beyond_perplexity.tendencies.document_measures import compare_histograms
from beyond_perplexity.tendencies.tokens import tokenize_batch
from beyond_perplexity.tendencies.word_distances import permuted_distances


def _unigrams(n_documents: int, n_scipy: int, n_ours: int) -> None:
    texts = pa.array(synthetic_texts(np.random.default_rng(0), 2 * n_documents))
    batch = tokenize_batch(texts)
    pooled = np.bincount(batch.ids, minlength=len(batch.types))
    documents = np.split(batch.ids, batch.offsets[1:-1])

    def statistic(first: np.ndarray, second: np.ndarray) -> float:
        shares = []
        for side in (first, second):
            tokens = np.concatenate([documents[d] for d in side])
            shares.append(np.bincount(tokens, minlength=len(pooled)) / len(tokens))
        return float(np.abs(shares[0] - shares[1]).sum() / 2)

    indices = np.arange(2 * n_documents)
    data = (indices[:n_documents], indices[n_documents:])
    order = np.argsort(-pooled, kind="stable")
    with DocumentCounts(batch.types.take(pa.array(order)), pooled[order]) as counts:
        counts.add(0, [texts.slice(0, n_documents)])
        counts.add(1, [texts.slice(n_documents)])
        best = {"scipy": np.inf, "ours": np.inf}
        for _ in range(3):
            start = time.perf_counter()
            permutation_test(data, statistic, n_resamples=n_scipy, vectorized=False, rng=0)
            best["scipy"] = min(best["scipy"], (time.perf_counter() - start) / (n_scipy + 1))
            start = time.perf_counter()
            for first in counts.permutations(n_ours, 0, "benchmark"):
                permuted_distances(first, pooled[order])
            best["ours"] = min(best["ours"], (time.perf_counter() - start) / n_ours)
    print(f"unigrams, {n_documents} + {n_documents} documents, {len(pooled)} types, tvd:")
    _report(best, 1, "one permutation")


def _report(best: dict[str, float], n: int, what: str) -> None:
    for name, seconds in best.items():
        print(f"  {name:6s} {seconds * n * 1e3:10.3f} ms for {what}")
    print(f"  ratio  {best['scipy'] / best['ours']:10.1f}")


def _histograms(n_documents: int, n_scipy: int, n_ours: int) -> None:
    rng = np.random.default_rng(1)
    lengths = np.maximum(1, rng.lognormal(3.8, 0.7, (2, n_documents))).astype(int)
    shares = {"length": lengths.astype(float)}
    for name, mean in (("stop_words", 0.284), ("symbols", 0.149)):
        shares[name] = rng.binomial(lengths, mean) / lengths
    best = {"scipy": 0.0, "ours": 0.0}
    for name, (first, second) in shares.items():
        support, inverse = np.unique(np.concatenate([first, second]), return_inverse=True)
        sides = inverse.reshape(2, -1)
        first_counts, second_counts = (np.bincount(x, minlength=len(support)) for x in sides)
        compare = partial(compare_histograms, support)
        start = time.perf_counter()
        histogram_draws.permute(
            (first_counts, second_counts), compare, n_ours, 0, f"benchmark/{name}"
        )
        best["ours"] += (time.perf_counter() - start) / n_ours
        start = time.perf_counter()
        permutation_test(
            (first, second),
            lambda x, y, axis: x.mean(axis) - y.mean(axis),
            n_resamples=n_scipy,
            vectorized=True,
            batch=1,
            rng=0,
        )
        best["scipy"] += (time.perf_counter() - start) / (n_scipy + 1)
    print(f"length, stop words, symbols, {n_documents} + {n_documents} documents:")
    _report(best, n_ours, f"{n_ours} permutations of all three (scipy: scaled from {n_scipy})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000, help="documents a side, part 1")
    parser.add_argument("--many", type=int, default=1_000_000, help="documents a side, part 2")
    options = parser.parse_args()
    _unigrams(options.documents, 10, 160)
    _histograms(options.many, 3, 1000)


if __name__ == "__main__":
    main()
