"""Word vectors that are trained on a corpus of the run by gensim: skip-gram, negative samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.semantics.evaluators.families import Options, about_weights
from beyond_perplexity.semantics.evaluators.job import (
    EVALUATOR_FILE,
    EvaluatorJob,
    read_description,
    write_description,
)
from beyond_perplexity.semantics.evaluators.vectors import load_table
from beyond_perplexity.semantics.evaluators.word_vectors import WordVectorEvaluator
from beyond_perplexity.semantics.measures import NO_WORDS
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.storage.shards import read_texts

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
    """Train word vectors and write their folder: ``vectors.npy``, ``words.txt``, the description.

    One thread works, so that the vectors do not depend on which one is faster. Source: Mikolov et
    al. (2013). Distributed representations of words and phrases and their compositionality.
    """
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
