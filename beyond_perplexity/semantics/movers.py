"""Word Mover's Distance: the least mean distance over which words of one text become the other's.

Texts of as many words are an assignment (Birkhoff), others a transport between distinct words, by
the network simplex of POT (Flamary et al. 2021). What both texts have stays: no plan is shorter, as
distances obey the triangle inequality. Kusner et al. (2015), From word embeddings to document
distances.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.word_cosines import NO_WORD, Ids, TextIds, Vectors


class Surplus(NamedTuple):
    """Words of N texts, and how many of each."""

    words: TextIds  # distinct within a text, in its order, whatever their ids are; U in all
    masses: Ids  # int64, (U,): positive

    def of(self, index: int) -> Ids:
        """Return the masses of one text."""
        return self.masses[self.words.starts[index] : self.words.starts[index + 1]]

    def repeated(self, sizes: Ids) -> TextIds:
        """Write each word as often as its mass, in units (N,) of each text that divide it."""
        times = self.masses // np.repeat(sizes, self.words.lengths)
        ends = np.concatenate([[0], np.cumsum(times)])
        return TextIds(np.repeat(self.words.ids, times), ends[self.words.starts])


def _counted(texts: TextIds, least: int, width: int) -> tuple[Ids, Ids, Ids, Ids]:
    """Return key, first index, count and text of each distinct word of each text."""
    owner = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
    held = owner * width + (texts.ids - least)
    keys, indices, counts = np.unique(held, return_index=True, return_counts=True)
    return keys, indices, counts, owner[indices]


def surpluses(first: TextIds, second: TextIds) -> tuple[Surplus, Surplus]:
    """Return what each of N texts has more of than the other of its pair.

    Of n and m words a word has the mass c·m − d·n, where c of the n and d of the m are this word:
    both sides of a pair have the same total, in integers, n·m at most. What is no word never stays.
    """
    least = int(min(first.ids.min(initial=0), second.ids.min(initial=0)))
    width = int(max(first.ids.max(initial=0), second.ids.max(initial=0))) - least + 1
    sides = [_counted(texts, least, width) for texts in (first, second)]
    lengths = [first.lengths, second.lengths]
    found = []
    for side in (0, 1):
        keys, indices, counts, owner = sides[side]
        other, _, others, _ = sides[1 - side]
        _, mine, theirs = np.intersect1d(keys, other, assume_unique=True, return_indices=True)
        shared = np.zeros(len(keys), np.int64)
        shared[mine] = others[theirs]
        words = (first, second)[side].ids[indices]
        shared[words == NO_WORD] = 0
        masses = counts * lengths[1 - side][owner] - shared * lengths[side][owner]
        order = np.argsort(indices)  # of texts and, within them, of words
        order = order[masses[order] > 0]
        sizes = np.bincount(owner[order], minlength=len(lengths[side]))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        found.append(Surplus(TextIds(words[order], starts), masses[order]))
    return found[0], found[1]


_Floats = NDArray[np.float64]
_STEPS = 10_000_000  # of the network simplex at most; texts of 1,000 words need some 10,000
_OPTIMAL = 1  # POT's code
_CELLS = 1 << 20  # costs that are held at once


@cache
def _network_simplex() -> Any:
    """Import POT without the libraries that it would look for; a second rather than five."""
    for library in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")
    from ot.lp.emd_wrap import emd_c

    return emd_c


def _costs(units: Vectors, first: Ids, second: Ids) -> _Floats:
    """Return the distances of words (B, n) from words (B, m), none of which are the same."""
    # each of B by itself; of a negative id a row is taken that is not used
    rows, others = (units[np.maximum(ids, 0)] for ids in (first, second))
    found = rows @ others.transpose(0, 2, 1)
    if first.min() < 0 or second.min() < 0:  # without a vector: as if orthogonal to all others
        found[(first[:, :, None] < 0) | (second[:, None] < 0)] = 0.0
    found *= -2.0
    found += 2.0
    np.maximum(found, 0.0, out=found)
    return np.sqrt(found, out=found).astype(np.float64)


def _blocks(units: Vectors, words: Sequence[TextIds], pairs: Ids) -> Iterator[tuple[Ids, _Floats]]:
    """Yield pairs (B,) whose texts are of one shape, and their costs (B, n, m)."""
    sizes = [side.lengths[pairs] for side in words]
    keys = sizes[0] * (1 + sizes[1].max(initial=0)) + sizes[1]
    order = np.argsort(keys, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        n, m = (int(held[group[0]]) for held in sizes)
        step = max(1, _CELLS // (n * m))
        for begin in range(0, len(group), step):
            block = pairs[group[begin : begin + step]]
            ways = zip(words, (n, m), strict=True)
            first, second = (s.ids[s.starts[block][:, None] + np.arange(size)] for s, size in ways)
            yield block, _costs(units, first, second)


def _transport(supply: Ids, demand: Ids, costs: _Floats) -> float:
    """Return what the cheapest plan costs, masses being integers of one total."""
    if 1 in costs.shape:  # there is one plan
        return float(np.vdot(supply if costs.shape[1] == 1 else demand, costs))
    masses = supply.astype(np.float64), demand.astype(np.float64)
    _, cost, _, _, code = _network_simplex()(*masses, costs, _STEPS, 1)
    if code != _OPTIMAL:
        raise RuntimeError(f"POT's network simplex ended with code {code} after {_STEPS:,} steps")
    return float(cost)


def _moved(units: Vectors, sides: list[Surplus], pairs: Ids, found: _Floats) -> None:
    """Write what it costs to move the surplus of some pairs."""
    words = [side.words for side in sides]
    for block, costs in _blocks(units, words, pairs):
        for pair, held in zip(block.tolist(), costs, strict=True):
            supply, demand = (side.of(pair) for side in sides)
            found[pair] = _transport(supply, demand, held)


def _assigned(units: Vectors, words: Sequence[TextIds], pairs: Ids, found: _Floats) -> None:
    """Write what it costs to assign the words of some pairs, as many on either side."""
    from scipy.optimize import linear_sum_assignment as assign  # of no use to others

    for block, costs in _blocks(units, words, pairs):
        # what all plans pay is taken away: fewer words then want the same place
        left = costs - costs.min(axis=1, keepdims=True)
        left -= left.min(axis=2, keepdims=True)
        columns = np.array([assign(held)[1] for held in left])
        found[block] = np.take_along_axis(costs, columns[:, :, None], axis=2).sum(axis=(1, 2))


def movers_distances(units: Vectors, first: TextIds, second: TextIds) -> _Floats:
    """Return the Word Mover's Distance of pairs of texts.

    Words are moved between points on the sphere, by the share of the text that they are. A word
    without a vector is at a distance of √2 from every other, and what is no word from all.

    Parameters
    ----------
    units : ndarray of float32, shape (V, D)
        Vectors of length 1.
    first, second : TextIds
        N texts each.

    Returns
    -------
    ndarray of float64, shape (N,)
        From 0 to 2; NaN where a text is empty.
    """
    lengths = first.lengths, second.lengths
    found = np.zeros(len(lengths[0]))
    sides = list(surpluses(first, second))
    moving = sides[0].words.lengths > 0
    equal = lengths[0] == lengths[1]
    if (moving & equal).any():
        words = [side.repeated(lengths[0]) for side in sides]  # right where lengths are equal
        _assigned(units, words, np.flatnonzero(moving & equal), found)
    if (moving & ~equal).any():
        _moved(units, sides, np.flatnonzero(moving & ~equal), found)
    found /= np.maximum(1, np.where(equal, lengths[0], lengths[0] * lengths[1]))
    return np.where(np.minimum(*lengths) == 0, np.nan, found)
