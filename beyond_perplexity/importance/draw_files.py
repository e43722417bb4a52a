"""Files of weights and beside them: what they are of, log q, beams, runs of particles."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.ways_to_draw import DRAW_READERS
from beyond_perplexity.options import Limited, Natural, Positive, parse_options
from beyond_perplexity.schemas.draws import penalized_column
from beyond_perplexity.storage.shards import RECORD_KEY, FileRanges, ParquetInput, parse_record
from beyond_perplexity.storage.table_files import RowBatch, TableFile, is_csv, open_table

LABELS_KEY = "weights"
# Columns that may stand in for a footer, which a CSV file has not.
LABEL_COLUMNS = {"model": pa.string(), "proposal": pa.string(), "temperature": pa.float64()}


@dataclass(frozen=True)
class WeightLabels(Limited):
    """What the samples of a file are: their p, q and temperature (None: of beams, or not said),
    what T counts (`t_definition`), and how many word types of the training text read ``<unk>``."""

    model: str | None = None
    proposal: str | None = None
    temperature: Positive | None = None
    t_definition: str | None = None
    unknown_types: Natural | None = None

    def in_record(self, record: Mapping[str, object]) -> dict[str, object]:
        """Return the run record with these labels in it, for the footer of a shard."""
        return {**record, LABELS_KEY: asdict(self)}

    def overridden(self, other: WeightLabels) -> WeightLabels:
        """Return these labels with those that `other` gives in their place."""
        given = {name: value for name, value in asdict(other).items() if value is not None}
        return replace(self, **given)


def _record(given: str | Path | TableFile) -> dict[str, object]:
    """Return the run record in the footer of a Parquet file; files of others have none."""
    metadata: Mapping[bytes, bytes] = {}
    if isinstance(given, TableFile):
        metadata = given.metadata
    elif not is_csv(given):
        with ParquetInput(given) as file:
            metadata = file.metadata.metadata or {}
    return parse_record(str(given), metadata.get(RECORD_KEY, b"{}"))


def is_of_a_run(given: str | Path | TableFile) -> bool:
    """Tell whether a file was drawn by this package, which checks the pair of models."""
    return LABELS_KEY in _record(given)


def read_labels(given: str | Path | TableFile) -> WeightLabels:
    """Read the labels in the footer of a file, which one of others has not."""
    held = _record(given).get(LABELS_KEY, {})
    return parse_options(WeightLabels, held, f"{given}: {LABELS_KEY}")


def _column_values(file: TableFile) -> dict[str, object]:
    """Return the one value of each column of `LABEL_COLUMNS` that a file has."""
    kinds = {name: kind for name, kind in LABEL_COLUMNS.items() if name in file.names}
    found: dict[str, object] = {}
    first = 0
    try:
        for batch in file.columns(kinds) if kinds else ():
            for name, kind in kinds.items():
                values = batch.column(name).cast(kind)
                if name == "temperature":  # pandas writes NaN for what is missing
                    values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
                for value in values.unique().to_pylist():
                    if value != found.setdefault(name, value):
                        row = first + values.to_pylist().index(value)
                        said = ["missing" if v is None else repr(v) for v in (value, found[name])]
                        fault = f"{name} is {said[0]}, but {said[1]} in the first row"
                        advice = f"give the samples of each {name} in a file of their own"
                        raise InputError(f"{file.place(row)}: {fault}; {advice}")
            first += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{file.path}: columns {', '.join(kinds)} cannot be read ({error})"
        ) from error
    return {name: value for name, value in found.items() if value is not None}


def file_labels(file: TableFile) -> WeightLabels:
    """Read the labels of a file of log weights: its footer, and its columns `LABEL_COLUMNS`."""
    footer = read_labels(file)
    columns = _column_values(file)
    for name, value in columns.items():
        said = getattr(footer, name)
        if said not in (None, value):
            detail = f"but the footer {said!r}; correct the column or leave it out"
            raise InputError(f"{file.path}: column '{name}' says {value!r}, {detail}")
    return footer.overridden(parse_options(WeightLabels, columns, f"{file.path}: its columns"))


if TYPE_CHECKING:
    from beyond_perplexity.importance.weight_files import WeightReader

Columns = dict[str, np.ndarray]

SCORES = {"log_p", "log_likelihood"}
SCORES |= {penalized_column(name) for name in SCORES}
_COMMON = dict.fromkeys(("instance_id", "n_tokens"), pa.int64())
BEAM_COLUMNS = {**_COMMON, **dict.fromkeys(("beam_size", "rank", "latent_hash"), pa.int64())}
RUN_COLUMNS = {**_COMMON, **dict.fromkeys(("run", "n_particles"), pa.int64())}
_LOG_Q_COLUMNS = {
    **dict.fromkeys(("instance_id", "sample_id", "latent_hash"), pa.int64()),
    "temperature": pa.float64(),
}


def add_draw_flags(parser: argparse.ArgumentParser) -> None:
    """Give a parser a flag for the files of each kind of draws."""
    for kind in DRAW_READERS:
        text = f"draws of the same instances (schema {kind})"
        parser.add_argument(f"--{kind}", nargs="*", default=[], action=FileRanges, help=text)


def read_draws(given: argparse.Namespace, reader: WeightReader) -> dict[str, Any]:
    """Read the files of each kind of draws that were given with the flags of `add_draw_flags`."""
    return {
        kind: resolve_name(reference)(paths, reader)
        for kind, reference in DRAW_READERS.items()
        if (paths := getattr(given, kind))
    }


def check_pair(given: str | Path | TableFile, labels: WeightLabels) -> None:
    """Refuse a file of another model or proposal than the weights, which have these labels."""
    said = read_labels(given)
    for name in ("model", "proposal"):
        own, wanted = getattr(said, name), getattr(labels, name)
        if None not in (own, wanted) and own != wanted:
            raise InputError(f"{given}: {name} is {own!r}, but the log weights are of {wanted!r}")


class RowGroup(NamedTuple):
    """A group of rows of a file, and the range of the instances that its rows are of."""

    file: TableFile
    place: int
    first: int
    last: int


def index_rows(
    file: TableFile, columns: Mapping[str, pa.DataType], take: Callable[[RowBatch], object]
) -> list[RowGroup]:
    """Let every batch of a file be taken, and say which instances its groups of rows are of."""
    found, rows = [], 0
    for place in range(file.n_groups):
        ends: list[int] = []
        for batch in file.batches(columns, place):
            ids = batch.columns["instance_id"]
            if len(ids):
                rows += len(ids)
                ends += [int(ids.min()), int(ids.max())]
                take(batch)
        if ends:
            found.append(RowGroup(file, place, min(ends), max(ends)))
    file.count_read(rows)
    return found


def gather_rows(
    groups: Iterable[RowGroup],
    columns: Mapping[str, pa.DataType],
    low: int,
    high: int,
    check: Callable[[TableFile, RowBatch], None],
) -> Columns:
    """Read the rows of the instances from `low` to `high`, sorted by instance and sample."""
    parts = {name: [np.empty(0, kind.to_pandas_dtype())] for name, kind in columns.items()}
    for group in groups:
        if group.first > high or group.last < low:
            continue
        for batch in group.file.batches(columns, group.place):
            check(group.file, batch)
            held = batch.columns["instance_id"]
            kept = (held >= low) & (held <= high)
            for name, column in batch.columns.items():
                parts[name].append(column[kept])
    found = {name: np.concatenate(pieces) for name, pieces in parts.items()}
    order = np.lexsort((found["sample_id"], found["instance_id"]))
    return {name: column[order] for name, column in found.items()}


def by_instance_and_run(held: Columns, what: str, ids: np.ndarray | None = None) -> Columns:
    """Arrange rows as (N, F), instances by runs, both ascending; a run that is lacking or there
    twice is an `InputError` that begins with `what`."""
    ids = np.unique(held["instance_id"]) if ids is None else ids
    runs = np.unique(held["run"])
    order = np.lexsort((held["run"], held["instance_id"]))
    whole = np.repeat(ids, len(runs)), np.tile(runs, len(ids))
    if not np.array_equal([held["instance_id"][order], held["run"][order]], whole):
        advice = "give every file once, and all of them"
        raise InputError(f"{what} has a run twice or lacks one that others have; {advice}")
    return {name: column[order].reshape(len(ids), len(runs)) for name, column in held.items()}


def read_beside(
    paths: Sequence[str | Path | TableFile],
    columns: Mapping[str, pa.DataType],
    what: str,
    reader: WeightReader,
) -> Columns:
    """Read columns of whole files of `what`, rows of the reader's instances; `SCORES` may be −inf,
    but neither NaN nor +inf, and a file of another model is an `InputError`."""
    kept: list[Columns] = []
    tokens = dict(zip(reader.instance_ids.tolist(), reader.n_tokens.tolist(), strict=True))

    def take(file: TableFile, batch: RowBatch) -> None:
        for name in SCORES & columns.keys():
            file.check_log_p(batch, name)
        ids = batch.columns["instance_id"].tolist()
        wanted = np.array([tokens.get(name, -1) for name in ids], np.int64)
        file.check(batch, "instance_id", wanted < 0, "an instance that has samples")
        differs = batch.columns["n_tokens"] != wanted
        file.check(batch, "n_tokens", differs, "the same as in the log weights")
        kept.append(batch.columns)

    for file in map(open_table, paths):
        file.require(list(columns), f"files of {what}")
        check_pair(file, reader.labels)
        index_rows(file, columns, partial(take, file))
    if not kept:
        raise InputError(f"files of {what}: there are no rows in {', '.join(map(str, paths))}")
    return {name: np.concatenate([held[name] for held in kept]) for name in columns}


class LogQFiles:
    """log q of the samples of one model and proposal, in files of schema ``log_q``, cut in any way;
    a file that lacks a column of `names` or is of another pair is an `InputError`."""

    def __init__(
        self, paths: Sequence[str | Path | TableFile], names: Sequence[str], labels: WeightLabels
    ) -> None:
        self._names = list(names)
        self._columns = {**_LOG_Q_COLUMNS, **dict.fromkeys(names, pa.float64())}
        self._groups: list[RowGroup] = []
        for file in map(open_table, paths):
            file.require(list(self._columns), "files of log q")
            check_pair(file, labels)
            self._groups += index_rows(file, {"instance_id": pa.int64()}, lambda _: None)

    def gather(self, temperature: float, samples: Columns) -> Columns:
        """Read the temperature columns of all samples of some instances that were drawn at one,
        sorted; a sample that is missing, is another latent or has no log q is an `InputError`."""

        def check(file: TableFile, batch: RowBatch) -> None:
            for name in self._names:
                file.check_log_p(batch, name)

        low, high = samples["instance_id"][[0, -1]].tolist()
        found = gather_rows(self._groups, self._columns, low, high, check)
        own = found["temperature"] == temperature
        found = {name: column[own] for name, column in found.items()}
        _check_same(temperature, samples, found)
        return {name: found[name] for name in self._names}


def _check_same(temperature: float, samples: Columns, found: Columns) -> None:
    """Raise `InputError` unless both are the same samples in the same order."""
    wanted, held = (np.stack([one["instance_id"], one["sample_id"]], 1) for one in (samples, found))
    size = min(len(wanted), len(held))
    differs = np.append((wanted[:size] != held[:size]).any(1), len(wanted) != len(held))
    if differs.any():
        row = int(np.argmax(differs))
        instance, sample = min(one[row].tolist() for one in (wanted, held) if row < len(one))
        fault = f"sample {sample} at temperature {temperature} is not in both"
        advice = "the log weights and the files of log q, once; give all the files of both"
        raise InputError(f"log q: instance {instance}, {fault} {advice}")
    others = samples.get("latent_hash", found["latent_hash"]) != found["latent_hash"]
    if others.any():
        instance, sample = wanted[int(np.argmax(others))]
        what = f"log q: instance {instance}, sample {sample} at temperature {temperature}"
        advice = "draw both with the same models on one kind of device"
        raise InputError(f"{what} is another latent than was weighed; {advice}")


class Beams:
    """The beams of all instances of a reader, from files of schema ``beams``, cut in any way; a
    wrong row, or an instance that lacks a beam or samples, is an `InputError`."""

    def __init__(self, paths: Sequence[str | Path | TableFile], reader: WeightReader) -> None:
        columns = read_beside(paths, {**BEAM_COLUMNS, reader.log_p: pa.float64()}, "beams", reader)
        order = np.lexsort((columns["rank"], columns["instance_id"], columns["beam_size"]))
        keys = np.stack([columns[name][order] for name in ("beam_size", "instance_id", "rank")])
        twice = (keys[:, 1:] == keys[:, :-1]).all(0)
        if twice.any():
            size, instance, rank = keys[:, int(np.argmax(twice))]
            detail = f"rank {rank} is there twice; give every file once"
            raise InputError(f"beams: instance {instance}, beam size {size}, {detail}")
        self._log_p, self._latents = columns[reader.log_p][order], columns["latent_hash"][order]
        self._instance_ids = reader.instance_ids.tolist()
        beams, starts = np.unique(keys[:2], axis=1, return_index=True)  # (2, beams), (beams,)
        ends = np.append(starts[1:], len(order))
        self._parts = {
            (size, instance): slice(start, end)
            for size, instance, start, end in zip(*beams.tolist(), starts, ends, strict=True)
        }
        sizes = np.unique(keys[0]).tolist()
        self.settings = [{"beam_size": size} for size in sizes]
        for size, instance in product(sizes, self._instance_ids):
            if (size, instance) not in self._parts:
                advice = "give all the files of beams"
                raise InputError(f"beams: instance {instance} has no beam of size {size}; {advice}")

    def beam(self, size: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return log p and hashes, (k,), of a beam of the instance with an index of the reader."""
        part = self._parts[size, self._instance_ids[index]]
        return self._log_p[part], self._latents[part]


class SMCRuns:
    """The runs of sequential Monte Carlo of all instances of a reader, in files of schema ``smc``.

    `log_likelihood`, (N, F), is log p̂ of each run, nats, `ess_min`, (N,), the smallest effective
    sample size that any run of an instance has met. Files that are not alike, or an instance that
    lacks a run, are an `InputError`.
    """

    def __init__(self, paths: Sequence[str | Path | TableFile], reader: WeightReader) -> None:
        score, ess = "log_likelihood", "ess_min"
        if reader.penalized:
            score, ess = penalized_column(score), penalized_column(ess)
        wanted = {**RUN_COLUMNS, score: pa.float64(), ess: pa.float64()}
        columns = read_beside(paths, wanted, "sequential Monte Carlo", reader)
        self.n_particles = int(_common(columns["n_particles"].tolist(), "numbers of particles"))
        temperature = _common([read_labels(path).temperature for path in paths], "temperatures")
        held = by_instance_and_run(columns, "smc: an instance", reader.instance_ids)
        self.log_likelihood, self.ess_min = held[score], held[ess].min(1)
        self.settings = [{"temperature": temperature, "replicates": held[score].shape[1]}]


def _common(values: Sequence[Any], what: str) -> Any:
    """Return what all values are."""
    found = set(values)
    if len(found) != 1:
        raise InputError(f"smc: the files are of several {what}; give those of one run")
    return found.pop()
