"""Rows of a batch whose numbers do not depend on how many there are.

Matrix products of few rows take other kernels than those of many (measured with MKL: fewer than
12), so that on a CPU rows come in whole quanta.
"""

from __future__ import annotations

from torch import Tensor, cat
from torch.nn import functional

QUANTUM = 16  # rows


def round_up(rows: Tensor) -> Tensor:
    """Repeat the last row until there is a whole number of quanta: (R', ...) to (R, ...)."""
    missing = -len(rows) % QUANTUM
    return cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def sum_rows(values: Tensor) -> Tensor:
    """Add up each row, (R, W), from left to right: zeros at its end do not change the rounding."""
    return functional.pad(values, (1, 0)).cumsum(1)[:, -1]  # (R,)
