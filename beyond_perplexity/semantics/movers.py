"""Word Mover's Distance: the least mean distance over which words of one text become the other's.

Source: Kusner et al. (2015). From word embeddings to document distances. The network simplex is
that of POT; Flamary et al. (2021). POT: Python Optimal Transport.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.aligned import Vectors
from beyond_perplexity.semantics.cosine_matrices import cosine_matrix
from beyond_perplexity.semantics.word_ids import NOTHING, Ids, WordIds

Floats = NDArray[np.float64]
_STEPS = 1_000_000  # of the network simplex at most; texts of 1,000 words need some 10,000
_OPTIMAL = 1  # POT's code


@cache
def _network_simplex() -> Any:
    """Import POT without the libraries that it would look for; a second rather than five."""
    for library in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")
    from ot.lp.emd_wrap import emd_c

    return emd_c


def _excess(first: Ids, second: Ids) -> tuple[list[int], list[int], list[float], list[float]]:
    """Return the words of which each text has more than the other, and how much, shares of it.

    What both have stays where it is: no plan is shorter, as distances obey the triangle inequality.
    What is no word never stays. Words are in the order of the text, whatever their ids are.
    """
    own, other = Counter(first.tolist()), Counter(second.tolist())
    n, m = len(first), len(second)
    surplus = [
        {
            word: count / size - (held.get(word, 0) / others if word != NOTHING else 0.0)
            for word, count in counts.items()
            # exact in integers, so that no surplus is rounding alone
            if word == NOTHING or count * others > held.get(word, 0) * size
        }
        for counts, size, held, others in ((own, n, other, m), (other, m, own, n))
    ]
    return (
        list(surplus[0]),
        list(surplus[1]),
        list(surplus[0].values()),
        list(surplus[1].values()),
    )


def _distance(units: Vectors, first: Ids, second: Ids) -> float:
    here, there, supply, demand = _excess(first, second)
    if not here:
        return 0.0
    cosines = cosine_matrix(units, np.array(here), np.array(there))
    costs = np.sqrt(np.maximum(0.0, 2.0 - 2.0 * cosines))
    if 1 in costs.shape:  # one way to go
        return float(np.array(supply) @ costs @ np.array(demand)) / sum(supply)
    mass, wanted = np.array(supply), np.array(demand)
    total = mass.sum()
    wanted *= total / wanted.sum()
    plan, cost, _, _, code = _network_simplex()(mass, wanted, costs, _STEPS, 1)
    if code != _OPTIMAL:
        raise RuntimeError(f"the network simplex ended with code {code} after {_STEPS:,} steps")
    return float(cost)


def movers_distances(units: Vectors, first: WordIds, second: WordIds) -> Floats:
    """Return the Word Mover's Distance of pairs of texts.

    Words are moved between points on the sphere, by the share of the text that they are. A word
    without a vector is at a distance of √2 from every other, and what is no word from all.

    Parameters
    ----------
    units : ndarray of float32, shape (V, D)
        Vectors of length 1.
    first, second : WordIds
        N texts each.

    Returns
    -------
    ndarray of float64, shape (N,)
        From 0 to 2; NaN where a text is empty.
    """
    found = np.full(len(first.lengths), np.nan)
    for pair in np.flatnonzero(np.minimum(first.lengths, second.lengths)).tolist():
        found[pair] = _distance(units, first.text(pair), second.text(pair))
    return found
