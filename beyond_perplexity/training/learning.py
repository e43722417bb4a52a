"""The fit of models that learn by gradients: latent, unnormalized, neural.

`fitting` imports it by name, so that a change of it trains no counted model anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name

import numpy as np

from beyond_perplexity.corpus.latent_instances import InstanceStore, WholeInstances
from beyond_perplexity.corpus.token_batches import Pieces
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.latent import LatentModule
from beyond_perplexity.models.unnormalized import UnnormalizedModel
from beyond_perplexity.training.contrasts import Contrasts, encode_sentences, watched_places
from beyond_perplexity.training.fitting import Fitting, measure_untrained
from beyond_perplexity.training.loop import TrainingResult, train
from beyond_perplexity.training.options import ContrastiveTrainingOptions

# By name: the jobs of proposals without it do not depend on it.
TRAIN_AWAKE = "beyond_perplexity.training.wake:train_awake"


def learn(job: Fitting, family: type[TrainedModel]) -> tuple[TrainedModel, TrainingResult]:
    """Train a model of a family, or measure one that was brought and is trained no further."""
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
    model = family.create(job.config.get("architecture", {}), job.vocabulary, job.corpus)

    def rows(split: str, batch_tokens: int) -> WholeInstances:
        instances = model.instances(job.corpus, split, job.vocabulary)
        store = InstanceStore.write(job.folder, split, instances)
        return WholeInstances(store, batch_tokens)

    def sources(batch_tokens: int) -> tuple[WholeInstances, WholeInstances]:
        return rows("train", batch_tokens), rows("valid", batch_tokens)

    options, seed, folder, device = job.options, job.seed, job.folder, job.device
    result = train(model, sources(options.batch_tokens), options, seed, folder, device)
    if job.wake is None:
        return model, result
    given = (job.wake, job.vocabulary, sources, options, seed, folder, device)
    return model, replace(result, then=resolve_name(TRAIN_AWAKE)(model, *given))


def _fit_unnormalized(
    job: Fitting, family: type[UnnormalizedModel]
) -> tuple[TrainedModel, TrainingResult]:
    options, vocabulary = job.options, job.vocabulary
    assert isinstance(options, ContrastiveTrainingOptions)
    if job.open_vocabulary:
        raise InputError(
            f"vocabulary: is of parts of words, but a {family.family} is trained on distorted "
            "words; give it a closed one"
        )
    job.set_initial_weights()
    model = family(vocabulary.size, job.config.get("architecture", {}))

    def contrasts(split: str, places: Callable[[int], np.ndarray] | None = None) -> Contrasts:
        found = encode_sentences(job.corpus.documents, split, vocabulary, options)
        store = InstanceStore.write(job.folder, split, found)
        chosen = places(len(store)) if places else None
        purpose = "watched" if places else split
        return Contrasts(store, options, vocabulary.size, job.seed, purpose, chosen)

    sources = (contrasts("train"), contrasts("valid"))
    watched = contrasts("train", lambda count: watched_places(count, job.seed))
    ended = model.scale_vectors if options.unit_vectors else None
    given = (options, job.seed, job.folder, job.device, watched)
    return model, train(model, sources, *given, epoch_ended=ended)


def _fit_neural(job: Fitting) -> tuple[TrainedModel, TrainingResult]:
    options = job.options
    if job.brought:
        model = job.brought.model.train()
        if not job.config.get("training"):
            return model, measure_untrained(model.to(job.device).eval(), job.store("valid"))
    else:
        job.set_initial_weights()
        model = registry.build(job.config, job.vocabulary.size, job.open_vocabulary)
    length = min(options.maximum_length, model.context_length or options.maximum_length)

    def pieces(split: str) -> Pieces:
        return Pieces(job.store(split), length, options.batch_tokens)

    sources = (pieces("train"), pieces("valid"))
    return model, train(model, sources, options, job.seed, job.folder, job.device)
