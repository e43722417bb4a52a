"""The latents that a model believes in, and those of a proposal, against the annotation.

Under the posterior p(z | x) a mean is one over weighted samples: the particles of a run of
sequential Monte Carlo where the model goes word by word, with the weights that they end with, else
importance samples. Both are consistent, not unbiased; ``effective`` says how many of them count.

A run of particles also estimates p(x_1, ..., x_t) after each word t, so that log p̂(x) is exactly
the sum of what its words and its end add: those inside annotated mentions stand apart from the
others. K particles or samples, W entries of a row of z, T words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.importance.drawing.pair import Columns, Distinct, Pair, draw_latents
from beyond_perplexity.importance.drawing.smc import numbers_needed, smc_paths
from beyond_perplexity.importance.options import PosteriorOptions
from beyond_perplexity.importance.spans import (
    OF_TREES,
    SpanCounts,
    count_spans,
    entities_by_span,
    structure_of,
    words_inside,
)
from beyond_perplexity.instances.store import TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariance.uniforms import uniforms
from beyond_perplexity.models.latent import LatentModel

POSTERIOR_SOURCE, PROPOSAL_SOURCE = "posterior", "proposal"


class WeightedLatents(NamedTuple):
    """Samples of an instance's latents.

    Attributes
    ----------
    latents : Tensor
        int64, (K, W).
    shares : Tensor
        float64, (K,): weights that add up to 1; all 0 where p̂ is 0.
    prefixes : Tensor or None
        See `smc.ParticlePaths.prefixes`, (T + 1,).
    """

    latents: Tensor
    shares: Tensor
    prefixes: Tensor | None = None


def _shares(log_weights: Tensor) -> Tensor:
    """Normalize weights given by their logarithms, (K,)."""
    return log_weights.softmax(0).nan_to_num(0.0)


def _particles(pair: Pair, instance: Instance, options: PosteriorOptions) -> WeightedLatents:
    """Run one filter and give its particles."""
    model, proposal = cast(Any, pair.model), cast(Any, pair.proposal)
    batch = InstanceBatch.of([instance]).to(pair.model.device)
    purpose = f"{pair.purpose}/posterior/{options.temperature}/{instance.instance_id}"
    items, draws = torch.arange(options.samples + 1), numbers_needed(proposal, batch)
    numbers = uniforms(pair.seed, purpose, items, 0, draws, pair.model.device)[
        None
    ]  # (1, K + 1, U)
    found = smc_paths(model, proposal, batch, options.samples, numbers, options.temperature)
    return WeightedLatents(found.latents[0], _shares(found.log_weights[0]), found.prefixes[0])


def _samples(pair: Pair, instance: Instance, options: PosteriorOptions) -> Tensor:
    """Draw latents from the proposal, (K, W): the first ones of its importance samples."""
    blocks = draw_latents(pair, instance, range(options.samples), options.temperature)
    return torch.cat([latents for _, _, latents in blocks])


def _weighted(pair: Pair, instance: Instance, latents: Tensor, temperature: float) -> Tensor:
    """Weigh samples of the proposal: shares, (K,)."""
    batch = InstanceBatch.of([instance]).to(pair.model.device)
    found = Distinct.of(latents)
    log_p = pair.model.log_joint(batch, found.owner, found.latents)  # (N,)
    log_q = pair.proposal.log_prob(batch, found.owner, found.latents, [temperature] * 2)  # (N, 2)
    return _shares((log_p - log_q[:, 0])[found.places])


def expected_counts(
    model: LatentModel, instance: Instance, annotated: Mapping[str, Any], held: WeightedLatents
) -> np.ndarray:
    """Average what latents and annotation have in common.

    Parameters
    ----------
    model : LatentModel
    instance : Instance
    annotated : mapping
        Outline of its annotation.
    held : WeightedLatents

    Returns
    -------
    ndarray
        float64, (4,): means of the fields of `SpanCounts`; NaN where the instance has no annotation
        that the model could have, or p̂ is 0. Distinct latents are looked at once.
    """
    unknown = structure_of(annotated) == OF_TREES and not annotated["tree"]
    if unknown or not held.shares.any():
        return np.full(len(SpanCounts._fields), np.nan)
    truth = entities_by_span(annotated)
    unique, places = torch.unique(held.latents.cpu(), dim=0, return_inverse=True)  # (N, W), (K,)
    shares = np.bincount(places.numpy(), held.shares.cpu().numpy(), len(unique))  # (N,)
    counts = [count_spans(truth, entities_by_span(model.outline(instance, row))) for row in unique]
    means = shares @ np.array(counts, np.float64)  # (4,)
    return np.array([len(truth), *means[1:]])


def _decomposed(inside: np.ndarray | None, prefixes: Tensor | None) -> dict[str, float | None]:
    """Say what words inside mentions, (T,), and the end add to log p̂ of a run."""
    names = ("log_likelihood", "log_likelihood_inside", "log_likelihood_end")
    found: dict[str, float | None] = dict.fromkeys(names)
    if prefixes is None or not torch.isfinite(prefixes).all():
        return found
    added = np.diff(prefixes.cpu().numpy(), prepend=0.0)  # (T + 1,)
    found["log_likelihood"], found["log_likelihood_end"] = float(prefixes[-1]), float(added[-1])
    if inside is not None:
        found["log_likelihood_inside"] = float(added[:-1][inside].sum())
    return found


def _sources(
    pair: Pair, instance: Instance, options: PosteriorOptions
) -> Iterator[tuple[str, str, WeightedLatents]]:
    """Give latents of the posterior and of the proposal, after their source and method."""
    drawn = _samples(pair, instance, options)  # (K, W)
    if pair.is_sequential:
        yield POSTERIOR_SOURCE, "smc", _particles(pair, instance, options)
    else:
        shares = _weighted(pair, instance, drawn, options.temperature)
        yield POSTERIOR_SOURCE, "importance_sampling", WeightedLatents(drawn, shares)
    even = torch.full((len(drawn),), 1 / len(drawn), dtype=torch.float64)  # (K,)
    yield PROPOSAL_SOURCE, "samples", WeightedLatents(drawn, even)


@torch.inference_mode()
def compare_latents(
    pair: Pair, instances: Iterable[Instance], options: PosteriorOptions
) -> Iterator[Columns]:
    """Hold the latents of the posterior and of the proposal against the annotation.

    Parameters
    ----------
    pair : Pair
    instances : iterable of Instance
        With their annotation.
    options : PosteriorOptions

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``posterior``, the two rows of an instance at a time.
    """
    model, _, proposal = pair.purpose.partition("/")
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        words = len(instance.arrays[TOKENS])
        annotated = pair.model.outline(instance, pair.model.annotated(batch)[0].cpu())
        inside = words_inside(annotated, words)
        common = {
            "model": model,
            "proposal": proposal,
            "instance_id": instance.instance_id,
            "structure": structure_of(annotated),
            "n_words": words,
            "n_tokens": int(pair.model.n_tokens(batch)[0]),
            "n_inside": None if inside is None else int(inside.sum()),
        }
        rows = []
        for source, method, held in _sources(pair, instance, options):
            means = expected_counts(pair.model, instance, annotated, held)
            row = {"source": source, "method": method, "n_samples": len(held.latents)}
            row["effective"] = float(1 / max(held.shares.square().sum().item(), 1e-300))
            row |= dict(zip(SpanCounts._fields, means.tolist(), strict=True))
            rows.append(common | row | _decomposed(inside, held.prefixes))
        yield {name: np.array([row[name] for row in rows], object) for name in rows[0]}
