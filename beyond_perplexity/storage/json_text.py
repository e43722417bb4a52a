"""The one place that reads JSON which somebody else wrote."""

from __future__ import annotations

import json
import os
import reprlib
import sys
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import read_whole

_SHOWN = 80  # characters of a foreign value in a message


class JSONTextError(ValueError):
    """A text that is no JSON, or has what no reader takes; the message is one line.

    Parameters
    ----------
    reason : str
    line : int
        Where it is, from 1.
    """

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def parse_json(text: str | bytes) -> Any:
    """Read a JSON text.

    Parameters
    ----------
    text : str or bytes
        bytes are UTF-8.

    Returns
    -------
    object
        Of dict, list, str, int, float, bool and None. A float may be NaN or infinite, which
        Python's own writer writes.

    Raises
    ------
    JSONTextError
        When it is no JSON, has a whole number of more digits than Python reads, or brackets nested
        deeper than Python's stack.
    """
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except RecursionError as error:
        raise JSONTextError("its brackets are nested too deeply") from error
    except json.JSONDecodeError as error:
        raise JSONTextError(str(error), error.lineno) from error
    except UnicodeDecodeError as error:
        raise JSONTextError(f"it is not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        digits = sys.get_int_max_str_digits()
        raise JSONTextError(f"it has a whole number of more than {digits} digits") from error


def has_twice(text: str, key: str) -> bool:
    """Tell whether an object has a key twice, of which a reader would take the last.

    Parameters
    ----------
    text : str
        That `parse_json` reads as an object.
    key : str
        Of the object itself, not of those inside it.
    """
    if text.count(json.dumps(key, ensure_ascii=False)) < 2:
        return False
    pairs = json.loads(text, object_pairs_hook=list)
    return sum(name == key for name, _ in pairs) > 1


def parse_object(text: str | bytes, place: str, advice: str) -> dict[str, Any]:
    """Read a JSON object that stands in a file.

    Parameters
    ----------
    text : str or bytes
        See `parse_json`.
    place : str
        Of the text, for the message: ``pairs.jsonl: line 3:``.
    advice : str
        What to do where it is none.

    Raises
    ------
    InputError
        When it is no JSON, or no object.
    """
    try:
        value = parse_json(text)
    except JSONTextError as error:
        raise InputError(f"{place} is no JSON ({error}); {advice}") from error
    if not isinstance(value, dict):
        raise InputError(f"{place} is no JSON object; {advice}")
    return value


def read_json(path: str | os.PathLike[str], what: str, advice: str) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : path
    what : str
        What the file should be, for the message: ``vocabulary file``.
    advice : str
        What to do where it is none.

    Returns
    -------
    object
        As `parse_json`.

    Raises
    ------
    InputError
        When the file cannot be read, or is no JSON.
    """
    content = read_whole(path)
    try:
        return parse_json(content)
    except JSONTextError as error:
        raise InputError(f"{path}: is no {what}: it is no JSON ({error}); {advice}") from error


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, _SHOWN, _SHOWN

    def repr_int(self, x: int, level: int) -> str:  # of very many digits Python writes none
        return repr(x) if x.bit_length() < 300 else f"<a whole number of {x.bit_length()} bits>"


def brief_repr(value: object) -> str:
    """Show a foreign value in a message, in some characters and little work.

    Objects that hold one another again and again, as a pickle can make them, are cut off at their
    third level.
    """
    return f"{_Brief().repr(value):.{_SHOWN}}"
