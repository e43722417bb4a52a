"""Plans of thousands of jobs: how long Snakemake takes for one, and how much memory.

Needs some minutes. The oracle of the counts is the configuration; time and memory are printed, and
may not exceed a minute and a GB. Time is that of the processor: other work on the machine is none
of ours.
"""

from __future__ import annotations

import resource

import pytest
import yaml

from tests.workflow.conftest import checkout, planned_jobs  # noqa: F401 (a fixture)

SECONDS, MEGABYTES = 60, 1024


def children() -> tuple[float, float]:
    """Return the seconds of all children so far, and the MiB of the largest one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


@pytest.mark.parametrize("shards", [400, 741])
def test_a_million_documents_in_small_shards_can_be_planned(checkout, shards):  # noqa: F811
    """741 shards of 27 bodies of text are 20,007."""
    path = checkout.path / "configs" / "paper.yaml"
    config = yaml.safe_load(path.read_text())
    generation = config["generation"]
    generation["documents_per_shard"] = -(-generation["documents"] // shards)
    path.write_text(yaml.safe_dump(config))
    before, _ = children()
    printed = checkout.snakemake("--dry-run", "--quiet", "--configfile=configs/paper.yaml").stdout
    seconds, memory = children()
    seconds -= before
    jobs = planned_jobs(printed)
    print(f"{sum(jobs.values()):,} jobs planned in {seconds:.0f} s, {memory:.0f} MiB")
    bodies = len(generation["models"]) * len(generation["decodings"])
    assert jobs["generate"] == shards * bodies
    assert jobs["count_samples"] == jobs["measure_tendencies"] == bodies
    assert seconds < SECONDS
    assert memory < MEGABYTES
