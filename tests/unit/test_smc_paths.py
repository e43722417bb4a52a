"""Paths of particles, promises, and filters of which one particle follows a given z.

Oracles: the joint probabilities of all z of a short document, whose sum is p(x); the law of
systematic resampling, worked out on a grid.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from beyond_perplexity.importance.particle_runs import (
    conditional_smc,
    numbers_needed,
    smc_log_prob,
    smc_paths,
)
from beyond_perplexity.particle_resampling import conditional_systematic, systematic
from tests.unit.test_smc import FAMILIES, numbers


class Promising:
    """A proposal with a promise that is arbitrary, and differs from particle to particle."""

    def __init__(self, proposal, scale=1.5):
        self._proposal, self.scale = proposal, scale
        self.word_draws, self.draws = proposal.word_draws, proposal.draws
        self.propose, self.follow, self.start = proposal.propose, proposal.follow, proposal.start

    def log_twist(self, state, time):
        last = state.last if hasattr(state, "last") else state.memory.current  # (K,)
        return self.scale * torch.sin(3.0 * last.double() + time)


@torch.no_grad()
def joint(family, model):
    """Return all z of the short document and log p(x, z) of each."""
    codes = torch.tensor(family.codes(model, len(family.short)))
    owner = torch.zeros(len(codes), dtype=torch.int64)
    return codes, model.log_joint(family.batch(family.short), owner, codes)


@pytest.mark.parametrize("promising", [False, True])
@pytest.mark.parametrize(
    ("name", "temperature", "particles", "threshold"),
    [("entitynlm", 1.2, 4, 1.0), ("kglm", 2.0, 5, 0.9), ("entitynlm", 1.2, 3, 0.0)],
)
def test_weighted_paths_have_the_joint_probabilities(
    name, temperature, particles, threshold, promising
):
    """The mean weight with which a z comes is p(x, z), within 4.5 standard errors, for each z."""
    family, count = FAMILIES[name], 2000
    model, proposal = family.pair()
    proposal = Promising(proposal) if promising else proposal
    batch = family.batch(*[family.short] * count)
    uniforms = numbers(count, particles, numbers_needed(proposal, batch), seed=particles)
    arguments = (model, proposal, batch, particles, uniforms, temperature, threshold)
    found = smc_paths(*arguments)
    again = smc_log_prob(*arguments)
    assert torch.equal(found.estimate.log_prob, again.log_prob)
    total = found.log_weights.logsumexp(1) - math.log(particles)
    torch.testing.assert_close(found.estimate.log_prob, total, rtol=0, atol=1e-12)
    if threshold:
        assert (again.effective[:, :-1] < threshold * particles).any()
    codes, log_p = joint(family, model)
    truth = log_p.exp() / log_p.exp().sum()
    same = (found.latents[:, :, None] == codes).all(3)  # (F, K, Z)
    assert same.any(2).all()
    shares = (found.log_weights - log_p.logsumexp(0)).exp() / particles  # (F, K)
    each = (same * shares[..., None]).sum(1)  # (F, Z)
    error = each.std(0) / math.sqrt(count)
    often = (each > 0).sum(0) > 150  # of rare ones the standard error is too small
    assert often.sum() > 3
    assert ((each.mean(0) - truth).abs() < 4.5 * error)[often].all()
    mean = each.sum(1).mean()
    assert abs(mean - 1) < 4 * each.sum(1).std() / math.sqrt(count)


@pytest.mark.parametrize(
    ("name", "particles", "threshold", "promising"),
    [
        ("entitynlm", 2, 1.0, False),
        ("entitynlm", 4, 1.0, False),
        ("entitynlm", 4, 0.6, True),
        ("kglm", 5, 0.9, False),
        ("kglm", 3, 1.0, True),
        ("kglm", 5, 0.0, False),
    ],
)
def test_the_inverse_is_unbiased_where_the_given_path_is_of_the_posterior(
    name, particles, threshold, promising
):
    """The mean of p(x) / p̂(x) over draws from the enumerated p(z | x) is 1."""
    family, count = FAMILIES[name], 2000
    model, proposal = family.pair()
    proposal = Promising(proposal) if promising else proposal
    codes, log_p = joint(family, model)
    generator = torch.Generator().manual_seed(1)
    places = torch.multinomial(log_p.softmax(0), count, True, generator=generator)
    batch = family.batch(*[family.short] * count)
    uniforms = numbers(count, particles, numbers_needed(proposal, batch), seed=particles + 9)
    arguments = (model, proposal, batch, particles, uniforms)
    found = conditional_smc(*arguments, codes[places], 1.5, threshold)
    ratios = (log_p.logsumexp(0) - found.log_prob).exp().numpy()
    error = ratios.std(ddof=1) / math.sqrt(count)
    assert error < 0.1
    assert abs(ratios.mean() - 1) < 4 * error
    free = smc_log_prob(*arguments, 1.5, threshold).log_prob
    assert found.log_prob.mean() > log_p.logsumexp(0) > free.mean()


def test_without_resampling_a_given_path_is_one_of_the_samples():
    """p̂ is the mean of the weights of K − 1 draws and of the given z."""
    family = FAMILIES["kglm"]
    model, proposal = family.pair()
    batch, codes = family.batch(family.short), joint(family, model)[0][[5]]
    uniforms = numbers(1, 6, numbers_needed(proposal, batch))
    found = conditional_smc(model, proposal, batch, 6, uniforms, codes, 1.5, 0.0)
    place = int(6 * uniforms[0, 6, len(family.short) - 1])
    owner = torch.zeros(6, dtype=torch.int64)
    with torch.no_grad():
        latents = proposal.sample(batch, owner, uniforms[0, :6], 1.5)
        latents[place] = codes[0]
        log_q = proposal.log_prob(batch, owner, latents, [1.5])[:, 0]
        weights = model.log_joint(batch, owner, latents) - log_q
    expected = weights.logsumexp(0) - math.log(6)
    torch.testing.assert_close(found.log_prob[0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kept", range(5))
def test_conditional_resampling_has_the_law_of_systematic_resampling(kept):
    """Oracle: all (u, place) of a fine grid of u whose place falls to the kept particle."""
    weights = torch.tensor([0.1, 0.31, 0.02, 0.36, 0.21]).double().log()[None]
    grid = (torch.arange(20_000).double() + 0.5) / 20_000
    every = systematic(weights.expand(len(grid), 5), grid)  # (U, K)
    row, place = (every == kept).nonzero(as_tuple=True)
    width = 0.05
    expected = np.histogram2d(place, grid[row], bins=[5, 20], range=[[0, 5], [0, 1]])[0]
    count = 20_000
    chosen, found = conditional_systematic(
        weights.expand(count, 5), grid, torch.full((count,), kept)
    )
    assert (chosen.gather(1, found[:, None]) == kept).all()
    assert (chosen.diff(dim=1) >= 0).all()
    shares = torch.bincount(found, minlength=5) / count
    assert shares.tolist() == pytest.approx((expected.sum(1) / len(row)).tolist(), abs=2e-3)
    # How often each particle is in the filter, given the kept one: by both.
    held = torch.stack([(chosen == k).sum(1) for k in range(5)], 1).double().mean(0)
    others = every[row]  # (N, K)
    truth = torch.stack([(others == k).sum(1) for k in range(5)], 1).double().mean(0)
    torch.testing.assert_close(held, truth, rtol=0, atol=5 * width * 0.01)
