"""Equal sizes: random documents of the longer text that hold at most the tokens of the shorter.

Norms of differences of word frequencies fall with the tokens, so both texts have as many (paper,
footnote 13). The documents are drawn: those of a file may be in the order of its pages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.document_draws import documents_within
from beyond_perplexity.inference.exchanged_units import Groups
from beyond_perplexity.inference.held_out import Kept
from beyond_perplexity.inference.intervals import INDEPENDENT, Spread, widest_spread
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.pairs import BodyPair


class EqualTokens(NamedTuple):
    """Documents of two texts at equal tokens.

    Attributes
    ----------
    kept : tuple of two numpy.ndarray of bool, shape (D,), or None
        Which documents of the reference and of the samples; None for all.
    counts : numpy.ndarray of int64, shape (2, V)
        Occurrences in them.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The groups of all documents of either text.
    spread : Spread
        How distances between them vary; of the documents that are kept.
    """

    kept: Kept
    counts: np.ndarray
    groups: Groups = (None, None)
    spread: Spread = INDEPENDENT

    def units(self, body: int) -> np.ndarray:
        """Return the number of each kept document or of its group, from 0 on; else -1: (D,)."""
        chosen, groups = self.kept[body], self.groups[body]
        assert chosen is not None
        units = np.full(len(chosen), -1)
        if groups is None:
            units[chosen] = np.arange(chosen.sum())
        else:
            units[chosen] = np.unique(groups[chosen], return_inverse=True)[1]
        return units


def equal_tokens(pair: BodyPair, seed: int) -> EqualTokens:
    """Draw documents of either text of a pair that hold at most the tokens of the smaller.

    Parameters
    ----------
    pair : BodyPair
        Without documents both texts are taken whole.
    seed : int
        Text b draws from the stream (`seed`, ``"equal_tokens"``, b).

    Returns
    -------
    EqualTokens
        Without any token of a text all of whose documents are longer than the other text.
    """
    if pair.documents is None:
        return EqualTokens((None, None), pair.counts)
    tokens = min(int(body.n_tokens) for body in pair.bodies)
    first, second = (
        documents_within(lengths, tokens, stream(seed, "equal_tokens", body))
        for body, lengths in enumerate(pair.document_lengths)
    )
    kept = first, second
    counts = np.stack([pair.documents.totals(body, kept[body]) for body in (0, 1)])
    codes = [
        None if own is None else own[chosen] for own, chosen in zip(pair.groups, kept, strict=True)
    ]
    lengths = pair.document_lengths[0][first], pair.document_lengths[1][second]
    spread = widest_spread((codes[0], codes[1]), lengths)
    return EqualTokens(kept, counts, pair.groups, spread)
