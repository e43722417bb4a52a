"""log p of a corpus from both sides, from two halves of the samples of every instance.

For any ψ > 0, log p ≤ log ψ + p/ψ − 1: the tangent of the logarithm at ψ, with equality at ψ = p.
Where ψ is independent of weights whose mean is p, that mean in place of p makes the right side an
unbiased estimate of something that is not below log p, as a log p̂ alone is of something not above.
Sources: Grosse, Ghahramani, Adams (2015), bounds from both sides; of the tangent also Ivanov et al.
(2026), "TUBE: Tangent Upper Bound on Evidence".

That the ends hold rests on errors that are estimated from the same weights. Where these have a
heavy tail, what the errors miss is what the mean misses: the rare weights. So the tail of all
instances' weights together is fitted, and the upper end goes up to the largest mean that its
likelihood bears out (`PooledTail`).

N instances, K samples of one, M weights of the tail, G shapes, H scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.importance.estimate_notes import share_below
from beyond_perplexity.inference.log_space import log_sum_exp
from beyond_perplexity.inference.weight_diagnostics import (
    CONSTANT,
    FEW_EFFECTIVE,
    NOT_OF_SAMPLES,
    Diagnostics,
    k_hat_threshold,
    rounding,
    tail_size,
)

CONFIDENCE = 0.975  # of each end, so that both hold in 95 of 100
# What a claim needs beside `FEW_EFFECTIVE` effective samples.
LARGEST_K_HAT = 0.7
LARGEST_HEAVY_SHARE = 0.2  # of the instances, and of the tokens, with a larger k̂
FEWEST_RUNS = 10  # of all instances: with 6 of a heavy tail, 12% of claims missed
LARGEST_VARIANCE = 4.0  # of log p̂ between runs, nats²
LARGEST_LOW_SHARE = 0.1  # of the tokens, in instances with fewer effective samples
LEAST_FREEDOM = 0.5  # of the errors over instances: below it, their quantile says nothing
# 3.29 standard errors: the region of a likelihood ratio that leaves 0.001 out. With less, few
# claims miss, but many of those that are made because the weights look better than they are.
_LARGEST_DEVIANCE = 3.29**2
# A heavier tail is for k̂ to refute. The scales are those of the median excess times a factor.
_SHAPES = np.linspace(-0.6, 0.85, 31)  # (G,), none of them 0
_FACTORS = np.exp(np.linspace(-1.6, 1.6, 49))  # (H,)


def tangent_bound(log_halves: np.ndarray, log_constant: np.ndarray | float) -> np.ndarray:
    """Estimate an upper bound of log p with ψ from one half of the samples, p̂ from the other.

    For log p̂ of both halves, a and b, (2, ...), the mean of log ψ + p̂/ψ − 1 with ψ = c eᵃ, p̂ =
    eᵇ and the other way round, nats, (...): its expectation is not below log p, whatever log c is,
    as long as it does not depend on these samples. Infinite where a half has no positive weight.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = half_ratio(log_halves)
        found = log_halves.mean(0) + log_constant + ratio * np.exp(-log_constant) - 1.0
    return np.where(np.isfinite(found), found, np.inf)


def half_ratio(log_halves: np.ndarray) -> np.ndarray:
    """Return the mean of both halves' ratios p̂/ψ, cosh(a − b), (...), for log p̂ (2, ...);
    infinite where a half has no positive weight or they are too far apart for a float."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.cosh(log_halves[0] - log_halves[1])
    return np.where(np.isnan(found), np.inf, found)


def tuned_constant(ratios: np.ndarray) -> np.ndarray:
    """Choose log c of each instance, (N,), by the ratios of the others (`half_ratio`).

    The bound is lowest in expectation at c = E[p̂/ψ]: the mean finite ratio of the others; 0 (c =
    1) where fewer than two are finite.
    """
    finite = np.isfinite(ratios)
    kept = np.where(finite, ratios, 0.0)
    count = finite.sum() - finite  # (N,)
    # Of those before and after: the sum less its own would lose the others beside a huge one.
    before, after = (np.cumsum(np.append(0.0, one[:-1])) for one in (kept, kept[::-1]))
    mean = (before + after[::-1]) / np.maximum(count, 1)  # (N,)
    return np.log(np.where(count < 2, 1.0, mean))


class Ends(NamedTuple):
    """Both ends of log p of the corpus, nats.

    `low` is Σ_n log p̂ less, `high` Σ_n `tangent_bound` plus, `factor` standard errors (a quantile
    of Student's t: 1.960 for many instances). `high` is at least the end that allows for the tail,
    which `of_tail` says that it is. Infinite where an instance has a half without a positive
    weight, or there is but one instance, or one that has nearly all tokens. `log_constants`, (N,),
    are those of `tuned_constant`.
    """

    low: float
    high: float
    factor: float
    log_constants: np.ndarray
    of_tail: bool = False


def enclose(
    log_likelihood: np.ndarray,
    log_halves: np.ndarray,
    n_tokens: np.ndarray | None = None,
    tail_end: float = -math.inf,
) -> Ends:
    """Enclose log p of the corpus by log p̂ of each instance, (N,), and of its halves, (2, N).

    T of each, (N,), weighs them; without, all are alike. `tail_end` is that of
    `PooledTail.upper_end`, where the weights are known.

    The corpus is fixed: how log p differs between instances is no error. What is one is estimated
    over instances by what halves of samples say of the same instance. With a and b log p̂ of the
    halves of one, the variance of (a + b)/2 is estimated without bias by (a − b)²/4 (both ends have
    that error), and what the upper end has on top, log c + cosh(a − b)/c − 1, varies between
    instances. Both parts may go together, so that their standard errors are added. They come from
    as few observations as there are instances, so the quantile is of Student's t. Its degrees of
    freedom are (Σ T)² / Σ T² − 1, which is N − 1 where all are equally long: the variance is that
    of the longest.
    """
    n = log_halves.shape[1]
    log_constants = tuned_constant(half_ratio(log_halves))
    upper = tangent_bound(log_halves, log_constants)  # (N,)
    tokens = np.ones(n) if n_tokens is None else n_tokens.astype(float)
    freedom = float(tokens.sum() ** 2 / np.square(tokens).sum()) - 1
    if freedom < LEAST_FREEDOM or not np.isfinite(upper).all():
        return Ends(-math.inf, math.inf, math.nan, log_constants)
    from scipy.special import stdtrit  # most of what starting the command would take

    factor = float(stdtrit(freedom, CONFIDENCE))
    common = math.sqrt(np.square(log_halves[0] - log_halves[1]).sum()) / 2
    own = math.sqrt(n * (upper - log_halves.mean(0)).var(ddof=1))
    low = float(log_likelihood.sum()) - factor * common
    high = float(upper.sum()) + factor * (common + own)
    of_tail = tail_end > high + rounding(high)
    high = tail_end if of_tail else high
    if high < low <= high + rounding(high):  # equal weights, added in another order
        low, high = high, low
    return Ends(low, high, factor, log_constants, of_tail)


def doubts(
    ends: Ends,
    log_halves: np.ndarray,
    diagnostics: Sequence[Diagnostics],
    n_tokens: np.ndarray,
    n_samples: np.ndarray,
    between_runs: np.ndarray,
    n_runs: int = 1,
) -> list[str]:
    """Say why no two-sided claim is made of ends from the halves of samples, (2, N).

    Nothing where the ends are finite and in order; at least 5 effective samples are the median and
    what the instances with 90% of the tokens have; the median of k̂ is at most min(1 − 1/log₁₀ K,
    0.7), and k̂ at most 0.7 in 80% of the instances and in those with 80% of the tokens (an
    undefined k̂ counts as above, unless the tail is constant); or, of runs, the mean variance of
    log p̂ between the `n_runs` of each, (N,), is at most 4 nats², and there are 10 of them in all
    instances.

    k̂ alone does not keep claims from missing: where the tail is too heavy, it is the samples that
    lack the largest weights that look good. So the upper end allows for the tail as well; how
    often claims miss, `tests/long/test_two_sided_levels.py` counts.
    """
    found = [*_missing(ends, log_halves), *_few(diagnostics, n_tokens)]
    if diagnostics[0].tail == NOT_OF_SAMPLES:
        return [*found, *_unlike(between_runs, n_runs)]
    return [*found, *_heavy(diagnostics, n_tokens, int(n_samples.min()))]


def _missing(ends: Ends, log_halves: np.ndarray) -> Iterator[str]:
    """Say why there is no end, or what is wrong with the ends."""
    lost = int(np.isneginf(log_halves).any(0).sum())
    if lost:
        yield f"{lost} instances have no positive weight in a half of their samples"
    elif log_halves.shape[1] < 2:
        yield "there is a single instance: no error over instances, and so no end"
    elif not np.isfinite(half_ratio(log_halves)).all():
        yield "the halves of an instance are too far apart for a bound"
    elif not math.isfinite(ends.high):
        yield "one instance has nearly all of the tokens: no error over instances, and so no end"
    if ends.low > ends.high:
        yield "the ends cross: low is above high, and is left so"


def _few(diagnostics: Sequence[Diagnostics], n_tokens: np.ndarray) -> Iterator[str]:
    """Say where effective samples are too few."""
    ess = np.array([one.ess for one in diagnostics])
    median, low = float(np.median(ess)), share_below(ess, n_tokens, FEW_EFFECTIVE)
    if median < FEW_EFFECTIVE:
        yield f"the median of effective samples is {median:.1f}, below {FEW_EFFECTIVE:g}"
    if low > LARGEST_LOW_SHARE:
        yield (
            f"{low:.0%} of the tokens, above {LARGEST_LOW_SHARE:.0%}, are in instances with fewer "
            f"than {FEW_EFFECTIVE:g} effective samples"
        )


def _unlike(between_runs: np.ndarray, n_runs: int) -> Iterator[str]:
    """Say whether runs are too few, or vary too much."""
    if n_runs * len(between_runs) < FEWEST_RUNS:
        yield f"{n_runs * len(between_runs)} runs in all show no tail; {FEWEST_RUNS} are needed"
    variance = float(between_runs.mean())
    if not variance <= LARGEST_VARIANCE:
        yield (
            f"the variance of log p̂ between runs is {variance:.1f} nats², above "
            f"{LARGEST_VARIANCE:g}: about {variance / LARGEST_VARIANCE:.1f} times as many "
            "particles would bring it there"
        )


def _heavy(
    diagnostics: Sequence[Diagnostics], n_tokens: np.ndarray, n_samples: int
) -> Iterator[str]:
    """Say whose tail is too heavy, or not known to be light."""
    k_hat = np.array([one.k_hat for one in diagnostics])
    k_hat[np.isnan(k_hat)] = math.inf
    k_hat[[one.tail == CONSTANT for one in diagnostics]] = -math.inf
    # The upper of two in the middle: one may be −∞ and the other ∞.
    median, limit = float(np.sort(k_hat)[len(k_hat) // 2]), k_hat_threshold(n_samples)
    if median > limit:
        said = "undefined" if math.isinf(median) else f"{median:.2f}"
        yield (
            f"the median of k̂ is {said}, not known to be at most {limit:.2f}, the limit of "
            f"{n_samples} samples"
        )
    heavy = k_hat > LARGEST_K_HAT
    share, of_tokens = heavy.mean(), n_tokens[heavy].sum() / n_tokens.sum()
    if max(share, of_tokens) > LARGEST_HEAVY_SHARE:
        yield (
            f"k̂ is above {LARGEST_K_HAT:g}, or undefined, in {share:.0%} of the instances with "
            f"{of_tokens:.0%} of the tokens; {LARGEST_HEAVY_SHARE:.0%} may be"
        )


class PooledTail:
    """The largest weights of all instances, each over the mean of the others of its instance."""

    def __init__(self, n_weights: int) -> None:
        self._size = tail_size(n_weights)
        self._largest = np.empty((2, 0))  # ratios, and what share each is of those of its instance
        self._log_others = self._mean = 0.0
        self._n = 0

    def add(self, log_weights: np.ndarray) -> None:
        """Take the log weights of an instance, (K,), K ≥ 2, of which two or more are not −inf."""
        log_others = _log_mean_others(log_weights)  # (K,)
        ratios = np.exp(np.minimum(log_weights - log_others, 700.0))
        self._log_others += log_others.mean()
        self._mean += ratios.mean()
        self._n += 1
        found = np.stack([ratios, np.full(len(ratios), 1 / len(ratios))])
        self._largest = np.concatenate([self._largest, found], 1)
        if self._largest.shape[1] > self._size + 1:
            kept = np.argpartition(self._largest[0], -self._size - 1)[-self._size - 1 :]
            self._largest = self._largest[:, kept]

    def upper_end(self) -> float:
        """Return log p of all instances, nats, if the tail is as heavy as its likelihood bears out.

        Σ_n E_k log p̂ without sample k, plus N log of the mean of the ratios, after the mean excess
        of the tail is replaced by `largest_mean_excess`. A weight and the mean m of the others are
        independent, so that E[w/m] = p E[1/m] and, by Jensen's inequality, log p ≤ E log m + log
        E[w/m]; over instances, Σ_n log E_n ≤ N log of the mean of E_n.
        """
        order = np.argsort(self._largest[0])
        (threshold, *ratios), (_, *shares) = self._largest[:, order].tolist()
        excess = np.array(ratios) - threshold
        beyond = excess > rounding(threshold)
        mean = self._mean / self._n
        if beyond.any():
            excess = excess[beyond]
            more = max(0.0, largest_mean_excess(excess) - excess.mean())
            mean += np.array(shares)[beyond].sum() / self._n * more
        return float(self._log_others + self._n * math.log(mean))


def _log_mean_others(log_weights: np.ndarray) -> np.ndarray:
    """Return log of the mean of all weights but one, for each, (K,)."""
    largest = int(log_weights.argmax())
    scaled = np.exp(log_weights - log_weights[largest])
    found: np.ndarray = np.log(np.maximum(scaled.sum() - scaled, 0.5)) + log_weights[largest]
    found[largest] = log_sum_exp(np.delete(log_weights, largest))  # a difference would lose it
    return found - math.log(len(scaled) - 1)


def largest_mean_excess(excess: np.ndarray) -> float:
    """Return the largest mean of a generalized Pareto distribution that M excesses bear out.

    They are over a threshold, positive. It is the largest σ / (1 − k) of those k and σ whose twice
    log likelihood is within `_LARGEST_DEVIANCE` of the best; k from −0.6 to 0.85, as with more it
    may be anything.
    """
    fits, means = [], []
    for shape in _SHAPES:
        scales = np.median(excess) * shape / (2**shape - 1) * _FACTORS  # (H,)
        inside = 1 + shape * excess / scales[:, None]  # (H, M)
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.log(inside).sum(1)
        fit = -len(excess) * np.log(scales) - (1 + 1 / shape) * logs  # (H,)
        fits.append(np.where((inside > 0).all(1), fit, -np.inf))
        means.append(scales / (1 - shape))
    held = np.array(fits)  # (G, H)
    return float(np.array(means)[held >= held.max() - _LARGEST_DEVIANCE / 2].max())
