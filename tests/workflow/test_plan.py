"""The plan of the workflow: dry runs of every target, lint, configuration errors, the summary.

Needs Snakemake; starts no job. The oracle of a count is the configuration it was planned from.
"""

from __future__ import annotations

import pytest
import yaml

from tests.workflow.conftest import SMOKE

COUNTED = ("trigram", "kneser-ney")
TARGETS = [
    *("all", "corpora", "models", "perplexity", "samples", "tendencies", "contrastive"),
    "semantics",
]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_planned(checkout, target):
    assert "job" in checkout.snakemake("--dry-run", *SMOKE, target).stdout


@pytest.mark.parametrize(
    "config",
    [
        "config.yaml",
        "configs/paper.yaml",
        "configs/paper-importance.yaml",
        "configs/paper-contrastive.yaml",
        "configs/paper-semantics.yaml",
        "configs/bounds-reference.yaml",
    ],
)
def test_every_shipped_configuration_can_be_planned(checkout, config):
    printed = checkout.snakemake("--dry-run", f"--configfile={config}").stdout
    assert "This run" in printed


def test_lint_is_silent(checkout):
    printed = checkout.snakemake("--lint").stdout
    assert "Congratulations" in printed


def test_the_summary_counts_what_the_configuration_says(checkout):
    config = yaml.safe_load((checkout.path / "configs" / "smoke.yaml").read_text())
    generation = config["generation"]
    sources = len(generation["models"]) * len(generation["decodings"])
    shards = generation["documents"] // generation["documents_per_shard"]
    jobs = checkout.planned()
    assert jobs["generate"] == sources * shards
    assert jobs["count_samples"] == jobs["measure_tendencies"] == sources
    assert "merge_statistics" not in jobs  # a body of text fits into one job
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
    printed = checkout.snakemake("--dry-run", *SMOKE).stdout
    assert f"documents    {sources * generation['documents']:,}" in printed
    neural = {name for name in models if config["models"][name]["family"] not in COUNTED}
    contrasted = neural & set(config["contrastive"]["models"])
    scored = {name for name in neural if config["models"][name]["family"] != "sentence-rnn"}
    blocks = -(-config["contrastive"]["sentences"] // config["contrastive"]["sentences_per_shard"])
    generating = len(neural & set(generation["models"]))
    hours = len(neural) * 24 + len(scored) * 1 + len(contrasted) * blocks * 1.5
    hours += 2 * len(neural - scored)  # partition functions
    hours += generating * len(generation["decodings"]) * shards * 1.5
    networks = {"infersent", "skipthought"} & set(semantics["evaluators"])
    hours += len(neural & set(semantics["models"])) * parts * 1.5  # predictions
    hours += len(networks) * len(semantics["models"]) * parts * 1.5  # and their scores
    hours += len(networks) * (1 + 12)  # probes and trainings
    assert jobs["embed"] == jobs["measure_embeddings"] == 1
    hours += 2  # of the job that embeds
    assert f"GPU-hours    {hours:,.1f}" in printed
    assert "embedded     20 documents of each body at most, by skipthought" in printed
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


def test_results_can_be_moved_by_a_path_variable(checkout):
    printed = checkout.snakemake(
        "--dry-run", *SMOKE, '--config=pathvars={"results":"elsewhere"}', "corpora"
    ).stdout
    assert "elsewhere/corpora/wikipedia/documents.parquet" in printed
