"""Structured options: frozen dataclasses filled from JSON, every key and type checked.

They need no more than the standard library, so that the base install reads them; `pydantic`, where
the configuration of a run is checked, takes the same types and limits.
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from beyond_perplexity.errors import InputError
from beyond_perplexity.former_names import hint_for

Parsed = TypeVar("Parsed")
Row = TypeVar("Row")
Rows = Mapping[str, Row]  # looked up by name at run time, so no fingerprint of code counts it

LARGEST_NUMBER = 2**63 - 1  # that tables and tensors hold
# The default of a key that a configuration may leave out and that is then not there at all.
OMITTED: Any = object()

_BOUNDS = {
    "minimum": ("at least", operator.ge),
    "exclusiveMinimum": ("above", operator.gt),
    "maximum": ("at most", operator.le),
    "exclusiveMaximum": ("below", operator.lt),
}
_OF_PYDANTIC = {
    **dict(zip(_BOUNDS, ("ge", "gt", "le", "lt"), strict=True)),
    **dict.fromkeys(("minLength", "minItems", "minProperties"), "min_length"),
    "pattern": "pattern",
}


class Limit:
    """What a value must be besides its type; ``Annotated[int, Limit(minimum=1)]`` carries it.

    `**keywords`: keywords of JSON schema. A configuration is held against them all;
    `parse_options` reads ``enum``, and `Limited` what bounds a number.
    """

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords

    def __get_pydantic_core_schema__(self, hint: Any, handler: Any) -> dict[str, Any]:
        """Say the same to pydantic, which calls this."""
        if "enum" in self.keywords:
            return {"type": "literal", "expected": list(self.keywords["enum"])}
        schema: dict[str, Any] = handler(hint)
        held = schema["schema"] if schema["type"] == "function-after" else schema
        held |= {_OF_PYDANTIC[key]: v for key, v in self.keywords.items() if key in _OF_PYDANTIC}
        if not self.keywords.get("uniqueItems"):
            return schema
        check = {"type": "no-info", "function": _check_unique}
        return {"type": "function-after", "function": check, "schema": schema}


def _check_unique(values: typing.Sequence[Any]) -> typing.Sequence[Any]:
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ValueError(f"has {twice[0]!r} twice; name each once")
    return values


Count = Annotated[int, Limit(minimum=1)]
Layers = Annotated[int, Limit(minimum=1, maximum=1_000)]
Width = Annotated[int, Limit(minimum=1, maximum=1_000_000)]  # numbers of a vector
Length = Annotated[int, Limit(minimum=1, maximum=10_000_000)]  # words, tokens
BeamSize = Annotated[int, Limit(minimum=1, maximum=100_000)]
MOST_DRAWS = 1_000_000
Positive = Annotated[float, Limit(exclusiveMinimum=0)]
Amount = Annotated[float, Limit(minimum=0)]
Natural = Annotated[int, Limit(minimum=0)]
Share = Annotated[float, Limit(minimum=0, maximum=1)]
Level = Annotated[float, Limit(exclusiveMinimum=0, exclusiveMaximum=1)]
Dropout = Annotated[float, Limit(minimum=0, exclusiveMaximum=1)]


def limits_of(hint: Any) -> Iterator[tuple[str, Any]]:
    """List the keywords of a type and of all that it is made of."""
    for mark in getattr(hint, "__metadata__", ()):
        yield from mark.keywords.items() if isinstance(mark, Limit) else ()
    for part in typing.get_args(hint):
        yield from limits_of(part)


@cache
def _bounds(kind: type) -> dict[str, dict[str, Any]]:
    """Return the bounds of numbers by the field of a dataclass."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {name: dict(limits_of(hint)) for name, hint in hints.items()}
    return {name: {k: held[k] for k in _BOUNDS if k in held} for name, held in found.items()}


class Limited:
    """Base of options whose numbers, alone or in a list, keep the bounds of their fields."""

    def __post_init__(self) -> None:
        kind: type = type(self)
        for name, bounds in _bounds(kind).items():
            value = getattr(self, name)
            numbers = value if isinstance(value, list | tuple) else [value]
            for number in (one for one in numbers if isinstance(one, int | float)):
                if not all(_BOUNDS[key][1](number, bound) for key, bound in bounds.items()):
                    words = " and ".join(f"{_BOUNDS[key][0]} {bounds[key]}" for key in bounds)
                    raise ValueError(f"{name}: is {number}, expected {words}")


class Section(Limited):
    """Base of options whose defaults are written into the configuration, and into commands.

    Those of other dataclasses stay out unless a user gives them: a new option of a job then leaves
    the commands of finished jobs as they are.
    """

    left_out: ClassVar[tuple[str, ...]] = ()  # fields whose defaults stay out all the same


def _refuse(constant: str) -> None:
    """Refuse what Python adds to JSON, since no option is NaN or infinite."""
    raise ValueError(f"{constant} is no number of JSON")


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object from a command line; use it as the ``type`` of an argument."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{text!r} is no JSON ({error}); give an object of options") from error
    if not isinstance(value, dict):
        raise InputError(f"{text!r} is no JSON object; give an object of options")
    return value


def choices_of(hint: Any) -> list[Any]:
    """List the values that a type enumerates, none if it does not."""
    if typing.get_origin(hint) is Literal:
        return list(typing.get_args(hint))
    marks = [mark.keywords for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Limit)]
    return [value for keywords in marks for value in keywords.get("enum", ())]


def _fits(value: object, hint: Any) -> bool:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if choices := choices_of(hint):
        return value in choices
    if origin in (Annotated, typing.Union, types.UnionType):
        return any(_fits(value, part) for part in (parts[:1] if origin is Annotated else parts))
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(_fits(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if hint in (int, float):
        if isinstance(value, bool) or not isinstance(value, int | hint):
            return False
        return abs(value) <= LARGEST_NUMBER if isinstance(value, int) else math.isfinite(value)
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if choices := choices_of(hint):
        return "one of " + ", ".join(map(repr, choices))
    if origin is Annotated:
        return _describe(parts[0])
    if origin in (list, tuple):
        return f"a list of {_describe(parts[0])}"
    if origin is dict:
        return f"an object of {_describe(parts[1])}"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def parse_options(kind: type[Parsed], values: object, where: str) -> Parsed:
    """Build an options dataclass from a JSON object; what is left out has the default.

    `where` is the path of the object in the user's file, for the message. Raises InputError when a
    key is unknown, missing or of the wrong type, or a cross-check (a ValueError of
    ``__post_init__``) fails.
    """
    assert dataclasses.is_dataclass(kind)
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: is {values!r}, expected an object of options")
    hints = typing.get_type_hints(kind, include_extras=True)
    allowed = [field.name for field in dataclasses.fields(kind)]
    for key, value in values.items():
        if key not in allowed:
            hint = hint_for(str(key), allowed)
            raise InputError(f"{where}.{key}: unknown key{hint}; allowed are {', '.join(allowed)}")
        if not _fits(value, hints[key]):
            raise InputError(f"{where}.{key}: is {value!r}, expected {_describe(hints[key])}")
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
    except TypeError as error:
        raise InputError(f"{where}: a required key is missing ({error})") from error


def add_fields(
    kind: type[Parsed], fields: Mapping[str, tuple[Any, Any]], words: Mapping[str, str]
) -> type[Parsed]:
    """Give a class, before `dataclasses.dataclass` sees it, the fields that rows of a table name.

    A field that the class has keeps its place; its docstring has the keys of `words` in angle
    brackets.
    """
    for name, (hint, default) in fields.items():
        kind.__annotations__[name] = hint
        if default is not dataclasses.MISSING:
            setattr(kind, name, default)
    for key, text in words.items():
        kind.__doc__ = (kind.__doc__ or "").replace(f"<{key}>", text)
    return kind
