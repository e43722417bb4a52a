"""Train a language model of any family, or go on with a training that was interrupted."""

from __future__ import annotations

from pathlib import Path

import torch

from beyond_perplexity.arguments import SEED, output_folder
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.training.fitting import fit_files
from scripts._job import Given, flag, job, json_flag, needed, on_device


@job(
    needed("--documents", "documents file (Parquet) with splits train and valid"),
    flag("--vocabulary", "its file; none for a model that brings its own", nargs="?"),
    json_flag("--config", "JSON: family, architecture, training", required=True),
    json_flag("--preprocessing", "JSON, kept with the model"),
    flag("--wake", "model.json that a proposal then learns from", nargs="*", default=[]),
    flag("--seed", "seed of weights, order and dropout (default 1)", SEED, default=1),
    on_device,
    needed("--output", "folder for model and curve", output_folder),
    needed("--checkpoints", "to resume from", output_folder),
)
def main(options: Given) -> None:
    Preprocessing.from_config(options.preprocessing)
    torch.set_num_threads(options.threads)
    fit_files(
        options.documents,
        options.vocabulary,
        options.config,
        options.seed,
        choose_device(options.device),
        options.output,
        options.checkpoints,
        options.preprocessing,
        Path(options.wake[0]).parent if options.wake else None,
    )
