"""Which evaluator a name or a path stands for, outside of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.foreign import beginning
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.evaluators.rows import PACKAGES

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
                f"{path}: InferSent reads word vectors; give --vectors, those it was trained with"
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
