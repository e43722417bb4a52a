"""The documents that are to be scored: those of a split of a run, or those that a user gives."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.corpus.external import GroupField, read_grouped
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.perplexities.options import ScoringOptions
from beyond_perplexity.perplexities.summary import ScoredText
from beyond_perplexity.schemas.corpora import DOCUMENTS, RAW
from beyond_perplexity.storage.accounts import NO_TOKEN, Account
from beyond_perplexity.storage.shards import read_batches

READ = 8_192  # documents that are read at once


def texts_of_split(
    path: str, split: str, *, grouped: bool = False, raw: str | None = None
) -> Iterator[ScoredText]:
    """Stream a split's documents, `grouped` by title where the split keeps them whole; `raw`, a
    file of the same extraction, has the texts before cleaning, which are then given."""
    columns = ["doc_id", "split", "title"] if raw else ["doc_id", "split", "title", "text"]
    batches = read_batches(path, DOCUMENTS, columns, READ)
    for batch in _add_raw(batches, path, raw) if raw else batches:
        for row in batch.filter(pc.equal(batch.column("split"), split)).to_pylist():
            title = row["title"] or None
            yield ScoredText(row["doc_id"], row["text"], title if grouped else None, title)


def _add_raw(batches: Iterator[pa.RecordBatch], path: str, raw: str) -> Iterator[pa.Table]:
    """Add the texts before cleaning, which lie in the order of the documents."""
    other = f"{raw}: does not hold the documents of {path} in their order; extract the corpus again"
    strings = read_batches(raw, RAW, ["doc_id", "text"], READ)
    waiting = pa.table({"doc_id": pa.array([], pa.int64()), "text": pa.array([], pa.string())})
    for batch in batches:
        while len(waiting) < len(batch) and (more := next(strings, None)) is not None:
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([more])])
        found, waiting = waiting.slice(0, len(batch)), waiting.slice(len(batch))
        documents = pa.Table.from_batches([batch])
        if not found.column("doc_id").equals(documents.column("doc_id")):
            raise InputError(other)
        yield documents.append_column("text", found.column("text"))
    if len(waiting) or next(strings, None) is not None:
        raise InputError(other)


_WHO = "give it to every document, or to none and leave the group column out"


def group_field(options: ScoringOptions) -> GroupField:
    """Return what names the group of a document, and whether it must be there."""
    return GroupField(options.group_column or "group", options.group_column is not None, _WHO)


def group_of(number: int, group: str | None, options: ScoringOptions) -> str | None:
    """Return the group of a scored document, which may be those in a row with it."""
    if options.group_size == 1:
        return group
    if group is not None:
        raise InputError(f"{options.texts}: names its groups; leave the group size out")
    return str(number // options.group_size)


def filled_documents(
    options: ScoringOptions, cleaning: Preprocessing | None, account: Account | None = None
) -> Iterator[ScoredText]:
    """Stream the documents that have a word, cleaned or as they are; all are accounted for."""
    account = Account(options.texts, "documents") if account is None else account
    given = cleaning, group_field(options), options.field, account
    scored = 0
    for place, (text, group) in enumerate(read_grouped(options.texts, *given)):
        if text.strip():
            yield ScoredText(place, text, group_of(scored, group, options))
            scored += 1
        else:
            account.left_out[NO_TOKEN] += 1
