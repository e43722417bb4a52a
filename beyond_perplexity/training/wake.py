"""Wake training of a proposal: it learns what its model believes (Bornschein & Bengio 2015).

The model stays as it is, and the words of the training split alone are read. Of each instance K
latents are drawn, z_k ~ q(z | x), and weighed, w_k = p(x, z_k) / q(z_k | x). The step follows Σ_k
w̃_k ∇ log q(z_k | x), w̃ the weights over their sum: it estimates, consistently in K, the gradient
of −KL(p(z | x) ‖ q(z | x)) ("wake-phase q update" of reweighted wake-sleep). The loss is −log p̂(x)
= log K − log Σ_k w_k, an upper bound on −log p(x) on average. Latents are drawn and weighed without
dropout and noise; the gradient has them.

B instances of a batch, K latents of an instance, R = B K rows, W entries of a row of z, U random
numbers of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import uniforms
from beyond_perplexity.models.latent import LatentModel, Proposal, check_support
from beyond_perplexity.models.registry import DESCRIPTION, load_any
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.provenance import content_hash, value_hash
from beyond_perplexity.training.fitting import Fitting
from beyond_perplexity.training.loop import TrainingResult, train
from beyond_perplexity.training.options import WAKE, ProposalTrainingOptions
from beyond_perplexity.vocabulary import Vocabulary

_FILE = "beyond_perplexity/training/wake.py"
NEGLIGIBLE = 1e-9  # shares of all weights whose gradients float32 would lose


def wake_loss(
    proposal: Proposal,
    model: LatentModel,
    count: int,
    seed: int,
    batch: InstanceBatch,
    epoch: float,
) -> Tensor:
    """Return −Σ log p̂(x) of a batch, nats, float32, with its gradient, by numbers keyed by seed,
    pass, instance and latent, of `count`; the proposal's mode stays."""
    training = proposal.training
    own = torch.arange(count)  # (K,)
    items = (batch.ids.cpu()[:, None] * count + own).flatten()  # (R,)
    owner = torch.arange(len(batch), device=batch.ids.device).repeat_interleave(count)  # (R,)
    purpose = f"train/wake/{'valid' if math.isinf(epoch) else int(epoch)}"
    proposal.eval()
    with torch.no_grad():
        chosen = uniforms(seed, purpose, items, 0, proposal.draws(batch), batch.ids.device)
        latents = proposal.sample(batch, owner, chosen, 1.0)  # (R, W)
        log_q = proposal.log_prob(batch, owner, latents, [1.0])[:, 0]  # (R,)
        log_p = model.log_joint(batch, owner, latents)  # (R,)
    proposal.train(training)
    weights = (log_p - log_q).view(-1, count)  # (B, K)
    value = -(weights.logsumexp(1) - math.log(count)).sum()
    if not training:
        return value.float()
    shares = weights.softmax(1).nan_to_num(0.0).flatten()  # (R,): 0 where no latent is possible
    used = (shares > NEGLIGIBLE).nonzero()[:, 0]  # (R',)
    fresh = proposal.learnable_log_prob(batch, owner[used], latents[used])  # (R',)
    climbed = (shares[used] * fresh).sum()
    return (value - (climbed - climbed.detach())).float()


def train_awake(
    proposal: Proposal, job: Fitting, sources: Callable[[int], tuple[BatchSource, BatchSource]]
) -> TrainingResult:
    """Train a proposal further by its model, or go on: best weights by the validation split's
    bound, else those it had; losses are −log p̂(x), nats per prediction."""
    options = job.options
    assert job.wake is not None
    assert isinstance(options, ProposalTrainingOptions)
    model = _load_frozen(proposal, job.wake, job.vocabulary, job.device)
    wake = {name: value for name, value in asdict(options).items() if name.startswith(WAKE)}
    key = {**wake, "model": content_hash(job.wake / DESCRIPTION), "code": fingerprint(_FILE)}
    changes: dict[str, Any] = {
        "maximum_steps": options.wake_steps,
        "maximum_epochs": options.wake_steps,  # an epoch has a step at least
        "batch_tokens": options.wake_batch_tokens,
        "learning_rate": options.wake_learning_rate,
        "precision": "32",  # weights are differences of large numbers
    }
    loss = partial(wake_loss, proposal, model, options.wake_samples, job.seed)
    own = job.folder / f"wake-{value_hash(key)[:16]}"
    how = replace(options, **changes), job.seed, own, job.device
    return train(proposal, sources(options.wake_batch_tokens), *how, loss=loss)


def _load_frozen(
    proposal: Proposal, folder: Path, vocabulary: Vocabulary, device: torch.device
) -> LatentModel:
    """Read the model that a proposal is for."""
    model, words, _ = load_any(folder, device)
    if not isinstance(model, LatentModel):
        raise InputError(f"{folder}: is no model with latent variables; give the proposal's model")
    if words.hash != vocabulary.hash:
        raise InputError(f"{folder}: has another vocabulary than the proposal; train both with one")
    check_support(model, proposal, folder, "the proposal")
    return model.requires_grad_(False)
