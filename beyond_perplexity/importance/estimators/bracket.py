"""The bracket: log p from both sides, from the same weights as a stochastic bound.

For any ψ > 0, log p ≤ log ψ + p/ψ − 1: the tangent of the logarithm at ψ, with equality at ψ = p.
Where ψ is independent of weights whose mean is p, that mean in place of p makes the right side an
unbiased estimate of something that is not below log p, as a log p̂ alone is of something not above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from beyond_perplexity.importance.diagnostics import (
    CONSTANT,
    FEW_EFFECTIVE,
    NOT_OF_SAMPLES,
    Diagnostics,
)
from beyond_perplexity.importance.estimators.contract import (
    TWO_SIDED,
    TWO_SIDED_UNSURE,
    CorpusEstimate,
    Estimator,
    Fields,
    Inputs,
    InstanceEstimate,
)
from beyond_perplexity.importance.estimators.registry import find_estimator
from beyond_perplexity.importance.log_space import log_mean_exp, log_sum_exp
from beyond_perplexity.importance.summary import share_below, summarize_diagnostics

if TYPE_CHECKING:
    from beyond_perplexity.importance.reading.samples import SampledInstance

# Methods whose weights are independent with mean p, in the order in which brackets are listed.
BRACKETED = ("importance_sampling", "mixture", "smc")
LEAST_SAMPLES = 20
CONFIDENCE = 0.95  # of each end
# What a claim needs beside `FEW_EFFECTIVE` effective samples.
LARGEST_K_HAT = 0.7
LARGEST_VARIANCE = 4.0  # of log p̂ between runs, nats²
LARGEST_LOW_SHARE = 0.1  # of the tokens, in instances with fewer effective samples


def log_half_means(log_weights: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Estimate log p from one half of the samples and from the other.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights, those of one proposal after those of the other.
    counts : ndarray, shape (J,), int64, optional
        How many each of J proposals drew; without, all are of one.

    Returns
    -------
    ndarray, shape (2,), float64
        Logarithms of Σ_j (K_j / K) · the mean over every second sample of proposal j: each is
        unbiased for p where the mean of all weights is, and they are independent. NaN where a
        proposal has one sample only.
    """
    counts = np.array([len(log_weights)]) if counts is None else counts
    if counts.min() < 2:
        return np.full(2, np.nan)
    parts = np.split(log_weights, np.cumsum(counts)[:-1])
    shares = np.log(counts / counts.sum())  # (J,)
    means = [[log_mean_exp(part[first::2]) for part in parts] for first in range(2)]
    return log_sum_exp(np.array(means) + shares, 1)  # (2, J) to (2,)


def tangent_bound(log_halves: np.ndarray, log_constant: np.ndarray | float) -> np.ndarray:
    """Estimate an upper bound of log p with ψ from one half of the samples, p̂ from the other.

    Parameters
    ----------
    log_halves : ndarray, shape (2, ...), float64
        log p̂ of both halves, a and b.
    log_constant : ndarray, shape (...), or float
        log c, c > 0, which does not depend on these samples.

    Returns
    -------
    ndarray, shape (...), float64
        The mean of log ψ + p̂/ψ − 1 with ψ = c eᵃ, p̂ = eᵇ and the other way round, nats: its
        expectation is not below log p, whatever c is. Infinite where a half has no positive weight.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = half_ratio(log_halves)
        found = log_halves.mean(0) + log_constant + ratio * np.exp(-log_constant) - 1.0
    return np.where(np.isfinite(found), found, np.inf)


def half_ratio(log_halves: np.ndarray) -> np.ndarray:
    """Return the mean of both halves' ratios p̂/ψ, cosh(a − b), (...), for log p̂ (2, ...).

    Infinite where one half has no positive weight or the halves are too far apart for a float.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.cosh(log_halves[0] - log_halves[1])
    return np.where(np.isnan(found), np.inf, found)


def tuned_constant(ratios: np.ndarray) -> np.ndarray:
    """Choose log c of each instance by the others.

    Parameters
    ----------
    ratios : ndarray, shape (N,), float64
        From `half_ratio`.

    Returns
    -------
    ndarray, shape (N,), float64
        The bound is lowest in expectation at c = E[p̂/ψ]: the mean ratio of the other instances,
        those that are infinite left out. 0 (c = 1) where fewer than two others are finite.
    """
    finite = np.isfinite(ratios)
    kept = np.where(finite, ratios, 0.0)
    count = finite.sum() - finite  # (N,)
    mean = (kept.sum() - kept) / np.maximum(count, 1)  # (N,)
    return np.log(np.where(count < 2, 1.0, mean))


class Ends(NamedTuple):
    """Both ends of log p of the corpus, nats.

    Attributes
    ----------
    low, high : float
        Σ_n log p̂ less, and Σ_n `tangent_bound` plus, `factor` standard errors. Infinite where an
        instance has a half without a positive weight, or there is but one instance.
    factor : float
        Quantile of Student's t: 1.645 for many instances.
    log_constants : ndarray, shape (N,), float64
        From `tuned_constant`.
    """

    low: float
    high: float
    factor: float
    log_constants: np.ndarray


def enclose(log_likelihood: np.ndarray, log_halves: np.ndarray) -> Ends:
    """Enclose log p of the corpus.

    Parameters
    ----------
    log_likelihood : ndarray, shape (N,), float64
        log p̂ of each instance, from all its samples.
    log_halves : ndarray, shape (2, N), float64
        From its halves.

    Returns
    -------
    Ends

    Notes
    -----
    The corpus is fixed: how log p differs between instances is no error. What is one is estimated
    over instances by what halves of samples say of the same instance. With a and b log p̂ of the
    halves of one, the variance of (a + b)/2 is estimated without bias by (a − b)²/4 (both ends have
    that error), and what the upper end has on top, log c + cosh(a − b)/c − 1, varies between
    instances. Both parts may go together, so that their standard errors are added. They come from
    as few observations as there are instances, so the quantile is of Student's t with N − 1 degrees
    of freedom.
    """
    n = log_halves.shape[1]
    log_constants = tuned_constant(half_ratio(log_halves))
    upper = tangent_bound(log_halves, log_constants)  # (N,)
    if n < 2 or not np.isfinite(upper).all():
        return Ends(-math.inf, math.inf, math.nan, log_constants)
    from scipy.special import stdtrit  # most of what starting the command would take

    factor = float(stdtrit(n - 1, CONFIDENCE))
    common = math.sqrt(np.square(log_halves[0] - log_halves[1]).sum()) / 2
    own = math.sqrt(n * (upper - log_halves.mean(0)).var(ddof=1))
    return Ends(
        float(log_likelihood.sum()) - factor * common,
        float(upper.sum()) + factor * (common + own),
        factor,
        log_constants,
    )


def doubts(
    diagnostics: list[Diagnostics], n_tokens: np.ndarray, between_runs: np.ndarray
) -> list[str]:
    """Say why the weights do not allow a two-sided claim.

    Parameters
    ----------
    diagnostics : list of Diagnostics
        Of each of N instances.
    n_tokens : ndarray, shape (N,), int64
        T of each.
    between_runs : ndarray, shape (N,), float64
        Variance of log p̂ between the runs of each; of no concern for samples.

    Returns
    -------
    list of str
        Empty where at least 5 effective samples are the median and what the instances with 90% of
        the tokens have, the median of k̂ is at most 0.7 (an undefined k̂ counts as above, unless
        the tail is constant) or, of runs, the mean variance of log p̂ is at most 4.
    """
    ess = np.array([one.ess for one in diagnostics])
    found, median, low = [], float(np.median(ess)), share_below(ess, n_tokens, FEW_EFFECTIVE)
    if median < FEW_EFFECTIVE:
        found.append(f"the median of effective samples is {median:.1f}, below {FEW_EFFECTIVE:g}")
    if low > LARGEST_LOW_SHARE:
        found.append(
            f"{low:.0%} of the tokens, above {LARGEST_LOW_SHARE:.0%}, are in instances with fewer "
            f"than {FEW_EFFECTIVE:g} effective samples"
        )
    if diagnostics[0].tail == NOT_OF_SAMPLES:
        variance = float(between_runs.mean())
        if not variance <= LARGEST_VARIANCE:
            found.append(
                f"the variance of log p̂ between runs is {variance:.1f} nats², above "
                f"{LARGEST_VARIANCE:g}: about {variance / LARGEST_VARIANCE:.1f} times as many "
                "particles would bring it there"
            )
        return found
    k_hat = float(np.median([_known_k_hat(one) for one in diagnostics]))
    if k_hat > LARGEST_K_HAT:
        said = "undefined" if math.isinf(k_hat) else f"{k_hat:.2f}"
        found.append(f"the median of k̂ is {said}, not known to be at most {LARGEST_K_HAT:g}")
    return found


def _known_k_hat(one: Diagnostics) -> float:
    if one.tail == CONSTANT:
        return -math.inf
    return math.inf if math.isnan(one.k_hat) else one.k_hat


class Bracket(Estimator):
    """Σ_n log p̂ from below and Σ_n `tangent_bound` from above, each widened by its errors.

    Of plain samples, mixtures and runs of sequential Monte Carlo alike. What encloses log p are the
    expectations of both ends, where q misses no latent of p. The ends of one sampling are widened
    by 1.645 standard errors each (`enclose`), and the claim is made only where `doubts` has none:
    where all samples miss the same mass, the halves agree on what they found, and the bracket is
    narrow and wrong. Left out with fewer than `LEAST_SAMPLES` samples or particles of an instance,
    or a single sample of a temperature, or a single run.

    Parameters
    ----------
    inputs : Inputs
    base : Estimator
        One of `BRACKETED`.
    method : str
        Its key.

    Attributes
    ----------
    halves : ndarray, shape (2, N), float64
        log p̂ of the halves of the samples of each instance.
    between_runs : ndarray, shape (N,), float64
        Variance of log p̂ between runs, nats²; NaN of samples.
    """

    title = "Bracket"
    words = "the bracket"
    bound = TWO_SIDED_UNSURE
    needs = ()
    stream = ""

    def __init__(self, inputs: Inputs, base: Estimator, method: str) -> None:
        super().__init__(inputs, {**base.labels, "basis": method})
        self._base, self.group = base, base.group
        n = len(inputs.reader.instance_ids)
        self.halves, self.between_runs = np.full((2, n), np.nan), np.full(n, np.nan)

    @classmethod
    def of(cls, inputs: Inputs) -> list[Self]:
        """Make one for each setting of each method of `BRACKETED`."""
        methods = BRACKETED if inputs.options.bracket else ()
        return [
            cls(inputs, base, key) for key in methods for base in find_estimator(key).of(inputs)
        ]

    def estimate(self, instance: SampledInstance) -> InstanceEstimate:
        """Estimate as the method does, from all samples; keep the halves."""
        found, index = self._base.estimate(instance), instance.position
        assert found.log_weights is not None
        assert found.diagnostics is not None
        self.halves[:, index] = log_half_means(found.log_weights, found.counts)
        if found.diagnostics.tail == NOT_OF_SAMPLES and len(found.log_weights) > 1:
            with np.errstate(invalid="ignore"):
                self.between_runs[index] = found.log_weights.var(ddof=1)
        return found._replace(log_weights=None)

    def estimates(self) -> Iterator[CorpusEstimate]:
        """Give both ends, where there are samples enough."""
        if self.n_samples.min() < LEAST_SAMPLES or np.isnan(self.halves).any():
            return
        ends, n_tokens = enclose(self.log_likelihood, self.halves), self.inputs.reader.n_tokens
        unsure = [*self._missing(ends), *doubts(self.diagnostics, n_tokens, self.between_runs)]
        labels: Fields = {
            "aggregation": "instance",
            "bound": TWO_SIDED_UNSURE if unsure else TWO_SIDED,
            "n_samples": int(self.n_samples.min()),
            "n_infinite": int(np.isneginf(self.log_likelihood).sum()),
            "note": "; ".join([*self._made_of(ends), *unsure]),
            **summarize_diagnostics(self.diagnostics, self.n_samples, n_tokens),
            **self.labels,
        }
        yield CorpusEstimate(labels, math.nan, ends=(ends.low, ends.high))

    def diagnosed(self) -> Iterator[Fields]:
        """Give nothing: the method that it is made of has the diagnostics."""
        return iter(())

    def _made_of(self, ends: Ends) -> Iterator[str]:
        """Say what the bracket rests on."""
        least, most = np.exp([ends.log_constants.min(), ends.log_constants.max()])
        constant = f"{least:.3g}" + (f" to {most:.3g}" if f"{most:.3g}" != f"{least:.3g}" else "")
        tuned = "tuned on the other instances" if len(ends.log_constants) > 2 else "not tuned"
        yield (
            f"rests on {self._base.words}: from log p̂ of all samples to the tangent bound of each "
            f"half of them at c p̂ of the other, c = {constant} ({tuned})"
        )
        if math.isfinite(ends.factor):
            yield f"both ends are widened by {ends.factor:.3f} standard errors over instances"
        checked = self.inputs.reader.from_run
        yield (
            "mass that all samples miss is missing in both ends, so that log p may silently be "
            "above them and the perplexity below; that q can draw every latent of p is "
            + ("checked when models are paired" if checked else "taken as given of these weights")
        )

    def _missing(self, ends: Ends) -> Iterator[str]:
        """Say why there is no error, or what is wrong with the ends."""
        lost = int(np.isneginf(self.halves).any(0).sum())
        if lost:
            yield f"{lost} instances have no positive weight in a half of their samples"
        elif self.halves.shape[1] < 2:
            yield "there is a single instance: no error over instances, and so no end"
        elif not math.isfinite(ends.high):
            yield "the halves of an instance are too far apart for a bound"
        if ends.low > ends.high:
            yield "the ends cross: low is above high, and is left so"
