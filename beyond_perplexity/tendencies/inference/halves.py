"""Two halves of a human text, and samples cut to as many documents: the floor without further text.

Documents are drawn at random, so that the order of a file does not matter; groups stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from beyond_perplexity.invariance.streams import stream
from beyond_perplexity.tendencies.document_values import histograms_of
from beyond_perplexity.tendencies.inference.human_text import (
    body_of,
    renumbered,
    split_histogram,
    within,
)
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.rows import LENGTH
from beyond_perplexity.tendencies.statistics import Histogram

_BODIES = (0, 0, 1)  # what the two halves and the cut samples are parts of


class Halved(NamedTuple):
    """Two halves of the reference, and samples cut to as many documents.

    Attributes
    ----------
    human : BodyPair
        One half as reference, the other as samples; with documents.
    against : tuple of two BodyPair
        Either half as reference, and the cut samples; without documents. Their words are those of
        the first documents that hold at most `tokens` tokens.
    tokens : int
        Tokens of the smallest of the three.
    """

    human: BodyPair
    against: tuple[BodyPair, BodyPair]
    tokens: int


def _draw_part(codes: np.ndarray, units: np.ndarray, most: int) -> np.ndarray:
    """Take units in their order as long as they have at most `most` documents, one at least."""
    sizes = np.bincount(codes)
    chosen = np.zeros(len(sizes), bool)
    chosen[units[np.cumsum(sizes[units]) <= max(most, sizes[units[:1]].sum())]] = True
    return chosen[codes]


def _draw_masks(pair: BodyPair, seed: int) -> list[np.ndarray]:
    """Draw the documents of both halves and of the cut samples: bool, (D,) each."""
    sizes = [body.n_documents for body in pair.bodies]
    codes = [
        np.arange(n) if own is None else own for n, own in zip(sizes, pair.groups, strict=True)
    ]
    orders = [
        stream(seed, "floor/units", body).permutation(int(held.max(initial=-1)) + 1)
        for body, held in enumerate(codes)
    ]
    most = min(sizes[0] // 2, sizes[1])
    masks = [_draw_part(codes[0], orders[0][half::2], most) for half in (0, 1)]
    wanted = sum(int(mask.sum()) for mask in masks) // 2
    return [*masks, _draw_part(codes[1], orders[1], wanted)]


def _histograms(pair: BodyPair, masks: list[np.ndarray], seed: int) -> list[dict[str, Histogram]]:
    """Count the documents of the three parts by length and value.

    Of documents that stand alone one draw of a histogram is enough. It does not know which
    documents' words are counted, which no measure needs.
    """
    assert pair.documents is not None
    values = [pair.documents.values(body) for body in (0, 1)]
    if set(pair.reference.histograms) <= set(values[0]):
        parts = zip(_BODIES, masks, strict=True)
        return [histograms_of({k: x[mask] for k, x in values[b].items()}) for b, mask in parts]
    found: list[dict[str, Histogram]] = [{}, {}, {}]
    sizes = [int(mask.sum()) for mask in masks]
    for name, held in pair.reference.histograms.items():
        rngs = [stream(seed, f"floor/{name}", body) for body in (0, 1)]
        human = split_histogram(held, sizes[:2], rngs[0])
        cut = split_histogram(pair.samples.histograms[name], sizes[2:], rngs[1])
        for part, histogram in zip(found, [*human, *cut], strict=True):
            part[name] = histogram
    return found


def _words(pair: BodyPair, masks: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Count the types of the first documents of each part, at equal tokens: int64, (V,) each."""
    assert pair.documents is not None
    lengths = [pair.documents.values(body)[LENGTH] for body in _BODIES]
    own = [np.where(mask, held, 0) for held, mask in zip(lengths, masks, strict=True)]
    tokens = min(int(held.sum()) for held in own)
    words = []
    for body, held, mask in zip(_BODIES, own, masks, strict=True):
        kept = (mask & within(held, tokens)).astype(np.int64)
        counts = pair.documents.sums_of(body, np.array([[False], [True]]), kept)
        words.append(counts[:, 0].astype(np.int64))
    return words, tokens


@contextmanager
def halved(pair: BodyPair, seed: int) -> Iterator[Halved | None]:
    """Cut the reference in two halves and the samples to as many documents, all at random.

    Parameters
    ----------
    pair : BodyPair
        With documents. Groups of either text stay whole.
    seed : int
        Seed of the draws.

    Yields
    ------
    Halved or None
        None where a part would have fewer than two documents or no token. The halves have no more
        documents than there are samples, but for a first group.
    """
    assert pair.documents is not None
    masks = _draw_masks(pair, seed)
    words, tokens = _words(pair, masks)
    if min(int(mask.sum()) for mask in masks) < 2 or min(held.sum() for held in words) == 0:
        yield None
        return
    histograms = _histograms(pair, masks, seed)
    parts = [body_of(pair.types, *held) for held in zip(words, histograms, strict=True)]
    against = [
        BodyPair(parts[half], parts[2], pair.types, np.stack([words[half], words[2]]))
        for half in (0, 1)
    ]
    places = np.where(masks[0], 0, np.where(masks[1], 1, -1)), np.full(len(masks[2]), -1)
    with pair.documents.selected(places) as documents:
        counts = np.stack([documents.totals(half) for half in (0, 1)])
        bodies = [body_of(pair.types, counts[half], histograms[half]) for half in (0, 1)]
        own = pair.groups[0]
        codes = [None if own is None else renumbered(own[masks[half]]) for half in (0, 1)]
        groups = codes[0], codes[1]
        human = BodyPair(bodies[0], bodies[1], pair.types, counts, documents, groups)
        yield Halved(human, (against[0], against[1]), tokens)
