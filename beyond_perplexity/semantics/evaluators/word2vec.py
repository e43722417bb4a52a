"""Word vectors that are trained on a corpus of the run by gensim: skip-gram, negative samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob, write_description
from beyond_perplexity.semantics.evaluators.packages import package_version
from beyond_perplexity.semantics.rows import NO_WORDS
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.storage.shards import read_texts

_TRAINED = ("width", "window", "minimum_count", "negatives", "epochs")


class TrainingTexts:
    """The documents of a training split as lists of words; can be read again and again.

    Parameters
    ----------
    documents : Path
        Parquet file, schema ``documents``.
    """

    def __init__(self, documents: Path) -> None:
        self._documents = documents

    def __iter__(self) -> Iterator[list[str]]:
        for texts in read_texts([self._documents], "train"):
            for text in texts.to_pylist():
                yield [word for word in text.split(" ") if word and word not in NO_WORDS]


def fit_word2vec(job: EvaluatorJob) -> None:
    """Train word vectors and write their folder: ``vectors.npy``, ``words.txt``, the description.

    One thread works, so that the vectors do not depend on which one is faster.

    Parameters
    ----------
    job : EvaluatorJob

    Raises
    ------
    InputError
        When no word is frequent enough.

    References
    ----------
    Mikolov et al. (2013). Distributed representations of words and phrases and their
    compositionality.
    """
    from gensim.models import Word2Vec

    width, window, least, negatives, epochs = (job.options[name] for name in _TRAINED)
    texts = TrainingTexts(job.corpus())
    model = Word2Vec(
        vector_size=width,
        window=window,
        min_count=least,
        sg=1,
        negative=negatives,
        epochs=epochs,
        workers=1,
        seed=stream_key(job.seed, "train/word2vec") % 2**31,
        hashfxn=_hash,
    )
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
    about = {
        "title": "word2vec of the corpus",
        "sha256": content_hash(job.output / "vectors.npy"),
        "versions": {"gensim": package_version("gensim")},
    }
    write_description(job, about)


def _hash(text: str) -> int:
    """Hash a text alike in every process; gensim seeds nothing by it any more, but asks."""
    return stream_key(0, text) % 2**31
