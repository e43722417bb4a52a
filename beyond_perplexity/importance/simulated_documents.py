"""Bidirectional Monte Carlo: log p of simulated documents, estimated from both sides.

A document that the model generated comes with its latents, (x, z) ~ p, so that z is a draw from
p(z | x). Among draws of a proposal it makes an estimate whose inverse is unbiased for 1/p(x): its
logarithm is on average not below log p(x), while that of draws alone is not above. What both leave
between them is the gap of a setting, which on real text cannot be told from what q misses (Grosse,
Ghahramani & Adams 2015, "Sandwiching the marginal likelihood using bidirectional Monte Carlo";
Grosse, Ancha & Roy 2016).

F runs, K samples or particles of one, W entries of a row of z, U random numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance import particle_runs
from beyond_perplexity.importance.draw_files import Columns
from beyond_perplexity.importance.model_pair import LatentRows, Pair, score_latents, weigh
from beyond_perplexity.importance.ways_to_draw import (
    BidirectionalOptions,
    SMCOptions,
    WeightOptions,
)
from beyond_perplexity.inference.log_space import log_half_means, log_mean_exp
from beyond_perplexity.inference.weight_diagnostics import NOT_OF_SAMPLES, diagnose
from beyond_perplexity.models.latent import Simulated
from beyond_perplexity.schemas.draws import BIDIRECTIONAL
from beyond_perplexity.vocabulary import Vocabulary

_PLAIN, _PARTICLES = "importance_sampling", "smc"  # values of the column `method`
_NUMBERS = [field.name for field in BIDIRECTIONAL if pa.types.is_floating(field.type)]


def generate_known(
    pair: Pair, numbers: range, options: BidirectionalOptions, vocabulary: Vocabulary
) -> list[Simulated]:
    """Generate documents with their latents, the same for all proposals of a model; none where the
    model cannot, which it says."""
    model = pair.purpose.partition("/")[0]
    purpose = f"importance/simulated/{model}"
    try:
        return pair.model.simulate(pair.seed, purpose, numbers, options.maximum_words, vocabulary)
    except InputError as error:
        warnings.warn(f"no documents are simulated: {error}", stacklevel=2)
        return []


@torch.inference_mode()
def estimate_simulated(
    pair: Pair,
    instances: Iterable[Simulated],
    options: BidirectionalOptions,
    runs: range = range(0),
) -> Iterator[Columns]:
    """Estimate log p of simulated documents from both sides, schema ``bidirectional``.

    Both sides are of `Pair.as_simulated`. Documents that were cut have no estimates, as z is no
    draw of p(z | x) given what is left of x, nor have those without a word. Which these are depends
    on x alone, so that z stays one of the others. The random numbers are keyed by the number of the
    document, its samples and runs and the temperature.
    """
    purpose = f"{pair.purpose}/bidirectional"
    pair = replace(pair.as_simulated(), purpose=purpose, unknown_types=None)
    smc = options.smc if runs and pair.is_sequential else None
    for document in instances:
        if document.truncated or not document.words:
            yield from _left_out(pair, document, options, runs)
            continue
        for temperature in options.grid:
            yield _by_samples(pair, document, temperature, sorted(options.sizes))
        if smc is not None:
            yield _by_particles(pair, document, smc, runs)


_DIAGNOSED = ("ess", "k_hat", "tail")
_OF_RUNS = ("log_likelihood", "ess_min")


def _rows(pair: Pair, document: Simulated, rows: int, **columns: Any) -> Columns:
    """Return columns of some rows: values of each, or one of all; numbers not given are NaN."""
    n_tokens = int(pair.model.n_tokens(pair.batch(document.instance))[0])
    common = {"instance_id": document.instance.instance_id, "n_tokens": n_tokens, "run": 0}
    whole = {**common, **dict.fromkeys(_NUMBERS, math.nan), **columns}
    return {name: np.broadcast_to(value, rows) for name, value in whole.items()}


def _left_out(
    pair: Pair, document: Simulated, options: BidirectionalOptions, runs: range
) -> Iterator[Columns]:
    """Give rows without estimates, so that it is known how many documents there were."""
    for temperature in options.grid:
        sizes = np.array(sorted(options.sizes), np.int32)
        held = {"method": _PLAIN, "temperature": temperature, "n_samples": sizes, "tail": "cut"}
        yield _rows(pair, document, len(sizes), **held)
    if runs and pair.is_sequential:
        held = {"method": _PARTICLES, "temperature": options.smc_temperature, "tail": "cut"}
        held |= {"n_samples": options.particles, "run": np.array(runs, np.int32)}
        yield _rows(pair, document, len(runs), **held)


@torch.inference_mode()
def log_weight(pair: Pair, document: Simulated, temperature: float) -> tuple[float, float]:
    """Return log p(x, z) − log q_τ(z | x) and log q_τ of a simulated document's z, nats, the first
    infinite where q cannot draw that z."""
    latents = document.latents[None].to(pair.model.device)  # (1, W)
    rows = LatentRows.of_one(pair.batch(document.instance), latents)
    found, log_p, log_q = score_latents(pair, rows, [temperature] * 2)  # as in `weigh`
    q = float(found.scatter(log_q)[0, 0])
    return float(found.scatter(log_p)[0]) - q, q


def _by_samples(pair: Pair, document: Simulated, temperature: float, sizes: list[int]) -> Columns:
    """Estimate from K samples, and from K − 1 of them and the given z, for each K."""
    blocks = weigh(pair, [document.instance], WeightOptions(temperature), range(sizes[-1]))
    log_w = np.concatenate([block["log_p"] - block["log_q"] for block in blocks])  # (K,)
    given, log_q = log_weight(pair, document, temperature)
    found = [diagnose(log_w[:size]) for size in sizes]
    halves = np.stack([log_half_means(log_w[:size]) for size in sizes], 1)  # (2, S)
    reverse = [
        np.inf if np.isposinf(given) else log_mean_exp(np.append(log_w[: size - 1], given))
        for size in sizes
    ]
    forward = np.array([log_mean_exp(log_w[:size]) for size in sizes])
    columns = {"method": _PLAIN, "temperature": temperature, "n_samples": np.array(sizes, np.int32)}
    columns |= {"log_forward": forward, "log_reverse": np.array(reverse), "log_q": log_q}
    columns |= {"log_first_half": halves[0], "log_second_half": halves[1]}
    columns |= {key: np.array([getattr(one, key) for one in found]) for key in _DIAGNOSED}
    return _rows(pair, document, len(sizes), **columns)


def _by_particles(pair: Pair, document: Simulated, options: SMCOptions, runs: range) -> Columns:
    """Estimate by runs of particles, and by runs of which one particle follows the given z."""
    blocks = list(particle_runs.run_smc(pair, [document.instance], options, runs))
    _, log_q = log_weight(pair, document, options.temperature)
    if np.isneginf(log_q):
        reverse = np.full(len(runs), np.inf)
    else:
        reverse = np.concatenate(list(_conditional_runs(pair, document, options, runs)))  # (F,)
    found = {key: np.concatenate([block[key] for block in blocks]) for key in _OF_RUNS}
    columns = {"method": _PARTICLES, "temperature": options.temperature, "tail": NOT_OF_SAMPLES}
    columns |= {"n_samples": options.particles, "run": np.array(runs, np.int32), "log_q": log_q}
    columns |= {"log_forward": found["log_likelihood"], "log_reverse": reverse}
    return _rows(pair, document, len(runs), ess=found["ess_min"], **columns)


def _conditional_runs(
    pair: Pair, document: Simulated, options: SMCOptions, wanted: range
) -> Iterator[np.ndarray]:
    """Yield log p̂ of blocks of runs that follow the given z, (F,)."""
    batch, device = pair.batch(document.instance), pair.model.device
    setting = particle_runs.FilterSetting.of(pair, batch, options)
    for runs, numbers in particle_runs.run_numbers(pair, "conditional", batch, options, wanted):
        held = document.latents.to(device).expand(len(runs), -1)  # (F, W)
        own = torch.zeros(len(runs), dtype=torch.int64, device=device)  # (F,)
        yield particle_runs.conditional_smc(setting, numbers, held, own).log_prob.cpu().numpy()
