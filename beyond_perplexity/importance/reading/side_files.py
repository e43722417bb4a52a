"""Files that say more of the instances whose samples a reader has: their beams, other estimates."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.reading.labels import WeightLabels, read_labels
from beyond_perplexity.importance.reading.rows import DRAW_READERS
from beyond_perplexity.importance.reading.weights import WeightReader
from beyond_perplexity.schemas.draws import penalized_column
from beyond_perplexity.storage.ranges import FileRanges
from beyond_perplexity.storage.table_files import TableFile, is_csv

SCORES = {"log_p", "log_likelihood"}
SCORES |= {penalized_column(name) for name in SCORES}


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


def footer(path: str | Path) -> WeightLabels:
    """Return the labels in the footer of a file; a CSV file has none."""
    return WeightLabels() if is_csv(path) else read_labels(Path(path))


def check_pair(path: str | Path, reader: WeightReader) -> None:
    """Refuse a file of another model or proposal than the weights are of."""
    said = footer(path)
    for name in ("model", "proposal"):
        own, wanted = getattr(said, name), getattr(reader.labels, name)
        if None not in (own, wanted) and own != wanted:
            raise InputError(f"{path}: {name} is {own!r}, but the log weights are of {wanted!r}")


def read_beside(
    paths: Sequence[str | Path], columns: Mapping[str, pa.DataType], what: str, reader: WeightReader
) -> dict[str, np.ndarray]:
    """Read whole files whose rows are of instances that have samples.

    Parameters
    ----------
    paths : sequence of path
        Parquet or CSV files, cut in any way.
    columns : mapping of str to pyarrow.DataType
        The columns that are read, ``instance_id`` and ``n_tokens`` among them; ``log_p`` and
        ``log_likelihood`` (also penalized) may be −inf, but neither NaN nor +inf.
    what : str
        What the files hold, for errors.
    reader : WeightReader
        The samples.

    Returns
    -------
    dict of str to ndarray
        Each column, in the order of the files.

    Raises
    ------
    InputError
        When a file is of another model or a row of no instance of the reader.
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in columns}
    tokens = dict(zip(reader.instance_ids.tolist(), reader.n_tokens.tolist(), strict=True))
    for path in paths:
        file = TableFile(path)
        file.require(list(columns), f"files of {what}")
        check_pair(path, reader)
        rows = 0
        for group in range(file.n_groups):
            for batch in file.batches(columns, group):
                for name in SCORES & columns.keys():
                    file.check_log_p(batch, name)
                ids = batch.columns["instance_id"]
                rows += len(ids)
                wanted = np.array([tokens.get(name, -1) for name in ids.tolist()], np.int64)
                file.check(batch, "instance_id", wanted < 0, "an instance that has samples")
                differs = batch.columns["n_tokens"] != wanted
                file.check(batch, "n_tokens", differs, "the same as in the log weights")
                for name, column in batch.columns.items():
                    parts[name].append(column)
        file.count_read(rows)
    if not any(map(len, parts["instance_id"])):
        raise InputError(f"files of {what}: there are no rows in {', '.join(map(str, paths))}")
    return {name: np.concatenate(pieces) for name, pieces in parts.items()}
