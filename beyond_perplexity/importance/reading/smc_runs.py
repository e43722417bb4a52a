"""The runs of sequential Monte Carlo of every instance, read from shards of `scripts.draw`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.reading.side_files import footer, read_beside
from beyond_perplexity.importance.reading.weights import WeightReader
from beyond_perplexity.schemas.draws import penalized_column

RUN_COLUMNS = {
    "instance_id": pa.int64(),
    "run": pa.int64(),
    "n_particles": pa.int64(),
    "n_tokens": pa.int64(),
    "log_likelihood": pa.float64(),
    "ess_min": pa.float64(),
}


class SMCRuns:
    """The runs of all instances of a reader.

    Parameters
    ----------
    paths : sequence of path
        Parquet files of schema ``smc``, cut in any way.
    reader : WeightReader
        The samples of the same instances.

    Attributes
    ----------
    log_likelihood : ndarray, shape (N, F), float64
        log p̂ of each run, nats, in the order of the reader's instances and of the runs.
    ess_min : ndarray, shape (N,), float64
        The smallest effective sample size that any run of an instance has met.
    n_particles : int
        K of each run.
    settings : list of dict
        The ``temperature`` τ of the proposal and ``replicates``, the number F of runs.

    Raises
    ------
    InputError
        When a row is not as it must be, an instance lacks a run or the files are not alike.
    """

    def __init__(self, paths: Sequence[str | Path], reader: WeightReader) -> None:
        score, ess = "log_likelihood", "ess_min"
        if reader.penalized:
            score, ess = penalized_column(score), penalized_column(ess)
        wanted = {**RUN_COLUMNS, score: pa.float64(), ess: pa.float64()}
        columns = read_beside(paths, wanted, "sequential Monte Carlo", reader)
        self.n_particles = int(_common(columns["n_particles"].tolist(), "numbers of particles"))
        temperatures = [footer(path).temperature for path in paths]
        temperature: float | None = _common(temperatures, "temperatures")
        order = np.lexsort((columns["run"], columns["instance_id"]))
        instances, runs = columns["instance_id"][order], columns["run"][order]
        numbers = np.unique(runs)  # (F,)
        shape = (len(reader.instance_ids), len(numbers))
        whole = np.repeat(reader.instance_ids, len(numbers)), np.tile(numbers, shape[0])
        if not np.array_equal([instances, runs], whole):
            raise InputError(
                "smc: an instance has a run twice or lacks one that others have; give every file "
                "once, and all of them"
            )
        self.settings = [{"temperature": temperature, "replicates": len(numbers)}]
        self.log_likelihood = columns[score][order].reshape(shape)
        self.ess_min = columns[ess][order].reshape(shape).min(1)


def _common(values: Sequence[Any], what: str) -> Any:
    """Return what all values are."""
    found = set(values)
    if len(found) != 1:
        raise InputError(f"smc: the files are of several {what}; give those of one run")
    return found.pop()
