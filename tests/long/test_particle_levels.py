"""Means of 10^5 sequential Monte Carlo estimates, of every latent family's tiny model.

Needs ten minutes. Oracle: log p by enumeration of all z. The means of p̂ / p, and of p / p̂ where
one particle follows a z of the posterior, are 1 within 4 standard errors (at most 2%).
"""

import math

import pytest
import torch

from beyond_perplexity.importance.particle_runs import (
    FilterSetting,
    conditional_smc,
    numbers_needed,
    smc_log_prob,
)
from tests.unit import test_smc
from tests.unit.test_smc import numbers

REPEATS, AT_ONCE, PARTICLES = 100_000, 4000, 4


def case(name):
    """Return model, proposal, how to make a batch, a short text, all its z and their log p."""
    family = test_smc.FAMILIES[name]
    model, proposal = family.pair()
    return model, proposal, family.batch, family.short, test_smc.joint(family, model)


@pytest.mark.parametrize(
    ("name", "threshold"),
    [("binary", 0.6), ("binary", 1.0), ("labelled", 1.0), ("entitynlm", 1.0), ("kglm", 1.0)],
)
def test_estimates_and_their_inverses_are_unbiased(name, threshold):
    model, proposal, batch_of, text, (rows, log_p) = case(name)
    truth = log_p.logsumexp(0)
    batch = batch_of(*[text] * AT_ONCE)
    below, above = [], []
    for block in range(REPEATS // AT_ONCE):
        generator = torch.Generator().manual_seed(block)
        places = torch.multinomial(log_p.softmax(0), AT_ONCE, True, generator=generator)
        uniforms = numbers(AT_ONCE, PARTICLES, numbers_needed(proposal, batch), seed=block)
        given = FilterSetting(model, proposal, batch, PARTICLES, 1.5, threshold), uniforms
        below.append(smc_log_prob(*given).log_prob - truth)
        above.append(truth - conditional_smc(*given, rows[places]).log_prob)
    for ratios in (torch.cat(below).exp(), torch.cat(above).exp()):
        error = float(ratios.std()) / math.sqrt(REPEATS)
        print(f"{name} {threshold}: {float(ratios.mean()):.4f} ± {error:.4f}")
        assert error < 0.02
        assert abs(float(ratios.mean()) - 1) < 4 * error
