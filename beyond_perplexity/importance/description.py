"""The latents of one instance of a run, for people: what Figure 1 draws."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import torch

from beyond_perplexity.importance.weights import Pair
from beyond_perplexity.instances.store import TOKENS, Instance, InstanceBatch
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.vocabulary import UNK, Vocabulary

LOOKED_AT = 400  # instances of the split
UNKNOWN_COST = 5.0
FEWEST_WORDS, MOST_WORDS, MOST_OF_A_TREE = 7, 60, 12


def _richness(described: dict[str, Any]) -> float:
    """Say how much there is to see: brackets of a tree, or mentions and re-mentions."""
    if described.get("tree"):
        return float(str(described["tree"]).count("("))
    entities = [mention["entity"] for mention in described["mentions"]]
    return len(entities) + 5.0 * (len(entities) - len(set(entities)))


def _known(instance: Instance, vocabulary: Vocabulary) -> np.ndarray:
    """Return the words with ``<unk>`` for classes of unknown words, int64, (T,)."""
    words = instance.arrays[TOKENS]
    return np.where(words < vocabulary.size, words, UNK)


@torch.inference_mode()
def describe(
    pair: Pair, name: str, instances: Iterable[Instance], vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """Choose an instance with much to see and describe its latents.

    Parameters
    ----------
    pair : Pair
        The model and a proposal.
    name : str
        What the model is called.
    instances : iterable of Instance
        A split; its first 400 are looked at.
    vocabulary : Vocabulary
        Of the words.

    Returns
    -------
    list of dict
        ``model``, ``title``, ``instance_id``, ``tokens`` and what `LatentModel.readable` gives: of
        the annotation, then of the most probable latent that a beam of 10 finds; empty when no
        instance has from 7 to 60 words (12 under a tree).
    """
    best: tuple[float, Instance, dict[str, Any]] | None = None
    for instance in islice(instances, LOOKED_AT):
        words = _known(instance, vocabulary)
        if not FEWEST_WORDS <= len(words) <= MOST_WORDS:
            continue
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        described = pair.model.readable(instance, pair.model.annotated(batch)[0])
        if not described.get("tree") and "mentions" not in described:
            continue  # a tree that the model cannot have
        if described.get("tree") and len(words) > MOST_OF_A_TREE:
            continue
        unknown = np.count_nonzero(words == UNK) / len(words)
        worth = _richness(described) / len(words) - UNKNOWN_COST * unknown
        if best is None or worth > best[0]:
            best = (worth, instance, described)
    if best is None:
        return []
    _, instance, annotated = best
    batch = InstanceBatch.of([instance]).to(pair.model.device)
    found = pair.proposal.beam(batch, 10)[0]  # (10, W)
    likeliest = pair.model.readable(instance, found[(found != FILLING).any(1)][0])
    tokens = vocabulary.decode([np.array([word]) for word in _known(instance, vocabulary)])
    common = {"model": name, "instance_id": instance.instance_id, "tokens": tokens}
    return [
        {**common, "title": "annotation", **annotated},
        {**common, "title": "most probable under the proposal", **likeliest},
    ]
