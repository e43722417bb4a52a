"""What a job used of its GPU, for the run record: memory, and how busy it was."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

SECONDS_BETWEEN_SAMPLES = 15.0
_FIRST_SAMPLE = 1.0  # seconds after the beginning, so that a short job has one


class GpuWatch:
    """Ask the driver now and then how busy a GPU is, beside the work.

    Parameters
    ----------
    device : str
        As torch names it: ``cuda`` or ``cuda:1``.
    """

    def __init__(self, device: str) -> None:
        self._torch: Any = sys.modules["torch"]
        self._device = self._torch.device(device)
        self._name, self._id = self._identify()
        self._samples: list[float] = []
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _identify(self) -> tuple[str, str]:
        properties = self._torch.cuda.get_device_properties(self._device)
        return properties.name, f"GPU-{properties.uuid}"

    def _watch(self) -> None:
        pause = _FIRST_SAMPLE
        while not self._ended.wait(pause):
            busy = busy_percent(self._id)
            if busy is None:  # there is no nvidia-smi, or it does not know, as of a part of a GPU
                return
            self._samples.append(busy)
            pause = SECONDS_BETWEEN_SAMPLES

    def used(self) -> dict[str, object]:
        """Return what was used so far.

        Returns
        -------
        dict
            ``name``; ``memory_mb``, the most that torch held (MB of 10⁶ bytes); ``busy_percent``,
            the mean share of time in which the GPU worked, null where nobody says so; ``samples``,
            of how many questions.
        """
        samples = list(self._samples)
        held = self._torch.cuda.max_memory_reserved(self._device)
        return {
            "name": self._name,
            "memory_mb": round(held / 1e6),
            "busy_percent": round(sum(samples) / len(samples), 1) if samples else None,
            "samples": len(samples),
        }


def busy_percent(identity: str) -> float | None:
    """Ask nvidia-smi how busy a GPU is, in percent; None where it cannot say."""
    command = ["nvidia-smi", f"--id={identity}", "--query-gpu=utilization.gpu"]
    try:
        done = subprocess.run(
            [*command, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


_watches: dict[str, GpuWatch] = {}


def watch_gpu(device: str) -> None:
    """Begin to watch the GPU that a step runs on, if it is one and torch can use it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_initialized()):
        name = device if device.startswith("cuda") else "cuda"
        if name not in _watches:
            _watches[name] = GpuWatch(name)


def gpus_used() -> list[dict[str, object]]:
    """Return what was used of the GPUs that are watched; nothing on a CPU."""
    return [watch.used() for watch in _watches.values()]
