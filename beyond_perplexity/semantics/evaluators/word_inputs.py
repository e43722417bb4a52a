"""Sentences as rows of word vectors, for networks that read them.

N texts, T words of the longest of a group, E numbers of a word vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beyond_perplexity.semantics.evaluators.grouping import groups_of_one_length

STEP = 4  # lengths up to the next multiple of it share a group


class InputGroup(NamedTuple):
    """Texts of like length."""

    places: NDArray[np.int64]  # int64, (B,): which texts they are
    vectors: Tensor  # float32, (B, T, E)
    lengths: Tensor  # int64, (B,)


def input_groups(
    rows: Sequence[Sequence[int]], vectors: NDArray[np.float32]
) -> Iterator[InputGroup]:
    """Put N texts, rows of `vectors` (V, E), into groups of like length, none empty."""
    lengths = np.array([len(row) for row in rows], np.int64)
    there = np.flatnonzero(lengths)
    for group in groups_of_one_length(lengths[there], STEP) if len(there) else ():
        places = there[group]
        longest = -(-int(lengths[places].max()) // STEP) * STEP
        ids = np.zeros((len(places), longest), np.int64)
        for row, place in enumerate(places):
            ids[row, : lengths[place]] = rows[place]
        own = torch.from_numpy(np.ascontiguousarray(vectors[ids], np.float32))
        yield InputGroup(places, own, torch.from_numpy(lengths[places]))


def encode_groups(
    rows: Sequence[Sequence[int]],
    vectors: NDArray[np.float32],
    width: int,
    encode: Callable[[Tensor, Tensor], Tensor],
    device: torch.device,
) -> NDArray[np.float32]:
    """Return the vectors of texts, float32 (N, width); NaN for those without a word.

    `rows` and `vectors` are as for `input_groups`; `encode` makes of word vectors (B, T, E) and
    lengths (B,) those of texts, (B, width).
    """
    found = np.full((len(rows), width), np.nan, np.float32)
    with torch.inference_mode():
        for group in input_groups(rows, vectors):
            encoded = encode(group.vectors.to(device), group.lengths.to(device))
            found[group.places] = encoded.float().cpu().numpy()
    return found
