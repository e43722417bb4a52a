"""Log weights instance by instance, from files cut in any way, without holding them all.

A first pass reads and counts what names the rows; then blocks of instances are gathered, of about
`BLOCK_ROWS` rows, by instance id and sample, so no result depends on how files are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance import draw_files
from beyond_perplexity.importance.estimator import SampledInstance, WeightedSamples
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.schemas.draws import penalized_column, temperature_column
from beyond_perplexity.storage.table_files import LARGEST_LOG, RowBatch, TableFile, open_table

BLOCK_ROWS = 2**19
REQUIRED = ("instance_id", "sample_id", "n_tokens", "log_p", "log_q")
# log q of a shard may differ from its column of the same temperature by rounding alone.
SAME = 1e-6


class WeightReader:
    """All the shards of one model and one proposal; an `InputError` names a wrong column or row.

    `paths` are Parquet or CSV files with the columns `REQUIRED`; ``n_unknown``, ``latent_hash`` and
    the temperature columns are used when all files have them, `draw_files.LABEL_COLUMNS` when a
    file does. `labels` replace those of the footers; `block_rows` are held at once, unless one
    instance has more; `log_q` are files with the temperature columns of the same samples
    (`LogQFiles`); `penalized` reads log p(x, z) with unknown words penalized.

    `temperatures` are ascending, (None,) when nobody said. `instance_ids`, `n_tokens` and
    `n_unknown` (None when a file does not say), int64, (N,), are the instances, ascending, T, and
    unknown tokens; `n_samples`, int64, (J, N), K of each at each temperature. `has_grid`,
    `has_hashes`, `has_penalized` say whether log q at every temperature, latents, and penalized log
    p(x, z) are known for every sample; without the last each unknown word costs ln U. `from_run`:
    this package has drawn all.
    """

    def __init__(
        self,
        paths: Sequence[str | Path | TableFile],
        labels: draw_files.WeightLabels | None = None,
        block_rows: int = BLOCK_ROWS,
        log_q: Sequence[str | Path | TableFile] = (),
        penalized: bool = False,
    ) -> None:
        self._block_rows, self.penalized = block_rows, penalized
        self.log_p = penalized_column("log_p") if penalized else "log_p"
        self._open(paths, labels or draw_files.WeightLabels())
        self._choose_columns(log_q)
        self._index()

    def _open(
        self, paths: Sequence[str | Path | TableFile], given: draw_files.WeightLabels
    ) -> None:
        if not paths:
            raise InputError("there are no files of log weights; give at least one")
        files = [open_table(path) for path in paths]
        for file in files:
            file.require(REQUIRED, "files of log weights")
        found = [draw_files.file_labels(file).overridden(given) for file in files]
        self.labels = _common_labels(files, found)
        self.from_run = all(draw_files.is_of_a_run(file) for file in files)
        degrees = [one.temperature for one in found]
        if None in degrees and len(set(degrees)) > 1:
            fault = "its footer names no temperature, those of other files do"
            advice = "give files that all do, or one temperature for all"
            raise InputError(f"{files[degrees.index(None)].path}: {fault}; {advice}")
        self.temperatures = tuple(sorted(set(degrees), key=lambda t: t or 0.0))
        self._files = [
            (file, self.temperatures.index(one)) for file, one in zip(files, degrees, strict=True)
        ]

    def _choose_columns(self, log_q: Sequence[str | Path | TableFile]) -> None:
        shared = set.intersection(*(set(file.names) for file, _ in self._files))
        grid = [temperature_column(t) for t in self.temperatures if t is not None]
        self._beside = draw_files.LogQFiles(log_q, grid, self.labels) if log_q else None
        self.has_grid = bool(grid) and (bool(log_q) or shared.issuperset(grid))
        self._grid = grid if self.has_grid else []
        self._own_grid = [] if self._beside else self._grid
        self.has_penalized = penalized_column("log_p") in shared
        self.has_hashes = "latent_hash" in shared
        names = ["instance_id", "n_tokens", *{"n_unknown"} & shared]
        keys = ["instance_id", "sample_id", *{"latent_hash"} & shared]
        self._names = dict.fromkeys(names, pa.int64())
        self._values = dict.fromkeys(keys, pa.int64())
        self._values |= dict.fromkeys((self.log_p, "log_q", *self._own_grid), pa.float64())

    def _index(self) -> None:
        """Read what names the rows: which instances there are, their T and K, and where."""
        known: dict[int, list[int]] = {}
        counts: dict[int, list[int]] = {}
        self._groups: list[list[draw_files.RowGroup]] = [[] for _ in self.temperatures]
        for file, group in self._files:
            take = partial(self._count, file, group, known, counts)
            self._groups[group] += draw_files.index_rows(file, self._names, take)
        path = self._files[0][0].path
        if not known:
            raise InputError(f"{path}: there are no rows; give some samples")
        if sum(numbers[0] for numbers in known.values()) > LARGEST_NUMBER:
            fault = f"the n_tokens of all instances sum to more than {LARGEST_NUMBER:,}"
            raise InputError(f"{path}: {fault}; they are T of the instances, each counted once")
        ids = sorted(known)
        self.instance_ids = np.array(ids, np.int64)
        table = np.array([known[name] for name in ids], np.int64)  # (N, 1 or 2)
        self.n_tokens = table[:, 0]
        self.n_unknown = table[:, 1] if "n_unknown" in self._names else None
        self.n_samples = np.array([counts[name] for name in ids], np.int64).T
        for group, index in np.argwhere(self.n_samples == 0):
            fault = f"has no samples at temperature {self.temperatures[group]}, but at others"
            advice = "give all the files of every temperature"
            raise InputError(f"instance {self.instance_ids[index]} {fault}; {advice}")

    def _count(
        self,
        file: TableFile,
        group: int,
        known: dict[int, list[int]],
        counts: dict[int, list[int]],
        batch: RowBatch,
    ) -> None:
        """Count the rows of a batch, and compare what they say of their instances."""
        columns = batch.columns
        file.check(
            batch, "n_tokens", columns["n_tokens"] < 1, "at least 1: it is T of the instance"
        )
        found, first, inverse, rows = np.unique(
            columns["instance_id"], return_index=True, return_inverse=True, return_counts=True
        )
        names = [name for name in ("n_tokens", "n_unknown") if name in columns]
        ids: list[int] = found.tolist()
        for name, index, count in zip(ids, first, rows.tolist(), strict=True):
            known.setdefault(name, [int(columns[column][index]) for column in names])
            counts.setdefault(name, [0] * len(self.temperatures))[group] += count
        for place, column in enumerate(names):
            wanted = np.array([known[name][place] for name in ids])[inverse]
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

    def _gather(self, group: int, start: int, end: int) -> draw_files.Columns:
        """Read all samples of a block of instances at one temperature, sorted."""
        low, high = self.instance_ids[[start, end - 1]].tolist()
        temperature = self.temperatures[group]
        check = partial(self._check_values, temperature)
        columns = draw_files.gather_rows(self._groups[group], self._values, low, high, check)
        self._check_unique(self._groups[group], columns)
        if self._beside and temperature is not None:
            columns |= self._beside.gather(temperature, columns)
        return columns

    def _check_values(self, temperature: float | None, file: TableFile, batch: RowBatch) -> None:
        columns = batch.columns
        file.check_log_p(batch, self.log_p)
        log_q = columns["log_q"]
        bad = ~(np.abs(log_q) < LARGEST_LOG)  # NaN is no number either
        wanted = f"a finite number, no larger than {LARGEST_LOG:g}: the sample was drawn"
        file.check(batch, "log_q", bad, wanted)
        for name in self._own_grid:
            file.check_log_p(batch, name)
        if self._own_grid and temperature is not None:
            own = temperature_column(temperature)
            differs = ~(np.abs(columns[own] - log_q) <= SAME * np.maximum(1.0, np.abs(log_q)))
            file.check(batch, own, differs, "log_q, as it is the temperature of the samples")

    def _check_unique(self, held: list[draw_files.RowGroup], columns: draw_files.Columns) -> None:
        instance, sample = columns["instance_id"], columns["sample_id"]
        twice = (instance[1:] == instance[:-1]) & (sample[1:] == sample[:-1])
        if not twice.any():
            return
        index = int(np.argmax(twice))
        pair = int(instance[index]), int(sample[index])
        places = [
            group.file.place(batch.first + int(row))
            for group in held
            for batch in group.file.batches(self._values, group.place)
            for row in np.flatnonzero(
                (batch.columns["instance_id"] == pair[0]) & (batch.columns["sample_id"] == pair[1])
            )
        ]
        detail = f"sample {pair[1]} is there already ({places[0]}); give every sample once"
        raise InputError(f"{places[1]}: instance {pair[0]}, {detail}")

    def _cut(self, columns: draw_files.Columns, index: int) -> WeightedSamples:
        name = self.instance_ids[index]
        start, stop = (np.searchsorted(columns["instance_id"], name, s) for s in ("left", "right"))
        part = slice(start, stop)
        grid = [columns[column][part] for column in self._grid]
        return WeightedSamples(
            columns[self.log_p][part],
            columns["log_q"][part],
            np.stack(grid, 1) if grid else np.empty((stop - start, 0)),
            columns["latent_hash"][part] if self.has_hashes else None,
        )


def _common_labels(
    files: Sequence[TableFile], found: Sequence[draw_files.WeightLabels]
) -> draw_files.WeightLabels:
    """Return what all files are labelled alike; the temperature is left out."""
    common = replace(found[0], temperature=None)
    for name, wanted in asdict(common).items():
        for file, one in zip(files, found, strict=True):
            if name != "temperature" and getattr(one, name) != wanted:
                said = f"{name} is {getattr(one, name)!r}, but {wanted!r} in {files[0].path}"
                advice = "give the files of one model and one proposal"
                raise InputError(f"{file.path}: {said}; {advice}")
    return common
