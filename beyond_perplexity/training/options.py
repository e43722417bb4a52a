"""How a model is trained: the options, and the learning rate of each step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from beyond_perplexity.options import (
    Amount,
    Count,
    Length,
    Level,
    Limit,
    Limited,
    Natural,
    Positive,
    Share,
)

WAKE = "wake_"  # the options of wake training begin so


@dataclass(frozen=True)
class TrainingOptions(Limited):
    """How a model is trained.

    batch_tokens: Positions of a batch at most, padding included.
    maximum_length: Longer documents are cut into pieces of this many predictions; the model's
        context if less.
    maximum_epochs: Passes over the training split at most.
    maximum_steps: Optimizer steps at most; null: as many as the epochs have.
    learning_rate: The peak of the schedule.
    optimizer: sgd: without momentum and weight decay, but see l2.
    schedule: After the warm-up: falling to zero at the last step, staying at the peak, halved at
        each validation without a new best loss, or the peak over 1 + epoch_decay × epochs done.
    epoch_decay: The decay of the schedule inverse, for each epoch.
    plateau_epochs: Passes before which the schedule plateau halves nothing.
    warmup_steps: Steps of linear rise to the peak.
    weight_decay: Weight decay of AdamW, on matrices only, not on biases, norms and embeddings.
    l2: The coefficient λ of the penalty λ/2 Σ θ² of sgd on the weights that l2_on names.
    l2_on: All weights; or matrices only, not biases, norms and embeddings.
    beta2: Decay of AdamW's second moment.
    gradient_clip: Largest norm of the gradient; null: any.
    scheduled_sampling: Input tokens are replaced by the model's own in the course of training; what
        stays true, by step i: k − c i, k^i, or k / (k + exp(i / k)). Meant for lstm and gru; each
        batch costs a pass step by step.
    sampling_k: k of scheduled sampling: the share of true tokens at the first step (linear), below
        1 (exponential), at least 1 (inverse-sigmoid); null without scheduled sampling.
    sampling_c: c of the linear schedule, the fall at each step.
    sampling_minimum: Share of true tokens that the schedule does not fall below.
    validation_steps: Steps between two validations; null: once an epoch.
    patience: Validations in a row without a new best loss after which training stops.
    precision: auto: bf16-mixed on a GPU; on a CPU 32, but bf16 products in the output layer where
        the CPU has instructions for them.
    checkpoint_steps: Steps between two checkpoints at most.
    """

    batch_tokens: Count = 2048
    maximum_length: Length = 512
    maximum_epochs: Count = 6
    maximum_steps: Count | None = None
    learning_rate: Positive = 0.003
    optimizer: Literal["adamw", "sgd"] = "adamw"
    schedule: Literal["cosine", "constant", "plateau", "inverse"] = "cosine"
    epoch_decay: Amount = 0.001
    plateau_epochs: Amount = 0.0
    warmup_steps: Natural = 50
    weight_decay: Amount = 0.01
    l2: Amount = 0.0
    l2_on: Literal["all", "matrices"] = "all"
    beta2: Level = 0.98
    gradient_clip: Positive | None = 1.0
    scheduled_sampling: Literal["none", "linear", "exponential", "inverse-sigmoid"] = "none"
    sampling_k: float | None = None
    sampling_c: Amount = 0.0
    sampling_minimum: Share = 0.0
    validation_steps: Count | None = None
    patience: Count = 3
    precision: Literal["auto", "32", "bf16-mixed"] = "auto"
    checkpoint_steps: Count = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.l2 and self.optimizer != "sgd":
            raise ValueError(
                f"l2: belongs to sgd; with {self.optimizer} set it to 0 and give weight_decay"
            )
        self._check_sampling()

    def _check_sampling(self) -> None:
        k, schedule = self.sampling_k, self.scheduled_sampling
        number = math.nan if k is None else k
        fits, expected = {
            "none": (k is None, "null without scheduled_sampling"),
            "linear": (number > 0, "above 0 for a linear schedule"),
            "exponential": (0 < number < 1, "between 0 and 1 for an exponential schedule"),
            "inverse-sigmoid": (number >= 1, "at least 1 for an inverse-sigmoid schedule"),
        }[schedule]
        if not fits:
            raise ValueError(f"sampling_k: is {k}, expected {expected}")
        if self.sampling_c < 0 or (self.sampling_c and schedule != "linear"):
            raise ValueError("sampling_c: belongs to the linear schedule and is not negative")


@dataclass(frozen=True)
class ContrastiveTrainingOptions(TrainingOptions):
    """How a model is trained to tell sentences from distortions of them.

    Defaults are the paper's where it gives one. Batches have sentences in place of documents, and
    the loss is the mean over sentences; with a batch_tokens of 1 each step has one sentence.

    distortion: d, the probability that a word of a training sentence is distorted.
    substitution: Share of the distorted words that are replaced by a word drawn uniformly from the
        vocabulary.
    transposition: Share that swaps positions with another word of the sentence; with substitution
        it adds up to 1, as the number of words must stay.
    redraw: Each epoch has distortions of its own; false: all have those of the first.
    sentences: What is a sentence: documents are cut after runs of ``.``, ``!`` and ``?``, or each
        is one. Longer ones than maximum_length are cut there.
    unit_vectors: The vectors of words are scaled to length 1 at the end of each epoch.
    """

    batch_tokens: Count = 512
    maximum_epochs: Count = 10
    learning_rate: Positive = 0.1
    optimizer: Literal["adamw", "sgd"] = "sgd"
    schedule: Literal["cosine", "constant", "plateau", "inverse"] = "inverse"
    warmup_steps: Natural = 0
    l2: Amount = 0.001
    precision: Literal["auto", "32", "bf16-mixed"] = "32"
    distortion: Level = 0.1
    substitution: Share = 0.5
    transposition: Share = 0.5
    redraw: bool = True
    sentences: Literal["cut", "documents"] = "cut"
    unit_vectors: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.substitution + self.transposition
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise ValueError(f"substitution, transposition: add up to {total:g}, not to 1")
        if self.scheduled_sampling != "none":
            raise ValueError("scheduled_sampling: is for models that predict words; leave it out")


@dataclass(frozen=True)
class ProposalTrainingOptions(TrainingOptions):
    """How a proposal is trained: on the annotation, then, where asked, on what its model believes.

    wake_steps: Steps of wake training after the fit to the annotation: latents are drawn from the
        proposal and weighed by the trained model, which stays as it is; 0: none.
    wake_samples: Latents that are drawn of an instance in each step.
    wake_batch_tokens: Positions of a batch of wake training at most, each instance counted once.
    wake_learning_rate: The peak of the schedule in wake training.
    """

    wake_steps: Natural = 0
    wake_samples: Annotated[int, Limit(minimum=2)] = 16
    wake_batch_tokens: Count = 512
    wake_learning_rate: Positive = 0.001


def scheduled_rate(
    options: TrainingOptions, step: int, last_step: int, halvings: int = 0, epoch: int = 0
) -> float:
    """Return the learning rate of a step from 0: from peak / W to the peak in W warm-up steps, then
    as `schedule` has it."""
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    if options.schedule == "inverse":
        return options.learning_rate / (1 + options.epoch_decay * epoch)
    if options.schedule != "cosine":
        return options.learning_rate * 0.5**halvings
    done = (step - options.warmup_steps) / max(1, last_step - options.warmup_steps)
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
