"""How functions of the library are called: what they take, refuse, and name in their errors.

Errors are written once, with the flags of commands (``--group-column``). From a function of the
library they name its keyword (``group_column``) instead.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remarks_worded
from beyond_perplexity.library.result import Result
from beyond_perplexity.storage.accounts import accounts, tell

_P = ParamSpec("_P")
_T = TypeVar("_T", bound=Result)

# Lines of a shell that a message tells to run stay as they are.
_FLAG = re.compile(r"(?P<shell>(?:python -m|snakemake|pip) .*)|--(?P<flag>[a-z]+(?:-[a-z]+)*)")
_FOR_COMMANDS: dict[Callable[..., Any], Callable[..., Any]] = {}


class Unused(NamedTuple):
    """Keywords that have no effect in one way of calling a function.

    Attributes
    ----------
    way : str
        The end of a sentence that begins with *has no effect*.
    names : tuple of str
    """

    way: str
    names: tuple[str, ...]


def library_function(
    unused: Callable[[Mapping[str, Any]], Iterable[Unused]] = lambda _: (),
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Make a function of the library.

    Its keywords may be scalars of NumPy and Arrow; those that would be ignored and are not left at
    their defaults are refused, as is anything but True and False for a bool; and its errors
    and remarks name keywords instead of flags.

    Parameters
    ----------
    unused : callable
        From all arguments by their names to what has no effect in this way of calling it.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        signature = inspect.signature(function)

        def checked(*given: _P.args, **named: _P.kwargs) -> _T:
            bound = _bind(function.__name__, signature, given, named)
            _convert(bound)
            bound.apply_defaults()
            for one in unused(bound.arguments):
                _refuse(one, bound)
            with accounts() as read:
                found = function(*bound.args, **bound.kwargs)
            found.files = read
            return found

        def told(*given: _P.args, **named: _P.kwargs) -> _T:
            found = checked(*given, **named)
            tell(found.files)
            return found

        @wraps(function)
        def called(*given: _P.args, **named: _P.kwargs) -> _T:
            try:
                with remarks_worded(partial(_by_keyword, signature)):
                    return checked(*given, **named)
            except InputError as error:
                error.args = (_by_keyword(signature, str(error)),)
                raise

        _FOR_COMMANDS[called] = told
        return called

    return decorate


def for_command(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function of the library as its command calls it: errors name flags."""
    return cast("Callable[_P, _T]", _FOR_COMMANDS[function])


def in_memory(given: Any) -> bool:
    """Return whether texts are an iterable: neither a file nor a table with columns."""
    is_table = hasattr(given, "columns") or hasattr(given, "schema")
    is_file = isinstance(given, str | os.PathLike)
    return not is_file and not is_table


@contextmanager
def torch_kept(threads: int | None) -> Iterator[None]:
    """Let torch compute in so many CPU threads; they and its random state are kept for the caller.

    Parameters
    ----------
    threads : int or None
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


def _convert(bound: inspect.BoundArguments) -> None:
    for name, parameter in bound.signature.parameters.items():
        if isinstance(path := bound.arguments.get(name), os.PathLike):
            bound.arguments[name] = Path(path)  # whose str is the path, as not of any other
        if parameter.kind is not parameter.KEYWORD_ONLY or name not in bound.arguments:
            continue
        found = bound.arguments[name] = _plain(bound.arguments[name])
        if parameter.annotation in ("bool", bool) and not isinstance(found, bool):
            raise InputError(f"--{_flag(name)}: is {found!r:.80}, expected True or False")


def _plain(value: Any) -> Any:
    """Return scalars of NumPy and Arrow, also in a mapping, as those of Python."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, Mapping):
        return {
            key: one.tolist() if isinstance(one, np.ndarray) else _plain(one)
            for key, one in value.items()
        }
    return value


def _refuse(unused: Unused, bound: inspect.BoundArguments) -> None:
    parameters = bound.signature.parameters
    wrong = [
        f"--{_flag(name)}"
        for name in unused.names
        if not _is_default(bound.arguments[name], parameters[name].default)
    ]
    if wrong:
        have, them = ("has", "it") if len(wrong) == 1 else ("have", "them")
        raise InputError(f"{', '.join(wrong)}: {have} no effect {unused.way}; leave {them} out")


def _is_default(value: Any, default: object) -> bool:
    if isinstance(value, Path):
        return str(value) == default
    return value is default or (isinstance(value, str | int | float) and value == default)


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _by_keyword(signature: inspect.Signature, message: str) -> str:
    def named(match: re.Match[str]) -> str:
        name = (match["flag"] or "").replace("-", "_")
        return name if name in signature.parameters else match[0]

    return _FLAG.sub(named, message)
