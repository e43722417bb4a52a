"""The plan of the workflow: dry runs of every target, lint, configuration errors, the summary.

Needs Snakemake; starts no job. The oracle of a count is the configuration it was planned from.
"""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beyond_perplexity.planning.job_costs import Timing
from tests.workflow.conftest import SMOKE, Checkout, copy_checkout, planned_jobs

TARGETS = {
    "corpora": "extract_corpus",
    "models": "train",
    "perplexity": "measure_perplexity",
    "samples": "generate",
    "tendencies": "measure_tendencies",
    "contrastive": "compare_contrast",
    "semantics": "compare_semantics",
}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Checkout:
    """Give one copy of the checkout to all tests that change nothing."""
    return copy_checkout(tmp_path_factory.mktemp("untouched") / "checkout")


@pytest.fixture(scope="module")
def printed(untouched) -> str:
    return untouched.snakemake("--dry-run", *SMOKE).stdout


def test_every_target_can_be_planned(untouched, printed):
    """And each plans at least its last jobs, as all of them do together."""
    jobs = untouched.planned(*TARGETS)
    assert set(TARGETS.values()) <= jobs.keys() <= planned_jobs(printed).keys()


@pytest.mark.parametrize(
    "config",
    [
        *("config.yaml", "configs/paper.yaml", "configs/paper-importance.yaml"),
        *("configs/paper-contrastive.yaml", "configs/paper-semantics.yaml"),
        "configs/bounds-reference.yaml",
    ],
)
def test_every_shipped_configuration_can_be_planned(untouched, config):
    assert "This run" in untouched.snakemake("--dry-run", f"--configfile={config}").stdout


def test_lint_is_silent(untouched):
    assert "Congratulations" in untouched.snakemake("--lint").stdout


def test_the_summary_counts_what_the_configuration_says(untouched, printed):
    config = yaml.safe_load((untouched.path / "configs" / "smoke.yaml").read_text())
    generation = config["generation"]
    sources = len(generation["models"]) * len(generation["decodings"])
    shards = generation["documents"] // generation["documents_per_shard"]
    jobs = planned_jobs(printed)
    assert jobs["generate"] == sources * shards
    assert jobs["count_samples"] == jobs["measure_tendencies"] == sources
    assert "merge_statistics" not in jobs  # a sample set fits into one job
    semantics = config["semantics"]
    models = {*generation["models"], *config["contrastive"]["models"], *semantics["models"]}
    assert jobs["train"] == len(models)
    parts = -(-semantics["sentences"] // semantics["sentences_per_shard"])
    evaluators = 1 + len(semantics["evaluators"])  # and the words themselves
    assert jobs["predict_words"] == len(semantics["models"]) * parts
    assert jobs["score_semantics"] == jobs["predict_words"] * evaluators
    assert jobs["measure_semantics"] == len(semantics["models"])
    assert jobs["probe_evaluator"] == evaluators
    assert jobs["train_evaluator"] == len(semantics["evaluators"])
    assert f"documents    {sources * generation['documents']:,}" in printed
    assert jobs["embed"] == jobs["measure_embeddings"] == 1
    last = printed[printed.index("\nThis run\n") :].rstrip().splitlines()
    assert [line.split()[0] for line in last[-4:]] == ["GPU-hours", "CPU-hours", "known", "memory"]
    assert f"models       {len(models)}: " in printed
    assert "embedded     20 documents of a sample set at most, by skipthought" in printed
    assert f"understood   {len(semantics['models'])} models on" in printed


def test_a_typo_in_the_configuration_stops_the_run_before_it_starts(checkout):
    path = checkout.path / "configs" / "smoke.yaml"
    path.write_text(path.read_text().replace("documents_per_shard", "documents_per_shrad"))
    done = checkout.snakemake(*SMOKE, check=False)
    assert done.returncode
    assert "generation.documents_per_shrad: unknown key" in done.stdout
    assert "did you mean 'documents_per_shard'" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (checkout.path / "results" / "corpora").exists()


def test_results_can_be_moved_by_a_path_variable(untouched):
    moved = '--config=pathvars={"results":"elsewhere"}'
    printed = untouched.snakemake("--dry-run", *SMOKE, moved, "corpora").stdout
    assert "elsewhere/corpora/wikipedia/documents.parquet" in printed


def test_a_plan_says_what_earlier_jobs_took_and_which_files_are_missing(checkout):
    """Two shards of a sample set ran: 10 s for 30 documents each, so its 2 shards take 20 s."""
    for shard in range(2):
        path = checkout.path / f"results/benchmarks/generate/lstm/beam/{shard:05d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"s": 10.0, "max_rss": 100.0}\n')
        samples = checkout.path / f"results/samples/lstm/beam/{shard:05d}.parquet"
        samples.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"doc_id": list(range(30))}), samples)
    smoke = checkout.path / "configs" / "smoke.yaml"
    smoke.write_text(smoke.read_text().replace("embedded:enwiki-excerpt", "away.xml"))
    plan = {"generate/lstm/ancestral": Timing(0.0, 2.0, 500.0, 1e8)._asdict()}
    plan |= {f"generate/trigram/{d}": Timing(0, 1, 0, 0)._asdict() for d in ("ancestral", "beam")}
    (checkout.path / "results/plan.json").write_text(json.dumps({"timings": plan}))
    printed = checkout.snakemake("--dry-run", *SMOKE, "--forcerun=generate", "samples").stdout
    # 2 x 10 s, 2 x 60 s, 2 x 30 s and, with a beam of two, 2 x 60 s
    assert "8  generate" in printed
    minutes = (2 * 10 + 2 * 60 + 2 * 30 + 2 * 60) / 8 / 60
    assert re.search(rf"8  generate +{minutes:.1f} min each\n", printed)
    assert "disk         6.0 GB of what was measured" in printed
    assert printed.endswith("\n  missing      1 of the files that it reads\n    away.xml\n")


def test_what_a_user_sets_grows_as_it_is_written_and_the_rest_doubles(checkout):
    """A corpus that cannot be read fails three times; the form is that of docs/slurm.md."""
    smoke = checkout.path / "configs" / "smoke.yaml"
    (checkout.path / "broken.xml.bz2").write_bytes(b"no archive")
    smoke.write_text(smoke.read_text().replace("embedded:enwiki-excerpt", "broken.xml.bz2"))
    grows = "extract_corpus:mem_mb=300*attempt"
    done = checkout.snakemake(
        *SMOKE, "--retries=2", f"--set-resources={grows}", "corpora", check=False
    )
    assert done.returncode
    assert "    resources: " not in done.stdout  # which has a line a job
    (log,) = (checkout.path / ".snakemake" / "log").iterdir()
    asked = re.findall(r"^    resources: .*$", log.read_text(), re.M)
    found = [
        tuple(int(re.search(rf"\b{name}=(\d+)", line)[1]) for name in ("mem_mb", "runtime"))
        for line in asked
    ]
    assert found == [(300, 30), (600, 60), (900, 120)]
    assert (
        grows.partition("=")[2].replace("300", "720")
        in (checkout.path / "docs" / "slurm.md").read_text()
    )


def test_a_missing_file_of_samples_is_named_and_nothing_of_the_insides(untouched, tmp_path):
    config = yaml.safe_load((untouched.path / "configs" / "smoke.yaml").read_text())
    missing = {"path": f"{tmp_path}/nowhere.txt", "format": "text", "corpus": "wikipedia"}
    other = tmp_path / "config.yaml"
    other.write_text(yaml.safe_dump({**config, "external_samples": {"mine": missing}}))
    done = untouched.snakemake("--dry-run", f"--configfile={other}", "samples", check=False)
    assert done.returncode == 1
    assert missing["path"] in done.stdout
    assert "Missing input files for rule import_samples" in done.stdout
    assert not any(word in done.stdout for word in ("Traceback", "KeyError"))
