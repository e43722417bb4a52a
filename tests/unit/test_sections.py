"""Sections: what each part of a type, a default and a docstring becomes, and what is refused.

The oracle are values, defaults and rows of the page of keys written by hand.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import OMITTED, Limit, Section, parse_options
from beyond_perplexity.planning import sections
from scripts.update_configuration_page import render
from tests.unit.evaluator_oracles import check_refused


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

    kind: With a sail.
    """

    kind: Literal["sail"]


@dataclass(frozen=True)
class Harbour(Section):
    """A section.

    piers: Its piers.
    depth: In
        metres.
    """

    left_out = ("depth",)

    piers: Annotated[int, Limit(minimum=1)]
    depth: float = 2.5


class Fleet(sections.SectionModel):
    """A fleet.

    flag: Its flag.
    boats: By name.
    harbour: Where it lies.
    rule: How it sails.
    details: What the rule needs.
    ports: Where it goes.
    """

    flag: str = OMITTED
    boats: dict[sections.Name, Annotated[Engine | Sail, Field(discriminator="kind")]]
    harbour: Harbour = Harbour(4)
    rule: Annotated[str, Limit(enum=("free", "racing"))] = "free"
    details: Annotated[
        dict[str, Any], sections.DependsOn("rule", {"free": None, "racing": Engine})
    ] = sections.NO_NAMES
    ports: Annotated[tuple[str, ...], Limit(uniqueItems=True)] | None = None


def test_types_limits_defaults_and_descriptions_stand_on_the_page():
    begin = ("| `", "## ", "- ")
    _, *rows = [line for line in render(Fleet).splitlines() if line.startswith(begin)]
    assert rows == [
        "| `flag` | string |  | Its flag. |",
        "| `boats` | by name: [boats.NAME](#boatsname) | **needed** | By name. |",
        '| `harbour` | [harbour](#harbour) | `{"piers": 4}` | Where it lies. |',
        "| `rule` | `free`, `racing` | `free` | How it sails. |",
        "| `details` | object | `{}` | What the rule needs. |",
        "| `ports` | list of string, or null | `null` | Where it goes. |",
        "- `rule: free`: `details` is [details (rule: free)](#details-rule-free)",
        "- `rule: racing`: `details` is [details (rule: racing)](#details-rule-racing)",
        "## boats.NAME",
        "| `kind` | `engine`, `sail` | **needed** | engine: With an engine. sail: With a sail. |",
        "- `kind: engine`: [details (rule: racing)](#details-rule-racing)",
        "- `kind: sail`: [boats.NAME (kind: sail)](#boatsname-kind-sail)",
        "## harbour",
        "| `piers` | integer, at least 1 | **needed** | Its piers. |",
        "| `depth` | number | `2.5` | In metres. |",
        "## details (rule: free)",
        "## details (rule: racing)",
        "| `kind` | `engine` | **needed** | With an engine. |",
        "| `power` | integer or null | `null` | In watts; null: unknown. |",
        "| `gears` | list of integer | `[3, 5]` | Teeth of each. |",
        "## boats.NAME (kind: sail)",
        "| `kind` | `sail` | **needed** | With a sail. |",
    ]


def test_defaults_of_sections_are_written_out_and_those_of_jobs_are_not():
    given: dict[str, Any] = {"boats": {"a": {"kind": "engine"}}}
    sections.fill(given, sections.read_section(Fleet, given))
    filled = {"boats": {"a": {"kind": "engine"}}, "harbour": {"piers": 4}, "rule": "free"}
    assert given == filled | {"details": {}, "ports": None}
    given = {"boats": {}, "harbour": {"piers": 2, "depth": 3}, "ports": ["x"]}
    sections.fill(given, sections.read_section(Fleet, given))
    assert (given["harbour"], given["ports"]) == ({"piers": 2, "depth": 3}, ["x"])
    assert isinstance(given["harbour"]["depth"], int)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, ""),
        ({"boats": {"a": {"kind": "sail"}, "b": {"kind": "engine", "power": None}}}, ""),
        (
            {"boats": {"a": {"kind": "sail", "power": 3}}},
            "boats.a.power: unknown key; allowed are kind",
        ),
        ({"boats": {"a": {"kind": "oars"}}}, "boats.a.kind: is 'oars', expected one of 'engine',"),
        ({"boats": {"a": {}}}, "boats.a: key 'kind' is missing"),
        ({"boats": {"a/b": {"kind": "sail"}}}, "boats.a/b: is "),
        ({"rule": "slow"}, "rule: is 'slow', expected 'free' or 'racing'"),
        ({"harbour": {"piers": 0}}, "harbour.piers: is 0, expected greater than or equal to 1"),
        ({"harbour": {"piers": 1.0}}, "harbour.piers: is 1.0, expected a valid integer"),
        (
            {"harbour": {"depth": "x"}},
            "harbour: key 'piers' is missing; config: harbour.depth: is ",
        ),
        ({"ports": ["x", "x"]}, "ports: has 'x' twice"),
        ({"ports": 3}, "ports: is 3, expected a valid array"),
        ({"flag": None}, "flag: is None, expected a valid string"),
        ({"flags": "x"}, "flags: unknown key; did you mean 'flag'?; allowed are boats, details, "),
    ],
)
def test_what_the_types_do_not_say_is_refused(changes, refused):
    given = {"boats": {}, "rule": "free", **changes}
    if not refused:
        assert sections.read_section(Fleet, given).rule == "free"
        return
    with pytest.raises(InputError) as error:
        sections.read_section(Fleet, given)
    assert str(error.value).startswith(f"config: {refused}")


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        *(({"kind": "engine"}, ""), ({}, "d: key 'kind' is missing")),
        ({"kind": "engine", "k": 1}, "d.k: "),
    ],
)
def test_options_of_a_job_are_read_at_their_path(given, refused):
    if not refused:
        assert sections.read_section(Engine, given, "d") == Engine("engine")
        return
    check_refused(f"config: {refused}", sections.read_section, Engine, given, "d")


def test_fields_need_a_description_and_tables_of_names_limit_what_is_parsed():
    class Bare(sections.SectionModel):
        size: int

    with pytest.raises(ValueError, match=r"Top level: no docstring describes 'size'"):
        render(Bare)

    @dataclass(frozen=True)
    class Race:
        rule: Annotated[str, Limit(enum=("free", "racing"))]

    assert parse_options(Race, {"rule": "racing"}, "race").rule == "racing"
    with pytest.raises(InputError, match=r"race\.rule: is 'slow', expected one of 'free', 'ra"):
        parse_options(Race, {"rule": "slow"}, "race")
    check_refused(r"h\.piers: is 'x', expected int", parse_options, Harbour, {"piers": "x"}, "h")
