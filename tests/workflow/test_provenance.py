"""The files of a finished run are what their records say, and its tables say what made them.

Needs the tiny run. Oracles: the tree as it was left, and a shard in another's place.
"""

import shutil

from beyond_perplexity.commands.run import remake_options
from beyond_perplexity.storage import outputs, verification
from tests.workflow.conftest import SMOKE


def test_a_finished_run_is_verified_and_measures_name_what_they_are_made_of(finished):
    """And every output of a job is in the manifest: but for this folder's page, which git has."""
    tree = finished.path / "results"
    found = verification.verify_tree(tree)
    assert not found.mismatches
    assert len(found.hashes) > 50
    noted = dict(outputs.read_notes(tree))
    files = [path for path in tree.rglob("*") if path.is_file()]
    results = [path for path in files if path.relative_to(tree).parts[0] not in outputs.SKIPPED]
    assert {path.name for path in results if path not in noted} == {"README.md"}
    measures = finished.path / "results/tendencies/lstm/ancestral/measures.parquet"
    lines = verification.describe_origin(measures).splitlines()
    named = "\n".join(line for line in lines if "made of" in line)
    for part in ("samples/lstm/ancestral/00000", "lstm/model.safetensors", "/documents.parquet"):
        assert part in named


def test_what_has_no_note_is_planned_where_it_was_made_otherwise(finished):
    """Snakemake's notes are those that a job on a cluster leaves out when it is killed."""
    notes, kept = (finished.path / ".snakemake" / name for name in ("metadata", "kept"))
    script = finished.path / "scripts/count_statistics.py"
    text = script.read_text()
    notes.rename(kept)
    try:
        assert finished.planned() == {}
        script.write_text(text.replace("    if size is None:", "    if not size and size is None:"))
        planned = finished.planned()
    finally:
        script.write_text(text)
        shutil.rmtree(notes, ignore_errors=True)
        kept.rename(notes)
    assert (planned["count_resample"], planned["count_samples"]) == (3, 4)
    assert planned["count_reference"] >= 1
    assert planned.keys().isdisjoint({"train", "generate", "extract_corpus", "score_contrast"})


def test_a_job_of_an_earlier_run_does_not_begin(finished, monkeypatch):
    """As one that waited in a queue: Snakemake would first remove what is there."""
    shard = "results/samples/trigram/ancestral/00000.parquet"
    before = (finished.path / shard).stat()
    monkeypatch.setenv(outputs.RUN, "1")
    job = ["--mode=subprocess", "--nolock", "--force", "--allowed-rules=generate", *SMOKE]
    done = finished.snakemake(*job, "--", shard, check=False)
    assert done.returncode == 1
    assert f"{shard}: is left to a later run" in done.stdout
    assert (finished.path / shard).stat().st_ino == before.st_ino


def test_a_missing_file_is_made_again_by_the_command_that_verification_names(finished):
    """Snakemake alone plans nothing: what was made of it is there."""
    counts = finished.path / "results/statistics/lstm/ancestral/00000.parquet"
    kept = counts.with_name("kept")
    counts.rename(kept)
    try:
        assert finished.planned() == {}
        (mismatch,) = verification.verify_tree(finished.path / "results").mismatches
        planned = finished.planned(*remake_options([str(counts.relative_to(finished.path))]))
    finally:
        kept.rename(counts)
    assert mismatch == (counts, "is missing; make it again")
    assert planned["count_samples"] == 1
    assert "train" not in planned


def test_a_shard_in_the_place_of_another_is_named_with_what_was_made_of_it(finished):
    folder = finished.path / "results/samples/lstm/ancestral"
    first, second = folder / "00000.parquet", folder / "00001.parquet"
    shutil.copy2(first, folder / "kept")
    try:
        shutil.copy2(second, first)
        found = verification.verify_tree(finished.path / "results").mismatches
    finally:
        shutil.move(folder / "kept", first)
    wrong = {str(path.relative_to(finished.path / "results")): what for path, what in found}
    assert "was written as" in wrong["samples/lstm/ancestral/00000.parquet"]
    made = {name for name, what in wrong.items() if "was made of another" in what}
    assert any(name.startswith("statistics/lstm/ancestral") for name in made)
    assert not any("trigram" in name for name in wrong)
