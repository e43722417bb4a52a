"""Runs of the workflow: what is rerun after a change, and that results do not depend on it.

Runs configs/smoke.yaml. Oracle of every rerun: the first, uninterrupted run, byte for byte.
"""

from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.workflow.conftest import SMOKE, copy_results, kill_when

# A statement that runs when a module is imported: an edit that counts for whatever imports it.
EXECUTED = ("from __future__ import annotations\n", "assert True\n")
SHARD = "results/samples/trigram/ancestral/00001.parquet"


@contextmanager
def edited(path: Path, old: str, new: str):
    """Change a text file for the time of a test."""
    before = path.read_text(encoding="utf-8")
    assert old in before
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def test_a_run_ends_in_tables_and_figures_and_a_second_one_does_nothing(finished):
    results = finished.path / "results"
    tables = {
        "tendencies": [*(f"table_{n}" for n in range(1, 7)), "sensitivity"],
        "contrastive": ["table_1", "table_2", "table_3", "cross_entropy", "partition", "findings"],
        "semantics": ["table_1", "values", "differences", "probes", "findings"],
        "relations": ["measures", "orders", "findings"],
    }
    made = [f"tables/{p}/wikipedia/{name}.csv" for p, names in tables.items() for name in names]
    for path in (*made, "figures/tendencies/wikipedia/main.svg", "overview/overview.rst"):
        assert (results / path).stat().st_size > 0
    assert not list(results.rglob("*.partial*"))
    assert "Nothing to be done" in finished.snakemake(*SMOKE).stdout


def test_a_comment_reruns_nothing(finished):
    first_import = "from __future__ import annotations\n"
    files = (
        "beyond_perplexity/storage/shards.py",
        "beyond_perplexity/models/recurrent.py",
        "scripts/generate.py",
    )
    with ExitStack() as stack:
        for file in files:
            remarked = first_import + "\n# A remark.\n"
            stack.enter_context(edited(finished.path / file, first_import, remarked))
        assert "Nothing to be done" in finished.snakemake("--dry-run", *SMOKE).stdout


def test_an_edit_of_a_family_reruns_only_what_uses_it(finished):
    path = finished.path / "beyond_perplexity/models/recurrent.py"
    with edited(path, *EXECUTED):
        jobs = finished.planned()
    assert (jobs["train"], jobs["generate"]) == (1, 4)
    assert jobs["count_samples"] == 2  # a job a sample set
    assert "extract_corpus" not in jobs
    assert "build_vocabulary" not in jobs


def test_an_edit_of_figures_draws_those_of_its_file_and_measures_nothing(finished):
    """Six rows of figures, and one for each of the two shares of words and the two curves."""
    path = finished.path / "beyond_perplexity/figures/style.py"
    with edited(path, *EXECUTED):
        jobs = finished.planned()
    assert jobs["plot"] > 0
    assert set(jobs) <= {"plot", "write_overview"}
    path = finished.path / "beyond_perplexity/figures/curves.py"
    with edited(path, *EXECUTED):
        assert finished.planned() == {"plot": 10}


def test_a_lost_shard_is_made_again_alike_and_nothing_else(finished):
    before = finished.results()
    (finished.path / SHARD).unlink()
    jobs = finished.planned()
    assert jobs["generate"] == jobs["count_samples"] == jobs["measure_tendencies"] == 1
    assert "train" not in jobs
    finished.snakemake(*SMOKE)
    assert finished.results() == before


SMALLER = {
    "documents_per_shard: 30": "documents_per_shard: 17",  # four shards, counted two by two
    "documents_per_count: 60": "documents_per_count: 40",
    "sentences_per_shard: 40": "sentences_per_shard: 100\n  draws_per_shard: 2",
}


def test_smaller_shards_give_the_same_samples_statistics_tests_and_contrasts(finished, checkout):
    smaller = checkout.path / "configs" / "smoke.yaml"
    text = smaller.read_text()
    for old, new in SMALLER.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    smaller.write_text(text)
    for folder in ("corpora", "vocabularies", "models", "shared_vocabulary", "references"):
        copy_results(finished, checkout, folder)
    contrasts = "contrastive/wikipedia/kn-3.parquet"
    measures = [f"tendencies/trigram/{d}/measures.parquet" for d in ("ancestral", "beam")]
    targets = [f"results/{name}" for name in (contrasts, *measures)]
    checkout.snakemake(*SMOKE, "--rerun-triggers", "mtime", "--", *targets)
    expected, found = finished.results(), checkout.results()
    compared = [contrasts, *(name for name in found if "tendencies/trigram" in name)]
    assert set(measures) < set(compared)
    assert {name: found[name] for name in compared} == {name: expected[name] for name in compared}
    for decoding in ("ancestral", "beam"):
        folder = f"statistics/trigram/{decoding}"
        assert {f"{folder}/{name}.parquet" for name in ("00000", "00001", "merged")} < set(found)
        assert found[f"{folder}/merged.parquet"] == expected[f"{folder}/00000.parquet"]
    assert len(list((checkout.path / "results/contrastive").rglob("scores/*/*.parquet"))) == 2


def test_a_killed_run_goes_on_to_the_same_results(finished, checkout):
    for folder in ("corpora", "vocabularies", "shared_vocabulary", "references", "evaluators"):
        copy_results(finished, checkout, folder)
    run = [*SMOKE, "--rerun-triggers", "mtime"]
    checkpoints = checkout.path / "results" / "checkpoints" / "lstm"
    kill_when(checkout, run, lambda: any(checkpoints.rglob("[0-9]*-*.safetensors")))
    assert not (checkout.path / "results/models/lstm/model.json").exists()
    samples = checkout.path / "results" / "samples"
    kill_when(checkout, run, lambda: any(samples.rglob("*.parquet")))
    checkout.snakemake(*run, "--rerun-incomplete")
    assert checkout.results() == finished.results()
