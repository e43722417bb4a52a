"""Which documents of two texts are embedded: random ones, so few that time and memory stay bounded.

Documents without groups, and groups beside documents without: of each text as many as are asked
for, drawn at random. Under the null hypothesis groups stay independent of each other whatever
documents are drawn, and documents stay draws of their law, so that the tests of all documents are
sound for those that are drawn.

Groups of both texts: exchangeable only where they lose documents alike. Of both texts the same
share of documents is drawn, after whole groups were left out of the text that has more documents.
"""

from __future__ import annotations

import numpy as np

from beyond_perplexity.inference.exchanged_units import Groups, scheme_of
from beyond_perplexity.random_streams import stream

_PURPOSE = "embeddings/documents"


def _drawn(places: np.ndarray, size: int, seed: int, body: int) -> np.ndarray:
    """Draw so many of some places (n,) without replacement, all where there are no more."""
    if size >= len(places):
        return places
    return np.sort(stream(seed, _PURPOSE, body).choice(places, size, replace=False))


def _in_random_groups(groups: np.ndarray, share: float, seed: int, body: int) -> np.ndarray:
    """Return the documents of a random share of the groups (D,), one at least: places."""
    names = np.unique(groups)
    order = stream(seed, f"{_PURPOSE}/groups", body).permutation(len(names))
    return np.flatnonzero(np.isin(groups, names[order[: max(1, round(share * len(names)))]]))


def chosen_documents(
    n_documents: tuple[int, int], groups: Groups, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the documents that are embedded.

    Parameters
    ----------
    n_documents : tuple of two int
        Documents of the reference and of the samples.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The groups that the tests exchange; see `units.alike_groups`.
    most : int
        Documents of each text, at most (up to the rounding of shares, where both have groups).
    seed : int
        Of the draws.

    Returns
    -------
    tuple of two numpy.ndarray of int64
        Their places in the reference and in the samples, increasing.
    """
    places = [np.arange(n) for n in n_documents]
    if scheme_of(groups) != "groups":
        first, second = (_drawn(places[body], most, seed, body) for body in (0, 1))
        return first, second
    shares = [min(1.0, most / max(n, 1)) for n in n_documents]
    share = max(shares)
    for body, own in enumerate(groups):
        if shares[body] < share:
            codes = places[body] if own is None else own
            places[body] = _in_random_groups(codes, shares[body] / share, seed, body)
    sizes = [round(share * len(held)) for held in places]
    first, second = (_drawn(places[body], sizes[body], seed, body) for body in (0, 1))
    return first, second
