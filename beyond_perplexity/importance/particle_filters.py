"""Particle filters on their way through the words of their instances; see `particle_runs`.

F filters (each of one instance), F' of them that have not ended, K particles of a filter, T words
of the longest instance, C entries of a choice, W entries of a row of z.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.invariant_tensors import conditional_systematic, effective_size, systematic
from beyond_perplexity.models.latent import FILLING


class FilterSetting(NamedTuple):
    """What all filters have in common.

    The model and the proposal go word by word (`SequentialModel`, `SequentialProposal`). There are
    K particles, drawn anew when the effective ones are less than that share of them; 0: never.
    """

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


class History:
    """The choices of the particles and their ancestors: F filters, K particles, T words."""

    def __init__(self, filters: int, particles: int, longest: int) -> None:
        self._shape = (filters, particles)
        self._longest = longest
        self._choices: list[Tensor] = []  # (F, K) or (F, K, C) each
        self._ancestors: dict[int, Tensor] = {}  # (F, K), by the word before which they were drawn

    def chosen(self, alive: Tensor, choice: Tensor) -> None:
        """Note the choices of a word, (F' K,) or (F' K, C)."""
        held = choice.unflatten(0, (len(alive), -1))  # (F', K, ...)
        whole = held.new_full((*self._shape, *held.shape[2:]), FILLING)  # (F, K, ...)
        self._choices.append(whole.index_copy(0, alive, held))

    def drawn(self, time: int, alive: Tensor, kept: Tensor) -> None:
        """Note which particles, (F', K), go on before a word."""
        own = torch.arange(self._shape[1], device=kept.device).repeat(self._shape[0], 1)  # (F, K)
        self._ancestors[time] = own.index_copy(0, alive, kept)

    def paths(self) -> Tensor:
        """Return the choices that led to each last particle, (F, K, T) or (F, K, T, C)."""
        place = torch.arange(self._shape[1], device=self._choices[0].device)
        place = place.repeat(self._shape[0], 1)  # (F, K)
        filters = torch.arange(self._shape[0], device=place.device)[:, None]  # (F, 1)
        found: list[Tensor] = []
        for time in reversed(range(self._longest)):
            found.append(self._choices[time][filters, place])  # (F, K, ...)
            if time in self._ancestors:
                place = self._ancestors[time].gather(1, place)  # (F, K)
        if found[0].ndim > 2:
            widest = max(one.shape[2] for one in found)
            found = [_widened(one, widest) for one in found]
        return torch.stack(found[::-1], 2)


def _widened(choice: Tensor, width: int) -> Tensor:
    """Fill up the last axis of choices to a width."""
    return functional.pad(choice, (0, width - choice.shape[-1]), value=FILLING)


def join_rows(model: Any, choices: Tensor, lengths: Tensor) -> Tensor:
    """Make rows of z of choices, (R, T) or (R, T, C)."""
    join = getattr(model, "join_choices", None)
    latents: Tensor = join(choices, lengths) if join else choices  # (R, W)
    return latents


class Filters:
    """Filters on their way through the words of their instances, of `lengths`, int64, (F,).

    `log_probs` and `effective` are those of `particle_runs.Estimate`, `final` and `prefixes` those
    of `ParticlePaths`; a `history`, where it is set, has the paths. One particle of each filter
    follows the choices `given`, (F, T) or (F, T, C), from the places `kept`, (F,).
    """

    def __init__(self, setting: FilterSetting, numbers: Tensor, instances: Tensor | None) -> None:
        self._setting, self._numbers = setting, numbers
        particles, batch, device = setting.particles, setting.batch, numbers.device
        self.history: History | None = None
        self.given: Tensor | None = None
        self.kept: Tensor | None = None
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

    def run(self) -> None:
        """Go through all words."""
        ends = set(self.lengths.tolist())
        for time in range(max(ends) + 1):
            if time in ends:
                self._end(time)
            if len(self._alive):
                self._resample(time)
                self._read(time)

    def _end(self, time: int) -> None:
        ended = self.lengths[self._alive] == time  # (F',)
        gone, weights = self._alive[ended], self._weights  # (E,), (F', K)
        finish = self._setting.model.finish(self._state, time).view_as(weights)  # (F', K)
        weights = (weights + finish)[ended]  # (E, K)
        self.effective[gone, time - 1] = effective_size(weights)
        self.final[gone] = weights + self.log_probs[gone, None]
        self.log_probs[gone] += weights.logsumexp(1) - math.log(len(self._own))
        self.prefixes[gone, time] = self.log_probs[gone]
        self._select(_rows((~ended).nonzero(), self._own))
        self._alive, self._weights = self._alive[~ended], self._weights[~ended]

    def _resample(self, time: int) -> None:
        """Draw anew, before a word, where few particles count."""
        setting, alive = self._setting, self._alive
        twist = getattr(setting.proposal, "log_twist", None)
        if time == 0:
            return
        promise = torch.zeros_like(self._weights)  # (F', K)
        if twist is not None:
            promise = twist(self._followed, time).view_as(promise)  # (F', K)
        heights = self._weights + promise  # (F', K)
        sizes = effective_size(heights)  # (F',)
        self.effective[alive, time - 1] = sizes
        poor = (sizes < setting.threshold * setting.particles) & (sizes > 0)  # (F',)
        if not poor.any():
            return
        mean = heights.logsumexp(1) - math.log(setting.particles)  # (F',)
        self.log_probs[alive] += mean.masked_fill(~poor, 0.0)
        kept = torch.where(poor[:, None], self._drawn(heights, time, poor), self._own)  # (F', K)
        if self.history is not None:
            self.history.drawn(time, alive, kept)
        places = torch.arange(len(alive), device=alive.device)[:, None]  # (F', 1)
        self._select(_rows(places, kept))
        # Also of those that are not poor nothing changes: their particles stay in their places.
        again = -promise.gather(1, kept)  # (F', K)
        self._weights = torch.where(poor[:, None], again, self._weights)

    def _drawn(self, heights: Tensor, time: int, poor: Tensor) -> Tensor:
        """Return the particles that go on, (F', K); of meaning where `poor`."""
        number = self._numbers[self._alive, self._setting.particles, time - 1]  # (F',)
        if self.kept is None:
            return systematic(heights, number)
        before = self.kept[self._alive]  # (F',)
        chosen, place = conditional_systematic(heights, number, before)
        self.kept[self._alive] = torch.where(poor, place, before)
        return chosen

    def _read(self, time: int) -> None:
        """Choose for a word, and read it."""
        setting, draws = self._setting, self._setting.proposal.word_draws
        columns = slice(time * draws, (time + 1) * draws)
        drawn_by = self._numbers[self._alive, : setting.particles, columns].flatten(0, 1)
        before = self._followed
        if self.given is not None:  # a state may be overwritten, and this one is used twice
            before = before.select(torch.arange(len(drawn_by), device=drawn_by.device))
        drawn = setting.proposal.propose(before, time, drawn_by, setting.temperature)
        choice, log_q, followed = drawn
        if self.given is not None and self.kept is not None:
            choice = self._with_given(time, choice, self.given, self.kept)
            follow = setting.proposal.follow
            log_q, followed = follow(self._followed, time, choice, setting.temperature)
        log_p, self._state = setting.model.extend(self._state, time, choice)
        self._followed = followed
        self._weights = self._weights + (log_p - log_q).view_as(self._weights)  # (F', K)
        if self.history is not None:
            self.history.chosen(self._alive, choice)
            mean = self._weights.logsumexp(1) - math.log(len(self._own))  # (F',)
            self.prefixes[self._alive, time] = self.log_probs[self._alive] + mean

    def _with_given(self, time: int, choice: Tensor, given: Tensor, kept: Tensor) -> Tensor:
        """Return the choices of a word, (F' K,) or (F' K, C), one of each filter as given."""
        own = given[self._alive, time]  # (F',) or (F', C)
        if choice.ndim > 1:
            width = max(choice.shape[1], own.shape[1])
            choice, own = _widened(choice, width), _widened(own, width)
        places = torch.arange(len(self._alive), device=choice.device)  # (F',)
        return choice.index_copy(0, places * self._setting.particles + kept[self._alive], own)

    def _select(self, rows: Tensor) -> None:
        self._followed, self._state = self._followed.select(rows), self._state.select(rows)


def _rows(filters: Tensor, places: Tensor) -> Tensor:
    """Return the rows of places, (F', K) or (K,), of filters, (F', 1)."""
    return (filters * places.shape[-1] + places).flatten()
