"""Encoders of texts by what a user calls them, and those inside of evaluators."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.contract import (
    Encoder,
    Evaluator,
    SentenceEvaluator,
    load_evaluator,
)
from beyond_perplexity.semantics.evaluators.rows import EVALUATORS, PACKAGES

FAMILY = "sentence-transformers"


def named_evaluator(name: str) -> Evaluator:
    """Load an evaluator of sentence-transformers by the name of its package, or from a folder."""
    packages = [key for key, row in PACKAGES.items() if row.family == FAMILY]
    if name in packages:
        return load_evaluator({"family": FAMILY, "package": name})
    if not Path(name).is_dir():
        allowed = ", ".join(packages)
        raise InputError(f"--embedding {name}: no such folder; give one, or a package: {allowed}")
    return load_evaluator({"family": FAMILY, "path": name})


def encoder_of(evaluator: Evaluator) -> Encoder:
    """Return the encoder of an evaluator that compares vectors of texts."""
    if not isinstance(evaluator, SentenceEvaluator):
        title = evaluator.describe().get("title", "this evaluator")
        raise InputError(f"{title}: has no vectors of texts; name one of {', '.join(encoding())}")
    return evaluator.encoder


def encoding() -> list[str]:
    """List the families of evaluators that have vectors of texts."""
    return [name for name, row in EVALUATORS.items() if "similarity" in row.measures]
