"""Run records and hashes of contents.

Needs nothing. The oracle is hashlib, and what was put in.
"""

from __future__ import annotations

import hashlib

import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage import provenance


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
    record = provenance.finished(
        provenance.run_record("beyond_perplexity/commands/tokenize.py", {"x": 1}, seed=3)
    )
    assert record["seed"] == 3
    assert record["start"] <= record["end"]
    assert len(record["code_fingerprint"]) == 16
