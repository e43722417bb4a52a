"""Sequential Monte Carlo estimates of p(x) for models that go through a text word by word.

Particles follow a proposal; the weight of each grows by p(x_t, z_t | past) / q(z_t | past). When
the effective sample size falls below a share of the particles, they are drawn anew in proportion to
their weights (systematic resampling) and all weigh the same again. The product of the mean weights
between the resamplings is an unbiased estimate of p(x) for any number of particles (Doucet &
Johansen 2011, "A tutorial on particle filtering and smoothing"), so its logarithm is on average
below log p(x). Plain importance sampling is the case without resampling.

A proposal may also say how well a particle promises to go on (`Twisting`). Particles are then drawn
anew in proportion to weight times promise, and the promise is divided out of their new weights: the
estimate is unbiased for any promise (Guarniero, Johansen & Lee 2017, "The iterated auxiliary
particle filter"). A proposal whose weights do not depend on what it draws (fully adapted; Pitt &
Shephard 1999) promises that weight, so that resampling comes before it draws.

B instances, F filters (each of one instance), K particles of a filter, T words of the longest
instance, D numbers of a word, C entries of a choice, W entries of a row of z.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.model_pair import Columns, Pair, instance_columns
from beyond_perplexity.importance.particle_filters import Filters, FilterSetting, History, join_rows
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.invariant_tensors import uniforms
from beyond_perplexity.schemas.draws import penalized_column

PARTICLES_AT_ONCE = 1024  # particles of all runs at once, unless one run has more or the model says


class ParticleState(Protocol):
    """What particles have done so far."""

    def select(self, rows: Tensor) -> Self:
        """Return the state whose row i is row ``rows[i]`` of this one."""


_P = TypeVar("_P", bound=ParticleState)
_Q = TypeVar("_Q", bound=ParticleState)
_Read = TypeVar("_Read", bound=ParticleState, contravariant=True)


class SequentialProposal(Protocol[_Q]):
    """A proposal that can choose word by word.

    A choice is what belongs to one word: int64, (K,), or (K, C) filled up with `FILLING`.
    """

    word_draws: int

    def start(self, batch: InstanceBatch, owner: Tensor) -> _Q:
        """Return the state of particles, (K,), of the instances in those places of the batch."""

    def propose(
        self, state: _Q, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, _Q]:
        """Draw z of a word with the numbers (K, D): the choice; log q, (K,); the new state."""

    def follow(self, state: _Q, time: int, choice: Tensor, temperature: float) -> tuple[Tensor, _Q]:
        """Take given choices of a word: log q, float64, (K,); the new state."""


class Twisting(Protocol[_Read]):
    """What a `SequentialProposal` may have besides."""

    def log_twist(self, state: _Read, time: int) -> Tensor:
        """Return log of what particles promise, float64, (K,), before they choose for a word.

        The ideal is log p(x_t, x_{t+1}, ... | past). It must not be −inf where these are possible.
        """


class SequentialModel(Protocol[_P]):
    """A model that can be scored word by word.

    Where the choices of the words are not the entries of a row of z themselves, it has
    ``join_choices(choices, lengths)``, which makes rows of z, int64, (R, W), of choices, int64, (R,
    T) or (R, T, C), of rows of those lengths, (R,); and its inverse ``split_latents(latents,
    lengths)``. Where the states of particles are small it has ``particles_at_once``.
    """

    def start(self, batch: InstanceBatch, owner: Tensor) -> _P:
        """Return the state of particles, (K,), of the instances in those places of the batch."""

    def extend(self, state: _P, time: int, choice: Tensor) -> tuple[Tensor, _P]:
        """Return log p(x_t, z_t | past), float64, (K,), and the new state."""

    def finish(self, state: _P, time: int) -> Tensor:
        """Return log p of the end after `time` words, (K,), which counts where an instance ends."""


class Estimate(NamedTuple):
    """Of each filter log p̂(x), nats, float64, (F,), and how many particles counted, (F, T).

    `effective` is (Σ w)² / Σ w² after each word, of weights times promises, before any resampling
    there; of the last word, after which there is none, after the end. NaN after that.
    """

    log_prob: Tensor
    effective: Tensor


class ParticlePaths(NamedTuple):
    """The particles at the end.

    `latents`, int64, (F, K, W), are rows of z; particles of one ancestor begin alike. The mean of
    the weights, given by their logarithms, nats, float64, (F, K), is p̂(x); divided by their sum,
    they are those of an average over p(z | x). `prefixes`, nats, float64, (F, T + 1), has log
    p̂(x_1, ..., x_t) after each word, p̂ being as unbiased there; in the place after the last word
    log p̂(x), and NaN after that.
    """

    latents: Tensor
    log_weights: Tensor
    estimate: Estimate
    prefixes: Tensor


@torch.no_grad()
def smc_log_prob(
    setting: FilterSetting, numbers: Tensor, instances: Tensor | None = None
) -> Estimate:
    """Estimate p(x) of the instances of a batch, once for each filter, whatever the others find.

    Parameters
    ----------
    setting : FilterSetting
    numbers : Tensor
        float64 in [0, 1), (F, K + 1, at least `numbers_needed`): row k drives particle k as in
        ``proposal.sample``; of the last row, number t drives the resampling after word t.
    instances : Tensor, optional
        int64, (F,): place in the batch of each filter's instance; by default one filter each.
    """
    filters = Filters(setting, numbers, instances)
    filters.run()
    return Estimate(filters.log_probs, filters.effective)


@torch.no_grad()
def smc_paths(
    setting: FilterSetting, numbers: Tensor, instances: Tensor | None = None
) -> ParticlePaths:
    """Estimate as `smc_log_prob` does, and give the latents of the particles with their weights."""
    filters, particles = Filters(setting, numbers, instances), setting.particles
    filters.history = History(len(filters.lengths), particles, int(filters.lengths.max()))
    filters.run()
    choices = filters.history.paths()  # (F, K, T) or (F, K, T, C)
    lengths = filters.lengths.repeat_interleave(particles)  # (F K,)
    latents = join_rows(setting.model, choices.flatten(0, 1), lengths)  # (F K, W)
    held = latents.unflatten(0, choices.shape[:2])  # (F, K, W)
    estimate = Estimate(filters.log_probs, filters.effective)
    return ParticlePaths(held, filters.final, estimate, filters.prefixes)


@torch.no_grad()
def conditional_smc(
    setting: FilterSetting, numbers: Tensor, latents: Tensor, instances: Tensor | None = None
) -> Estimate:
    """Run filters of which one particle each follows a given, possible row of z, int64, (F, W).

    If that row is a draw from p(z | x), as that of a simulated (x, z) is, the mean of 1 / p̂(x) is
    1 / p(x) (Andrieu, Doucet & Holenstein 2010; Grosse, Ancha & Roy 2016), so that log p̂(x) is on
    average above log p(x). At what place the particle begins, and goes on after a resampling, is
    drawn from what the other places leave; of the last row of numbers, the one of the last word
    draws the place that it begins at. The other parameters are those of `smc_log_prob`.
    """
    filters, particles = Filters(setting, numbers, instances), setting.particles
    split = getattr(setting.model, "split_latents", None)
    filters.given = split(latents, filters.lengths) if split else latents  # (F, T) or (F, T, C)
    last = numbers[:, particles].gather(1, filters.lengths[:, None] - 1)[:, 0]  # (F,)
    filters.kept = (particles * last).long()  # (F,)
    filters.run()
    return Estimate(filters.log_probs, filters.effective)


def numbers_needed(proposal: Any, batch: InstanceBatch) -> int:
    """Return U, how many numbers a particle, and the resampling, of any instance needs at most."""
    return max(1, proposal.word_draws) * batch.tokens.shape[1]


def run_numbers(
    pair: Pair, purpose: str, batch: InstanceBatch, options: SMCOptions, wanted: range
) -> Iterator[tuple[range, Tensor]]:
    """Draw the numbers of runs on the one instance of a batch, a block of F runs at a time.

    They are float64 in [0, 1), (F, K + 1, U), keyed by the purpose, the run, the instance and the
    temperature.
    """
    most = getattr(pair.model, "particles_at_once", PARTICLES_AT_ONCE)
    block, rows = max(1, most // options.particles), options.particles + 1
    key = f"{pair.purpose}/{purpose}/{float(options.temperature)}/{int(batch.ids[0])}"
    draws = numbers_needed(pair.proposal, batch)
    for first in range(wanted.start, wanted.stop, block):
        runs = range(first, min(first + block, wanted.stop))
        items = torch.arange(runs.start * rows, runs.stop * rows)  # (F (K + 1),)
        numbers = uniforms(pair.seed, key, items, 0, draws, pair.model.device)  # (F (K + 1), U)
        yield runs, numbers.view(len(runs), rows, draws)


@torch.inference_mode()
def run_smc(
    pair: Pair, instances: Iterable[Instance], options: SMCOptions, runs: range
) -> Iterator[Columns]:
    """Estimate p(x) of each instance by numbered runs that are independent of each other.

    Yields columns of schema ``smc``, and of `penalized_columns` of a model that has its own
    penalty, a block of runs of an instance at a time.
    """
    if not pair.is_sequential:
        raise InputError("the model cannot be scored word by word; use importance sampling")
    penalized = pair.penalized()
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        for some, numbers in run_numbers(pair, "smc", batch, options, runs):
            columns = {
                **instance_columns(pair.model, batch, len(some)),
                "run": np.array(some, dtype=np.int32),
                "n_particles": np.full(len(some), options.particles, np.int32),
                **_estimates(pair, batch, numbers, options),
            }
            if penalized is not None:  # what is improbable then is other z, so other particles
                other = _estimates(penalized, batch, numbers, options)
                columns |= {penalized_column(name): values for name, values in other.items()}
            yield columns


def _estimates(
    pair: Pair, batch: InstanceBatch, numbers: Tensor, options: SMCOptions
) -> dict[str, np.ndarray]:
    """Run filters of the one instance of a batch, with numbers (F, K + 1, U)."""
    own = torch.zeros(len(numbers), dtype=torch.int64, device=numbers.device)  # (F,)
    found = smc_log_prob(FilterSetting.of(pair, batch, options), numbers, own)
    smallest = found.effective.nan_to_num(math.inf).amin(1)  # (F,)
    return {"log_likelihood": found.log_prob.cpu().numpy(), "ess_min": smallest.cpu().numpy()}
