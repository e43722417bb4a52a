"""P-values of permutations, Monte Carlo draws and sign flips; of families, by Holm or max-T."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from beyond_perplexity.inference.permuted_units import VERDICT_LEVELS
from beyond_perplexity.random_streams import stream

_TIE = 1e-12  # statistics closer than this differ by rounding alone
_Key = TypeVar("_Key")


def joined_draws(parts: Iterable[Mapping[_Key, np.ndarray]]) -> dict[_Key, np.ndarray]:
    """Put the draws (r,) of each measure from some blocks one after the other; {} of no block."""
    held = list(parts)
    return {key: np.concatenate([part[key] for part in held]) for key in held[0]} if held else {}


def permutation_p(observed: float, permuted: np.ndarray, *, two_sided: bool = False) -> float:
    """Compute the p-value of a randomization test.

    p = (b + 1) / (B + 1), with b the randomizations whose statistic is at least the observed one:
    under the null all B + 1 are exchangeable and the test is exact. Of a distance only the upper
    tail speaks against the null: a text against itself has p = 1.

    Parameters
    ----------
    observed : float
        The statistic of the data.
    permuted : numpy.ndarray, shape (B,)
        The statistic of every randomization; one not defined (a side without tokens) counts as
        extreme.
    two_sided : bool
        Whether absolute values are compared, for a signed difference.

    Returns
    -------
    float
        From 1 / (B + 1) to 1; NaN without randomizations or when the statistic is not defined.

    References
    ----------
    Phipson and Smyth (2010). Permutation p-values should never be zero.

    Examples
    --------
    >>> permutation_p(0.9, np.array([0.1, 0.5, 0.9, 0.3]))
    0.4
    """
    if len(permuted) == 0 or np.isnan(observed):
        return float("nan")
    if two_sided:
        observed, permuted = abs(observed), np.abs(permuted)
    extreme = ~(permuted < observed - _TIE * max(1.0, observed))
    return float((extreme.sum() + 1) / (len(permuted) + 1))


def monte_carlo_p(observed: float, drawn: np.ndarray) -> float:
    """Compute the upper-tail p-value (b + 1) / (B + 1) of a distance drawn under the null.

    Parameters
    ----------
    observed : float
        The distance of the data.
    drawn : numpy.ndarray, shape (B,)
        The distance of samples of the null distribution.

    Returns
    -------
    float
        NaN without draws or when the distance is not defined.

    Examples
    --------
    >>> monte_carlo_p(0.2, np.array([0.1, 0.3, 0.15]))
    0.5
    """
    if len(drawn) == 0 or np.isnan(observed):
        return float("nan")
    return float((np.sum(drawn >= observed - _TIE) + 1) / (len(drawn) + 1))


def student_quantile(level: float, df: float | np.ndarray) -> np.ndarray:
    """Return the quantile of Student's t at a level, normal for infinite degrees of freedom."""
    from scipy.special import stdtrit  # late, as everywhere in this package

    return stdtrit(df, level)


def student_tail(t: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return the upper tail of Student's t: P(T >= t)."""
    from scipy.special import stdtr

    return stdtr(df, -t)


_ROUNDING = 1e-9


def holm(p_values: Sequence[float], sample_sets: int = 1) -> np.ndarray:
    """Adjust p-values for their number by Holm's method.

    Parameters
    ----------
    p_values : sequence of float, shape (m,)
        The p-values of a family.
    sample_sets : int
        How many such families are one: a further factor (Bonferroni).

    Returns
    -------
    numpy.ndarray of float64, shape (m,)
        The i-th smallest is multiplied by m + 1 - i, made monotone, at most 1. Rejecting what is
        at most a level keeps the familywise error at the level, however the tests depend.

    References
    ----------
    Holm (1979). A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, float)
    order = np.argsort(given, kind="stable")
    steps = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(steps * sample_sets, 1)
    return adjusted


def holm_chains(chains: Sequence[Sequence[float]], families: int = 1) -> list[list[float]]:
    """Adjust the p-values of chains of tests, of which each is made once the one before rejects.

    Parameters
    ----------
    chains : sequence of sequence of float
        A test and those behind it, whose null hypotheses follow from its own one.
    families : int
        How many such families are one: a further factor (Bonferroni).

    Returns
    -------
    list of list of float
        Every p-value is multiplied by the number of chains of which not all tests are rejected yet,
        the smallest of those that can be tested first; made monotone, at most 1. The familywise
        error over all tests of all chains is at most the level: of a chain one true null
        hypothesis at most can be the first that is tested.

    References
    ----------
    Goeman and Solari (2010). The sequential rejection principle of familywise error control. Annals
    of Statistics 38.

    Examples
    --------
    >>> holm_chains([[0.01, 0.04], [0.03], [0.2]])
    [[0.03, 0.09], [0.09], [0.2]]
    """
    found, largest = [list[float]() for _ in chains], 0.0
    while alive := [k for k, chain in enumerate(chains) if len(found[k]) < len(chain)]:
        smallest, k = min((chains[k][len(found[k])], k) for k in alive)
        largest = max(largest, min(1.0, smallest * len(alive) * families))
        found[k].append(largest)
    return found


def needed_draws(size: int, level: float, draws: int) -> int | None:
    """Return how many draws a star of a level needs in a family of tests; None where it can appear.

    The smallest adjusted p-value is size / (draws + 1), and a star needs one strictly below the
    level.

    Examples
    --------
    >>> needed_draws(8, 0.005, 999), needed_draws(8, 0.05, 999)
    (1600, None)
    """
    if size / (draws + 1) < level - _ROUNDING:
        return None
    return math.floor(size / level + _ROUNDING)


def draw_warning(size: int, draws: int, name: str) -> str:
    """Say which stars so many draws of a name cannot give to a family of tests, or nothing."""
    needed = {level: needed_draws(size, level, draws) for level in VERDICT_LEVELS}
    beyond = [level for level in VERDICT_LEVELS if needed[level] is not None]
    if not beyond:
        return ""
    return (
        f"{draws:,} {name} cannot give p < {beyond[0]:g} in a family of {size} tests: "
        f"{needed[beyond[-1]]:,} are needed{'' if len(beyond) == 1 else f' for p < {beyond[-1]:g}'}"
    )


# With so many groups all 2^G signs are tried.
EXACT_GROUPS = 20
BLOCK = 256  # flips of a stream
CELLS = 1 << 22  # signs that are held at once
# Sums that differ by less than this share of what is summed are ties that rounding has parted.
TIE = 1e-10


def adjust_rows(rows: Sequence[MutableMapping[str, Any]]) -> None:
    """Adjust the p-values of rows with an interval as one family."""
    tested = [row for row in rows if row["low"] is not None]
    for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_adjusted"] = float(adjusted)


def _all_sums(columns: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the sums of all 2^G signs, 2^⌈G/2⌉ at a time; shape (n, M)."""
    half = len(columns) // 2
    parts = []
    for part in (columns[:half], columns[half:]):
        bits = np.arange(2 ** len(part))[:, None] >> np.arange(len(part)) & 1
        parts.append((1.0 - 2.0 * bits) @ part)
    for row in parts[0]:
        yield row + parts[1]


def _drawn_sums(columns: np.ndarray, flips: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the sums of drawn signs; shape (n, M). Flip k has the same signs for every model."""
    groups, total = len(columns), columns.sum(axis=0)
    words = -(-groups // 64)
    rows = max(1, CELLS // groups)
    for block in range(-(-flips // BLOCK)):
        random = stream(seed, "perplexity/sign-flips", block).bit_generator
        left = min(BLOCK, flips - block * BLOCK)
        while left:
            count = min(rows, left)
            drawn = random.random_raw(count * words).astype("<u8").view(np.uint8)
            bits = np.unpackbits(drawn.reshape(count, -1), axis=1, count=groups, bitorder="little")
            yield total - 2 * (bits.astype(np.float64) @ columns)
            left -= count


def flipped_sums(columns: np.ndarray, flips: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the sums of columns (G, M) over groups with other signs, some at a time; (n, M).

    Of at most `EXACT_GROUPS` groups all 2^G signs, the given ones first, else `flips` drawn ones.
    All columns of a flip share their signs.
    """
    exact = len(columns) <= EXACT_GROUPS
    return _all_sums(columns) if exact else _drawn_sums(columns, flips, seed)


def sign_flip_p_values(
    columns: np.ndarray, pairs: Sequence[tuple[int, int]], flips: int, seed: int
) -> list[float]:
    """Test for each pair of models whether their differences sum to zero in expectation.

    The statistic is |Σ_g d_g|, where d_g is the difference of the two columns in group g. The signs
    of the groups are flipped independently: the p-value is the share of sums that are as large. It
    is exact where group differences are symmetric about 0 (models that could be permuted), else
    approximate: of 26 groups with exponential skew 9% are below .05.

    Parameters
    ----------
    columns : ndarray of float64, shape (G, M)
        Sum of each group (bits) under each model.
    pairs : sequence of (int, int)
        Indices of the models of each test. All share their flips.
    flips : int
        Drawn flips, where G exceeds `EXACT_GROUPS`; then p = (1 + larger) / (1 + flips).
    seed : int

    Returns
    -------
    list of float
        One p-value a pair.

    References
    ----------
    Fisher (1935). The design of experiments, §21. Phipson and Smyth (2010). Permutation p-values
    should never be zero.

    Examples
    --------
    >>> bits = np.array([[10.0, 9.0], [12.0, 10.0], [8.0, 7.5], [11.0, 9.5], [9.0, 8.8]])
    >>> sign_flip_p_values(bits, [(0, 1)], flips=999, seed=0)
    [0.0625]
    """
    first, second = (np.array([pair[side] for pair in pairs], int) for side in (0, 1))
    centred = columns - columns.mean(axis=1, keepdims=True)
    sizes = np.abs(centred).sum(axis=0)
    seen = np.abs((centred[:, first] - centred[:, second]).sum(axis=0))
    least = seen - TIE * (sizes[first] + sizes[second])
    larger, drawn = np.zeros(len(pairs), np.int64), 0
    for part in flipped_sums(centred, flips, seed):
        larger += np.count_nonzero(np.abs(part[:, first] - part[:, second]) >= least, axis=0)
        drawn += len(part)
    own = 0 if len(columns) <= EXACT_GROUPS else 1
    return [float((count + own) / (drawn + own)) for count in larger]


_NEAR = 1e-5  # of statistics of 32 bits, closer than which they are ties that rounding has parted


class MaxT(NamedTuple):
    """What `max_t` found, float64, (W,): standardized statistics and their two-sided p-values.

    `df` are the degrees of freedom of Student's t that has the kurtosis of the draws.
    """

    t: np.ndarray
    p_value: np.ndarray
    p_adjusted: np.ndarray
    df: np.ndarray


def max_t(draws: np.ndarray) -> MaxT:
    """Test W statistics on shared randomizations, and adjust for their number by max-T.

    Every statistic is first centred and scaled by its own mean and standard deviation over all
    draws, those of the data among them: so all weigh alike in the largest one, whatever is
    permuted, and the tests stay exact. Step-down: the k-th largest statistic is held against the
    largest one of those that are not larger, in every draw. The error over all features is at most
    the level where the sides are alike in all of them, and asymptotically where some differ.

    Parameters
    ----------
    draws : numpy.ndarray of float, shape (B + 1, W)
        The statistics under B randomizations, and last those of the data.

    Returns
    -------
    MaxT
        P-values are from 1 / (B + 1) to 1, and 1 where the statistic of the data is 0.

    References
    ----------
    Westfall and Young (1993). Resampling-based multiple testing, algorithm 4.1. Phipson and Smyth
    (2010). Permutation p-values should never be zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.standard_normal((1000, 50))
    >>> draws[-1, 0] = 6.0
    >>> found = max_t(draws)
    >>> found.p_adjusted[0].round(4).item(), bool((found.p_adjusted[1:] > 0.2).all())
    (0.001, True)
    """
    zero = draws[-1] == 0
    spread = draws.std(axis=0, dtype=float)
    spread, centre = np.where(spread > 0, spread, 1.0), draws.mean(axis=0, dtype=float)
    sizes = (draws - centre.astype(draws.dtype)) / spread.astype(draws.dtype)
    t = sizes[-1].astype(float)
    excess = np.mean(sizes**4, axis=0, dtype=float) - 3 - 2 * np.sqrt(24 / len(draws))  # 2 errors
    df = 4 + 6 / np.maximum(excess, 1e-9)
    order = np.argsort(-np.abs(t), kind="stable")
    sizes = np.abs(sizes)[:, order]
    least = sizes[-1] - _NEAR * (1 + sizes[-1])
    p_value, p_adjusted = np.ones(len(t)), np.ones(len(t))
    p_value[order] = np.mean(sizes >= least, axis=0)
    largest = np.maximum.accumulate(sizes[:, ::-1], axis=1)[:, ::-1]
    p_adjusted[order] = np.maximum.accumulate(np.mean(largest >= least, axis=0))
    p_value[zero], p_adjusted[zero] = 1.0, 1.0
    return MaxT(t, p_value, p_adjusted, df)


def benjamini_yekutieli(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values so that rejecting at a level keeps the false discovery rate at it.

    Parameters
    ----------
    p_values : numpy.ndarray, shape (m,)

    Returns
    -------
    numpy.ndarray of float64, shape (m,)
        The k-th smallest is multiplied by m / k * (1 + 1/2 + ... + 1/m), made monotone, at most 1:
        valid however the tests depend.

    References
    ----------
    Benjamini and Yekutieli (2001). The control of the false discovery rate in multiple testing
    under dependency. Annals of Statistics 29.

    Examples
    --------
    >>> benjamini_yekutieli(np.array([0.001, 0.02, 0.9])).round(4).tolist()
    [0.0055, 0.055, 1.0]
    """
    order = np.argsort(p_values, kind="stable")
    ranks = np.arange(1, len(order) + 1)
    steps = np.asarray(p_values, float)[order] * len(order) / ranks * np.sum(1 / ranks)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1)
    return adjusted
