"""Sequential Monte Carlo estimates of p(x) for models that go through a text word by word.

Particles follow a proposal; the weight of each grows by p(x_t, z_t | past) / q(z_t | past). When
the effective sample size falls below a share of the particles, they are drawn anew in proportion to
their weights (systematic resampling) and all weigh the same again. The product of the mean weights
between the resamplings is an unbiased estimate of p(x) for any number of particles (Doucet &
Johansen 2011, "A tutorial on particle filtering and smoothing"), so its logarithm is on average
below log p(x).

With promises of how well particles go on (`word_by_word.Twisting`) they are drawn anew in
proportion to weight times promise, which is divided out of the new weights: unbiased for any
promise (Guarniero, Johansen & Lee 2017, "The iterated auxiliary particle filter"). A proposal whose
weights do not depend on what it draws (fully adapted; Pitt & Shephard 1999) promises that weight,
so that resampling comes before it draws.

F filters (each of one instance), F' of them that have not ended, K particles of a filter, T words
of the longest instance, C entries of a choice, W entries of a row of z.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity import invariant_tensors
from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import Columns
from beyond_perplexity.importance.model_pair import Pair, instance_columns
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.schemas.draws import penalized_column

PARTICLES_AT_ONCE = 1024  # particles of all runs at once, unless one run has more or the model says


class FilterSetting(NamedTuple):
    """What all filters share: model and proposal that go word by word, and K particles, drawn anew
    when fewer than a share of them are effective; 0: never."""

    model: Any
    proposal: Any
    batch: InstanceBatch
    particles: int
    temperature: float = 1.0  # τ of the proposal
    threshold: float = 0.5

    @classmethod
    def of(cls, pair: Pair, batch: InstanceBatch, options: SMCOptions) -> FilterSetting:
        """Run a pair with options."""
        chosen = options.particles, options.temperature, options.threshold
        return cls(pair.model, pair.proposal, batch, *chosen)


def _widened(choice: Tensor, width: int) -> Tensor:
    """Fill up the last axis of choices to a width."""
    return functional.pad(choice, (0, width - choice.shape[-1]), value=PADDING)


class Filters:
    """Filters on their way through the words of their instances, of `lengths`, int64, (F,).

    With `keeps`, `paths` are the choices that led to each particle, (F, K, T) or (F, K, T, C). One
    particle of each filter follows the choices `given`, (F, T) or (F, T, C), from the positions
    `kept`, (F,).
    """

    paths: Tensor | None = None
    given: Tensor | None = None
    kept: Tensor | None = None

    def __init__(
        self,
        setting: FilterSetting,
        numbers: Tensor,
        instances: Tensor | None,
        keeps: bool = False,
    ) -> None:
        self._setting, self._numbers, self._keeps = setting, numbers, keeps
        particles, batch, device = setting.particles, setting.batch, numbers.device
        if instances is None:
            instances = torch.arange(len(batch), device=device)  # (F,)
        self.lengths = batch.lengths[TOKENS][instances]  # (F,)
        self._own = torch.arange(particles, device=device)  # (K,)
        count, longest = len(self.lengths), int(self.lengths.max())
        self.effective = numbers.new_full((count, longest), math.nan)  # (F, T)
        self.prefixes = numbers.new_full((count, longest + 1), math.nan)  # (F, T + 1)
        self.log_probs = numbers.new_zeros(count)  # (F,)
        self.final = numbers.new_zeros(count, particles)  # (F, K)
        self._alive = torch.arange(count, device=device)  # (F',): filters that have not ended
        self._weights = numbers.new_zeros(count, particles)  # (F', K): logarithms
        owner = instances.repeat_interleave(particles)  # (F K,)
        self._followed = setting.proposal.start(batch, owner)
        self._state = setting.model.start(batch, owner)

    def run(self) -> Estimate:
        """Go through all words."""
        ends = set(self.lengths.tolist())
        for time in range(max(ends) + 1):
            if time in ends:
                self._end(time)
            if len(self._alive):
                self._resample(time)
                self._read(time)
        return Estimate(self.log_probs, self.effective)

    def _end(self, time: int) -> None:
        ended = self.lengths[self._alive] == time  # (F',)
        gone, weights = self._alive[ended], self._weights  # (E,), (F', K)
        finish = self._setting.model.finish(self._state, time).view_as(weights)  # (F', K)
        weights = (weights + finish)[ended]  # (E, K)
        self.effective[gone, time - 1] = invariant_tensors.effective_size(weights)
        self.final[gone] = weights + self.log_probs[gone, None]
        self.log_probs[gone] += weights.logsumexp(1) - math.log(len(self._own))
        self.prefixes[gone, time] = self.log_probs[gone]
        self._select(_rows((~ended).nonzero(), self._own))
        self._alive, self._weights = self._alive[~ended], self._weights[~ended]

    def _resample(self, time: int) -> None:
        """Draw anew, before a word, where few particles count."""
        if time == 0:
            return
        setting, alive = self._setting, self._alive
        promise = torch.zeros_like(self._weights)  # (F', K)
        if hasattr(setting.proposal, "log_twist"):
            promise = setting.proposal.log_twist(self._followed, time).view_as(promise)
        heights = self._weights + promise  # (F', K)
        sizes = invariant_tensors.effective_size(heights)  # (F',)
        self.effective[alive, time - 1] = sizes
        poor = (sizes < setting.threshold * setting.particles) & (sizes > 0)  # (F',)
        if not poor.any():
            return
        mean = heights.logsumexp(1) - math.log(setting.particles)  # (F',)
        self.log_probs[alive] += mean.masked_fill(~poor, 0.0)
        kept = torch.where(poor[:, None], self._drawn(heights, time, poor), self._own)  # (F', K)
        if self.paths is not None:
            self.paths[alive] = self.paths[alive[:, None], kept]
        positions = torch.arange(len(alive), device=alive.device)[:, None]  # (F', 1)
        self._select(_rows(positions, kept))
        # Also of those that are not poor nothing changes: their particles stay in their positions.
        again = -promise.gather(1, kept)  # (F', K)
        self._weights = torch.where(poor[:, None], again, self._weights)

    def _drawn(self, heights: Tensor, time: int, poor: Tensor) -> Tensor:
        """Return the particles that go on, (F', K); of meaning where `poor`."""
        number = self._numbers[self._alive, self._setting.particles, time - 1]  # (F',)
        if self.kept is None:
            return invariant_tensors.systematic(heights, number)
        before = self.kept[self._alive]  # (F',)
        chosen, position = invariant_tensors.conditional_systematic(heights, number, before)
        self.kept[self._alive] = torch.where(poor, position, before)
        return chosen

    def _read(self, time: int) -> None:
        """Choose for a word, and read it."""
        setting, proposal = self._setting, self._setting.proposal
        columns = slice(time * proposal.word_draws, (time + 1) * proposal.word_draws)
        drawn_by = self._numbers[self._alive, : setting.particles, columns].flatten(0, 1)
        before = self._followed
        if self.given is not None:  # a state may be overwritten, and this one is used twice
            before = before.select(torch.arange(len(drawn_by), device=drawn_by.device))
        choice, log_q, followed = proposal.propose(before, time, drawn_by, setting.temperature)
        if self.given is not None and self.kept is not None:
            choice = self._with_given(time, choice, self.given, self.kept)
            log_q, followed = proposal.follow(self._followed, time, choice, setting.temperature)
        log_p, self._state = setting.model.extend(self._state, time, choice)
        self._followed = followed
        self._weights = self._weights + (log_p - log_q).view_as(self._weights)  # (F', K)
        if self._keeps:
            self._extend_paths(choice)
            mean = self._weights.logsumexp(1) - math.log(len(self._own))  # (F',)
            self.prefixes[self._alive, time] = self.log_probs[self._alive] + mean

    def _extend_paths(self, choice: Tensor) -> None:
        """Add the choices of a word, (F' K,) or (F' K, C), to the paths."""
        held = choice.unflatten(0, (len(self._alive), -1, 1))  # (F', K, 1, ...)
        column = held.new_full((*self.final.shape, *held.shape[2:]), PADDING)  # (F, K, 1, ...)
        column = column.index_copy(0, self._alive, held)
        parts = [column] if self.paths is None else [self.paths, column]
        if choice.ndim > 1:
            width = max(part.shape[3] for part in parts)
            parts = [_widened(part, width) for part in parts]
        self.paths = torch.cat(parts, 2)

    def _with_given(self, time: int, choice: Tensor, given: Tensor, kept: Tensor) -> Tensor:
        """Return the choices of a word, (F' K,) or (F' K, C), one of each filter as given."""
        own = given[self._alive, time]  # (F',) or (F', C)
        if choice.ndim > 1:
            width = max(choice.shape[1], own.shape[1])
            choice, own = _widened(choice, width), _widened(own, width)
        positions = torch.arange(len(self._alive), device=choice.device)  # (F',)
        return choice.index_copy(0, positions * self._setting.particles + kept[self._alive], own)

    def _select(self, rows: Tensor) -> None:
        self._followed, self._state = self._followed.select(rows), self._state.select(rows)


def _rows(filters: Tensor, positions: Tensor) -> Tensor:
    """Return the rows of positions, (F', K) or (K,), of filters, (F', 1)."""
    return (filters * positions.shape[-1] + positions).flatten()


class Estimate(NamedTuple):
    """Of each filter log p̂(x), nats, float64, (F,), and how many particles counted, (F, T).

    `effective` is (Σ w)² / Σ w² after each word, of weights times promises, before any resampling
    there; of the last word, after which there is none, after the end. NaN after that.
    """

    log_prob: Tensor
    effective: Tensor


class ParticlePaths(NamedTuple):
    """The particles at the end: rows of z, int64, (F, K, W), those of one ancestor beginning alike.

    The mean of the weights, given by their logarithms, nats, float64, (F, K), is p̂(x); over their
    sum, they are those of an average over p(z | x). `prefixes`, nats, float64, (F, T + 1), has log
    p̂(x_1, ..., x_t) after each word, as unbiased, after the last log p̂(x), and NaN after that.
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

    Of the numbers, float64 in [0, 1), (F, K + 1, at least `numbers_needed`), row k drives particle
    k as in ``proposal.sample``; of the last row, number t the resampling after word t. `instances`,
    int64, (F,), are their positions in the batch; by default one filter each.
    """
    return Filters(setting, numbers, instances).run()


@torch.no_grad()
def smc_paths(
    setting: FilterSetting, numbers: Tensor, instances: Tensor | None = None
) -> ParticlePaths:
    """Estimate as `smc_log_prob` does, and give the latents of the particles with their weights."""
    filters = Filters(setting, numbers, instances, keeps=True)
    estimate = filters.run()
    assert filters.paths is not None
    lengths = filters.lengths.repeat_interleave(setting.particles)  # (F K,)
    join = getattr(setting.model, "join_choices", lambda choices, _: choices)
    latents = join(filters.paths.flatten(0, 1), lengths)  # (F K, W)
    held = latents.unflatten(0, filters.final.shape)  # (F, K, W)
    return ParticlePaths(held, filters.final, estimate, filters.prefixes)


@torch.no_grad()
def conditional_smc(
    setting: FilterSetting, numbers: Tensor, latents: Tensor, instances: Tensor | None = None
) -> Estimate:
    """Run filters of which one particle each follows a given, possible row of z, int64, (F, W).

    If that row is a draw from p(z | x), as that of a simulated (x, z) is, the mean of 1 / p̂(x) is
    1 / p(x) (Andrieu, Doucet & Holenstein 2010; Grosse, Ancha & Roy 2016), so that log p̂(x) is on
    average above log p(x). Its position after a resampling is drawn from what the others leave; of
    the last row of numbers, the one of the last word draws the first position. See `smc_log_prob`.
    """
    filters, particles = Filters(setting, numbers, instances), setting.particles
    split = getattr(setting.model, "split_latents", None)
    filters.given = split(latents, filters.lengths) if split else latents  # (F, T) or (F, T, C)
    last = numbers[:, particles].gather(1, filters.lengths[:, None] - 1)[:, 0]  # (F,)
    filters.kept = (particles * last).long()  # (F,)
    return filters.run()


def numbers_needed(proposal: Any, batch: InstanceBatch) -> int:
    """Return U, how many numbers a particle, and the resampling, of any instance needs at most."""
    return max(1, proposal.word_draws) * batch.tokens.shape[1]


def run_numbers(
    pair: Pair, purpose: str, batch: InstanceBatch, options: SMCOptions, wanted: range
) -> Iterator[tuple[range, Tensor]]:
    """Draw the numbers of runs on the one instance of a batch, F runs at a time: float64 in [0, 1),
    (F, K + 1, U), keyed by purpose, run, instance and temperature."""
    most = getattr(pair.model, "particles_at_once", PARTICLES_AT_ONCE)
    block, rows = max(1, most // options.particles), options.particles + 1
    key = f"{pair.purpose}/{purpose}/{float(options.temperature)}/{int(batch.ids[0])}"
    draws = numbers_needed(pair.proposal, batch)
    for first in range(wanted.start, wanted.stop, block):
        runs = range(first, min(first + block, wanted.stop))
        items = torch.arange(runs.start * rows, runs.stop * rows)  # (F (K + 1),)
        # (F (K + 1), U)
        numbers = invariant_tensors.uniforms(pair.seed, key, items, 0, draws, pair.model.device)
        yield runs, numbers.view(len(runs), rows, draws)


@torch.inference_mode()
def run_smc(
    pair: Pair, instances: Iterable[Instance], options: SMCOptions, runs: range
) -> Iterator[Columns]:
    """Estimate p(x) of each instance by numbered, independent runs: columns of schemas ``smc`` and
    `penalized_columns`, a block of runs of an instance at a time."""
    if not pair.is_sequential:
        raise InputError("the model cannot be scored word by word; use importance sampling")
    penalized = pair.penalized()
    for instance in instances:
        batch = pair.batch(instance)
        for some, numbers in run_numbers(pair, "smc", batch, options, runs):
            columns = instance_columns(pair.model, batch, torch.zeros(len(some), dtype=torch.int64))
            columns |= {"run": np.array(some, dtype=np.int32)}
            columns |= {"n_particles": np.full(len(some), options.particles, np.int32)}
            columns |= _estimates(pair, batch, numbers, options)
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
