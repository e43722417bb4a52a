"""The optimal proposal of EntityNLM.

Oracles: q* worked out from the probabilities of all beginnings by the plain implementation in
NumPy, sums over all z, frequencies of samples, means of many estimates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from beyond_perplexity.importance.particle_runs import FilterSetting, conditional_smc, smc_log_prob
from beyond_perplexity.models.latents.entitynlm_optimal import OptimalEntities
from beyond_perplexity.random_streams import stream
from tests.unit.entitynlm_reference import all_codes, log_softmax, plain_log_joint, weights_of
from tests.unit.test_entitynlm import TOKENS, make_batch, make_model, many, scored

TEMPERATURES = (0.5, 1.0, 2.0)


def numbers(rows, particles, draws, seed=0):
    return torch.from_numpy(stream(seed, "test").random((rows, particles + 1, draws)))


def plain_log_q(model, tokens, codes):
    """Return log q*(z | x) at temperature 1: each z_t by the beginnings that it leads to."""
    weights, total = weights_of(model), 0.0
    held = {
        length: [tuple(row) for row in all_codes(length, 3, 2)]
        for length in range(1, len(codes) + 1)
    }
    for time in range(len(codes)):
        begun = [row for row in held[time + 1] if row[:time] == tuple(codes[:time])]
        values = [
            plain_log_joint(weights, model.options, tokens[: time + 1], row, ended=False)
            for row in begun
        ]
        total += log_softmax(values)[begun.index(tuple(codes[: time + 1]))]
    return total


def test_it_is_in_proportion_to_what_comes_of_each_z():
    model = make_model()
    codes = all_codes(3, 3, 2)
    expected = [plain_log_q(model, TOKENS[:3], row) for row in codes]
    values = scored(OptimalEntities(model), TOKENS[:3], codes, [1.0])[:, 0]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-11)


def test_probabilities_sum_to_one_and_cover_the_model():
    model = make_model()
    codes = all_codes(len(TOKENS), 3, 2)
    log_q = scored(OptimalEntities(model), TOKENS, codes, TEMPERATURES)
    np.testing.assert_allclose(log_q.exp().sum(0), 1, atol=1e-12)
    assert torch.isfinite(log_q).all()
    flat = scored(OptimalEntities(model), TOKENS, codes, [1e6])[:, 0]
    assert flat.std() < log_q[:, 1].std()


def test_impossible_codes_are_impossible():
    wrong = [[0, 1 + 1024, 0, 0], [1 + 7, 0, 0, 0], [2, 0, 0, 0], [0, 0, 2, 3], [1, 2, 2, 1]]
    values = scored(OptimalEntities(make_model()), TOKENS, wrong, [1.0])
    assert (values == -math.inf).all()


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_samples_have_the_probabilities_of_log_prob(temperature):
    """Total variation distance of 32,000 draws; its mean is below ½ Σ √(2 p / (π n))."""
    proposal, rows = OptimalEntities(make_model()), 32_000
    codes = all_codes(3, 3, 2)
    batch, owner = make_batch(TOKENS[:3]), torch.zeros(rows, dtype=torch.int64)
    uniforms = torch.from_numpy(np.random.default_rng(7).random((rows, proposal.draws(batch))))
    drawn = proposal.sample(batch, owner, uniforms, temperature)
    found, counts = drawn.unique(dim=0, return_counts=True)
    shares = {tuple(row): n / rows for row, n in zip(found.tolist(), counts.tolist(), strict=True)}
    expected = scored(proposal, TOKENS[:3], codes, [temperature])[:, 0].exp().numpy()
    distance = sum(
        abs(shares.pop(tuple(row), 0) - p) for row, p in zip(codes, expected, strict=True)
    )
    assert not shares
    assert distance < 1.5 * np.sqrt(2 * expected / (math.pi * rows)).sum()


def test_beam_holds_the_best_and_is_exact_where_it_holds_all():
    proposal, codes = OptimalEntities(make_model()), all_codes(len(TOKENS), 3, 2)
    batch = make_batch(TOKENS[:2], TOKENS)
    log_q = scored(proposal, TOKENS, codes, [1.0])[:, 0]
    whole = proposal.beam(batch, len(codes) + 5)
    held = whole[1][(whole[1] >= 0).all(1)]
    assert held.tolist() == [codes[place] for place in log_q.argsort(descending=True)]
    assert ((whole[0] >= 0).sum(1) == 2).sum() == 9
    few = proposal.beam(batch, 4)[1]
    values = scored(proposal, TOKENS, few.tolist(), [1.0])[:, 0]
    assert len(few.unique(dim=0)) == 4
    assert (values.diff() <= 1e-12).all()


def test_batch_and_cut_of_rows_change_nothing():
    """In float32, bit for bit: all rows at once, against every document and 16 rows alone."""
    documents, owner, uniforms, model, _ = many()
    proposal, batch = OptimalEntities(model), make_batch(*documents)
    codes = proposal.sample(batch, owner, uniforms, 1.1)
    log_q = proposal.log_prob(batch, owner, codes, TEMPERATURES)
    assert (codes > 0).any(1).all()
    for start in range(0, 144, 16):
        part, tokens = slice(start, start + 16), documents[start // 48]
        alone, first = make_batch(tokens), torch.zeros(16, dtype=torch.int64)
        z = proposal.sample(alone, first, uniforms[part, : proposal.draws(alone)], 1.1)
        assert torch.equal(z, codes[part, : len(tokens)])
        assert (codes[part, len(tokens) :] == -1).all()
        assert torch.equal(proposal.log_prob(alone, first, z, TEMPERATURES), log_q[part])


def exact(model, tokens):
    return float(scored(model, tokens, all_codes(len(tokens), 3, 2)).logsumexp(0))


@pytest.mark.parametrize(("temperature", "particles"), [(1.0, 1), (1.0, 4), (2.0, 3)])
def test_the_mean_of_many_estimates_is_p(temperature, particles):
    """100,000 filters: within 4 standard errors."""
    model = make_model(double=False)
    proposal, batch = OptimalEntities(model), make_batch(TOKENS)
    found = []
    for part in range(10):
        held = numbers(10_000, particles, 3 * len(TOKENS), seed=part)
        filters = torch.zeros(10_000, dtype=torch.int64)
        found.append(
            smc_log_prob(
                FilterSetting(model, proposal, batch, particles, temperature, 0.5), held, filters
            ).log_prob
        )
    ratio = (torch.cat(found) - exact(model, TOKENS)).exp()
    assert abs(float(ratio.mean()) - 1) < 4 * float(ratio.std()) / math.sqrt(len(ratio))


def test_weights_do_not_depend_on_what_is_drawn():
    """Each word adds log Σ_z p(z | past) p(x_t | z) to log p − log q, whichever z was drawn."""
    model = make_model()
    proposal, batch = OptimalEntities(model), make_batch(TOKENS)
    owner = torch.zeros(64, dtype=torch.int64)
    with torch.no_grad():
        state, walked = proposal.start(batch, owner), model.start(batch, owner)
        for time in range(len(TOKENS)):
            promise = proposal.log_twist(state, time)
            draws = torch.from_numpy(np.random.default_rng(time).random((64, 2)))
            code, log_q, state = proposal.propose(state, time, draws, 1.0)
            log_p, walked = model.extend(walked, time, code)
            torch.testing.assert_close(log_p - log_q, promise, rtol=0, atol=1e-9)
            assert len(code.unique()) > 1


def test_a_given_path_of_the_posterior_gives_the_inverse():
    """Mean of 1 / p̂ over draws of z from p(z | x), by enumeration, is 1 / p."""
    model = make_model(double=False)
    proposal, tokens = OptimalEntities(model), TOKENS[:3]
    batch, codes = make_batch(tokens), torch.tensor(all_codes(3, 3, 2))
    posterior = scored(model, tokens, codes.tolist()).double().softmax(0)
    rows = 40_000
    picked = torch.multinomial(
        posterior, rows, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    held = numbers(rows, 3, 3 * len(tokens), seed=5)
    filters = torch.zeros(rows, dtype=torch.int64)
    found = conditional_smc(
        FilterSetting(model, proposal, batch, 3, 1.0, 0.9), held, codes[picked], filters
    ).log_prob
    ratio = (exact(model, tokens) - found).exp()
    assert abs(float(ratio.mean()) - 1) < 4 * float(ratio.std()) / math.sqrt(rows)


def test_what_a_filter_finds_does_not_depend_on_the_others():
    documents, _, _, model, _ = many()
    proposal, batch = OptimalEntities(model), make_batch(*documents)
    held = numbers(6, 16, 3 * 40, seed=2)
    owner = torch.tensor([0, 1, 2, 2, 1, 0])
    whole = smc_log_prob(FilterSetting(model, proposal, batch, 16, 1.0, 0.5), held, owner)
    for place, document in enumerate(owner.tolist()):
        alone = make_batch(documents[document])
        one = smc_log_prob(FilterSetting(model, proposal, alone, 16), held[place : place + 1])
        assert torch.equal(one.log_prob[0], whole.log_prob[place])
