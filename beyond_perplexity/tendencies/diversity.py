"""Diversity of documents as vectors: how alike those of one text are to each other.

Rows of tendency ``embedding``, of the samples and, with ``_reference``, of the reference:

====================== ===========================================================================
measure                meaning
====================== ===========================================================================
similarity             mean cosine of two documents, of different groups or answers to different
                       prompts
similarity_within      of two documents of one group, or answers to one prompt, where there are any
similarity_difference  that of the samples less that of the reference; a child of the test of
                       ``mmd``
vendi                  Vendi score, the effective number of documents: exp of the entropy of the
                       eigenvalues of their cosines divided by their number, of as many documents of
                       both texts, spread over each
====================== ===========================================================================

A model whose texts are all alike has a larger similarity and a smaller Vendi score than people,
whatever they are about. The difference is tested by randomizations of its t, of what `mmd` permutes
(Janssen 1997); where the samples alone have groups, it is not tested. Documents without a vector
are left out. N documents, D numbers of a vector, U units, w randomizations at a time. After
Friedman and Dieng (2023), The Vendi score: a diversity evaluation metric for machine learning,
TMLR; Tevet and Berant (2021), Evaluating the evaluation of diversity in natural language
generation, EACL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference import p_values, permuted_units
from beyond_perplexity.inference.standard_errors import StandardError
from beyond_perplexity.tendencies.definitions import EMBEDDING, SIMILARITY, MeasureRow
from beyond_perplexity.tendencies.embedded_documents import EmbeddedPair, EmbeddedText
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.verdicts import reason

_ROUNDING = 1e-12  # a difference of cosines below is one of equal texts


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Give vectors (N, D) length 1: float64; those that are none or 0 become 0."""
    held = np.nan_to_num(vectors.astype(float))
    norms = np.linalg.norm(held, axis=1, keepdims=True)
    return np.divide(held, norms, out=np.zeros_like(held), where=norms > 0)


def unit_sums(vectors: np.ndarray, codes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Add up documents (N, D) of length 1 or 0 by unit (N,): float64, (U, D) and (U,)."""
    sums, sizes = np.zeros((n, vectors.shape[1])), np.zeros(n)
    np.add.at(sums, codes, vectors)
    np.add.at(sizes, codes, np.linalg.norm(vectors, axis=1))
    return sums, sizes


def mean_similarities(
    sums: np.ndarray, sizes: np.ndarray, sides: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean cosine of documents of different units, of the units on a side.

    Parameters
    ----------
    sums : numpy.ndarray of float64, shape (U, D)
        Vectors of length 1, added up over each unit.
    sizes : numpy.ndarray of float64, shape (U,)
        How many, or what they count.
    sides : numpy.ndarray of bool, shape (U, w)
        Which units are on the side.

    Returns
    -------
    tuple of numpy.ndarray of float64, shape (w,) and (U, w)
        The means, NaN of fewer than two units, and what each unit adds to their variance's square
        root: the mean less that without it, to first order.
    """
    own, squares = sides.astype(float), np.sum(sums**2, axis=1)
    total, n = sums.T @ own, sizes @ own  # (D, w), (w,)
    pairs = n**2 - sizes**2 @ own
    with np.errstate(invalid="ignore", divide="ignore"):
        value = (np.sum(total**2, axis=0) - squares @ own) / pairs
        beside = sizes[:, None] * n - sizes[:, None] ** 2
        parts = 2 * own * (sums @ total - squares[:, None] - value * beside) / pairs
    return value, parts


def _variances(parts: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Add up the squares of what units add, (U, w), of so many units (w,): (w,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = units / (units - 1) * np.sum(parts**2, axis=0)
    return found


def randomized_similarities(pair: EmbeddedPair, n: int, seed: int) -> np.ndarray:
    """Draw t of the difference of both similarities, and last that of the data: (n + 1,)."""
    units = permuted_units.permuted_units(pair.groups, pair.n_documents, seed)
    units = units or permuted_units.single_documents(pair.n_documents)
    texts, held = (pair.reference, pair.samples), []
    for text, codes, weight in zip(texts, units.codes, units.weights, strict=True):
        sums, sizes = unit_sums(unit_vectors(text.vectors), codes, sum(units.n))
        held.append((weight * sums, weight * sizes))
    sums, sizes = held[0][0] + held[1][0], held[0][1] + held[1][1]
    own = (np.arange(len(sizes)) < units.n[0])[:, None]
    found = []
    for sides in (*units.labels(n, seed), own):
        values, variances = [], []
        for side in (sides, ~sides):
            value, parts = mean_similarities(sums, sizes, side)
            values.append(value)
            variances.append(_variances(parts, np.sum(side & (sizes > 0)[:, None], axis=0)))
        difference = values[1] - values[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            t = difference / np.sqrt(variances[0] + variances[1])
        found.append(np.where(np.abs(difference) < _ROUNDING, 0.0, t))
    return np.concatenate(found)


def vendi_score(vectors: np.ndarray) -> float:
    """Compute the Vendi score of documents (N, D) of length 1: from 1 (all equal) to N.

    Examples
    --------
    >>> round(vendi_score(np.eye(5)), 6), round(vendi_score(np.ones((5, 1))), 6)
    (5.0, 1.0)
    """
    gram = vectors.T @ vectors if vectors.shape[1] < len(vectors) else vectors @ vectors.T
    values = np.linalg.eigvalsh(gram / len(vectors))
    values = values[values > 0]
    return math.exp(-float(np.sum(values * np.log(values))))


def _within(sums: np.ndarray, sizes: np.ndarray) -> float:
    """Return the mean cosine of two documents of one unit; NaN where none has two."""
    pairs = float(np.sum(sizes * (sizes - 1)))
    return float(np.sum(sums**2) - np.sum(sizes)) / pairs if pairs else math.nan


class _OwnSimilarity(NamedTuple):
    value: float
    parts: np.ndarray  # what each unit adds to its error: (U,)
    error: StandardError
    within: float


def _own_similarity(text: EmbeddedText, codes: np.ndarray | None) -> _OwnSimilarity:
    units = np.arange(len(text)) if codes is None else codes
    sums, sizes = unit_sums(unit_vectors(text.vectors), units, int(units.max()) + 1)
    filled = sizes > 0
    value, parts = mean_similarities(sums, sizes, filled[:, None])
    variance = _variances(parts, filled.sum()[None])
    error = StandardError(float(variance[0]), float(filled.sum() - 1))
    within = math.nan if codes is None else _within(sums, sizes)
    return _OwnSimilarity(float(value[0]), parts[:, 0], error, within)


def _paired_error(first: np.ndarray, second: np.ndarray) -> StandardError:
    """Return the error of a difference of answers to the same prompts, which vary together."""
    n = max(len(first), len(second))
    parts = np.pad(first, (0, n - len(first))) - np.pad(second, (0, n - len(second)))
    used = np.count_nonzero(parts)
    return StandardError(float(_variances(parts[:, None], np.array([used]))[0]), used - 1.0)


def diversity_rows(
    pair: EmbeddedPair, options: MeasurementOptions, seed: int, why: str = ""
) -> Iterator[MeasureRow]:
    """Measure both texts and test their difference; `why`: the reason why nothing is tested."""
    texts = {"": pair.samples, "_reference": pair.reference}
    codes = dict(zip(texts, pair.groups[::-1], strict=True))
    own = {name: _own_similarity(text, codes[name]) for name, text in texts.items()}
    vectors = {name: unit_vectors(text.vectors) for name, text in texts.items()}
    vectors = {name: held[np.any(held != 0, axis=1)] for name, held in vectors.items()}
    fewest = min(map(len, vectors.values()))
    for name, (value, _, error, within) in own.items():
        limits = error.limits(value, options.confidence)
        yield MeasureRow(EMBEDDING, f"similarity{name}", value, *limits)
        if not math.isnan(within):
            yield MeasureRow(EMBEDDING, f"similarity_within{name}", within)
        if fewest:
            spread = np.linspace(0, len(vectors[name]) - 1, fewest).astype(int)
            yield MeasureRow(EMBEDDING, f"vendi{name}", vendi_score(vectors[name][spread]))
    (samples, first, error, _), (reference, second, other, _) = own.values()
    error = _paired_error(first, second) if pair.prompts else error.with_another(other)
    value = samples - reference
    value = 0.0 if abs(value) < _ROUNDING else value
    row = MeasureRow(EMBEDDING, SIMILARITY, value, *error.limits(value, options.confidence))
    if permuted_units.scheme_of(pair.groups) == "draws":
        why = why or reason("clustered")
    if options.permutations and not why:
        t = randomized_similarities(pair, options.permutations, seed)
        p = p_values.permutation_p(float(t[-1]), t[:-1], two_sided=True) if value else 1.0
        row = row._replace(p_value=p)
    yield row._replace(reason=why if options.permutations else "")
