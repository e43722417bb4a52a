"""The files of a finished run are what their records say, and its tables say what made them.

Needs Snakemake and some minutes; shares the run of configs/smoke.yaml. The oracle is the tree as
the run left it, and a shard that is put in the place of another.
"""

from __future__ import annotations

import shutil

from beyond_perplexity.storage.origins import describe_origin
from beyond_perplexity.storage.verification import verify_tree


def test_a_finished_run_is_verified(finished):
    found = verify_tree(finished.path / "results")
    assert not found.mismatches
    assert len(found.hashes) > 50


def test_what_was_measured_names_all_that_it_is_made_of(finished):
    measures = finished.path / "results/tendencies/lstm/ancestral/measures.parquet"
    lines = describe_origin(measures).splitlines()
    named = "\n".join(line for line in lines if "made of" in line)
    for part in ("samples/lstm/ancestral/00000", "lstm/model.safetensors", "/documents.parquet"):
        assert part in named


def test_a_shard_in_the_place_of_another_is_named_with_what_was_made_of_it(finished):
    folder = finished.path / "results/samples/lstm/ancestral"
    first, second = folder / "00000.parquet", folder / "00001.parquet"
    shutil.copy2(first, folder / "kept")
    try:
        shutil.copy2(second, first)
        found = verify_tree(finished.path / "results").mismatches
    finally:
        shutil.move(folder / "kept", first)
    wrong = {str(path.relative_to(finished.path / "results")): what for path, what in found}
    assert "was written as" in wrong["samples/lstm/ancestral/00000.parquet"]
    made = {name for name, what in wrong.items() if "was made of another" in what}
    assert any(name.startswith("statistics/lstm/ancestral") for name in made)
    assert not any("trigram" in name for name in wrong)
