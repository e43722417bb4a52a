"""Estimates of simulated documents from both sides, read from shards of `scripts.draw`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.reading.side_files import check_pair
from beyond_perplexity.importance.reading.weights import WeightReader
from beyond_perplexity.inference.weight_diagnostics import Diagnostics
from beyond_perplexity.schemas.draws import BIDIRECTIONAL
from beyond_perplexity.storage.shards import read_batches

SETTING = ("method", "temperature", "n_samples")


class SimulatedEstimates(NamedTuple):
    """The estimates of D documents with one setting, F runs each.

    Attributes
    ----------
    setting : dict
        Its `SETTING`.
    n_cut : int
        Documents that have none: they were cut, or have no word.
    n_tokens : ndarray, shape (D,), int64
        T of each document.
    log_forward, log_reverse : ndarray, shape (D, F), float64
        log p̂ of draws alone, and of draws with the z of the document, nats.
    log_halves : ndarray, shape (2, D), float64
        log p̂ of both halves of plain samples; NaN of runs.
    log_q : ndarray, shape (D,), float64
        Of the z of the document; −inf where q misses it.
    diagnostics : list of Diagnostics
        Of the draws alone.
    """

    setting: dict[str, Any]
    n_cut: int
    n_tokens: np.ndarray
    log_forward: np.ndarray
    log_reverse: np.ndarray
    log_halves: np.ndarray
    log_q: np.ndarray
    diagnostics: list[Diagnostics]


class SimulatedRuns:
    """The estimates of simulated documents of one model and proposal.

    Parameters
    ----------
    paths : sequence of path
        Parquet files of schema ``bidirectional``, cut in any way.
    reader : WeightReader
        Samples of the same model and proposal, for instances of the corpus.

    Attributes
    ----------
    settings : list
        Empty: no estimate of the instances is made of them.

    Raises
    ------
    InputError
        When a file is of another model or proposal, or documents or runs are missing or there
        twice.
    """

    settings: Sequence[dict[str, Any]] = ()

    def __init__(self, paths: Sequence[str | Path], reader: WeightReader) -> None:
        for path in paths:
            check_pair(path, reader)
        names = BIDIRECTIONAL.names
        batches = list(read_batches([str(path) for path in paths], BIDIRECTIONAL, names))
        self._columns = {
            name: np.concatenate(
                [np.empty(0, BIDIRECTIONAL.field(name).type.to_pandas_dtype())]
                + [batch.column(name).to_numpy(zero_copy_only=False) for batch in batches]
            )
            for name in names
        }

    def __iter__(self) -> Iterator[SimulatedEstimates]:
        """Yield the settings in their order: plain samples by temperature and number, then runs."""
        keys = list(zip(*(self._columns[name].tolist() for name in SETTING), strict=True))
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        of_row = np.array([places[key] for key in keys])
        for key, place in places.items():
            held = {name: column[of_row == place] for name, column in self._columns.items()}
            yield _of_one_setting(dict(zip(SETTING, key, strict=True)), held)


def _of_one_setting(setting: dict[str, Any], held: dict[str, np.ndarray]) -> SimulatedEstimates:
    order = np.lexsort((held["run"], held["instance_id"]))
    held = {name: column[order] for name, column in held.items()}
    documents, runs = np.unique(held["instance_id"]), np.unique(held["run"])
    whole = np.repeat(documents, len(runs)), np.tile(runs, len(documents))
    if not np.array_equal([held["instance_id"], held["run"]], whole):
        raise InputError(
            "bidirectional: a document has a run twice or lacks one that others have; give every "
            "file once, and all of them"
        )
    shape = (len(documents), len(runs))
    kept = ~np.isnan(held["log_forward"].reshape(shape)).any(1)  # (D',)
    table = {name: column.reshape(shape)[kept] for name, column in held.items()}  # (D, F)
    diagnostics = [
        Diagnostics(float(ess), float("nan"), float("nan"), float(k_hat), str(tail))
        for ess, k_hat, tail in zip(
            table["ess"].min(1), table["k_hat"][:, 0], table["tail"][:, 0], strict=True
        )
    ]
    return SimulatedEstimates(
        setting,
        int((~kept).sum()),
        table["n_tokens"][:, 0].astype(np.int64),
        table["log_forward"],
        table["log_reverse"],
        np.stack([table["log_first_half"][:, 0], table["log_second_half"][:, 0]]),
        table["log_q"][:, 0],
        diagnostics,
    )
