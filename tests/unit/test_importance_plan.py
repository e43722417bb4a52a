"""What the rules look up for importance sampling.

Needs no data. Oracle: the configuration, and that shards cover every instance and sample once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from beyond_perplexity.planning.importance import ImportancePlan
from beyond_perplexity.planning.validation import validate

ROOT = Path(__file__).parents[2]


def plan(name: str, **importance: object) -> ImportancePlan:
    config = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    config["importance"] |= importance
    validate(config, ROOT / "rules" / "config.schema.yaml")
    return ImportancePlan(config)


@pytest.mark.parametrize(("instances", "samples"), [(40, 100), (41, 101), (1, 10)])
def test_the_shards_cover_every_instance_and_sample_once(instances, samples):
    held = plan(
        "config.yaml",
        instances=instances,
        samples=samples,
        instances_per_shard=20,
        samples_per_shard=7,
    )
    seen = set()
    for shard in held.shards():
        (first, count), (start, number) = held.cell(shard)
        cell = {(i, k) for i in range(first, first + count) for k in range(start, start + number)}
        assert not cell & seen
        seen |= cell
    assert seen == {(i, k) for i in range(instances) for k in range(samples)}


def test_a_proposals_own_temperatures_join_the_grid():
    held = plan("config.yaml", temperatures=[0.5, 2.0])
    assert held.temperatures("kglm-peeking") == [0.5, 2.0]
    assert held.temperatures("kglm-no-peeking") == [1.0]
    assert held.grid("kglm-peeking") == [0.5, 2.0]
    assert held.grid("kglm-no-peeking") == [0.5, 1.0, 2.0]
    assert len(held.weight_files("kglm-peeking")) == 2


def test_the_tables_say_where_the_annotation_comes_from():
    assert plan("config.yaml").data() == {
        "rnng": "wikipedia (test), automatic trees (TextBlob's chunker)",
        "entitynlm": "wikipedia (test), entity chains of links, no coreference",
        "kglm": "wikipedia (test), entity chains of links, no coreference",
    }
    assert plan("configs/paper-importance.yaml").data()["rnng"] == (
        "treebank (test), trees of the corpus"
    )


def test_only_models_that_go_word_by_word_are_run_by_sequential_monte_carlo():
    held = plan("config.yaml", instances=40, instances_per_shard=20)
    folder = "<results>/smc/kglm/kglm-peeking"
    assert held.smc_files("kglm-peeking") == [f"{folder}/00000.parquet", f"{folder}/00001.parquet"]
    assert held.smc_files("rnng-crf") == []
    assert plan("config.yaml", smc=None).smc_files("kglm-peeking") == []
