"""Arguments of commands: what a wrong value says, and that every command has bounds for all.

Oracles: the bounds that are written down here; every command's own parser, whose options are fed
hostile values by hypothesis: each ends with one line, status 1 or 2, and nothing on the disk.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from beyond_perplexity.__main__ import SUBCOMMANDS
from beyond_perplexity.arguments import (
    ITEM,
    SEED,
    THREADS,
    CommandParser,
    output_file,
    output_folder,
    output_path,
    real,
    whole,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import json_object
from beyond_perplexity.storage.fingerprint import ROOT

SCRIPTS = sorted(path.stem for path in (ROOT / "scripts").glob("[!_]*.py"))
COMMANDS = [*SCRIPTS, *(name.replace("-", "_") for name in SUBCOMMANDS if name != "run")]
FILTERS = {
    "audit",
    "tokenize",
    "progress",
    "provenance",
}  # whose options are checked when they are used
OUTPUTS = {output_file, output_path, output_folder}


def parse(*flags: str, kind=ITEM) -> object:
    parser = CommandParser(prog="x")
    parser.add_argument("--number", type=kind)
    return parser.parse_args(flags).number


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SEED, "0", 0),
        (SEED, str(2**63 - 1), 2**63 - 1),
        (ITEM, str(2**62 - 1), 2**62 - 1),
        (THREADS, "4_096", 4096),
        (whole(1, 3), "+3", 3),
        (whole(-5), "-5", -5),
        (real(above=0), "1e-300", 1e-300),
        (real(minimum=0, below=1), "0", 0.0),
    ],
)
def test_numbers_within_bounds(kind, text: str, value: float) -> None:
    assert parse("--number", text, kind=kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (SEED, "-1", "is -1, expected at least 0"),
        (SEED, str(2**63), f"is {2**63}, expected at most 9,223,372,036,854,775,807"),
        (ITEM, str(2**63 - 1), "expected at most 4,611"),
        (ITEM, "9" * 5_000, "expected a whole number"),
        (THREADS, "0", "is 0, expected at least 1"),
        (THREADS, "4097", "expected at most 4,096"),
        (whole(), "1.0", "is '1.0', expected a whole number"),
        (whole(), "1e3", "expected a whole number"),
        (whole(), "", "is '', expected a whole number"),
        (whole(), "1__0", "expected a whole number"),
        (whole(), "٣", "expected a whole number"),
        (whole(), "nan", "expected a whole number"),
        (real(above=0), "nan", "is nan, expected a finite number"),
        (real(above=0), "1e999", "is 1e999, expected a finite number"),
        (real(above=0), "0", "is 0, expected above 0"),
        (real(above=0.5, below=1), "1", "is 1, expected above 0.5 and below 1"),
        (real(minimum=0), "-1e-9", "is -1e-9, expected at least 0"),
        (real(), "x", "is 'x', expected a number"),
    ],
)
def test_numbers_out_of_bounds_name_the_flag(kind, text: str, words: str) -> None:
    with pytest.raises(InputError) as found:
        parse(f"--number={text}", kind=kind)
    assert str(found.value).startswith("--number: is ")
    assert words in str(found.value)


def test_usage_is_how_the_command_was_called(monkeypatch) -> None:
    for called, usage in (
        ("/a b/scripts/train.py", "usage: python -m scripts.train [-h]"),
        ("beyond-perplexity compare", "usage: beyond-perplexity compare [-h]"),
    ):
        monkeypatch.setattr("sys.argv", [called])
        assert CommandParser().format_usage().strip() == usage


def test_wrong_use_is_status_2(capsys) -> None:
    for flags in (["--other", "1"], ["--number"]):
        with pytest.raises(SystemExit) as ended:
            parse(*flags)
        assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("given_text", ['{"a": NaN}', '{"a": -Infinity}', "[1]", "{", "[" * 10**5])
def test_options_that_are_no_json(given_text: str) -> None:
    with pytest.raises(InputError, match="no JSON"):
        json_object(given_text)


def test_outputs_do_not_write_over_each_other_or_an_input(tmp_path: Path) -> None:
    parser = CommandParser(prog="x")
    parser.add_argument("--weights", nargs="+")
    parser.add_argument("--name")
    parser.add_argument("--csv", type=output_path)
    parser.add_argument("--output", nargs="+", type=output_file)
    (tmp_path / "w").write_text("")
    (tmp_path / "link").symlink_to("w")
    flags = ["--weights", str(tmp_path / "w"), "--csv", str(tmp_path / "c")]
    held = parser.parse_args([*flags, "--output", str(tmp_path / "a"), str(tmp_path / "b")])
    assert held.csv == tmp_path / "c"
    with pytest.raises(InputError, match="--csv and --output: both write"):
        parser.parse_args([*flags, "--output", str(tmp_path / "x/../c")])
    with pytest.raises(InputError, match=r"--output and --weights: both name .*w, which would be"):
        parser.parse_args([*flags, "--output", str(tmp_path / "link")])


def module_of(command: str) -> ModuleType:
    folder = "scripts" if command in SCRIPTS else "beyond_perplexity.commands"
    return importlib.import_module(f"{folder}.{command}")


def actions(command: str, monkeypatch) -> list[argparse.Action]:
    """Return the options of a command, as it declares them."""
    found: list[argparse.Action] = []

    class Declared(Exception):  # noqa: N818
        pass

    def stop(parser: CommandParser, *_: object) -> None:
        found.extend(parser._actions)
        raise Declared

    module = module_of(command)
    with monkeypatch.context() as patched:
        patched.setattr(CommandParser, "parse_args", stop)
        with pytest.raises(Declared):
            module.main()
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_numbers_and_outputs_have_their_types(command: str, monkeypatch) -> None:
    """No bare int or float; what a help text calls a file to write is checked as one."""
    held = actions(command, monkeypatch)
    for action in held:
        assert action.type not in (int, float), action.option_strings
        if "to write" in (action.help or ""):
            assert action.type in OUTPUTS, action.option_strings
    if command not in FILTERS:
        assert any(action.type in OUTPUTS for action in held)
