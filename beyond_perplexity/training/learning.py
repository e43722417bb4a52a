"""The fit of models that learn by gradients; imported by name, so that counted models stay."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.distortions import DistortionOptions, distort
from beyond_perplexity.corpus.latent_instances import (
    TOKENS,
    Instance,
    InstanceBatch,
    InstanceStore,
    WholeInstances,
)
from beyond_perplexity.corpus.sentences import cut_sentences
from beyond_perplexity.corpus.token_batches import BatchSource, Pieces
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.latent import LatentModule, UnnormalizedModel
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.training.fitting import Fitting, measure_untrained
from beyond_perplexity.training.loop import TrainingResult, curve_row, train
from beyond_perplexity.training.options import ContrastiveTrainingOptions
from beyond_perplexity.vocabulary import EOS, Vocabulary

# Training sentences whose contrastive entropy, always with the same distortions, the training
# curve has: under one set of weights, which that of the sentences of an epoch would not be.
WATCHED = 1000


# By name: the jobs of proposals without it do not depend on it.
TRAIN_AWAKE = "beyond_perplexity.training.wake:train_awake"


def learn(job: Fitting, family: type[TrainedModel]) -> tuple[TrainedModel, TrainingResult]:
    """Train a model of a family, or measure one that is external and is trained no further."""
    if issubclass(family, LatentModule):
        return _fit_latent(job, family)
    if issubclass(family, UnnormalizedModel):
        return _fit_unnormalized(job, family)
    return _fit_neural(job)


def _fit_latent(job: Fitting, family: type[LatentModule]) -> tuple[TrainedModel, TrainingResult]:
    if job.options.scheduled_sampling != "none":
        raise InputError(
            "training.scheduled_sampling: is for models without latent variables; leave it out"
        )
    job.set_initial_weights()
    if job.external is not None:
        model: Any = cast(Any, job.external).with_lengths(job.corpus, job.vocabulary)
    else:
        model = family.create(job.config.get("architecture", {}), job.vocabulary, job.corpus)

    def rows(split: str, batch_tokens: int) -> WholeInstances:
        instances = model.instances(job.corpus, split, job.vocabulary)
        store = InstanceStore.write(job.folder, split, instances)
        return WholeInstances(store, batch_tokens)

    def sources(batch_tokens: int) -> tuple[WholeInstances, WholeInstances]:
        return rows("train", batch_tokens), rows("valid", batch_tokens)

    if job.external is not None:
        return model, _measure_latent(model, rows("valid", job.options.batch_tokens), job)
    result = train(model, sources(job.options.batch_tokens), *job.how)
    if job.wake is None:
        return model, result
    return model, replace(result, then=resolve_name(TRAIN_AWAKE)(model, job, sources))


@torch.no_grad()
def _measure_latent(model: LatentModule, valid: WholeInstances, job: Fitting) -> TrainingResult:
    """Give an external model the one row of a training curve that it has."""
    if job.config.get("training"):
        raise InputError(f"training: a {model.config['family']} model is taken as it is; remove it")
    model.to(job.device)
    batches = [valid.batch(pieces).to(job.device) for pieces in valid.ordered()]
    total = sum(float(model.loss(batch)) for batch in batches)
    loss = total / sum(batch.predictions for batch in batches)
    return TrainingResult([curve_row(0, 1.0, "valid", loss)], loss, 0, 0)


def _fit_unnormalized(
    job: Fitting, family: type[UnnormalizedModel]
) -> tuple[TrainedModel, TrainingResult]:
    options, vocabulary = job.options, job.vocabulary
    assert isinstance(options, ContrastiveTrainingOptions)
    if job.open_vocabulary:
        detail = f"but a {family.family} is trained on distorted words; give it a closed one"
        raise InputError(f"vocabulary: is of parts of words, {detail}")
    job.set_initial_weights()
    model = family(vocabulary.size, job.config.get("architecture", {}))

    def contrasts(split: str, indices: Callable[[int], np.ndarray] | None = None) -> Contrasts:
        found = encode_sentences(job.corpus.documents, split, vocabulary, options)
        store = InstanceStore.write(job.folder, split, found)
        chosen = indices(len(store)) if indices else None
        purpose = "watched" if indices else split
        return Contrasts(store, options, vocabulary.size, job.seed, purpose, chosen)

    sources = (contrasts("train"), contrasts("valid"))
    watched = contrasts("train", lambda count: watched_places(count, job.seed))
    ended = model.scale_vectors if options.unit_vectors else None
    return model, train(model, sources, *job.how, watched, epoch_ended=ended)


def _fit_neural(job: Fitting) -> tuple[TrainedModel, TrainingResult]:
    options = job.options
    if job.external is not None:
        model = job.external.train()
        if not job.config.get("training"):
            return model, measure_untrained(model.to(job.device).eval(), job.store("valid"))
    else:
        job.set_initial_weights()
        model = registry.build(job.config, job.vocabulary.size, job.open_vocabulary)
    length = min(options.maximum_length, model.context_length or options.maximum_length)

    def pieces(split: str) -> Pieces:
        return Pieces(job.store(split), length, options.batch_tokens)

    sources = (pieces("train"), pieces("valid"))
    return model, train(model, sources, *job.how)


@dataclass(frozen=True)
class ContrastBatch:
    """Sentences, int64, (B, T), of `lengths`, (B,), each with a distortion of the same length."""

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
    """Batches of sentences of like length with distortions of them, by streams of purpose, epoch
    and sentence; substitutes are the ids above ``<unk>``, `indices` the sentences taken."""

    def __init__(
        self,
        store: InstanceStore,
        options: ContrastiveTrainingOptions,
        vocabulary_size: int,
        seed: int,
        purpose: str,
        indices: np.ndarray | None = None,
    ) -> None:
        self._indices = np.arange(len(store)) if indices is None else indices
        super().__init__(store.lengths[self._indices], options.batch_tokens)
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
        held = InstanceBatch.of(self._store[int(index)] for index in self._indices[rows])
        tokens, lengths = held.tokens, held.lengths[TOKENS]
        how = self._options.distortion, self._shares, self._candidates
        keys: dict[str, Any] = {"seed": self._seed, "purpose": f"train/distort/{self._purpose}"}
        keys |= {"items": held.ids.numpy(), "draw": draw}
        distorted, _, _ = distort(tokens.numpy(), lengths.numpy(), *how, **keys)
        return ContrastBatch(tokens, torch.from_numpy(distorted), lengths)


def encode_sentences(
    documents: str | os.PathLike[str],
    split: str,
    vocabulary: Vocabulary,
    options: ContrastiveTrainingOptions,
) -> Iterator[Instance]:
    """Read the sentences of a split, in the order of the corpus; their number there is their id."""
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
