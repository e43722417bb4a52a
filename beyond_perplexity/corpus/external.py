"""A file of texts that a user brings: format by suffix, strictly read, cleaned, streamed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.corpus import formats, readers
from beyond_perplexity.corpus.normalization import Preprocessing, watched
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
    """Write the documents of a file as one shard of samples, without probabilities.

    Returns how many have no token, and how many too few.
    """
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
