"""Pairs of texts that people gave a score for how alike they are."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from beyond_perplexity.corpus.external import read_filled_lines
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.accounts import NAMES, Account


class ScoredPair(NamedTuple):
    """Two texts, and the score that people gave; NaN where none was asked for."""

    first: str
    second: str
    gold: float


def read_scored_pairs(path: str | Path, gold: str | None = None) -> Iterator[ScoredPair]:
    """Stream the pairs of a table with a line of names.

    Parameters
    ----------
    path : path
        Separated by tabs where the line of names has one, and then without quotes; else by commas,
        with texts in double quotes where they have commas. packed or not. The first
        two columns are the texts; a quoted text keeps to its line.
    gold : str, optional
        Name of the column of scores; None: there is none.

    Raises
    ------
    InputError
        When the file or a line cannot be read, a column is missing, a text is empty, or a score is
        no finite number; names the line.
    """
    path = Path(path)
    account = Account(path, "lines")
    names: list[str] = []
    tabs, column, pairs = False, 0, 0
    for number, line in read_filled_lines(path, account):
        place = f"{path}: line {number}"
        if not names:
            tabs = "\t" in line
            names = [name.strip() for name in _fields(line, tabs, place)]
            column = _gold_column(names, gold, place)
            account.left_out[NAMES] = 1
            continue
        fields = _fields(line, tabs, place)
        if len(fields) != len(names):
            raise InputError(
                f"{place}: has {len(fields)} fields, expected {len(names)} "
                f"({', '.join(names)[:80]}), separated by {'tabs' if tabs else 'commas'}"
            )
        pairs += 1
        yield _pair(fields, names, column if gold is not None else None, place)
    if not pairs:
        raise InputError(f"{path}: has no pairs below the line of names; give some")


def _fields(line: str, tabs: bool, place: str) -> list[str]:
    text = line.rstrip("\r\n")
    if tabs:
        return text.split("\t")
    try:
        (fields,) = csv.reader([text], strict=True)
    except csv.Error as error:
        raise InputError(f"{place}: is no line of CSV ({error}); repair or remove it") from error
    return fields


def _gold_column(names: list[str], gold: str | None, place: str) -> int:
    if len(names) < 2:
        raise InputError(
            f"{place}: has the one column {names[0][:80]!r}; the first line names the columns, "
            "separated by tabs or commas, and the first two are texts"
        )
    if gold is None:
        return 0
    if gold not in names[2:]:
        rest = ", ".join(names[2:])[:80]
        raise InputError(
            f"{place}: has no column {gold!r} after the two texts; there is {rest or 'none'} (the "
            "first line names the columns; add one where it does not)"
        )
    return names.index(gold, 2)


def _pair(fields: list[str], names: list[str], column: int | None, place: str) -> ScoredPair:
    for name, text in zip(names[:2], fields[:2], strict=True):
        if not text.strip():
            raise InputError(f"{place}: {name} is empty; give both texts")
    if column is None:
        return ScoredPair(fields[0], fields[1], math.nan)
    try:
        gold = float(fields[column])
    except ValueError:
        gold = math.nan
    if not math.isfinite(gold):
        raise InputError(
            f"{place}: {names[column]} is {fields[column]!r:.80}, expected a finite number"
        )
    return ScoredPair(fields[0], fields[1], gold)
