"""Log weights whose mean is known, from light to heavy tails, and what claims of them miss.

The weights have the mean 1, so log p is 0; kinds with a mode also give that of a z of p(z | x).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from beyond_perplexity.importance.two_sided_bounds import Ends, PooledTail, doubts, enclose
from beyond_perplexity.inference import log_space, weight_diagnostics

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], np.ndarray]


def lognormal(sigma: float) -> Draw:
    return lambda random, shape: random.normal(-(sigma**2) / 2, sigma, shape)


def gaussian(k: float) -> Draw:
    """Give the weights of q = N(0, 1 − k) for p = N(0, 1): their tail has the shape k."""
    return lambda random, shape: 0.5 * math.log(1 - k) + k / 2 * random.normal(size=shape) ** 2


def pareto(k: float) -> Draw:
    return lambda random, shape: math.log(1 - k) - k * np.log(random.random(shape))


def mode(mass: float, seen: float = 1e-3, *, given: bool = False) -> Draw:
    """Give weights of a q that draws with probability `seen` what has `mass` of p(z | x)."""

    def draw(random: np.random.Generator, shape: Shape) -> np.ndarray:
        inside = random.random(shape) < (mass if given else seen)
        drift = 0.045 if given else -0.045  # of the mean of weights with σ = 0.3
        level = np.where(inside, math.log(mass / seen), math.log((1 - mass) / (1 - seen)))
        return level + random.normal(drift, 0.3, shape)

    return draw


@np.errstate(all="ignore")  # as of the package: an undefined shape is NaN
def diagnose_all(log_w: np.ndarray) -> list[weight_diagnostics.Diagnostics]:
    """Diagnose each of the instances, (N, K), as `diagnose` does, which takes ten times as long."""
    size = weight_diagnostics.tail_size(log_w.shape[1])
    tails = np.sort(log_w, 1)[:, -size - 1 :]  # (N, M + 1)
    steep = tails[:, int(size / 4 + 0.5)] - tails[:, 0] > 1e-3  # else alike, tied or empty
    tail = np.exp(tails[steep] - tails[steep, -1:])
    excess = tail[:, 1:] - tail[:, :1]  # (S, M)
    count = 30 + int(size**0.5)
    grid = 1 - np.sqrt(count / (np.arange(count) + 0.5))
    b = grid / (3 * excess[:, [int(size / 4 + 0.5) - 1]]) + 1 / excess[:, -1:]  # (S, B)
    k = np.stack([np.log1p(-one[:, None] * excess).mean(1) for one in b.T], 1)
    fit = size * (np.log(-b / k) - k - 1)
    weight = np.exp(fit - fit.max(1, keepdims=True))
    weight /= weight.sum(1, keepdims=True)
    weight *= weight >= 10 * np.finfo(float).eps
    b = (b * weight).sum(1, keepdims=True) / weight.sum(1, keepdims=True)
    shape = (size * np.log1p(-b * excess).mean(1) + 5) / (size + 10)
    found = iter(shape.tolist())
    scaled = np.exp(log_w - log_w.max(1, keepdims=True))
    ess = np.square(scaled.sum(1)) / np.square(scaled).sum(1)
    return [
        weight_diagnostics.Diagnostics(
            one, math.nan, math.nan, next(found), weight_diagnostics.FITTED
        )
        if fitted
        else weight_diagnostics.diagnose(row)
        for one, fitted, row in zip(ess.tolist(), steep.tolist(), log_w, strict=True)
    ]


class Claim(NamedTuple):
    """What is said of a set of documents, and whether that misses."""

    made: bool
    missed: bool
    ends: Ends
    without: bool  # whether it would miss without the end that allows for the tail


def claim(log_w: np.ndarray, truth: float = 0.0, effective: np.ndarray | None = None) -> Claim:
    """Enclose Σ log p of documents by their log weights (N, K), as the two-sided bounds does.

    Of runs of particles the fewest effective samples, (N,), are given.
    """
    n, k = log_w.shape
    halves = np.stack([log_space.log_half_means(row) for row in log_w], 1)
    n_tokens, log_p = np.full(n, 10), log_space.log_mean_exp(log_w, 1)
    tail = PooledTail(log_w.size)
    for row in log_w:
        tail.add(row)
    ends = enclose(log_p, halves, n_tokens, tail.upper_end())
    if effective is None:
        known = diagnose_all(log_w), n_tokens, np.full(n, k), np.full(n, np.nan)
        said = doubts(ends, halves, *known)
    else:
        nothing = math.nan, math.nan, math.nan, weight_diagnostics.NOT_OF_SAMPLES
        found = [weight_diagnostics.Diagnostics(ess, *nothing) for ess in effective.tolist()]
        said = doubts(ends, halves, found, n_tokens, np.full(n, 50), log_w.var(1, ddof=1), k)
    plain = enclose(log_p, halves, n_tokens)
    equal = 1e-9 * max(1.0, abs(truth))
    missed, without = (not one.low - equal <= truth <= one.high + equal for one in (ends, plain))
    return Claim(not said, missed, ends, without)


def surely_above(missed: int, claims: int) -> float:
    """Return the one-sided 99.9% lower limit of a rate (Clopper & Pearson 1934)."""
    return float(beta.ppf(0.001, missed, claims - missed + 1)) if missed else 0.0
