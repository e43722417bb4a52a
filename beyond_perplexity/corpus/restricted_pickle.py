"""Reading a pickle that somebody else wrote, without letting it run anything.

A pickle is a program: it may call whatever can be imported. This reader knows containers, strings
and numbers, and refuses every class but sets by its name.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO

from beyond_perplexity.errors import InputError

# The pickles of sets name the class; all other containers have opcodes of their own.
_CLASSES = {
    (module, kind.__name__): kind
    for module in ("builtins", "__builtin__")
    for kind in (set, frozenset)
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
class _Unpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> type:
        """Give a set's class; refuse anything else.

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
        raise InputError(f"refers to an object outside the file ({identifier!r})")


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
        When the file cannot be read, is no whole pickle, or holds an object of another class.
    """
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
        detail = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: not a readable pickle ({detail}); fetch it again") from error
    return found
