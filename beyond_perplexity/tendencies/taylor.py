"""Taylor's law: σ of a word's count in segments of text grows as a power α of its mean μ.

Documents are cut into segments of 64 words; what is left over is left out. α is the slope of ln σ
against ln μ by least squares over the words with 10 occurrences or more: 0.5 where words are drawn
one by one, more where they come in bursts, as topics do. Of fewer than 100 segments it is too small
and not given (shuffled text: 0.46 of 20, 0.49 of 100, 0.498 of 600). Where documents have few
segments, it is a matter of topics between documents more than of order: a text whose words are
shuffled inside the whole segments of each document keeps its topics, and has no order. Its expected
Σ c² is known: of n words in S segments, C of them one word, C² / S + C (n - C) (n - 64) / (n (n -
1)), as counts in segments are hypergeometric. Its slope stands beside α.

A document adds to α, to first order, Σ (p_w c + q_w c²) over its segments and words, with p and q
of the law of its text. With that its pseudo-value is a number of the document, and the difference
of the two slopes is tested as one of two means, whatever words either text has. A slope grows with
the text that it is of, and segments of one document are alike: of two texts that with more segments
a document keeps the first ones alone, and slopes of as many segments are compared. In WikiText-2
pseudo-values vary 1.2 to 1.8 times as much as slopes do, as ln σ of a rare word is far from linear:
baselines, whose mean excess is 0 for human text, are of slopes that are fitted anew. Kobayashi and
Tanaka-Ishii (2018), Taylor's law for human linguistic sequences, ACL. V types, D documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.tokens import TokenBatch

SEGMENT = 64  # words
LEAST_SEGMENTS = 100  # of a text, for a slope
LEAST_COUNTED = 10  # of a word
SHUFFLED_UNIT = 1e-4  # that expected sums of shuffled words are held in
UNIT = 1e-6  # that the pseudo-values of documents are held in
EQUAL_PARTS = 5  # of a text that has more segments than another one, whose mean slope is compared
_NEARLY = 1.05  # the ratio of the segments of two texts up to which they are taken for equal
_GOLDEN = (np.sqrt(5) - 1) / 2  # whose multiples are spread evenly over the parts of a whole
_MANY = 4  # segments of a document, from which on a slope is not of documents alone
_BLOCK = 1024  # documents that are sorted at a time


class TaylorFit(NamedTuple):
    """The slope, and of the fitted words (W,) their places among the types, ln μ and ln σ."""

    alpha: float
    words: np.ndarray
    log_mean: np.ndarray
    log_spread: np.ndarray


def segments_of(lengths: np.ndarray) -> np.ndarray:
    """Return how many whole segments documents of some lengths have."""
    return lengths // SEGMENT


def kept_segments(lengths: np.ndarray, share: float, first: int = 0) -> np.ndarray:
    """Return how many of their segments documents keep, where a text keeps a share of them: (D,).

    Rounded up or down by their numbers, from `first` on, evenly.
    """
    up = (first + np.arange(len(lengths))) * _GOLDEN % 1 if share < 1 else 0
    return np.floor(segments_of(lengths) * share + up).astype(np.int64)


def unequal(segments: Sequence[float]) -> bool:
    """Say whether one text has so many more segments that its slope is another one."""
    return max(segments) > _NEARLY * min(segments)


def has_few(segments: float, documents: float) -> bool:
    """Say whether documents with a segment have so few that a slope is of documents alone."""
    return segments < _MANY * documents


def segment_cells(
    batch: TokenBatch, kept: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count types in segments, or the first ones that documents keep, (D,).

    The document, the type and the count of each cell: (C,).
    """
    kept = segments_of(batch.lengths) if kept is None else kept
    width, found = max(len(batch.types), 1), [np.zeros((3, 0), np.int64)]
    for start in range(0, len(batch.lengths), _BLOCK):
        part = batch.documents(start, min(start + _BLOCK, len(batch.lengths)))
        segments = kept[start : start + _BLOCK]
        places = np.arange(len(part.ids)) - np.repeat(part.offsets[:-1], part.lengths)
        inside = places < np.repeat(segments * SEGMENT, part.lengths)
        keys = np.repeat(np.arange(segments.sum()), SEGMENT) * width + part.ids[inside]
        keys.sort()
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        documents = np.repeat(np.arange(start, start + len(segments)), segments)
        counts = np.diff(first, append=len(keys))
        found.append(np.stack([documents[keys[first] // width], keys[first] % width, counts]))
    documents, types, counts = np.concatenate(found, axis=1)
    return documents, types, counts


def segment_sums(batch: TokenBatch) -> np.ndarray:
    """Add up counts of types in segments, their squares, and these for shuffled words: (3, V).

    int64; the last, of words shuffled inside their documents, in units.
    """
    documents, types, counts = segment_cells(batch)
    width, segments = max(len(batch.types), 1), segments_of(batch.lengths)
    keys, places = np.unique(documents * width + types, return_inverse=True)
    own, s = np.bincount(places, counts, len(keys)), segments[keys // width]
    n = s * SEGMENT
    expected = own**2 / s + own * (n - own) * (n - SEGMENT) / (n * (n - 1))
    sums = [np.bincount(types, counts**power, len(batch.types)) for power in (1, 2)]
    shuffled = np.rint(expected / SHUFFLED_UNIT)
    sums.append(np.bincount(keys % width, shuffled, len(batch.types)))
    return np.stack(sums).astype(np.int64)


def fit_slope(sums: np.ndarray, segments: int, scale: float = 1.0) -> TaylorFit:
    """Fit α to sums of counts and of their squares (2 or 3, V); NaN for too little text.

    The words are those of a text `scale` times as long.
    """
    words = np.flatnonzero(sums[0] * scale >= LEAST_COUNTED)
    mean, square = sums[:2, words] / max(segments, 1)
    variance = square - mean**2
    words, mean, variance = (own[variance > 0] for own in (words, mean, variance))
    x, y = np.log(mean), np.log(variance) / 2
    if segments * scale < LEAST_SEGMENTS or len(words) < 2 or not np.ptp(x):
        return TaylorFit(float("nan"), words, x, y)
    centred = x - x.mean()
    return TaylorFit(float(centred @ y / (centred @ centred)), words, x, y)


def fit_slopes(sums: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Fit α to sums (w, 2, V) of w texts with so many segments (w,): (w, 1)."""
    both = zip(sums, segments.tolist(), strict=True)
    return np.array([[fit_slope(own, n).alpha] for own, n in both])


def slope_counter(
    types: pa.Array, sums: np.ndarray, segments: int, documents: int, fit: TaylorFit
) -> Callable[[TokenBatch], np.ndarray]:
    """Return what counts the pseudo-value of the slope of each document, in units: int64, (D,).

    It is α and what the document adds to it, so that α is the mean over the documents of the text
    with these `sums` (3, V) of types (V,), segments, and documents of a segment or more, and `fit`.
    """
    x = fit.log_mean - fit.log_mean.mean()
    total, mean, variance = x @ x, np.exp(fit.log_mean), np.exp(2 * fit.log_spread)
    of_x = (fit.log_spread - fit.log_spread.mean() - 2 * fit.alpha * x) / total
    of_square = x / total / (2 * variance)
    of_count = of_x / mean - 2 * mean * of_square
    weights = np.zeros((2, len(types) + 1))  # the last is of unknown types
    weights[:, fit.words] = of_count, of_square
    constant = float(of_count @ mean + of_square @ (sums[1][fit.words] / segments))

    def count(batch: TokenBatch) -> np.ndarray:
        own, found, counts = segment_cells(batch)
        places = pc.fill_null(pc.index_in(batch.types, value_set=types), len(types)).to_numpy()
        first, second = weights[:, places[found]]
        added = np.bincount(own, first * counts + second * counts**2, len(batch.lengths))
        n = segments_of(batch.lengths)
        values = fit.alpha + (added - n * constant) * documents / segments
        return np.where(n > 0, np.rint(values / UNIT), ABSENT).astype(np.int64)

    return count
