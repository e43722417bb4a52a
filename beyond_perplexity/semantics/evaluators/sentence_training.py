"""How networks of evaluators are trained on sentences of a corpus in their order.

B sentences of a batch, T words of the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceStore
from beyond_perplexity.corpus.sentences import cut_sentences, sentence_item
from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.registry import VOCABULARY, WEIGHTS, choose_device, save_tensors
from beyond_perplexity.options import parse_options
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.schemas.perplexity import TRAINING
from beyond_perplexity.semantics.evaluators.families import package_version
from beyond_perplexity.semantics.evaluators.job import (
    EvaluatorJob,
    EvaluatorTraining,
    write_description,
)
from beyond_perplexity.semantics.evaluators.networks import padded
from beyond_perplexity.semantics.evaluators.skipthought import NeighbourBatch, SkipThoughtNetwork
from beyond_perplexity.storage.provenance import content_hash, run_record
from beyond_perplexity.storage.shards import read_rows, write_shard
from beyond_perplexity.training.loop import train
from beyond_perplexity.vocabulary import UNK, Vocabulary, load_vocabulary


def train_network(
    job: EvaluatorJob,
    make: Callable[[], TrainedModel],
    sources: tuple[BatchSource, BatchSource],
    options: EvaluatorTraining,
    folder: Path,
    about: Mapping[str, Any],
) -> None:
    """Train a network, or go on with it, on training and validation `sources`; write its folder."""
    device = choose_device(job.device)
    ran: dict[str, Any] = {"seed": job.seed, "device": str(device)}
    record = run_record("scripts/train_evaluator.py", dict(job.options), **ran)
    torch.manual_seed(stream_key(job.seed, "train/initialize") % 2**63)
    network = make()
    result = train(network, sources, options, job.seed, folder, device)
    columns = {name: [row[name] for row in result.rows] for name in result.rows[0]}
    columns["phase"] = ["fit"] * len(result.rows)
    write_shard(job.output / "training.parquet", TRAINING, columns, record)
    save_tensors(job.output / WEIGHTS, network.cpu().state_dict())
    found: dict[str, Any] = {"config": network.config, "sha256": content_hash(job.output / WEIGHTS)}
    found |= {"parameters": network.parameter_count()}
    found |= {"versions": {"torch": package_version("torch")}, "valid_loss": result.valid_loss}
    found |= {"best_step": result.best_step, "steps": result.steps}
    write_description(job, {**about, **found})


def ordered_sentences(
    documents: str | Path,
    split: str,
    vocabulary: Vocabulary,
    options: EvaluatorTraining,
    keep_unknown: bool,
) -> Iterator[Instance]:
    """Read the sentences of a split, the next one's number after each; unknown words are ``<unk>``,
    or left out unless `keep_unknown`, as are sentences without a known word."""
    whole = options.sentences == "documents"
    for batch in read_rows([documents], ["doc_id", "text"], split):
        numbers, texts = (batch.column(name).to_pylist() for name in ("doc_id", "text"))
        for doc_id, text, ids in zip(numbers, texts, vocabulary.encode(texts), strict=True):
            first = 0
            for position, part in enumerate(cut_sentences(text, whole)):
                own = ids[first : first + len(part)]
                first += len(part)
                known = own[own != UNK]
                if len(known):
                    number = doc_id if whole else sentence_item(doc_id, position)
                    own = own if keep_unknown else known
                    yield Instance(number, {TOKENS: own[: options.maximum_length]})


def following(store: InstanceStore) -> NDArray[np.int64]:
    """Return the positions of the sentences that the next one of their document comes after."""
    found = np.flatnonzero(np.diff(store.ids) == 1)
    if not len(found):
        advice = "set training.sentences: documents, or train on another corpus"
        raise InputError(f"training: no document has two sentences; {advice}")
    return found


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

    make = partial(SkipThoughtNetwork, vocabulary.size, job.options.get("architecture", {}))
    sources = (source("train"), source("valid"))
    vocabulary.save(job.output / VOCABULARY)
    about = {"title": "SkipThought", "vocabulary_sha256": vocabulary.hash}
    train_network(job, make, sources, training, folder, about)


class Neighbours(BatchSource):
    """Sentences of `ordered_sentences` with those before and after them in their document."""

    def __init__(self, store: InstanceStore, batch_tokens: int) -> None:
        self._store = store
        after = np.zeros(len(store), bool)
        after[following(store)] = True
        before = np.concatenate([[False], after[:-1]])
        self._after, self._before = after, before
        self._positions = np.flatnonzero(after | before)
        lengths = store.lengths
        longest = lengths.copy()
        longest[:-1] = np.maximum(longest[:-1], lengths[1:] * after[:-1])
        longest[1:] = np.maximum(longest[1:], lengths[:-1] * before[1:])
        super().__init__(longest[self._positions], batch_tokens)

    def batch(self, pieces: Any) -> NeighbourBatch:
        """Fetch one batch."""
        positions = self._positions[pieces]
        none = np.zeros(0, np.int64)
        parts: list[Tensor] = []
        for shift, there in ((0, None), (-1, self._before), (1, self._after)):
            rows = [
                np.asarray(self._store[int(position + shift)].arrays[TOKENS])
                if there is None or there[position]
                else none
                for position in positions
            ]
            parts += padded(rows)
        return NeighbourBatch(*parts)
