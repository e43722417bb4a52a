"""Reading a pickle that somebody else wrote, without letting it run anything.

A pickle is a program: it may call whatever can be imported. This reader knows containers, strings
and numbers, and refuses every class but sets by its name.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import check_input, unreadable
from beyond_perplexity.storage.json_text import brief_repr

_SIMPLE = (str, bytes, int, float, type(None))


def _hashable(value: Any) -> Any:
    """Pass on what may be a key or in a set: a tuple of tuples can take for ever to hash."""
    parts = value if type(value) is tuple else (value,)
    if not all(isinstance(part, _SIMPLE) for part in parts):
        raise InputError(f"has {brief_repr(value)} as a key or in a set")
    return value


def _set(items: Iterable[object] = ()) -> set[object]:
    return {_hashable(item) for item in items}


def _frozenset(items: Iterable[object] = ()) -> frozenset[object]:
    return frozenset(_set(items))


# The pickles of sets name the class; all other containers have opcodes of their own.
_CLASSES: dict[tuple[str, str], Callable[..., object]] = {
    (module, name): make
    for module in ("builtins", "__builtin__")
    for name, make in (("set", _set), ("frozenset", _frozenset))
}


class _BoundedFile:
    """A file that refuses to read more than it has, before any memory is asked for."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._size = size

    def read(self, count: int = -1) -> bytes:
        left = self._size - self._file.tell()
        if count > left:
            raise pickle.UnpicklingError(f"asks for {count} bytes, {left} are left")
        return self._file.read(count)

    def readline(self) -> bytes:
        return self._file.readline()


# The implementation in Python: that in C allocates whatever memo index a file names.
_BASE: Any = pickle._Unpickler


class _Unpickler(_BASE):
    def find_class(self, module: str, name: str) -> Callable[..., object]:
        """Give what makes a set; refuse anything else.

        Raises
        ------
        InputError
            Names the class.
        """
        if (module, name) in _CLASSES:
            return _CLASSES[module, name]
        raise InputError(f"holds an object of class {module}.{name}")

    def persistent_load(self, identifier: object) -> object:
        """Refuse references to objects outside the file."""
        raise InputError(f"refers to an object outside the file ({brief_repr(identifier)})")

    # The stack holds what came after the last mark, for all of these but the first.
    def _load_item(self) -> None:
        _hashable(self.stack[-2])
        self.load_setitem()

    def _load_items(self) -> None:
        _set(self.stack[::2])
        self.load_setitems()

    def _load_dict(self) -> None:
        _set(self.stack[::2])
        self.load_dict()

    def _add_items(self) -> None:
        _set(self.stack)
        self.load_additems()

    def _load_frozenset(self) -> None:
        _set(self.stack)
        self.load_frozenset()

    def _refuse_state(self) -> None:
        raise InputError("gives an object a state")

    dispatch = _BASE.dispatch | {
        pickle.SETITEM[0]: _load_item,
        pickle.SETITEMS[0]: _load_items,
        pickle.DICT[0]: _load_dict,
        pickle.ADDITEMS[0]: _add_items,
        pickle.FROZENSET[0]: _load_frozenset,
        pickle.BUILD[0]: _refuse_state,
    }


def load(path: Path) -> object:
    """Read the one object of a pickle file.

    Parameters
    ----------
    path : pathlib.Path
        A file of pickle protocol 0 to 5.

    Returns
    -------
    object
        Made of dict, list, tuple, set, frozenset, str, bytes, int, float, bool and None.

    Raises
    ------
    InputError
        When the file cannot be read, is no whole pickle, or holds an object of another class, or a
        key that is no string, number or tuple of them.
    """
    check_input(path, again=True)
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            found: object = _Unpickler(_BoundedFile(file, size), encoding="utf-8").load()
            if file.tell() < size:
                raise InputError(f"goes on after its first object, at byte {file.tell()}")
    except InputError as error:
        advice = "only dictionaries, lists, strings and numbers are read from a pickle"
        raise InputError(f"{path}: {error}; {advice}") from error
    except Exception as error:  # malformed opcodes raise anything
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from error
        detail = f"{type(error).__name__}: {brief_repr(str(error))}"
        raise InputError(f"{path}: not a readable pickle ({detail}); fetch it again") from error
    return found
