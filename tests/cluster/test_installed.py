"""The installed package on a real SLURM: its jobs find the workflow and the Python it came from.

Needs root, slurm-wlm and munge (else skipped). Another `python` is first on the path. Oracles:
SLURM's own record; the tokens of a sentence, by hand; the fingerprint of the checkout's code.
"""

import os

import pyarrow.parquet as pq
import pytest

from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.shards import read_record
from tests.cluster import slurm, test_slurm
from tests.unit.installed import TINY_CONFIG, Installed, install

TARGET = "results/corpora/mine/documents.parquet"
PLACE = "mon cœur"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel, with a configuration beside another `scripts` and another `python`."""
    found = install(tmp_path_factory.mktemp("installed"))
    place = found.outside / PLACE
    status, _, error = found.call("beyond-perplexity", "run", "--init", PLACE)
    assert status == "0", error
    (place / "config.yaml").write_text(TINY_CONFIG)
    (place / "text.txt").write_text("The cat sat, and the dog ran.\n" * 20)
    decoys = place / "scripts", found.outside / "bin"
    for folder in decoys:
        folder.mkdir()
    (decoys[0] / "__init__.py").write_text("raise SystemExit('not ours')\n")
    for name in ("python", "python3"):
        (decoys[1] / name).write_text("#!/bin/sh\necho not ours >&2\nexit 1\n")
        (decoys[1] / name).chmod(0o755)
    return found


def test_jobs_run_out_of_the_package(cluster: slurm.Cluster, installed: Installed) -> None:
    before = {job["JobId"] for job in cluster.jobs()}
    path = os.pathsep.join([str(installed.outside / "bin"), cluster.environment()["PATH"]])
    status, said, error = installed.call(
        "beyond-perplexity",
        *("run", "--profile=profiles/slurm", *test_slurm.MACHINE, "--", TARGET),
        folder=PLACE,
        variables={**cluster.environment(), "PATH": path},
    )
    assert status == "0", f"{said}\n{error}"
    jobs = [job for job in cluster.jobs() if job["JobId"] not in before]
    assert [job["JobState"] for job in jobs] == ["COMPLETED"]
    assert jobs[0]["Comment"].startswith("rule_extract_corpus")
    made = installed.outside / PLACE / TARGET
    assert set(pq.read_table(made)["text"].to_pylist()) == {"the cat sat , and the dog ran ."}
    record = read_record(made)
    assert record["script"] == "scripts/extract_corpus.py"
    assert record["code_fingerprint"] == fingerprint("scripts/extract_corpus.py")
