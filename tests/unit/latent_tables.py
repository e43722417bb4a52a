"""Tiny latent models as tables, files of their samples, and sums over all latents.

A model is p(x_n, z), a proposal q(z | x_n), small enough to enumerate: the oracle of the tests.
"""

import numpy as np
import pyarrow as pa

from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.schemas import draws, with_columns
from beyond_perplexity.storage.shards import write_shard

GRID = (0.5, 1.0, 2.0)


def model(n_instances=3, n_latents=4, seed=0):
    """Return p(x_n, z), (N, Z): far from uniform, and Σ_z p is no 1."""
    random = np.random.default_rng(seed)
    return random.dirichlet(np.full(n_latents, 0.7), n_instances) * 0.01


def proposal(n_instances=3, n_latents=4, temperature=1.0, seed=1):
    """Return q_τ(z | x_n) ∝ q^(1/τ), (N, Z), every latent possible."""
    random = np.random.default_rng(seed)
    powered = (random.dirichlet(np.full(n_latents, 2.0), n_instances) + 0.02) ** (1 / temperature)
    return powered / powered.sum(1, keepdims=True)


def sample_columns(p, temperature, n_samples, seed=2):
    """Draw samples of every instance and return the columns of schema ``log_weights``."""
    random = np.random.default_rng([seed, int(10 * temperature)])
    n, size = p.shape
    grid = {tau: proposal(n, size, tau) for tau in GRID}
    rows = np.arange(n).repeat(n_samples)
    q = grid[temperature]
    latents = np.concatenate([random.choice(size, n_samples, p=q[row]) for row in range(n)])
    with np.errstate(divide="ignore"):
        log_p = np.log(p[rows, latents])
    columns = {"instance_id": rows * 7 + 3, "sample_id": np.tile(np.arange(n_samples), n)}
    columns |= {"n_tokens": (rows + 2).astype(np.int32), "n_unknown": rows.astype(np.int32)}
    columns |= {"log_p": log_p, "log_q": np.log(q[rows, latents])}
    columns |= {"latent_hash": latents * 1000 - 5}
    others = {draws.temperature_column(tau): np.log(grid[tau][rows, latents]) for tau in GRID}
    return columns | others


def write_weights(path, columns, temperature, parts=()):
    """Write one shard for each slice of the rows; one shard of all without slices."""
    record = WeightLabels("tiny", "table", temperature, "words", 50).in_record({})
    paths = []
    for number, part in enumerate(parts or [slice(None)]):
        paths.append(path / f"tau_{temperature}" / f"{number}.parquet")
        table = {name: column[part] for name, column in columns.items()}
        schema = with_columns(draws.LOG_WEIGHTS, draws.temperature_columns(GRID))
        write_shard(paths[-1], schema, table, record)
    return paths


def write_beams(path, p, sizes):
    """Write the most likely latents under q of every instance, for each beam size."""
    q = proposal(*p.shape)
    rows = []
    for row, size in ((row, size) for row in range(len(p)) for size in sizes):
        for rank, z in enumerate(np.argsort(-q[row], kind="stable")[:size].tolist()):
            values = np.log(p[row, z]), np.log(q[row, z])
            rows.append((row * 7 + 3, size, rank, row + 2, row, *values, z * 1000 - 5))
    names = ("instance_id", "beam_size", "rank", "n_tokens", "n_unknown")
    names += ("log_p", "log_q", "latent_hash")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    write_shard(path, draws.BEAMS, columns, {})
    return path


def rewritten(columns, **changes):
    """Return a table of a user's file, with columns changed, added or (None) left out."""
    merged = {**columns, **changes}
    return pa.table({name: column for name, column in merged.items() if column is not None})
