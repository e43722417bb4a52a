"""CONTRIBUTING.md is true: a toy of each kind is added by just the edits that it names.

Needs the finished tiny run. Oracles: git's list of differences, the jobs planned, working toys.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
import yaml

from tests.workflow.conftest import Checkout
from tests.workflow.toys import TOYS, add, read_places

REFERENCE = "docs/configuration.md"
STEPS = (
    ("model family", "latent family", "decoding", "estimator", "reader"),
    ("figure", "table"),
    ("tendency", "tendency of a class of words"),
)


def git(tree: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout


class Grown(NamedTuple):
    """A copy with all toys, the jobs of the tiny run after each step, and files that may differ."""

    copy: Checkout
    plans: list[dict[str, int]]
    named: set[str]


@pytest.fixture(scope="module")
def grown(finished, tmp_path_factory) -> Grown:
    copy = Checkout(tmp_path_factory.mktemp("grown") / "checkout")
    subprocess.run(["cp", "-a", finished.path, copy.path], check=True)
    git(copy.path, "init", "--quiet")
    git(copy.path, "add", "--all")
    git(copy.path, "commit", "--quiet", "--message", "As it was")
    plans, named = [], {REFERENCE}
    for kinds in STEPS:
        for kind in kinds:
            named |= add(copy.path, kind)
        plans.append(copy.planned())
    command = [sys.executable, "-m", "scripts.update_configuration_page"]
    subprocess.run(command, cwd=copy.path, check=True)
    return Grown(copy, plans, named)


def test_every_kind_has_a_toy_and_a_place() -> None:
    assert list(read_places()) == list(TOYS)
    assert {kind for step in STEPS for kind in step} == set(TOYS)


def test_nothing_differs_but_what_is_named(grown) -> None:
    lines = git(grown.copy.path, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert {line[3:] for line in lines} == grown.named


def test_what_nobody_uses_reruns_nothing(grown) -> None:
    assert grown.plans[0] == {}


def test_a_figure_and_a_table_are_made_and_nothing_else(grown) -> None:
    assert grown.plans[1] == {"plot": 1, "tabulate": 1}


def test_a_tendency_counts_and_measures_again_and_trains_nothing(grown) -> None:
    """Two models with two decodings, each counted by one job; three random subsets."""
    jobs = grown.plans[2]
    counted = {"count_samples": 4, "count_reference": 2, "count_resample": 3}
    merged = {"measure_tendencies": 4, "measure_words": 4, "measure_resample": 3}
    once = {"describe_reference": 1, "measure_sensitivity": 1, "write_overview": 1}
    once["measure_embeddings"] = 1  # whose rows join the others; nothing is embedded again
    once["relate_measures"] = 1
    expected = counted | merged | once
    assert {rule: jobs.get(rule) for rule in expected} == expected
    assert set(jobs) == {*expected, "tabulate", "plot"}


def make_config(folder: Path) -> dict[str, Any]:
    things, numbers = ("cat", "dog", "tree", "song", "red house"), range(240)
    lines = (f"page {n},the {things[n % 5]} saw {n % 7} of {n % 11} things ." for n in numbers)
    (folder / "corpus.csv").write_text("\n".join(lines) + "\n")
    training = {"maximum_epochs": 1, "maximum_steps": 5, "checkpoint_steps": 5}
    common = {"corpus": "lines", "vocabulary": "words", "training": training}
    return {
        "seed": 1,
        "corpora": {
            "lines": {
                "source": {"format": "csv", "paths": [str(folder / "corpus.csv")]},
                "documents": {"minimum_tokens": 2},
                "split": {"train": 0.5, "valid": 0.1, "test": 0.4},
            }
        },
        "vocabularies": {"words": {"kind": "closed", "minimum_count": 1, "maximum_size": 100}},
        "models": {
            "toy": {"family": "unigram", **common},
            "bits": {"family": "hidden-bits", **common},
        },
        "decodings": {"cut": {"kind": "epsilon", "epsilon": 0.02}},
        "generation": {
            "models": ["toy"],
            "decodings": ["cut"],
            "documents": 10,
            "documents_per_shard": 10,
            "maximum_length": 20,
        },
        "tendencies": {"resamples": 2, "measurement": {"permutations": 20, "bootstrap": 20}},
        "proposals": {"tagger": {"model": "bits", "family": "bit-tagger", "training": training}},
        "importance": {
            "instances": 3,
            "samples": 6,
            "temperatures": [1.0],
            "beams": [1, 2],
            "reduction": {"subsets": 4, "bootstrap": 4, "replicate_samples": 3},
        },
    }


RESULTS = "results/samples/toy/cut/00000.parquet"
MADE = (
    RESULTS,
    "results/statistics/toy/cut/00000.parquet",
    "results/figures/tendencies/lines/losses.svg",
    "results/tables/tendencies/lines/epochs.csv",
    "results/estimates/bits/tagger/estimates.parquet",
)


def test_a_run_of_all_toys_is_planned_and_works(grown, tmp_path) -> None:
    config = tmp_path / "toys.yaml"
    config.write_text(yaml.safe_dump(make_config(tmp_path), sort_keys=False))
    file = f"--configfile={config}"
    printed = grown.copy.snakemake("--dry-run", file).stdout
    for path in (*MADE, "results/figures/tendencies/lines/figure_digits.svg"):
        assert path in printed
    grown.copy.snakemake(file, "--", *MADE)
    results = grown.copy.path
    samples = pq.read_table(results / MADE[0])
    assert len(samples) == 10
    assert len(set(samples["text"].to_pylist())) > 1
    counted = pq.read_table(results / MADE[1]).to_pylist()
    assert {"digits", "word_length_4"} <= {row["statistic"] for row in counted}
    methods = pq.read_table(results / MADE[4])["method"].to_pylist()
    assert {"median", "importance_sampling"} <= set(methods)
    assert (results / MADE[2]).stat().st_size > 0
    assert "toy" in (results / MADE[3]).read_text()
