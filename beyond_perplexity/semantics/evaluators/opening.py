"""How a name, a path or options become an evaluator."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.contract import (
    Encoder,
    Evaluator,
    SentenceEvaluator,
    load_evaluator,
)
from beyond_perplexity.semantics.evaluators.families import EVALUATORS, PACKAGES
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.evaluators.word_overlap import WordEvaluator
from beyond_perplexity.semantics.measures import MeasureOptions
from beyond_perplexity.storage.inputs import beginning


def open_evaluator(
    name: str, options: Mapping[str, Any], measures: Mapping[str, Any], device: str
) -> Evaluator:
    """Return the evaluator of words, or load another."""
    parse_options(MeasureOptions, measures, "measures")
    if name == WORDS_EVALUATOR:
        return WordEvaluator()
    return load_evaluator(options, measures, device)


def set_threads(threads: int) -> None:
    """Let torch use so many threads, where an evaluator has imported it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


FAMILY = "sentence-transformers"


def named_evaluator(name: str) -> Evaluator:
    """Load an evaluator of sentence-transformers by the name of its package, or from a folder."""
    packages = [key for key, row in PACKAGES.items() if row.family == FAMILY]
    if name in packages:
        return load_evaluator({"family": FAMILY, "package": name})
    if not Path(name).is_dir():
        allowed = ", ".join(packages)
        raise InputError(f"embedding {name}: no such folder; give one, or a package: {allowed}")
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


_SKIPTHOUGHT = {"uni": ("uni_skip.npz", "utable.npy"), "bi": ("bi_skip.npz", "btable.npy")}
_DICTIONARY = "dictionary.txt"
_ZIP, _LEGACY = b"PK\x03\x04", b"\x80\x02"  # of files that torch wrote


def evaluator_at(path: Path, vectors: str | None = None, layers: int = 2) -> dict[str, Any]:
    """Return the options of `load_evaluator` for what lies at a path.

    A folder of a trained evaluator, of sentence-transformers, of a Transformer of a run or of
    Hugging Face (of both `layers` are read), or one with SkipThought's official files by their
    names; a file of InferSent's official weights (``.pkl``, ``.pt``; `vectors` says what it reads),
    or of vectors.
    """
    if path.is_dir():
        return _folder(path, layers)
    start = beginning(path)
    if path.suffix in (".pkl", ".pt", ".pth") or start.startswith((_ZIP, _LEGACY)):
        if vectors is None:
            raise InputError(
                f"{path}: InferSent reads word vectors; give vectors, those it was trained with"
            )
        return {"family": "infersent", "path": str(path), "vectors": evaluator_named(vectors)}
    return {"family": "vectors", "path": str(path)}


def evaluator_named(name: str) -> dict[str, Any]:
    """Return the options of `load_evaluator` for a package or a path."""
    if name in PACKAGES:
        return {"family": PACKAGES[name].family, "package": name}
    return evaluator_at(Path(name))


def _folder(path: Path, layers: int) -> dict[str, Any]:
    if (path / EVALUATOR_FILE).is_file():
        return {"family": read_description(path)["family"], "path": str(path)}
    if (path / "modules.json").is_file():
        return {"family": "sentence-transformers", "path": str(path)}
    if (path / "model.json").is_file():
        return {"family": "transformer", "model": str(path), "layers": layers}
    if (path / "config.json").is_file():
        return {"family": "transformer", "path": str(path), "layers": layers}
    found: dict[str, Any] = {"family": "skipthought", "dictionary": str(path / _DICTIONARY)}
    for kind, (weights, table) in _SKIPTHOUGHT.items():
        if (path / weights).is_file():
            found |= {kind: str(path / weights), f"{kind}_table": str(path / table)}
    if len(found) > 2:
        return found
    raise InputError(
        f"{path}: holds no evaluator: neither {EVALUATOR_FILE} (trained here), modules.json "
        "(sentence-transformers), model.json (a model of a run), config.json (Hugging Face) nor "
        "uni_skip.npz or bi_skip.npz (SkipThought)"
    )
