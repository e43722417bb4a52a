"""Training of any family in one loop of torch, killed and resumed at will.

Everything that a step depends on is a function of (seed, step) or lies in the checkpoint. A round
is the steps up to the next validation.

Scheduled sampling (Bengio, Vinyals, Jaitly & Shazeer 2015, section 2.4): each input token after the
first is the true one with probability ε(i), i the step of the optimizer, and otherwise drawn from
what the model predicted at the position before. The inputs are mixed first, a position at a time,
without dropout and gradient; the loss is then that of a parallel pass over them with the true
targets. A drawn ``</s>`` is fed like any other token. B rows, N of them with a draw, T positions, V
ids.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.factored import fastest_products
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.training import interruptions
from beyond_perplexity.training.options import TrainingOptions, scheduled_rate

CHECKPOINT_SECONDS = 300.0  # between two checkpoints at most

# Of a batch and the passes over the training split so far; see `TrainedModel.loss`.
Loss = Callable[[Any, float], Tensor]


@dataclass(frozen=True)
class TrainingResult:
    """What a training ends with: `rows` of schema ``training``, losses in nats per token (a hinge's
    per sentence), the step whose weights the model has, and what a second one ended with."""

    rows: list[dict[str, Any]]
    valid_loss: float
    best_step: int
    steps: int
    then: TrainingResult | None = None


def curve_row(step: int, epoch: float, split: str, loss: float) -> dict[str, Any]:
    """Make a row of schema ``training``, of no steps since and no margins."""
    perplexity = math.exp(loss) if loss < 700 else math.inf
    row = {"step": step, "epoch": epoch, "split": split, "loss": loss, "perplexity": perplexity}
    return row | {"contrastive_entropy": None, "learning_rate": 0.0, "seconds": 0.0}


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
    """Train a model, or go on with it, and leave it on the CPU with its best weights.

    `sources` are the training and the validation split, `watched` a part of the former whose
    margins the curve has, too; `folder` has the checkpoints of this very training. Where `loss`
    takes the place of the model's own, its first weights are validated too, and kept if none are
    better. `epoch_ended` is called after the last step of each epoch, before the model is
    validated.
    """
    rounds = interruptions.Rounds(sources, options, seed, watched)
    training = Training(model, rounds, folder, device, loss or model.loss)
    with repeatable_sums(device):
        training.run(epoch_ended, validate_first=loss is not None)
    if not training.best:
        raise InputError("training: the first validation loss is not a number; lower learning_rate")
    model.cpu().load_state_dict(training.best)
    progress = training.progress
    return TrainingResult(training.rows, progress.best_loss, progress.best_step, progress.step)


@contextmanager
def repeatable_sums(device: torch.device) -> Iterator[None]:
    """Add up gradients in one order on a CPU, not as threads arrive; a GPU has no such way."""
    # Not by `use_deterministic_algorithms`, which loads torch's compiler: seconds.
    memory: Any = torch.utils.deterministic
    before, filled = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("error" if device.type == "cpu" else before)
    memory.fill_uninitialized_memory = False  # with NaN, before it is written
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        memory.fill_uninitialized_memory = filled


@contextmanager
def _products(device: torch.device, mixed: bool) -> Iterator[None]:
    """Multiply in bfloat16 where that is asked for."""
    # oneDNN's LSTM of bfloat16 needs AVX-512; torch's own does not.
    own = mixed and device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    layers: Any = torch.backends.mkldnn
    before = layers.enabled
    layers.enabled = before and not own
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
            yield
    finally:
        layers.enabled = before


class Training:
    """A model on its way: steps, validations, early stopping, checkpoints."""

    def __init__(
        self,
        model: TrainedModel,
        rounds: interruptions.Rounds,
        folder: Path,
        device: torch.device,
        loss: Loss,
    ) -> None:
        self.model, self.rounds, self.options = model.to(device), rounds, rounds.options
        self.progress, self.last_step = rounds.progress, rounds.last_step
        self.rows: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self._device, self._folder, self._minimized = device, folder, loss
        precision = self.options.precision
        mixed = ("auto", "bf16-mixed") if device.type == "cuda" else ("bf16-mixed",)
        self._mixed = precision in mixed
        model.training_products = torch.float32 if precision == "32" else fastest_products()
        self._key = stream_key(rounds.seed, "train/dropout")
        self._optimizer = make_optimizer(model, self.options)
        self._loss = torch.zeros((), dtype=torch.float64, device=device)  # of the round so far
        self._tokens, self._rate = 0, 0.0
        self._validation_loss, self._validation_tokens = 0.0, 0
        self._margins: dict[str, tuple[float, int]] = {}  # by split: sum and number
        self._stop = interruptions.StopRequest()
        self._restore()
        self._saved = (self.progress.step, time.monotonic())
        self._started = time.monotonic()

    def run(self, epoch_ended: Callable[[], None] | None, validate_first: bool) -> None:
        """Go on until the last step, or until the validation loss has not improved for long."""
        if validate_first and not self.best:  # what is no better than the first weights is not kept
            self._validate(watched=False)
            self._keep_the_best()
        progress = self.progress
        often = 2.0 if sys.stderr.isatty() else 20.0  # seconds between two lines of progress
        first, done = progress.step, progress.finished
        last = self.last_step
        self._bar = tqdm(total=last, initial=first, unit="step", mininterval=often, disable=done)
        with self._bar, self._stop:
            if self._validating:
                self._end_round()
            while not progress.finished:
                self.model.train()
                for batch, left in self.rounds.training_batches():
                    self.training_step(batch.to(self._device))
                    self.rounds.advance()
                    if epoch_ended and not progress.index:
                        epoch_ended()
                    self._stop_if_asked(validating=not left)
                    self._bar.update()
                    if left:
                        self._save_if_due()
                self._end_round()

    def training_step(self, batch: Any) -> None:
        """Make one step, which depends on its number and the weights alone."""
        progress = self.progress
        torch.manual_seed((self._key + progress.step) % 2**63)
        self._rate = scheduled_rate(
            self.options, progress.step, self.last_step, progress.halvings, progress.epoch
        )
        groups = self._optimizer.param_groups
        for group in groups:
            group["lr"] = self._rate
        with _products(self._device, self._mixed):
            batch = mix_batch(self.model, batch, self.options, self.rounds.seed, progress.step)
            loss = self._minimized(batch, self.rounds.epoch)
            self._loss += loss.detach()
            self._tokens += batch.predictions
            loss = loss / batch.predictions  # nats per token
        self._optimizer.zero_grad()
        loss.backward()
        if self.options.gradient_clip:
            parameters = [parameter for group in groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.options.gradient_clip)
        self._optimizer.step()

    @torch.inference_mode()
    def _validate(self, watched: bool = True) -> None:
        """Add up the loss of the validation split, and margins of it and of what is watched."""
        self.model.eval()
        for split, batch in self.rounds.validation_batches(watched):
            with _products(self._device, self._mixed):
                self.validation_step(batch.to(self._device), split)

    def validation_step(self, batch: Any, split: str) -> None:
        """Add up the loss and the margins of a batch of ``valid``, or the margins of ``train``."""
        self._stop_if_asked(validating=True)
        if split == "valid":
            self._validation_loss += float(self._minimized(batch, math.inf))
            self._validation_tokens += batch.predictions
        margins = self.model.margins(batch)
        if margins is not None:
            total, count = self._margins.get(split, (0.0, 0))
            self._margins[split] = total + float(margins.sum()), count + len(margins)

    def _end_round(self) -> None:
        """Validate and extend the curve; finish when the loss has not improved for long."""
        self._validate()
        progress = self.progress
        self._record("train", float(self._loss) / self._tokens)
        self._loss, self._tokens = torch.zeros_like(self._loss), 0
        loss = self._keep_the_best()
        if progress.best_step != progress.step:
            progress.validations_without_best += 1
            plateau = self.options.schedule == "plateau"
            progress.halvings += plateau and self.rounds.epoch >= self.options.plateau_epochs
        stale = progress.validations_without_best >= self.options.patience
        progress.finished = stale or progress.step >= self.last_step or not math.isfinite(loss)
        self._validating = False
        self._stop_if_asked()
        shown = {"valid_loss": f"{loss:.3f}"}
        if self.model.normalized:
            shown["perplexity"] = f"{math.exp(min(loss, 99)):.1f}"
        self._bar.set_postfix(shown)
        self._save_if_due()

    def _keep_the_best(self) -> float:
        """Return the loss of the validation that has just ended; keep the weights if the best."""
        progress = self.progress
        loss = self._validation_loss / self._validation_tokens
        self._validation_loss, self._validation_tokens = 0.0, 0
        self._record("valid", loss)
        if loss < progress.best_loss:
            progress.best_loss, progress.best_step = loss, progress.step
            progress.validations_without_best = 0
            weights = self.model.state_dict()
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
        return loss

    def _record(self, split: str, loss: float) -> None:
        total, count = self._margins.pop(split, (0.0, 0))
        row = curve_row(self.progress.step, self.rounds.epoch, split, loss)
        row |= {"learning_rate": self._rate, "seconds": self._seconds()}
        row["contrastive_entropy"] = total / count if count else None
        self.rows.append(row if self.model.normalized else {**row, "perplexity": None})

    def _seconds(self) -> float:
        """Seconds of training so far, interrupted runs included up to their last checkpoint."""
        return self.progress.seconds + time.monotonic() - self._started

    def _stop_if_asked(self, validating: bool = False) -> None:
        """Write a checkpoint and end the process where a signal asked for it."""
        if self._stop.asked:
            self._save(validating)
            self._stop.leave(self.progress.step)

    def _save_if_due(self) -> None:
        step, moment = self._saved
        many = self.progress.step - step >= self.options.checkpoint_steps
        long = time.monotonic() - moment >= CHECKPOINT_SECONDS
        if self.progress.finished or many or long:
            self._save()

    def _save(self, validating: bool = False) -> None:
        """Write a checkpoint; `validating`: between a round and the end of its validation."""
        groups = {"model": self.model.state_dict(), "best": self.best, "loss": {"": self._loss}}
        groups["optimizer"] = interruptions.optimizer_tensors(self._optimizer)
        tensors = {f"{g}.{name}": held for g in groups for name, held in groups[g].items()}
        progress = {**vars(self.progress), "seconds": self._seconds()}
        state = {"progress": progress, "rows": self.rows, "tokens": self._tokens}
        state |= {"rate": self._rate, "validating": validating}
        interruptions.save_checkpoint(self._folder, self.progress.step, tensors, state)
        self._saved = (self.progress.step, time.monotonic())

    def _restore(self) -> None:
        """Take up the newest checkpoint, if there is one."""
        self._validating = False
        if (found := interruptions.load_checkpoint(self._folder)) is None:
            return
        tensors, state = found
        groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in tensors.items():
            group, _, own = name.partition(".")
            groups[group][own] = tensor
        vars(self.progress).update(state["progress"])
        self.model.load_state_dict(groups["model"])
        self.best = groups["best"]
        interruptions.restore_optimizer(self._optimizer, groups["optimizer"])
        self._loss, self._tokens = groups["loss"][""].to(self._device), state["tokens"]
        self.rows, self._rate = state["rows"], state["rate"]
        self._validating = state["validating"]


def make_optimizer(model: TrainedModel, options: TrainingOptions) -> torch.optim.Optimizer:
    """Make the optimizer; what decays are matrices, not biases, norms and embeddings."""
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            decayed = parameter.dim() > 1 and not isinstance(module, torch.nn.Embedding)
            (matrices if decayed else others).append(parameter)
    seen = {id(parameter) for parameter in others}
    matrices = [parameter for parameter in matrices if id(parameter) not in seen]
    decays = (options.weight_decay, 0.0)
    if options.optimizer == "sgd":
        decays = (options.l2, options.l2 if options.l2_on == "all" else 0.0)
    both = zip((matrices, others), decays, strict=True)
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in both]
    if options.optimizer == "sgd":
        return _uncompiled(torch.optim.SGD)(groups, lr=options.learning_rate)
    betas = (0.9, options.beta2)
    return _uncompiled(torch.optim.AdamW)(groups, lr=options.learning_rate, betas=betas)


def _uncompiled(kind: type[torch.optim.Optimizer]) -> Any:
    """Return a kind of optimizer whose methods do not load torch's compiler to pause it."""
    wrapped = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: unwrap(getattr(kind, name)) for name in wrapped}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(unwrap(kind.step))})


def truth_probability(options: TrainingOptions, step: int) -> float:
    """Return ε(i), the probability of a true input token at a step from 0: k − c i, k^i or k / (k +
    exp(i / k)), between the minimum and 1; 1 without scheduled sampling."""
    k = options.sampling_k
    if options.scheduled_sampling == "none" or k is None:
        return 1.0
    if options.scheduled_sampling == "linear":
        value = k - options.sampling_c * step
    elif options.scheduled_sampling == "exponential":
        value = k**step
    else:
        value = 1 / (1 + math.exp(min(step / k, 700)) / k)
    return min(1.0, max(options.sampling_minimum, value))


def mix_batch(
    model: TrainedModel, batch: Any, options: TrainingOptions, seed: int, step: int
) -> Any:
    """Replace true input tokens of a batch by the model's own, as the options have it at a step."""
    truth = truth_probability(options, step)
    if truth >= 1:
        return batch
    assert isinstance(model, LanguageModel)  # `fitting` refuses the others
    return replace(batch, inputs=mix_inputs(model, batch.inputs, truth, seed, step))


@torch.no_grad()
def mix_inputs(
    model: LanguageModel, inputs: Tensor, probability: float, seed: int, step: int
) -> Tensor:
    """Replace true input tokens, int64, (B, T), but each row's first, by the model's own, each kept
    with `probability` ε."""
    training = model.training
    model.eval()
    rows, length = inputs.shape
    numbers = stream(seed, "train/scheduled-sampling", step).random((2, length, rows))
    replaced, uniforms = numbers[0] >= probability, torch.from_numpy(numbers[1])  # (T, B), (T, B)
    mixed, state = inputs.clone(), model.initial_state(rows, length)  # (B, T)
    for position in range(1, length):
        chosen = torch.from_numpy(np.flatnonzero(replaced[position]))  # (N,)
        where = chosen.to(inputs.device)  # (N,)
        logits, state = model.step_some(mixed[:, position - 1], state, where)  # (N, V)
        if len(chosen):
            sums = logits.double().softmax(1).cumsum(1)  # (N, V)
            own = uniforms[position][chosen].to(sums.device)  # (N,)
            mixed[where, position] = invert(sums, own[:, None])[:, 0]
    model.train(training)
    return mixed
