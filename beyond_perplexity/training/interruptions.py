"""How far a training is, how it ends early and goes on: rounds, signals, whole checkpoint files."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import Stopped
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.registry import save_tensors
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.training.options import TrainingOptions

# Ctrl-C; the end of a job that is preempted, cancelled or out of time; what SLURM's --signal=USR1
# sends ahead of that end.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
KEPT = 2
_logger = logging.getLogger(__name__)


class StopRequest:
    """Whether the process was asked to stop: as a context it notes the signals of `STOPPING`, in
    the main thread, so that no step is cut in the middle."""

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
    """Write ``{step}-{hash}.safetensors``, whole at any kill, and remove all but the last `KEPT`;
    two trainings may share the folder, as after a hard kill of Snakemake."""
    folder.mkdir(parents=True, exist_ok=True)

    def name(written: Path) -> Path:
        return folder / f"{step:010d}-{content_hash(written)[:16]}.safetensors"

    save_tensors(folder / "writing.safetensors", tensors, {"state": json.dumps(state)}, name)
    for old in _checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the newest checkpoint that is whole, None if none is; warn of others."""
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
    """Name the tensors of an optimizer's state ``{parameter}.{entry}``."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{entry}": torch.as_tensor(value)
        for index, entries in state.items()
        for entry, value in entries.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` named."""
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in tensors.items():
        index, _, entry = name.partition(".")
        state[int(index)][entry] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


@dataclass
class Progress:
    """The counters of a training; all of it is in the checkpoint."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    best_loss: float = math.inf
    best_step: int = 0
    validations_without_best: int = 0
    halvings: int = 0
    finished: bool = False
    seconds: float = 0.0


class Rounds:
    """Batches of the training split, a round at a time, of validation, and of what is watched."""

    def __init__(
        self,
        sources: tuple[BatchSource, BatchSource],
        options: TrainingOptions,
        seed: int,
        watched: BatchSource | None = None,
    ) -> None:
        self.progress = Progress()
        self._train, self._valid = sources
        self.options, self.seed, self._watched = options, seed, watched
        self._planned: tuple[int, list[Any]] = (-1, [])
        self._lengths: dict[int, int] = {}
        first = self._epoch_length(0)
        steps = options.maximum_epochs * first
        self.last_step = min(steps, options.maximum_steps or steps)
        self._round = options.validation_steps or first

    def _plan(self, epoch: int) -> list[Any]:
        if self._planned[0] != epoch:
            self._planned = (epoch, self._train.shuffled(self.seed, epoch))
            self._lengths[epoch] = len(self._planned[1])
        return self._planned[1]

    def _epoch_length(self, epoch: int) -> int:
        return self._lengths.get(epoch) or len(self._plan(epoch))

    @property
    def epoch(self) -> float:
        """Epochs done, with the fraction of the present one."""
        return self.progress.epoch + self.progress.index / self._epoch_length(self.progress.epoch)

    def advance(self) -> None:
        """Count one step."""
        progress = self.progress
        progress.step += 1
        progress.index += 1
        if progress.index == self._epoch_length(progress.epoch):
            progress.epoch, progress.index = progress.epoch + 1, 0

    def training_batches(self) -> Iterator[tuple[Any, int]]:
        """Yield the batches up to the next validation, each with the number of those after it."""
        progress = self.progress
        end = min((progress.step // self._round + 1) * self._round, self.last_step)
        parts: list[Any] = []
        epoch, index = progress.epoch, progress.index
        while (missing := end - progress.step - len(parts)) > 0:
            parts += self._plan(epoch)[index:][:missing]
            epoch, index = epoch + 1, 0
        for number, rows in enumerate(parts, 1):
            yield self._train.batch(rows), len(parts) - number

    def validation_batches(self, watched: bool) -> Iterator[tuple[str, Any]]:
        """Yield those of the validation split and, where asked, those watched, as of ``train``."""
        sources = {"valid": self._valid}
        if watched and self._watched:
            sources["train"] = self._watched
        for split, source in sources.items():
            yield from ((split, source.batch(rows)) for rows in source.ordered())
