"""A file of texts that a user brings: format by suffix, strictly read, cleaned, streamed.

Answers are beside their prompt, those of people and of a model in two fields of a row or in a file
each. A field holds a string or a list of strings; null or an empty list is no answer.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.corpus import formats, readers, text_files
from beyond_perplexity.corpus.formats import AUTOMATIC, guess_format
from beyond_perplexity.corpus.normalization import Preprocessing, watched
from beyond_perplexity.corpus.readers import Problems, Record, UnusableError, close_account
from beyond_perplexity.corpus.text_fields import follow_path, missing_field
from beyond_perplexity.corpus.text_files import HeldTexts, dataset_files
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.accounts import EMPTY_LINE, NO_TOKEN, Account
from beyond_perplexity.storage.inputs import JSONTextError, check_input, parse_json
from beyond_perplexity.storage.shards import ShardWriter

BATCH = 4096


class GroupField(NamedTuple):
    """Where the group of a document stands."""

    name: str  # key of JSON objects, or column
    needed: bool  # whether a file without it is an error; else its documents have no groups
    # Which documents must have it, for the error
    who: str = "every document of the reference must have it, and all samples or none"


class StrictProblems(readers.Problems):
    """Let the first unreadable line end the command."""

    def report(self, reason: str, place: str, detail: str) -> None:
        """Raise an `InputError` that names the file and line."""
        raise InputError(f"{place}: {reason} ({detail}); repair or remove it")


def check_file(path: Path | HeldTexts) -> None:
    """Check that a file can be read and holds something."""
    if isinstance(path, HeldTexts):
        return
    if os.path.isdir(path):
        dataset_files(path)
        return
    check_input(path)
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: is empty; give a file with one document a line")


def _cleaned(
    batches: Iterable[list[readers.Record]], steps: Preprocessing | None, name: object
) -> Iterator[tuple[list[readers.Record], list[str]]]:
    """Give records with their texts, cleaned or as they are."""
    with watched(steps, name) as clean:
        for records in batches:
            yield records, clean([one.text if steps else one.as_it_is for one in records])


def read_cleaned(
    path: Path | HeldTexts,
    preprocessing: Preprocessing | None,
    kind: str = formats.AUTOMATIC,
    field: str | None = None,
    account: Account | None = None,
) -> Iterator[list[str]]:
    """Stream the documents of a file as tokens joined by one blank, or as they are."""
    batches = read_records(path, kind, field=field, account=account)
    yield from (texts for _, texts in _cleaned(batches, preprocessing, path))


def read_grouped(
    path: Path | HeldTexts,
    preprocessing: Preprocessing | None,
    groups: GroupField,
    field: str | None = None,
    account: Account | None = None,
) -> Iterator[tuple[str, str | None]]:
    """Stream the documents of a file as `read_cleaned` does, each with its group."""
    check_grouped(path, groups)
    batches = read_records(path, groups=groups, field=field, account=account)
    for records, texts in _cleaned(batches, preprocessing, path):
        yield from zip(texts, (record.group for record in records), strict=True)


def check_grouped(path: Path | HeldTexts, groups: GroupField) -> None:
    """Raise `InputError` for plain text where groups are needed."""
    if groups.needed and not formats.has_named_fields(path):
        raise InputError(f"{path}: is plain text and has no '{groups.name}'; give JSONL or Parquet")


def read_records(
    path: Path | HeldTexts,
    kind: str = formats.AUTOMATIC,
    *,
    groups: GroupField | None = None,
    field: str | None = None,
    account: Account | None = None,
) -> Iterator[list[readers.Record]]:
    """Stream the documents of a file as it gives them, in batches; see `read_cleaned`."""
    check_file(path)
    formats.check_field(path, field, kind)
    has_fields = formats.has_named_fields(path, kind)
    named = {"field": field} if has_fields else {}
    if groups and has_fields:
        named["group_key"] = groups.name
    account, problems = account or Account(path, "documents"), StrictProblems(skip=False)
    if isinstance(path, HeldTexts):
        records = path.read(problems, **named)
    else:
        records = formats.find_format(path, kind).load()(path, problems, **named)
    bar = tqdm(records, desc=path.name, unit=" documents", mininterval=1)
    # Once: each iterator of a tqdm closes what it reads when it is let go.
    stream = iter(_checked(bar, groups) if groups else bar)
    while batch := list(islice(stream, BATCH)):
        if not account.read and not has_fields:
            _warn_of_objects(path, batch[0].text)
        account.read += len(batch)
        yield batch
    if problems.held is None:  # its reader does not say
        problems.held = account.read
    readers.close_account(account, problems)


def read_filled_lines(path: Path, account: Account) -> Iterator[readers.NumberedLine]:
    """Give the lines of a file that are not blank, strictly read; see `readers.read_lines`."""
    check_file(path)
    problems = StrictProblems(skip=False)
    for number, line in readers.read_lines(path, problems):
        if line.strip():
            account.read += 1
            yield number, line
        else:
            problems.skips.add(EMPTY_LINE, str(number))
    readers.close_account(account, problems)


def _warn_of_objects(path: Path | HeldTexts, first: str) -> None:
    """Say that what is read as plain text is JSON, if its first document is an object."""
    try:
        found = parse_json(first) if first.startswith("{") else None
    except JSONTextError:
        return
    if isinstance(found, dict) and found:
        advice = "name it *.jsonl if its texts are in a field"
        wrong = "is read as plain text, but its first line is a JSON object"
        remark(f"warning: {path}: {wrong}; {advice}")


def _checked(records: Iterable[readers.Record], groups: GroupField) -> Iterator[readers.Record]:
    """Pass records on that all have a group or have none."""
    has = True if groups.needed else None
    for record in records:
        found = record.group is not None
        has = found if has is None else has
        if has != found:
            state = "is missing" if has else "is there, which earlier documents lack"
            wrong = f"{record.place}: field '{groups.name}', which names the group, {state}"
            raise InputError(f"{wrong}; {groups.who}")
        yield record


def import_texts(
    path: Path | HeldTexts,
    kind: str,
    preprocessing: Preprocessing,
    output: Path,
    record: dict[str, object],
    *,
    minimum_tokens: int = 0,
    groups: GroupField | None = None,
    field: str | None = None,
    seen: Callable[[list[readers.Record]], None] | None = None,
    account: Account | None = None,
) -> tuple[int, int]:
    """Write the documents of a file as one shard of samples, without probabilities; return how many
    have no token, and how many too few."""
    kept = empty = short = 0
    account = account or Account(path, "documents")
    batches = read_records(path, kind, groups=groups, field=field, account=account)
    with ShardWriter(output, TEXT_SAMPLES, record) as writer:
        for records, cleaned in _cleaned(batches, preprocessing, path):
            lengths = [text.count(" ") + 1 if text else 0 for text in cleaned]
            chosen = [n > 0 and n >= minimum_tokens for n in lengths]
            empty += lengths.count(0)
            short += len(chosen) - sum(chosen) - lengths.count(0)
            n = sum(chosen)
            columns = {
                "doc_id": pa.array(range(kept, kept + n), pa.int64()),
                "text": pa.array(compress(cleaned, chosen), pa.string()),
                "n_tokens": pa.array(compress(lengths, chosen), pa.int32()),
                "log_prob": pa.nulls(n, pa.float64()),
                "log_prob_decoding": pa.nulls(n, pa.float64()),
                "finished": pa.array([True] * n, pa.bool_()),
            }
            writer.write(columns)
            kept += n
            if seen:
                seen(list(compress(records, chosen)))
        if kept == 0:
            least = f"{minimum_tokens} tokens" if short else "a token"
            raise InputError(f"{path}: has no document with {least} in it")
        account.left_out[NO_TOKEN] = empty
        account.left_out[f"fewer than {minimum_tokens:,} tokens"] = short
    return empty, short


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
    """Take the answers in a field of all rows, each with its prompt, as texts that are read;
    `told`: say how many rows repeat a prompt."""
    name = f"{given.name if isinstance(given, HeldRows) else given}: {field}"

    def read(_: Problems, group: str | None, __: str | None) -> Iterator[Record]:
        account, own, asked = Account(name, "rows"), StrictProblems(skip=False), Counter[int]()
        lacking = 0
        for place, row in _rows(given, kind, (prompt, field), group, own):
            account.read += 1
            found: list[AnswerRecord] = []
            if isinstance(row, dict) and not {field, field.partition(".")[0]} & row.keys():
                lacking += 1  # the prompt has one side only
                wrong = f"{place}: {missing_field(field, row, _ADVICE)}"
            else:
                with own.unusable("unusable row", place):
                    found = list(_answers(place, row, prompt, field, group))
            account.left_out["without an answer"] += not found
            asked.update({hash(one.prompt) for one in found})
            yield from found
        if lacking and lacking == account.read:
            raise InputError(wrong)
        own.held = account.read if own.held is None else own.held
        close_account(account, own)
        if told and (more := asked.total() - len(asked)):
            remark(f"note: {name}: {more:,} rows repeat a prompt; answers to one are one stratum")

    return text_files.HeldTexts(name, read)
