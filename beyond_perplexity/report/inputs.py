"""Reading what tables and figures are made of: measures, curves, training curves, descriptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas import SCHEMAS
from beyond_perplexity.storage.shards import check_schema

Paths = Sequence[str | Path]


def read_tables(paths: Paths, kind: str) -> pd.DataFrame:
    """Read Parquet files of one schema into one table; a row that two files share is kept once.

    Parameters
    ----------
    paths : sequence of paths
        For the schema ``training`` the folder of each names the model, in a column ``model``.
    kind : str
        A key of `SCHEMAS`.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    InputError
        When no path is given, or a file is not of that schema.
    """
    if not paths:
        raise InputError(f"no {kind} file was given")
    parts = []
    for path in paths:
        with check_schema(path, kind) as file:
            part = file.read(columns=SCHEMAS[kind].names).to_pandas()
        parts.append(part.assign(model=_owner(path)) if kind == "training" else part)
    filled = [part for part in parts if len(part)] or parts[:1]
    return pd.concat(filled, ignore_index=True).drop_duplicates(ignore_index=True)


def _owner(path: str | Path) -> str:
    return Path(path).resolve().parent.name


def read_descriptions(paths: Paths, *, named_by_folder: bool) -> dict[str, dict[str, Any]]:
    """Read JSON objects by the name of their model.

    Parameters
    ----------
    paths : sequence of paths
        JSON files.
    named_by_folder : bool
        Whether the folder names the model (``lstm/model.json``) or the file (``lstm.json``).

    Raises
    ------
    InputError
        When a file is missing or holds no JSON object.
    """
    found = {}
    for path in paths:
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable JSON file ({error})") from error
        if not isinstance(value, dict):
            raise InputError(f"{path}: holds no JSON object")
        found[_owner(path) if named_by_folder else Path(path).stem] = value
    return found


class Reader(NamedTuple):
    """How a kind of files is read, and what the command line says of it."""

    read: Callable[[Paths], Any]
    help: str


def _read_resamples(paths: Paths) -> pd.DataFrame | None:
    return read_tables(paths, "tendencies") if paths else None


READERS = {
    "measures": Reader(partial(read_tables, kind="tendencies"), "measures of every source"),
    "resamples": Reader(_read_resamples, "measures of resamples of the training set"),
    "models": Reader(partial(read_descriptions, named_by_folder=True), "model.json files"),
    "perplexities": Reader(partial(read_descriptions, named_by_folder=False), "JSON by model"),
    "sensitivity": Reader(partial(read_tables, kind="sensitivity"), "smallest detectable shifts"),
}
