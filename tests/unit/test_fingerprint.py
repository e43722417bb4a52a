"""Fingerprints: which edits of the code change them, and which do not.

Needs nothing. A small package is written to a temporary folder; the oracle is what was edited and
whether the script reaches it.
"""

from __future__ import annotations

import pytest

from beyond_perplexity.storage import fingerprint as fingerprints

FILES = {
    "beyond_perplexity/__init__.py": "",
    "beyond_perplexity/models/__init__.py": "",
    "beyond_perplexity/used.py": '"""Doc."""\n\nONE = 1\n\n\ndef f(x):\n    return x + ONE\n',
    "beyond_perplexity/deep.py": "VALUE = 1\n",
    "beyond_perplexity/other.py": "VALUE = 1\n",
    "beyond_perplexity/models/lstm.py": "from beyond_perplexity import deep\n",
    "beyond_perplexity/rows.py": (
        "class Row(int):\n    size = 1\n\n\n"
        "FOUND: Rows[Row] = {'a': 1}\n\n\ndef find(x):\n    return FOUND[x]\n"
    ),
    "scripts/step.py": (
        "def main():\n    from beyond_perplexity.used import f\n"
        "    from beyond_perplexity.rows import find\n    return f(find('a'))\n"
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
    names = (
        "_of_file",
        "_module_file",
        "_stands_for",
        "_packages",
        "_examine",
        "_memory",
        "fingerprint",
    )
    for held in (getattr(fingerprints, name) for name in names):
        held.cache_clear()


def take(*files):
    clear()
    return fingerprints.fingerprint("scripts/step.py", *files)


def test_comments_docstrings_and_layout_change_nothing(tree):
    before = take()
    head = '"""Other."""\n\n# why\nONE = 1\n\n'
    changed = head + 'def f(x):\n    """Doc."""\n\n    return (x +\n        ONE)\n'
    (tree / "beyond_perplexity" / "used.py").write_text(changed)
    assert take() == before


@pytest.mark.parametrize(
    ("file", "added"),
    [
        ("beyond_perplexity/used.py", "\n\ndef g(x):\n    return x\n"),
        ("beyond_perplexity/used.py", "\nTWO = 2\n"),
        ("beyond_perplexity/used.py", "\nfrom beyond_perplexity.deep import VALUE\nimport math\n"),
        (
            "beyond_perplexity/used.py",
            "\nif TYPE_CHECKING:\n    from beyond_perplexity.deep import VALUE\n",
        ),
        ("beyond_perplexity/other.py", "\nTWO = 2\n"),
        ("beyond_perplexity/new.py", "TWO = 2\n"),
    ],
)
def test_what_is_added_and_not_reached_changes_nothing(tree, file, added):
    before = take()
    with open(tree / file, "a") as opened:
        opened.write(added)
    assert take() == before


def test_a_row_that_is_added_changes_nothing(tree):
    before = take()
    path = tree / "beyond_perplexity/rows.py"
    path.write_text(path.read_text().replace("{'a': 1}", "{'a': 1, 'b': 2}"))
    assert take() == before
    path.write_text(path.read_text().replace("FOUND[x]", "FOUND[x] + 1"))
    assert take() != before


def test_the_class_of_rows_counts_and_a_row_that_is_named(tree):
    alone, row = take(), take("beyond_perplexity.rows:FOUND[a]")
    path = tree / "beyond_perplexity/rows.py"
    path.write_text(path.read_text().replace("{'a': 1}", "{'a': 2}"))
    assert take() == alone
    assert take("beyond_perplexity.rows:FOUND[a]") != row
    path.write_text(path.read_text().replace("size = 1", "size = 2"))
    assert take() != alone


@pytest.mark.parametrize("name", ["beyond_perplexity.rows:FOUND[c]", "beyond_perplexity.gone:f"])
def test_what_is_named_must_be_there(tree, name):
    with pytest.raises(FileNotFoundError, match=r"there is no such definition"):
        take(name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "def f(x):\n    return 1\n\n\ndef f(x):\n    return 2\n",
            "def f(x):\n    return 2\n\n\ndef f(x):\n    return 1\n",
        ),
        (
            "from beyond_perplexity.two import a as f\nfrom beyond_perplexity.two import b as g\n",
            "from beyond_perplexity.two import b as f\nfrom beyond_perplexity.two import a as g\n",
        ),
        (
            "if TYPE_CHECKING:\n    f = 1\nelse:\n    f = 1\n",
            "if TYPE_CHECKING:\n    f = 1\nelse:\n    f = 2\n",
        ),
        ("def __getattr__(name):\n    return 1\n", "def __getattr__(name):\n    return 2\n"),
    ],
    ids=["order", "alias", "else", "getattr"],
)
def test_what_a_name_stands_for_counts(tree, before, after):
    """The script imports f and uses both functions of module two, whatever they are called."""
    (tree / "beyond_perplexity/two.py").write_text("def a():\n    pass\n\n\ndef b():\n    pass\n")
    step = tree / "scripts/step.py"
    step.write_text(
        step.read_text() + "\n\ndef more():\n    from beyond_perplexity.two import a, b\n"
    )
    path = tree / "beyond_perplexity/used.py"
    path.write_text(before)
    first = take()
    path.write_text(after)
    assert take() != first


def test_a_star_hands_on_all(tree):
    (tree / "beyond_perplexity/used.py").write_text("from beyond_perplexity.moved import *\n")
    moved = tree / "beyond_perplexity/moved.py"
    moved.write_text("def f(x):\n    return x\n")
    before = take()
    moved.write_text("def f(x):\n    return 1\n")
    assert take() != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x + ONE", "return x - ONE"),
        ("ONE = 1", "ONE = 2"),
        ("ONE = 1", "from beyond_perplexity.deep import VALUE as ONE"),
        ("ONE = 1", "ONE = 1\nprint('loaded')"),
        ("ONE = 1", "ONE = 1\nif ONE:\n    ONE = 3"),
        ("return x + ONE", "return x + ONE\n\n\ndef f(x):\n    return 0"),
    ],
)
def test_an_edit_of_what_is_reached_changes_it(tree, old, new):
    before = take()
    path = tree / "beyond_perplexity" / "used.py"
    path.write_text(path.read_text().replace(old, new, 1))
    assert take() != before


def test_what_a_package_does_when_it_is_imported_counts(tree):
    before = take()
    (tree / "beyond_perplexity" / "__init__.py").write_text("import sys\nsys.path.append('x')\n")
    assert take() != before


def test_a_name_that_is_handed_on_is_followed(tree):
    (tree / "beyond_perplexity" / "used.py").write_text("from beyond_perplexity.moved import f\n")
    moved = tree / "beyond_perplexity" / "moved.py"
    moved.write_text("def f(x):\n    return x\n\n\ndef g(x):\n    return x\n")
    before = take()
    moved.write_text("def f(x):\n    return x\n\n\ndef g(x):\n    return 1\n")
    assert take() == before
    moved.write_text("def f(x):\n    return 1\n\n\ndef g(x):\n    return x\n")
    assert take() != before


def test_a_named_file_counts_with_what_it_imports(tree):
    alone = take()
    before = take("beyond_perplexity/models/lstm.py")
    assert before != alone
    (tree / "beyond_perplexity" / "deep.py").write_text("VALUE = 2\n")
    assert take("beyond_perplexity/models/lstm.py") != before
    assert take() == alone


def test_what_is_known_is_not_looked_for_again(tree, monkeypatch):
    """Oracle: another process finds the same without parsing, until a byte of a file changes."""
    found = take()
    fingerprints._memory().save()
    (held,) = (tree / "cache" / "beyond-perplexity").iterdir()
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
        held.write_text(damaged)
        assert take() == found


def test_what_is_found_while_the_code_changes_is_of_what_was_read(tree):
    take()
    (tree / "beyond_perplexity" / "used.py").write_text("ONE = 2\n")
    fingerprints._memory().save()
    found = take()
    (tree / "cache/beyond-perplexity/found.json").unlink()
    assert take() == found


def test_a_cache_that_cannot_be_written_is_done_without(tree):
    (tree / "cache").write_text("a file")
    found = take()
    fingerprints._memory().save()
    assert take() == found
