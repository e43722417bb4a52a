"""Folders of trained networks: weights in safetensors, and what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.checkpoint import WEIGHTS, choose_device, read_weights
from beyond_perplexity.models.contract import TrainedModel, check_finite
from beyond_perplexity.semantics.evaluators.foreign import refuse_foreign
from beyond_perplexity.semantics.evaluators.job import (
    EVALUATOR_FILE,
    read_description,
)
from beyond_perplexity.storage.provenance import content_hash, note_read

Network = TypeVar("Network", bound=TrainedModel)


def load_network(folder: Path, kind: type[Network], device: str) -> tuple[Network, dict[str, Any]]:
    """Read the folder of a trained network.

    Parameters
    ----------
    folder : Path
        Written by `courses.train_network`.
    kind : type
        Class of the network.
    device : str
        auto, cpu or cuda.

    Returns
    -------
    network : TrainedModel
        In evaluation mode.
    description : dict

    Raises
    ------
    InputError
        When a file is missing, foreign or damaged, the files do not belong together, or a weight is
        no finite number.
    """
    held = read_description(folder)
    weights = folder / WEIGHTS
    refuse_foreign(weights)
    if content_hash(weights) != held.get("sha256"):
        raise InputError(
            f"{weights}: is not the file that {EVALUATOR_FILE} describes; train it again"
        )
    note_read(weights, held["sha256"])
    network = read_weights(weights, kind, held.get("config", {}), EVALUATOR_FILE)
    check_finite(network, weights)
    return network.to(choose_device(device)).eval(), held
