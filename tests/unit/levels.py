"""How often the tests of the tendencies reject two samples of one population."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.tendencies.measures import measured_tendencies
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.statistics import StatisticsCounter, read_statistics
from beyond_perplexity.tendencies.word_classes import StopWords

LEVEL = 0.05
# Tests of a law, fitted to one sample, are no comparisons of two samples.
OF_LAWS = ("ks_zipf", "ks_heaps")


def documents(random: np.random.Generator, count: int) -> list[str]:
    """Draw documents whose words follow a law of Zipf, their lengths one of Poisson."""
    weights = 1 / np.arange(1, 201)
    words = np.array([f"w{i}" if i % 7 else f"{i}" for i in range(200)])
    lengths = 3 + random.poisson(12, count)
    drawn = words[random.choice(200, lengths.sum(), p=weights / weights.sum())]
    return [" ".join(part) for part in np.split(drawn, lengths.cumsum()[:-1])]


def rejections(folder: Path, repeats: int, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Count, by tendency and measure, how often p is at most `LEVEL` for equal populations."""
    options = MeasurementOptions(permutations=199, bootstrap=0, monte_carlo=0)
    rejected: Counter[tuple[str, str]] = Counter()
    for repeat in range(repeats):
        random = np.random.default_rng([seed, repeat])
        texts = documents(random, count), documents(random, count)
        bodies = []
        for place, held in enumerate(texts):
            with StatisticsCounter(StopWords("w", frozenset({"w1", "w2", "w3"}))) as counter:
                counter.add(pa.array(held))
                counter.write(folder / f"{place}.parquet", {})
            bodies.append(read_statistics(folder / f"{place}.parquet"))
        batches = [[pa.array(held)] for held in texts]
        table = measured_tendencies(*bodies, *batches, options, repeat, "a")
        for row in table.to_pylist():
            if row["p_value"] is not None and not row["measure"].startswith(OF_LAWS):
                rejected[row["tendency"], row["measure"]] += row["p_value"] <= LEVEL
    return rejected
