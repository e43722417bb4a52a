"""log q of the samples of a proposal at all its temperatures: what mixtures of them need.

The latents are drawn again by the streams of their weights, so that one more temperature leaves the
weights of the others as they are; the hash of each shows that it is the latent that was weighed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from beyond_perplexity.importance.drawing.pair import (
    Columns,
    Distinct,
    Pair,
    draw_latents,
    hash_latents,
)
from beyond_perplexity.importance.options import LogQOptions
from beyond_perplexity.instances.store import Instance
from beyond_perplexity.schemas.draws import temperature_column


@torch.inference_mode()
def score_temperatures(
    pair: Pair, instances: Iterable[Instance], options: LogQOptions, samples: range
) -> Iterator[Columns]:
    """Give log q at every temperature of the latents drawn at each of them.

    Parameters
    ----------
    pair : Pair
    instances : iterable of Instance
    options : LogQOptions
    samples : range
        Numbers of the samples of each instance at each temperature.

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``log_q`` with those of `schemas.draws.temperature_columns`, a block of
        samples of one instance at one temperature at a time.
    """
    for instance in instances:
        for drawn in options.temperatures:
            for batch, numbers, latents in draw_latents(pair, instance, samples, drawn):
                found = Distinct.of(latents)
                log_q = found.scatter(
                    pair.proposal.log_prob(batch, found.owner, found.latents, options.temperatures)
                )  # (K, A)
                yield {
                    "instance_id": np.full(len(numbers), instance.instance_id),
                    "sample_id": numbers,
                    "temperature": np.full(len(numbers), float(drawn)),
                    "latent_hash": hash_latents(latents),
                    **{
                        temperature_column(value): log_q[:, place]
                        for place, value in enumerate(options.temperatures)
                    },
                }
