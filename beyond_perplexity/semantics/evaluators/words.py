"""Evaluators made of word vectors alone: cosines, Word Mover's Distance, alignments.

N pairs of texts, V words of a block of texts, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators.contract import Evaluator, Floats, TextPair, settle
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.evaluators.packages import package_version
from beyond_perplexity.semantics.evaluators.rows import EVALUATORS, PACKAGES
from beyond_perplexity.semantics.evaluators.vector_table import VectorTable
from beyond_perplexity.semantics.evaluators.vectors import load_table
from beyond_perplexity.semantics.measure_options import MeasureOptions
from beyond_perplexity.semantics.vector_measures import measure_vectors
from beyond_perplexity.semantics.word_ids import TextIds, WordIndex


class WordVectorEvaluator(Evaluator):
    """All measures that word vectors give."""

    measures = EVALUATORS["vectors"].measures
    needs_words = True

    def __init__(
        self,
        table: VectorTable,
        about: Mapping[str, Any],
        options: MeasureOptions,
        cleaning: Preprocessing,
    ) -> None:
        self.table, self.cleaning = table, cleaning
        self._about, self._options = about, options
        self._words = self._unknown = 0

    def score(self, pairs: Sequence[TextPair]) -> dict[str, Floats]:
        """Score pairs by every measure; each word's vector is looked up once."""
        words = sorted({word for pair in pairs for text in pair for word in text.split()})
        vectors = self.table.find(words)  # (V, D)
        rows = np.flatnonzero(~np.isnan(vectors[:, 0])) if words else np.zeros(0, np.int64)
        vectors = vectors[rows]
        index = WordIndex({words[row]: place for place, row in enumerate(rows)})
        predicted, target = (index.read([pair[side] for pair in pairs]) for side in (0, 1))
        for texts in (predicted, target):
            self._words += len(texts.ids)
            self._unknown += int((texts.ids < -1).sum())
        found = measure_vectors(vectors, predicted, target, self._options)
        known = [_has_known(texts) for texts in (predicted, target)]
        return {name: settle(name, found[name], known) for name in self.measures}

    def describe(self) -> dict[str, Any]:
        """Return title, SHA-256, versions, and how many words so far had no vector."""
        return {**self._about, "words": self._words, "unknown": self._unknown}


def _has_known(texts: TextIds) -> NDArray[np.bool_]:
    """Return which texts have a word with a vector, (N,)."""
    counts = np.concatenate([[0], np.cumsum(texts.ids >= 0)])[texts.starts]
    return np.diff(counts) > 0


def measure_options(given: Mapping[str, Any]) -> MeasureOptions:
    """Read the constants of measures."""
    return parse_options(MeasureOptions, dict(given), "measures")


def load_vectors(
    options: Mapping[str, Any], measures: Mapping[str, Any], device: str
) -> WordVectorEvaluator:
    """Load the evaluator of a table of word vectors, by the options of `load_table`."""
    table, package = load_table(options), options.get("package")
    about: dict[str, Any] = {"title": table.path.name, "sha256": table.sha256}
    if package:
        row = PACKAGES[package]
        about["title"] = row.title
        about["versions"] = {row.distribution: package_version(row.distribution)}
    return WordVectorEvaluator(table, about, measure_options(measures), Preprocessing())


def load_word2vec(
    options: Mapping[str, Any], measures: Mapping[str, Any], device: str
) -> WordVectorEvaluator:
    """Load the evaluator of word vectors that `fit_word2vec` trained: ``path`` of its folder."""
    folder = Path(str(options.get("path")))
    held = read_description(folder, "word2vec")
    table = load_table({"path": folder / "vectors.npy"})
    about = {key: held[key] for key in ("title", "versions")}
    about["sha256"] = table.sha256
    if about["sha256"] != held["sha256"]:
        raise InputError(
            f"{table.path}: is not the file that {EVALUATOR_FILE} describes; train again"
        )
    cleaning = Preprocessing.from_config(held["preprocessing"])
    return WordVectorEvaluator(table, about, measure_options(measures), cleaning)
