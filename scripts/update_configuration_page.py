"""Write the page of all keys of a configuration anew, from its sections."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, NamedTuple

from beyond_perplexity.arguments import output_file
from beyond_perplexity.options import OMITTED, Limit, choices_of
from beyond_perplexity.planning.sections import (
    DependsOn,
    Late,
    Nothing,
    SectionKey,
    is_section,
    keys_of,
    plain,
    variants,
)
from beyond_perplexity.storage.outputs import atomic_path
from scripts._job import Given, flag, job

INTRODUCTION = """\
# The keys of a configuration

This page is generated (`python -m scripts.update_configuration_page`). A configuration is a YAML
file, by default `config.yaml`; `snakemake --configfile my.yaml` takes another. A key that is in no
table here is an error that names it. `NAME` is a name that you choose: letters, digits, `_` and
`-`. Keys without a default in a table may be left out where the text says so; **needed** ones may
not. What trains a model stands under `models.NAME.training`, what it is made of under
`models.NAME.architecture`, for each family.
"""
TOP = "Top level"
SCALARS = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    type(None): "null",
    Any: "object",
}
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minItems": "at least {} of them",
}


class Branch(NamedTuple):
    """What a key is (without a name: the object itself) under a condition, `own` to a place."""

    name: str
    condition: str
    kind: type
    own: str = ""


class Place(NamedTuple):
    """An object of the configuration: where it is, under which conditions, its keys."""

    path: str
    condition: str
    keys: Mapping[str, SectionKey]
    branches: list[Branch]
    shared: list[str]

    @property
    def heading(self) -> str:
        """The heading of its section."""
        conditions = ", ".join([self.condition, *self.shared])
        return f"{self.path or TOP} ({conditions})" if self.condition else self.path or TOP

    @property
    def link(self) -> str:
        """A link to its section, by the anchor that Markdown gives the heading."""
        return f"[{self.heading}](#{slug(self.heading)})"


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
    return ".".join(filter(None, [path, key]))


def _real(hint: Any) -> Any:
    """Return the options that stand for an object whose module loads slowly."""
    late = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Late)]
    return resolve_name(late[0].options) if late else hint


def _place(path: str, condition: str, kind: type) -> Place:
    """Return the place of a section or of options; each architecture has a place of its own."""
    keys, branches = keys_of(kind), []
    for name, key in keys.items():
        for mark in getattr(key.hint, "__metadata__", ()):
            for value, held in mark.choices.items() if isinstance(mark, DependsOn) else ():
                when = f"{mark.key}: {value}"
                if isinstance(held, str):
                    branches.append(Branch(name, when, resolve_name(held), when))
                else:
                    branches.append(Branch(name, when, held or Nothing))
    return Place(path, condition, keys, branches, [])


def _choice(path: str, condition: str, hint: Any) -> Place:
    """Return the place of options that a key tells apart."""
    key, kinds = variants(hint) or ("", {})
    words = " ".join(f"{value}: {keys_of(kind)[key].words}" for value, kind in kinds.items())
    held = SectionKey(Literal[tuple(kinds)], MISSING, words)
    branches = [Branch("", f"{key}: {value}", kind) for value, kind in kinds.items()]
    return Place(path, condition, {key: held}, branches, [])


class Reference:
    """The places of a configuration, each object once, at the first path that leads there."""

    def __init__(self, kind: type) -> None:
        self._found: dict[Any, Place] = {}
        self.places = [_place("", "", kind)]
        for place in self.places:  # writing one finds those below it
            list(self.section(place))

    def _find(self, key: Any, make: Callable[[], Place]) -> Place:
        if key not in self._found:
            self._found[key] = make()
            self.places.append(self._found[key])
        return self._found[key]

    def value(self, path: str, condition: str, hint: Any, own: str = "") -> str:
        """Say in words what a value may be, with links to the objects."""
        hint = _real(hint)
        if variants(hint):
            self._find(path, lambda: _choice(path, condition, hint))
            return f"[{path}](#{slug(path)})"
        if is_section(hint):
            place = self._find((hint, own), lambda: _place(path, condition, hint))
            also = condition.rpartition(": ")[2]
            if place.path == path and condition != place.condition and also not in place.shared:
                place.shared.append(also)
            return place.link if place.keys or path == place.path else "an object without keys"
        if choices := choices_of(hint):
            return ", ".join(map(_shown, choices))
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            marks = [mark.keywords for mark in parts[1:] if isinstance(mark, Limit)]
            limits = [(text, held.get(key)) for held in marks for key, text in LIMITS.items()]
            words = [text.format(limit) for text, limit in limits if limit is not None]
            return ", ".join([self.value(path, condition, parts[0]), *words])
        if origin is dict:
            more = self.value(f"{path}.NAME", condition, parts[1])
            return "object" if parts[1] is Any else f"by name: {more}"
        if origin in (list, tuple):
            return f"list of {self.value(path, condition, parts[0])}"
        if parts:
            texts = [self.value(path, condition, part) for part in parts]
            return (" or " if set(texts) <= set(SCALARS.values()) else ", or ").join(texts)
        return SCALARS[hint]

    def section(self, place: Place) -> Iterator[str]:
        """Write the section of a place."""
        yield f"## {place.heading}"
        if not place.keys:
            yield "It has no keys."
            return
        rows = ["| key | value | default | |", "|---|---|---|---|"]
        for name, key in place.keys.items():
            value = self.value(_joined(place.path, name), place.condition, key.hint)
            if key.default is MISSING:
                default = "**needed**"
            else:
                default = "" if key.default is OMITTED else _shown(plain(key.default))
            rows.append(f"| `{name}` | {value} | {default} | {_escaped(key.words)} |")
        yield "\n".join(rows)
        conditions: dict[str, list[str]] = {}  # by what is said under them
        for name, condition, kind, own in place.branches:
            said = self.value(_joined(place.path, name), condition, kind, own)
            said = f"`{name}` is {said}" if name else said
            conditions.setdefault(said, []).append(f"`{condition}`")
        if conditions:
            yield "\n".join(f"- {', '.join(held)}: {said}" for said, held in conditions.items())


def render(kind: type) -> str:
    """Write the page of the keys of a section and of all that it holds."""
    reference = Reference(kind)
    anchors = [slug(place.heading) for place in reference.places]
    for place, anchor in zip(reference.places, anchors, strict=True):
        if anchors.count(anchor) > 1:
            raise ValueError(f"{anchor}: two sections of the configuration have this anchor")
        for name, key in place.keys.items():
            if not key.words:
                raise ValueError(f"{place.heading}: no docstring describes '{name}'")
    sections = (part for place in reference.places for part in reference.section(place))
    return "\n\n".join([INTRODUCTION.strip(), *sections]) + "\n"


@job(
    flag("--output", "page to write", output_file, default="docs/configuration.md"),
)
def main(options: Given) -> None:
    # Late, as some options bring a heavy library along.
    from beyond_perplexity.planning.configuration import Configuration

    with atomic_path(options.output) as temporary:
        Path(temporary).write_text(render(Configuration), encoding="utf-8")
