"""Rows of a batch whose numbers do not depend on how many there are.

Matrix products of few rows take other kernels than those of many (measured with MKL: fewer than
12), so that on a CPU rows come in whole quanta. Whole quanta do on processors of Intel; on those of
AMD MKL has to be in its reproducible mode as well, which the package sets (`__init__.py`).
"""

from __future__ import annotations

from torch import Tensor, cat
from torch.nn import functional

QUANTUM = 16  # rows
# Rows of n places are filled up to a multiple of the first number that n reaches.
_STEPS = ((512, 128), (128, 32), (0, 8))


def padded_width(length: int) -> int:
    """Return how many places a row is filled up to: a matter of its length alone."""
    step = next(step for least, step in _STEPS if length > least or not least)
    return max(1, -(-length // step)) * step


def rows_of_batch(width: int, positions: int) -> int:
    """Return how many rows of a width have about so many positions: whole quanta, one at least."""
    return max(1, positions // width // QUANTUM) * QUANTUM


def round_up(rows: Tensor) -> Tensor:
    """Repeat the last row until there is a whole number of quanta: (R', ...) to (R, ...)."""
    missing = -len(rows) % QUANTUM
    return cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def sum_rows(values: Tensor) -> Tensor:
    """Add up each row, (R, W), from left to right: zeros at its end do not change the rounding."""
    return functional.pad(values, (1, 0)).cumsum(1)[:, -1]  # (R,)
