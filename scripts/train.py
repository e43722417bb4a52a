"""Train a language model of any family, or go on with a training that was interrupted."""

from __future__ import annotations

import argparse
import json

import torch

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.fitting import fit_files
from beyond_perplexity.models.checkpoint import choose_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet) with splits train and valid")
    add("--vocabulary", required=True, help="vocabulary file")
    add("--config", required=True, help="JSON: family, architecture, training")
    add("--seed", type=int, default=1, help="seed of weights, order and dropout (default 1)")
    add("--threads", type=int, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", required=True, help="folder for the model and its training curve")
    add("--checkpoints", required=True, help="folder for what an interrupted training resumes from")
    options = parser.parse_args()
    try:
        config = json.loads(options.config)
    except ValueError as error:
        raise InputError(f"--config: is no JSON ({error})") from error
    if not isinstance(config, dict):
        raise InputError("--config: expected a JSON object with family, architecture, training")
    torch.set_num_threads(options.threads)
    fit_files(
        options.documents,
        options.vocabulary,
        config,
        options.seed,
        choose_device(options.device),
        options.output,
        options.checkpoints,
    )


if __name__ == "__main__":
    run_command(main)
