"""What the jobs on one block of instances have in common: their flags, and what they open."""

from __future__ import annotations

import argparse
from typing import NamedTuple

import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.drawing.weights import Pair, choose_instances, load_pair
from beyond_perplexity.instances.store import CorpusFiles, Instance
from beyond_perplexity.models.checkpoint import WEIGHTS
from beyond_perplexity.storage.provenance import run_record

UNDETERMINING = ("output", "threads")  # flags that do not change a number


class Cell(NamedTuple):
    """A block of instances, the pair that it is worked on with, and the run record for a footer."""

    pair: Pair
    instances: list[Instance]
    record: dict[str, object]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Give a parser the flags that say which block of which instances, and of which models."""
    add = parser.add_argument
    add("--model", required=True, help="folder of the latent model")
    add("--proposal", required=True, help="folder of the proposal; the model's where it is in it")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", required=True, help="train, valid or test")
    add("--name", required=True, help="MODEL/PROPOSAL: keys the random streams")
    add("--seed", type=int, required=True, help="seed of the run")
    add("--instances", type=int, help="how many of the split, chosen at random (default all)")
    add("--first-instance", type=int, default=0, help="first of the chosen ones in this shard")
    add("--instance-count", type=int, required=True, help="instances of this shard")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--output", required=True, help="Parquet shard to write")


def open_cell(given: argparse.Namespace, script: str, temperature: float | None = None) -> Cell:
    """Read the models and the block of instances that the flags name.

    Parameters
    ----------
    given : argparse.Namespace
        With the flags of `add_flags`; all but `UNDETERMINING` go into the record.
    script : str
        The script that runs, for the record.
    temperature : float, optional
        Of the samples.

    Raises
    ------
    InputError
        See `weights.load_pair`; or when the split has no instances.
    """
    torch.set_num_threads(max(given.threads, 1))
    pair, words = load_pair(given.model, given.proposal, given.device, given.seed, given.name)
    split = pair.model.instances(CorpusFiles.of(given.corpus), given.split, words)
    chosen = choose_instances(split, given.instances, given.seed)
    if not chosen:
        raise InputError(
            f"{given.corpus}: the split '{given.split}' has no instance that {given.model} can read"
        )
    options = {key: value for key, value in vars(given).items() if key not in UNDETERMINING}
    weights = f"{given.model}/{WEIGHTS}"
    record = run_record(script, options, seed=given.seed, device=given.device, checkpoint=weights)
    labelled = pair.labels(words, temperature).in_record(record)
    return Cell(pair, chosen[given.first_instance :][: given.instance_count], labelled)
