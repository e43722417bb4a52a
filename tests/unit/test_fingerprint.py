"""Fingerprints: which edits of the code change them, which do not, and that nothing is left out.

Oracles: what was edited of a small package and whether the script reaches it; of whole jobs
Python's own tracer: what holds a code object that was entered must be followed.
"""

import ast
import importlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from beyond_perplexity.storage import fingerprint as fingerprints
from beyond_perplexity.tendencies.definitions import counted_code

FILES = {
    "beyond_perplexity/__init__.py": "",
    "beyond_perplexity/models/__init__.py": "",
    "beyond_perplexity/used.py": '"""Doc."""\n\nONE = 1\n\n\ndef f(x):\n    return x + ONE\n',
    "beyond_perplexity/deep.py": "VALUE = 1\n",
    "beyond_perplexity/other.py": "VALUE = 1\n",
    "beyond_perplexity/models/lstm.py": "from beyond_perplexity import deep\n\nHELD = deep.VALUE\n",
    "beyond_perplexity/rows.py": (
        "class Row(int):\n    size = 1\n\n\n"
        "FOUND: Rows[Row] = {'a': 1}\n\n\ndef find(x):\n    return FOUND[x]\n"
    ),
    "scripts/step.py": (
        "from beyond_perplexity import rows\n\n\n"
        "def main():\n    from beyond_perplexity.used import f\n    return f(rows.find('a'))\n"
    ),
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(fingerprints, "ROOT", tmp_path)
    monkeypatch.setattr(fingerprints, "PACKAGE", tmp_path / "beyond_perplexity")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path
    clear()


def clear():
    names = ("_of_file", "_module_file", "_stands_for", "_packages", "_examine", "_forget")
    for name in (*names, "fingerprint"):
        getattr(fingerprints, name).cache_clear()


def take(*files):
    clear()
    return fingerprints.fingerprint("scripts/step.py", *files)


def edit(tree, file, old, new):
    path = tree / file
    text = path.read_text() if path.exists() else ""
    path.write_text(text.replace(old, new, 1) if old else text + new)


USED, ROW = "beyond_perplexity/used.py", "beyond_perplexity/rows.py"
TYPES = "\nif TYPE_CHECKING:\n    from beyond_perplexity.deep import VALUE\n"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (USED, '"""Doc."""', '"""Other."""\n\n# why'),  # docstrings, comments and layout
        (USED, "    return x + ONE", '    """Doc."""\n\n    return (x +\n        ONE)'),
        (USED, "", "\n\ndef g(x):\n    return x\n"),  # what is not reached
        (USED, "", "\nTWO = 2\n"),
        (USED, "", "\nfrom beyond_perplexity.deep import VALUE\nimport math\n"),
        (USED, "", TYPES),
        ("beyond_perplexity/other.py", "", "\nTWO = 2\n"),
        ("beyond_perplexity/new.py", "", "TWO = 2\n"),
        (ROW, "{'a': 1}", "{'a': 1, 'b': 2}"),  # a row that is added
        (ROW, "{'a': 1}", "{'a': 2}"),
        (ROW, "", "\n\ndef g(x):\n    return x\n"),  # of a module that is imported whole
    ],
)
def test_what_is_not_reached_changes_nothing(tree, file, old, new):
    before = take()
    edit(tree, file, old, new)
    assert take() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (USED, "return x + ONE", "return x - ONE"),
        (USED, "ONE = 1", "ONE = 2"),
        (USED, "ONE = 1", "from beyond_perplexity.deep import VALUE as ONE"),
        (USED, "ONE = 1", "ONE = 1\nprint('loaded')"),
        (USED, "ONE = 1", "ONE = 1\nif ONE:\n    ONE = 3"),
        (USED, "return x + ONE", "return x + ONE\n\n\ndef f(x):\n    return 0"),
        (ROW, "FOUND[x]", "FOUND[x] + 1"),
        (ROW, "size = 1", "size = 2"),  # the class of rows
        ("beyond_perplexity/__init__.py", "", "import sys\nsys.path.append('x')\n"),
    ],
)
def test_an_edit_of_what_is_reached_changes_it(tree, file, old, new):
    before = take()
    edit(tree, file, old, new)
    assert take() != before


def test_a_named_row_counts_with_what_it_imports_and_a_handed_over_module_whole(tree):
    row, file = "beyond_perplexity.rows:FOUND[a]", "beyond_perplexity/models/lstm.py"
    alone, of_row, of_file = take(), take(row), take(file)
    edit(tree, ROW, "{'a': 1}", "{'a': 2}")
    edit(tree, "beyond_perplexity/deep.py", "1", "2")
    assert take() == alone != of_file
    assert take(row) != of_row
    assert take(file) != of_file
    edit(tree, "scripts/step.py", "rows.find('a')", "vars(rows)['find']('a')")
    before = take()
    edit(tree, ROW, "", "\n\ndef g(x):\n    return x\n")
    assert take() != before


@pytest.mark.parametrize("name", ["beyond_perplexity.rows:FOUND[c]", "beyond_perplexity.gone:f"])
def test_what_is_named_must_be_there(tree, name):
    with pytest.raises(FileNotFoundError, match=r"there is no such definition"):
        take(name)


ONE, TWO = "def f(x):\n    return 1\n", "def f(x):\n    return 2\n"
IMPORT = "from beyond_perplexity.two import {} as f\nfrom beyond_perplexity.two import {} as g\n"
OTHERWISE = "if TYPE_CHECKING:\n    f = 1\nelse:\n    f = {}\n"
GETATTR = "def __getattr__(name):\n    return {}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{ONE}\n\n{TWO}", f"{TWO}\n\n{ONE}"),
        (IMPORT.format("a", "b"), IMPORT.format("b", "a")),
        (OTHERWISE.format(1), OTHERWISE.format(2)),
        (GETATTR.format(1), GETATTR.format(2)),
    ],
    ids=["order", "alias", "else", "getattr"],
)
def test_what_a_name_stands_for_counts(tree, before, after):
    """The script imports f and uses both functions of module two, whatever they are called."""
    (tree / "beyond_perplexity/two.py").write_text("def a():\n    pass\n\n\ndef b():\n    pass\n")
    more = "\n\ndef more():\n    from beyond_perplexity.two import a, b\n"
    edit(tree, "scripts/step.py", "", more)
    (tree / USED).write_text(before)
    first = take()
    (tree / USED).write_text(after)
    assert take() != first


@pytest.mark.parametrize("names", ["f", "*"])
def test_a_name_that_is_handed_on_is_followed(tree, names):
    (tree / USED).write_text(f"from beyond_perplexity.moved import {names}\n")
    moved, other = tree / "beyond_perplexity/moved.py", "\n\ndef g(x):\n    return {}\n"
    moved.write_text(ONE + other.format(1))
    before = take()
    moved.write_text(ONE + other.format(2))
    assert (take() == before) == (names == "f")
    moved.write_text(TWO + other.format(1))
    assert take() != before


def test_what_is_known_is_not_looked_for_again(tree, monkeypatch):
    """Oracle: another process finds the same without parsing, until a byte of a file changes."""
    found = take()
    held = list((tree / "cache/beyond-perplexity/found").iterdir())
    assert {path.suffix for path in held} == {".json"}
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "_describe", None)
        assert take() == found
        with pytest.raises(TypeError):
            take("beyond_perplexity/other.py")
        (tree / "beyond_perplexity" / "used.py").write_text("ONE = 2\n")
        with pytest.raises(TypeError):
            take()
    (tree / "beyond_perplexity" / "used.py").write_text(FILES["beyond_perplexity/used.py"])
    for damaged in ("{", "[]", "[1]"):
        for path in held:
            path.write_text(damaged)
        assert take() == found


def test_what_is_found_while_the_code_changes_is_of_what_was_read(tree):
    take()
    (tree / "beyond_perplexity" / "used.py").write_text("ONE = 2\n")
    found = take()
    shutil.rmtree(tree / "cache")
    assert take() == found


def test_what_was_found_longest_ago_is_forgotten(tree, monkeypatch):
    """Oracle: the modification times that the test sets."""
    monkeypatch.setattr(fingerprints, "REMEMBERED", 3)
    folder = tree / "cache/beyond-perplexity/found"
    for asked in range(5):
        clear()
        assert fingerprints.remembered(str(asked), lambda: asked) == asked  # noqa: B023
        for path in folder.iterdir():
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    assert sorted(json.loads(path.read_text())["found"] for path in folder.iterdir()) == [2, 3, 4]


def test_a_cache_that_cannot_be_written_is_done_without(tree):
    (tree / "cache").write_text("a file")
    found = take()
    assert take() == found


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
    names = ("a.txt", "stop.txt", "a.parquet", "b.parquet", "c.parquet")
    text, words, shard, counts, merged = (str(tmp_path / name) for name in names)
    Path(text).write_text("The cat sat .\nA dog , 2 cats and the mouse ran away .\n")
    Path(words).write_text("the\na\nand\n")
    classes = counted_code()
    reader = "beyond_perplexity/corpus/text_files.py"
    count = ["--input", shard, "--kind", "samples", "--stop-words", words, "--output", counts]
    jobs = {"import_samples": (["--input", text, "--format", "text", "--output", shard], [reader])}
    jobs |= {"count_statistics": (count, classes)}
    jobs |= {"merge_statistics": (["--inputs", counts, "--output", merged], [])}
    for script, (arguments, others) in jobs.items():
        entered = call_traced(script, arguments, monkeypatch)
        assert len(entered) > 10
        reached = fingerprints.reached_parts([f"scripts/{script}.py", *others])
        assert find_uncovered(entered, reached) == set()
        if others:  # the audit sees what is not named
            assert find_uncovered(entered, fingerprints.reached_parts([f"scripts/{script}.py"]))
