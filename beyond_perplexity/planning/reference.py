"""The reference page of the configuration, in Markdown, made from its JSON schema.

A section for every object that a configuration can hold, headed by the path of its key: a name
that users choose is ``NAME``, and what depends on another key says its value.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from beyond_perplexity.planning.schema import Schema

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
    """An object of the configuration: where it is, and under which condition."""

    path: str
    condition: str
    schema: Schema

    @property
    def heading(self) -> str:
        where = self.path or TOP
        return f"{where} ({self.condition})" if self.condition else where


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
        waiting = deque([_Place("", "", schema)])
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
                self._found[name] = _Place(path, condition, self._definitions[name])
                yield self._found[name]
        for part in schema.get("anyOf", ()):
            yield from self._objects(path, condition, part)
        if "items" in schema:
            yield from self._objects(path, condition, schema["items"])
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            yield from self._objects(f"{path}.NAME", condition, more)
        elif "properties" in schema:
            yield _Place(path, condition, schema)

    def value(self, path: str, schema: Schema) -> str:
        """Say in words what a value may be, with links to the objects."""
        if "$ref" in schema:
            place = self._found[schema["$ref"].rpartition("/")[2]]
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
        lines = []
        for condition, then in _conditions(place.schema):
            for key, held in ({"": then} if "$ref" in then else then["properties"]).items():
                what = f"`{key}` is " if key else ""
                path = _joined(place.path, key) if key else place.path
                lines.append(f"- `{condition}`: {what}{self.value(path, held)}")
        if lines:
            yield "\n".join(lines)


def render_reference(schema: Schema) -> str:
    """Write the reference page.

    Parameters
    ----------
    schema : dict
        As `schema.render_schema` gives it.

    Returns
    -------
    str
        Markdown; every key of the schema has one row.

    Raises
    ------
    ValueError
        When two headings have one anchor.
    """
    reference = _Reference(schema)
    anchors = [slug(place.heading) for place in reference.places]
    twice = {anchor for anchor in anchors if anchors.count(anchor) > 1}
    if twice:
        raise ValueError(f"{sorted(twice)[0]}: two sections of the configuration have this anchor")
    parts = [_INTRODUCTION.strip()]
    for place in reference.places:
        parts.extend(reference.section(place))
    return "\n\n".join(parts) + "\n"
