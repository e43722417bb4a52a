"""How a command outlives SIGTERM until SLURM queues its job again.

Needs bash. The oracle is the moment at which a process ends, and what it leaves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beyond_perplexity import errors as requeue
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.half_written import HALF_WRITTEN


def start(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a command as a rule does: in a shell with the prefix, its log through tee."""
    (folder / "command.py").write_text(HALF_WRITTEN)
    prefix = requeue.SHELL_PREFIX.replace("{{", "{").replace("}}", "}")
    line = f"{sys.executable} {folder}/command.py {folder}/out/a.csv 2>&1 | tee -a {folder}/log"
    given = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    process = subprocess.Popen(
        ["bash", "-c", prefix + line],
        env={**given, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (folder / "log").exists() or "begun" not in (folder / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def wait_for(folder: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in (folder / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_shell_and_log_outlive_a_signal_to_all_of_them(tmp_path: Path) -> None:
    process = start(tmp_path)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert "error: stopped by SIGTERM" in (tmp_path / "log").read_text()
    assert not list((tmp_path / "out").iterdir())


def test_in_a_slurm_job_the_command_waits_with_nothing_left_behind(tmp_path: Path) -> None:
    process = start(tmp_path, SLURM_JOB_ID="7")
    os.killpg(process.pid, signal.SIGTERM)
    wait_for(tmp_path, "stopped by SIGTERM")
    assert not list((tmp_path / "out").iterdir())
    os.killpg(process.pid, signal.SIGTERM)  # SLURM may ask more than once
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_elsewhere_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("waits"))
    for value in (None, ""):
        monkeypatch.delenv(requeue.JOB, raising=False)
        if value is not None:
            monkeypatch.setenv(requeue.JOB, value)
        requeue.wait_to_be_requeued()
