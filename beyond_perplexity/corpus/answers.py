"""Answers to prompts: of rows that have a prompt beside one answer or several.

A file of pairs has the answers of people and of a model in two fields of a row; or each of them has
a file of its own, with the prompt in a field. A field holds one string or a list of strings; null
or an empty list is no answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from beyond_perplexity.corpus import text_files
from beyond_perplexity.corpus.external import StrictProblems, check_file
from beyond_perplexity.corpus.formats import AUTOMATIC, guess_format
from beyond_perplexity.corpus.readers import Problems, Record, UnusableError, close_account
from beyond_perplexity.corpus.text_fields import follow_path, missing_field
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.storage.accounts import Account

_ADVICE = "name the fields of the prompt and of the answers by the options prompt, human and model"


@dataclass(frozen=True)
class AnswerRecord(Record):
    """One answer as a file gives it."""

    prompt: str = ""


class HeldRows(NamedTuple):
    """Rows in memory that stand where a path may stand: a table, or objects with fields."""

    name: str
    rows: pa.Table | Sequence[object]


def _columns(
    place: object, schema: pa.Schema, fields: Sequence[str], group: str | None
) -> list[str]:
    fields = [name if name in schema.names else name.partition(".")[0] for name in fields]
    for name in fields:
        if name not in schema.names:
            raise InputError(
                f"{place}: {missing_field(name, dict.fromkeys(schema.names), _ADVICE)}"
            )
    return [name for name in dict.fromkeys([*fields, group or ""]) if name in schema.names]


def _rows(
    given: Path | HeldRows, kind: str, fields: Sequence[str], group: str | None, problems: Problems
) -> text_files.PlacedRows:
    if isinstance(given, HeldRows):
        if isinstance(given.rows, pa.Table):
            columns = partial(_columns, given.name, fields=fields, group=group)
            return text_files.table_rows(given.name, given.rows, columns, problems)
        return ((f"{given.name}: row {at}", row) for at, row in enumerate(given.rows, start=1))
    check_file(given)
    name = guess_format(given) if kind == AUTOMATIC else kind
    if name == "jsonl":
        return text_files.json_rows(given, problems)
    tables = {"parquet": text_files.parquet_rows, "csv": text_files.csv_rows}
    if name not in tables:
        wrong = f"has no rows with a field '{fields[0]}'"
        raise InputError(f"{given}: {wrong}; give JSONL, Parquet or CSV")
    return tables[name](given, partial(_columns, given, fields=fields, group=group), problems)


def _at(row: dict[str, object], name: str) -> object:
    if name not in row and "." in name:
        return follow_path(row, name)
    if name not in row:
        raise UnusableError(missing_field(name, row, _ADVICE))
    return row[name]


def _answers(
    place: str, row: object, prompt: str, field: str, group: str | None
) -> Iterator[AnswerRecord]:
    if not isinstance(row, dict):
        raise UnusableError(f"no object with the fields '{prompt}' and '{field}'")
    held, asked = _at(row, field), _at(row, prompt)
    if asked is None:
        raise UnusableError(f"field '{prompt}' is null")
    # A chat or a number is a prompt as well as a string.
    key = asked if isinstance(asked, str) else json.dumps(asked, sort_keys=True, default=str)
    text_files.take_record(place, key, None)  # which refuses what is no text
    above = None if group is None else text_files.group_name(row, group)
    for answer in held if isinstance(held, list) else [held]:
        if isinstance(answer, str):
            made = text_files.take_record(place, answer, None)
            yield AnswerRecord(place, "", made.text, made.raw, above, key)
        elif answer is not None:
            raise UnusableError(f"field '{field}' is no string and no list of strings")


def answer_texts(
    given: Path | HeldRows, prompt: str, field: str, kind: str = AUTOMATIC, *, told: bool = False
) -> text_files.HeldTexts:
    """Take the answers in a field of all rows, each with its prompt, as texts that are read.

    `told`: say how many rows repeat a prompt.
    """
    name = f"{given.name if isinstance(given, HeldRows) else given}: {field}"

    def read(_: Problems, group: str | None, __: str | None) -> Iterator[Record]:
        account, own, asked = Account(name, "rows"), StrictProblems(skip=False), Counter[int]()
        for place, row in _rows(given, kind, (prompt, field), group, own):
            account.read += 1
            with own.unusable("unusable row", place):
                found = list(_answers(place, row, prompt, field, group))
            account.left_out["without an answer"] += not found
            asked.update({hash(one.prompt) for one in found})
            yield from found
        own.held = account.read if own.held is None else own.held
        close_account(account, own)
        if told and (more := asked.total() - len(asked)):
            remark(f"note: {name}: {more:,} rows repeat a prompt; answers to one are one stratum")

    return text_files.HeldTexts(name, read)
