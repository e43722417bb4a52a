"""What the largest weights of all instances may lack, and the end of log p that allows for it.

That the ends of `enclosing` hold rests on errors that are estimated from the same weights. Where
these have a heavy tail, what the errors miss is what the mean misses: the rare weights. So the
tail of all instances' weights together is fitted, and the upper end goes up to the largest mean
that its likelihood bears out.

N instances, K samples of one, M weights of the tail, G shapes, H scales.
"""

from __future__ import annotations

import math

import numpy as np

from beyond_perplexity.inference.log_space import log_sum_exp
from beyond_perplexity.inference.weight_diagnostics import rounding, tail_size

# 3.29 standard errors: the region of a likelihood ratio that leaves 0.001 out. With less, few
# claims miss, but many of those that are made because the weights look better than they are.
_LARGEST_DEVIANCE = 3.29**2
# A heavier tail is for k̂ to refute. The scales are those of the median excess times a factor.
_SHAPES = np.linspace(-0.6, 0.85, 31)  # (G,), none of them 0
_FACTORS = np.exp(np.linspace(-1.6, 1.6, 49))  # (H,)


class PooledTail:
    """The largest weights of all instances, each over the mean of the others of its instance.

    Parameters
    ----------
    n_weights : int
        Of all instances together.
    """

    def __init__(self, n_weights: int) -> None:
        self._size, self._n_weights = tail_size(n_weights), n_weights
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
        """Return log p of all instances if the tail is as heavy as its likelihood bears out.

        Returns
        -------
        float
            Σ_n E_k log p̂ without sample k, plus N log of the mean of the ratios, nats, after the
            mean excess of the tail is replaced by `largest_mean_excess`.

        Notes
        -----
        A weight and the mean m of the others are independent, so that E[w/m] = p E[1/m] and, by
        Jensen's inequality, log p ≤ E log m + log E[w/m]; over instances, Σ_n log E_n ≤ N log of
        the mean of E_n.
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
    """Return the largest mean of a generalized Pareto distribution that excesses bear out.

    Parameters
    ----------
    excess : ndarray, shape (M,), float64
        Over a threshold, positive.

    Returns
    -------
    float
        The largest σ / (1 − k) of those k and σ whose twice log likelihood is within
        `_LARGEST_DEVIANCE` of the best; k from −0.6 to 0.85, as with more it may be anything.
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
