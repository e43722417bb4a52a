"""The one place that opens Parquet files: what is wrong with one is said in a line."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.former_names import renamed
from beyond_perplexity.schemas import schema_name
from beyond_perplexity.schemas.corpora import DOCUMENTS, TEXT_SAMPLES
from beyond_perplexity.storage import inputs
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import ContentHash, note_read, sealed


@contextmanager
def _explained(path: object) -> Iterator[None]:
    """Turn what pyarrow raises about a file into an `InputError`."""
    try:
        yield
    except UnicodeDecodeError as error:
        reason = "the name of a column is not UTF-8"
        raise inputs.DamagedError(str(path), "not a readable Parquet file", reason) from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise inputs.unreadable(path, error) from error
        raise inputs.DamagedError(
            str(path), "not a readable Parquet file", inputs.said(error)
        ) from error


def refuse_twice(path: object, names: Iterable[str]) -> None:
    """Raise `InputError` where a table has two columns of one name."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path}: has column {twice[0]!r} more than once; leave one of them")


class ParquetInput(pq.ParquetFile):
    """A Parquet file whose batches hold what their types say; errors name column and row."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        inputs.check_input(path, again=True)
        self.path = path
        with _explained(path):
            super().__init__(path)
            refuse_twice(path, self.schema_arrow.names)

    def raw_batches(self, *arguments: Any, **keywords: Any) -> Iterator[pa.RecordBatch]:
        """Stream batches as `iter_batches` does, but do not check their strings."""
        with _explained(self.path):
            yield from super().iter_batches(*arguments, **keywords)

    def iter_batches(self, *arguments: Any, **keywords: Any) -> Iterator[pa.RecordBatch]:
        """Stream batches of rows; the arguments are those of pyarrow."""
        return self._checked(self.raw_batches(*arguments, **keywords))

    def read(self, *arguments: Any, **keywords: Any) -> pa.Table:
        """Read all rows; the arguments are those of pyarrow."""
        with _explained(self.path):
            table = super().read(*arguments, **keywords)
        return pa.Table.from_batches(self._checked(table.to_batches()), table.schema)

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = 1
        for batch in batches:
            if wrong := wrong_row(batch):
                row, name = wrong
                what = f"column '{name}' is no {batch[name].type} (not UTF-8, or damaged)"
                raise InputError(f"{self.path}: row {first + row}: {what}; make the file again")
            yield batch
            first += batch.num_rows


def wrong_row(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Return index and column of the first value that is not what its type says; None: all are."""
    if _is_sound(batch):
        return None
    wrong = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _is_sound(column):
            rows = (row for row in range(len(column)) if not _is_sound(column.slice(row, 1)))
            wrong.append((next(rows, 0), name))
    return min(wrong, default=(0, batch.schema.names[0]))


def _is_sound(values: pa.RecordBatch | pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowException:
        return False
    return True


RECORD_KEY = b"beyond_perplexity"
CONTENT_KEY = b"beyond_perplexity.content"  # the content hash alone, for whoever reads the file


class ShardWriter:
    """Stream record batches of one schema into a Parquet file that appears, with the `record` and
    hashes in its footer, as the context is left without an exception."""

    def __init__(
        self, path: str | os.PathLike[str], schema: pa.Schema, record: dict[str, object]
    ) -> None:
        self._schema, self._record, self._path = schema, record, Path(path)
        self._content = ContentHash(schema)
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> ShardWriter:
        with ExitStack() as stack:
            temporary = stack.enter_context(atomic_path(self._path))
            self._writer = pq.ParquetWriter(temporary, self._schema, compression="zstd")
            stack.push(self._finish)
            self._stack = stack.pop_all()  # where the writer cannot be made, the file goes
        return self

    def write(self, columns: pa.Table | pa.RecordBatch | dict[str, object]) -> None:
        """Append rows."""
        assert self._writer is not None
        names = list(columns if isinstance(columns, dict) else columns.schema.names)
        if set(names) != set(self._schema.names):
            raise ValueError(f"columns {sorted(names)} are not {sorted(self._schema.names)}")
        table = pa.table({name: columns[name] for name in self._schema.names}, self._schema)
        self._content.add(table)
        self._writer.write_table(table)

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._writer is not None
        if kind is None:
            held, whole = self._content, self._content.table()
            content = {"content_hash": whole, "columns": held.columns(), "rows": held.rows}
            footer = json.dumps(sealed(self._record, self._path, content), sort_keys=True)
            keys = {RECORD_KEY: footer.encode(), CONTENT_KEY: whole.encode()}
            self._writer.add_key_value_metadata(keys)
        with suppress(Exception) if kind else nullcontext():  # what failed before says why
            self._writer.close()

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def write_shard(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    columns: pa.Table | dict[str, object],
    record: dict[str, object],
) -> None:
    """Write one whole shard atomically; see `ShardWriter` for the parameters."""
    with ShardWriter(path, schema, record) as writer:
        writer.write(columns)


def _open(path: str | os.PathLike[str]) -> ParquetInput:
    file = ParquetInput(path)
    note_read(path, _content_of(file))
    return file


def _content_of(file: pq.ParquetFile) -> str | None:
    content: bytes | None = (file.metadata.metadata or {}).get(CONTENT_KEY)
    return content.decode(errors="replace") if content else None


def content_of(path: str | os.PathLike[str]) -> str | None:
    """Return the content hash in a footer, and count the file as read; None where it has none."""
    with _open(path) as file:
        return _content_of(file)


def check_schema(path: str | os.PathLike[str], schema: pa.Schema) -> ParquetInput:
    """Open a Parquet file that must have the columns of a schema, of its types."""
    file = _open(path)
    check_columns(path, file.schema_arrow, schema)
    return file


def check_columns(path: object, held: pa.Schema, schema: pa.Schema) -> None:
    """Raise `InputError` where a column of a schema is missing or of another type."""
    for field in schema:
        if field.name not in held.names:
            kind = schema_name(schema)
            was = renamed(field.name, held.names)
            raise InputError(f"{path}: column '{field.name}' is missing; a {kind} file has it{was}")
        if held.field(field.name).type != field.type:
            found = held.field(field.name).type
            raise InputError(f"{path}: column '{field.name}' is {found}, expected {field.type}")


def read_batches(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    schema: pa.Schema,
    columns: Sequence[str],
    batch_size: int = 16_384,
) -> Iterator[pa.RecordBatch]:
    """Stream the named columns of shards, in order, a batch of rows at a time."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    for path in paths:
        with check_schema(path, schema) as file:
            yield from file.iter_batches(batch_size=batch_size, columns=list(columns))


def read_texts(
    paths: Sequence[str | os.PathLike[str]], split: str | None = None, batch_size: int = 8_192
) -> Iterator[pa.Array]:
    """Stream the texts of documents or samples."""
    for batch in read_rows(paths, ["text"], split, batch_size=batch_size):
        yield batch.column("text")


def read_rows(
    paths: Sequence[str | os.PathLike[str]],
    columns: Sequence[str],
    split: str | None = None,
    first: int | None = None,
    batch_size: int = 8_192,
) -> Iterator[pa.RecordBatch]:
    """Stream columns of documents or samples, which their columns distinguish, of a split, which
    samples have not, and of the `first` so many."""
    left = first
    for path in paths:
        with _open(path) as file:
            schema = DOCUMENTS if "split" in file.schema_arrow.names else TEXT_SAMPLES
        if schema is TEXT_SAMPLES and split is not None:
            raise InputError(f"{path}: has no column 'split'; leave the split out for samples")
        for name in set(columns) - set(schema.names):
            raise InputError(f"{path}: has no column '{name}'; there are {', '.join(schema.names)}")
        wanted = [*columns, *({"split"} - set(columns) if split is not None else ())]
        for batch in read_batches(path, schema, wanted, batch_size):
            if split is not None:
                batch = batch.filter(pc.equal(batch.column("split"), split))
            batch = batch.select(list(columns)).slice(0, left)
            if batch.num_rows:
                yield batch
            left = None if left is None else left - batch.num_rows
            if left == 0:
                return


def count_documents(paths: Sequence[str | os.PathLike[str]], split: str | None) -> int:
    """Count the documents that `read_texts` gives, without reading their texts."""
    return sum(batch.num_rows for batch in read_rows(paths, ["doc_id"], split))


def read_record(path: str | os.PathLike[str]) -> dict[str, object]:
    """Read the run record from the footer of a Parquet file."""
    with _open(path) as file:
        metadata = file.metadata.metadata or {}
    if RECORD_KEY not in metadata:
        raise InputError(f"{path}: has no run record; it was not written by this workflow")
    return parse_record(path, metadata[RECORD_KEY])


def parse_record(path: str | os.PathLike[str], footer: bytes) -> dict[str, object]:
    """Read the run record of a footer."""
    return inputs.parse_object(footer, f"{path}: its run record", "make it again")


# ---- many numbered files as few words: ``samples/{00000..00019}.parquet`` ----

# A command with thousands of paths is longer than the system allows (128 KiB for what a shell is
# given). Rules write runs of numbers as ranges, as Bash does; scripts read them back, so that no
# shell, nor its version, has a part in it.
_NUMBERED = re.compile(r"(.*?)(\d+)(\.[^./]*)?$", re.DOTALL)
_RANGE = re.compile(r"(.*)\{(\d+)\.\.(\d+)\}(\.[^./{}]*)?$", re.DOTALL)


def as_ranges(files: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Write the paths of numbered files shortly, in their order."""
    runs: list[list[str]] = []  # beginning, first number, last number, ending
    for file in (os.fspath(path) for path in files):
        found = _NUMBERED.match(file)
        start, number, end = found.groups("") if found else (file, "", "")
        last = runs[-1] if runs else ["", "", "", ""]
        follows = number and last[2] and int(number) == int(last[2]) + 1
        if follows and (start, len(number), end) == (last[0], len(last[2]), last[3]):
            last[2] = number
        else:
            runs.append([start, number, number, end])
    return [
        f"{start}{first if first == last else f'{{{first}..{last}}}'}{end}"
        for start, first, last, end in runs
    ]


def from_ranges(words: Iterable[str]) -> list[str]:
    """Return the paths that `as_ranges` wrote, in their order."""
    files = []
    for word in words:
        found = _RANGE.match(word)
        if found is None or len(found[2]) != len(found[3]) or Path(word).exists():
            files.append(word)
            continue
        start, first, last, end = found.groups("")
        numbers = range(int(first), int(last) + 1)
        files += [f"{start}{number:0{len(first)}d}{end}" for number in numbers]
    return files


class FileRanges(argparse.Action):
    """The paths of an option with several values, given as words of `as_ranges` or one by one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep the paths that the words stand for."""
        setattr(namespace, self.dest, from_ranges(values))
