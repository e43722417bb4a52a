"""Importance weights of latents drawn from a proposal, and the latents of its beam search.

K samples of an instance, R rows (samples of a block, rounded up), W entries of a row of z, A
temperatures. Samples are drawn in blocks, so that memory does not grow with K; a sample's random
numbers are keyed by its instance and its number, so that neither blocks nor shards change it.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.reading.labels import WeightLabels
from beyond_perplexity.instances.store import TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariance.rows import round_up
from beyond_perplexity.invariance.streams import stream_key
from beyond_perplexity.invariance.uniforms import uniforms
from beyond_perplexity.models.checkpoint import load_any
from beyond_perplexity.models.latent import FILLING, LatentModel, Proposal
from beyond_perplexity.schemas import temperature_column
from beyond_perplexity.vocabulary import UNK, Vocabulary

BLOCK = 1024  # samples at once
Columns = dict[str, np.ndarray]

_HASH_FACTOR = 0x100000001B3  # of the FNV hash


@dataclass(frozen=True)
class Pair:
    """A latent model with a proposal for it, and how its samples are keyed.

    Attributes
    ----------
    model : LatentModel
    proposal : Proposal
    seed : int
        Of the run.
    purpose : str
        MODEL/PROPOSAL: keys the random streams, with the temperature and the instance.
    """

    model: LatentModel
    proposal: Proposal
    seed: int
    purpose: str

    def labels(self, vocabulary: Vocabulary, temperature: float | None) -> WeightLabels:
        """Say what the weights of this pair are, for the footer of a shard."""
        model, _, proposal = self.purpose.partition("/")
        return WeightLabels(
            model=model,
            proposal=proposal,
            temperature=temperature,
            t_definition=self.model.t_definition,
            unknown_types=getattr(vocabulary, "unknown_types", None),
        )


def choose_instances(instances: Iterable[Instance], count: int | None, seed: int) -> list[Instance]:
    """Choose instances at random, in the order of the corpus.

    Parameters
    ----------
    instances : iterable of Instance
        A split; no more than `count` of them are held.
    count : int or None
        How many; None: all.
    seed : int
        With the instance's id it decides alone, so that fewer instances are a subset of more.
    """
    if count is None:
        return list(instances)
    keyed = (
        (stream_key(seed, f"importance/instance/{instance.instance_id}"), place, instance)
        for place, instance in enumerate(instances)
    )
    chosen = heapq.nsmallest(count, keyed, key=lambda entry: entry[:2])
    return [instance for _, _, instance in sorted(chosen, key=lambda entry: entry[1])]


def hash_latents(latents: Tensor) -> np.ndarray:
    """Hash rows of z, int64 (R,), for latents (R, W): whatever W is, equal latents agree."""
    rows = latents.cpu().numpy()  # (R, W)
    total = np.full(len(rows), 0xCBF29CE484222325, np.uint64)  # (R,)
    for column in rows.T:
        mixed = (total ^ column.astype(np.uint64)) * np.uint64(_HASH_FACTOR)
        mixed ^= mixed >> np.uint64(29)
        total = np.where(column == FILLING, total, mixed)
    return total.view(np.int64)


def _score(
    pair: Pair, batch: InstanceBatch, latents: Tensor, temperatures: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Return log p, (R,), and log q of each temperature, (R, A), of latents of one instance."""
    unique, places = torch.unique(latents, dim=0, return_inverse=True)  # (N, W), (R,)
    padded = round_up(unique)  # (N', W)
    owner = torch.zeros(len(padded), dtype=torch.int64, device=padded.device)  # (N',)
    log_p = pair.model.log_joint(batch, owner, padded)  # (N',)
    log_q = pair.proposal.log_prob(batch, owner, padded, temperatures)  # (N', A)
    return log_p[places], log_q[places]


def instance_columns(model: LatentModel, batch: InstanceBatch, rows: int) -> Columns:
    """Return the columns that say what instance rows are of: its id, T and unknown tokens."""
    tokens = batch.arrays[TOKENS]  # (1, T); classes of unknown words lie behind the vocabulary
    n_unknown = int(((tokens == UNK) | (tokens >= model.vocabulary_size)).sum())
    return {
        "instance_id": np.full(rows, int(batch.ids[0])),
        "n_tokens": np.full(rows, int(model.n_tokens(batch)[0]), np.int32),
        "n_unknown": np.full(rows, n_unknown, np.int32),
    }


@torch.inference_mode()
def weigh(
    pair: Pair,
    instances: Iterable[Instance],
    samples: range,
    temperature: float,
    grid: Sequence[float],
) -> Iterator[Columns]:
    """Draw latents z ~ q_τ(z | x) and give log p(x, z) and log q(z | x).

    Parameters
    ----------
    pair : Pair
        Both modules in evaluation mode, on one device.
    instances : iterable of Instance
    samples : range
        Numbers of the samples of each instance.
    temperature : float
        τ that they are drawn at.
    grid : sequence of float
        Temperatures whose log q is wanted too.

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``log_weights`` with those of `schemas.temperature_columns`, a block of
        samples of one instance at a time.
    """
    device = pair.model.device
    temperatures = [temperature, *grid]
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(device)
        purpose = f"{pair.purpose}/{float(temperature)}/{instance.instance_id}"
        draws = pair.proposal.draws(batch)
        for start in range(samples.start, samples.stop, BLOCK):
            numbers = torch.arange(start, min(start + BLOCK, samples.stop))  # (K,)
            items = round_up(numbers)  # (R,)
            random = uniforms(pair.seed, purpose, items, 0, draws, device)  # (R, U)
            owner = torch.zeros(len(items), dtype=torch.int64, device=device)  # (R,)
            latents = pair.proposal.sample(batch, owner, random, temperature)  # (R, W)
            latents = latents[: len(numbers)]  # (K, W)
            log_p, log_q = _score(pair, batch, latents, temperatures)  # (K,), (K, A)
            log_q_host = log_q.double().cpu().numpy()
            columns = {
                **instance_columns(pair.model, batch, len(numbers)),
                "sample_id": numbers.numpy(),
                "log_p": log_p.double().cpu().numpy(),
                "log_q": log_q_host[:, 0],
                "latent_hash": hash_latents(latents),
            }
            columns |= {
                temperature_column(value): log_q_host[:, place]
                for place, value in enumerate(grid, start=1)
            }
            yield columns


@torch.inference_mode()
def search(pair: Pair, instances: Iterable[Instance], sizes: Sequence[int]) -> Iterator[Columns]:
    """Give log p(x, z) of the latents that a beam search under q ends with.

    The search is that of the largest beam; the others are its best, so that a bound never rises
    with the size.

    Parameters
    ----------
    pair : Pair
    instances : iterable of Instance
    sizes : sequence of int
        Sizes of the beam.

    Yields
    ------
    dict of str to numpy.ndarray
        Columns of schema ``beams``, one beam of one instance at a time.
    """
    for instance in instances:
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        found = pair.proposal.beam(batch, max(sizes))[0]  # (size, W)
        latents = found[(found != FILLING).any(1)]  # (k, W)
        log_p, log_q = _score(pair, batch, latents, [1.0])  # (k,), (k, 1)
        columns = {
            **instance_columns(pair.model, batch, len(latents)),
            "rank": np.arange(len(latents), dtype=np.int32),
            "log_p": log_p.double().cpu().numpy(),
            "log_q": log_q[:, 0].double().cpu().numpy(),
            "latent_hash": hash_latents(latents),
        }
        for size in sizes:
            held = {name: values[:size] for name, values in columns.items()}
            yield {**held, "beam_size": np.full(len(held["rank"]), size, np.int32)}


def load_pair(
    model_folder: str | os.PathLike[str],
    proposal_folder: str | os.PathLike[str],
    device: str,
    seed: int,
    purpose: str,
) -> tuple[Pair, Vocabulary]:
    """Read a latent model and a proposal for it.

    Parameters
    ----------
    model_folder, proposal_folder : path
        Model folders; the same one for a model that was trained with its proposal.
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    seed, purpose
        See `Pair`.

    Returns
    -------
    pair : Pair
    vocabulary : Vocabulary
        Of both.

    Raises
    ------
    InputError
        When a folder holds something else, or the two differ in their vocabularies or supports.
    """
    model, vocabulary, _ = load_any(model_folder, device)
    held, words, _ = load_any(proposal_folder, device)
    proposal = held if isinstance(held, Proposal) else getattr(held, "proposal", None)
    if not isinstance(model, LatentModel):
        raise InputError(f"{model_folder}: is no model with latent variables")
    if not isinstance(proposal, Proposal):
        raise InputError(f"{proposal_folder}: is no proposal and has none")
    if words.hash != vocabulary.hash:
        raise InputError(f"{proposal_folder}: has another vocabulary than {model_folder}")
    for name, value in proposal.support.items():
        if model.support.get(name) != value:
            raise InputError(
                f"{proposal_folder}: {name} is {value}, but {model.support.get(name)} in "
                f"{model_folder}; train both with the same, or q is 0 where p is not"
            )
    return Pair(model, proposal.eval(), seed, purpose), vocabulary
