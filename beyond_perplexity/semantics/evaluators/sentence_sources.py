"""Sentences of a corpus in their order, and batches of them for the training of evaluators.

B sentences of a batch, T words of the longest, E numbers of a word vector.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceStore
from beyond_perplexity.corpus.sentences import cut_sentences, sentence_item
from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream
from beyond_perplexity.semantics.evaluators.infersent_network import PairBatch
from beyond_perplexity.semantics.evaluators.options import EvaluatorTraining
from beyond_perplexity.semantics.evaluators.skipthought_network import NeighbourBatch
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.vocabulary import UNK, Vocabulary

SECOND, LABEL = "second", "label"
LABEL_UNIT = 1_000_000  # labels are kept as integers


def ordered_sentences(
    documents: str | os.PathLike[str],
    split: str,
    vocabulary: Vocabulary,
    options: EvaluatorTraining,
    keep_unknown: bool,
) -> Iterator[Instance]:
    """Read the sentences of a split: the number after a sentence's is that of the next one.

    Parameters
    ----------
    documents : path
        Parquet file, schema ``documents``.
    split : str
    vocabulary : Vocabulary
        Has an id for every word.
    options : EvaluatorTraining
        What a sentence is, and how long at most.
    keep_unknown : bool
        Words that the vocabulary lacks are read as ``<unk>``; false: they are left out. Sentences
        without a known word are left out.
    """
    whole = options.sentences == "documents"
    for batch in read_rows([documents], ["doc_id", "text"], split):
        numbers, texts = (batch.column(name).to_pylist() for name in ("doc_id", "text"))
        for doc_id, text, ids in zip(numbers, texts, vocabulary.encode(texts), strict=True):
            first = 0
            for place, part in enumerate(cut_sentences(text, whole)):
                own = ids[first : first + len(part)]
                first += len(part)
                known = own[own != UNK]
                if len(known):
                    number = doc_id if whole else sentence_item(doc_id, place)
                    own = own if keep_unknown else known
                    yield Instance(number, {TOKENS: own[: options.maximum_length]})


def following(store: InstanceStore) -> NDArray[np.int64]:
    """Return the places of the sentences that the next one of their document comes after."""
    return np.flatnonzero(np.diff(store.ids) == 1)


def padded(rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Return rows of ids, int64, (B, T), filled up with their own last one, and lengths, (B,)."""
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), max(1, int(lengths.max()))), np.int64)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
    return torch.from_numpy(tokens), torch.from_numpy(lengths)


class Neighbours(BatchSource):
    """Sentences with those before and after them in their document.

    Parameters
    ----------
    store : InstanceStore
        From `ordered_sentences`.
    batch_tokens : int
        Sentences times words of the longest at most.

    Raises
    ------
    InputError
        When no sentence has a neighbour.
    """

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
                self._tokens(place + shift) if there is None or there[place] else none
                for place in places
            ]
            parts += padded(rows)
        return NeighbourBatch(*parts)

    def _tokens(self, place: int) -> np.ndarray:
        return np.asarray(self._store[int(place)].arrays[TOKENS])


class NextSentences(BatchSource):
    """Pairs of a sentence and the next one, and as many with the next one of another sentence.

    The other is of the same batch, so of like length: which it is the seed decides anew in each
    epoch.

    Parameters
    ----------
    store : InstanceStore
        From `ordered_sentences`, without unknown words.
    vectors : ndarray of float32, shape (V, E)
        By the id of a word.
    batch_tokens : int
    seed : int
    purpose : str
        Keys the random streams.

    Raises
    ------
    InputError
        When no sentence has a next one.
    """

    def __init__(
        self,
        store: InstanceStore,
        vectors: NDArray[np.float32],
        batch_tokens: int,
        seed: int,
        purpose: str,
    ) -> None:
        self._store, self._vectors = store, vectors
        self._seed, self._purpose = seed, purpose
        self._places = following(store)
        if not len(self._places):
            raise InputError(
                "training: no document has two sentences; set training.sentences: documents, or "
                "train on another corpus"
            )
        lengths = store.lengths
        longest = np.maximum(lengths[self._places], lengths[self._places + 1])
        super().__init__(2 * longest, batch_tokens)

    def shuffled(self, seed: int, epoch: int) -> list[Any]:
        """Cut the sentences into batches in the order of one epoch."""
        return [(epoch, number, rows) for number, rows in enumerate(super().shuffled(seed, epoch))]

    def ordered(self) -> list[Any]:
        """Cut the sentences, sorted by length, into batches, always with the same others."""
        return [(0, number, rows) for number, rows in enumerate(super().ordered())]

    def batch(self, pieces: Any) -> PairBatch:
        """Fetch one batch: the sentences, below them the next ones."""
        epoch, number, rows = pieces
        places = self._places[rows]
        held = [self._store[int(place)].arrays[TOKENS] for place in (*places, *(places + 1))]
        tokens, lengths = padded(held)
        count = len(places)
        here = torch.arange(count)
        there = here + count
        if count > 1:
            item = (epoch << 32) | number
            random = stream(self._seed, f"train/other/{self._purpose}", item)
            order = torch.from_numpy(random.permutation(count))
            others = torch.empty_like(order)
            others[order] = order.roll(1)  # nobody's other is its own
            first, second = torch.cat([here, here]), torch.cat([there, others + count])
        else:
            first, second = here, there
        labels = torch.zeros(len(first))
        labels[:count] = 1.0
        vectors = torch.from_numpy(self._vectors[tokens.numpy()])  # (2 B, T, E)
        return PairBatch(vectors, lengths, first, second, labels)


class LabelledPairs(BatchSource):
    """Pairs of sentences with a label each.

    Parameters
    ----------
    store : InstanceStore
        Instances with the words of the first sentence, of the second, and the label: a class, or
        `LABEL_UNIT` times a score from 0 to 1.
    vectors : ndarray of float32, shape (V, E)
        By the id of a word.
    batch_tokens : int
    scores : bool
        Labels are scores.
    """

    def __init__(
        self,
        store: InstanceStore,
        vectors: NDArray[np.float32],
        batch_tokens: int,
        scores: bool,
    ) -> None:
        self._store, self._vectors, self._scores = store, vectors, scores
        longest = np.maximum(store.lengths, store.lengths_of(SECOND))
        super().__init__(2 * longest, batch_tokens)

    def batch(self, pieces: Any) -> PairBatch:
        """Fetch one batch: the first sentences, below them the second ones."""
        held = [self._store[int(place)].arrays for place in pieces]
        rows = [np.asarray(arrays[side]) for side in (TOKENS, SECOND) for arrays in held]
        tokens, lengths = padded(rows)
        here = torch.arange(len(held))
        labels = torch.tensor([int(arrays[LABEL][0]) for arrays in held])
        if self._scores:
            labels = labels.float() / LABEL_UNIT
        vectors = torch.from_numpy(self._vectors[tokens.numpy()])  # (2 B, T, E)
        return PairBatch(vectors, lengths, here, here + len(held), labels)
