"""Files of pairs of texts with labels or scores: TSV, CSV, JSONL of SNLI and MultiNLI."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.foreign import refuse_foreign
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.inputs import PACKED, open_input, parse_object

# What the columns are called in the files of SNLI, MultiNLI and the STS benchmark.
FIRST_NAMES = ("sentence1", "premise", "text1")
SECOND_NAMES = ("sentence2", "hypothesis", "text2")
LABEL_NAMES = ("gold_label", "label", "score", "similarity_score", "gold")
_USUAL = (FIRST_NAMES, SECOND_NAMES, LABEL_NAMES)


class LabelledTexts(NamedTuple):
    """Two texts as they are in a file."""

    line: int  # where the pair is in the file, from 1
    first: str
    second: str
    label: str


class PairColumns(NamedTuple):
    """Names of columns; None: those of `FIRST_NAMES` …, or by their place."""

    first: str | None = None
    second: str | None = None
    label: str | None = None


def read_labelled_texts(
    path: str | Path, columns: PairColumns, account: Account | None = None
) -> Iterator[LabelledTexts]:
    """Read pairs of texts with their labels.

    Parameters
    ----------
    path : path
        ``.csv`` has commas and quotes; ``.jsonl`` and ``.json`` an object a line; everything else
        tabs, a pair a line. Any of them may be packed. The first line of a table has the names of
        its columns; it may be missing where the third column has a number in it and no column is
        asked for by its name.
    columns : PairColumns
    account : Account, optional
        Where pairs are counted.

    Raises
    ------
    InputError
        When the file cannot be read or has no such columns, a line has too few, or there is no
        pair; names the line.
    """
    path = Path(path)
    refuse_foreign(path)
    account = account or Account(path, "pairs")
    try:
        # what ends a line in CSV is a matter of its reader
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig", newline="") as file:
            for pair in _read_pairs(path, file, columns):
                account.read += 1
                yield pair
            account.close(None if file.read(1) else account.read)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason}); convert it") from error
    if not account.read:
        raise InputError(f"{path}: holds no pair of texts")


def _read_pairs(path: Path, file: IO[str], columns: PairColumns) -> Iterator[LabelledTexts]:
    name = path.name.lower()
    name = name.removesuffix(next((end for end in PACKED if name.endswith(end)), ""))
    if name.endswith((".jsonl", ".json")):
        for number, line in enumerate(file, 1):
            if line.strip():
                place = f"{path}: line {number}:"
                held = parse_object(line, place, "give an object with both texts")
                parts = zip(_USUAL, columns, strict=True)
                yield LabelledTexts(number, *(_value(place, held, *part) for part in parts))
        return
    rows = (_csv_rows if name.endswith(".csv") else _tab_rows)(path, file)
    first = next(rows, None)
    if first is None:
        return
    places = [0, 1, 2]
    if any(columns) or len(first[1]) < 3 or not _is_float(first[1][2]):
        places = _find_columns(path, first[1], columns)
    else:  # it has no names
        rows = chain([first], rows)
    for number, row in rows:
        if len(row) <= max(places):
            wanted = f"expected {max(places) + 1} at least"
            raise InputError(f"{path}: line {number}: has {len(row)} columns, {wanted}")
        yield LabelledTexts(number, *(row[place] for place in places))


def _tab_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """Split lines; only what is quoted as a whole is unquoted: a text may begin with a quote."""
    for number, line in enumerate(file, 1):
        parts = line.rstrip("\r\n").split("\t") if line.strip() else []
        for place, part in enumerate(parts):
            inner = part[1:-1]
            whole = len(part) > 1 and part[0] == part[-1] == '"'
            if whole and '"' not in inner.replace('""', ""):
                parts[place] = inner.replace('""', '"')
        if parts:
            yield number, parts


def _csv_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, strict=True)
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: is no CSV ({error})") from error


def _find_columns(path: Path, names: list[str], columns: PairColumns) -> list[int]:
    """Return where the columns are: by the names asked for, the usual ones, or their order."""
    places = []
    for place, (usual, asked) in enumerate(zip(_USUAL, columns, strict=True)):
        wanted = usual if asked is None else (asked,)
        found = [names.index(name) for name in wanted if name in names]
        if asked is not None and not found:
            raise InputError(f"{path}: has no column '{asked}'; there are {', '.join(names)}")
        places.append(found[0] if found else place)
    if len(names) <= max(places):
        raise InputError(
            f"{path}: its first line has {len(names)} columns, expected the names of two texts "
            "and a label, separated by tabs (commas in a file named .csv)"
        )
    return places


def _value(place: str, held: Mapping[str, Any], usual: tuple[str, ...], asked: str | None) -> str:
    names = usual if asked is None else (asked,)
    for name in names:
        if isinstance(held.get(name), str | int | float):
            return str(held[name])
    raise InputError(f"{place} has no text or number '{' or '.join(names)}'")


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
