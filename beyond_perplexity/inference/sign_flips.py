"""Sign-flip tests of paired differences: which sums over groups other signs would have given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from beyond_perplexity.random_streams import stream

# With so many groups all 2^G signs are tried.
EXACT_GROUPS = 20
BLOCK = 256  # flips of a stream
CELLS = 1 << 22  # signs that are held at once
# Sums that differ by less than this share of what is summed are ties that rounding has parted.
TIE = 1e-10


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

    The statistic is |Σ_g d_g|, d_g the difference of the two columns in group g. The signs of the
    groups are flipped independently: the p-value is the share of sums that are as large. It is
    exact where group differences are symmetric about 0 (models that could be exchanged), else
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
