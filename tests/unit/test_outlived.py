"""Jobs that outlive their Snakemake: what they may write, and what they have made of what.

Needs nothing. The oracle is what was done: the number of a run, or one thing that was changed
between a shard and the plan.
"""

from __future__ import annotations

import os
import sys
import time

import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning import snakemake_hooks as notes
from beyond_perplexity.schemas.corpora import ALIASES
from beyond_perplexity.storage import outputs, provenance, shards, verification
from beyond_perplexity.storage.fingerprint import ROOT

SCRIPT = "scripts/merge_statistics.py"
COMMAND = """
        python -m scripts.merge_statistics \\
            --inputs in.parquet \\
            --note 'two words' \\
            --threads {threads} --memory-mb {memory} \\
            --output out.parquet \\
            2>&1 | tee -a log
        """
ROWS = {"entity": ["a"], "alias": ["b"]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(outputs.RUN, raising=False)
    provenance.forget_reads()
    verification._content.cache_clear()


def start_run(monkeypatch) -> None:
    monkeypatch.setenv(outputs.RUN, "")
    outputs.number_run()


def test_a_job_of_an_earlier_run_leaves_what_a_later_one_is_about(monkeypatch):
    start_run(monkeypatch)
    earlier = os.environ[outputs.RUN]
    outputs.claim(["a/shared", "a/own"])
    outputs.write_text("a/shared", "earlier")
    start_run(monkeypatch)
    outputs.claim([os.path.abspath("a/shared"), "a/new"])
    outputs.write_text("a/shared", "later")
    monkeypatch.setenv(outputs.RUN, earlier)
    with pytest.raises(InputError, match=r"^a/shared: is left to a later run"):
        outputs.write_text("a/shared", "too late")
    assert sorted(os.listdir("a")) == ["shared"]
    with open("a/shared") as file:
        assert file.read() == "later"
    outputs.write_text(os.path.abspath("a/own"), "earlier")
    monkeypatch.delenv(outputs.RUN)
    outputs.write_text("a/shared", "of a command that is no job")


def test_a_run_comes_after_one_of_a_machine_whose_clock_is_ahead(monkeypatch):
    monkeypatch.setenv(outputs.RUN, str(time.time_ns() + 10**15))
    outputs.claim(["a"])
    start_run(monkeypatch)
    outputs.claim(["a"])
    outputs.write_text("a", "later")


def make(monkeypatch) -> None:
    """Write a shard as the command would, by a process of its own."""
    shards.write_shard("in.parquet", ALIASES, ROWS, {})
    arguments = notes.arguments_in(COMMAND.format(threads=1, memory=2000))
    monkeypatch.setattr(sys, "argv", [str(ROOT / SCRIPT), *arguments])
    provenance.forget_reads()
    list(shards.read_batches("in.parquet", ALIASES, ["entity"]))
    record = provenance.run_record(SCRIPT, {"note": "two words"})
    shards.write_shard("out.parquet", ALIASES, ROWS, record)


def make_by_other_code(monkeypatch) -> None:
    monkeypatch.setattr(provenance, "fingerprint", lambda script: "0" * 16)
    make(monkeypatch)


def edit_input() -> None:
    shards.write_shard("in.parquet", ALIASES, {"entity": ["c"], "alias": ["b"]}, {})


def damage() -> None:
    with open("out.parquet", "r+b") as file:
        file.truncate(100)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda patch: None, False),
        (lambda patch: make(patch), False),
        (lambda patch: os.remove("in.parquet"), False),
        (lambda patch: edit_input(), True),
        (lambda patch: damage(), True),
        (lambda patch: make_by_other_code(patch), True),
    ],
    ids=["same", "again", "input gone", "other input", "damaged", "other code"],
)
def test_what_has_no_note_is_compared_by_its_record(monkeypatch, change, found):
    make(monkeypatch)
    change(monkeypatch)
    assert notes.made_otherwise(["out.parquet"], COMMAND.format(threads=4, memory=8000)) == found


def test_another_command_is_another_result(monkeypatch):
    make(monkeypatch)
    for old, new in (("two words", "words"), ("--note", "--title"), ("--inputs in", "--inputs a")):
        assert notes.made_otherwise(["out.parquet"], COMMAND.replace(old, new))


def test_what_has_no_record_says_nothing(monkeypatch):
    outputs.write_text("table.csv", "a\n")
    outputs.write_json("list.json", {})
    assert not notes.made_otherwise(["table.csv", "list.json"], COMMAND)
