"""What a section of the configuration is, and how one is read: every key and value checked.

A section is a pydantic model, whose fields have types, limits and defaults, and whose docstring
says in a line ``key: …`` what each key is. Options of jobs in it are the dataclasses of these jobs.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from functools import cache
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from beyond_perplexity.errors import InputError
from beyond_perplexity.former_names import hint_for
from beyond_perplexity.options import OMITTED, Limit, Positive, Section
from beyond_perplexity.storage.fingerprint import fingerprint, remembered

Name = Annotated[str, Limit(pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")]  # becomes the name of a file


NO_NAMES: Any = {}  # of what has names; pydantic gives each section its own


class SectionModel(BaseModel):
    """Base of the sections; all their defaults are written into the configuration."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Temperatures = Annotated[tuple[Positive, ...], Limit(minItems=1, uniqueItems=True)]
Names = Annotated[tuple[str, ...], Limit(uniqueItems=True)]


class Download(SectionModel):
    """A file at a URL, with its checksum.

    url: URL (http or https) that is downloaded once; without password, key or token, which the
        log would show.
    sha256: SHA-256 of the file (of its member, if one is named), 64 hexadecimal digits; another
        content is an error.
    member: The file is a zip archive, and this is the path inside it that is meant.
    """

    url: Annotated[str, Limit(pattern="^https?://")]
    sha256: Annotated[str, Limit(pattern="^[0-9a-f]{64}$")]
    member: Annotated[str, Limit(minLength=1)] = OMITTED


# A local path, `embedded:enwiki-excerpt`, or a URL with its checksum.
Location = Annotated[str, Limit(minLength=1)] | Download
Locations = Annotated[list[Location], Limit(minItems=1)]


@dataclasses.dataclass(frozen=True)
class Nothing:
    """Options without keys."""


class DependsOn:
    """Mark of an object whose keys depend on another key beside it, as a model's on its family:
    value -> dataclass with the keys, or ``"module:Dataclass"`` to be loaded, or None."""

    def __init__(self, key: str, choices: Mapping[str, type | str | None]) -> None:
        self.key, self.choices = key, choices


@dataclasses.dataclass(frozen=True)
class Late:
    """Mark of an object with the keys of ``module:Dataclass``, whose module loads slowly."""

    options: str


class SectionKey(NamedTuple):
    """A key of a section: its type, its default (``MISSING``: needed), what it is."""

    hint: Any
    default: Any
    words: str


def is_section(hint: Any) -> bool:
    """Return whether a type is a section or the options of a job."""
    return isinstance(hint, type) and (
        issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint)
    )


_DESCRIBED = (r"^(\w+) : [^\n]*\n((?:[ ]{4}[^\n]*\n?|\n)+)", r"^(\w+):( .*(?:\n {4}.*)*)")


def _descriptions(kind: type) -> dict[str, str]:
    """Read what docstrings say of each field, as one line: ``key: …``, or as numpydoc has it."""
    described: dict[str, str] = {}
    for part in reversed(kind.__mro__):  # a class says only what it adds to its base
        text = inspect.cleandoc(part.__doc__ or "")
        for pattern in _DESCRIBED:
            found = re.findall(pattern, text, flags=re.MULTILINE)
            described |= {name: " ".join(sample_set.split()) for name, sample_set in found}
    return described


@cache
def keys_of(kind: Any) -> dict[str, SectionKey]:
    """List the keys of a section or of the options of a job."""
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        held = {name: MISSING if f.is_required() else f.default for name, f in fields}
    else:
        held = {one.name: one.default for one in dataclasses.fields(kind)}
    hints, words = typing.get_type_hints(kind, include_extras=True), _descriptions(kind)
    return {name: SectionKey(hints[name], held[name], words.get(name, "")) for name in held}


def alternatives(hint: Any) -> list[Any]:
    """List the types that a type leaves the choice of, without their limits."""
    if typing.get_origin(hint) is Annotated:
        return alternatives(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [found for part in typing.get_args(hint) for found in alternatives(part)]
    return [hint]


def variants(hint: Any) -> tuple[str, dict[str, type]] | None:
    """Return the key that distinguishes options, and them by its value; None without one."""
    kinds = alternatives(hint)
    if len(kinds) < 2 or not all(map(is_section, kinds)):
        return None
    key = next(iter(keys_of(kinds[0])))
    return key, {typing.get_args(keys_of(kind)[key].hint)[0]: kind for kind in kinds}


# ---- reading ----


_adapter = cache(TypeAdapter)


def read_section(kind: Any, values: object, where: str = "") -> Any:
    """Check what a user gave for a section or for the options of a job, at a path of keys."""
    # As JSON, in which a list is a tuple's; what YAML has besides fits no key.
    text = json.dumps(values, default=lambda value: {str(value): None})
    try:
        return _adapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        raise InputError("; ".join(_explain(kind, values, error, where))) from error
    except InputError as error:
        raise InputError(f"config: {error}") from error


def _explain(kind: type, given: Any, error: ValidationError, where: str) -> list[str]:
    """Say in a line each which keys are wrong, how, and what is allowed."""
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for one in error.errors(include_url=False):
        path, value = _place(given, one["loc"])
        key, text = _describe(kind, dict(one), value)
        said, _, expected = text.partition(", expected ")
        found.setdefault((*path, *key), {}).setdefault(said, []).append(expected)
    lines = []
    for place, texts in sorted(found.items()):
        name = ".".join(filter(None, [where, *place])) or "the top level"
        for said, allowed in texts.items():
            if not any(allowed):
                lines.append(f"config: {name}: {said}")
            elif not any(other[: len(place)] == place for other in found if other != place):
                # of several alternatives, the one that came closest
                words = " or ".join(dict.fromkeys(allowed))
                lines.append(f"config: {name}: {said}, expected {words}")
    return lines


def _place(given: Any, location: Sequence[str | int]) -> tuple[list[str], Any]:
    """Follow an error's place, which names alternatives too, in what was given."""
    path: list[str] = []
    for part in location:
        if part in given if isinstance(given, dict) else isinstance(given, list):
            path.append(str(part))
            given = given[part]
    return path, given


def _describe(kind: type, error: dict[str, Any], value: Any) -> tuple[list[str], str]:
    """Return what to add to the path of an error, and the text, which names what is allowed."""
    what, location, said = error["type"], error["loc"], error.get("ctx", {})
    if what in ("extra_forbidden", "unexpected_keyword_argument"):
        allowed = sorted(keys_of(_kind_at(kind, location[:-1])))
        hint = hint_for(str(location[-1]), allowed)
        return [], f"unknown key{hint}; allowed are {', '.join(allowed) or 'none'}"
    if what in ("missing", "union_tag_not_found"):
        name = location[-1] if what == "missing" else said["discriminator"].strip("'")
        return [], f"key '{name}' is missing"
    if what == "union_tag_invalid":
        key = [said["discriminator"].strip("'")]
        return key, f"is {said['tag']!r}, expected one of {said['expected_tags']}"
    if what == "value_error":
        return [], str(said["error"])
    if location[-1:] == ("[key]",):
        value = location[-2]
    words: str = error["msg"]
    return [], f"is {value!r:.200}, expected {words.removeprefix('Input should be ')}"


def _kind_at(kind: type, location: Sequence[str | int]) -> type:
    """Return the section or options that an error's place leads to."""
    hints: list[Any] = [kind]
    for part in location:
        sections = [hint for hint in hints if is_section(hint)]
        found = [one for one in sections if part in (one.__name__, *_values_of(one))]
        for hint in hints:
            parts = typing.get_args(hint)
            if is_section(hint) and part in keys_of(hint):
                found += alternatives(keys_of(hint)[part].hint)
            elif typing.get_origin(hint) is dict:
                found += alternatives(parts[1])
            elif parts and isinstance(part, int):
                found += alternatives(parts[0])
        hints = found or hints
    return next(hint for hint in hints if is_section(hint))


def _values_of(kind: type) -> tuple[Any, ...]:
    """Return the values of the first key of options, by which they may be distinguished."""
    first = next(iter(keys_of(kind).values()), None)
    return typing.get_args(first.hint) if first and typing.get_origin(first.hint) is Literal else ()


def read_late(options: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check options, ``module:Dataclass``, and add their defaults; once, as torch loads slowly."""

    def read() -> dict[str, Any]:
        kind = resolve_name(options)
        read_section(kind, given, where)
        return {**defaults_of(kind), **given}

    asked = json.dumps(given, sort_keys=True, default=str)
    return dict(remembered(f"options {options} {fingerprint(options)} {asked}", read))


# ---- defaults ----


def defaults_of(kind: Any) -> dict[str, Any]:
    """Return the defaults of a section or of the options of a job, as JSON has them."""
    held = {name: key.default for name, key in keys_of(kind).items()}
    return {name: plain(value) for name, value in held.items() if value is not MISSING}


def is_filled(kind: type, name: str) -> bool:
    """Return whether the default of a key is written into the configuration."""
    if issubclass(kind, BaseModel):
        return True
    return issubclass(kind, Section) and name not in kind.left_out


def fill(given: Any, read: Any) -> None:
    """Write the defaults of sections into what a user gave, in place, which else stays as it is: an
    integer does not become a float."""
    kind: Any = type(read)
    if isinstance(read, Mapping):
        for name, held in read.items():
            fill(given[name], held)
    elif is_section(kind):
        for name in keys_of(kind):
            value = getattr(read, name)
            if name not in given and value is not OMITTED and is_filled(kind, name):
                given[name] = plain(value)
            if name in given:
                fill(given[name], value)


def plain(value: Any) -> Any:
    """Return a default as JSON has it; of options, what is not the default of its key."""
    kind: Any = type(value)
    if is_section(kind):
        held = ((name, getattr(value, name), key) for name, key in keys_of(kind).items())
        return {name: plain(item) for name, item, key in held if item != key.default}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
