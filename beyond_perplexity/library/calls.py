"""How functions of the library are called: what they take, refuse and leave as it was."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.library.given import values_of
from beyond_perplexity.library.result import Result
from beyond_perplexity.option_sets import check_options, described
from beyond_perplexity.storage.accounts import accounts

_P = ParamSpec("_P")
_O = TypeVar("_O")
_T = TypeVar("_T", bound=Result)

_MISSING = object()


class Unused(NamedTuple):
    """Options that have no effect in one way of calling a function.

    `way` is the end of a sentence that begins with *has no effect*.
    """

    way: str
    names: tuple[str, ...]


def library_function(
    options: Callable[_P, _O], unused: Callable[[_O], Iterable[Unused]] = lambda _: ()
) -> Callable[[Callable[[_O], _T]], Callable[_P, _T]]:
    """Make a function of the library out of one that takes an option set.

    Signature and parameters of its documentation are those of the option set. Options may be
    scalars of NumPy and Arrow; those that would be ignored and are not left at their defaults are
    refused, as are values that an option cannot have.

    Parameters
    ----------
    options : type
        A dataclass of `option_sets.option` fields.
    unused : callable
        From the options to what has no effect in this way of calling the function.
    """
    declared: Any = options

    def decorate(function: Callable[[_O], _T]) -> Callable[_P, _T]:
        signature = inspect.signature(options).replace(return_annotation="Result")

        def called(*given: _P.args, **named: _P.kwargs) -> _T:
            bound = _bind(function.__name__, signature, given, named)
            held = {name: _plain(value) for name, value in bound.arguments.items()}
            made = declared(**held)
            for one in unused(made):
                _refuse(one, made)
            check_options(held, declared)
            with accounts() as read:
                found = function(made)
            found.files = read
            return found

        for name in ("__module__", "__name__", "__qualname__"):
            setattr(called, name, getattr(function, name))
        first, _, rest = (function.__doc__ or "").partition("\n\n")
        called.__doc__ = f"{first}\n\n{described(declared)}\n\n{rest}"
        vars(called)["__signature__"] = signature
        return called

    return decorate


def in_memory(given: Any) -> bool:
    """Return whether texts are an iterable: neither a file nor a table with columns."""
    is_table = hasattr(given, "columns") or hasattr(given, "schema")
    return not isinstance(given, str | os.PathLike) and not is_table


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
        near = get_close_matches(wrong[0], signature.parameters, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
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


def _refuse(unused: Unused, options: Any) -> None:
    defaults = {one.name: one.default for one in fields(options)}
    wrong = []
    for name in unused.names:
        value, default = getattr(options, name), defaults[name]
        value = str(value) if isinstance(value, Path) else value
        is_default = isinstance(value, str | int | float) and value == default
        if value is not default and not is_default:
            wrong.append(name.replace("_", " "))
    if wrong:
        have, them = ("has", "it") if len(wrong) == 1 else ("have", "them")
        raise InputError(f"{', '.join(wrong)}: {have} no effect {unused.way}; leave {them} out")


def check_path_or_name(name: str, given: Any) -> None:
    """Refuse what is neither a path nor a name."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{name}: is of type {type(given).__name__}; give a path or a name")


def rows_of(what: str, **columns: Any) -> Iterator[dict[str, Any]]:
    """Give the values of each pair by their columns; a column that is None has none.

    Parameters
    ----------
    what : str
        What a column that must be there has, such as ``"texts"``: the first two columns.
    **columns : iterable
        Columns of equally many values.

    Raises
    ------
    InputError
        When one is no iterable, or has fewer values than another.
    """
    for place, (name, given) in enumerate(columns.items()):
        text = isinstance(given, str | bytes) and place < 2
        if text or (not isinstance(given, Iterable) and (given is not None or place < 2)):
            give = f"{what}, in an iterable" if place < 2 else "one for each pair"
            raise InputError(f"{name}: is of type {type(given).__name__}; give {give}")
    held = {name: values_of(values) for name, values in columns.items() if values is not None}
    for number, row in enumerate(zip_longest(*held.values(), fillvalue=_MISSING), start=1):
        for name, value in zip(held, row, strict=True):
            if value is _MISSING:
                raise InputError(f"{name}: has no value for pair {number}; give one for each pair")
        yield dict(zip(held, row, strict=True))
