"""Reduce synthetic log weights: CPU seconds and memory, beside SciPy's logsumexp in a plain loop.

The other side computes only the instance level, the corpus level and the two curves from as many
random subsets, with `scipy.special.logsumexp` on each subset, as a notebook would; ours computes
every estimate, curve, replicate and diagnostic from the files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.special import logsumexp

from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.importance_sampling import subset_sizes
from beyond_perplexity.schemas import with_columns
from beyond_perplexity.schemas.draws import LOG_WEIGHTS, temperature_column, temperature_columns
from beyond_perplexity.storage.shards import ShardWriter

GRID = (0.5, 0.9, 1.0, 1.1, 2.0, 5.0)
SHARD_INSTANCES = 10


def write_shards(folder: Path, n_samples: int, n_instances: int, grid: tuple[float, ...]) -> None:
    """Write shards of ten instances: normal log weights that spread more at higher temperature."""
    random = np.random.default_rng(0)
    for temperature in grid:
        record = WeightLabels("synthetic", "normal", temperature, "tokens", 1000).in_record({})
        for start in range(0, n_instances, SHARD_INSTANCES):
            ids = range(start, min(n_instances, start + SHARD_INSTANCES))
            path = folder / f"tau_{temperature}" / f"{start}.parquet"
            with ShardWriter(
                path, with_columns(LOG_WEIGHTS, temperature_columns(grid)), record
            ) as writer:
                for name in ids:
                    log_q = random.normal(-80.0, 4.0, n_samples)
                    log_p = log_q - 2000.0 + random.normal(0.0, 3.0 * temperature, n_samples)
                    columns = {
                        "instance_id": np.full(n_samples, name),
                        "sample_id": np.arange(n_samples),
                        "n_tokens": np.full(n_samples, 400 + name, np.int32),
                        "n_unknown": np.full(n_samples, 3, np.int32),
                        "log_p": log_p,
                        "log_q": log_q,
                        "latent_hash": random.integers(0, 10 * n_samples, n_samples),
                    }
                    grid_columns = {
                        temperature_column(other): log_q - abs(other - temperature)
                        for other in grid
                    }
                    writer.write(columns | grid_columns)


def plain(folder: Path, subsets: int) -> tuple[float, float]:
    """Loop over instances and subsets; return the perplexities of the two levels."""
    random = np.random.default_rng(0)
    columns = ["instance_id", "sample_id", "n_tokens", "log_p", "log_q"]
    table = pq.ParquetDataset(sorted(folder.glob("*.parquet"))).read(columns).to_pandas()
    table["log_w"] = table["log_p"] - table["log_q"]
    wide = table.pivot_table(index="instance_id", columns="sample_id", values="log_w").to_numpy()
    total = int(table.groupby("instance_id")["n_tokens"].first().sum())
    n_samples = wide.shape[1]
    for size in subset_sizes(n_samples):
        for _ in range(subsets):
            chosen = [random.choice(n_samples, size, replace=False) for _ in wide]
            drawn = np.stack([row[part] for row, part in zip(wide, chosen, strict=True)])
            logsumexp(drawn, axis=1).sum()
            logsumexp(drawn.sum(0))
    instance = (logsumexp(wide, axis=1) - np.log(n_samples)).sum()
    corpus = logsumexp(wide.sum(0)) - np.log(n_samples)
    return float(np.exp(-instance / total)), float(np.exp(-corpus / total))


def ours(paths: list[str], output: Path) -> tuple[float, float, float]:
    """Run the command; return its seconds, its CPU seconds and its peak memory in MiB."""
    command = [sys.executable, "-m", "scripts.reduce_weights", "--weights", *paths]
    for name in ("estimates", "curves", "replicates", "diagnostics"):
        command += [f"--{name}", str(output / f"{name}.parquet")]
    start = time.perf_counter()
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0
    seconds = time.perf_counter() - start
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000, help="samples of an instance")
    parser.add_argument("--instances", type=int, default=100, help="instances")
    parser.add_argument("--temperatures", type=int, default=1, help="how many, up to 6")
    parser.add_argument("--subsets", type=int, default=2, help="random subsets of the other side")
    options = parser.parse_args()
    grid = GRID[: options.temperatures]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder, options.samples, options.instances, grid)
        paths = sorted(map(str, folder.glob("tau_*/*.parquet")))
        wall, seconds, peak = ours(paths, folder)
        found = pq.read_table(folder / "estimates.parquet").to_pandas()
        start = time.process_time()
        other = plain(folder / f"tau_{grid[0]}", options.subsets)
        loop = time.process_time() - start
    ranked = found[(found["temperature"] == grid[0]) & (found["measure"] == "perplexity")]
    of_paper = ranked[(ranked["method"] == "importance_sampling") & (ranked["pairing"] != "random")]
    np.testing.assert_allclose(of_paper["value"].to_numpy(), other, rtol=1e-12)
    print(f"{options.samples} samples x {options.instances} instances x {len(grid)} temperatures")
    print(f"ours   {seconds:7.2f} CPU s ({wall:.1f} s), peak {peak:.0f} MiB: all, 200 subsets")
    print(f"plain  {loop:7.2f} CPU s: levels and curves, 1 temperature, {options.subsets} subsets")
    scaled = loop * 200 / options.subsets * len(grid)
    print(f"ratio  {scaled / seconds:7.1f} for as many subsets and temperatures (extrapolated)")


if __name__ == "__main__":
    main()
