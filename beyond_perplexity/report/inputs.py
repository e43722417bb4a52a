"""Reading what tables and figures are made of: a flag for every kind of files, and its reader."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pandas as pd
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.exhibit import Exhibit
from beyond_perplexity.report import INPUTS, Input
from beyond_perplexity.schemas.columns import schema_name
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.ranges import FileRanges
from beyond_perplexity.storage.shards import check_schema

Paths = Sequence[str | Path]


def read_tables(paths: Paths, schema: pa.Schema, *, named_by_folder: bool = False) -> pd.DataFrame:
    """Read Parquet files of one schema into one table; a row that two files share is kept once.

    Parameters
    ----------
    paths : sequence of paths
        The files.
    schema : pyarrow.Schema
        Of every file.
    named_by_folder : bool
        Whether to add a column ``model`` with the name of the folder of each file.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    InputError
        When no path is given, or a file is not of that schema.
    """
    if not paths:
        raise InputError(f"no {schema_name(schema)} file was given")
    parts = []
    for path in paths:
        with check_schema(path, schema) as file:
            part = as_rows(file.read(columns=schema.names))
        parts.append(part.assign(model=_owner(path)) if named_by_folder else part)
    filled = [part for part in parts if len(part)] or parts[:1]
    return pd.concat(filled, ignore_index=True).drop_duplicates(ignore_index=True)


def as_rows(table: pa.Table) -> pd.DataFrame:
    """Make a table of pandas in which an unknown number is NaN, an unknown text None."""
    rows = table.to_pandas()
    texts = rows.select_dtypes("str").astype(object)
    return rows.assign(**texts.where(texts.notna(), None))


def _owner(path: str | Path) -> str:
    return Path(path).resolve().parent.name


def _read_json(path: str | Path, expected: type[dict] | type[list]) -> Any:
    value = read_json(path, "JSON file of a run", "make it again")
    if not isinstance(value, expected):
        raise InputError(f"{path}: holds no JSON {'object' if expected is dict else 'list'}")
    return value


def read_descriptions(
    paths: Paths, *, named_by_folder: bool, keys: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Read JSON objects by the name of their model.

    Parameters
    ----------
    paths : sequence of paths
        JSON files.
    named_by_folder : bool
        Whether the folder names the model (``lstm/model.json``) or the file (``lstm.json``).
    keys : sequence of str
        What each of them has; objects themselves.

    Raises
    ------
    InputError
        When a file is missing or holds no JSON object with the keys.
    """
    found = {}
    for path in paths:
        held = _read_json(path, dict)
        for key in keys:
            if not isinstance(held.get(key), dict):
                raise InputError(f"{path}: has no object '{key}'; give what the workflow wrote")
        found[_owner(path) if named_by_folder else Path(path).stem] = held
    return found


def read_input(kind: str, paths: Paths) -> Any:
    """Read the files of one kind.

    Parameters
    ----------
    kind : str
        A key of `INPUTS`.
    paths : sequence of paths
        Its files. Where there is none, there is no table (None), description or list.

    Raises
    ------
    InputError
        When a file is not of that kind.
    """
    row = INPUTS[kind]
    if row.reader:
        return resolve_name(row.reader)(paths) if paths else None
    if row.schema:
        if not paths:
            return None
        return read_tables(paths, resolve_name(row.schema), named_by_folder=row.named_by_folder)
    if row.lists:
        return [entry for path in paths for entry in _read_json(path, list)]
    return read_descriptions(paths, named_by_folder=row.named_by_folder)


def add_input_flags(parser: ArgumentParser) -> None:
    """Add a flag for every kind of files that tables and figures are made of."""
    for kind, row in INPUTS.items():
        parser.add_argument(
            Input.flag(kind), nargs="*", default=[], action=FileRanges, help=row.help
        )


def read_inputs(name: str, exhibit: Exhibit, options: Namespace) -> dict[str, Any]:
    """Read what a table or figure is made of from the files that a command was given.

    Raises
    ------
    InputError
        When a kind of files that it needs is missing, or a file is not of its kind.
    """
    for kind in exhibit.inputs:
        if kind not in exhibit.optional and not getattr(options, kind):
            raise InputError(f"{name} needs {Input.flag(kind)}")
    return {kind: read_input(kind, getattr(options, kind)) for kind in exhibit.inputs}
