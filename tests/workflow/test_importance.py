"""Importance sampling as a workflow: its end, smaller shards, a killed run, a larger one.

Oracles: the results of the same run when nothing disturbs it; jobs counted by hand.
"""

import re
from collections import Counter
from itertools import product
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.workflow.conftest import Checkout, copy_of_run, copy_results, kill_when

IMPORTANCE = ["--configfile=configs/smoke-importance.yaml", "importance", "thoughts"]


@pytest.fixture(scope="module")
def weighed(tmp_path_factory) -> Checkout:
    """Give a copy with a finished run of importance sampling."""
    return copy_of_run(tmp_path_factory, "weighed", *IMPORTANCE)


def test_a_run_ends_in_tables_and_figures(weighed):
    results = weighed.path / "results"
    tables = ["1", "2", "diagnostics", "choice", "beside", "latents", "words", "costs", "advice"]
    for table, suffix in product(tables, ("csv", "tex", "html")):
        assert (results / f"tables/importance/table_{table}.{suffix}").stat().st_size > 0
    methods = pd.read_csv(results / "tables/importance/table_diagnostics.csv")
    smc = methods.loc[methods["method"] == "smc", "proposal"]
    assert set(smc) == {proposal.rpartition("/")[2] for proposal in PROPOSALS}
    for figure in (1, 2, 3, 4, "bounds", "costs"):
        assert (results / f"figures/importance/figure_{figure}.svg").stat().st_size > 0
    assert (results / "figures/thoughts/sentences/samples.svg").stat().st_size > 0
    answers = pd.read_csv(results / "tables/thoughts/sentences/perplexity.csv")
    assert answers["proposal"].tolist() == ["own", "mixture"]
    assert (answers[["n_prompts", "n_samples"]] == [5, 50]).all(axis=None)
    assert (answers["value"] > 1).all()
    assert "Nothing to be done" in weighed.snakemake(*IMPORTANCE).stdout


def trained(weighed: Checkout, checkout: Checkout) -> None:
    for folder in ("corpora", "vocabularies", "models"):
        copy_results(weighed, checkout, folder)


def estimates(results: dict[str, str]) -> dict[str, str]:
    reduced = re.compile(r"estimates/|thoughts/.*/(estimates|curves|sums)\.parquet")
    return {name: digest for name, digest in results.items() if reduced.match(name)}


def unmeasured(results: dict[str, str]) -> dict[str, str]:
    """Leave out what is made of measured seconds."""
    measured = ("table_costs", "table_advice", "figure_costs")
    return {
        name: digest for name, digest in results.items() if not any(m in name for m in measured)
    }


def test_smaller_shards_give_the_same_estimates(weighed, checkout):
    path = checkout.path / "configs" / "smoke-importance.yaml"
    text = path.read_text().replace("instances_per_shard: 4", "instances_per_shard: 3")
    text = text.replace("    instances_per_shard: 3", "    instances_per_shard: 2")
    path.write_text(text.replace("samples_per_shard: 12", "samples_per_shard: 20"))
    trained(weighed, checkout)
    expected = estimates(weighed.results())
    assert expected
    targets = [f"results/{name}" for name in expected]
    checkout.snakemake(IMPORTANCE[0], "--rerun-triggers", "mtime", "--", *targets)
    assert estimates(checkout.results()) == expected


def test_a_killed_run_goes_on_to_the_same_results_and_keeps_its_shards(weighed, checkout):
    trained(weighed, checkout)
    shards = checkout.path / "results" / "draws"
    arguments = [*IMPORTANCE, "--rerun-triggers", "mtime"]
    kill_when(checkout, arguments, lambda: any(shards.rglob("*.parquet")))
    kept = {path: path.stat().st_mtime_ns for path in shards.rglob("[0-9]*.parquet")}
    checkout.snakemake(*arguments, "--rerun-incomplete")
    assert unmeasured(checkout.results()) == unmeasured(weighed.results())
    # a shard that was renamed into place but not yet recorded is made again, no other
    changed = [path for path, moment in kept.items() if path.stat().st_mtime_ns != moment]
    assert len(changed) <= 2


WEIGHED = [  # 6 settings: every proposal at its temperatures
    *("rnng/rnng-crf/tau_1.0", "rnng/rnng-crf/tau_2.0", "entitynlm/entitynlm-peeking/tau_1.0"),
    *("entitynlm/entitynlm-no-peeking/tau_1.0", "kglm/kglm-peeking/tau_1.0"),
    "masked-diffusion/masked-diffusion-orders/tau_1.0",
]
PROPOSALS = [setting.rpartition("/")[0] for setting in WEIGHED[1:]]
ANNOTATED = PROPOSALS[:-1]  # no order is annotated, so none is compared with one


def grow(weighed: Checkout, config: dict[str, Any]) -> tuple[dict[str, int], set[str]]:
    """Plan a changed run on the finished one: its jobs that run models or reduce; its draws."""
    (weighed.path / "configs" / "grown.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    printed = weighed.snakemake("--dry-run", "--configfile=configs/grown.yaml", "importance").stdout
    rules = Counter(
        re.findall(r"^rule (train|draw|describe_latents|reduce_weights):", printed, re.M)
    )
    draws = re.findall(r"^    output: results/draws/(\S+)\.parquet, ", printed, re.M)
    assert len(draws) == rules["draw"]
    return dict(rules), set(draws)


@pytest.fixture
def config(weighed) -> dict[str, Any]:
    text = (weighed.path / "configs" / "smoke-importance.yaml").read_text()
    return yaml.safe_load(text)


def test_more_samples_leave_whole_blocks_as_they_are(weighed, config):
    config["importance"]["samples"] = 30  # 12 and 8 become 12, 12 and 6
    rules, draws = grow(weighed, config)
    blocks = ("00000-00001", "00000-00002")
    expected = {f"weights/{setting}/{block}" for setting in WEIGHED for block in blocks}
    assert draws == expected | {f"log_q/rnng/rnng-crf/all/{block}" for block in blocks}
    assert rules == {"draw": 14, "reduce_weights": 5}


def test_more_instances_leave_whole_blocks_as_they_are(weighed, config):
    config["importance"]["instances"] = 6  # a block of 4, and now of 2
    rules, draws = grow(weighed, config)
    blocks = ("00001-00000", "00001-00001")
    expected = {f"weights/{setting}/{block}" for setting in WEIGHED for block in blocks}
    expected |= {f"log_q/rnng/rnng-crf/all/{block}" for block in blocks}
    for draw in ("beams", "smc", "posterior"):
        held = ANNOTATED if draw == "posterior" else PROPOSALS
        expected |= {f"{draw}/{proposal}/all/00001-00000" for proposal in held}
    assert draws == expected
    assert rules == {"draw": 28, "reduce_weights": 5}


def test_more_runs_of_particles_leave_the_others_as_they_are(weighed, config):
    config["importance"]["smc"]["runs"] = 4  # a block of 2 is there
    rules, draws = grow(weighed, config)
    ways = ("smc/{}/all", "bidirectional/{}/particles")
    assert draws == {f"{way.format(one)}/00000-00001" for way in ways for one in PROPOSALS}
    assert rules == {"draw": 10, "reduce_weights": 5}


def test_one_more_temperature_leaves_the_others_weights_as_they_are(weighed, config):
    config["importance"]["temperatures"] = [1.0, 2.0, 3.0]  # those of the CRF alone
    rules, draws = grow(weighed, config)
    blocks = ("00000-00000", "00000-00001")
    settings = ("weights/rnng/rnng-crf/tau_3.0", "log_q/rnng/rnng-crf/all")
    expected = {f"{setting}/{block}" for setting in settings for block in blocks}
    # Simulated documents are drawn at all temperatures by one job.
    assert draws == expected | {"bidirectional/rnng/rnng-crf/samples/00000-00000"}
    assert rules == {"draw": 5, "reduce_weights": 1}


def test_one_more_proposal_runs_what_is_its_own(weighed, config):
    other = {**config["proposals"]["kglm-peeking"], "architecture": {"context": "causal"}}
    config["proposals"]["kglm-no-peeking"] = other
    rules, draws = grow(weighed, config)
    kinds = ("beams/{}/all", "smc/{}/all", "posterior/{}/all")
    kinds += ("bidirectional/{}/samples", "bidirectional/{}/particles")
    expected = {f"{kind.format('kglm/kglm-no-peeking')}/00000-00000" for kind in kinds}
    folder = "weights/kglm/kglm-no-peeking/tau_1.0"
    assert draws == expected | {f"{folder}/00000-00000", f"{folder}/00000-00001"}
    assert rules == {"train": 1, "draw": 7, "reduce_weights": 1}
