"""From a documents file, a vocabulary and a model's configuration to a model folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from beyond_perplexity.batches import Pieces, TokenStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.instances.store import CorpusFiles, InstanceStore, WholeInstances
from beyond_perplexity.models import registry
from beyond_perplexity.models.checkpoint import save_model
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.families import family_module
from beyond_perplexity.models.latent import LatentModule
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
    vocabulary: str | Path,
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
        A Parquet file of schema ``documents``; families with latent variables find the other
        tables of the corpus beside it.
    vocabulary : path
        A vocabulary file.
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
    family = registry.find(config.get("family"))
    words = load_vocabulary(vocabulary)
    code = fingerprint("scripts/train.py", family_module(config.get("family")))
    corpus = CorpusFiles.of(Path(documents).parent)._replace(documents=Path(documents))
    tables = corpus if issubclass(family, LatentModule) else [corpus.documents]
    determined_by = {
        "config": dict(config),
        "seed": seed,
        "code": code,
        "torch": torch.__version__,
        "device": device.type,
        "threads": torch.get_num_threads(),
        "tables": [content_hash(path) if path.exists() else None for path in tables],
        "vocabulary": content_hash(vocabulary),
    }
    folder = Path(checkpoints) / value_hash(determined_by)[:16]
    job = Fitting(config, words, corpus, seed, device, folder)
    record = run_record("scripts/train.py", dict(config), seed=seed, device=str(device))
    model: TrainedModel
    if issubclass(family, LatentModule):
        model, result = _fit_latent(job, family)
    elif hasattr(family, "fit"):
        model, result = _fit_counted(job, family)
    else:
        model, result = _fit_neural(job)
    columns = {name: [row[name] for row in result.rows] for name in result.rows[0]}
    write_shard(Path(output) / "training.parquet", "training", columns, record)
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
    }
    save_model(output, model.cpu(), words, extra)


@dataclass(frozen=True)
class Fitting:
    """One training: what it is made of and where its checkpoints are."""

    config: Mapping[str, Any]
    vocabulary: Vocabulary
    corpus: CorpusFiles
    seed: int
    device: torch.device
    folder: Path

    @cached_property
    def options(self) -> TrainingOptions:
        """The section ``training``."""
        return parse_options(TrainingOptions, self.config.get("training", {}), "training")

    @property
    def open_vocabulary(self) -> bool:
        """Whether there are no unknown words."""
        return self.vocabulary.kind == "bpe"

    def stores(self) -> tuple[TokenStore, TokenStore]:
        """Encode the splits ``train`` and ``valid``."""
        train, valid = (
            TokenStore.write(self.folder, self.corpus.documents, split, self.vocabulary)
            for split in ("train", "valid")
        )
        return train, valid

    def set_initial_weights(self) -> None:
        """Seed torch's generator with what is for initial weights."""
        torch.manual_seed(stream_key(self.seed, "train/initialize") % 2**63)


def _fit_latent(job: Fitting, family: type[LatentModule]) -> tuple[TrainedModel, TrainingResult]:
    options = job.options
    job.set_initial_weights()
    model = family.create(job.config.get("architecture", {}), job.vocabulary, job.corpus)
    train_rows, valid_rows = (
        WholeInstances(
            InstanceStore.write(
                job.folder, split, model.instances(job.corpus, split, job.vocabulary)
            ),
            options.batch_tokens,
        )
        for split in ("train", "valid")
    )
    sources = (train_rows, valid_rows)
    return model, train(model, sources, options, job.seed, job.folder, job.device)


def _fit_counted(job: Fitting, family: type[Any]) -> tuple[TrainedModel, TrainingResult]:
    size, (train_store, valid_store) = job.vocabulary.size, job.stores()
    if job.config.get("architecture"):
        registry.build(job.config, size)  # says which options the family has
    model = family.fit(train_store.batches(), size, job.open_vocabulary)
    return model, _measure(model.to(job.device), valid_store)


def _fit_neural(job: Fitting) -> tuple[TrainedModel, TrainingResult]:
    options = job.options
    job.set_initial_weights()
    model = registry.build(job.config, job.vocabulary.size, job.open_vocabulary)
    length = min(options.maximum_length, model.context_length or options.maximum_length)
    train_pieces, valid_pieces = (
        Pieces(store, length, options.batch_tokens) for store in job.stores()
    )
    sources = (train_pieces, valid_pieces)
    return model, train(model, sources, options, job.seed, job.folder, job.device)


def _measure(model: LanguageModel, valid: TokenStore) -> TrainingResult:
    """Give a counted model the one row of a training curve that it has."""
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
