"""Training of any family on Lightning, killed and resumed at will.

One Lightning "epoch" is one round: the steps up to the next validation. Everything that a step
depends on is a function of (seed, step) or lies in the checkpoint: the order of the batches, the
dropout, the learning rate. So a training that was killed goes on as if it had not been.
"""

from __future__ import annotations

import logging
import math
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lightning
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from beyond_perplexity.batches import IGNORED, Batch, Pieces, TokenStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.losses import chunked_cross_entropy
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.factored import FactoredModel
from beyond_perplexity.randomness import stream_key
from beyond_perplexity.resume import (
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
    with_prefix,
    without_prefix,
)

IRRELEVANT_WARNINGS = (
    "The `srun` command is available",  # one process on one device needs no srun
    ".*treespec, LeafSpec",  # Lightning calls what torch has deprecated
)


@dataclass(frozen=True)
class TrainingOptions:
    """How a model is trained.

    Attributes
    ----------
    batch_tokens : int
        Positions of a batch at most, filling included.
    maximum_length : int
        Longer documents are cut into pieces of this many predictions; the model's context if less.
    maximum_epochs : int
        Passes over the training split at most.
    maximum_steps : int or None
        Optimizer steps at most; null: as many as the epochs have.
    learning_rate : float
        The peak of the schedule.
    schedule : "cosine" or "constant"
        After the warm-up: falling to zero at the last step, or staying at the peak.
    warmup_steps : int
        Steps of linear rise to the peak.
    weight_decay : float
        Of AdamW; on matrices only, not on biases, norms and embeddings.
    beta2 : float
        Decay of AdamW's second moment.
    gradient_clip : float
        Largest norm of the gradient.
    validation_steps : int or None
        Steps between two validations; null: once an epoch.
    patience : int
        Validations in a row without a new best loss after which training stops.
    precision : "auto", "32" or "bf16-mixed"
        auto: bf16-mixed on a GPU; on a CPU 32, but bf16 products in the output layer where the CPU
        has instructions for them.
    checkpoint_steps : int
        Steps between two checkpoints at most.
    checkpoint_seconds : float
        Seconds between two checkpoints at most.
    """

    batch_tokens: int = 2048
    maximum_length: int = 512
    maximum_epochs: int = 6
    maximum_steps: int | None = None
    learning_rate: float = 0.003
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_steps: int = 50
    weight_decay: float = 0.01
    beta2: float = 0.98
    gradient_clip: float = 1.0
    validation_steps: int | None = None
    patience: int = 3
    precision: Literal["auto", "32", "bf16-mixed"] = "auto"
    checkpoint_steps: int = 1000
    checkpoint_seconds: float = 300.0

    def __post_init__(self) -> None:
        whole = ("batch_tokens", "maximum_length", "maximum_epochs", "patience", "checkpoint_steps")
        for key in whole:
            if getattr(self, key) < 1:
                raise ValueError(f"{key}: is {getattr(self, key)}, expected at least 1")
        for key in ("maximum_steps", "validation_steps"):
            if getattr(self, key) is not None and getattr(self, key) < 1:
                raise ValueError(f"{key}: is {getattr(self, key)}, expected at least 1 or null")
        if min(self.learning_rate, self.gradient_clip) <= 0:
            raise ValueError("learning_rate and gradient_clip must be above 0")
        if min(self.warmup_steps, self.weight_decay, self.checkpoint_seconds) < 0:
            raise ValueError("warmup_steps, weight_decay, checkpoint_seconds must not be negative")
        if not 0 < self.beta2 < 1:
            raise ValueError(f"beta2: is {self.beta2}, expected 0 < beta2 < 1")


def scheduled_rate(options: TrainingOptions, step: int, last_step: int) -> float:
    """Return the learning rate of a step (counted from 0) of `last_step` steps.

    Linear from peak / W to the peak in W warm-up steps, then the peak or half a cosine down to 0.
    """
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    if options.schedule == "constant":
        return options.learning_rate
    done = (step - options.warmup_steps) / max(1, last_step - options.warmup_steps)
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def summed_loss(model: LanguageModel, batch: Batch, dtype: torch.dtype) -> Tensor:
    """Return −Σ log p of all predictions of a batch, nats, float32 scalar.

    On a CPU the output layer goes by chunks, and `dtype` is that of its products.
    """
    if isinstance(model, FactoredModel) and model.device.type == "cpu":
        counted = batch.targets != IGNORED  # (B, T)
        features = model.features(batch.inputs)[counted]  # (N, D)
        output, targets = model.output, batch.targets[counted]  # (N,)
        return chunked_cross_entropy(
            features.float(), output.weight, output.bias, targets, model.impossible, dtype
        )
    logits = model(batch.inputs)  # (B, T, V)
    return functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )


@dataclass
class Progress:
    """The counters of a training; all of it is in the checkpoint."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    best_loss: float = math.inf
    best_step: int = 0
    validations_without_best: int = 0
    finished: bool = False
    seconds: float = 0.0


class Trained(lightning.LightningModule):
    """A language model on its way: loss, optimizer, validation, early stopping, checkpoints."""

    def __init__(
        self,
        model: LanguageModel,
        options: TrainingOptions,
        rounds: Rounds,
        seed: int,
        folder: Path,
    ) -> None:
        super().__init__()
        self.model = model
        self.options = options
        self.rounds = rounds
        self.progress = rounds.progress
        self.rows: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self.last_step = rounds.last_step
        self._folder = folder
        fast = options.precision != "32" and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        self._products = torch.bfloat16 if fast else torch.float32
        self._key = stream_key(seed, "train/dropout")
        self._loss = torch.zeros((), dtype=torch.float64)
        self._tokens = 0
        self._validation_loss = 0.0
        self._validation_tokens = 0
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
        self._saved = (self.progress.step, time.monotonic())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Make AdamW; Lightning calls this once."""
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for module in self.model.modules():
            for parameter in module.parameters(recurse=False):
                decayed = parameter.dim() > 1 and not isinstance(module, torch.nn.Embedding)
                (matrices if decayed else others).append(parameter)
        seen = {id(parameter) for parameter in others}
        matrices = [parameter for parameter in matrices if id(parameter) not in seen]
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

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Set what a step depends on from its number alone."""
        torch.manual_seed((self._key + self.progress.step) % 2**63)
        rate = scheduled_rate(self.options, self.progress.step, self.last_step)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch, nats per token."""
        loss = summed_loss(self.model, batch, self._products)
        tokens = int((batch.targets != IGNORED).sum())
        self._loss += loss.detach()
        self._tokens += tokens
        return loss / tokens

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Count the step; write a checkpoint when one is due and no validation comes next."""
        self.rounds.advance()
        assert self._bar is not None
        self._bar.update()
        if batch_idx + 1 < self.trainer.num_training_batches:
            self._save_if_due()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add up the loss of the validation split."""
        self._validation_loss += float(summed_loss(self.model, batch, torch.float32))
        self._validation_tokens += int((batch.targets != IGNORED).sum())

    def on_validation_epoch_end(self) -> None:
        """Extend the curve; keep the best weights; stop when they have not improved for long."""
        progress = self.progress
        loss = self._validation_loss / self._validation_tokens
        self._validation_loss, self._validation_tokens = 0.0, 0
        self._record("train", float(self._loss) / self._tokens)
        self._record("valid", loss)
        self._loss, self._tokens = torch.zeros_like(self._loss), 0
        if loss < progress.best_loss:
            progress.best_loss, progress.best_step = loss, progress.step
            progress.validations_without_best = 0
            self.best = {
                name: tensor.detach().cpu().clone()
                for name, tensor in self.model.state_dict().items()
            }
        else:
            progress.validations_without_best += 1
        stale = progress.validations_without_best >= self.options.patience
        progress.finished = stale or progress.step >= self.last_step or not math.isfinite(loss)
        assert self._bar is not None
        self._bar.set_postfix(valid_loss=f"{loss:.3f}", perplexity=f"{math.exp(min(loss, 99)):.1f}")
        self._save_if_due()
        if progress.finished:
            self._bar.close()
            self.trainer.should_stop = True

    def _record(self, split: str, loss: float) -> None:
        step = self.progress.step
        self.rows.append(
            {
                "step": step,
                "epoch": self.rounds.epoch,
                "split": split,
                "loss": loss,
                "perplexity": math.exp(loss) if loss < 700 else math.inf,
                "learning_rate": scheduled_rate(self.options, step - 1, self.last_step),
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
        if not due:
            return
        tensors = {
            **with_prefix("model", self.model.state_dict()),
            **with_prefix("best", self.best),
            **optimizer_tensors(self.trainer.optimizers[0]),
            "loss": self._loss,
        }
        progress = {**vars(self.progress), "seconds": self.seconds}
        state = {"progress": progress, "rows": self.rows, "tokens": self._tokens}
        save_checkpoint(self._folder, self.progress.step, tensors, state)
        self._saved = (self.progress.step, time.monotonic())


class Rounds(lightning.LightningDataModule):
    """Batches of the training split, a round at a time, and of the validation split."""

    def __init__(
        self,
        stores: tuple[TokenStore, TokenStore],
        options: TrainingOptions,
        context_length: int | None,
        seed: int,
    ) -> None:
        super().__init__()
        self.progress = Progress()
        train, valid = stores
        length = min(options.maximum_length, context_length or options.maximum_length)
        self._train = Pieces(train, length, options.batch_tokens)
        self._valid = Pieces(valid, length, options.batch_tokens)
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

    def val_dataloader(self) -> BatchList:
        """Return the batches of the validation split."""
        return BatchList(self._valid, self._valid.ordered())

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move a batch to the model's device."""
        return batch.to(device)


class BatchList:
    """An iterable of batches with a length, which is all that Lightning asks of a loader."""

    def __init__(self, pieces: Pieces, plan: list[Any]) -> None:
        self._pieces = pieces
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Batch]:
        return (self._pieces.batch(rows) for rows in self._plan)


@dataclass(frozen=True)
class TrainingResult:
    """What a training ends with.

    Attributes
    ----------
    rows : list of dict
        The training curve: columns of schema ``training``; losses in nats per token.
    valid_loss : float
        The best validation loss, nats per token; the model has the weights of that moment.
    best_step, steps : int
        Steps to the best weights, and in all.
    """

    rows: list[dict[str, Any]]
    valid_loss: float
    best_step: int
    steps: int


def train(
    model: LanguageModel,
    stores: tuple[TokenStore, TokenStore],
    options: TrainingOptions,
    seed: int,
    folder: Path,
    device: torch.device,
) -> TrainingResult:
    """Train a model, or go on with it, and leave it with its best weights.

    Parameters
    ----------
    model : LanguageModel
        With its initial weights; changed.
    stores : pair of TokenStore
        The training and the validation split.
    options : TrainingOptions
    seed : int
        Seed of the order of documents and of dropout.
    folder : pathlib.Path
        The checkpoints of this very training (same code, data, options and seed).
    device : torch.device

    Returns
    -------
    TrainingResult

    Raises
    ------
    InputError
        When the loss is not finite at the first validation.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    rounds = Rounds(stores, options, model.context_length, seed)
    trained = Trained(model, options, rounds, seed, folder)
    trained.restore()
    if not trained.progress.finished:
        with warnings.catch_warnings():
            for message in IRRELEVANT_WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            _fit(trained, rounds, device)
    if not trained.best:
        raise InputError("training: the first validation loss is not a number; lower learning_rate")
    model.load_state_dict(trained.best)
    progress = trained.progress
    return TrainingResult(trained.rows, progress.best_loss, progress.best_step, progress.step)


def _fit(trained: Trained, rounds: Rounds, device: torch.device) -> None:
    precision = trained.options.precision
    if precision == "auto":
        precision = "bf16-mixed" if device.type == "cuda" else "32"
    trainer = lightning.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if device.type == "cuda" else 1,
        # One process on one device: what SLURM or MPI say about their job is not for Lightning.
        plugins=[LightningEnvironment()],
        precision="32-true" if precision == "32" else "bf16-mixed",
        max_epochs=-1,
        gradient_clip_val=trained.options.gradient_clip,
        reload_dataloaders_every_n_epochs=1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(trained, datamodule=rounds)
