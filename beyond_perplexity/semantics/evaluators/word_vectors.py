"""Evaluators made of word vectors alone: cosines, Word Mover's Distance, alignments; word2vec.

N pairs of texts, V words of a block of texts, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import finite
from beyond_perplexity.options import parse_options
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.semantics import word_cosines
from beyond_perplexity.semantics.evaluators import families
from beyond_perplexity.semantics.evaluators.contract import Evaluator, TextPair, settle
from beyond_perplexity.semantics.evaluators.families import Options, about_weights
from beyond_perplexity.semantics.evaluators.job import (
    EVALUATOR_FILE,
    EvaluatorJob,
    read_description,
    write_description,
)
from beyond_perplexity.semantics.evaluators.vectors import VectorTable, load_table
from beyond_perplexity.semantics.measures import NO_WORDS, MeasureOptions
from beyond_perplexity.semantics.movers import movers_distances
from beyond_perplexity.semantics.word_cosines import NO_WORD, Floats, TextIds, Vectors
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.storage.shards import read_texts


def measure_vectors(
    vectors: Vectors, predicted: TextIds, target: TextIds, options: MeasureOptions
) -> dict[str, Floats]:
    """Measure N pairs by the vectors (V, D) of their words, unscaled: float64 (N,) by measure, NaN
    of an empty text, and for ``average`` also of one without a vector."""
    units = word_cosines.unit_rows(vectors)
    aligned = word_cosines.aligned_cosines(units, predicted, target)
    precision, recall, f1 = word_cosines.greedy_alignments(units, predicted, target)
    how = (options.window, options.weighting)
    pairwise = word_cosines.pairwise_cosines(units, predicted, target, *how)
    means = [word_cosines.mean_vectors(vectors, texts) for texts in (predicted, target)]
    distances = movers_distances(units, predicted, target)
    return {
        "aligned_cosine": aligned,
        "cosine": word_cosines.logistic(aligned),
        "cosine_scaled": word_cosines.scaled_cosine(aligned, options.temperature, options.bias),
        "pairwise_cosine": pairwise,
        "wmd": word_cosines.movers_similarity(distances, options),
        "greedy_precision": precision,
        "greedy_recall": recall,
        "greedy_f1": f1,
        "average": word_cosines.cosines(*means),
    }


class WordVectorEvaluator(Evaluator):
    """All measures that word vectors give."""

    measures = families.EVALUATORS["vectors"].measures

    def __init__(
        self,
        table: VectorTable,
        about: Mapping[str, Any],
        measures: families.Options,
        cleaning: Preprocessing,
    ) -> None:
        self.table, self.cleaning = table, cleaning
        self._about = about
        self._options = parse_options(MeasureOptions, measures, "measures")
        self._words = self._unknown = 0
        # what is no word beside a word: their cosine is 0, their distance √2
        one, other = (TextIds(np.array([row]), np.array([0, 1])) for row in (NO_WORD, 0))
        found = measure_vectors(np.ones((1, 1), np.float32), one, other, self._options)
        self._nothing = {name: finite(value.item()) for name, value in found.items()}

    def score(self, pairs: Sequence[TextPair]) -> dict[str, Floats]:
        """Score pairs by every measure; each word's vector is looked up once."""
        words = sorted({word for pair in pairs for text in pair for word in text.split()})
        vectors = self.table.find(words)  # (V, D)
        rows = np.flatnonzero(~np.isnan(vectors[:, 0])) if words else np.zeros(0, np.int64)
        vectors = vectors[rows]
        index = word_cosines.WordIndex({words[row]: place for place, row in enumerate(rows)})
        predicted, target = (index.read([pair[side] for pair in pairs]) for side in (0, 1))
        for texts in (predicted, target):
            self._words += len(texts.ids)
            self._unknown += int((texts.ids < -1).sum())
        found = measure_vectors(vectors, predicted, target, self._options)
        known = [
            np.diff(np.concatenate([[0], np.cumsum(texts.ids >= 0)])[texts.starts]) > 0
            for texts in (predicted, target)
        ]  # which texts have a word with a vector, 2 x (N,)
        # A word without a vector is like itself: where it counts, such a prediction has a value.
        own = {k: [known[0] | ~np.isnan(found[k]), known[1]] for k in self.measures}
        return {k: settle(k, found[k], held, self._nothing[k]) for k, held in own.items()}

    def describe(self) -> dict[str, Any]:
        """Return title, SHA-256, versions, and how many words so far had no vector."""
        return {**self._about, "words": self._words, "unknown": self._unknown}


def load_vectors(
    options: families.Options, measures: families.Options, device: str
) -> WordVectorEvaluator:
    """Load the evaluator of a table of word vectors, by the options of `load_table`."""
    table, package = load_table(options), options.get("package")
    about: dict[str, Any] = {"title": table.path.name, "sha256": table.sha256}
    if package:
        row = families.PACKAGES[package]
        about["title"] = row.title
        about["versions"] = {row.distribution: families.package_version(row.distribution)}
    return WordVectorEvaluator(table, about, measures, Preprocessing())


_TRAINED = ("width", "window", "minimum_count", "negatives", "epochs")


class TrainingTexts:
    """The documents of a training split as lists of words; can be read again and again."""

    def __init__(self, documents: Path) -> None:
        self._documents = documents

    def __iter__(self) -> Iterator[list[str]]:
        for texts in read_texts([self._documents], "train"):
            for text in texts.to_pylist():
                yield [word for word in text.split(" ") if word and word not in NO_WORDS]


def fit_word2vec(job: EvaluatorJob) -> None:
    """Train word vectors (Mikolov et al. 2013, Distributed representations of words and phrases)
    and write their folder, in one thread, so that they do not depend on which one is faster."""
    from gensim.models import Word2Vec

    width, window, least, negatives, epochs = (job.options[name] for name in _TRAINED)
    texts = TrainingTexts(job.corpus())
    how = {"vector_size": width, "window": window, "min_count": least, "sg": 1, "workers": 1}
    how |= {"negative": negatives, "epochs": epochs}
    seed = stream_key(job.seed, "train/word2vec") % 2**31
    # words are hashed alike in every process
    model = Word2Vec(**how, seed=seed, hashfxn=lambda text: stream_key(0, text) % 2**31)
    model.build_vocab(texts)
    if not len(model.wv):
        raise InputError(f"{job.documents}: no word of the split 'train' occurs {least} times")
    model.train(texts, total_examples=model.corpus_count, epochs=epochs)
    job.output.mkdir(parents=True, exist_ok=True)
    with atomic_path(job.output / "vectors.npy") as temporary, open(temporary, "wb") as file:
        np.save(file, np.asarray(model.wv.vectors, np.float32))
    with atomic_path(job.output / "words.txt") as temporary:
        words = "".join(f"{word}\n" for word in model.wv.index_to_key)
        temporary.write_text(words, encoding="utf-8")
    sha256 = content_hash(job.output / "vectors.npy")
    write_description(job, about_weights("word2vec of the corpus", sha256, "gensim"))


def load_word2vec(options: Options, measures: Options, device: str) -> WordVectorEvaluator:
    """Load the evaluator of word vectors that `fit_word2vec` trained: ``path`` of its folder."""
    folder = Path(str(options.get("path")))
    held = read_description(folder, "word2vec")
    table = load_table({"path": folder / "vectors.npy"})
    about = {key: held[key] for key in ("title", "sha256", "versions")}
    if table.sha256 != held["sha256"]:
        wanted = f"the file that {EVALUATOR_FILE} describes"
        raise InputError(f"{table.path}: is not {wanted}; train again")
    cleaning = Preprocessing.from_config(held["preprocessing"])
    return WordVectorEvaluator(table, about, measures, cleaning)
