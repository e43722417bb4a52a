"""All measures of a finished run as DataFrames, each read when it is asked for."""

from __future__ import annotations

import glob
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.library.perplexity import perplexity_rows
from beyond_perplexity.storage.inputs import parse_object, read_whole
from beyond_perplexity.storage.shards import check_schema, read_record

CONFIGURATION = "configuration.json"  # what the workflow was asked for when it last ran
_FIELD = re.compile(r"\{(\w+)\}")


class ResultKind(NamedTuple):
    """A kind of measures: a row of ``results.toml``, which says what each field is."""

    row: str
    files: list[str]
    schema: str = ""


_KINDS = Path(__file__).with_name("results.toml").read_text(encoding="utf-8")
RESULT_KINDS = {name: ResultKind(**row) for name, row in tomllib.loads(_KINDS).items()}
# Of what several patterns of a kind tell about one value of this column, the first counts.
_OWNERS = {"tendencies": "source", "sensitivity": "corpus"}
_OF_ALL_MODELS = ("differences", "correlations")  # names of files beside those of models


def load_results(folder: str | os.PathLike[str] = "results") -> ResultsFolder:
    """Open the results of a run: its measures as DataFrames, tidy, read when they are asked for.

    Parameters
    ----------
    folder : path
        The folder ``results`` of a run of the workflow, finished or not.

    Returns
    -------
    ResultsFolder
        ``results.tendencies`` or ``results["tendencies"]`` is a DataFrame; ``list(results)`` names
        all of them, ``dict(results)`` reads all.

    Raises
    ------
    InputError
        When there is no such folder, or no measure in it.

    Examples
    --------
    >>> results = load_results("results")  # doctest: +SKIP
    >>> results.perplexity.query("measure == 'bits' and unit == 'byte'")  # doctest: +SKIP
    """
    results = ResultsFolder(folder)
    if not results.folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the folder of results of a run")
    if not len(results):
        raise InputError(f"{folder}: holds no measures; name the folder of results of a run")
    return results


class ResultsFolder(Mapping[str, pd.DataFrame]):
    """The measures of a run by the name of their kind; see `load_results`.

    Logarithms are natural unless a column says bits. Each kind is an attribute, too.

    Parameters
    ----------
    folder : path

    Attributes
    ----------
    folder : pathlib.Path
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._held: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self:
            raise KeyError(f"{self.folder}: has no {name!r}; there are {', '.join(self)}")
        if name not in self._held:
            self._held[name] = self._table(name)
        return self._held[name].copy()

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name[:1] == "_":  # asked before there is a folder, too, by what copies
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __contains__(self, name: object) -> bool:
        return name in RESULT_KINDS and any(self._files(str(name)))

    def __iter__(self) -> Iterator[str]:
        return (name for name in RESULT_KINDS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"ResultsFolder({str(self.folder)!r}): {', '.join(self)}"

    def _repr_html_(self) -> str:
        page: str = self.contents.to_html(index=False, escape=True)
        return page

    @property
    def contents(self) -> pd.DataFrame:
        """What there is: the name of each kind, what a row of it is, and its number of files."""
        rows = [(name, RESULT_KINDS[name].row, sum(map(len, self._files(name)))) for name in self]
        return pd.DataFrame(rows, columns=["name", "a row is", "files"])

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration of the run, with its defaults, as it was when it last ran.

        Raises
        ------
        InputError
            When it is not there, as in a folder of an older version.
        """
        path = self.folder / CONFIGURATION
        if not path.exists():
            raise InputError(f"{path}: no such file; run the workflow again, which writes it")
        return _described(path)

    @property
    def records(self) -> pd.DataFrame:
        """Where each file came from: a row a file.

        Columns are file, kind, script, seed, options (dict), code_fingerprint, git_commit,
        package_version, device, start, end.
        """
        keys = ["script", "seed", "options", "code_fingerprint", "git_commit"]
        keys += ["package_version", "device", "start", "end"]
        rows = []
        for name in self:
            for path in chain(*self._files(name)):
                record = _record(self.folder / path)
                rows.append({"file": path, "kind": name, **{key: record.get(key) for key in keys}})
        return pd.DataFrame(rows, columns=["file", "kind", *keys])

    def _files(self, name: str) -> list[dict[str, dict[str, str]]]:
        """Find the files of each pattern of a kind, with the columns that their paths give."""
        found = []
        for shape in RESULT_KINDS[name].files:
            pattern = shape if "." in shape else f"{shape}.parquet"
            fields = re.compile(_FIELD.sub(r"(?P<\1>[^/]+)", pattern.replace(".", r"\.")))
            paths = sorted(glob.glob(_FIELD.sub("*", pattern), root_dir=self.folder))
            matches = {path: fields.fullmatch(Path(path).as_posix()) for path in paths}
            columns = {path: match.groupdict() for path, match in matches.items() if match}
            of_models = {p: c for p, c in columns.items() if c.get("model") not in _OF_ALL_MODELS}
            found.append(of_models)
        return found

    def _table(self, name: str) -> pd.DataFrame:
        owner = _OWNERS.get(name, "")
        parts: list[pd.DataFrame] = []
        told: set[object] = set()  # owners that a file of an earlier pattern tells about
        for files in self._files(name):
            tables = [self._read_file(name, path, fields) for path, fields in files.items()]
            parts += [part[~part[owner].isin(told)] if told else part for part in tables]
            told.update(*(part[owner] for part in tables if owner))
        filled = [part for part in parts if len(part)] or parts[:1]
        return pd.concat(filled, ignore_index=True)

    def _read_file(self, name: str, path: str, fields: Mapping[str, str]) -> pd.DataFrame:
        """Read a file; what its path tells are the first columns, where it does not tell it."""
        place, schema = self.folder / path, RESULT_KINDS[name].schema
        if not schema:
            table = _perplexities(place)
        else:
            known = resolve_name(f"beyond_perplexity.schemas.{schema}")
            with check_schema(place, known) as file:
                table = file.read().to_pandas()
        told: dict[str, Any] = dict(fields)
        if _OWNERS.get(name) == "source":  # model/decoding, which a path may tell, too
            sources = table["source"].str.partition("/")
            told |= {"model": sources[0], "decoding": sources[2]}
        added = {key: value for key, value in told.items() if key not in table}
        return table.assign(**added)[[*added, *table]]


def _record(path: Path) -> dict[str, Any]:
    """Return the run record of a file; empty where it has none."""
    if path.suffix == ".parquet":
        return read_record(path)
    record = _described(path).get("record")
    return record if isinstance(record, dict) else {}


def _described(path: Path) -> dict[str, Any]:
    return parse_object(read_whole(path), f"{path}:", "make it again")


def _perplexities(path: Path) -> pd.DataFrame:
    summary = _described(path)
    try:
        return perplexity_rows(summary)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not what the perplexity command writes; make it again"
        ) from error
