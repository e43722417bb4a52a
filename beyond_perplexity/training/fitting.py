"""From a documents file, a vocabulary and a model's configuration to a model folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import torch

from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.corpus.token_batches import TokenStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import CountedModel, LanguageModel, TrainedModel
from beyond_perplexity.models.families import FAMILIES, find_row, training_modules
from beyond_perplexity.models.latent import LatentModule
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.models.registry import WEIGHTS, save_model
from beyond_perplexity.options import parse_options
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.schemas.perplexity import TRAINING
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.provenance import content_hash, note_read, run_record, value_hash
from beyond_perplexity.storage.shards import content_of, write_shard
from beyond_perplexity.training.loop import TrainingResult, curve_row
from beyond_perplexity.training.options import WAKE
from beyond_perplexity.vocabulary import Vocabulary, load_vocabulary

if TYPE_CHECKING:
    from beyond_perplexity.training.options import TrainingOptions

CONFIG_KEYS = ("family", "architecture", "training")
# By name: the jobs of counted models do not depend on it; see `training_modules`.
LEARN = "beyond_perplexity.training.learning:learn"


def fit_files(
    documents: str | Path,
    vocabulary: str | Path | None,
    config: Mapping[str, Any],
    seed: int,
    device: torch.device,
    output: str | Path,
    checkpoints: str | Path,
    preprocessing: Mapping[str, Any] | None = None,
    wake: str | Path | None = None,
) -> None:
    """Train a model on the split ``train``, watch the split ``valid``, and write its folder.

    A latent family finds the other tables beside `documents`. A training has a subfolder of
    `checkpoints`, named by the hash of all that determines it, so that nothing stale is ever taken
    up. `preprocessing` is kept for other texts. `wake` is the folder of the trained model that a
    proposal learns from after its fit to the annotation.
    """
    unknown = set(config) - set(CONFIG_KEYS)
    if unknown:
        allowed = ", ".join(CONFIG_KEYS)
        raise InputError(f"config.{min(unknown)}: unknown key; allowed are {allowed}")
    corpus = CorpusFiles.of(Path(documents).parent)._replace(documents=Path(documents))
    _check_wake(training_options(config), wake)
    job = _prepare(corpus, vocabulary, config, seed, device, checkpoints, preprocessing or {})
    job = replace(job, wake=Path(wake) if wake else None)
    record = run_record("scripts/train.py", dict(config), seed=seed, device=str(device))
    model, result = _fit(job)
    phases = {"fit": result, "wake": result.then}
    rows = [{**row, "phase": name} for name, one in phases.items() if one for row in one.rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    write_shard(Path(output) / "training.parquet", TRAINING, columns, record)
    finite = math.isfinite(result.valid_loss)
    extra = {
        "training": dict(config.get("training", {})),
        "preprocessing": dict(preprocessing or {}),
        "seed": seed,
        "code_fingerprint": job.code,
        "best_step": result.best_step,
        "steps": result.steps,
        # JSON knows no infinity: null stands for it, and the flag says so.
        "valid_loss": result.valid_loss if finite else None,
        "valid_perplexity": math.exp(result.valid_loss) if finite and model.normalized else None,
        "valid_infinite": not finite,
        "source": job.source,
        "wake": _describe_wake(job, result.then),
    }
    save_model(output, model.cpu(), job.vocabulary, extra)


def training_options(config: Mapping[str, Any]) -> TrainingOptions:
    """Return the section ``training`` of a model's configuration, with its family's defaults."""
    kind = registry.find_training(config.get("family"))
    options: TrainingOptions = parse_options(kind, config.get("training", {}), "training")
    return options


@dataclass(frozen=True)
class Fitting:
    """One training: what it is made of, where its checkpoints are, whom to learn from later."""

    config: Mapping[str, Any]
    code: str
    vocabulary: Vocabulary
    external: LanguageModel | None
    source: dict[str, Any] | None
    corpus: CorpusFiles
    seed: int
    device: torch.device
    folder: Path
    wake: Path | None = None

    @cached_property
    def options(self) -> TrainingOptions:
        """The section ``training``."""
        return training_options(self.config)

    @property
    def how(self) -> tuple[TrainingOptions, int, Path, torch.device]:
        """What `train` takes of a job."""
        return self.options, self.seed, self.folder, self.device

    @property
    def open_vocabulary(self) -> bool:
        """Whether there are no unknown words."""
        return self.vocabulary.kind == "bpe"

    def store(self, split: str) -> TokenStore:
        """Encode a split."""
        return TokenStore.write(self.folder, self.corpus.documents, split, self.vocabulary)

    def set_initial_weights(self) -> None:
        """Seed torch's generator with what is for initial weights."""
        torch.manual_seed(stream_key(self.seed, "train/initialize") % 2**63)


def _prepare(
    corpus: CorpusFiles,
    vocabulary: str | Path | None,
    config: Mapping[str, Any],
    seed: int,
    device: torch.device,
    checkpoints: str | Path,
    preprocessing: Mapping[str, Any],
) -> Fitting:
    """Read what a training is made of, and name its folder by all that determines it."""
    family = registry.find(config.get("family"))
    code = fingerprint("scripts/train.py", *training_modules(config.get("family")))
    words, external, source = _vocabulary(config, vocabulary, preprocessing)
    tables = corpus if issubclass(family, LatentModule) else [corpus.documents]
    for path in tables:
        if path.exists():  # so that the record names it, even where it is not read again
            _note(path)
    # Without the options of wake training: with or without it, the fit is the same.
    training = {k: v for k, v in config.get("training", {}).items() if not k.startswith(WAKE)}
    determined_by = {"config": {**config, "training": training}, "seed": seed, "code": code}
    determined_by |= {"torch": torch.__version__, "device": device.type}
    determined_by |= {"threads": torch.get_num_threads(), "vocabulary": words.hash}
    hashes = [content_hash(path) if path.exists() else None for path in tables]
    determined_by |= {"tables": hashes, "source": source}
    folder = Path(checkpoints) / value_hash(determined_by)[:16]
    return Fitting(config, code, words, external, source, corpus, seed, device, folder)


def _note(path: Path) -> None:
    """Count a table as read; what is no table is known by its bytes."""
    if path.suffix == ".parquet":
        content_of(path)
    else:
        note_read(path, content_hash(path))


def _vocabulary(
    config: Mapping[str, Any], path: str | Path | None, preprocessing: Mapping[str, Any]
) -> tuple[Vocabulary, LanguageModel | None, dict[str, Any] | None]:
    """Read the vocabulary, or take the one that comes with a model, together with that model."""
    family = config.get("family")
    bring = registry.find_named(find_row(family).bring)
    if bring is None:
        if path is None:
            bringing = ", ".join(name for name, row in FAMILIES.items() if row.bring)
            raise InputError(f"vocabulary: is missing; only {bringing} models bring their own")
        return load_vocabulary(path), None, None
    if path is not None:
        raise InputError(f"{path}: a {family} model brings its own vocabulary; give none")
    # What is not trained on the corpus writes plain text, which becomes the corpus' tokens.
    cleaning = None if config.get("training") else preprocessing
    model, vocabulary, source = bring(config.get("architecture", {}), cleaning)
    return vocabulary, model, source


def _fit(job: Fitting) -> tuple[TrainedModel, TrainingResult]:
    family = registry.find(job.config.get("family"))
    if issubclass(family, CountedModel):
        documents, options = job.store("train").batches(), job.config.get("architecture", {})
        model = family.fit(documents, job.vocabulary.size, options, job.open_vocabulary)
        return model, measure_untrained(model.to(job.device), job.store("valid"))
    fitted: tuple[TrainedModel, TrainingResult] = resolve_name(LEARN)(job, family)
    return fitted


def _check_wake(options: TrainingOptions, wake: str | Path | None) -> None:
    steps = getattr(options, "wake_steps", 0)
    if steps and wake is None:
        fault = f"is {steps}, but there is no model to learn from; give --wake, the model's folder"
        raise InputError(f"training.wake_steps: {fault}")
    if wake is not None and not steps:
        raise InputError(f"--wake: {wake}: training.wake_steps is 0; leave it out or give steps")


def _describe_wake(job: Fitting, result: TrainingResult | None) -> dict[str, Any] | None:
    """Say what wake training came to: −log p̂ of the validation split before and after it."""
    if result is None or job.wake is None:
        return None
    told: dict[str, Any] = {"model_sha256": content_hash(job.wake / WEIGHTS)}
    told |= {"valid_loss_before": result.rows[0]["loss"], "valid_loss": result.valid_loss}
    return told | {"best_step": result.best_step, "steps": result.steps}


def measure_untrained(model: LanguageModel, valid: TokenStore) -> TrainingResult:
    """Give a model that is not trained the one row of a training curve that it has."""
    log_prob, tokens = 0.0, 0
    for ids, score in zip(valid, score_encoded(model, valid), strict=True):
        log_prob += score.log_prob
        tokens += len(ids) + 1
    loss = -log_prob / tokens
    return TrainingResult([curve_row(0, 1.0, "valid", loss)], loss, 0, 0)
