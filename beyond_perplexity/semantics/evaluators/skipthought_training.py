"""The training of SkipThought on the sentences of a corpus and their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceStore
from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.registry import VOCABULARY
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob, EvaluatorTraining
from beyond_perplexity.semantics.evaluators.sentence_training import (
    following,
    ordered_sentences,
    padded,
    train_network,
)
from beyond_perplexity.semantics.evaluators.skipthought import NeighbourBatch, SkipThoughtNetwork
from beyond_perplexity.vocabulary import load_vocabulary


def fit_skipthought(job: EvaluatorJob) -> None:
    """Train a SkipThought encoder with its decoders and write its folder."""
    documents = job.corpus()
    if job.vocabulary is None:
        raise InputError("skipthought: give --vocabulary, of words")
    vocabulary = load_vocabulary(job.vocabulary)
    if vocabulary.kind != "closed":
        raise InputError(f"{job.vocabulary}: is of parts of words; name one of words (kind closed)")
    training = parse_options(EvaluatorTraining, job.options.get("training", {}), "training")
    folder = job.folder(documents, job.vocabulary)

    def source(split: str) -> Neighbours:
        found = ordered_sentences(documents, split, vocabulary, training, keep_unknown=True)
        return Neighbours(InstanceStore.write(folder, split, found), training.batch_tokens)

    architecture = job.options.get("architecture", {})
    sources = (source("train"), source("valid"))
    vocabulary.save(job.output / VOCABULARY)
    about = {"title": "SkipThought", "vocabulary_sha256": vocabulary.hash}

    def make() -> SkipThoughtNetwork:
        return SkipThoughtNetwork(vocabulary.size, architecture)

    train_network(job, make, sources, training, folder, about)


class Neighbours(BatchSource):
    """Sentences of `ordered_sentences` with those before and after them in their document."""

    def __init__(self, store: InstanceStore, batch_tokens: int) -> None:
        self._store = store
        after = np.zeros(len(store), bool)
        after[following(store)] = True
        before = np.concatenate([[False], after[:-1]])
        self._after, self._before = after, before
        self._places = np.flatnonzero(after | before)
        if not len(self._places):
            raise InputError(
                "training: no document has two sentences; set training.sentences: documents, or "
                "train on another corpus"
            )
        lengths = store.lengths
        longest = lengths.copy()
        longest[:-1] = np.maximum(longest[:-1], lengths[1:] * after[:-1])
        longest[1:] = np.maximum(longest[1:], lengths[:-1] * before[1:])
        super().__init__(longest[self._places], batch_tokens)

    def batch(self, pieces: Any) -> NeighbourBatch:
        """Fetch one batch."""
        places = self._places[pieces]
        none = np.zeros(0, np.int64)
        parts: list[Tensor] = []
        for shift, there in ((0, None), (-1, self._before), (1, self._after)):
            rows = [
                np.asarray(self._store[int(place + shift)].arrays[TOKENS])
                if there is None or there[place]
                else none
                for place in places
            ]
            parts += padded(rows)
        return NeighbourBatch(*parts)
