"""Audit a model: see whether its probabilities keep what a perplexity promises."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

import pandas as pd

from beyond_perplexity.auditing.audit import audit_subject
from beyond_perplexity.auditing.evidence import Finding
from beyond_perplexity.auditing.loading import AuditedModel, load_audited
from beyond_perplexity.auditing.rows import CHECKS
from beyond_perplexity.auditing.sample import sample_texts
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.rosetta.rows import PROGRAMS, translate
from beyond_perplexity.rosetta.speech import Number, Speech
from beyond_perplexity.vocabulary import Vocabulary


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found.

    Attributes
    ----------
    model : str
        What was audited.
    findings : tuple of Finding
        A check each.
    numbers : tuple of Number
        Of other programs, and ours beside them; empty where they were not asked for.
    """

    model: str
    findings: tuple[Finding, ...]
    numbers: tuple[Number, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether no check sounds an alarm."""
        return all(one.sound for one in self.findings)

    @property
    def table(self) -> pd.DataFrame:
        """A row a check: its verdict, the deviation and its tolerance, and where it is from."""
        rows = [{**one._asdict(), "unit": CHECKS[one.check].unit} for one in self.findings]
        columns = ["check", "sound", "worst", "tolerance", "unit", "places", "detail", "because"]
        return pd.DataFrame(rows, columns=[*columns, "explanation"])

    @property
    def rosetta(self) -> pd.DataFrame:
        """A row a number of another program: value, predictions, definition and version."""
        rows = [
            {**one._asdict(), "version": PROGRAMS[one.program].version} for one in self.numbers
        ]
        return pd.DataFrame(rows, columns=[*Number._fields, "version"])

    def to_json(self) -> str:
        """Return all of it as JSON text; what is no number is null."""
        held = {
            "model": self.model,
            "sound": self.sound,
            "alarms": [one.check for one in self.findings if not one.sound and not one.because],
            "checks": _records(self.table),
            "rosetta": _records(self.rosetta),
        }
        return json.dumps(held, indent=2, ensure_ascii=False)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, with None for what JSON has no number for."""
    return [
        {key: None if _no_number(value) else value for key, value in row.items()}
        for row in table.to_dict("records")
    ]


def _no_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def audit(
    model: str | Path | LanguageModel,
    texts: str | Path | Iterable[str],
    *,
    vocabulary: Vocabulary | None = None,
    documents: int = 16,
    check: Sequence[str] | None = None,
    rosetta: bool = False,
    precision: str = "float32",
    seed: int = 1,
    device: str = "auto",
) -> Audit:
    """Make the checks of `auditing.rows.CHECKS` with some documents of a text.

    Parameters
    ----------
    model : str, path or LanguageModel
        A model folder, a folder of Hugging Face or a name on its hub; or a model in memory, with its
        vocabulary.
    texts : str, path or iterable of str
        A file with one document a line or row, or the documents.
    vocabulary : Vocabulary, optional
        Of a model in memory.
    documents : int
        How many are looked at.
    check : sequence of str, optional
        These checks alone.
    rosetta : bool
        Whether the numbers of other programs are worked out for the whole text, which is held.
    precision : "float32", "bfloat16" or "float16"
        What the weights of a folder are rounded to.
    seed : int
        Of what is drawn.
    device : str
        Of the model of a folder: auto, cpu or cuda.

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        When the model or the text cannot be read, or there is no such check.
    """
    held = _held(model, vocabulary, device, precision)
    stream = held.read(texts) if isinstance(texts, str | Path) else held.clean(texts)
    whole: list[str] = []
    if rosetta:
        whole = list(stream)
        stream = iter(whole)
    sample = sample_texts(stream, documents, seed)
    subject = Subject(held.model, held.vocabulary, sample, held.kind, seed=seed)
    findings = tuple(audit_subject(subject, check))
    numbers: tuple[Number, ...] = ()
    if rosetta:
        numbers = tuple(translate(Speech(held.model, held.vocabulary, whole, held.kind)))
    name = type(model).__name__ if isinstance(model, LanguageModel) else str(model)
    return Audit(name, findings, numbers)


def _held(
    model: str | Path | LanguageModel, vocabulary: Vocabulary | None, device: str, precision: str
) -> AuditedModel:
    """Load a model, or take the one in memory."""
    if not isinstance(model, LanguageModel):
        return load_audited(model, device, precision)
    if vocabulary is None:
        raise InputError("vocabulary: is missing; give that of the model, which is in memory")
    return AuditedModel(model, vocabulary, None)
