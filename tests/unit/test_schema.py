"""The schema of dataclasses: what each part of a type, a default and a docstring becomes.

The oracle is JSON schema written by hand; what it lets through is judged by `jsonschema`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Literal

import pytest
from jsonschema import Draft202012Validator

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import OMITTED, Limit, Section, parse_options
from beyond_perplexity.planning.schema import NAME, Definitions, DependsOn, render_schema


@dataclass(frozen=True)
class Engine:
    """Options of a job.

    Attributes
    ----------
    kind : "engine"
        With an engine.
    power : int or None
        In watts;
        null: unknown.
    gears : tuple of int
        Teeth of each.
    """

    kind: Literal["engine"]
    power: int | None = None
    gears: tuple[int, ...] = (3, 5)


@dataclass(frozen=True)
class Sail:
    """Options of another.

    Attributes
    ----------
    kind : "sail"
        With a sail.
    """

    kind: Literal["sail"]


@dataclass(frozen=True)
class Harbour(Section):
    """A section.

    Attributes
    ----------
    piers : int
        Its piers.
    depth : float
        In metres.
    """

    left_out = ("depth",)

    piers: Annotated[int, Limit(minimum=1)]
    depth: float = 2.5


@dataclass(frozen=True, kw_only=True)
class Fleet(Section):
    """A fleet.

    Not a part of the title.

    Attributes
    ----------
    flag : str
        Its flag.
    boats : dict of str to Engine or Sail
        By name.
    harbour : Harbour
        Where it lies.
    rule : str
        How it sails.
    details : dict
        What the rule needs.
    ports : list of str or None
        Where it goes.
    """

    flag: str = OMITTED
    boats: dict[str, Engine | Sail]
    harbour: Harbour = field(default_factory=lambda: Harbour(4))
    rule: Annotated[str, Limit(enum=("free", "racing"))] = "free"
    details: Annotated[dict, DependsOn("rule", {"free": None, "racing": Engine})] = field(
        default_factory=dict
    )
    ports: Annotated[tuple[str, ...] | None, Limit(uniqueItems=True)] = None


def test_types_limits_defaults_and_descriptions_stand_in_the_schema():
    schema = render_schema(Fleet)
    assert schema["title"] == "A fleet."
    assert schema["required"] == ["boats"]
    assert schema["properties"]["flag"] == {"description": "Its flag.", "type": "string"}
    assert schema["properties"]["harbour"] == {
        "description": "Where it lies.",
        "$ref": "#/$defs/Harbour",
        "default": {"piers": 4},
    }
    assert schema["properties"]["rule"] == {
        "description": "How it sails.",
        "enum": ["free", "racing"],
        "default": "free",
    }
    assert schema["properties"]["ports"] == {
        "description": "Where it goes.",
        "type": ["array", "null"],
        "items": {"type": "string"},
        "uniqueItems": True,
        "default": None,
    }
    assert schema["properties"]["boats"]["propertyNames"] == {"pattern": NAME}
    assert schema["$defs"]["Harbour"]["properties"] == {
        "piers": {"description": "Its piers.", "type": "integer", "minimum": 1},
        "depth": {"description": "In metres. Default: 2.5.", "type": "number", "x-default": 2.5},
    }
    assert schema["$defs"]["Engine"]["properties"]["power"] == {
        "description": "In watts; null: unknown.",
        "type": ["integer", "null"],
        "x-default": None,
    }
    assert schema["$defs"]["Engine"]["properties"]["gears"]["x-default"] == [3, 5]


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({}, True),
        ({"boats": {"a": {"kind": "sail"}, "b": {"kind": "engine", "power": None}}}, True),
        ({"boats": {"a": {"kind": "sail", "power": 3}}}, False),
        ({"boats": {"a": {"kind": "oars"}}}, False),
        ({"boats": {"a": {}}}, False),
        ({"boats": {"a/b": {"kind": "sail"}}}, False),
        ({"rule": "racing", "details": {"kind": "engine"}}, True),
        ({"rule": "racing", "details": {}}, False),
        ({"rule": "free", "details": {"kind": "engine"}}, False),
        ({"rule": "slow"}, False),
        ({"harbour": {"piers": 0}}, False),
        ({"harbour": {}}, False),
        ({"ports": ["x", "x"]}, False),
        ({"flag": None}, False),
        ({"flags": "x"}, False),
    ],
)
def test_the_schema_refuses_what_the_dataclasses_do_not_say(changes, valid):
    given = {"boats": {}, "rule": "free", **changes}
    assert Draft202012Validator(render_schema(Fleet)).is_valid(given) is valid


def test_a_field_without_a_description_is_an_error():
    with pytest.raises(ValueError, match=r"Bare: the docstring does not describe 'size'"):
        Definitions().refer(make_dataclass("Bare", [("size", int)]))


def test_two_dataclasses_of_one_name_are_an_error():
    definitions = Definitions()
    definitions.refer(Sail)
    with pytest.raises(ValueError, match=r"Sail: two dataclasses"):
        definitions.refer(make_dataclass("Sail", []))


def test_a_table_of_names_limits_what_is_parsed():
    assert parse_options(Fleet, {"boats": {}, "rule": "racing"}, "fleet").rule == "racing"
    with pytest.raises(InputError, match=r"fleet\.rule: is 'slow', expected one of 'free', 'ra"):
        parse_options(Fleet, {"boats": {}, "rule": "slow"}, "fleet")
    with pytest.raises(InputError, match=r"h\.piers: is 'x', expected int"):
        parse_options(Harbour, {"piers": "x"}, "h")
