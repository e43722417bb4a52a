"""Every command with hostile values of all its options: one line, or a result, and no traceback.

Hypothesis chooses, for each option that a command declares, among values that it can use and
values that it cannot. Oracle: the contract of `run_command` (status 0, 1 or 2; with 1 one line that
begins with "error: "), and the folder's listing: no temporary file is left, and of a command that
failed at its options no file at all.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beyond_perplexity.arguments import output_file, output_folder, output_path
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.registry import find, save_model
from beyond_perplexity.options import json_object
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.test_arguments import COMMANDS, actions, module_of
from tests.unit.test_contrastive import write_documents

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))  # of each command
WORDS = ["a", "b", "c", "."]
NUMBERS = ["0", "1", "2", "7", "-1", str(2**31), str(2**63 - 1), str(2**64), "9" * 5_000, ""]
NUMBERS += ["nan", "inf", "-inf", "1e308", "1e-320", "0x10", "1.5", "٣", "--"]
OBJECTS = [
    "{}",
    "[]",
    "",
    "{",
    "null",
    '{"a": NaN}',
    '{"\\u0000": 1}',
    "[" * 20_000,
    '{"a": ' + "9" * 5_000 + "}",
    '{"kind": "ancestral"}',
    '{"kind": "nucleus", "mass": 1e308}',
    '{"temperatures": [0, -1, 1e308]}',
    '{"samples": -1, "particles": 0, "uniform": 2}',
    '{"permutations": -1}',
    '{"source": {"format": "text", "paths": ["none\\u001b[31m"]}}',
    '{"family": "lstm", "architecture": {"embedding_size": 8, "hidden_size": 12, "layers": 1}}',
    '{"family": "none"}',
    '{"0.1": [0, 2]}',
    '{"mine": ["path"]}',
]
NAMES = ["a", "", "-", "é\u202e", "a\nb", "$x^{", "<b>", "\udcff", "train", "test", "cpu", "cuda:9"]
FILES = ["documents.parquet", "words.json", "text.txt", "empty", "bytes", "lstm", "none", "."]
FILES += ["lstm/model.json", "lstm/model.safetensors", "x" * 300, "text.txt/below", "new\nline"]
PLACES = [
    "o.parquet",
    "o.csv",
    "o.svg",
    "new/o.json",
    ".",
    "text.txt/below",
    "x" * 300,
    "/dev/full",
]
# What most commands can use; without it few would come as far as their work.
PLAUSIBLE = {
    **dict.fromkeys(["documents", "reference_documents", "sample_documents"], "documents.parquet"),
    **dict.fromkeys(["input", "inputs", "scores", "predictions"], "documents.parquet"),
    **dict.fromkeys(["model", "latent", "proposal", "evaluator"], "lstm"),
    **dict.fromkeys(["vocabulary", "substitutes", "vocabularies"], "words.json"),
    **dict.fromkeys(["text", "samples", "pairs"], "text.txt"),
    "paths": "text.txt",
    "corpus": ".",
}
USUAL = {
    "decoding": '{"kind": "ancestral"}',
    "versions": '{"0.1": [0, 2]}',
    "config": '{"source": {"format": "text", "paths": ["none"]}}',
    "split": "test",
    "splits": "test",
    "name": "a",
    "names": "a",
    "device": "cpu",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def values(action, home: Path) -> st.SearchStrategy[str]:
    """Return what an option may be given, in the folder ``OUT`` where it is written."""
    usual = _usual(action, home)
    return (
        hostile(action, home)
        if usual is None
        else st.one_of(st.just(usual), st.just(usual), st.just(usual), hostile(action, home))
    )


def _usual(action, home: Path) -> str | None:
    if action.dest in USUAL:
        return USUAL[action.dest]
    if action.dest in PLAUSIBLE:
        return str(home / PLAUSIBLE[action.dest])
    if action.type in (output_file, output_path, output_folder):
        return f"OUT/{action.dest}.parquet"
    if action.type is json_object:
        return "{}"
    return "2" if callable(action.type) and action.type is not Path else None


def hostile(action, home: Path) -> st.SearchStrategy[str]:
    """Return what an option may be given that it cannot use, or can in spite of all."""
    if action.choices:
        return st.sampled_from([*map(str, action.choices), "none"])
    if action.type in (output_file, output_path, output_folder):
        return st.sampled_from([place if place[0] == "/" else f"OUT/{place}" for place in PLACES])
    if action.type is json_object:
        return st.one_of(st.sampled_from(OBJECTS), st.text(max_size=5).map(json.dumps))
    if callable(action.type) and action.type is not Path:
        return st.one_of(st.sampled_from(NUMBERS), st.integers().map(str))
    files = st.sampled_from([str(home / name) for name in FILES])
    return st.one_of(files, st.sampled_from(NAMES))


@st.composite
def command_lines(draw: st.DrawFn, declared, home: Path) -> list[str]:
    """Draw a value or several for all options that are required, and for some of the others."""
    line: list[str] = []
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
def nothing_of_the_process_changes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(torch, "set_num_threads", lambda number: None)
        patched.setattr(os, "environ", dict(os.environ))
        # A comparison draws its figures for seconds; test_compare looks at them.
        patched.setattr("beyond_perplexity.report.compare.draw_figures", lambda found: {})
        yield


def run(command: str, line: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its status and what it said."""
    module = module_of(command)
    said, before = io.StringIO(), sys.argv
    sys.argv = [command, *line]
    try:
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            run_command(module.main)
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue()
    finally:
        sys.argv = before
    return 0, said.getvalue()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"update_configuration_page"}))
def test_no_option_breaks_a_command(command: str, home: Path, monkeypatch) -> None:
    declared = actions(command, monkeypatch)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(command_lines(declared, home))
    def check(line: list[str]) -> None:
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
