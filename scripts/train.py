"""Train a language model of any family, or go on with a training that was interrupted."""

from __future__ import annotations

from pathlib import Path

import torch

from beyond_perplexity.arguments import SEED, THREADS, CommandParser, output_folder
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.options import json_object
from beyond_perplexity.training.fitting import fit_files


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet) with splits train and valid")
    add("--vocabulary", nargs="?", help="its file; none for a model that brings its own")
    add("--config", required=True, type=json_object, help="JSON: family, architecture, training")
    add("--preprocessing", type=json_object, default={}, help="JSON, kept with the model")
    add("--wake", nargs="*", default=[], help="model.json that a proposal then learns from")
    add("--seed", type=SEED, default=1, help="seed of weights, order and dropout (default 1)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_folder, required=True, help="folder for model and curve")
    add("--checkpoints", type=output_folder, required=True, help="to resume from")
    options = parser.parse_args()
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


if __name__ == "__main__":
    run_command(main)
