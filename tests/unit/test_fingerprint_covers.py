"""The fingerprint of a job covers every function of the package that the job calls.

Needs nothing. The oracle is Python's own tracer: small jobs run under it, and the definition that
holds each code object that was entered must be among the parts that the fingerprint follows.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

from beyond_perplexity.storage import fingerprint as fingerprints
from beyond_perplexity.tendencies.definitions import SHARES

# What is left out on purpose: it is in no result.
AROUND = {f"beyond_perplexity/{name}" for name in fingerprints._AROUND_RESULTS}
CODE = (f"{fingerprints.PACKAGE}/", f"{fingerprints.ROOT}/scripts/")


def call_traced(script: str, arguments: list[str], monkeypatch) -> set[tuple[str, int]]:
    """Run a script; return file and first line of the code that it entered, imports aside."""
    entered = set()
    main = importlib.import_module(f"scripts.{script}").main
    monkeypatch.setattr(sys, "argv", [script, *arguments])

    def trace(frame, event, argument):
        code, caller = frame.f_code, frame.f_back
        if code.co_filename.startswith(CODE) and code.co_flags & 1:  # a function, no class body
            while caller and caller.f_code.co_name != "<module>":
                caller = caller.f_back
            if not (caller and caller.f_code.co_filename.startswith(CODE)):
                entered.add((code.co_filename, code.co_firstlineno))

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        main()
    finally:
        sys.settrace(before)
    return entered


def find_uncovered(entered: set[tuple[str, int]], seen: set[fingerprints.Part]) -> set[str]:
    missing = set()
    for name, line in entered:
        file = Path(name)
        if str(file.relative_to(fingerprints.PACKAGE.parent)) in AROUND:
            continue
        for node in ast.parse(file.read_bytes()).body:
            first = min(n.lineno for n in [node, *getattr(node, "decorator_list", [])])
            if first <= line <= (node.end_lineno or first):
                parts = list(fingerprints._defined(node)) or [fingerprints.LOADING]
                if not any((name, part) in seen for part in (*parts, fingerprints.WHOLE)):
                    missing.add(f"{file.name}:{parts[0]}")
    return missing


def test_what_light_jobs_call_is_covered(tmp_path, monkeypatch) -> None:
    text, words, shard, counts, merged = (
        str(tmp_path / name)
        for name in ("a.txt", "stop.txt", "a.parquet", "b.parquet", "c.parquet")
    )
    Path(text).write_text("The cat sat .\nA dog , 2 cats and the mouse ran away .\n")
    Path(words).write_text("the\na\nand\n")
    classes = [row.word_class for row in SHARES.values()]
    reader = "beyond_perplexity/corpus/text_files.py"
    jobs = {
        "import_samples": (["--input", text, "--format", "text", "--output", shard], [reader]),
        "count_statistics": (
            ["--input", shard, "--kind", "samples", "--stop-words", words, "--output", counts],
            classes,
        ),
        "merge_statistics": (["--inputs", counts, "--output", merged], []),
    }
    for script, (arguments, others) in jobs.items():
        entered = call_traced(script, arguments, monkeypatch)
        assert len(entered) > 10
        assert (
            find_uncovered(entered, fingerprints.follow([f"scripts/{script}.py", *others])) == set()
        )
        if others:  # the audit sees what is not named
            assert find_uncovered(entered, fingerprints.follow([f"scripts/{script}.py"]))
