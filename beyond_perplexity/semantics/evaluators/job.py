"""The training of an evaluator: its options, what it is made of, the folder it leaves, without
torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from beyond_perplexity.errors import InputError
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
from beyond_perplexity.semantics.evaluators.families import Options, fit_modules
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import content_hash, value_hash
from beyond_perplexity.training.options import TrainingOptions

EVALUATOR_FILE = "evaluator.json"


@dataclass(frozen=True)
class EvaluatorJob:
    """One training of an evaluator."""

    options: Options  # ``family`` and its options, all paths local
    # parquet file, schema ``documents``; None where it is trained on a file of pairs
    documents: Path | None
    vocabulary: Path | None  # vocabulary file, for families that have one
    preprocessing: Mapping[str, Any]  # how the documents were cleaned
    seed: int
    device: str  # auto, cpu or cuda
    threads: int
    output: Path  # the folder that is written
    checkpoints: Path  # folder for unfinished trainings, each in a subfolder of its own

    def corpus(self) -> Path:
        """Return the file of documents."""
        if self.documents is None:
            family = self.options["family"]
            raise InputError(f"{family}: give --documents, of the corpus to train on")
        return self.documents

    def folder(self, *files: Path, **others: Any) -> Path:
        """Return the folder of the checkpoints of just this training: by what it depends on."""
        code = fingerprint("scripts/train_evaluator.py", *fit_modules(self.options["family"]))
        hashes = [content_hash(path) for path in files]
        determined_by = {"options": dict(self.options), "seed": self.seed, "threads": self.threads}
        determined_by |= {"code": code, "files": hashes, **others}
        return self.checkpoints / value_hash(determined_by)[:16]


def write_description(job: EvaluatorJob, held: Mapping[str, Any]) -> None:
    """Write what a trained evaluator is, last of all its files."""
    about = {"family": job.options["family"], "seed": job.seed}
    about |= {"preprocessing": dict(job.preprocessing)}
    write_json(job.output / EVALUATOR_FILE, {**held, **about})


def read_description(folder: Path, family: str | None = None) -> dict[str, Any]:
    """Read what a folder of a trained evaluator, of a family where one is named, says of it."""
    path = folder / EVALUATOR_FILE
    if not path.is_file():
        raise InputError(f"{folder}: is no evaluator: it has no {EVALUATOR_FILE}")
    held = read_json(path, "description of an evaluator", "train the evaluator again")
    if not isinstance(held, dict) or not isinstance(held.get("family"), str):
        raise InputError(f"{path}: does not describe an evaluator; train it again")
    found = held["family"]
    if family not in (None, found):
        raise InputError(f"{path}: is of family {found}, expected {family}")
    return held


@dataclass(frozen=True)
class InferSentOptions(Limited):
    """Architecture of an InferSent evaluator.

    cell: Of the recurrent layer, which runs in both directions.
    hidden_size: H, its width in each direction; official weights have 2048.
    pooling: How the states of the words become the vector of a sentence: equation 7, or 8.
    attention_size: Width of the hidden layer of the attention.
    dropout: Probability of dropping an element of the word vectors, and of what the classifier
        reads, in training.
    """

    cell: Literal["lstm", "gru"] = "lstm"
    hidden_size: Width = 128
    pooling: Literal["max", "mean", "attention"] = "max"
    attention_size: Width = 64
    dropout: Dropout = 0.1


@dataclass(frozen=True)
class SkipThoughtOptions(Limited):
    """Architecture of a SkipThought evaluator.

    directions: uni: the encoder reads from left to right; bi: half of its units read from right to
        left.
    embedding_size: E, the width of the vectors of words.
    hidden_size: H, the width of the vector of a sentence; the paper has 2400.
    decoder_size: Units of each decoder; the paper has 2400.
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

    maximum_length: Words of a sentence that are read; the rest is cut off.
    sentences: What is a sentence: documents are cut after runs of ``.``, ``!`` and ``?``, or each
        is one and the next document is the next sentence.
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

    labels: What the labels of a file of pairs are; auto: scores where all are numbers. One of the
        classes is entailment.
    """

    labels: Literal["auto", "classes", "scores"] = "auto"
