"""How functions of the library are called: what they take, refuse and leave as it was.

What a caller gives are paths, or texts and tables in memory, which are read as files are.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import update_wrapper
from itertools import zip_longest
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from beyond_perplexity.arguments import check_options, described
from beyond_perplexity.corpus.external import HeldRows
from beyond_perplexity.corpus.text_fields import SHAPES
from beyond_perplexity.corpus.text_files import HeldTexts, listed_texts, table_texts
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import safe_cell
from beyond_perplexity.former_names import hint_for
from beyond_perplexity.library.result import Result
from beyond_perplexity.storage.accounts import accounts
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.table_files import HeldTable

_P = ParamSpec("_P")
_O = TypeVar("_O")
_T = TypeVar("_T", bound=Result)

_MISSING = object()
TEXT_COLUMN, GROUP_COLUMN, _TITLE = "text", "group", "title"
_BATCH = 4096
_SUFFIXES = (".csv", ".parquet")  # of tables that are written


# The end of a sentence that begins with *has no effect*, and the options that this is said of.
Unused = tuple[str, tuple[str, ...]]


def library_function(
    options: Callable[_P, _O], unused: Callable[[_O], Iterable[Unused]] = lambda _: ()
) -> Callable[[Callable[[_O], _T]], Callable[_P, _T]]:
    """Make a function of the library out of one that takes an option set.

    Signature and parameters of its documentation are those of the set. Options may be scalars of
    NumPy and Arrow; refused is what an option cannot have, and what `unused` tells to have no
    effect in this way of calling, where it is not left at its default.
    """
    declared: Any = options

    def decorate(function: Callable[[_O], _T]) -> Callable[_P, _T]:
        signature = inspect.signature(options).replace(return_annotation="Result")

        def called(*given: _P.args, **named: _P.kwargs) -> _T:
            bound = _bind(function.__name__, signature, given, named)
            held = {name: _plain(value) for name, value in bound.arguments.items()}
            made = declared(**held)
            for way, names in unused(made):
                _refuse(made, way, names)
            check_options(held, declared)
            with accounts() as read:
                found = function(made)
            found.files = read
            return found

        update_wrapper(called, function)
        first, _, rest = (function.__doc__ or "").partition("\n\n")
        called.__doc__ = f"{first}\n\n{described(declared)}\n\n{rest}"
        vars(called)["__signature__"] = signature
        return called

    return decorate


def in_memory(given: Any) -> bool:
    """Return whether texts are an iterable: neither a file nor a table with columns."""
    is_table = hasattr(given, "columns") or hasattr(given, "schema")
    return not isinstance(given, str | os.PathLike) and not is_table


def of_strings(given: Any) -> bool:
    """Return whether texts in memory are surely strings; rows of a dataset have fields."""
    is_open = hasattr(given, "column_names") or isinstance(given, Iterator)
    first = given[0] if isinstance(given, list | tuple) and given else ""
    return in_memory(given) and not is_open and not isinstance(first, Mapping)


@contextmanager
def torch_kept(threads: int | None) -> Iterator[None]:
    """Let torch compute in so many CPU threads; they and its random state are kept for the caller.

    None: as they are. A process that has not imported torch has none to keep.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):  # a model is drawn before its weights are read
        torch.set_num_threads(before if threads is None else threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _bind(
    function: str, signature: inspect.Signature, given: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Bind the arguments of a call; what does not fit names the function, as Python's own does."""
    try:
        return signature.bind(*given, **named)
    except TypeError as error:
        wrong = [name for name in named if name not in signature.parameters]
        if not wrong:
            raise TypeError(f"{function}() {error}") from None
        meant = hint_for(wrong[0], signature.parameters)
        raise TypeError(
            f"{function}() got an unexpected keyword argument {wrong[0]!r}{meant}"
        ) from None


def _plain(value: Any) -> Any:
    """Return paths and scalars of NumPy and Arrow, also in a mapping, as those of Python."""
    if isinstance(value, os.PathLike):
        return Path(value)  # whose str is the path, as not of any other
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, dict):
        return {
            key: one.tolist() if isinstance(one, np.ndarray) else _plain(one)
            for key, one in value.items()
        }
    return value


def _refuse(options: Any, way: str, names: Sequence[str]) -> None:
    wrong = []
    for one in (one for one in fields(options) if one.name in names):
        held = getattr(options, one.name)
        value = str(held) if isinstance(held, Path) else held
        is_default = isinstance(value, str | int | float) and value == one.default
        if value is not one.default and not is_default:
            wrong.append(one.name.replace("_", " "))
    if wrong:
        have, them = ("has", "it") if len(wrong) == 1 else ("have", "them")
        raise InputError(f"{', '.join(wrong)}: {have} no effect {way}; leave {them} out")


def wrong_type(name: str, given: Any, give: str) -> InputError:
    """Say which argument has a type that cannot be used, and what to give instead."""
    return InputError(f"{name}: is of type {type(given).__name__}; give {give}")


def check_named(function: str, given: Any) -> None:
    """Refuse a call without texts, and one with neither a model nor a server."""
    if given.texts is None:
        raise TypeError(f"{function}() missing a required argument: 'texts'")
    if given.model is None and given.url is None:
        raise InputError("model: is missing; give one, or the url of a server that has one")


def check_path_or_name(name: str, given: Any) -> None:
    """Refuse what is neither a path nor a name."""
    if not isinstance(given, str | os.PathLike):
        raise wrong_type(name, given, "a path or a name")


def check_suffix(name: str, path: Any) -> None:
    """Refuse the name of a table to write that says no format; None is no table."""
    if path is not None and Path(path).suffix not in _SUFFIXES:
        raise InputError(f"{name} {path}: expected a name that ends in {' or '.join(_SUFFIXES)}")


def write_numbers(path: Path, table: pa.Table) -> None:
    """Write CSV, whose texts are no formulas to a spreadsheet, or Parquet, as the suffix says."""
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pq.write_table(table, temporary)
            return
        for place, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                safe = [safe_cell(cell) for cell in table.column(place).to_pylist()]
                table = table.set_column(place, field, pa.array(safe, field.type))
        pyarrow.csv.write_csv(table, str(temporary))


def rows_of(what: str, **columns: Any) -> Iterator[dict[str, Any]]:
    """Give the values of each pair by their columns, of which the first two must be there.

    `what` is what these have, such as ``"texts"``. Columns of fewer values than others, and
    what is no iterable, are an `InputError`.
    """
    for place, (name, given) in enumerate(columns.items()):
        text = isinstance(given, str | bytes) and place < 2
        if text or (not isinstance(given, Iterable) and (given is not None or place < 2)):
            give = f"{what}, in an iterable" if place < 2 else "one for each pair"
            raise wrong_type(name, given, give)
    held = {name: values_of(values) for name, values in columns.items() if values is not None}
    for number, row in enumerate(zip_longest(*held.values(), fillvalue=_MISSING), start=1):
        for name, value in zip(held, row, strict=True):
            if value is _MISSING:
                raise InputError(f"{name}: has no value for pair {number}; give one for each pair")
        yield dict(zip(held, row, strict=True))


def text_source(
    given: Any,
    name: str,
    groups: Any = None,
    *,
    field: str | None = None,
    group_column: str | None = None,
) -> Path | HeldTexts:
    """Return what texts are read from: a path, or records of texts and tables in memory.

    A str is a path, never a text. Of tables the columns `field`, `group_column` and ``title`` are
    read; `groups` are those of an iterable of texts. What an iterable raises itself passes through.
    """
    if isinstance(groups, str | bytes):
        raise InputError("groups: is one text; give the group of each, or group_column")
    if isinstance(given, str | os.PathLike):
        _refuse_groups(groups, name, "is a file")
        return Path(given)
    column, grouped = field or TEXT_COLUMN, group_column or GROUP_COLUMN
    held = [column, column.partition(".")[0], *([] if field else (one.key for one in SHAPES))]
    named = *held, grouped, grouped.partition(".")[0], _TITLE
    table = arrow_table(given, name, named)
    if table is not None:
        _refuse_groups(groups, name, "is a table")
        if not set(held) & set(table.schema.names):
            raise InputError(f"{name}: has no column {column!r}; rename one, or give field")
        return table_texts(table, name)
    if groups is not None and (isinstance(groups, Mapping) or not isinstance(groups, Iterable)):
        raise wrong_type("groups", groups, "the group of each text, in a list")
    beside = None if groups is None else values_of(groups)
    return listed_texts(_iterated(given, name), beside, name)


def answer_source(given: Any, name: str, columns: Sequence[str]) -> Path | HeldRows:
    """Return what answers to prompts are read from: a path, or rows in memory with these columns.

    An iterator is held, as rows are read once for each side.
    """
    if isinstance(given, str | os.PathLike):
        return Path(given)
    table = arrow_table(given, name, columns)
    if table is not None:
        return HeldRows(name, table if isinstance(table, pa.Table) else table.read_all())
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise wrong_type(name, given, "a path, a table, or a dict a row in a list")
    return HeldRows(name, list(values_of(given)))


def table_source(given: Any, name: str) -> str | HeldTable:
    """Return what a table of numbers is read from: the path of a file, or the table in memory."""
    if isinstance(given, str | os.PathLike):
        return str(Path(given))
    table = arrow_table(given, name)
    if table is None:
        raise wrong_type(name, given, "a path, a DataFrame or an Arrow table")
    return HeldTable(table, name)


def table_sources(given: Any, name: str) -> list[str | HeldTable]:
    """Return what one table or several are read from; see `table_source`."""
    several = listed(given, name)
    names = [name] if len(several) == 1 else [f"{name}[{k}]" for k in range(len(several))]
    return [table_source(one, own) for one, own in zip(several, names, strict=True)]


def arrow_table(
    given: Any, name: str, columns: Sequence[str] = ()
) -> pa.Table | pa.RecordBatchReader | None:
    """Return a DataFrame or anything of Arrow, with these columns or all; None: no table."""
    if type(given).__name__ == "DataFrame" and type(given).__module__.startswith("pandas"):
        kept = [column for column in given.columns if column in columns or not columns]
        try:
            return pa.Table.from_pandas(given[kept], preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = " ".join("; ".join(map(str, error.args)).split())  # one by one from Arrow
            raise InputError(f"{name}: cannot be read ({reason}); convert the column") from error
    table = _of_arrow(given)
    if table is None or not columns:
        return table
    kept = [column for column in table.schema.names if column in columns]
    if isinstance(table, pa.Table):
        return table.select(kept)
    schema = pa.schema([table.schema.field(column) for column in kept])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(kept) for batch in table))


def _of_arrow(given: Any) -> pa.Table | pa.RecordBatchReader | None:
    if isinstance(given, pa.Table | pa.RecordBatchReader):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "to_pylist"):  # Polars, DuckDB
        with suppress(pa.ArrowInvalid):  # of one column alone: an iterable
            return pa.RecordBatchReader.from_stream(given)
    return None


def values_of(given: Iterable[Any]) -> Iterable[Any]:
    """Return what holds values, each as a value of Python; other iterables are returned as given.

    Arrays of Arrow give scalars, which are converted; arrays of NumPy give their own, which are
    numbers and texts as those of Python.
    """
    if isinstance(given, pa.ChunkedArray):
        return (value for chunk in given.chunks for value in values_of(chunk))
    if isinstance(given, pa.Array):
        parts = (given.slice(start, _BATCH) for start in range(0, len(given), _BATCH))
        return (value for part in parts for value in part.to_pylist())
    return given


def _refuse_groups(groups: Any, name: str, what: str) -> None:
    if groups is not None:
        advice = "name the column of the groups by group_column instead"
        raise InputError(f"groups: {name} {what}; {advice}")


def _iterated(given: Any, name: str) -> Iterable[Any]:
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, Iterable):
        with suppress(pa.ArrowException):  # of a table without the column, told below
            given = pa.chunked_array(given)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        texts = "texts (a list or an iterator of str)"
        tables = f"a DataFrame or an Arrow table with a column {TEXT_COLUMN!r}"
        raise wrong_type(name, given, f"a path, {texts}, {tables}")
    if (dimensions := getattr(given, "ndim", 1)) != 1:
        raise InputError(f"{name}: has {dimensions} dimensions; give a list of texts")
    return values_of(given)


def listed(given: Any, name: str) -> Sequence[Any]:
    """Return one or several of something as a list; tables and paths are one."""
    if isinstance(given, str | os.PathLike) or arrow_table(given, name) is not None:
        return [given]
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise wrong_type(name, given, "a path, or several in a list")
    return list(given)
