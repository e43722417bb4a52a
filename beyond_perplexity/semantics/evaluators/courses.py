"""How networks of evaluators are trained; apart from what reads them, which needs no Lightning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.models.checkpoint import WEIGHTS, choose_device, save_tensors
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.schemas.training import TRAINING
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob, write_description
from beyond_perplexity.semantics.evaluators.options import EvaluatorTraining
from beyond_perplexity.semantics.evaluators.packages import package_version
from beyond_perplexity.storage.provenance import content_hash, run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.training.loop import train


@dataclass(frozen=True)
class NetworkCourse:
    """How a network is trained.

    Attributes
    ----------
    make : callable
        Makes it, untrained.
    sources : pair of BatchSource
        The training and the validation split.
    options : EvaluatorTraining
    folder : Path
        Its checkpoints.
    """

    make: Callable[[], TrainedModel]
    sources: tuple[BatchSource, BatchSource]
    options: EvaluatorTraining
    folder: Path


def train_network(job: EvaluatorJob, course: NetworkCourse, about: Mapping[str, Any]) -> None:
    """Train a network, or go on with it, and write its folder.

    Parameters
    ----------
    job : EvaluatorJob
    course : NetworkCourse
    about : mapping
        What the description says besides; JSON-serializable.
    """
    device = choose_device(job.device)
    record = run_record(
        "scripts/train_evaluator.py", dict(job.options), seed=job.seed, device=str(device)
    )
    torch.manual_seed(stream_key(job.seed, "train/initialize") % 2**63)
    network = course.make()
    result = train(network, course.sources, course.options, job.seed, course.folder, device)
    columns = {name: [row[name] for row in result.rows] for name in result.rows[0]}
    columns["phase"] = ["fit"] * len(result.rows)
    write_shard(job.output / "training.parquet", TRAINING, columns, record)
    save_tensors(job.output / WEIGHTS, network.cpu().state_dict())
    write_description(
        job,
        {
            **about,
            "config": network.config,
            "sha256": content_hash(job.output / WEIGHTS),
            "parameters": network.parameter_count(),
            "versions": {"torch": package_version("torch")},
            "valid_loss": result.valid_loss,
            "best_step": result.best_step,
            "steps": result.steps,
        },
    )
