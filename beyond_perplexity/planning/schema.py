"""A JSON schema made from dataclasses: their types, limits, defaults and numpydoc descriptions."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, NamedTuple

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

    `choices` are its values -> the dataclass with the keys, ``"module:Dataclass"`` where the
    module is loaded by name (the definition is called after key and value: ``architecture-
    lstm``), or None.
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
        """Define a dataclass, once, and refer to it."""
        name = name or kind.__name__
        if self._kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"{name}: two dataclasses of the configuration have this name")
        if name not in self:
            self[name] = self.describe(kind)
        return {"$ref": f"#/$defs/{name}"}

    def describe(self, kind: type) -> Schema:
        """Describe a dataclass as an object that refuses unknown keys."""
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
    """Describe a dataclass and all that it refers to as one JSON schema."""
    definitions = Definitions()
    schema = definitions.describe(kind)
    title = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": title, **schema, "$defs": dict(definitions)}


TOP = "Top level"
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minItems": "at least {} of them",
    "minLength": "",
}
_INTRODUCTION = """\
# The keys of a configuration

This page is generated from the schema (`python -m scripts.update_schema`). A configuration is a
YAML file, by default `config.yaml`; `snakemake --configfile my.yaml` takes another. A key that is
in no table here is an error that names it. `NAME` is a name that you choose: letters, digits, `_`
and `-`. Keys without a default in a table may be left out where the text says so; **needed** ones
may not. What trains a model stands under `models.NAME.training`, what it is made of under
`models.NAME.architecture`, for each family.
"""


class _Place(NamedTuple):
    """An object of the configuration: where it is, under which condition, and what shares it."""

    path: str
    condition: str
    schema: Schema
    shared: list[str]

    @property
    def heading(self) -> str:
        where = self.path or TOP
        conditions = ", ".join([self.condition, *self.shared])
        return f"{where} ({conditions})" if self.condition else where


def slug(heading: str) -> str:
    """Return the anchor that Markdown gives a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def _escaped(text: str) -> str:
    """Write words as Markdown: what is between back quotes is code, the rest is no markup."""
    parts = re.split(r"``?([^`]+)``?", " ".join(text.split()))
    for place, part in enumerate(parts):
        parts[place] = f"`{part}`" if place % 2 else re.sub(r"([*<>\[\]])", r"\\\1", part)
    return "".join(parts).replace("|", "\\|")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return f"`{text}`".replace("|", "\\|")


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _conditions(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """List what depends on the value of a key: the condition in words, and the schema."""
    for branch in schema.get("allOf", ()):
        ((key, wanted),) = branch["if"]["properties"].items()
        yield f"{key}: {wanted['const']}", branch["then"]


class _Reference:
    """The places of a schema, each object once, at the first path that leads there."""

    def __init__(self, schema: Schema) -> None:
        self._definitions: dict[str, Schema] = schema.get("$defs", {})
        self._found: dict[str, _Place] = {}
        self.places: list[_Place] = []
        waiting = deque([_Place("", "", schema, [])])
        while waiting:
            place = waiting.popleft()
            self.places.append(place)
            waiting.extend(self._below(place))

    def _below(self, place: _Place) -> Iterator[_Place]:
        """Find the objects that an object holds and that were not found before."""
        for key, held in place.schema.get("properties", {}).items():
            yield from self._objects(_joined(place.path, key), place.condition, held)
        for more, then in _conditions(place.schema):
            condition = ", ".join(filter(None, [place.condition, more]))
            if "$ref" in then:
                yield from self._objects(place.path, condition, then)
            for key, held in then.get("properties", {}).items():
                yield from self._objects(_joined(place.path, key), condition, held)

    def _objects(self, path: str, condition: str, schema: Schema) -> Iterator[_Place]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._found:
                self._found[name] = _Place(path, condition, self._definitions[name], [])
                yield self._found[name]
            elif self._found[name].path == path and condition != self._found[name].condition:
                self._found[name].shared.append(condition.rpartition(": ")[2])
        for part in schema.get("anyOf", ()):
            yield from self._objects(path, condition, part)
        if "items" in schema:
            yield from self._objects(path, condition, schema["items"])
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            yield from self._objects(f"{path}.NAME", condition, more)
        elif "properties" in schema:
            yield _Place(path, condition, schema, [])

    def value(self, path: str, schema: Schema) -> str:
        """Say in words what a value may be, with links to the objects."""
        if "$ref" in schema:
            place = self._found[schema["$ref"].rpartition("/")[2]]
            if path != place.path and not place.schema["properties"]:
                return "an object without keys"
            return f"[{place.heading}](#{slug(place.heading)})"
        if "enum" in schema:
            return ", ".join(map(_shown, schema["enum"]))
        if "anyOf" in schema:
            return ", or ".join(self.value(path, part) for part in schema["anyOf"])
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            return f"by name: {self.value(f'{path}.NAME', more)}"
        if "properties" in schema:
            return f"[{path}](#{slug(path)})"
        kinds = schema.get("type", "object")
        words = " or ".join([kinds] if isinstance(kinds, str) else kinds)
        if "items" in schema:
            words = words.replace("array", f"list of {self.value(path, schema['items'])}")
        limits = [text.format(schema[key]) for key, text in _LIMITS.items() if key in schema]
        return ", ".join(filter(None, [words, *limits]))

    def section(self, place: _Place) -> Iterator[str]:
        """Write the section of a place."""
        yield f"## {place.heading}"
        properties = place.schema.get("properties", {})
        if not properties:
            yield "It has no keys."
            return
        needed = place.schema.get("required", ())
        rows = ["| key | value | default | |", "|---|---|---|---|"]
        for key, held in properties.items():
            value = self.value(_joined(place.path, key), held)
            default = held["default"] if "default" in held else held.get("x-default")
            has_one = "default" in held or "x-default" in held
            shown = "**needed**" if key in needed else _shown(default) if has_one else ""
            # the description of such a key ends with what stands in the column of defaults
            words = re.sub(r" Default: [^.]*(\.\d[^.]*)?\.$", "", held.get("description", ""))
            rows.append(f"| `{key}` | {value} | {shown} | {_escaped(words)} |")
        yield "\n".join(rows)
        lines: dict[str, list[str]] = {}  # the conditions of what is said
        for condition, then in _conditions(place.schema):
            for key, held in ({"": then} if "$ref" in then else then["properties"]).items():
                what = f"`{key}` is " if key else ""
                path = _joined(place.path, key) if key else place.path
                lines.setdefault(what + self.value(path, held), []).append(f"`{condition}`")
        if lines:
            yield "\n".join(f"- {', '.join(held)}: {said}" for said, held in lines.items())


def render_reference(schema: Schema) -> str:
    """Write the reference page."""
    reference = _Reference(schema)
    anchors = [slug(place.heading) for place in reference.places]
    twice = {anchor for anchor in anchors if anchors.count(anchor) > 1}
    if twice:
        raise ValueError(f"{sorted(twice)[0]}: two sections of the configuration have this anchor")
    parts = [_INTRODUCTION.strip()]
    for place in reference.places:
        parts.extend(reference.section(place))
    return "\n\n".join(parts) + "\n"
