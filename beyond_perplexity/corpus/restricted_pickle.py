"""Reading a pickle that somebody else wrote, without letting it run anything."""

from __future__ import annotations

import pickle
from pathlib import Path

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import brief_repr, check_input, unreadable

_SETS: dict[str, type] = {"set": set, "frozenset": frozenset}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        """Give a set, whose pickles name its class (all other containers have opcodes)."""
        if module in ("builtins", "__builtin__") and name in _SETS:
            return _SETS[name]
        raise InputError(f"holds an object of class {module}.{name}")


def load(path: Path) -> object:
    """Read the one object of a pickle file: containers, strings and numbers, else `InputError`."""
    check_input(path, again=True)
    try:
        with open(path, "rb") as file:
            found: object = _Unpickler(file, encoding="utf-8").load()
            if file.read(1):
                raise InputError("goes on after its first object")
    except InputError as error:
        advice = "only dictionaries, lists, strings and numbers are read from a pickle"
        raise InputError(f"{path}: {error}; {advice}") from error
    except Exception as error:  # malformed opcodes raise anything
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from error
        detail = f"{type(error).__name__}: {brief_repr(str(error))}"
        raise InputError(f"{path}: not a readable pickle ({detail}); fetch it again") from error
    return found
