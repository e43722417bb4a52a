"""The contract of evaluators, which give pairs of texts a similarity; how a name becomes one.

Nothing heavy is imported here: a family's module is, by the name in its row, when one is loaded.
N pairs or texts, D numbers of a text's vector.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators import families
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.measures import MEASURES, NO_WORDS, MeasureOptions
from beyond_perplexity.semantics.word_cosines import Floats, Vectors, cosines
from beyond_perplexity.storage.inputs import beginning

TextPair = tuple[str, str]


class Evaluator(ABC):
    """Gives pairs of texts a similarity, by one measure or several.

    Attributes
    ----------
    measures : tuple of str
        Names of rows of `MEASURES`, in the order of the results.
    texts : "tokens" or "raw"
        What it is made for: tokens of a corpus joined by blanks, or text as people write it.
    cleaning : Preprocessing
        What makes its tokens of raw text; nothing but white space where `texts` is ``"raw"``.
    """

    measures: tuple[str, ...]
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
            the evaluator knows. A prediction without one has the measure's `nothing`, if its words
            do not count otherwise, as the same ones do where words are compared.
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

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, float32, (N, D): rows of NaN for texts without a word that it knows."""


class SentenceEvaluator(Evaluator):
    """The cosine of the vectors that an encoder gives two texts, in [−1, 1]; without `cleaning` it
    reads text as people write it; `about` is what `describe` says besides its counts."""

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
        texts = [text for pair in pairs for text in pair]
        indices = {text: index for index, text in enumerate(dict.fromkeys(texts))}
        vectors = self.encoder.encode(list(indices))  # (distinct texts, D)
        chosen = np.array([indices[text] for text in texts], np.int64)
        return self.score_vectors(vectors[chosen[::2]], vectors[chosen[1::2]])

    def score_vectors(self, first: Vectors, second: Vectors) -> dict[str, Floats]:
        """Score vectors of texts, two (N, D)."""
        known = [has_vector(part) for part in (first, second)]  # 2 x (N,)
        return {"similarity": settle("similarity", cosines(first, second), known)}


def settle(
    measure: str, values: Floats, known: Sequence[NDArray[np.bool_]], nothing: float | None = None
) -> Floats:
    """Give predictions without a known word the measure's `nothing`, and those whose target has
    none NaN; `known`, two of bool (N,), says whether prediction and target have one."""
    nothing = MEASURES[measure].nothing if nothing is None else nothing
    found = np.where(known[0], values, np.nan if nothing is None else nothing)
    return np.where(known[1], found, np.nan)


def has_vector(vectors: Vectors) -> NDArray[np.bool_]:
    """Return which texts an `Encoder` knows a word of, (N,), of its vectors, (N, D)."""
    return ~np.isnan(vectors[:, 0])


def known_text(text: str) -> str:
    """Return the tokens of a text, joined by blanks, without those that stand for no word."""
    return " ".join(word for word in text.split() if word not in NO_WORDS)


def find_evaluator(family: object) -> families.EvaluatorFamily:
    """Return the row of a family of evaluators."""
    if not isinstance(family, str) or family not in families.EVALUATORS:
        raise InputError(
            f"evaluator: family is {family!r}; allowed are {', '.join(families.EVALUATORS)}"
        )
    return families.EVALUATORS[family]


def load_evaluator(
    options: families.Options, measures: families.Options | None = None, device: str = "auto"
) -> Evaluator:
    """Load an evaluator.

    Parameters
    ----------
    options : mapping
        ``family`` and what its class reads, all paths local: as `planning.semantics` gives it.
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


# ---- names and paths ----


def open_evaluator(
    name: str, options: families.Options, measures: families.Options, device: str
) -> Evaluator:
    """Return the evaluator of words, or load another."""
    parse_options(MeasureOptions, measures, "measures")
    if name == WORDS_EVALUATOR:
        evaluator: Evaluator = resolve_name(families.WORD_EVALUATOR)()
        return evaluator
    return load_evaluator(options, measures, device)


def set_threads(threads: int) -> None:
    """Let torch use so many threads, where an evaluator has imported it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


FAMILY = "sentence-transformers"


def named_evaluator(name: str) -> Evaluator:
    """Load an evaluator of sentence-transformers by the name of its package, or from a folder."""
    packages = [key for key, row in families.PACKAGES.items() if row.family == FAMILY]
    if name in packages:
        return load_evaluator({"family": FAMILY, "package": name})
    if not Path(name).is_dir():
        allowed = ", ".join(packages)
        raise InputError(f"embedding {name}: no such folder; give one, or a package: {allowed}")
    return load_evaluator({"family": FAMILY, "path": name})


def encoder_of(evaluator: Evaluator) -> Encoder:
    """Return the encoder of an evaluator that compares vectors of texts."""
    if not isinstance(evaluator, SentenceEvaluator):
        title = evaluator.describe().get("title", "this evaluator")
        raise InputError(f"{title}: has no vectors of texts; name one of {', '.join(encoding())}")
    return evaluator.encoder


def encoding() -> list[str]:
    """List the families of evaluators that have vectors of texts."""
    return [name for name, row in families.EVALUATORS.items() if "similarity" in row.measures]


_SKIPTHOUGHT = {"uni": ("uni_skip.npz", "utable.npy"), "bi": ("bi_skip.npz", "btable.npy")}
_DICTIONARY = "dictionary.txt"
_ZIP, _LEGACY = b"PK\x03\x04", b"\x80\x02"  # of files that torch wrote


def evaluator_at(path: Path, vectors: str | None = None, layers: int = 2) -> dict[str, Any]:
    """Return the options of `load_evaluator` for what lies at a path.

    A folder of a trained evaluator, of sentence-transformers, of a Transformer (of which `layers`
    are read), or with SkipThought's official files; a file of InferSent's official weights
    (``.pkl``, ``.pt``; `vectors` says what it reads), or of vectors.
    """
    if path.is_dir():
        return _folder(path, layers)
    start = beginning(path)
    if path.suffix in (".pkl", ".pt", ".pth") or start.startswith((_ZIP, _LEGACY)):
        if vectors is None:
            advice = "give vectors, those it was trained with"
            raise InputError(f"{path}: InferSent reads word vectors; {advice}")
        return {"family": "infersent", "path": str(path), "vectors": evaluator_named(vectors)}
    return {"family": "vectors", "path": str(path)}


def evaluator_named(name: str) -> dict[str, Any]:
    """Return the options of `load_evaluator` for a package or a path."""
    if name in families.PACKAGES:
        return {"family": families.PACKAGES[name].family, "package": name}
    return evaluator_at(Path(name))


def _folder(path: Path, layers: int) -> dict[str, Any]:
    if (path / EVALUATOR_FILE).is_file():
        return {"family": read_description(path)["family"], "path": str(path)}
    if (path / "modules.json").is_file():
        return {"family": "sentence-transformers", "path": str(path)}
    if (path / "model.json").is_file():
        return {"family": "transformer", "model": str(path), "layers": layers}
    if (path / "config.json").is_file():
        return {"family": "transformer", "path": str(path), "layers": layers}
    found: dict[str, Any] = {"family": "skipthought", "dictionary": str(path / _DICTIONARY)}
    for kind, (weights, table) in _SKIPTHOUGHT.items():
        if (path / weights).is_file():
            found |= {kind: str(path / weights), f"{kind}_table": str(path / table)}
    if len(found) > 2:
        return found
    raise InputError(
        f"{path}: holds no evaluator: neither {EVALUATOR_FILE} (trained here), modules.json "
        "(sentence-transformers), model.json (a model of a run), config.json (Hugging Face) nor "
        "uni_skip.npz or bi_skip.npz (SkipThought)"
    )
