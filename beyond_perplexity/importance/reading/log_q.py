"""log q of samples at several temperatures, in files beside those of their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.reading.labels import WeightLabels, read_labels
from beyond_perplexity.storage.table_files import TableFile

_KEYS = {"instance_id": pa.int64(), "temperature": pa.float64()}
_COLUMNS = {**_KEYS, "sample_id": pa.int64(), "latent_hash": pa.int64()}


class LogQFiles:
    """The files of one model and one proposal.

    Parameters
    ----------
    paths : sequence of path
        Parquet files of schema ``log_q``, cut in any way.
    names : sequence of str
        The temperature columns that are wanted.
    labels : WeightLabels
        Of the weights.

    Raises
    ------
    InputError
        When a file lacks a column or is of another model or proposal.
    """

    def __init__(
        self, paths: Sequence[str | Path], names: Sequence[str], labels: WeightLabels
    ) -> None:
        self._names = list(names)
        self._columns = {**_COLUMNS, **dict.fromkeys(names, pa.float64())}
        self._groups: list[tuple[TableFile, int]] = []
        ranges = []
        for file in map(TableFile, paths):
            file.require(list(self._columns), "files of log q")
            _check_labels(file, labels)
            rows = 0
            for group in range(file.n_groups):
                keys = [batch.columns["instance_id"] for batch in file.batches(_KEYS, group)]
                held = np.concatenate([*keys, np.empty(0, np.int64)])
                rows += len(held)
                if len(held):
                    self._groups.append((file, group))
                    ranges.append((held.min(), held.max()))
            file.count_read(rows)
        self._ranges = np.array(ranges, np.int64).reshape(-1, 2)  # instances of each group

    def gather(
        self, temperature: float, samples: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Read log q of samples that were drawn at a temperature.

        Parameters
        ----------
        temperature : float
        samples : mapping of str to ndarray
            Columns of all samples of some instances at this temperature, sorted by instance and
            sample; `latent_hash` is compared when it is there.

        Returns
        -------
        dict of str to ndarray
            The temperature columns, in the order of the samples.

        Raises
        ------
        InputError
            When a sample is missing or is another latent, or a value is no log q.
        """
        instances = samples["instance_id"]
        low, high = instances[0], instances[-1]
        parts = {
            name: [np.empty(0, kind.to_pandas_dtype())] for name, kind in self._columns.items()
        }
        for index in np.flatnonzero((self._ranges[:, 0] <= high) & (self._ranges[:, 1] >= low)):
            file, group = self._groups[index]
            for batch in file.batches(self._columns, group):
                for name in self._names:
                    file.check_log_p(batch, name)
                held = batch.columns["instance_id"]
                kept = (held >= low) & (held <= high)
                kept &= batch.columns["temperature"] == temperature
                for name, column in batch.columns.items():
                    parts[name].append(column[kept])
        found = {name: np.concatenate(pieces) for name, pieces in parts.items()}
        order = np.lexsort((found["sample_id"], found["instance_id"]))
        found = {name: column[order] for name, column in found.items()}
        _check_same(temperature, samples, found)
        return {name: found[name] for name in self._names}


def _check_labels(file: TableFile, labels: WeightLabels) -> None:
    said = read_labels(file.path)
    for name in ("model", "proposal"):
        own, wanted = getattr(said, name), getattr(labels, name)
        if None not in (own, wanted) and own != wanted:
            raise InputError(
                f"{file.path}: {name} is {own!r}, but the log weights are of {wanted!r}"
            )


def _check_same(
    temperature: float, samples: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]
) -> None:
    """Raise `InputError` unless both are the same samples in the same order."""
    size = min(len(samples["sample_id"]), len(found["sample_id"]))
    differs = np.zeros(size, bool)
    for name in ("instance_id", "sample_id"):
        differs |= samples[name][:size] != found[name][:size]
    if differs.any() or len(samples["sample_id"]) != len(found["sample_id"]):
        row = int(np.argmax(differs)) if differs.any() else size
        first = min(_named(samples, row), _named(found, row))
        raise InputError(
            f"log q: instance {first[0]}, sample {first[1]} at temperature {temperature} is not in "
            "both the log weights and the files of log q, once; give all the files of both"
        )
    if "latent_hash" in samples:
        differs = samples["latent_hash"] != found["latent_hash"]
        if differs.any():
            instance, sample = _named(samples, int(np.argmax(differs)))
            raise InputError(
                f"log q: instance {instance}, sample {sample} at temperature {temperature} is "
                "another latent than was weighed; draw both with the same models on one kind of "
                "device"
            )


def _named(columns: Mapping[str, np.ndarray], row: int) -> tuple[float, float]:
    """Return instance and sample of a row, infinite behind the last."""
    if row >= len(columns["sample_id"]):
        return np.inf, np.inf
    return int(columns["instance_id"][row]), int(columns["sample_id"][row])
