"""Scores of documents from files, ours or another program's: read, checked, put in one order.

A file (.parquet, or .csv or .csv.gz with a header row) has a row for every document or every token;
`PairOptions` says its columns, and ``ended`` whether log-likelihoods have the end of each document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.former_names import renamed
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.perplexities.summary import ScoredText, TextKind
from beyond_perplexity.schemas.perplexity import TOKEN_SCORES
from beyond_perplexity.signature import signature_in
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.storage.shards import ParquetInput, check_schema
from beyond_perplexity.storage.table_files import TableFile

_NUMBERS = {"log_likelihood": pa.float64(), "bytes": pa.int64()}
_SPELLED = "log_likelihood_open_vocabulary"
_COUNTS = ("words", "characters", "unknown")
_GROUPS = ("group", "title")  # what documents belong together by, from the surest on
_KEYS = ("doc_id", *_GROUPS, "text_hash")
_KIND, _ENDED = "scored_text", "ended"
# What tells that two rows are of one text, from the surest on.
SAME_TEXT = ("text_hash", "bytes", "characters", "words")
_INTEGER = re.compile(r"-?\d{1,19}")


@dataclass(frozen=True, eq=False)
class FileScores:
    """The scores of one file, of one text, D documents."""

    file: TableFile
    scored_text: str  # "cleaned", "raw", or empty where the file does not say
    rows: np.ndarray  # int64, (D,): place of each document in the file, from 0
    # float64, (D,): nats, with the spelling of unknown words where `open_vocabulary`; −inf:
    # impossible
    log_likelihood: np.ndarray
    # int64, (D,) each: ``bytes``, and of others those that the file has; names are hashed
    columns: Mapping[str, np.ndarray] = field(repr=False)
    open_vocabulary: bool
    # Whether log-likelihoods have the end of each document; None where the file does not say
    ended: bool | None = None
    signature: str | None = None  # of a file that has one

    @property
    def path(self) -> str:
        """The file."""
        return str(self.file.path)

    @property
    def infinite(self) -> int:
        """How many documents the model finds impossible."""
        return int(np.isneginf(self.log_likelihood).sum())

    @property
    def free(self) -> bool:
        """Whether unknown words of a closed vocabulary are scored without their spelling."""
        return not self.open_vocabulary and bool(self.columns.get("unknown", np.zeros(1)).any())

    def place(self, index: int) -> str:
        """Name the row of a document in its file."""
        return self.file.place(int(self.rows[index]))

    def take(self, chosen: np.ndarray) -> FileScores:
        """Take some documents, in the given order."""
        return replace(
            self,
            rows=self.rows[chosen],
            log_likelihood=self.log_likelihood[chosen],
            columns={name: column[chosen] for name, column in self.columns.items()},
        )


def _column(file: TableFile, name: str, kind: pa.DataType) -> pa.Array:
    """Read a column as it is, with what is empty; of CSV as the given type."""
    try:
        parts = [batch.column(0) for batch in file.columns({name: kind})]
    except (OSError, pa.ArrowException) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(f"{file.path}: column '{name}' cannot be read ({text})") from error
    return pa.chunked_array(parts).combine_chunks() if parts else pa.array([], kind)


def _read_keys(file: TableFile, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a column of names as int64, texts hashed, and where there is none."""
    column = _column(file, name, pa.string())
    missing = np.asarray(column.is_null())
    try:
        if pa.types.is_integer(column.type):
            return np.asarray(pc.fill_null(column.cast(pa.int64()), 0)), missing
        coded = column.cast(pa.string()).dictionary_encode()
    except pa.ArrowException as error:
        raise InputError(f"{file.path}: column '{name}' is no text or whole number") from error
    names = coded.dictionary.to_pylist()
    whole = [_INTEGER.fullmatch(n) and -(2**63) <= int(n) < 2**63 for n in names]
    keys = [int(n) if w else hash_bytes(n.encode()) for n, w in zip(names, whole, strict=True)]
    places = np.asarray(pc.fill_null(coded.indices, len(keys)))
    return np.array([*keys, 0], np.int64)[places], missing


def _read_numbers(file: TableFile, names: Mapping[str, pa.DataType]) -> dict[str, np.ndarray]:
    """Read columns of numbers, of which none may be missing."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for group in range(file.n_groups):
        for batch in file.batches(names, group):
            check = partial(file.check, batch)
            for name, column in batch.columns.items():
                if column.dtype.kind == "f":
                    bad = np.isnan(column) | (column > 0)
                    check(name, bad, "a log-likelihood in nats, at most 0")
                elif name == "bytes":
                    check(name, column < 1, "at least one byte in every document")
                else:
                    check(name, column < 0, "a count")
                parts[name].append(column)
    return {name: np.concatenate(held or [np.empty(0)]) for name, held in parts.items()}


def _read_spelled(file: TableFile) -> bool:
    """Tell whether a file has log-likelihoods with spellings: in all rows or in none."""
    if was := renamed(_SPELLED, file.names):
        raise InputError(f"{file.path}: column '{_SPELLED}' is missing{was}")
    if _SPELLED not in file.names:
        return False
    missing = np.asarray(_column(file, _SPELLED, pa.float64()).is_null())
    if missing.any() and not missing.all():
        raise InputError(
            f"{file.place(int(np.argmax(missing)))}: {_SPELLED} is empty or NaN; give it in all "
            "rows or none"
        )
    return not missing.all()


def _read_texts(file: TableFile, name: str) -> pa.Array:
    return pc.fill_null(_column(file, name, pa.string()).cast(pa.string()), "")


def _read_ended(file: TableFile) -> bool | None:
    """Tell whether log-likelihoods have the end of each document: those of all rows, or of none."""
    if _ENDED not in file.names:
        return None
    values = pc.utf8_lower(_read_texts(file, _ENDED)).to_pylist()
    wrong = [place for place, one in enumerate(values) if one not in ("true", "false")]
    wrong += [place for place, one in enumerate(values) if one != values[0]]
    if wrong:
        raise InputError(
            f"{file.place(wrong[0])}: {_ENDED} is {values[wrong[0]]!r}; give true in all rows or "
            "false in all"
        )
    return values[0] == "true"


def _check_ids(file: TableFile, ids: np.ndarray, empty: np.ndarray, kinds: np.ndarray) -> None:
    if empty.any():
        raise InputError(
            f"{file.place(int(np.argmax(empty)))}: doc_id is empty; give every row one"
        )
    order = np.lexsort((ids, kinds))
    twice = (np.diff(ids[order]) == 0) & (np.diff(kinds[order]) == 0)
    if twice.any():
        row = int(order[1:][twice].min())
        raise InputError(
            f"{file.place(row)}: an earlier row has its doc_id too; give each document one row"
        )


def read_scores(path: str | TableFile) -> list[FileScores]:
    """Read the scores of a file or table: one object for each text that it has scores of."""
    file = path if isinstance(path, TableFile) else TableFile(path)
    file.require(list(_NUMBERS), "scores of documents")
    open_vocabulary = _read_spelled(file)
    wanted = {**_NUMBERS, **{name: pa.int64() for name in _COUNTS if name in file.names}}
    if open_vocabulary:
        wanted[_SPELLED] = pa.float64()
    columns = _read_numbers(file, wanted)
    count = len(columns["bytes"])
    if not count:
        raise InputError(f"{path}: has no rows; score a text with documents in it")
    file.count_read(count)
    likelihood = columns.pop("log_likelihood")
    likelihood = columns.pop(_SPELLED, likelihood)
    held = {name: _read_keys(file, name) for name in _KEYS if name in file.names}
    kinds, names = np.zeros(count, np.int64), [""]  # which text each row is of
    if _KIND in file.names:
        encoded = _read_texts(file, _KIND).dictionary_encode()
        kinds, names = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
    ids, empty = held.get("doc_id", (np.arange(count), np.zeros(count, bool)))
    _check_ids(file, ids, empty, kinds)
    for name, (keys, missing) in held.items():
        if name in _GROUPS:  # a document without one has its own, the same in every file
            own = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            own += np.uint64(0x632BE59BD9B4E019)
            keys = np.where(missing, own.astype(np.int64), keys)
        if not missing.all():
            columns[name] = keys
    ended = _read_ended(file)
    scores = FileScores(file, "", np.arange(count), likelihood, columns, open_vocabulary, ended)
    parts = [scores.take(np.flatnonzero(kinds == code)) for code in range(len(names))]
    return [
        replace(part, scored_text=name, signature=signature_in(path, file.metadata, name))
        for part, name in zip(parts, names, strict=True)
    ]


def is_token_file(path: object) -> bool:
    """Tell by its columns whether a Parquet file has a row a token."""
    if not isinstance(path, str) or not path.endswith(".parquet"):
        return False
    with ParquetInput(path) as file:
        return {"position", "log_prob", "start"} <= set(file.schema_arrow.names)


def same_documents(files: Sequence[FileScores]) -> list[FileScores]:
    """Put scores of the same documents in the order of the first file, by ``doc_id`` where all have
    one, else by rows; other documents or texts are an `InputError`."""
    by_id, ordered = all("doc_id" in one.columns for one in files), list(files)
    if by_id:
        orders = [np.argsort(one.columns["doc_id"], kind="stable") for one in files]
        ordered = [one.take(order) for one, order in zip(files, orders, strict=True)]
    for other in ordered[1:]:
        _check_same(ordered[0], other, by_id)
    if by_id:
        back = np.argsort(orders[0])
        ordered = [one.take(back) for one in ordered]
    return ordered


def document_groups(files: Sequence[FileScores], size: int = 1) -> np.ndarray:
    """Return the group, or page, of every document of files in one order, int64, (D,), of whichever
    file names them, else `size` in a row; files that differ are an `InputError`, and so is a size
    beside names."""
    for name in _GROUPS:
        grouped = [one for one in files if name in one.columns]
        for other in grouped[1:]:
            differ = grouped[0].columns[name] != other.columns[name]
            if differ.any():
                _refuse(other, grouped[0], differ, f"another {name}")
        if grouped and size > 1:
            raise InputError(
                f"{grouped[0].path}: column '{name}' has the groups of its documents; leave the "
                "group size out"
            )
        if grouped:
            return grouped[0].columns[name]
    return np.arange(len(files[0].rows)) // size


def _refuse(other: FileScores, first: FileScores, differ: np.ndarray, what: str) -> NoReturn:
    index = int(np.argmax(differ))
    raise InputError(
        f"{other.place(index)}: has {what} than {first.place(index)}; give scores of the same "
        "documents and texts"
    )


def _check_same(first: FileScores, other: FileScores, by_id: bool) -> None:
    if by_id:
        for one, two in ((other, first), (first, other)):
            missing = ~np.isin(one.columns["doc_id"], two.columns["doc_id"])
            if missing.any():
                raise InputError(
                    f"{one.place(int(np.argmax(missing)))}: is of a document (doc_id) that "
                    f"{two.path} does not have; give scores of the same documents"
                )
    elif len(first.rows) != len(other.rows):
        raise InputError(
            f"{other.path}: has {len(other.rows)} rows, {first.path} has {len(first.rows)}; give "
            "scores of the same documents"
        )
    for name in SAME_TEXT:
        if name in first.columns and name in other.columns:
            differ = first.columns[name] != other.columns[name]
            if differ.any():
                _refuse(other, first, differ, f"another {name}")


READ_TOKENS = 1 << 16  # tokens that are read at once
ROUNDED_UP = 1e-3  # nats above 0 that the decimals of an ARPA file may make of a certain token


class TokenDocument(NamedTuple):
    """A document, and what a model says of its tokens."""

    item: ScoredText
    kind: TextKind
    scores: TokenScores


def begin_of(scores: TokenScores) -> int:
    """Return the byte from which on a text is scored; a server may not score the first token."""
    return int(scores.starts[0]) if len(scores.starts) else 0


def tokens_table(
    items: Sequence[ScoredText], kind: TextKind, scores: Sequence[TokenScores]
) -> pa.Table:
    """Turn scores of documents into a table of schema ``token_scores``."""
    counts = np.array([len(one.log_probs) for one in scores], np.int64)
    owner = np.repeat(np.arange(len(items)), counts)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    content = [len(item.text.encode()) for item in items]
    ends = [np.append(one.starts, size)[1:] for one, size in zip(scores, content, strict=True)]
    last = position == counts[owner] - 1
    first = pa.array(owner, mask=position > 0)
    of_each = {
        name: pa.array([getattr(item, name) for item in items], TOKEN_SCORES.field(name).type)
        for name in ("doc_id", "group", "title", "text")
    }
    columns = {
        **{name: held.take(first if name == "text" else owner) for name, held in of_each.items()},
        "scored_text": pa.repeat(kind, len(owner)),
        "position": position.astype(np.int32),
        "start": np.concatenate([one.starts for one in scores]),
        "end": np.concatenate(ends),
        "token": pa.array(chain.from_iterable(one.tokens for one in scores), pa.string()),
        "log_prob": np.concatenate([one.log_probs for one in scores]),
        "ending": last & np.array([one.ended for one in scores])[owner],
    }
    return pa.table({name: columns[name] for name in TOKEN_SCORES.names}, TOKEN_SCORES)


def read_tokens(path: str, account: Account | None = None) -> Iterator[TokenDocument]:
    """Stream the documents of a file of schema ``token_scores``, each once all of it was read."""
    held, row = TOKEN_SCORES.empty_table(), 1
    with check_schema(path, TOKEN_SCORES) as file:
        for batch in file.iter_batches(batch_size=READ_TOKENS, columns=TOKEN_SCORES.names):
            if account:
                account.read += batch.num_rows
            part = pa.Table.from_batches([batch], TOKEN_SCORES)
            held = pa.concat_tables([held, part]).combine_chunks()
            begins = np.flatnonzero(held.column("position").to_numpy()[1:] == 0) + 1
            cuts = [0, *begins.tolist()]
            for start, end in pairwise(cuts):
                yield _document(path, held.slice(start, end - start), row + start)
            held, row = held.slice(cuts[-1]), row + cuts[-1]
        if len(held):
            yield _document(path, held, row)
        if account:
            account.close(file.metadata.num_rows)


def _document(path: str, table: pa.Table, row: int) -> TokenDocument:
    first = {name: table.column(name)[0].as_py() for name in TOKEN_SCORES.names}
    starts, log_probs, position = (
        table.column(name).to_numpy() for name in ("start", "log_prob", "position")
    )
    size = len((first["text"] or "").encode())
    wrong = {
        "position": position != np.arange(len(position)),
        "text": np.arange(len(position)) == (0 if first["text"] is None else -1),
        "start": (np.diff(starts, prepend=0) < 0) | (starts > size),
        "log_prob": ~(log_probs <= ROUNDED_UP),
    }
    for name, bad in wrong.items():
        if bad.any():
            place = int(np.argmax(bad))
            found = table.column(name)[place].as_py()
            raise InputError(
                f"{path}: row {row + place}: {name} is {found!r:.80}, which follows from no score "
                "of tokens; write the file again (perplexity --per-token)"
            )
    ended = bool(table.column("ending")[-1].as_py())
    scores = TokenScores(log_probs, starts, table.column("token").to_pylist(), ended)
    item = ScoredText(*(first[name] for name in ("doc_id", "text", "group", "title")))
    return TokenDocument(item, first["scored_text"], scores)
