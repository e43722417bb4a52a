"""A latent model with a proposal for it, and what is drawn of them: weights, log q, beams.

K samples of an instance, R rows (samples of a block, rounded up), W entries of a row of z. Samples
are drawn in blocks, so that memory does not grow with K, by random numbers keyed by instance and
sample. What each instance cost, in seconds of a core or GPU, lies in files of its own.
"""

from __future__ import annotations

import argparse
import heapq
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import Columns, WeightLabels
from beyond_perplexity.importance.ways_to_draw import BeamOptions, Draw, LogQOptions, WeightOptions
from beyond_perplexity.invariant_tensors import round_up, uniforms
from beyond_perplexity.models.families import find_row
from beyond_perplexity.models.latent import PADDING, LatentModel, Proposal, check_support
from beyond_perplexity.models.registry import WEIGHTS, find_named, load_any
from beyond_perplexity.models.word_by_word import OptimalProposal
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.schemas.draws import penalized_column, temperature_column
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.vocabulary import UNK, Vocabulary

LATENTS_AT_ONCE = {"cpu": 1024, "cuda": 8192}  # samples of an instance; on a GPU of several

_HASH_FACTOR = 0x100000001B3  # of the FNV hash


@dataclass(frozen=True)
class Pair:
    """A latent model and a proposal, whose streams are keyed by seed, `purpose` (MODEL/PROPOSAL),
    temperature and instance; None `unknown_types`: nobody counted."""

    model: LatentModel
    proposal: Proposal
    seed: int
    purpose: str
    unknown_types: int | None = None

    def penalized(self) -> Pair | None:
        """Return the pair with unknown words penalized; None where that is ln U for each one."""
        model = self.model.penalized(max(1, self.unknown_types or 1))
        return None if model is None or self.unknown_types is None else self._of(model)

    def as_simulated(self) -> Pair:
        """Return the pair with the model whose distribution simulated documents have."""
        return self._of(self.model.as_simulated(max(1, self.unknown_types or 1)))

    def _of(self, model: LatentModel) -> Pair:
        proposal = self.proposal
        if isinstance(proposal, OptimalProposal):
            proposal = type(proposal)(model)
        return replace(self, model=model, proposal=proposal)

    def batch(self, *instances: Instance) -> InstanceBatch:
        """Put instances into a batch, on the device of the model."""
        return InstanceBatch.of(instances).to(self.model.device)

    @property
    def is_sequential(self) -> bool:
        """Whether both go through a text word by word, as sequential Monte Carlo needs."""
        return hasattr(self.model, "extend") and hasattr(self.proposal, "propose")

    def labels(self, vocabulary: Vocabulary, temperature: float | None) -> WeightLabels:
        """Say what the weights of this pair are, for the footer of a shard."""
        model, _, proposal = self.purpose.partition("/")
        pair = {"model": model, "proposal": proposal, "t_definition": self.model.t_definition}
        unknown = getattr(vocabulary, "unknown_types", None)
        return WeightLabels(**pair, temperature=temperature, unknown_types=unknown)

    def score_columns(self, rows: LatentRows, temperatures: Sequence[float]) -> Columns:
        """Return log p, penalized too where that is a column, log q at the first temperature, and
        hashes."""
        batch = rows.batch
        found, log_p, log_q = score_latents(self, rows, temperatures)
        columns = instance_columns(self.model, batch, rows.owner)
        columns |= {"log_p": found.scatter(log_p), "log_q": found.scatter(log_q)[:, 0]}
        columns |= {"latent_hash": hash_latents(rows.latents)}
        if self.unknown_types is not None:
            given = batch, found.owner, found.latents, max(1, self.unknown_types)
            penalty = self.model.unknown_penalty(*given)  # (N,)
            if penalty is not None:
                columns[penalized_column("log_p")] = found.scatter(log_p - penalty)
        return columns


def hash_latents(latents: Tensor) -> np.ndarray:
    """Hash rows of z, int64 (R,), for latents (R, W): whatever W is, equal latents agree."""
    rows = latents.cpu().numpy()  # (R, W)
    total = np.full(len(rows), 0xCBF29CE484222325, np.uint64)  # (R,)
    for column in rows.T:
        mixed = (total ^ column.astype(np.uint64)) * np.uint64(_HASH_FACTOR)
        mixed ^= mixed >> np.uint64(29)
        total = np.where(column == PADDING, total, mixed)
    return total.view(np.int64)


def instance_columns(model: LatentModel, batch: InstanceBatch, owner: Tensor) -> Columns:
    """Return the columns that say what instances rows, (R,), are of: id, T and unknown tokens."""
    tokens = batch.arrays[TOKENS]  # (B, T); classes of unknown words lie behind the vocabulary
    n_unknown = ((tokens == UNK) | (tokens >= model.vocabulary_size)).sum(1)  # (B,)
    counts = {"n_tokens": model.n_tokens(batch), "n_unknown": n_unknown}  # (B,) each
    where = owner.cpu().numpy()  # (R,)
    columns = {name: count.cpu().numpy().astype(np.int32)[where] for name, count in counts.items()}
    return {"instance_id": batch.ids.cpu().numpy()[where], **columns}


class LatentRows(NamedTuple):
    """Rows of z, int64, (R, W), of the instances of a batch whose positions are `owner`, (R,)."""

    batch: InstanceBatch
    owner: Tensor
    latents: Tensor

    @classmethod
    def of_one(cls, batch: InstanceBatch, latents: Tensor) -> LatentRows:
        """Say that all latents are of the one instance of a batch."""
        zeros = torch.zeros(len(latents), dtype=torch.int64, device=latents.device)
        return cls(batch, zeros, latents)


class Distinct(NamedTuple):
    """The distinct rows of z in whole quanta, int64, (N, W); `owner`, (N,), says where their
    instances are in the batch, `inverse`, (R,), which of them each row is."""

    latents: Tensor
    owner: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, rows: LatentRows) -> Distinct:
        """Find the distinct ones."""
        whole = torch.cat([rows.owner[:, None], rows.latents], 1)  # (R, 1 + W)
        unique, inverse = torch.unique(whole, dim=0, return_inverse=True)  # (N', 1 + W), (R,)
        padded = round_up(unique)  # (N, 1 + W)
        return cls(padded[:, 1:].contiguous(), padded[:, 0].contiguous(), inverse)

    def scatter(self, values: Tensor) -> np.ndarray:
        """Return the values, (N, ...), of all rows, float64, (R, ...)."""
        return values[self.inverse].double().cpu().numpy()


def score_latents(
    pair: Pair, rows: LatentRows, temperatures: Sequence[float]
) -> tuple[Distinct, Tensor, Tensor]:
    """Score each distinct row of z once: log p(x, z), (N,), and log q_τ(z | x), (N, A).

    Torch rounds sums in one way for any few columns, in another for one: for the same bits as with
    other temperatures, there must be two.
    """
    found = Distinct.of(rows)
    given = rows.batch, found.owner, found.latents
    return found, pair.model.log_joint(*given), pair.proposal.log_prob(*given, temperatures)


def together(
    pair: Pair, instances: Iterable[Instance], samples: range
) -> Iterator[tuple[Instance, ...]]:
    """Cut instances into those whose samples are drawn at once, to fill a GPU; on a CPU each is
    alone, as padding could change how sums are rounded."""
    size = 1
    if pair.model.device.type == "cuda":
        size = max(1, LATENTS_AT_ONCE["cuda"] // max(1, len(samples)))
    stream = iter(instances)
    while group := tuple(islice(stream, size)):
        yield group


@torch.inference_mode()
def draw_latents(
    pair: Pair, instances: Sequence[Instance], samples: range, temperature: float
) -> Iterator[tuple[np.ndarray, LatentRows]]:
    """Draw latents z ~ q_τ(z | x) of some instances, a block at a time, with the numbers of the
    samples, int64, (R,), instance by instance."""
    device, batch = pair.model.device, pair.batch(*instances)
    draws, most = pair.proposal.draws(batch), LATENTS_AT_ONCE[device.type]
    for start in range(samples.start, samples.stop, most):
        numbers = torch.arange(start, min(start + most, samples.stop))  # (K,)
        streams = [f"{pair.purpose}/{float(temperature)}/{one}" for one in batch.ids.tolist()]
        random = [uniforms(pair.seed, one, numbers, 0, draws, device) for one in streams]  # (K, U)
        owner = torch.arange(len(batch), device=device).repeat_interleave(len(numbers))  # (R,)
        padded = round_up(owner)  # (R',)
        latents = pair.proposal.sample(batch, padded, round_up(torch.cat(random)), temperature)
        drawn = LatentRows(batch, owner, latents[: len(owner)])  # (R, W)
        yield numbers.repeat(len(batch)).numpy(), drawn


@torch.inference_mode()
def weigh(
    pair: Pair, instances: Iterable[Instance], options: WeightOptions, samples: range
) -> Iterator[Columns]:
    """Yield log p(x, z) and log q_τ(z | x) of the numbered samples, schema ``log_weights`` and
    `penalized_columns`, by blocks of instances that are drawn `together`."""
    twice = [options.temperature] * 2  # what `score_temperatures` finds, bit for bit
    for group in together(pair, instances, samples):
        for numbers, rows in draw_latents(pair, group, samples, options.temperature):
            yield {"sample_id": numbers, **pair.score_columns(rows, twice)}


@torch.inference_mode()
def score_temperatures(
    pair: Pair, instances: Iterable[Instance], options: LogQOptions, samples: range
) -> Iterator[Columns]:
    """Give log q at every temperature of the latents drawn at each of them: what mixtures need.

    They are drawn again by the streams of their weights, so that one more temperature leaves the
    weights of the others as they are; the hash of each shows that it is the latent that was
    weighed. Yields columns of schema ``log_q`` with `schemas.draws.temperature_columns`, in blocks
    at one temperature.
    """
    for group in together(pair, instances, samples):
        for drawn in options.temperatures:
            for numbers, rows in draw_latents(pair, group, samples, drawn):
                found = Distinct.of(rows)
                given = rows.batch, found.owner, found.latents, options.temperatures
                log_q = found.scatter(pair.proposal.log_prob(*given))  # (R, A)
                names = map(temperature_column, options.temperatures)
                yield {
                    "instance_id": rows.batch.ids.cpu().numpy()[rows.owner.cpu().numpy()],
                    "sample_id": numbers,
                    "temperature": np.full(len(numbers), float(drawn)),
                    "latent_hash": hash_latents(rows.latents),
                    **dict(zip(names, log_q.T, strict=True)),
                }


@torch.inference_mode()
def search(pair: Pair, instances: Iterable[Instance], options: BeamOptions) -> Iterator[Columns]:
    """Yield columns of schema ``beams``, log p(x, z) by the search of the largest beam, whose best
    make the smaller ones, so that a bound never rises with the size."""
    for instance in instances:
        batch = pair.batch(instance)
        rows = pair.proposal.beam(batch, max(options.sizes))[0]  # (size, W)
        latents = rows[(rows != PADDING).any(1)]  # (k, W)
        columns = pair.score_columns(LatentRows.of_one(batch, latents), [1.0])
        columns["rank"] = np.arange(len(latents), dtype=np.int32)
        for size in options.sizes:
            held = {name: values[:size] for name, values in columns.items()}
            yield {**held, "beam_size": np.full(len(held["rank"]), size, np.int32)}


def load_pair(
    model_folder: str | os.PathLike[str],
    proposal_folder: str | os.PathLike[str],
    device: str,
    seed: int,
    purpose: str,
) -> tuple[Pair, Vocabulary]:
    """Read a latent model and a proposal, which may be one folder (trained along, or optimal), and
    their vocabulary; two that differ in vocabularies or supports are an `InputError`."""
    model, vocabulary, described = load_any(model_folder, device)
    held, words, other = load_any(proposal_folder, device)
    proposal = held if isinstance(held, Proposal) else getattr(held, "proposal", None)
    kind = find_named(find_row(described["family"]).optimal)
    if proposal is None and kind and other["weights_sha256"] == described["weights_sha256"]:
        proposal = kind(model)
    if not isinstance(model, LatentModel):
        raise InputError(f"{model_folder}: is no model with latent variables")
    if not isinstance(proposal, Proposal):
        raise InputError(f"{proposal_folder}: is no proposal and has none")
    if words.hash != vocabulary.hash:
        raise InputError(f"{proposal_folder}: has another vocabulary than {model_folder}")
    check_support(model, proposal, model_folder, proposal_folder)
    types = getattr(vocabulary, "unknown_types", None)
    return Pair(model, proposal.eval(), seed, purpose, types), vocabulary


def clock_of(device: torch.device) -> tuple[str, Callable[[], float]]:
    """Return what a second is of, and a clock: a core, on which waiting does not count and two busy
    threads count twice, or the GPU, from the first of its work to the last."""

    def gpu_seconds() -> float:
        torch.cuda.synchronize()  # until it has done what it was given
        return time.perf_counter()

    return ("GPU", gpu_seconds) if device.type == "cuda" else ("core", time.process_time)


class Costs:
    """The seconds that were spent on each instance, and what a second is `of`."""

    def __init__(self, device: torch.device) -> None:
        self.of, self._now = clock_of(device)
        self.seconds: dict[int, float] = {}

    def timed(self, chunks: Iterable[Columns]) -> Iterator[Columns]:
        """Pass chunks on; making one is counted for its instances, by their rows."""
        stream, begun = iter(chunks), self._now()
        for chunk in stream:
            spent, (instances, rows) = self._now() - begun, np.unique_counts(chunk["instance_id"])
            for instance, share in zip(instances.tolist(), rows / rows.sum(), strict=True):
                self.seconds[instance] = self.seconds.get(instance, 0.0) + spent * float(share)
            yield chunk
            begun = self._now()

    def table(self, draw: str, name: str, temperature: float | None) -> dict[str, object]:
        """Return the columns of schema ``draw_costs``; `name` is MODEL/PROPOSAL."""
        model, _, proposal = name.partition("/")
        same = {"draw": draw, "model": model, "proposal": proposal, "temperature": temperature}
        same |= {"seconds_of": self.of}
        columns = {key: [value] * len(self.seconds) for key, value in same.items()}
        spent = {"instance_id": list(self.seconds), "seconds": list(self.seconds.values())}
        return {**spent, **columns}


UNDETERMINING = ("output", "costs", "threads")  # flags that do not change a number


def take_instances(instances: Iterable[Instance], wanted: range, seed: int) -> list[Instance]:
    """Take a block of instances in a random order by seed and id alone, in which fewer are the
    first of more; no more than `wanted.stop` are held, and the block may be short or empty."""
    keyed = (
        (stream_key(seed, f"importance/instance/{instance.instance_id}"), index, instance)
        for index, instance in enumerate(instances)
    )
    first = heapq.nsmallest(wanted.stop, keyed, key=lambda entry: entry[:2])
    return [instance for _, _, instance in first[wanted.start :]]


def open_job(
    given: argparse.Namespace, script: str, row: Draw, options: Any
) -> tuple[Pair, list[Any], dict[str, object]]:
    """Read what the flags of `scripts.draw` name: the pair, the block of instances (of the corpus,
    or the row's ``documents``), and the run record, without `UNDETERMINING` flags."""
    torch.set_num_threads(max(given.threads, 1))
    pair, words = load_pair(given.model, given.proposal, given.device, given.seed, given.name)
    wanted = range(given.instances[0], sum(given.instances))
    if row.documents:
        taken = resolve_name(row.documents)(pair, wanted, options, words)
    else:
        split = iter(pair.model.instances(CorpusFiles.of(given.corpus), given.split, words))
        if not (one := list(islice(split, 1))):
            fault = f"the split '{given.split}' has no instance that {given.model} can read"
            advice = "extraction.json there says how many documents it has"
            raise InputError(f"{given.corpus}: {fault}; {advice}")
        taken = take_instances(chain(one, split), wanted, given.seed)
    flags = {key: value for key, value in vars(given).items() if key not in UNDETERMINING}
    weights = f"{given.model}/{WEIGHTS}"
    record = run_record(script, flags, seed=given.seed, device=given.device, checkpoint=weights)
    record["code_fingerprint"] = fingerprint(script, *row.code)
    labels = pair.labels(words, getattr(options, "temperature", None))
    return pair, taken, labels.in_record(record)
