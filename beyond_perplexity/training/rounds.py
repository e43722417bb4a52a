"""The batches of a training, a round at a time, and how far it has come.

A round is the steps up to the next validation: one "epoch" of Lightning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.training.without_torchmetrics import lightning


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


class Rounds(lightning.LightningDataModule):
    """Batches of the training split, a round at a time, and of the validation split.

    Beside the latter there may be a part of the former that is watched, without being trained on.
    """

    def __init__(
        self,
        sources: tuple[BatchSource, BatchSource],
        options: TrainingOptions,
        seed: int,
        watched: BatchSource | None = None,
    ) -> None:
        super().__init__()
        self.progress = Progress()
        self._train, self._valid = sources
        self._watched = [watched] if watched else []
        self._seed = seed
        self._planned: tuple[int, list[Any]] = (-1, [])
        self._lengths: dict[int, int] = {}
        first = self._epoch_length(0)
        steps = options.maximum_epochs * first
        self.last_step = min(steps, options.maximum_steps or steps)
        self._round = options.validation_steps or first

    def _plan(self, epoch: int) -> list[Any]:
        if self._planned[0] != epoch:
            self._planned = (epoch, self._train.shuffled(self._seed, epoch))
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

    def train_dataloader(self) -> BatchList:
        """Return the batches from the present step to the next validation."""
        progress = self.progress
        end = min((progress.step // self._round + 1) * self._round, self.last_step)
        parts: list[Any] = []
        epoch, index = progress.epoch, progress.index
        while (missing := end - progress.step - len(parts)) > 0:
            parts += self._plan(epoch)[index:][:missing]
            epoch, index = epoch + 1, 0
        return BatchList(self._train, parts)

    def val_dataloader(self) -> list[BatchList]:
        """Return the batches of the validation split, and those that are watched."""
        return [BatchList(source, source.ordered()) for source in (self._valid, *self._watched)]

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Move a batch to the model's device."""
        return batch.to(device)


class BatchList:
    """An iterable of batches with a length, which is all that Lightning asks of a loader."""

    def __init__(self, pieces: BatchSource, plan: list[Any]) -> None:
        self._pieces = pieces
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Any]:
        return (self._pieces.batch(rows) for rows in self._plan)
