"""Importance weights of latents drawn from a proposal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from beyond_perplexity.importance.drawing.pair import (
    Columns,
    Distinct,
    Pair,
    draw_latents,
    hash_latents,
    instance_columns,
)
from beyond_perplexity.importance.options import WeightOptions
from beyond_perplexity.instances.store import Instance


@torch.inference_mode()
def weigh(
    pair: Pair, instances: Iterable[Instance], options: WeightOptions, samples: range
) -> Iterator[Columns]:
    """Draw latents z ~ q_τ(z | x) and give log p(x, z) and log q_τ(z | x).

    Parameters
    ----------
    pair : Pair
        Both modules in evaluation mode, on one device.
    instances : iterable of Instance
    options : WeightOptions
    samples : range
        Numbers of the samples of each instance.

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``log_weights``, and of `penalized_columns` of a model that has its own
        penalty, a block of samples of one instance at a time.
    """
    # Torch rounds sums in one way for any few columns, in another for one: so log q is what
    # `log_q.score_temperatures` finds, bit for bit.
    twice = [options.temperature] * 2
    for instance in instances:
        for batch, numbers, latents in draw_latents(pair, instance, samples, options.temperature):
            found = Distinct.of(latents)
            log_p = pair.model.log_joint(batch, found.owner, found.latents)  # (N,)
            log_q = pair.proposal.log_prob(batch, found.owner, found.latents, twice)  # (N, 2)
            yield {
                **instance_columns(pair.model, batch, len(numbers)),
                "sample_id": numbers,
                "log_p": found.scatter(log_p),
                **pair.penalized_scores(batch, found, log_p),
                "log_q": found.scatter(log_q)[:, 0],
                "latent_hash": hash_latents(latents),
            }
