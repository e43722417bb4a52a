"""Random orders of samples: subsets of every size for the curves, pairings for the corpus level.

The corpus level multiplies sample k of every instance (paper, Eq. 6): which samples are paired is
arbitrary. A random order of each instance's samples is a random pairing, and its first samples are
a random subset without replacement.
"""

from __future__ import annotations

import numpy as np

from beyond_perplexity.inference.log_space import log_sum_exp

VALUES_HELD = 2**25  # log weights of all pairings that are summed over the corpus: 256 MiB
LEAST_ORDERS = 8
_VALUES_AT_ONCE = 2**22


def n_orders(wanted: int, n_samples: int) -> int:
    """Return how many random orders are drawn: fewer than `wanted` of very many samples.

    Parameters
    ----------
    wanted : int
        R of the options.
    n_samples : int
        K. Of so many that the orders would hold more than `VALUES_HELD` log weights there are
        fewer, but `LEAST_ORDERS` at least; the means over them spread the less, the larger K is.

    Returns
    -------
    int
    """
    return min(wanted, max(LEAST_ORDERS, VALUES_HELD // n_samples))


def rows_at_once(n_samples: int) -> int:
    """Return how many orders of K samples are held at once; changes no number."""
    return max(1, _VALUES_AT_ONCE // n_samples)


def subset_sizes(n_samples: int) -> np.ndarray:
    """Return 1, 2, 5, 10, 20, 50, ... below K, and K; int64."""
    steps = (digit * 10**power for power in range(len(str(n_samples))) for digit in (1, 2, 5))
    return np.array([*(size for size in steps if size < n_samples), n_samples], np.int64)


def random_orders(
    log_weights: np.ndarray, n_orders: int, random: np.random.Generator
) -> np.ndarray:
    """Put log weights in random orders.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights of one instance.
    n_orders : int
        R.
    random : numpy.random.Generator
        Where the orders come from.

    Returns
    -------
    ndarray, shape (R, K), float64
        Each row has the same weights in an order of its own.
    """
    orders = np.empty((n_orders, len(log_weights)))
    for row in orders:  # faster than Generator.permuted of all rows
        row[:] = random.permutation(log_weights)
    return orders


def prefix_log_means(log_weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Estimate log p̂ from the first k samples of each row, for several k.

    Parameters
    ----------
    log_weights : ndarray, shape (R, K), float64
        Log weights in random orders.
    sizes : ndarray, shape (S,), int64
        The k, ascending, at most K.

    Returns
    -------
    ndarray, shape (R, S), float64
        log p̂ of each subset.
    """
    sums = np.full(len(log_weights), -np.inf)
    found = np.empty((len(log_weights), len(sizes)))
    start = 0
    for column, size in enumerate(sizes.tolist()):
        sums = np.logaddexp(sums, log_sum_exp(log_weights[:, start:size], 1))
        found[:, column] = sums - np.log(size)
        start = size
    return found
