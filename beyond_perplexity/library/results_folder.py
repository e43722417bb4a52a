"""All measures of a finished run as DataFrames, each read when it is asked for."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.library.perplexity import perplexity_rows
from beyond_perplexity.storage.inputs import parse_object, read_whole
from beyond_perplexity.storage.shards import check_schema, read_record

CONFIGURATION = "configuration.json"  # what the workflow was asked for when it last ran
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class ResultKind:
    """A kind of results.

    `words` say what a row is; `files` are patterns below the folder of results, in which a name
    in braces is one part of a path and becomes a column; `schema` is theirs, as ``module:NAME``
    in `schemas`, or empty for the JSON files of perplexities. Of what several patterns tell
    about one value of the column `owner`, the first counts; `without` are names of files of
    another kind.
    """

    words: str
    files: tuple[str, ...]
    schema: str = ""
    owner: str = ""
    without: tuple[str, ...] = ()


def _estimated(words: str, name: str, schema: str) -> ResultKind:
    return ResultKind(words, (f"estimates/{{model}}/{{proposal}}/{name}.parquet",), schema)


RESULT_KINDS = {
    "perplexity": ResultKind(
        "a perplexity, or bits, of a model on a text, with interval and N",
        ("perplexity/{model}.json",),
    ),
    "perplexity_documents": ResultKind(
        "log-likelihood and lengths of a document under a model",
        ("perplexity/{model}.parquet",),
        "perplexity:DOCUMENT_SCORES",
    ),
    "perplexity_differences": ResultKind(
        "difference of two models in bits per byte, tested",
        ("perplexity_differences/{corpus}.parquet",),
        "perplexity:PERPLEXITY_DIFFERENCES",
    ),
    "tendencies": ResultKind(
        "a measure of a body of text against human text, with floor and p",
        (
            "embeddings/{corpus}/measures.parquet",
            "tendencies/{model}/{decoding}/measures.parquet",
        ),
        "tendencies:TENDENCY_MEASURES",
        owner="source",
    ),
    "tendencies_raw": ResultKind(
        "the same of the texts as they are, no word read as unknown",
        ("tendencies/{model}/{decoding}/raw.parquet",),
        "tendencies:TENDENCY_MEASURES",
    ),
    "sample_size": ResultKind(
        "a measure of random subsets of n documents",
        ("tendencies/{model}/{decoding}/sample_size.parquet",),
        "tendencies:SAMPLE_SIZE",
    ),
    "sensitivity": ResultKind(
        "the smallest shift that n documents would show",
        ("embeddings/{corpus}/sensitivity.parquet", "references/{corpus}/sensitivity.parquet"),
        "tendencies:SENSITIVITY",
        owner="corpus",
    ),
    "estimates": _estimated(
        "an estimate of the perplexity of a latent model", "estimates", "estimates:ESTIMATES"
    ),
    "estimate_curves": _estimated(
        "an estimate from fewer samples", "curves", "estimates:IMPORTANCE_CURVES"
    ),
    "estimate_diagnostics": _estimated(
        "how far to trust an instance", "diagnostics", "estimates:IMPORTANCE_DIAGNOSTICS"
    ),
    "estimate_gaps": _estimated(
        "how far a setting is off on texts of the model", "gaps", "estimates:IMPORTANCE_GAPS"
    ),
    "contrastive": ResultKind(
        "contrastive entropy, its ratio, or cross-entropy of a model",
        ("contrastive/{corpus}/{model}.parquet",),
        "contrastive:CONTRASTS",
        without=("differences",),
    ),
    "contrastive_differences": ResultKind(
        "difference of two models in it, tested",
        ("contrastive/{corpus}/differences.parquet",),
        "contrastive:CONTRAST_DIFFERENCES",
    ),
    "contrastive_pairs": ResultKind(
        "accuracy of a model on pairs of a phenomenon",
        ("contrastive/pairs/{pairs}/{model}.parquet",),
        "contrastive:PAIR_CONTRASTS",
    ),
    "partitions": ResultKind(
        "log Z of a length of sentences under a model without a likelihood",
        ("partitions/{model}.parquet",),
        "contrastive:PARTITIONS",
    ),
    "semantics": ResultKind(
        "how near in meaning a model's predictions are to what is there",
        ("semantics/{corpus}/{model}.parquet",),
        "semantics:SEMANTICS",
        without=("differences", "correlations"),
    ),
    "semantic_differences": ResultKind(
        "difference of two models in it, tested",
        ("semantics/{corpus}/differences.parquet",),
        "semantics:SEMANTIC_DIFFERENCES",
    ),
    "semantic_probes": ResultKind(
        "what a measure notices of a changed sentence",
        ("semantics/{corpus}/probes/{evaluator}.parquet",),
        "semantics:PROBES",
    ),
    "human_correlations": ResultKind(
        "correlation of a measure with scores of people",
        ("semantics/{corpus}/human/{evaluator}.parquet",),
        "semantics:HUMAN_CORRELATIONS",
    ),
    "relations": ResultKind(
        "a measure of any subject, of a model and a decoding",
        ("relations/{corpus}/measures.parquet",),
        "relations:RELATION_MEASURES",
    ),
    "relation_correlations": ResultKind(
        "rank correlation of two measures",
        ("relations/{corpus}/correlations.parquet",),
        "relations:RELATION_CORRELATIONS",
    ),
    "orders": ResultKind(
        "two models that perplexity and another measure order otherwise",
        ("relations/{corpus}/orders.parquet",),
        "relations:RELATION_ORDERS",
    ),
    "training": ResultKind(
        "a point of the curve of a training",
        ("models/{model}/training.parquet",),
        "perplexity:TRAINING",
    ),
}


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
        if name not in RESULT_KINDS or not self._files(name):
            raise KeyError(self._missing(name))
        if name not in self._held:
            self._held[name] = self._table(name)
        return self._held[name].copy()

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in RESULT_KINDS:  # asked before there is a folder, too, by what copies
            raise AttributeError(name if name[:1] == "_" else self._missing(name))
        if not self._files(name):
            raise AttributeError(self._missing(name))
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in RESULT_KINDS if self._files(name))

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
        rows = [(name, RESULT_KINDS[name].words, len(self._files(name))) for name in self]
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
            for path in self._files(name):
                record = _record(self.folder / path)
                rows.append({"file": path, "kind": name, **{key: record.get(key) for key in keys}})
        return pd.DataFrame(rows, columns=["file", "kind", *keys])

    def _missing(self, name: str) -> str:
        return f"{self.folder}: has no {name!r}; there are {', '.join(self)}"

    def _files(self, name: str) -> dict[str, dict[str, str]]:
        """Find the files of a kind, with the columns that their paths give."""
        return {path: fields for files in self._by_pattern(name) for path, fields in files.items()}

    def _by_pattern(self, name: str) -> Iterator[dict[str, dict[str, str]]]:
        kind = RESULT_KINDS[name]
        for pattern in kind.files:
            fields = _FIELD.sub(r"(?P<\1>[^/]+)", pattern.replace(".", r"\."))
            paths = sorted(glob.glob(_FIELD.sub("*", pattern), root_dir=self.folder))
            matches = {path: re.fullmatch(fields, Path(path).as_posix()) for path in paths}
            yield {
                path: match.groupdict()
                for path, match in matches.items()
                if match and Path(path).stem not in kind.without
            }

    def _table(self, name: str) -> pd.DataFrame:
        kind = RESULT_KINDS[name]
        parts: list[pd.DataFrame] = []
        told: set[object] = set()  # owners that a file of an earlier pattern tells about
        for files in self._by_pattern(name):
            tables = [self._read_file(name, path, fields) for path, fields in files.items()]
            parts += [part[~part[kind.owner].isin(told)] if told else part for part in tables]
            told.update(*(part[kind.owner] for part in tables if kind.owner))
        filled = [part for part in parts if len(part)] or parts[:1]
        return pd.concat(filled, ignore_index=True)

    def _read_file(self, name: str, path: str, fields: Mapping[str, str]) -> pd.DataFrame:
        """Read a file; what its path tells are the first columns, where it does not tell it."""
        place, schema = self.folder / path, RESULT_KINDS[name].schema
        if not schema:
            table = _perplexities(place)
        else:
            columns = resolve_name(f"beyond_perplexity.schemas.{schema}")
            with check_schema(place, columns) as file:
                table = file.read().to_pandas()
        told: dict[str, Any] = dict(fields)
        if RESULT_KINDS[name].owner == "source":  # model/decoding, which a path may tell, too
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
