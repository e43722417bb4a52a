"""How far to trust an importance sampling estimate: effective size, tail, standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.log_space import log_mean_exp, log_sum_exp, to_perplexity

# Values of the column `tail`: what the largest weights are, and so whether k̂ is defined.
FITTED = "fitted"
SHORT = "short"  # fewer samples than the fit of a tail needs
CONSTANT = "constant"  # all of the tail alike: no tail, as with q = p(z | x)
TIED = "tied"  # a quarter of the tail or more equals its threshold, as with few distinct latents
DEGENERATE = "degenerate"  # apart by more than float64 can hold: k̂ is infinite
EMPTY = "empty"  # all weights are 0
NOT_OF_SAMPLES = "the weights are of runs, not of samples"  # nothing is fitted to them

_LEAST_TAIL = 5
# What the delta method needs: a small relative variance of p̂, from enough effective samples for
# that to be no accident.
LARGEST_RELATIVE_VARIANCE = 0.1
LEAST_EFFECTIVE = 10.0
# Below it next to nothing is known of an instance, and no two-sided claim is made.
FEW_EFFECTIVE = 5.0
CONSTANT_VARIANCE = 1e-12  # what rounding leaves of equal weights
_ROUNDING = 1e-6
# Values gathered at once by the bootstrap: what the cache of a core holds.
_BOOTSTRAP_VALUES = 2**17


class Diagnostics(NamedTuple):
    """The diagnostics of one set of K weights.

    Attributes
    ----------
    ess : float
        Effective sample size (Σ w)² / Σ w², from 1 to K; 0 when all weights are 0.
    largest_weight : float
        Largest w / Σ w; NaN when all weights are 0.
    unique_share : float
        Distinct latents per sample; NaN when the latents are not known.
    k_hat : float
        Shape of the generalized Pareto distribution of the largest weights; NaN when undefined.
    tail : str
        Why `k_hat` is defined or not.
    """

    ess: float
    largest_weight: float
    unique_share: float
    k_hat: float
    tail: str


def effective_samples(log_weights: np.ndarray) -> float:
    """Return (Σ w)² / Σ w², from 1 to K, of log weights (K,); 0 when all weights are 0.

    References
    ----------
    Kong (1992), "A note on importance sampling using standardized weights".

    Examples
    --------
    >>> round(effective_samples(np.log([1.0, 1.0, 2.0])), 3)
    2.667
    """
    total = log_sum_exp(log_weights)
    if np.isneginf(total):
        return 0.0
    return float(1.0 / np.square(np.exp(log_weights - total)).sum())


def diagnose(log_weights: np.ndarray, latent_hash: np.ndarray | None = None) -> Diagnostics:
    """Compute the diagnostics of one set of weights.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights, nats.
    latent_hash : ndarray, shape (K,), int64, optional
        Equal for equal latents.

    Returns
    -------
    Diagnostics

    Examples
    --------
    >>> found = diagnose(np.log([1.0, 1.0, 2.0, 4.0]))
    >>> round(found.ess, 3), round(found.largest_weight, 3), found.tail
    (2.909, 0.5, 'short')
    """
    total = log_sum_exp(log_weights)
    unique = float("nan") if latent_hash is None else len(np.unique(latent_hash)) / len(latent_hash)
    k_hat, tail = pareto_k_hat(log_weights)
    if np.isneginf(total):
        return Diagnostics(0.0, float("nan"), unique, k_hat, tail)
    largest = float(np.exp(log_weights - total).max())
    return Diagnostics(effective_samples(log_weights), largest, unique, k_hat, tail)


def k_hat_threshold(n_samples: int) -> float:
    """Return min(1 − 1/log10 K, 0.7), above which an estimate is not to be trusted; NaN for K = 1.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling".

    Examples
    --------
    >>> k_hat_threshold(100), k_hat_threshold(10_000)
    (0.5, 0.7)
    """
    return min(1.0 - 1.0 / float(np.log10(n_samples)), 0.7) if n_samples > 1 else float("nan")


def rounding(value: float) -> float:
    """Return by how much numbers of this size may differ that float32 would have equal."""
    return _ROUNDING * max(1.0, abs(value))


def tail_size(n_samples: int) -> int:
    """Return how many of the largest weights the library fits."""
    return int(3 * n_samples**0.5) if n_samples > 225 else n_samples // 5


def pareto_k_hat(log_weights: np.ndarray) -> tuple[float, str]:
    """Fit a generalized Pareto distribution to the largest weights.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights, nats.

    Returns
    -------
    k_hat : float
        The shape; NaN where the tail has none.
    tail : str
        ``"fitted"``, or why not: see the constants of this module.

    Notes
    -----
    The fit is that of arviz-stats, which takes −log w. Weights of discrete latents tie; the fit
    divides by the lower quartile of the excess over the threshold, so that must be positive. What
    differs by `rounding` ties too: equal sums in another order are no tail.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> k_hat, tail = pareto_k_hat(rng.exponential(size=4000) / 2)  # weights with tail index 2
    >>> round(k_hat, 1), tail
    (0.6, 'fitted')
    """
    size = tail_size(len(log_weights))
    largest = log_weights.max()
    if np.isneginf(largest):
        return float("nan"), EMPTY
    if size < _LEAST_TAIL:
        return float("nan"), SHORT
    tail = np.sort(log_weights)[-size - 1 :]
    threshold, quartile = tail[0], tail[int(size / 4 + 0.5)]
    equal = rounding(largest)
    if largest <= tail[1] + equal:
        return float("nan"), CONSTANT
    if quartile <= threshold + equal:
        return float("nan"), TIED
    if np.exp(quartile - largest) <= np.exp(threshold - largest):
        return float("inf"), DEGENERATE
    from arviz_stats.base import array_stats  # most of what starting a job would take

    with np.errstate(all="ignore"):
        _, k_hat = array_stats.psislw(-log_weights)
    return float(k_hat), FITTED


def relative_variance(log_weights: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Compute Var(p̂) / p̂², by the delta method the variance of log p̂.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights, those of one proposal after those of the other.
    counts : ndarray, shape (J,), int64, optional
        How many of them each of J proposals drew; without, all are of one.

    Returns
    -------
    float
        Σ_j (K_j / K)² s_j² / (K_j p̂²) with s_j² the sample variance of the weights of proposal j;
        for one proposal (K / ESS − 1) / (K − 1). NaN when a proposal has one sample only or all
        weights are 0.
    """
    counts = np.array([len(log_weights)]) if counts is None else counts
    mean = log_mean_exp(log_weights)
    if np.isneginf(mean) or counts.min() < 2:
        return float("nan")
    scaled = np.exp(log_weights - mean)  # mean 1
    parts = np.split(scaled, np.cumsum(counts)[:-1])
    return float(sum(len(part) * part.var(ddof=1) for part in parts) / len(scaled) ** 2)


def error_variance(log_weights: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return the relative variance of p̂ where there are samples enough to tell, else infinity.

    Parameters are those of `relative_variance`; NaN where that is. Few weights that agree may do so
    by luck: of 4 log-normal weights with σ = 1 a third have a relative variance below 0.1, and then
    say half of the true error.
    """
    variance = relative_variance(log_weights, counts)
    few = len(log_weights) / (1 + variance * (len(log_weights) - 1)) < LEAST_EFFECTIVE
    return float("inf") if few and variance > CONSTANT_VARIANCE else variance


def delta_variance(variances: np.ndarray) -> float:
    """Sum the variances of log p̂ over independent instances, where the delta method holds.

    Parameters
    ----------
    variances : ndarray, shape (M,), float64
        Of each instance or, at the level of the corpus, of its products: `error_variance`.

    Returns
    -------
    float
        Variance of Σ log p̂, nats²; NaN when there are none, one is NaN, or one is above
        `LARGEST_RELATIVE_VARIANCE`.

    Notes
    -----
    The variance of log p̂ is Var(p̂) / p̂² to first order alone, and that is estimated by
    (K / ESS − 1) / (K − 1), which cannot pass 1: where one weight outweighs all others it says one
    nat, however far above the others it is. The estimated variance of weights is small by chance
    where their true variance is large (Chatterjee & Diaconis 2018), and with few effective samples
    an estimate is not to be trusted (Owen 2013, section 9.3). With K = 100 log-normal weights,
    standard errors by the delta method are 0.97 of the true spread of log p̂ at an ESS of 28, 0.77
    at 11, 0.38 at 2 and 0.12 at 1.0; those by bootstrap are 0.7 to 1.0 of it throughout.

    References
    ----------
    Owen (2013), "Monte Carlo theory, methods and examples", chapter 9.
    Chatterjee & Diaconis (2018), "The sample size required in importance sampling".
    """
    holds = len(variances) > 0 and (variances <= LARGEST_RELATIVE_VARIANCE).all()
    return float(variances.sum()) if holds else float("nan")


def bootstrap_samples(
    log_weights: np.ndarray,
    n_replicates: int,
    random: np.random.Generator,
    counts: np.ndarray | None = None,
) -> np.ndarray:
    """Draw bootstrap replicates of log p̂ by resampling the samples with replacement.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights, those of one proposal after those of the other.
    n_replicates : int
        B.
    random : numpy.random.Generator
        Where the resamples come from.
    counts : ndarray, shape (J,), int64, optional
        How many each of J proposals drew; each is resampled on its own.

    Returns
    -------
    ndarray, shape (B,), float64
        log p̂ of each resample; −inf where no positive weight is left in it.

    Examples
    --------
    >>> weights = np.log(np.random.default_rng(0).gamma(2, size=500))
    >>> found = bootstrap_samples(weights, 1000, np.random.default_rng(1))
    >>> round(float(found.std()), 2)
    0.03
    """
    counts = np.array([len(log_weights)]) if counts is None else counts
    starts = np.cumsum(counts) - counts
    rows = max(1, _BOOTSTRAP_VALUES // len(log_weights))
    found = []
    for first in range(0, n_replicates, rows):
        n = min(rows, n_replicates - first)
        chosen = [
            random.integers(start, start + count, (n, count), dtype=np.int32)
            for start, count in zip(starts, counts, strict=True)
        ]
        found.append(log_mean_exp(log_weights[np.concatenate(chosen, 1)], 1))  # (n, K) to (n,)
    return np.concatenate(found) if found else np.empty(0)


def bootstrap_instances(
    log_likelihoods: np.ndarray,
    n_tokens: np.ndarray,
    n_replicates: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Draw bootstrap replicates of the perplexity by resampling the instances with replacement.

    Parameters
    ----------
    log_likelihoods : ndarray, shape (N,), float64
        log p̂ of each instance.
    n_tokens : ndarray, shape (N,), int64
        T of each; the sum of T varies with the resample.
    n_replicates : int
        B.
    random : numpy.random.Generator
        Where the resamples come from.

    Returns
    -------
    ndarray, shape (B,), float64
        exp(−Σ log p̂ / Σ T) of each resample.

    Examples
    --------
    >>> lengths = np.arange(10, 40)
    >>> found = bootstrap_instances(-5.0 * lengths, lengths, 100, np.random.default_rng(0))
    >>> bool(np.allclose(found, np.exp(5)))
    True
    """
    n = len(log_likelihoods)
    found = np.empty(n_replicates)
    for replicate in range(n_replicates):
        chosen = random.integers(0, n, n)
        found[replicate] = to_perplexity(log_likelihoods[chosen].sum(), n_tokens[chosen].sum())
    return found
