"""A JSON schema made from dataclasses: their types, limits, defaults and numpydoc descriptions."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

from beyond_perplexity.options import OMITTED, Limit, Section

Schema = dict[str, Any]

NAME = "^[A-Za-z0-9][A-Za-z0-9_-]*$"  # names become names of files
_NAMES = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    dict: "object",
    type(None): "null",
}


@dataclasses.dataclass(frozen=True)
class Nothing:
    """An object without keys."""


class DependsOn:
    """Mark of an object whose keys depend on another key beside it, as a model's on its family.

    Parameters
    ----------
    key : str
        The other key.
    choices : mapping of str to type, str or None
        Its values -> the dataclass with the keys, ``"module:Dataclass"`` where the module is loaded
        by name, or None where there are none. By name, the definition is called after key and
        value: ``architecture-lstm``.
    """

    def __init__(self, key: str, choices: Mapping[str, type | str | None]) -> None:
        self.key, self.choices = key, choices


def _descriptions(kind: type) -> dict[str, str]:
    """Read what the numpydoc docstring says of each field, as one line."""
    pattern = r"^(\w+) : [^\n]*\n((?:[ ]{4}[^\n]*\n?|\n)+)"
    described: dict[str, str] = {}
    for part in reversed(kind.__mro__):  # a dataclass says only what it adds to its base
        found = re.findall(pattern, inspect.cleandoc(part.__doc__ or ""), flags=re.MULTILINE)
        described |= {name: " ".join(body.split()) for name, body in found}
    return described


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _plain(value: Any) -> Any:
    """Return a default as JSON has it; of a dataclass, what is not the default of its field."""
    if dataclasses.is_dataclass(value):
        held = [(getattr(value, field.name), field) for field in dataclasses.fields(value)]
        return {field.name: _plain(item) for item, field in held if item != _default(field)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _when(key: str, value: str, then: Schema) -> Schema:
    return {"if": {"required": [key], "properties": {key: {"const": value}}}, "then": then}


class Definitions(dict[str, Schema]):
    """The schemas of dataclasses by name, collected while others refer to them."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[str, type] = {}

    def refer(self, kind: type, name: str = "") -> Schema:
        """Define a dataclass, once, and refer to it.

        Raises
        ------
        ValueError
            When another dataclass has its name, or the docstring leaves a field out.
        """
        name = name or kind.__name__
        if self._kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"{name}: two dataclasses of the configuration have this name")
        if name not in self:
            self[name] = self.describe(kind)
        return {"$ref": f"#/$defs/{name}"}

    def describe(self, kind: type) -> Schema:
        """Describe a dataclass as an object that refuses unknown keys.

        Raises
        ------
        ValueError
            When the docstring leaves a field out.
        """
        assert dataclasses.is_dataclass(kind)
        hints, described = typing.get_type_hints(kind, include_extras=True), _descriptions(kind)
        properties: Schema = {}
        required: list[str] = []
        branches: list[Schema] = []
        for field in dataclasses.fields(kind):
            if field.name not in described:
                raise ValueError(f"{kind.__name__}: the docstring does not describe '{field.name}'")
            hint = hints[field.name]
            properties[field.name] = {"description": described[field.name], **self.of(hint)}
            self._add_default(kind, field, properties[field.name], required)
            branches += self._branches(field.name, hint)
        found = {"properties": properties, "required": required, "allOf": branches}
        shown = {key: value for key, value in found.items() if value or key == "properties"}
        return {"type": "object", "additionalProperties": False, **shown}

    def of(self, hint: Any) -> Schema:
        """Describe a type; dataclasses in it are defined and referred to."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            schema = self.of(arguments[0])
            for mark in hint.__metadata__:
                schema |= _plain(mark.keywords) if isinstance(mark, Limit) else {}
            if "enum" in schema:  # which says it better than the type
                schema.pop("type", None)
            return schema
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments)
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            names = {"type": "object", "propertyNames": {"pattern": NAME}}
            return {**names, "additionalProperties": self.of(arguments[1])}
        return {"type": _NAMES[hint]} if hint in _NAMES else self.refer(hint)

    def _union(self, arguments: tuple[Any, ...]) -> Schema:
        kinds = [argument for argument in arguments if dataclasses.is_dataclass(argument)]
        if len(kinds) == len(arguments):
            return self._variants(kinds)
        first, *others = parts = [self.of(argument) for argument in arguments]
        if "type" in first and all(set(part) == {"type"} for part in others):
            return {**first, "type": [part["type"] for part in parts]}
        return {"anyOf": parts}

    def _variants(self, kinds: Iterable[Any]) -> Schema:
        """Describe dataclasses that their first field, a `Literal`, tells apart."""
        by_value, words = {}, []
        for kind in kinds:
            key = dataclasses.fields(kind)[0].name
            (value,) = typing.get_args(typing.get_type_hints(kind)[key])
            by_value[value] = kind
            words.append(f"{value}: {_descriptions(kind)[key]}")
        choice = {"description": " ".join(words), "enum": list(by_value)}
        return {
            "type": "object",
            "required": [key],
            "properties": {key: choice},
            "allOf": [_when(key, value, self.refer(kind)) for value, kind in by_value.items()],
        }

    def _branches(self, name: str, hint: Any) -> Iterator[Schema]:
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, DependsOn):
                for value, kind in mark.choices.items():
                    if isinstance(kind, str):
                        reference = self.refer(resolve_name(kind), f"{name}-{value}")
                    else:
                        reference = self.refer(kind or Nothing)
                    yield _when(mark.key, value, {"properties": {name: reference}})

    def _add_default(
        self, kind: type, field: dataclasses.Field[Any], property_: Schema, required: list[str]
    ) -> None:
        """Add a default to the schema of a field, or its name to those that are required."""
        default = _default(field)
        if default is dataclasses.MISSING:
            required.append(field.name)
        elif default is OMITTED:
            pass
        elif issubclass(kind, Section) and field.name not in kind.left_out:
            property_["default"] = _plain(default)
        else:
            if default is not None:
                property_["description"] += f" Default: {_plain(default)}."
            # Not "default", which would be filled in: options that are left out stay out.
            property_["x-default"] = _plain(default)


def render_schema(kind: type) -> Schema:
    """Describe a dataclass and all that it refers to as one JSON schema.

    Raises
    ------
    ValueError
        When a docstring leaves a field out, or two dataclasses have one name.
    """
    definitions = Definitions()
    schema = definitions.describe(kind)
    title = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": title, **schema, "$defs": dict(definitions)}
