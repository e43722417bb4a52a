"""Sentences and distortions of them, in batches, for models that learn to tell them apart.

B sentences, T words of the longest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.distortions import DistortionOptions, distort
from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch, InstanceStore
from beyond_perplexity.corpus.sentences import cut_sentences
from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.training.options import ContrastiveTrainingOptions
from beyond_perplexity.vocabulary import EOS, Vocabulary

# Training sentences whose contrastive entropy, always with the same distortions, the training
# curve has: under one set of weights, which that of the sentences of an epoch would not be.
WATCHED = 1000


@dataclass(frozen=True)
class ContrastBatch:
    """Sentences, each with a distortion of the same length.

    Attributes
    ----------
    tokens, distorted : Tensor
        int64, (B, T); what stands behind a sentence's end has no meaning.
    lengths : Tensor
        int64, (B,).
    """

    tokens: Tensor
    distorted: Tensor
    lengths: Tensor

    @property
    def predictions(self) -> int:
        """The sentences: what a loss is divided by."""
        return len(self.tokens)

    def both(self) -> tuple[Tensor, Tensor]:
        """Return the sentences and below them their distortions, (2 B, T), and lengths, (2 B,)."""
        return torch.cat([self.tokens, self.distorted]), self.lengths.repeat(2)

    def to(self, device: torch.device) -> ContrastBatch:
        """Return the batch on a device."""
        parts = (part.to(device) for part in (self.tokens, self.distorted, self.lengths))
        return ContrastBatch(*parts)


class Contrasts(BatchSource):
    """Batches of sentences of like length with distortions of them.

    Parameters
    ----------
    store : InstanceStore
        From `encode_sentences`.
    options : ContrastiveTrainingOptions
    vocabulary_size : int
        V: the ids above ``<unk>`` are the substitutes.
    seed : int
    purpose : str
        Keys the random streams, with the epoch and the sentence.
    places : ndarray of int64, optional
        Sentences of the store that are taken; None: all.
    """

    def __init__(
        self,
        store: InstanceStore,
        options: ContrastiveTrainingOptions,
        vocabulary_size: int,
        seed: int,
        purpose: str,
        places: np.ndarray | None = None,
    ) -> None:
        self._places = np.arange(len(store)) if places is None else places
        super().__init__(store.lengths[self._places], options.batch_tokens)
        self._store, self._options = store, options
        self._candidates = np.arange(EOS + 2, vocabulary_size)
        self._seed, self._purpose = seed, purpose
        self._shares = DistortionOptions(options.substitution, options.transposition)

    def shuffled(self, seed: int, epoch: int) -> list[Any]:
        """Cut the sentences into batches in the order of one epoch, with its distortions."""
        draw = epoch if self._options.redraw else 0
        return [(draw, rows) for rows in super().shuffled(seed, epoch)]

    def ordered(self) -> list[Any]:
        """Cut the sentences, sorted by length, into batches, always with the same distortions."""
        return [(0, rows) for rows in super().ordered()]

    def batch(self, pieces: Any) -> ContrastBatch:
        """Fetch one batch: the number of the distortion, and which sentences."""
        draw, rows = pieces
        held = InstanceBatch.of(self._store[int(place)] for place in self._places[rows])
        tokens, lengths = held.tokens, held.lengths[TOKENS]
        distorted, _, _ = distort(
            tokens.numpy(),
            lengths.numpy(),
            self._options.distortion,
            self._shares,
            self._candidates,
            seed=self._seed,
            purpose=f"train/distort/{self._purpose}",
            items=held.ids.numpy(),
            draw=draw,
        )
        return ContrastBatch(tokens, torch.from_numpy(distorted), lengths)


def encode_sentences(
    documents: str | os.PathLike[str],
    split: str,
    vocabulary: Vocabulary,
    options: ContrastiveTrainingOptions,
) -> Iterator[Instance]:
    """Read the sentences of a split, in the order of the corpus; their number there is their id.

    Parameters
    ----------
    documents : path
        Parquet file, schema ``documents``.
    split : str
    vocabulary : Vocabulary
        Has an id for every word.
    options : ContrastiveTrainingOptions
        Whether documents are cut, and where sentences that are too long are.
    """
    number, longest = 0, options.maximum_length
    for texts in read_texts([documents], split):
        strings = texts.to_pylist()
        for text, ids in zip(strings, vocabulary.encode(strings), strict=True):
            first = 0
            for part in cut_sentences(text, whole=options.sentences == "documents"):
                for start in range(0, len(part), longest):
                    end = min(start + longest, len(part))
                    yield Instance(number, {TOKENS: ids[first + start : first + end]})
                    number += 1
                first += len(part)


def watched_places(count: int, seed: int) -> np.ndarray:
    """Choose the training sentences that are watched: `WATCHED` at random, rising, or all."""
    chosen = stream(seed, "train/watched").permutation(count)[:WATCHED]
    return np.sort(chosen)
