"""Importance sampling of every latent model, by enumeration of tiny cases.

Needs no data. Oracles: sums over all latents and over all pairs of them: no sampling.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.models.latents.rnng_discriminative import DiscriminativeRNNG
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from tests.unit import kglm_reference, rnng_reference, test_entitynlm, test_kglm, test_rnng
from tests.unit import test_rnng_top_down as top_down
from tests.unit.entitynlm_reference import all_codes

TEMPERATURES = [0.5, 1.0, 2.0]


def binary():
    batch = test_rnng.batch_of([4, 3, 8, 8, 5])
    rows = test_rnng.rows_of(rnng_reference.all_trees(5))
    return test_rnng.make(), test_rnng.make(SpanCRF), batch, rows


def labelled():
    model, proposal = top_down.make(), top_down.make(DiscriminativeRNNG)
    return model, proposal, top_down.batch_of([7, 2]), top_down.rows_of(top_down.trees_of(model, 2))


def entities(context):
    rows = torch.tensor(all_codes(len(test_entitynlm.TOKENS), 3, 2))
    batch = test_entitynlm.make_batch(test_entitynlm.TOKENS)
    return test_entitynlm.make_model(), test_entitynlm.make_proposal(context), batch, rows


def graph(context):
    model = test_kglm.make().double()
    proposal = test_kglm.make(KGLMTagger, seed=3, context=context).double()
    rows = torch.tensor(kglm_reference.enumerate_codes(model, 3))
    return model, proposal, test_kglm.batch_of([4, 3, 2]), rows


CASES = {
    "rnng": binary,
    "rnng-top-down": labelled,
    "entitynlm, peeking": lambda: entities("peeking"),
    "entitynlm, no peeking": lambda: entities("causal"),
    "kglm, peeking": lambda: graph("peeking"),
    "kglm, no peeking": lambda: graph("causal"),
}


@pytest.fixture(scope="module", params=CASES)
def scores(request) -> tuple[Tensor, Tensor]:
    """Give log p of every latent of one text, (N,), and log q at each temperature, (N, A)."""
    model, proposal, batch, rows = CASES[request.param]()
    owner = torch.zeros(len(rows), dtype=torch.int64)
    with torch.no_grad():
        log_p = model.eval().log_joint(batch, owner, rows)
        log_q = proposal.eval().log_prob(batch, owner, rows, TEMPERATURES)
    return log_p, log_q


def test_the_proposal_is_normalized_at_every_temperature_and_covers_the_model(scores):
    log_p, log_q = scores
    torch.testing.assert_close(log_q.logsumexp(0), torch.zeros(3, dtype=torch.float64))
    assert bool((torch.isfinite(log_q) | (log_p == -torch.inf)[:, None]).all())


def test_the_expected_estimate_rises_with_the_samples_towards_the_likelihood(scores):
    log_p, log_q = scores
    truth = float(log_p.logsumexp(0))
    for column in log_q.T:
        drawn = torch.isfinite(column)
        q, log_w = column[drawn].exp(), (log_p - column)[drawn]  # (M,), (M,)
        assert float((q * log_w.exp()).sum()) == pytest.approx(math.exp(truth), rel=1e-9)
        one = float((q * log_w).sum())
        pairs = torch.logaddexp(log_w[:, None], log_w) - math.log(2)  # (M, M)
        two = float(q @ pairs @ q)
        assert one < two < truth
