"""Plans of thousands of jobs: how long Snakemake takes for one.

Needs some minutes. The oracle of the counts is the configuration; time and memory are printed.
"""

from __future__ import annotations

import resource
import time

import yaml

from tests.workflow.conftest import checkout, planned_jobs  # noqa: F401 (a fixture)


def test_a_million_documents_in_small_shards_can_be_planned(checkout):  # noqa: F811
    path = checkout.path / "configs" / "paper.yaml"
    config = yaml.safe_load(path.read_text())
    generation = config["generation"]
    generation["documents_per_shard"] = generation["documents"] // 400
    path.write_text(yaml.safe_dump(config))
    before = time.monotonic()
    printed = checkout.snakemake("--dry-run", "--quiet", "--configfile=configs/paper.yaml").stdout
    seconds = time.monotonic() - before
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    jobs = planned_jobs(printed)
    print(f"{sum(jobs.values()):,} jobs planned in {seconds:.0f} s, {memory:.0f} MiB")
    bodies = len(generation["models"]) * len(generation["decodings"])
    assert jobs["generate"] == 400 * bodies
    assert jobs["count_samples"] == jobs["measure_tendencies"] == bodies
