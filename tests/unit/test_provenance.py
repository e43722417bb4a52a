"""Fingerprints and run records: what changes them and what does not.

Needs nothing. A small package is written to a temporary folder; the oracle is which file was
edited.
"""

from __future__ import annotations

import hashlib

import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage import provenance


@pytest.fixture
def tree(tmp_path, monkeypatch):
    package = tmp_path / "beyond_perplexity"
    (package / "models").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    (package / "__init__.py").write_text("")
    (package / "models" / "__init__.py").write_text("")
    (package / "used.py").write_text('"""Doc."""\n\n\ndef f(x):\n    return x + 1\n')
    (package / "deep.py").write_text("VALUE = 1\n")
    (package / "other.py").write_text("VALUE = 1\n")
    (package / "models" / "lstm.py").write_text("from beyond_perplexity import deep\n")
    script = "def main():\n    from beyond_perplexity.used import f\n    return f(1)\n"
    (tmp_path / "scripts" / "step.py").write_text(script)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "PACKAGE", package)
    return tmp_path


def take(*files):
    provenance._read_module.cache_clear()
    return provenance.fingerprint("scripts/step.py", *files)


def test_comments_docstrings_and_layout_change_nothing(tree):
    before = take()
    changed = '"""Other."""\n\n# why\n\ndef f(x):\n    """Doc."""\n\n    return (x +\n        1)\n'
    (tree / "beyond_perplexity" / "used.py").write_text(changed)
    assert take() == before


def test_an_edit_in_an_imported_module_changes_it_and_elsewhere_not(tree):
    before = take()
    (tree / "beyond_perplexity" / "other.py").write_text("VALUE = 2\n")
    assert take() == before
    (tree / "beyond_perplexity" / "used.py").write_text("def f(x):\n    return x + 2\n")
    assert take() != before


def test_a_named_file_counts_with_what_it_imports(tree):
    alone = take()
    before = take("beyond_perplexity/models/lstm.py")
    assert before != alone
    (tree / "beyond_perplexity" / "deep.py").write_text("VALUE = 2\n")
    assert take("beyond_perplexity/models/lstm.py") != before
    assert take() == alone


def test_content_hash_equals_hashlib(tmp_path):
    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    expected = hashlib.sha256(b"abc" * 100_000).hexdigest()
    assert provenance.content_hash(tmp_path / "a") == expected
    provenance.check_sha256(tmp_path / "a", expected.upper())
    with pytest.raises(InputError, match="expected 00"):
        provenance.check_sha256(tmp_path / "a", "00" * 32)


def test_value_hash_does_not_see_the_order_of_keys():
    assert provenance.value_hash({"a": 1, "b": 2}) == provenance.value_hash({"b": 2, "a": 1})


def test_a_run_record_names_code_options_and_times():
    record = provenance.finished(provenance.run_record("scripts/tokenize.py", {"x": 1}, seed=3))
    assert record["seed"] == 3
    assert record["start"] <= record["end"]
    assert len(record["code_fingerprint"]) == 16
