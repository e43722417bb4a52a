"""The words that texts of a closed vocabulary are compared in: chosen alike in training and test.

A vocabulary is chosen on the training text: its rare words stand more often there than in any other
text, and what it lacks more seldom. Read in it, the training text itself differs from human text,
and so does every model that has learned it well. Both sides are therefore read in those words of
the vocabulary that stand in at least K documents of the training and the test split *together* (K
pages, where whole pages were split). That choice knows no difference between the two splits, so
that a perfect model passes. K is so large that the vocabulary can hardly lack a word that reaches
it: with m the fewest occurrences in training of a word of the vocabulary, K is m + 3 sqrt(m), the
occurrences that fall below m by chance in one of 740 cases, divided by the training split's share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.tendencies.bodies import DocumentFiles
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch

_DEVIATIONS = 3
_UNIT_BITS = 32
_WAITING = 4_000_000  # pairs of word and unit that wait in memory, at least, to be put in order


class UnitCounts:
    """Count in how many units of text (documents or groups of them) each of V words stands.

    Of a word that stands in `enough` units no further ones need be counted, so that memory does not
    grow with the text.

    Parameters
    ----------
    words : pyarrow.StringArray
        The V words, all different.
    enough : int
        Units.
    """

    def __init__(self, words: pa.Array, enough: int) -> None:
        self._words, self._enough = words, enough
        self._keys = np.zeros(0, np.int64)  # word and unit, rising
        self._waiting: list[np.ndarray] = []
        self._rare = np.ones(len(words), bool)

    def add(self, batch: TokenBatch, units: np.ndarray) -> None:
        """Count D documents, each of the unit of its number: int64, shape (D,)."""
        known = np.asarray(pc.index_in(batch.types, value_set=self._words).fill_null(-1))
        places = known[batch.ids].astype(np.int64)  # (T,)
        keys = places << _UNIT_BITS | np.repeat(units, batch.lengths)
        self._waiting.append(np.unique(keys[(places >= 0) & self._rare[places]]))
        if sum(map(len, self._waiting)) > max(len(self._keys), _WAITING):
            self.counts()

    def counts(self) -> np.ndarray:
        """Return the units of each word, int64, (V,): at least `enough` where there are more."""
        self._keys = np.unique(np.concatenate([self._keys, *self._waiting]))
        self._waiting = []
        found = np.bincount(self._keys >> _UNIT_BITS, minlength=len(self._words))
        self._rare = found < self._enough
        return found


def _occurrences(words: pa.Array, texts: Iterator[pa.Array]) -> np.ndarray:
    found = np.zeros(len(words), np.int64)
    for batch in map(tokenize_batch, texts):
        places = np.asarray(pc.index_in(batch.types, value_set=words).fill_null(-1))
        held = np.bincount(batch.ids, minlength=len(batch.types))
        np.add.at(found, places[places >= 0], held[places >= 0])
    return found


def least_units(occurrences: np.ndarray, training_share: float) -> int:
    """Return K of the module: units of both splits that a word must stand in to be compared.

    Parameters
    ----------
    occurrences : numpy.ndarray of int64, shape (V,)
        Of each word of the vocabulary in the training split.
    training_share : float
        Share of the training split in the units of both.
    """
    least = int(occurrences[occurrences > 0].min()) if occurrences.any() else 1
    return math.ceil((least + _DEVIATIONS * math.sqrt(least)) / training_share)


def shared_words(words: pa.Array, training: DocumentFiles, reference: DocumentFiles) -> pa.Array:
    """Choose the words that a model's texts and human text are compared in; see the module.

    Parameters
    ----------
    words : pyarrow.StringArray, shape (V,)
        The words of a closed vocabulary.
    training, reference : DocumentFiles
        The documents that the vocabulary was built from, and those of the test split; a group
        column says what was split as a whole.

    Returns
    -------
    pyarrow.StringArray
        In the order of the vocabulary. Of a corpus that is too small for any word to reach K, those
        that stand in as many documents as any.
    """
    sides = (training, reference)
    codes = [_units(files) for files in sides]
    sizes = [int(units.max(initial=-1)) + 1 for units in codes]
    if not sizes[0]:
        raise InputError(f"{training.paths[0]}: the split '{training.split}' has no documents")
    enough = least_units(_occurrences(words, training.texts()), sizes[0] / max(1, sum(sizes)))
    counter = UnitCounts(words, enough)
    for files, units, offset in zip(sides, codes, (0, sizes[0]), strict=True):
        start = 0
        for batch in map(tokenize_batch, files.texts()):
            end = start + len(batch.lengths)
            counter.add(batch, units[start:end] + offset)
            start = end
    counts = counter.counts()
    return words.filter(pa.array(counts >= min(enough, max(1, counts.max(initial=1)))))


def _units(files: DocumentFiles) -> np.ndarray:
    """Return the group of every document, or its own number where there are none."""
    groups = files.groups()
    if groups is not None:
        return groups.astype(np.int64)
    return np.arange(sum(len(texts) for texts in files.texts()))
