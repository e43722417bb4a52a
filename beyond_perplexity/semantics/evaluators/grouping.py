"""Texts in groups of one length, so that on a CPU no text's vector depends on the others.

Rows of a group come in whole quanta (see `invariant_tensors`) and none is filled up with more than
its own length asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

GROUP_ROWS = 64  # a multiple of `invariant_tensors.QUANTUM`
QUANTUM_OF_ROWS = 16


def groups_of_one_length(
    lengths: Sequence[int] | NDArray[np.int64], step: int = 1, rows: int = GROUP_ROWS
) -> Iterator[NDArray[np.int64]]:
    """Cut texts into groups whose lengths, rounded up to a multiple of a step, are the same.

    Parameters
    ----------
    lengths : sequence of int
        Of the texts.
    step : int
        Lengths that are alike when rounded up to a multiple of it share groups.
    rows : int
        Texts of a group at most.

    Yields
    ------
    ndarray of int64
        Numbers of texts, the last repeated up to a whole number of quanta: a result is written
        again. All numbers occur, longest texts first.
    """
    held = -(-np.asarray(lengths, np.int64) // step)
    order = np.argsort(-held, kind="stable")
    ends = np.flatnonzero(np.diff(held[order], append=-1)) + 1
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        for first in range(start, end, rows):
            part = order[first : min(first + rows, end)]
            missing = -len(part) % QUANTUM_OF_ROWS
            yield np.concatenate([part, np.repeat(part[-1:], missing)])
