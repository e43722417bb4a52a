"""Training of any family on Lightning, killed and resumed at will.

One Lightning "epoch" is one round: the steps up to the next validation. Everything that a step
depends on is a function of (seed, step) or lies in the checkpoint: the order of the batches, the
dropout, the learning rate, the tokens that scheduled sampling draws. So a training that was killed
goes on as if it had not been.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.losses import fastest_products
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.training.lightning_trainer import (
    fit_on,
    lightning_precision,
    repeatable_sums,
)
from beyond_perplexity.training.options import TrainingOptions, scheduled_rate
from beyond_perplexity.training.resume import (
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
    with_prefix,
    without_prefix,
)
from beyond_perplexity.training.rounds import Rounds
from beyond_perplexity.training.scheduled_sampling import mix_batch
from beyond_perplexity.training.stopping import StopRequest, handlers_kept
from beyond_perplexity.training.without_torchmetrics import lightning

# Of a batch and the passes over the training split so far; see `TrainedModel.loss`.
Loss = Callable[[Any, float], Tensor]


class Trained(lightning.LightningModule):
    """A model on its way: loss, optimizer, validation, early stopping, checkpoints."""

    def __init__(
        self,
        model: TrainedModel,
        options: TrainingOptions,
        rounds: Rounds,
        seed: int,
        folder: Path,
        loss: Loss,
        epoch_ended: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self._minimized = loss
        self._epoch_ended = epoch_ended
        self.options = options
        self.rounds = rounds
        self.progress = rounds.progress
        self.rows: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self.last_step = rounds.last_step
        self.validating = False  # stopped between a round and the end of its validation
        self._stop = StopRequest()
        self._folder = folder
        model.training_products = torch.float32 if options.precision == "32" else fastest_products()
        self._seed, self._key = seed, stream_key(seed, "train/dropout")
        self._loss = torch.zeros((), dtype=torch.float64)
        self._tokens = 0
        self._rate = 0.0
        self._validation_loss = 0.0
        self._validation_tokens = 0
        self._margins: dict[str, tuple[float, int]] = {}  # by split: sum and number
        self._restored: dict[str, Tensor] = {}
        self._saved = (0, time.monotonic())
        self._started = time.monotonic()
        self._bar: tqdm[Any] | None = None

    def restore(self) -> None:
        """Take up the newest checkpoint, if there is one."""
        found = load_checkpoint(self._folder)
        if found is None:
            return
        self._restored, state = found
        for name, value in state["progress"].items():
            setattr(self.progress, name, value)
        self.rows = state["rows"]
        self.model.load_state_dict(without_prefix("model", self._restored))
        self.best = without_prefix("best", self._restored)
        self._loss, self._tokens = self._restored["loss"], state["tokens"]
        self._rate, self.validating = state["rate"], state["validating"]
        self._saved = (self.progress.step, time.monotonic())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Make the optimizer; Lightning calls this once."""
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for module in self.model.modules():
            for parameter in module.parameters(recurse=False):
                decayed = parameter.dim() > 1 and not isinstance(module, torch.nn.Embedding)
                (matrices if decayed else others).append(parameter)
        seen = {id(parameter) for parameter in others}
        matrices = [parameter for parameter in matrices if id(parameter) not in seen]
        optimizer: torch.optim.Optimizer
        if self.options.optimizer == "sgd":
            l2 = self.options.l2
            groups = [
                {"params": matrices, "weight_decay": l2},
                {"params": others, "weight_decay": l2 if self.options.l2_on == "all" else 0.0},
            ]
            optimizer = torch.optim.SGD(groups, lr=self.options.learning_rate)
        else:
            groups = [
                {"params": matrices, "weight_decay": self.options.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ]
            optimizer = torch.optim.AdamW(
                groups, lr=self.options.learning_rate, betas=(0.9, self.options.beta2)
            )
        if self._restored:
            restore_optimizer(optimizer, self._restored)
            self._restored = {}
        return optimizer

    @property
    def seconds(self) -> float:
        """Seconds of training so far, interrupted runs included up to their last checkpoint."""
        return self.progress.seconds + time.monotonic() - self._started

    def on_fit_start(self) -> None:
        """Start the clock and the progress bar."""
        self._loss = self._loss.to(self.device)
        self._started = time.monotonic()
        self._bar = tqdm(
            total=self.last_step,
            initial=self.progress.step,
            unit="step",
            mininterval=2.0 if sys.stderr.isatty() else 20.0,
        )

    def on_train_start(self) -> None:
        """Listen to signals from here on: Lightning has taken them shortly before."""
        self._stop.listen()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Set what a step depends on from its number alone."""
        torch.manual_seed((self._key + self.progress.step) % 2**63)
        progress = self.progress
        self._rate = scheduled_rate(
            self.options, progress.step, self.last_step, progress.halvings, progress.epoch
        )
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self._rate

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch, nats per token."""
        batch = mix_batch(self.model, batch, self.options, self._seed, self.progress.step)
        loss = self._minimized(batch, self.rounds.epoch)
        self._loss += loss.detach()
        self._tokens += batch.predictions
        return loss / batch.predictions

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count the step; write a checkpoint when one is due and no validation comes next."""
        self.rounds.advance()
        if self._epoch_ended and not self.progress.index:
            self._epoch_ended()
        validating = batch_idx + 1 == self.trainer.num_training_batches
        self._stop_if_asked(validating)
        assert self._bar is not None
        self._bar.update()
        if not validating:
            self._save_if_due()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Add up the loss of the validation split, and margins of it and of what is watched."""
        self._stop_if_asked(validating=True)
        if dataloader_idx == 0:
            self._validation_loss += float(self._minimized(batch, math.inf))
            self._validation_tokens += batch.predictions
        margins = self.model.margins(batch)
        if margins is not None:
            split = "train" if dataloader_idx else "valid"
            total, count = self._margins.get(split, (0.0, 0))
            self._margins[split] = total + float(margins.sum()), count + len(margins)

    def on_validation_epoch_end(self) -> None:
        """Extend the curve; keep the best weights; stop when they have not improved for long."""
        loss = self._end_round()
        assert self._bar is not None
        shown = {"valid_loss": f"{loss:.3f}"}
        if self.model.normalized:
            shown["perplexity"] = f"{math.exp(min(loss, 99)):.1f}"
        self._stop_if_asked()
        self._bar.set_postfix(shown)
        self._save_if_due()
        if self.progress.finished:
            self._bar.close()
            self.trainer.should_stop = True

    def _end_round(self) -> float:
        """Count a round whose validation has just ended; return its validation loss."""
        progress = self.progress
        self._record("train", float(self._loss) / self._tokens)
        self._loss, self._tokens = torch.zeros_like(self._loss), 0
        loss = self._validated()
        if progress.best_step != progress.step:
            progress.validations_without_best += 1
            plateau = self.options.schedule == "plateau"
            progress.halvings += plateau and self.rounds.epoch >= self.options.plateau_epochs
        stale = progress.validations_without_best >= self.options.patience
        progress.finished = stale or progress.step >= self.last_step or not math.isfinite(loss)
        return loss

    @torch.no_grad()
    def finish_validation(self, device: torch.device) -> None:
        """Validate once more where a signal came before the end of a validation."""
        self.model.to(device).eval()
        mixed = lightning_precision(self.options, device) == "bf16-mixed"
        with torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext():
            for index, batches in enumerate(self.rounds.val_dataloader()):
                for batch in batches:
                    self.validation_step(batch.to(device), 0, index)
        self._end_round()
        self.model.train()
        self.validating = False

    @torch.no_grad()
    def validate_start(self, device: torch.device) -> None:
        """Validate the initial weights: what is no better than they are is not kept."""
        self.model.to(device).eval()
        for batch in self.rounds.val_dataloader()[0]:
            self.validation_step(batch.to(device), 0)
        self._validated()
        self.model.train()

    def _validated(self) -> float:
        """Return the loss of the validation that has just ended; keep the weights if the best."""
        progress = self.progress
        loss = self._validation_loss / self._validation_tokens
        self._validation_loss, self._validation_tokens = 0.0, 0
        self._record("valid", loss)
        if loss < progress.best_loss:
            progress.best_loss, progress.best_step = loss, progress.step
            progress.validations_without_best = 0
            self.best = {
                name: tensor.detach().cpu().clone()
                for name, tensor in self.model.state_dict().items()
            }
        return loss

    def _record(self, split: str, loss: float) -> None:
        total, count = self._margins.pop(split, (0.0, 0))
        perplexity = math.exp(loss) if loss < 700 else math.inf
        self.rows.append(
            {
                "step": self.progress.step,
                "epoch": self.rounds.epoch,
                "split": split,
                "loss": loss,
                "perplexity": perplexity if self.model.normalized else None,
                "contrastive_entropy": total / count if count else None,
                "learning_rate": self._rate,
                "seconds": self.seconds,
            }
        )

    def _save_if_due(self) -> None:
        step, moment = self._saved
        due = (
            self.progress.finished
            or self.progress.step - step >= self.options.checkpoint_steps
            or time.monotonic() - moment >= self.options.checkpoint_seconds
        )
        if due:
            self._save()

    def _stop_if_asked(self, validating: bool = False) -> None:
        """Write a checkpoint and end the process where a signal asked for it."""
        if self._stop.asked:
            self._save(validating)
            self._stop.leave(self.progress.step)

    def _save(self, validating: bool = False) -> None:
        tensors = {
            **with_prefix("model", self.model.state_dict()),
            **with_prefix("best", self.best),
            **optimizer_tensors(self.trainer.optimizers[0]),
            "loss": self._loss,
        }
        progress = {**vars(self.progress), "seconds": self.seconds}
        state = {"progress": progress, "rows": self.rows, "tokens": self._tokens}
        state |= {"rate": self._rate, "validating": validating}
        save_checkpoint(self._folder, self.progress.step, tensors, state)
        self._saved = (self.progress.step, time.monotonic())


@dataclass(frozen=True)
class TrainingResult:
    """What a training ends with.

    Attributes
    ----------
    rows : list of dict
        The training curve: columns of schema ``training``; losses in nats per token, those of a
        hinge per sentence.
    valid_loss : float
        The best validation loss, nats per token (of a hinge, per sentence); the model has the
        weights of that moment.
    best_step, steps : int
        Steps to the best weights, and in all.
    then : TrainingResult or None
        What a second training of the same model ended with.
    """

    rows: list[dict[str, Any]]
    valid_loss: float
    best_step: int
    steps: int
    then: TrainingResult | None = None


def train(
    model: TrainedModel,
    sources: tuple[BatchSource, BatchSource],
    options: TrainingOptions,
    seed: int,
    folder: Path,
    device: torch.device,
    watched: BatchSource | None = None,
    loss: Loss | None = None,
    epoch_ended: Callable[[], None] | None = None,
) -> TrainingResult:
    """Train a model, or go on with it, and leave it with its best weights.

    Parameters
    ----------
    model : TrainedModel
        With its initial weights; changed.
    sources : pair of BatchSource
        The training and the validation split.
    options : TrainingOptions
    seed : int
        Seed of the order of documents and of dropout.
    folder : pathlib.Path
        The checkpoints of this very training (same code, data, options and seed).
    device : torch.device
    watched : BatchSource, optional
        A part of the training split whose margins the curve has, as those of the validation split.
    loss : callable, optional
        What is minimized in place of the model's own loss. The weights that the model comes with
        are then validated first, and it keeps them if it finds none that are better.
    epoch_ended : callable, optional
        Called after the last step of each epoch, before the model is validated.

    Returns
    -------
    TrainingResult

    Raises
    ------
    InputError
        When the loss is not finite at the first validation.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    rounds = Rounds(sources, options, seed, watched)
    trained = Trained(model, options, rounds, seed, folder, loss or model.loss, epoch_ended)
    trained.restore()
    if loss is not None and not trained.best:
        trained.validate_start(device)
    with repeatable_sums(device), handlers_kept():
        if trained.validating:
            trained.finish_validation(device)
        if not trained.progress.finished:
            fit_on(device, trained, rounds, options)
    if not trained.best:
        raise InputError("training: the first validation loss is not a number; lower learning_rate")
    model.load_state_dict(trained.best)
    progress = trained.progress
    return TrainingResult(trained.rows, progress.best_loss, progress.best_step, progress.step)
