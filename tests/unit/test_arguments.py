"""Arguments of commands: what a wrong value says, and that every command has bounds for all.

Oracles: bounds written down here; the contract of `run_command` (status 0, 1 or 2; with 1 one line
of error) on hostile values of every option by hypothesis, and nothing left on the disk.
"""

import importlib
import io
import json
import os
import sys
import tempfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beyond_perplexity import __main__, arguments, options
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.models.registry import find, save_model
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.test_contrastive import write_documents

SCRIPTS = sorted(path.stem for path in (ROOT / "scripts").glob("[!_]*.py"))
COMMANDS = [*SCRIPTS, *(name.replace("-", "_") for name in __main__.SUBCOMMANDS if name != "run")]
FILTERS = {"audit", "tokenize", "progress", "provenance"}  # which write no file
OUTPUTS = {arguments.output_file, arguments.output_path, arguments.output_folder}


def main_function(command):
    if command in SCRIPTS:
        return importlib.import_module(f"scripts.{command}").main
    return __main__.main_of(command.replace("_", "-"))


def parse(*flags, kind=arguments.ITEM):
    parser = arguments.CommandParser(prog="x")
    parser.add_argument("--number", type=kind)
    return parser.parse_args(flags).number


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *((arguments.SEED, "0", 0), (arguments.SEED, str(2**63 - 1), 2**63 - 1)),
        *((arguments.ITEM, str(2**62 - 1), 2**62 - 1), (arguments.THREADS, "4_096", 4096)),
        *((arguments.whole(1, 3), "+3", 3), (arguments.whole(-5), "-5", -5)),
        (arguments.real(above=0), "1e-300", 1e-300),
        (arguments.real(minimum=0, below=1), "0", 0.0),
    ],
)
def test_numbers_within_bounds(kind, text, value):
    assert parse("--number", text, kind=kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (arguments.SEED, "-1", "is -1, expected at least 0"),
        (arguments.SEED, str(2**63), f"is {2**63}, expected at most 9,223,372,036,854,775,807"),
        (arguments.ITEM, str(2**63 - 1), "expected at most 4,611"),
        (arguments.ITEM, "9" * 5_000, "expected a whole number"),
        (arguments.THREADS, "0", "is 0, expected at least 1"),
        (arguments.THREADS, "4097", "expected at most 4,096"),
        (arguments.whole(), "1.0", "is '1.0', expected a whole number"),
        (arguments.whole(), "1e3", "expected a whole number"),
        (arguments.whole(), "", "is '', expected a whole number"),
        (arguments.whole(), "1__0", "expected a whole number"),
        (arguments.whole(), "٣", "expected a whole number"),
        (arguments.whole(), "nan", "expected a whole number"),
        (arguments.real(above=0), "nan", "is nan, expected a finite number"),
        (arguments.real(above=0), "1e999", "is 1e999, expected a finite number"),
        (arguments.real(above=0), "0", "is 0, expected above 0"),
        (arguments.real(above=0.5, below=1), "1", "is 1, expected above 0.5 and below 1"),
        (arguments.real(minimum=0), "-1e-9", "is -1e-9, expected at least 0"),
        (arguments.real(), "x", "is 'x', expected a number"),
    ],
)
def test_numbers_out_of_bounds_name_the_flag(kind, text, words):
    with pytest.raises(InputError) as found:
        parse(f"--number={text}", kind=kind)
    assert str(found.value).startswith("--number: is ")
    assert words in str(found.value)


def test_usage_is_how_the_command_was_called_and_wrong_use_is_status_2(monkeypatch, capsys):
    for called, usage in (
        ("/a b/scripts/train.py", "usage: python -m scripts.train [-h]"),
        ("beyond-perplexity compare", "usage: beyond-perplexity compare [-h]"),
    ):
        monkeypatch.setattr("sys.argv", [called])
        assert arguments.CommandParser().format_usage().strip() == usage
    for flags in (["--other", "1"], ["--number"]):
        with pytest.raises(SystemExit) as ended:
            parse(*flags)
        assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("given_text", ['{"a": NaN}', '{"a": -Infinity}', "[1]", "{", "[" * 10**5])
def test_options_that_are_no_json(given_text):
    check_refused("no JSON", options.json_object, given_text)


def test_outputs_do_not_write_over_each_other_or_an_input(tmp_path):
    parser = arguments.CommandParser(prog="x")
    parser.add_argument("--weights", nargs="+")
    parser.add_argument("--name")
    parser.add_argument("--csv", type=arguments.output_path)
    parser.add_argument("--output", nargs="+", type=arguments.output_file)
    (tmp_path / "w").write_text("")
    (tmp_path / "link").symlink_to("w")
    flags = ["--weights", str(tmp_path / "w"), "--csv", str(tmp_path / "c")]
    held = parser.parse_args([*flags, "--output", str(tmp_path / "a"), str(tmp_path / "b")])
    assert held.csv == tmp_path / "c"
    with pytest.raises(InputError, match="--csv and --output: both write"):
        parser.parse_args([*flags, "--output", str(tmp_path / "x/../c")])
    with pytest.raises(InputError, match=r"--output and --weights: both name .*w, which would be"):
        parser.parse_args([*flags, "--output", str(tmp_path / "link")])


def actions(command, monkeypatch):
    found = []

    class Declared(Exception):  # noqa: N818
        pass

    def stop(parser, *_, **__):
        found.extend(parser._actions)
        raise Declared

    with monkeypatch.context() as patched:
        patched.setattr(arguments.CommandParser, "parse_args", stop)
        with pytest.raises(Declared):
            main_function(command)()
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_numbers_and_outputs_have_their_types(command, monkeypatch):
    """No bare int or float; what a help text calls a file to write is checked as one."""
    held = actions(command, monkeypatch)
    for action in held:
        assert action.type not in (int, float), action.option_strings
        if "to write" in (action.help or ""):
            assert action.type in OUTPUTS, action.option_strings
    if command not in FILTERS:
        assert any(action.type in OUTPUTS for action in held)


EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))  # of each command
WORDS = ["a", "b", "c", "."]
NUMBERS = ["0", "1", "2", "7", "-1", str(2**31), str(2**63 - 1), str(2**64), "9" * 5_000, ""]
NUMBERS += ["nan", "inf", "-inf", "1e308", "1e-320", "0x10", "1.5", "٣", "--"]
OBJECTS = ["{}", "[]", "", "{", "null", '{"a": NaN}', '{"\\u0000": 1}', "[" * 20_000]
OBJECTS += ['{"a": ' + "9" * 5_000 + "}", '{"kind": "ancestral"}']
OBJECTS += ['{"kind": "nucleus", "mass": 1e308}']
OBJECTS += ['{"temperatures": [0, -1, 1e308]}', '{"samples": -1, "particles": 0, "uniform": 2}']
OBJECTS += ['{"permutations": -1}', '{"family": "none"}', '{"0.1": [0, 2]}', '{"mine": ["path"]}']
OBJECTS += [
    '{"source": {"format": "text", "paths": ["none\\u001b[31m"]}}',
    '{"family": "lstm", "architecture": {"embedding_size": 8, "hidden_size": 12, "layers": 1}}',
]
NAMES = ["a", "", "-", "é\u202e", "a\nb", "$x^{", "<b>", "\udcff", "train", "test", "cpu", "cuda:9"]
FILES = ["documents.parquet", "words.json", "text.txt", "empty", "bytes", "lstm", "none", "."]
FILES += ["lstm/model.json", "lstm/model.safetensors", "x" * 300, "text.txt/below", "new\nline"]
PLACES = ["o.parquet", "o.csv", "o.svg", "new/o.json", ".", "text.txt/below", "x" * 300]
PLACES += ["/dev/full"]
# What most commands can use; without it few would come as far as their work.
PLAUSIBLE = {
    **dict.fromkeys(["documents", "reference_documents", "sample_documents"], "documents.parquet"),
    **dict.fromkeys(["input", "inputs", "scores", "predictions"], "documents.parquet"),
    **dict.fromkeys(["model", "latent", "proposal", "evaluator"], "lstm"),
    **dict.fromkeys(["vocabulary", "substitutes", "vocabularies"], "words.json"),
    **dict.fromkeys(["text", "texts", "samples", "originals", "references"], "text.txt"),
    "paths": "text.txt",
    "corpus": ".",
}
USUAL = {
    "decoding": '{"kind": "ancestral"}',
    "versions": '{"0.1": [0, 2]}',
    "config": '{"source": {"format": "text", "paths": ["none"]}}',
    **dict.fromkeys(["split", "splits"], "test"),
    **dict.fromkeys(["name", "names"], "a"),
    "device": "cpu",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_documents(folder / "documents.parquet", ["a b c .", "c b a zz .", "a a b ."] * 4)
    vocabulary = ClosedVocabulary(WORDS, 1)
    vocabulary.save(folder / "words.json")
    (folder / "text.txt").write_text("a b c .\n\nb \x1b[31m c\n")
    (folder / "empty").write_text("")
    (folder / "bytes").write_bytes(bytes(range(256)) * 3)
    architecture = {"embedding_size": 4, "hidden_size": 4, "layers": 1}
    model = find("lstm")(vocabulary_size=vocabulary.size, architecture=architecture)
    save_model(folder / "lstm", model, vocabulary, {})
    return folder


def values(action, home):
    """Return what an option may be given, in the folder ``OUT`` where it is written."""
    usual = _usual(action, home)
    often = [st.just(usual)] * (3 if usual is not None else 0)
    return st.one_of(*often, hostile(action, home))


def _usual(action, home):
    if action.dest in USUAL:
        return USUAL[action.dest]
    if action.dest in PLAUSIBLE:
        return str(home / PLAUSIBLE[action.dest])
    if action.type in (arguments.output_file, arguments.output_path, arguments.output_folder):
        return f"OUT/{action.dest}.parquet"
    if action.type is options.json_object:
        return "{}"
    return "2" if callable(action.type) and action.type is not Path else None


def hostile(action, home):
    """Return what an option may be given that it cannot use, or can in spite of all."""
    if action.choices:
        return st.sampled_from([*map(str, action.choices), "none"])
    if action.type in (arguments.output_file, arguments.output_path, arguments.output_folder):
        return st.sampled_from([place if place[0] == "/" else f"OUT/{place}" for place in PLACES])
    if action.type is options.json_object:
        return st.one_of(st.sampled_from(OBJECTS), st.text(max_size=5).map(json.dumps))
    if callable(action.type) and action.type is not Path:
        return st.one_of(st.sampled_from(NUMBERS), st.integers().map(str))
    files = st.sampled_from([str(home / name) for name in FILES])
    return st.one_of(files, st.sampled_from(NAMES))


@st.composite
def command_lines(draw, declared, home):
    """Draw a value or several for all options that are required, and for some of the others."""
    line = []
    for action in declared:
        if action.dest == "help" or not (action.required or draw(st.booleans())):
            continue
        if action.nargs == 0:
            line.append(action.option_strings[0])
            continue
        several = action.nargs if isinstance(action.nargs, int) else 1
        if action.nargs in ("+", "*"):
            several = draw(st.integers(1, 2))
        held = [draw(values(action, home)) for _ in range(several)]
        flag = action.option_strings[0] if action.option_strings else None
        line += [flag, *held] if flag and several != 1 else [f"{flag}={held[0]}"] if flag else held
    return line


@contextmanager
def nothing_of_the_process_changes(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(torch, "set_num_threads", lambda number: None)
        patched.setattr(os, "environ", dict(os.environ))
        # A comparison draws its figures for seconds; test_compare looks at them.
        patched.setattr("beyond_perplexity.report.comparison_page.draw_figures", lambda found: {})
        yield


def run(command, line):
    said, before = io.StringIO(), sys.argv
    sys.argv = [command, *line]
    try:
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            run_command(main_function(command))
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue()
    finally:
        sys.argv = before
    return 0, said.getvalue()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"update_configuration_page"}))
def test_no_option_breaks_a_command(command, home, monkeypatch):
    declared = actions(command, monkeypatch)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(command_lines(declared, home))
    def check(line):
        with tempfile.TemporaryDirectory() as out:
            line = [part.replace("OUT/", f"{out}/") for part in line]
            with nothing_of_the_process_changes(monkeypatch):
                status, said = run(command, line)
            assert status in (0, 1, 2), said
            last = said.strip("\n").split("\n")[-1] + "\n"
            if status == 1:
                assert last.startswith("error: "), said
                assert len(last) < 2_100
                assert last[:-1].isprintable(), last
            left = [path.name for path in Path(out).rglob("*")]
            assert not [name for name in left if name.startswith(".")], left

    check()
