"""The training of an evaluator: what it is made of, where it goes; the folder it leaves.

Nothing heavy is imported: word2vec trains without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.rows import fit_modules
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import content_hash, value_hash

EVALUATOR_FILE = "evaluator.json"


@dataclass(frozen=True)
class EvaluatorJob:
    """One training of an evaluator.

    Attributes
    ----------
    options : mapping
        ``family`` and its options, all paths local.
    documents : Path or None
        Parquet file, schema ``documents``; None where it is trained on a file of pairs.
    vocabulary : Path or None
        Vocabulary file, for families that have one.
    preprocessing : mapping
        How the documents were cleaned.
    seed : int
    device : str
        auto, cpu or cuda.
    threads : int
    output : Path
        The folder that is written.
    checkpoints : Path
        Folder for unfinished trainings, each in a subfolder of its own.
    """

    options: Mapping[str, Any]
    documents: Path | None
    vocabulary: Path | None
    preprocessing: Mapping[str, Any]
    seed: int
    device: str
    threads: int
    output: Path
    checkpoints: Path

    def corpus(self) -> Path:
        """Return the file of documents.

        Raises
        ------
        InputError
            When there is none.
        """
        if self.documents is None:
            raise InputError(
                f"{self.options['family']}: give --documents, of the corpus to train on"
            )
        return self.documents

    def folder(self, *files: Path, **others: Any) -> Path:
        """Return the folder of the checkpoints of just this training.

        Parameters
        ----------
        *files : Path
            What it reads.
        **others : JSON-serializable
            What else it depends on.
        """
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
    """Write what a trained evaluator is, last of all its files.

    Parameters
    ----------
    job : EvaluatorJob
    held : mapping
        JSON-serializable; family, seed and cleaning are added.
    """
    about = {
        **held,
        "family": job.options["family"],
        "seed": job.seed,
        "preprocessing": dict(job.preprocessing),
    }
    write_json(job.output / EVALUATOR_FILE, about)


def read_description(folder: Path, family: str | None = None) -> dict[str, Any]:
    """Read what a folder of a trained evaluator says of it.

    Parameters
    ----------
    folder : Path
    family : str, optional
        What it has to be of.

    Raises
    ------
    InputError
        When the folder is no such folder, or of another family.
    """
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
