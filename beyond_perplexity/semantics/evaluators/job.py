"""The training of an evaluator: what it is made of, where it goes; the folder it leaves.

Nothing heavy is imported: word2vec trains without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.families import fit_modules
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import content_hash, value_hash

EVALUATOR_FILE = "evaluator.json"


@dataclass(frozen=True)
class EvaluatorJob:
    """One training of an evaluator."""

    options: Mapping[str, Any]  # ``family`` and its options, all paths local
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
            raise InputError(
                f"{self.options['family']}: give --documents, of the corpus to train on"
            )
        return self.documents

    def folder(self, *files: Path, **others: Any) -> Path:
        """Return the folder of the checkpoints of just this training: by what it depends on."""
        code = fingerprint("scripts/train_evaluator.py", *fit_modules(self.options["family"]))
        determined_by = {
            "options": dict(self.options),
            "seed": self.seed,
            "code": code,
            "threads": self.threads,
            "files": [content_hash(path) for path in files],
            **others,
        }
        return self.checkpoints / value_hash(determined_by)[:16]


def write_description(job: EvaluatorJob, held: Mapping[str, Any]) -> None:
    """Write what a trained evaluator is, last of all its files."""
    about = {
        **held,
        "family": job.options["family"],
        "seed": job.seed,
        "preprocessing": dict(job.preprocessing),
    }
    write_json(job.output / EVALUATOR_FILE, about)


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
