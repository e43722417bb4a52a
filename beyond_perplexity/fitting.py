"""From a documents file, a vocabulary and a model's configuration to a model folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from beyond_perplexity.batches import TokenStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.checkpoint import save_model
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.options import parse_options
from beyond_perplexity.perplexity import score_encoded
from beyond_perplexity.provenance import content_hash, fingerprint, run_record, value_hash
from beyond_perplexity.randomness import stream_key
from beyond_perplexity.shards import write_shard
from beyond_perplexity.training import TrainingResult, train
from beyond_perplexity.training_options import TrainingOptions
from beyond_perplexity.vocabulary import Vocabulary, load_vocabulary

CONFIG_KEYS = ("family", "architecture", "training")


def fit_files(
    documents: str | Path,
    vocabulary: str | Path | None,
    config: Mapping[str, Any],
    seed: int,
    device: torch.device,
    output: str | Path,
    checkpoints: str | Path,
    preprocessing: Mapping[str, Any] | None = None,
) -> None:
    """Train a model on the split ``train``, watch the split ``valid``, and write its folder.

    Parameters
    ----------
    documents : path
        A Parquet file of schema ``documents``.
    vocabulary : path or None
        A vocabulary file; None for a family that brings its own.
    config : dict
        ``family``, ``architecture``, ``training``.
    seed : int
        Seed of initial weights, order of documents and dropout.
    device : torch.device
    output : path
        The model folder, with ``training.parquet`` in it.
    checkpoints : path
        A folder for unfinished trainings; each has a subfolder of its own, named by the hash of
        everything that determines it, so that nothing stale is ever taken up.
    preprocessing : dict, optional
        How the documents were cleaned; kept in the model folder, so that other text can be cleaned
        likewise before it is scored.

    Raises
    ------
    InputError
        When a file or an option is wrong, or a split is empty.
    """
    unknown = set(config) - set(CONFIG_KEYS)
    if unknown:
        allowed = ", ".join(CONFIG_KEYS)
        raise InputError(f"config.{min(unknown)}: unknown key; allowed are {allowed}")
    options = parse_options(TrainingOptions, config.get("training", {}), "training")
    family = config.get("family")
    code = fingerprint("scripts/train.py", registry.family_module(family))
    record = run_record("scripts/train.py", dict(config), seed=seed, device=str(device))
    words, brought = _vocabulary(config, vocabulary, preprocessing or {})
    determined_by = {
        "config": dict(config),
        "seed": seed,
        "code": code,
        "torch": torch.__version__,
        "device": device.type,
        "threads": torch.get_num_threads(),
        "documents": content_hash(documents),
        "vocabulary": words.hash,
        "source": brought.source if brought else None,
    }
    folder = Path(checkpoints) / value_hash(determined_by)[:16]
    valid = TokenStore.write(folder, documents, "valid", words)
    if brought and not config.get("training"):
        model, result = brought.model, _measure(brought.model.to(device), valid)
    else:
        stores = TokenStore.write(folder, documents, "train", words), valid
        counted = getattr(registry.find(family), "fit", None)
        if counted is not None:
            if config.get("architecture"):
                registry.build(config, words.size)  # says which options the family has
            model = counted(stores[0].batches(), words.size, words.kind == "bpe")
            result = _measure(model.to(device), valid)
        else:
            model = brought.model.train() if brought else _initial(config, words, seed)
            result = train(model, stores, options, seed, folder, device)
    output = Path(output)
    columns = {name: [row[name] for row in result.rows] for name in result.rows[0]}
    write_shard(output / "training.parquet", "training", columns, record)
    finite = math.isfinite(result.valid_loss)
    extra = {
        "training": dict(config.get("training", {})),
        "preprocessing": dict(preprocessing or {}),
        "seed": seed,
        "code_fingerprint": code,
        "best_step": result.best_step,
        "steps": result.steps,
        # JSON knows no infinity: null stands for it, and the flag says so.
        "valid_loss": result.valid_loss if finite else None,
        "valid_perplexity": math.exp(result.valid_loss) if finite else None,
        "valid_infinite": not finite,
        "source": brought.source if brought else None,
    }
    save_model(output, model.cpu(), words, extra)


class _Brought(NamedTuple):
    """A trained model, and where it came from."""

    model: LanguageModel
    source: dict[str, Any]


def _vocabulary(
    config: Mapping[str, Any], path: str | Path | None, preprocessing: Mapping[str, Any]
) -> tuple[Vocabulary, _Brought | None]:
    """Read the vocabulary, or take the one that comes with a model, together with that model."""
    family = config.get("family")
    bring = getattr(registry.find(family), "bring", None)
    if bring is None:
        if path is None:
            raise InputError("vocabulary: is missing; only huggingface models bring their own")
        return load_vocabulary(path), None
    if path is not None:
        raise InputError(f"{path}: a {family} model brings its own vocabulary; give none")
    # What is not trained on the corpus writes plain text, which becomes the corpus' tokens.
    cleaning = None if config.get("training") else preprocessing
    model, vocabulary, source = bring(config.get("architecture", {}), cleaning)
    return vocabulary, _Brought(model, source)


def _initial(config: Mapping[str, Any], vocabulary: Vocabulary, seed: int) -> LanguageModel:
    torch.manual_seed(stream_key(seed, "train/initialize") % 2**63)
    return registry.build(config, vocabulary.size, vocabulary.kind == "bpe")


def _measure(model: LanguageModel, valid: TokenStore) -> TrainingResult:
    """Give a model that is not trained the one row of a training curve that it has."""
    log_prob, tokens = 0.0, 0
    for ids, score in zip(valid, score_encoded(model, valid), strict=True):
        log_prob += score.log_prob
        tokens += len(ids) + 1
    loss = -log_prob / tokens
    row = {
        "step": 0,
        "epoch": 1.0,
        "split": "valid",
        "loss": loss,
        "perplexity": math.exp(loss) if loss < 700 else math.inf,
        "learning_rate": 0.0,
        "seconds": 0.0,
    }
    return TrainingResult([row], loss, 0, 0)
