"""How a training ends early and goes on: signals that ask it to stop, and its checkpoints.

Checkpoints are whole files only, the last two are kept, and nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from beyond_perplexity.errors import Stopped
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.checkpoint import save_tensors
from beyond_perplexity.storage.provenance import content_hash

# Ctrl-C; the end of a job that is preempted, cancelled or out of time; what SLURM's --signal=USR1
# sends ahead of that end.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
KEPT = 2
_logger = logging.getLogger(__name__)


class StopRequest:
    """Whether the process was asked to stop: as a context it notes the signals of `STOPPING`.

    So no step is cut in the middle. Only the main thread can listen; at the end those who had the
    signals before have them again.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._signal is not None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in STOPPING}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.asked:  # Ctrl-C a second time: now
            raise KeyboardInterrupt
        self._signal = self._signal or number

    def leave(self, step: int) -> NoReturn:
        """End the process with the status of the signal, after the checkpoint of a step."""
        assert self._signal is not None
        with contextlib.suppress(OSError):  # who read the log may have been ended first
            remark(f"step {step:,} is kept: the same command goes on from there")
        raise Stopped(128 + self._signal)


def save_checkpoint(
    folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]
) -> None:
    """Write ``{step}-{hash}.safetensors`` and remove all but the last `KEPT` checkpoints.

    A kill at any moment leaves the earlier checkpoints whole: the file gets its name last. Two
    trainings may share the folder, as after a hard kill of Snakemake. `state` is JSON-serializable.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def name(written: Path) -> Path:
        return folder / f"{step:010d}-{content_hash(written)[:16]}.safetensors"

    save_tensors(folder / "writing.safetensors", tensors, {"state": json.dumps(state)}, name)
    for old in _checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the newest checkpoint that is whole, passing over others with a warning.

    None: none is.
    """
    for path in reversed(_checkpoints(folder)):
        try:
            if content_hash(path)[:16] != path.stem.partition("-")[2]:
                _logger.warning("%s: is damaged; going on from the checkpoint before it", path)
                continue
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return tensors, json.loads(file.metadata()["state"])
        except (FileNotFoundError, SafetensorError, KeyError, TypeError, ValueError):
            _logger.warning("%s: is no checkpoint; going on from the one before it", path)
    return None


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*-*.safetensors"))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Name the tensors of an optimizer's state ``optimizer.{parameter}.{entry}``."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{entry}": torch.as_tensor(value)
        for index, entries in state.items()
        for entry, value in entries.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` named."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in without_prefix("optimizer", tensors).items():
        index, _, entry = name.partition(".")
        state.setdefault(int(index), {})[entry] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Name tensors ``{prefix}.{name}``."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take the tensors named ``{prefix}.{name}``, by name."""
    start = f"{prefix}."
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
