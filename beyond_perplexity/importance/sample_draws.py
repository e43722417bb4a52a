"""What is drawn of a pair of models: importance weights, log q at all temperatures, beams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.importance.model_pair import (
    Columns,
    Distinct,
    Pair,
    draw_latents,
    hash_latents,
    instance_columns,
    score_latents,
)
from beyond_perplexity.importance.ways_to_draw import BeamOptions, LogQOptions, WeightOptions
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.schemas.draws import temperature_column


@torch.inference_mode()
def weigh(
    pair: Pair, instances: Iterable[Instance], options: WeightOptions, samples: range
) -> Iterator[Columns]:
    """Draw latents z ~ q_τ(z | x) and give log p(x, z) and log q_τ(z | x) of the numbered samples.

    Yields columns of schema ``log_weights``, and of `penalized_columns` of a model that has its own
    penalty, a block of samples of one instance at a time.
    """
    twice = [options.temperature] * 2  # what `score_temperatures` finds, bit for bit
    for instance in instances:
        for batch, numbers, latents in draw_latents(pair, instance, samples, options.temperature):
            found, log_p, log_q = score_latents(pair, batch, latents, twice)
            yield {
                **instance_columns(pair.model, batch, len(numbers)),
                "sample_id": numbers,
                "log_p": found.scatter(log_p),
                **pair.penalized_scores(batch, found, log_p),
                "log_q": found.scatter(log_q)[:, 0],
                "latent_hash": hash_latents(latents),
            }


@torch.inference_mode()
def score_temperatures(
    pair: Pair, instances: Iterable[Instance], options: LogQOptions, samples: range
) -> Iterator[Columns]:
    """Give log q at every temperature of the latents drawn at each of them: what mixtures need.

    They are drawn again by the streams of their weights, so that one more temperature leaves the
    weights of the others as they are; the hash of each shows that it is the latent that was
    weighed. Yields columns of schema ``log_q`` with those of `schemas.draws.temperature_columns`, a
    block of samples of one instance at one temperature at a time.
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


@torch.inference_mode()
def search(pair: Pair, instances: Iterable[Instance], options: BeamOptions) -> Iterator[Columns]:
    """Give log p(x, z) of the latents that a beam search under q ends with, schema ``beams``.

    The search is that of the largest beam; the others are its best, so that a bound never rises
    with the size. Yields one beam of one instance at a time.
    """
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        rows = pair.proposal.beam(batch, max(options.sizes))[0]  # (size, W)
        latents = rows[(rows != FILLING).any(1)]  # (k, W)
        found, log_p, log_q = score_latents(pair, batch, latents, [1.0])
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
