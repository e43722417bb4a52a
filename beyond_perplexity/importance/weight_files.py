"""Log weights instance by instance, from files cut in any way, without holding them all.

A first pass reads what names the rows (instance, T) and counts them; then blocks of instances are
gathered, of about `BLOCK_ROWS` rows, from the row groups that hold some of them. Instances come in
the order of their id and samples in that of theirs, so no result depends on how files are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import (
    LogQFiles,
    WeightLabels,
    file_labels,
    is_of_a_run,
)
from beyond_perplexity.importance.estimator import SampledInstance, WeightedSamples
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.schemas.draws import penalized_column, temperature_column
from beyond_perplexity.storage.table_files import LARGEST_LOG, RowBatch, TableFile, open_table

BLOCK_ROWS = 2**19
REQUIRED = ("instance_id", "sample_id", "n_tokens", "log_p", "log_q")
# log q of a shard may differ from its column of the same temperature by rounding alone.
SAME = 1e-6


@dataclass
class _Shard:
    file: TableFile
    labels: WeightLabels
    group: int  # index of its temperature
    ranges: list[tuple[int, int]] = field(default_factory=list)  # instances of each row group


class WeightReader:
    """All the shards of one model and one proposal.

    Parameters
    ----------
    paths : sequence of path
        Parquet or CSV files with the columns `REQUIRED`; ``n_unknown``, ``latent_hash`` and
        the temperature columns are used when all files have them, and those that say what a file
        is (`weight_labels.LABEL_COLUMNS`) when it has them.
    labels : WeightLabels
        What is to replace the labels in the footers.
    block_rows : int
        Rows held at once, unless one instance has more.
    log_q : sequence of path
        Files with the temperature columns of the same samples; see `LogQFiles`.
    penalized : bool
        Read log p(x, z) with unknown words penalized, a column that `has_penalized` says of.

    Attributes
    ----------
    labels : WeightLabels
        Of all files, without the temperature.
    temperatures : tuple of float or None
        Ascending; (None,) when nobody said.
    instance_ids, n_tokens : ndarray, shape (N,), int64
        The instances, ascending, and T of each.
    n_unknown : ndarray, shape (N,), int64, or None
        Unknown tokens of each; None when a file does not say.
    n_samples : ndarray, shape (J, N), int64
        K of each instance at each temperature.
    has_grid, has_penalized : bool
        Whether log q at every temperature, and log p(x, z) in which unknown words are penalized,
        are known for every sample; without the latter each costs ln U.
    from_run : bool
        Whether this package has drawn all samples.

    Raises
    ------
    InputError
        When a file, a column or a row is not as it must be.
    """

    def __init__(
        self,
        paths: Sequence[str | Path | TableFile],
        labels: WeightLabels | None = None,
        block_rows: int = BLOCK_ROWS,
        log_q: Sequence[str | Path | TableFile] = (),
        penalized: bool = False,
    ) -> None:
        self._block_rows, self.penalized = block_rows, penalized
        self.log_p = penalized_column("log_p") if penalized else "log_p"
        self._open(paths, labels or WeightLabels())
        self._choose_columns(log_q)
        self._index()

    def _open(self, paths: Sequence[str | Path | TableFile], given: WeightLabels) -> None:
        if not paths:
            raise InputError("there are no files of log weights; give at least one")
        files = [open_table(path) for path in paths]
        for file in files:
            file.require(REQUIRED, "files of log weights")
        found = [file_labels(file).overridden(given) for file in files]
        self.labels = _common_labels(files, found)
        self.from_run = all(is_of_a_run(file) for file in files)
        named = {one.temperature for one in found}
        if None in named and len(named) > 1:
            index = [one.temperature for one in found].index(None)
            raise InputError(
                f"{files[index].path}: its footer names no temperature, those of other files do; "
                "give files that all do, or one temperature for all"
            )
        self.temperatures: tuple[float | None, ...] = tuple(sorted(named, key=lambda t: t or 0.0))
        self._shards = [
            _Shard(file, one, self.temperatures.index(one.temperature))
            for file, one in zip(files, found, strict=True)
        ]

    def _choose_columns(self, log_q: Sequence[str | Path | TableFile]) -> None:
        shared = set.intersection(*(set(shard.file.names) for shard in self._shards))
        grid = [temperature_column(t) for t in self.temperatures if t is not None]
        self._beside = LogQFiles(log_q, grid, self.labels) if log_q else None
        self.has_grid = bool(grid) and (bool(log_q) or shared.issuperset(grid))
        self._grid = grid if self.has_grid else []
        self._own_grid = [] if self._beside else self._grid
        self._names = {"instance_id": pa.int64(), "n_tokens": pa.int64()}
        self._values = {"instance_id": pa.int64(), "sample_id": pa.int64()}
        self._values |= dict.fromkeys((self.log_p, "log_q", *self._own_grid), pa.float64())
        self.has_penalized = penalized_column("log_p") in shared
        if "n_unknown" in shared:
            self._names["n_unknown"] = pa.int64()
        if "latent_hash" in shared:
            self._values["latent_hash"] = pa.int64()

    def _index(self) -> None:
        """Read what names the rows: which instances there are, their T and K, and where."""
        known: dict[int, list[int]] = {}
        counts: dict[int, list[int]] = {}
        for shard in self._shards:
            rows = 0
            for group in range(shard.file.n_groups):
                low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
                for batch in shard.file.batches(self._names, group):
                    if not len(batch.columns["instance_id"]):
                        continue
                    rows += len(batch.columns["instance_id"])
                    low = min(low, int(batch.columns["instance_id"].min()))
                    high = max(high, int(batch.columns["instance_id"].max()))
                    self._count(shard, batch, known, counts)
                shard.ranges.append((low, high))
            shard.file.count_read(rows)
        if not known:
            raise InputError(f"{self._shards[0].file.path}: there are no rows; give some samples")
        if sum(numbers[0] for numbers in known.values()) > LARGEST_NUMBER:
            raise InputError(
                f"{self._shards[0].file.path}: the n_tokens of all instances sum to more than "
                f"{LARGEST_NUMBER:,}; they are T of the instances, each counted once"
            )
        ids = sorted(known)
        self.instance_ids = np.array(ids, np.int64)
        table = np.array([known[name] for name in ids], np.int64)  # (N, 1 or 2)
        self.n_tokens = table[:, 0]
        self.n_unknown = table[:, 1] if "n_unknown" in self._names else None
        self.n_samples = np.array([counts[name] for name in ids], np.int64).T
        self._check_complete()

    def _count(
        self,
        shard: _Shard,
        batch: RowBatch,
        known: dict[int, list[int]],
        counts: dict[int, list[int]],
    ) -> None:
        """Count the rows of a batch, and compare what they say of their instances."""
        columns, file = batch.columns, shard.file
        file.check(
            batch, "n_tokens", columns["n_tokens"] < 1, "at least 1: it is T of the instance"
        )
        found, first, inverse, rows = np.unique(
            columns["instance_id"], return_index=True, return_inverse=True, return_counts=True
        )
        names = [name for name in ("n_tokens", "n_unknown") if name in columns]
        for name, index, count in zip(found.tolist(), first, rows.tolist(), strict=True):
            known.setdefault(name, [int(columns[column][index]) for column in names])
            counts.setdefault(name, [0] * len(self.temperatures))[shard.group] += count
        for place, column in enumerate(names):
            wanted = np.array([known[name][place] for name in found.tolist()])[inverse]
            bad = columns[column] != wanted
            if bad.any():
                instance, value = columns["instance_id"][bad][0], wanted[bad][0]
                file.check(
                    batch, column, bad, f"{value} as in the earlier rows of instance {instance}"
                )
        if "n_unknown" in columns:
            file.check(batch, "n_unknown", columns["n_unknown"] < 0, "0 or more")
            more = columns["n_unknown"] > columns["n_tokens"]
            file.check(batch, "n_unknown", more, "at most n_tokens, which counts them too")

    def _check_complete(self) -> None:
        empty = np.argwhere(self.n_samples == 0)
        if len(empty):
            group, index = empty[0]
            raise InputError(
                f"instance {self.instance_ids[index]} has no samples at temperature "
                f"{self.temperatures[group]}, but at others; "
                "give all the files of every temperature"
            )

    @property
    def has_hashes(self) -> bool:
        """Whether the latents of all samples are known."""
        return "latent_hash" in self._values

    def __iter__(self) -> Iterator[SampledInstance]:
        """Yield the instances in the order of their ids; every value is checked."""
        rows = self.n_samples.sum(0)
        start = 0
        while start < len(rows):
            fits = int(np.searchsorted(np.cumsum(rows[start:]), self._block_rows, side="right"))
            end = start + max(1, fits)
            gathered = [self._gather(group, start, end) for group in range(len(self.temperatures))]
            for index in range(start, end):
                samples = tuple(self._cut(columns, index) for columns in gathered)
                yield SampledInstance(index, int(self.instance_ids[index]), samples, {})
            start = end

    def _gather(self, group: int, start: int, end: int) -> dict[str, np.ndarray]:
        """Read all samples of a block of instances at one temperature, sorted."""
        low, high = int(self.instance_ids[start]), int(self.instance_ids[end - 1])
        parts: dict[str, list[np.ndarray]] = {name: [] for name in self._values}
        for shard in self._shards:
            if shard.group != group:
                continue
            for index, (first, last) in enumerate(shard.ranges):
                if first > high or last < low:
                    continue
                for batch in shard.file.batches(self._values, index):
                    self._check_values(shard, batch)
                    held = batch.columns["instance_id"]
                    kept = (held >= low) & (held <= high)
                    for name, column in batch.columns.items():
                        parts[name].append(column[kept])
        columns = {name: np.concatenate(pieces) for name, pieces in parts.items()}
        order = np.lexsort((columns["sample_id"], columns["instance_id"]))
        columns = {name: column[order] for name, column in columns.items()}
        self._check_unique(group, columns)
        temperature = self.temperatures[group]
        if self._beside and temperature is not None:
            columns |= self._beside.gather(temperature, columns)
        return columns

    def _check_values(self, shard: _Shard, batch: RowBatch) -> None:
        file, columns = shard.file, batch.columns
        file.check_log_p(batch, self.log_p)
        log_q = columns["log_q"]
        bad = ~(np.abs(log_q) < LARGEST_LOG)  # NaN is no number either
        wanted = f"a finite number, no larger than {LARGEST_LOG:g}: the sample was drawn"
        file.check(batch, "log_q", bad, wanted)
        for name in self._own_grid:
            file.check_log_p(batch, name)
        if self._own_grid and shard.labels.temperature is not None:
            own = temperature_column(shard.labels.temperature)
            differs = ~(np.abs(columns[own] - log_q) <= SAME * np.maximum(1.0, np.abs(log_q)))
            file.check(batch, own, differs, "log_q, as it is the temperature of the samples")

    def _check_unique(self, group: int, columns: Mapping[str, np.ndarray]) -> None:
        instance, sample = columns["instance_id"], columns["sample_id"]
        twice = (instance[1:] == instance[:-1]) & (sample[1:] == sample[:-1])
        if not twice.any():
            return
        index = int(np.argmax(twice))
        pair = int(instance[index]), int(sample[index])
        places = [
            shard.file.place(batch.first + int(row))
            for shard in self._shards
            if shard.group == group
            for part in range(shard.file.n_groups)
            for batch in shard.file.batches(self._values, part)
            for row in np.flatnonzero(
                (batch.columns["instance_id"] == pair[0]) & (batch.columns["sample_id"] == pair[1])
            )
        ]
        raise InputError(
            f"{places[1]}: instance {pair[0]}, sample {pair[1]} is there already ({places[0]}); "
            "give every sample once"
        )

    def _cut(self, columns: Mapping[str, np.ndarray], index: int) -> WeightedSamples:
        name = self.instance_ids[index]
        start = int(np.searchsorted(columns["instance_id"], name, side="left"))
        part = slice(start, int(np.searchsorted(columns["instance_id"], name, side="right")))
        size = part.stop - part.start
        grid = [columns[column][part] for column in self._grid]
        return WeightedSamples(
            columns[self.log_p][part],
            columns["log_q"][part],
            np.stack(grid, 1) if grid else np.empty((size, 0)),
            columns["latent_hash"][part] if "latent_hash" in columns else None,
        )


def _common_labels(files: Sequence[TableFile], found: Sequence[WeightLabels]) -> WeightLabels:
    """Return what all files are labelled alike; the temperature is left out."""
    names = ("model", "proposal", "t_definition", "unknown_types")
    for name in names:
        values = [getattr(one, name) for one in found]
        for file, value in zip(files, values, strict=True):
            if value != values[0]:
                raise InputError(
                    f"{file.path}: {name} is {value!r}, but {values[0]!r} in {files[0].path}; "
                    "give the files of one model and one proposal"
                )
    return WeightLabels(**{name: getattr(found[0], name) for name in names})
