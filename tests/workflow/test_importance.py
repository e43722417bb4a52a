"""Importance sampling as a workflow: its end, smaller shards, a killed run.

Needs no network. Oracles: the results of the same run when nothing disturbs it.
"""

from __future__ import annotations

import pandas as pd
import pytest

from tests.workflow.conftest import Checkout, copy_checkout, copy_results, kill_when

IMPORTANCE = ["--configfile=configs/smoke-importance.yaml", "importance"]


@pytest.fixture(scope="module")
def weighed(tmp_path_factory) -> Checkout:
    """Give a copy with a finished run of importance sampling."""
    copy = copy_checkout(tmp_path_factory.mktemp("weighed") / "checkout")
    copy.snakemake(*IMPORTANCE)
    return copy


def test_a_run_ends_in_tables_and_figures(weighed):
    results = weighed.path / "results"
    for table in ("1", "2", "diagnostics"):
        for suffix in ("csv", "tex", "html"):
            path = results / f"tables/importance/table_{table}.{suffix}"
            assert path.stat().st_size > 0
    methods = pd.read_csv(results / "tables/importance/table_diagnostics.csv")
    smc = methods.loc[methods["method"] == "smc", "proposal"]
    assert set(smc) == {"entitynlm-peeking", "entitynlm-no-peeking", "kglm-peeking"}
    for figure in (1, 2, 3, 4, "bounds"):
        assert (results / f"figures/importance/figure_{figure}.svg").stat().st_size > 0
    assert "Nothing to be done" in weighed.snakemake(*IMPORTANCE).stdout


def trained(weighed: Checkout, checkout: Checkout) -> None:
    for folder in ("corpora", "vocabularies", "models"):
        copy_results(weighed, checkout, folder)


def estimates(results: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in results.items() if name.startswith("estimates/")}


def test_smaller_shards_give_the_same_estimates(weighed, checkout):
    path = checkout.path / "configs" / "smoke-importance.yaml"
    text = path.read_text().replace("instances_per_shard: 4", "instances_per_shard: 3")
    path.write_text(text.replace("samples_per_shard: 12", "samples_per_shard: 20"))
    trained(weighed, checkout)
    checkout.snakemake(*IMPORTANCE, "--rerun-triggers", "mtime")
    expected = estimates(weighed.results())
    assert expected
    assert estimates(checkout.results()) == expected


def test_a_killed_run_goes_on_to_the_same_results_and_keeps_its_shards(weighed, checkout):
    trained(weighed, checkout)
    shards = checkout.path / "results" / "log_weights"
    arguments = [*IMPORTANCE, "--rerun-triggers", "mtime"]
    kill_when(checkout, arguments, lambda: any(shards.rglob("*.parquet")))
    kept = {path: path.stat().st_mtime_ns for path in shards.rglob("[0-9]*.parquet")}
    checkout.snakemake("--unlock", *IMPORTANCE)
    checkout.snakemake(*arguments, "--rerun-incomplete")
    assert checkout.results() == weighed.results()
    # a shard that was renamed into place but not yet recorded is made again, no other
    changed = [path for path, moment in kept.items() if path.stat().st_mtime_ns != moment]
    assert len(changed) <= 2
