"""Sequential Monte Carlo estimates of p(x) for models that go through a text word by word.

Particles follow a proposal; the weight of each grows by p(x_t, z_t | past) / q(z_t | past). When
the effective sample size falls below a share of the particles, they are drawn anew in proportion to
their weights (systematic resampling) and all weigh the same again. The product of the mean weights
between the resamplings is an unbiased estimate of p(x) for any number of particles (Doucet &
Johansen 2011, "A tutorial on particle filtering and smoothing"), so its logarithm is on average
below log p(x). Plain importance sampling is the case without resampling.

B instances, F filters (each of one instance), K particles of a filter, T words of the longest
instance, D numbers of a word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.drawing.pair import Columns, Pair, instance_columns
from beyond_perplexity.importance.options import SMCOptions
from beyond_perplexity.instances.store import TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariance.uniforms import uniforms

PARTICLES_AT_ONCE = 1024  # particles of all runs at once, unless one run has more


class ParticleState(Protocol):
    """What particles have done so far."""

    def select(self, rows: Tensor) -> Self:
        """Return the state whose row i is row ``rows[i]`` of this one."""


_P = TypeVar("_P", bound=ParticleState)
_Q = TypeVar("_Q", bound=ParticleState)


class SequentialProposal(Protocol[_Q]):
    """A proposal that can choose word by word."""

    word_draws: int

    def start(self, batch: InstanceBatch, owner: Tensor) -> _Q:
        """Return the state of particles, (K,), of the instances in those places of the batch."""

    def propose(
        self, state: _Q, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, _Q]:
        """Draw z of a word with the numbers (K, D): z, int64, (K,); log q, (K,); the new state."""


class SequentialModel(Protocol[_P]):
    """A model that can be scored word by word."""

    def start(self, batch: InstanceBatch, owner: Tensor) -> _P:
        """Return the state of particles, (K,), of the instances in those places of the batch."""

    def extend(self, state: _P, time: int, choice: Tensor) -> tuple[Tensor, _P]:
        """Return log p(x_t, z_t | past), float64, (K,), and the new state."""

    def finish(self, state: _P, time: int) -> Tensor:
        """Return log p of the end after `time` words, float64, (K,).

        Only particles count whose instance ends there.
        """


class Estimate(NamedTuple):
    """What `smc_log_prob` finds.

    Attributes
    ----------
    log_prob : Tensor
        Nats, float64, (F,): log p̂(x).
    effective : Tensor
        float64, (F, T + 1): (Σ w)² / Σ w² after each word and, in the place after the last word,
        after the end; before any resampling there; NaN after that.
    """

    log_prob: Tensor
    effective: Tensor


@torch.no_grad()
def smc_log_prob(
    model: SequentialModel[_P],
    proposal: SequentialProposal[_Q],
    batch: InstanceBatch,
    particles: int,
    numbers: Tensor,
    temperature: float = 1.0,
    threshold: float = 0.5,
    instances: Tensor | None = None,
) -> Estimate:
    """Estimate p(x) of the instances of a batch, once for each filter.

    Parameters
    ----------
    model, proposal
        See the protocols.
    batch : InstanceBatch
    particles : int
        K.
    numbers : Tensor
        float64 in [0, 1), (F, K + 1, U): row k drives particle k as in ``proposal.sample``; of the
        last row, number t drives the resampling after word t.
    temperature : float
        τ of the proposal.
    threshold : float
        Resample when the effective sample size is below this share of K; 0: never.
    instances : Tensor, optional
        int64, (F,): place in the batch of each filter's instance; by default one filter each.

    Returns
    -------
    Estimate
        What a filter finds does not depend on the others.
    """
    device = numbers.device
    if instances is None:
        instances = torch.arange(len(batch), device=device)  # (F,)
    lengths = batch.lengths[TOKENS][instances]  # (F,)
    ends = set(lengths.tolist())
    longest, own = int(lengths.max()), torch.arange(particles, device=device)  # (K,)
    effective = numbers.new_full((len(lengths), longest + 1), math.nan)  # (F, T + 1)
    log_probs = numbers.new_zeros(len(lengths))  # (F,)
    alive = torch.arange(len(lengths), device=device)  # (F',): filters that have not ended
    weights = numbers.new_zeros(len(lengths), particles)  # (F', K): logarithms
    owner = instances.repeat_interleave(particles)  # (F K,)
    followed, state = proposal.start(batch, owner), model.start(batch, owner)
    for time in range(longest + 1):
        if time in ends:
            ended = lengths[alive] == time  # (F',)
            final = (weights + model.finish(state, time).view_as(weights))[ended]  # (E, K)
            effective[alive[ended], time] = effective_size(final)
            log_probs[alive[ended]] += final.logsumexp(1) - math.log(particles)
            rows = _rows((~ended).nonzero(), own)  # ((F' − E) K,)
            followed, state = followed.select(rows), state.select(rows)
            alive, weights = alive[~ended], weights[~ended]
        if time == longest:
            break
        first = time * proposal.word_draws
        drawn_by = numbers[alive, :particles, first : first + proposal.word_draws]  # (F', K, D)
        drawn = proposal.propose(followed, time, drawn_by.flatten(0, 1), temperature)
        choice, log_q, followed = drawn
        log_p, state = model.extend(state, time, choice)
        weights = weights + (log_p - log_q).view_as(weights)  # (F', K)
        sizes = effective_size(weights)  # (F',)
        effective[alive, time] = sizes
        poor = (sizes < threshold * particles) & (sizes > 0)  # (F',): the dead stay dead
        if poor.any():
            mean = weights.logsumexp(1) - math.log(particles)  # (F',)
            log_probs[alive] += mean.masked_fill(~poor, 0.0)
            drawn_anew = systematic(weights, numbers[alive, particles, time])  # (F', K)
            kept = torch.where(poor[:, None], drawn_anew, own)  # (F', K)
            rows = _rows(torch.arange(len(alive), device=device)[:, None], kept)
            followed, state = followed.select(rows), state.select(rows)
            weights = weights.masked_fill(poor[:, None], 0.0)
    return Estimate(log_probs, effective)


def _rows(filters: Tensor, places: Tensor) -> Tensor:
    """Return the rows of places, (F', K) or (K,), of filters, (F', 1)."""
    return (filters * places.shape[-1] + places).flatten()


def effective_size(weights: Tensor) -> Tensor:
    """Return (Σ w)² / Σ w², (B,), of weights given by their logarithms, float64, (B, K).

    0 where all weights are 0.
    """
    total = weights.logsumexp(1)  # (B,)
    found = (2 * total - (2 * weights).logsumexp(1)).exp()  # (B,)
    return found.masked_fill(total == -math.inf, 0.0)


def systematic(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Resample: place k goes to the particle at (k + u) / K of the cumulated weights.

    Parameters
    ----------
    weights : Tensor
        float64, (B, K): logarithms, not all of a row −inf.
    uniforms : Tensor
        float64, (B,): u in [0, 1).

    Returns
    -------
    Tensor
        int64, (B, K), rising. A particle with share w of all weights is in it K w times on average,
        and either ⌊K w⌋ or ⌈K w⌉ times.
    """
    heights = weights.softmax(1).cumsum(1)  # (B, K)
    own = torch.arange(weights.shape[1], device=weights.device)  # (K,)
    marks = (own + uniforms[:, None]) / len(own) * heights[:, -1:]  # (B, K)
    last = (own * (weights > -math.inf)).amax(1, keepdim=True)  # (B, 1)
    return torch.minimum(torch.searchsorted(heights, marks, right=True), last)


@torch.inference_mode()
def run_smc(pair: Pair, instances: Iterable[Instance], options: SMCOptions) -> Iterator[Columns]:
    """Estimate p(x) of each instance by runs that are independent of each other.

    Parameters
    ----------
    pair : Pair
        A `SequentialModel` and a `SequentialProposal`.
    instances : iterable of Instance
    options : SMCOptions

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``smc``, a block of runs of an instance at a time. The random
        numbers of a run are keyed by its number, the instance and the temperature.

    Raises
    ------
    InputError
        When the model cannot be scored word by word.
    """
    model, proposal = cast(Any, pair.model), cast(Any, pair.proposal)
    if not hasattr(model, "extend") or not hasattr(proposal, "propose"):
        raise InputError("the model cannot be scored word by word; use importance sampling")
    particles, device = options.particles, pair.model.device
    block = max(1, PARTICLES_AT_ONCE // particles)
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(device)
        purpose = f"{pair.purpose}/smc/{float(options.temperature)}/{instance.instance_id}"
        draws = pair.proposal.draws(batch)
        for first in range(0, options.runs, block):
            runs = range(first, min(first + block, options.runs))  # F of them
            rows = [run * (particles + 1) for run in (runs.start, runs.stop)]
            items = torch.arange(*rows)  # (F (K + 1),)
            numbers = uniforms(pair.seed, purpose, items, 0, draws, device)
            numbers = numbers.view(len(runs), particles + 1, draws)  # (F, K + 1, U)
            own = torch.zeros(len(runs), dtype=torch.int64, device=device)  # (F,)
            found = smc_log_prob(
                model, proposal, batch, particles, numbers, options.temperature, instances=own
            )
            smallest = found.effective.nan_to_num(math.inf).amin(1)  # (F,)
            yield {
                **instance_columns(pair.model, batch, len(runs)),
                "run": np.array(runs, dtype=np.int32),
                "n_particles": np.full(len(runs), particles, np.int32),
                "log_likelihood": found.log_prob.cpu().numpy(),
                "ess_min": smallest.cpu().numpy(),
            }
