"""What brackets hold: log-normal weights with a known answer, over many sets of documents.

Needs four minutes. Oracle: log p = 0 by construction. At 100 samples a document and 40 documents,
σ = 1 and 1.6 are labelled two-sided, hold the truth in at least 97 of 100 sets and are at most 2.5%
and 5% wide (on average, and in 9 of 10 sets) at 10 words a document; σ = 4 and 6 claim nothing.
Whatever the numbers of documents and samples, a false claim is made in at most 10 of 100 sets, as
the label says.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from beyond_perplexity.importance.diagnostics import NOT_OF_SAMPLES, Diagnostics, diagnose
from beyond_perplexity.importance.enclosing import doubts, enclose
from beyond_perplexity.importance.log_space import log_half_means, log_mean_exp

WORDS = 10


def repeated(sigma: float, n: int, k: int, sets: int, *, runs: bool = False) -> np.ndarray:
    """Return whether each set is labelled two-sided and holds the truth, and its width, (S, 3)."""
    random, found = np.random.default_rng([int(10 * sigma), n, k]), []
    n_tokens = np.full(n, WORDS)
    for _ in range(sets):
        log_w = random.normal(-(sigma**2) / 2, sigma, (n, k))
        halves = np.stack([log_half_means(row) for row in log_w], 1)
        ends = enclose(log_mean_exp(log_w, 1), halves)
        diagnostics = [
            Diagnostics(50.0, math.nan, math.nan, math.nan, NOT_OF_SAMPLES)
            if runs
            else diagnose(row)
            for row in log_w
        ]
        claims = not doubts(ends, halves, diagnostics, n_tokens, log_w.var(1, ddof=1))
        width = math.expm1(min((ends.high - ends.low) / n_tokens.sum(), 700.0))
        found.append((claims, ends.low <= 0 <= ends.high, width))
    return np.array(found, float)


@pytest.mark.parametrize(("sigma", "width"), [(1.0, 0.025), (1.6, 0.05)])
def test_good_weights_are_enclosed_and_say_so(sigma, width):
    claims, holds, widths = repeated(sigma, 40, 100, 1000).T
    print(
        f"σ = {sigma}: claimed {claims.mean():.3f}, holds {holds.mean():.3f}, "
        f"width {widths.mean():.3%} (largest {widths.max():.3%})"
    )
    assert claims.mean() >= 0.97
    assert holds.mean() >= 0.97
    assert widths.mean() <= width
    assert np.quantile(widths, 0.9) <= width


@pytest.mark.parametrize("sigma", [4.0, 6.0])
def test_bad_weights_claim_nothing(sigma):
    claims, holds, _ = repeated(sigma, 40, 100, 500).T
    print(f"σ = {sigma}: claimed {claims.mean():.3f}, holds {holds.mean():.3f}")
    assert not claims.any()


@pytest.mark.parametrize("k", [20, 25, 100, 1000])
@pytest.mark.parametrize("n", [2, 3, 5, 14, 40])
def test_few_claims_are_false_whatever_the_samples(n, k):
    for sigma in (0.2, 1.0, 1.6, 2.0, 2.5, 3.0):
        claims, holds, _ = repeated(sigma, n, k, 200 if k < 1000 else 60).T
        false = (claims * (1 - holds)).mean()
        print(f"N = {n}, K = {k}, σ = {sigma}: claimed {claims.mean():.2f}, false {false:.3f}")
        assert false <= 0.1 + 2 * math.sqrt(0.09 / len(claims))


@pytest.mark.parametrize("runs", [2, 4, 10])
@pytest.mark.parametrize("n", [3, 14, 40])
def test_few_claims_of_runs_are_false(n, runs):
    for sigma in (0.3, 1.0, 1.5, 2.0, 2.5, 3.0):
        claims, holds, _ = repeated(sigma, n, runs, 500, runs=True).T
        false = (claims * (1 - holds)).mean()
        print(f"N = {n}, F = {runs}, σ = {sigma}: claimed {claims.mean():.2f}, false {false:.3f}")
        assert false <= 0.1 + 2 * math.sqrt(0.09 / len(claims))
