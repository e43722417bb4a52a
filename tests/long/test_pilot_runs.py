"""A pilot of the tiny run: `beyond-perplexity plan`, and what dry runs make of it.

Needs some minutes. Oracles: the configuration, which says what is to be measured, and the folder of
the results, in which nothing of the large run may have been made that it does not share.
"""

from __future__ import annotations

import json
import subprocess
import sys

from beyond_perplexity.planning.job_costs import read_plan
from tests.workflow.conftest import SMOKE, checkout  # noqa: F401 (a fixture)

GENERATED = {f"generate/{m}/{d}" for m in ("lstm", "trigram") for d in ("ancestral", "beam")}
CONTRASTED = {f"score_contrast/wikipedia/{m}" for m in ("kn-3", "rnn", "lstm", "sentence-rnn")}
PREDICTED = {"predict_words/lstm", "predict_words/trigram"}


def test_a_pilot_measures_every_model_and_leaves_the_run_alone(checkout):  # noqa: F811
    command = [
        sys.executable,
        "-m",
        "beyond_perplexity",
        "plan",
        *SMOKE,
        "--documents=8",
        "--",
        "--cores=2",
    ]
    done = subprocess.run(command, cwd=checkout.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
    results = checkout.path / "results"
    plan = read_plan(results / "plan.json")
    assert {*GENERATED, *CONTRASTED, *PREDICTED, "train/lstm"} <= set(plan)
    assert all(held.total(1) > 0 and held.megabytes > 50 for held in plan.values())
    assert json.loads((results / "plan.json").read_text())["machine"]
    assert not (results / "samples").exists()
    assert not (results / "models" / "lstm").exists()  # trained for 20 steps, in the pilot's folder
    assert (results / "models" / "trigram" / "model.json").exists()  # counted, for the run itself
    assert "generation.documents_per_shard: " in done.stdout
    summary = done.stdout[done.stdout.index("\nThis run\n") :]
    lines = [line for line in summary.splitlines() if " generate " in line]
    assert len(lines) == 1
    assert "guessed" not in lines[0]
    again = checkout.snakemake("--dry-run", *SMOKE, "--quiet").stdout
    assert again.rstrip().endswith(summary.splitlines()[-1])
