"""The contract of evaluators, which give pairs of texts a similarity, and how one is loaded.

Nothing heavy is imported here: a family's module is, by the name in its row, when one is loaded.
N pairs or texts, D numbers of a text's vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.families import EVALUATORS, EvaluatorFamily
from beyond_perplexity.semantics.measures import MEASURES, NO_WORDS
from beyond_perplexity.semantics.word_cosines import Floats, cosines

TextPair = tuple[str, str]


class Evaluator(ABC):
    """Gives pairs of texts a similarity, by one measure or several.

    Attributes
    ----------
    measures : tuple of str
        Names of rows of `MEASURES`, in the order of the results.
    needs_words : bool
        Some of the measures compare words place by place: undefined where tokens are not words.
    texts : "tokens" or "raw"
        What it is made for: tokens of a corpus joined by blanks, or text as people write it.
    cleaning : Preprocessing
        What makes its tokens of raw text; nothing but white space where `texts` is ``"raw"``.
    """

    measures: tuple[str, ...]
    needs_words: bool = False
    texts: Literal["tokens", "raw"] = "tokens"
    cleaning: Preprocessing = WHITE_SPACE_ONLY

    @abstractmethod
    def score(self, pairs: Sequence[TextPair]) -> dict[str, Floats]:
        """Score pairs of texts; on a CPU a pair's scores do not depend on the others.

        Parameters
        ----------
        pairs : sequence of (str, str)
            What is compared (a prediction), and the target. Tokens joined by blanks; ``</s>`` and
            ``<unk>`` stand for no word and match nothing.

        Returns
        -------
        dict of str to ndarray
            float64, (N,), by measure. NaN where it is undefined: of a target without words that
            the evaluator knows. A prediction without one has the measure's `nothing`.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what a footer says: SHA-256 of weights, versions, words so far without a vector.

        Returns
        -------
        dict
            JSON-serializable. ``title`` is how tables call it; ``words`` and ``unknown`` count
            those read so far, where it reads words.
        """


class Encoder(Protocol):
    """Turns texts into vectors.

    Attributes
    ----------
    width : int
        D.
    limit : int or None
        Tokens of a text that are read at most; None: all.
    truncated : int
        Texts so far of which not all was read.
    counted : tuple of str
        Attributes that a footer says: ``truncated``, ``words`` so far, those ``unknown``.
    """

    width: int
    limit: int | None
    truncated: int
    counted: tuple[str, ...]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors, float32, (N, D): rows of NaN for texts without a word that it knows."""


class SentenceEvaluator(Evaluator):
    """The cosine of the vectors that an encoder gives two texts, in [−1, 1].

    `about` is what `describe` says besides what the encoder has counted; without `cleaning` the
    encoder reads text as people write it.
    """

    measures: tuple[str, ...] = ("similarity",)

    def __init__(
        self,
        encoder: Encoder,
        about: Mapping[str, Any] = MappingProxyType({}),
        cleaning: Preprocessing = WHITE_SPACE_ONLY,
    ) -> None:
        self.encoder, self.about, self.cleaning = encoder, about, cleaning
        self.texts = "raw" if cleaning is WHITE_SPACE_ONLY else "tokens"

    def describe(self) -> dict[str, Any]:
        """Return title, SHA-256, versions, and what the encoder has counted so far."""
        counts = {name: getattr(self.encoder, name) for name in self.encoder.counted}
        return {**self.about, **counts}

    def score(self, pairs: Sequence[TextPair]) -> dict[str, Floats]:
        """Score pairs; the vector of each text is made once."""
        places: dict[str, int] = {}
        for text in (text for pair in pairs for text in pair):
            places.setdefault(text, len(places))
        vectors = self.encoder.encode(list(places))  # (distinct texts, D)
        chosen = np.array([[places[text] for text in pair] for pair in pairs], np.int64)
        first, second = chosen.reshape(-1, 2).T  # 2 x (N,)
        return self.score_vectors(vectors[first], vectors[second])

    def score_vectors(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> dict[str, Floats]:
        """Score vectors of texts, two (N, D)."""
        known = [has_vector(part) for part in (first, second)]  # 2 x (N,)
        return {"similarity": settle("similarity", cosines(first, second), known)}


def settle(measure: str, values: Floats, known: Sequence[NDArray[np.bool_]]) -> Floats:
    """Give predictions of which the evaluator knows no word what the measure gives nothing.

    `known`, two of bool (N,): whether it knows a word of the prediction, and one of the target;
    where it knows none of the target the value is NaN.
    """
    nothing = MEASURES[measure].nothing
    found = np.where(known[0], values, np.nan if nothing is None else nothing)
    return np.where(known[1], found, np.nan)


def has_vector(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which texts an `Encoder` knows a word of, (N,), of its vectors, (N, D)."""
    return ~np.isnan(vectors[:, 0])


def known_text(text: str) -> str:
    """Return the tokens of a text, joined by blanks, without those that stand for no word."""
    return " ".join(word for word in text.split() if word not in NO_WORDS)


def find_evaluator(family: object) -> EvaluatorFamily:
    """Return the row of a family of evaluators."""
    if not isinstance(family, str) or family not in EVALUATORS:
        raise InputError(f"evaluator: family is {family!r}; allowed are {', '.join(EVALUATORS)}")
    return EVALUATORS[family]


def load_evaluator(
    options: Mapping[str, Any],
    measures: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> Evaluator:
    """Load an evaluator.

    Parameters
    ----------
    options : mapping
        ``family`` and what its class reads, all paths local: as `planning.evaluators` gives it.
    measures : mapping, optional
        Constants of the measures of word vectors: the fields of `MeasureOptions`.
    device : str
        auto, cpu or cuda; for families that have networks.

    Returns
    -------
    Evaluator

    Raises
    ------
    InputError
        When the family or an option is wrong, a package or a file is missing, or a file is not what
        it should be.
    """
    load = resolve_name(find_evaluator(options.get("family")).reference)
    given = {key: value for key, value in options.items() if key != "family"}
    evaluator: Evaluator = load(given, measures or {}, device)
    return evaluator
