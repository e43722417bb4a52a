"""What a run record says of a GPU.

Needs nothing: a stand-in for nvidia-smi says how busy the GPU is, one for torch how much it held.
The oracle is what they say; on a machine with a GPU the record of a real one is looked at too.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from beyond_perplexity.storage import provenance
from beyond_perplexity.storage.provenance import finished, run_record


@pytest.fixture(autouse=True)
def nothing_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_watches", {})


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_nvidia_smi_is_asked_about_this_very_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, 'test "$1" = --id=GPU-7 && echo 62')
    assert provenance.busy_percent("GPU-7") == 62
    assert provenance.busy_percent("GPU-8") is None
    install(tmp_path, monkeypatch, "echo '[N/A]'")
    assert provenance.busy_percent("GPU-7") is None
    (tmp_path / "nvidia-smi").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.busy_percent("GPU-7") is None


def test_a_record_has_what_was_used_of_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "echo 40")
    monkeypatch.setattr(provenance, "_FIRST_SAMPLE", 0.01)
    monkeypatch.setattr(provenance, "SECONDS_BETWEEN_SAMPLES", 0.01)
    cuda = SimpleNamespace(
        is_available=lambda: True,
        get_device_properties=lambda device: SimpleNamespace(name="A GPU", uuid="7"),
        max_memory_reserved=lambda device: 3_000_000_000,
    )
    stand_in = SimpleNamespace(cuda=cuda, device=torch.device)
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    record = run_record("scripts/generate.py", {}, device="cuda")
    deadline = time.monotonic() + 20
    while (found := finished(record)["gpus"][0])["samples"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    provenance._watches["cuda"]._ended.set()
    expected = {"name": "A GPU", "memory_mb": 3000, "busy_percent": 40.0}
    assert {key: found[key] for key in expected} == expected


def test_a_record_of_a_cpu_says_nothing_of_gpus() -> None:
    assert "gpus" not in finished(run_record("scripts/generate.py", {}, device="cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_is_watched() -> None:
    record = run_record("scripts/generate.py", {}, device="cuda")
    square = torch.ones(2000, 2000, device="cuda")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        square = square @ square / 2000
    torch.cuda.synchronize()
    (found,) = finished(record)["gpus"]
    assert found["memory_mb"] >= 16
    assert found["samples"] >= 1
    assert found["busy_percent"] > 0
