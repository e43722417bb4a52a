"""The options of evaluators that are trained here; nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.options import (
    Amount,
    Count,
    Dropout,
    Length,
    Limited,
    Natural,
    Positive,
    Width,
)
from beyond_perplexity.training.options import TrainingOptions


@dataclass(frozen=True)
class InferSentOptions(Limited):
    """Architecture of an InferSent evaluator.

    Attributes
    ----------
    cell : "lstm" or "gru"
        Of the recurrent layer, which runs in both directions.
    hidden_size : int
        H, its width in each direction; official weights have 2048.
    pooling : "max", "mean" or "attention"
        How the states of the words become the vector of a sentence: equation 7, or 8.
    attention_size : int
        Width of the hidden layer of the attention.
    dropout : float
        Probability of dropping an element of the word vectors, and of what the classifier reads,
        in training.
    """

    cell: Literal["lstm", "gru"] = "lstm"
    hidden_size: Width = 128
    pooling: Literal["max", "mean", "attention"] = "max"
    attention_size: Width = 64
    dropout: Dropout = 0.1


@dataclass(frozen=True)
class SkipThoughtOptions(Limited):
    """Architecture of a SkipThought evaluator.

    Attributes
    ----------
    directions : "uni" or "bi"
        uni: the encoder reads from left to right; bi: half of its units read from right to left.
    embedding_size : int
        E, the width of the vectors of words.
    hidden_size : int
        H, the width of the vector of a sentence; the paper has 2400.
    decoder_size : int
        Units of each decoder; the paper has 2400.
    """

    directions: Literal["uni", "bi"] = "bi"
    embedding_size: Width = 100
    hidden_size: int = 256
    decoder_size: Width = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size < 2 or self.hidden_size % 2:
            raise ValueError(f"hidden_size: is {self.hidden_size}, expected an even number")


@dataclass(frozen=True)
class EvaluatorTraining(TrainingOptions):
    """How an evaluator of sentences is trained.

    Batches have sentences in place of documents.

    Attributes
    ----------
    maximum_length : int
        Words of a sentence that are read; the rest is cut off.
    sentences : "cut" or "documents"
        What is a sentence: documents are cut after runs of ``.``, ``!`` and ``?``, or each is one
        and the next document is the next sentence.
    """

    batch_tokens: Count = 2048
    maximum_length: Length = 60
    maximum_epochs: Count = 3
    learning_rate: Positive = 0.003
    warmup_steps: Natural = 20
    weight_decay: Amount = 0.0
    sentences: Literal["cut", "documents"] = "cut"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scheduled_sampling != "none":
            raise ValueError("scheduled_sampling: is for models that predict words; leave it out")


@dataclass(frozen=True)
class PairTraining(EvaluatorTraining):
    """How an evaluator of pairs of sentences is trained.

    Attributes
    ----------
    labels : "auto", "classes" or "scores"
        What the labels of a file of pairs are; auto: scores where all are numbers. One of the
        classes is entailment.
    """

    labels: Literal["auto", "classes", "scores"] = "auto"
