"""The latents of the beam search of a proposal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from beyond_perplexity.importance.drawing.pair import (
    Columns,
    Distinct,
    Pair,
    hash_latents,
    instance_columns,
)
from beyond_perplexity.importance.options import BeamOptions
from beyond_perplexity.instances.store import Instance, InstanceBatch
from beyond_perplexity.models.latent import FILLING


@torch.inference_mode()
def search(pair: Pair, instances: Iterable[Instance], options: BeamOptions) -> Iterator[Columns]:
    """Give log p(x, z) of the latents that a beam search under q ends with.

    The search is that of the largest beam; the others are its best, so that a bound never rises
    with the size.

    Parameters
    ----------
    pair : Pair
    instances : iterable of Instance
    options : BeamOptions

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``beams``, one beam of one instance at a time.
    """
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        rows = pair.proposal.beam(batch, max(options.sizes))[0]  # (size, W)
        latents = rows[(rows != FILLING).any(1)]  # (k, W)
        found = Distinct.of(latents)
        log_p = pair.model.log_joint(batch, found.owner, found.latents)  # (N,)
        log_q = pair.proposal.log_prob(batch, found.owner, found.latents, [1.0])  # (N, 1)
        columns = {
            **instance_columns(pair.model, batch, len(latents)),
            "rank": np.arange(len(latents), dtype=np.int32),
            "log_p": found.scatter(log_p),
            **pair.penalized_scores(batch, found, log_p),
            "log_q": found.scatter(log_q)[:, 0],
            "latent_hash": hash_latents(latents),
        }
        for size in options.sizes:
            held = {name: values[:size] for name, values in columns.items()}
            yield {**held, "beam_size": np.full(len(held["rank"]), size, np.int32)}
