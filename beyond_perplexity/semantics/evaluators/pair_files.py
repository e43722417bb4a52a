"""Files of pairs of texts with labels or scores: TSV, CSV, JSONL of SNLI and MultiNLI."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
_JSON = (".jsonl", ".json")
LONGEST_LINE = 1 << 26  # characters


class LabelledTexts(NamedTuple):
    """Two texts as they are in a file.

    Attributes
    ----------
    line : int
        Where the pair is in the file, from 1.
    first, second : str
    label : str
        Empty where no column of labels is asked for.
    """

    line: int
    first: str
    second: str
    label: str


class PairColumns(NamedTuple):
    """Names of columns; None: those of `FIRST_NAMES` …, or by their place.

    Attributes
    ----------
    first, second, label : str or None
    """

    first: str | None = None
    second: str | None = None
    label: str | None = None


def read_labelled_texts(
    path: str | Path, columns: PairColumns, labelled: bool, account: Account | None = None
) -> Iterator[LabelledTexts]:
    """Read pairs of texts.

    Parameters
    ----------
    path : path
        ``.csv`` has commas and quotes; ``.jsonl`` and ``.json`` an object a line; everything else
        tabs, a pair a line. Any of them may be packed. The first line of a table has the names of
        its columns; it may be missing where the third column has a number in it and no column is
        asked for by its name.
    columns : PairColumns
    labelled : bool
        Labels are read; where no name says which, the third column of a table holds them.
    account : Account, optional
        Where pairs are counted.

    Raises
    ------
    InputError
        When the file cannot be read or has no such columns, a line has too few, or there is no
        pair; names the line.
    """
    path = Path(path)
    name = path.name.lower()
    name = name.removesuffix(next((end for end in PACKED if name.endswith(end)), ""))
    with _open_text(path) as file:
        if name.endswith(_JSON):
            found = _from_objects(path, file, columns, labelled)
        else:
            rows = _csv_rows(path, file) if name.endswith(".csv") else _tab_rows(path, file)
            found = _from_rows(path, rows, columns, labelled)
        account = account or Account(path, "pairs")
        for pair in found:
            account.read += 1
            yield pair
        account.close(None if file.read(1) else account.read)
    if not account.read:
        raise InputError(f"{path}: holds no pair of texts")


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    refuse_foreign(path)
    try:
        # what ends a line in CSV is a matter of its reader
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason}); convert it") from error


def _lines(path: Path, file: IO[str]) -> Iterator[tuple[int, str]]:
    """Give the lines of a file with their numbers, from 1; none longer than the limit."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{path}: line {number}: has more than {LONGEST_LINE:,} characters; cut it"
            )
        yield number, line


def _tab_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    # A text may begin with a quotation mark: only what is quoted as a whole is taken out of quotes.
    for number, line in _lines(path, file):
        if line.strip():
            yield number, [_unquoted(part) for part in line.rstrip("\r\n").split("\t")]


def _unquoted(part: str) -> str:
    inner = part[1:-1]
    whole = len(part) > 1 and part[0] == part[-1] == '"'
    return inner.replace('""', '"') if whole and '"' not in inner.replace('""', "") else part


def _csv_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line for _, line in _lines(path, file)), strict=True)
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: is no CSV ({error})") from error


def _from_rows(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: PairColumns,
    labelled: bool,
) -> Iterator[LabelledTexts]:
    first_row = next(rows, None)
    if first_row is None:
        return
    number, names = first_row
    bare = not any(columns) and len(names) > 2 and labelled and _is_float(names[2])
    places = [0, 1, 2][: 2 + labelled] if bare else _places(path, names, columns, labelled)
    if bare:
        yield _chosen(path, number, names, places)
    for number, row in rows:
        yield _chosen(path, number, row, places)


def _chosen(path: Path, number: int, row: list[str], places: list[int]) -> LabelledTexts:
    if len(row) <= max(places):
        raise InputError(
            f"{path}: line {number}: has {len(row)} columns, expected {max(places) + 1} at least"
        )
    return LabelledTexts(
        number, row[places[0]], row[places[1]], row[places[2]] if places[2:] else ""
    )


def _places(path: Path, names: list[str], columns: PairColumns, labelled: bool) -> list[int]:
    """Return where the columns are: by the names asked for, the usual ones, or their order."""
    places = []
    known: tuple[tuple[str, ...], ...] = (FIRST_NAMES, SECOND_NAMES, LABEL_NAMES)
    if not labelled:
        known = known[:2]
    for usual, asked, otherwise in zip(known, columns, (0, 1, 2), strict=False):
        found = [names.index(name) for name in usual if name in names]
        if asked is not None:
            if asked not in names:
                raise InputError(f"{path}: has no column '{asked}'; there are {', '.join(names)}")
            places.append(names.index(asked))
        else:
            places.append(found[0] if found else otherwise)
    if len(names) <= max(places):
        wanted = "two texts" + (" and a label" if labelled else "")
        raise InputError(
            f"{path}: its first line has {len(names)} columns, expected the names of {wanted}, "
            "separated by tabs (commas in a file named .csv)"
        )
    return places


def _from_objects(
    path: Path, file: IO[str], columns: PairColumns, labelled: bool
) -> Iterator[LabelledTexts]:
    wanted = tuple(zip((FIRST_NAMES, SECOND_NAMES, LABEL_NAMES), columns, strict=True))
    for number, line in _lines(path, file):
        if not line.strip():
            continue
        held = parse_object(line, f"{path}: line {number}:", "give an object with both texts")
        parts = [_value(path, number, held, *one) for one in wanted[: 2 + labelled]]
        yield LabelledTexts(number, parts[0], parts[1], parts[2] if labelled else "")


def _value(
    path: Path, number: int, held: Mapping[str, Any], usual: tuple[str, ...], asked: str | None
) -> str:
    for name in (asked,) if asked is not None else usual:
        if isinstance(held.get(name), str | int | float):
            return str(held[name])
    names = asked if asked is not None else " or ".join(usual)
    raise InputError(f"{path}: line {number}: has no text or number '{names}'")


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
