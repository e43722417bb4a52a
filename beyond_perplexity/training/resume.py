"""Checkpoints of an unfinished training: whole files only, the last two kept, nothing unpickled."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from beyond_perplexity.models.checkpoint import save_tensors
from beyond_perplexity.storage.provenance import content_hash

KEPT = 2
_logger = logging.getLogger(__name__)


def save_checkpoint(
    folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]
) -> None:
    """Write ``{step}-{hash}.safetensors`` and remove all but the last `KEPT` checkpoints.

    A kill at any moment leaves the earlier checkpoints whole: the file gets its name last. Two
    trainings may share the folder, as after a hard kill of Snakemake.

    Parameters
    ----------
    folder : pathlib.Path
        The checkpoints of one training.
    step : int
        Optimizer steps made so far.
    tensors : dict of str to Tensor
        Weights and optimizer state.
    state : dict
        Counters and the training curve; JSON-serializable.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def name(written: Path) -> Path:
        return folder / f"{step:010d}-{content_hash(written)[:16]}.safetensors"

    save_tensors(folder / "writing.safetensors", tensors, {"state": json.dumps(state)}, name)
    for old in _checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the newest checkpoint that is whole; None when there is none.

    A file whose content is not what its name says is passed over with a warning in the log.
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
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            index, _, entry = rest.partition(".")
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
