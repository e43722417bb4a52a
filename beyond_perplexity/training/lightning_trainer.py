"""How Lightning is set up: one process on one device, sums in one order, no files of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.training.without_torchmetrics import lightning

IRRELEVANT_WARNINGS = (
    "The `srun` command is available",  # one process on one device needs no srun
    ".*treespec, LeafSpec",  # Lightning calls what torch has deprecated
)


@contextmanager
def repeatable_sums(device: torch.device) -> Iterator[None]:
    """Add up gradients in one order on a CPU: its threads otherwise do in that of their arrival.

    On a GPU it does nothing: there several operations have no such way.
    """
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before or device.type == "cpu")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def lightning_precision(
    options: TrainingOptions, device: torch.device
) -> Literal["32-true", "bf16-mixed"]:
    """Return what Lightning is told of the precision: ``32-true`` or ``bf16-mixed``."""
    if options.precision == "auto":
        return "bf16-mixed" if device.type == "cuda" else "32-true"
    return "32-true" if options.precision == "32" else "bf16-mixed"


def fit_on(
    device: torch.device,
    module: lightning.LightningModule,
    data: lightning.LightningDataModule,
    options: TrainingOptions,
) -> None:
    """Train on one device: one process, no logger, no checkpoints of Lightning's own."""
    trainer = lightning.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if device.type == "cuda" else 1,
        # One process on one device: what SLURM or MPI say about their job is not for Lightning.
        plugins=[lightning.pytorch.plugins.environments.LightningEnvironment()],
        precision=lightning_precision(options, device),
        max_epochs=-1,
        gradient_clip_val=options.gradient_clip,
        reload_dataloaders_every_n_epochs=1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with warnings.catch_warnings():
        for message in IRRELEVANT_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        trainer.fit(module, datamodule=data)
