"""Write generated documents to a shard of samples."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.decoding.engine import DrawnDocument
from beyond_perplexity.models.latent import Simulated
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import Vocabulary

_Document = TypeVar("_Document", DrawnDocument, Simulated)
ROWS_OF_WRITE = 4096  # documents of a write


def to_table(documents: Sequence[DrawnDocument], vocabulary: Vocabulary) -> pa.Table:
    """Turn documents into rows of ``samples``.

    ``n_tokens`` counts the model's tokens without ``<s>`` and ``</s>``: words of a closed
    vocabulary, pieces of a BPE vocabulary. ``log_prob_decoding`` is null where it is NaN.
    """
    ids, tokens, log_prob, log_prob_decoding, finished = zip(*documents, strict=True)
    columns = {
        "doc_id": ids,
        "text": vocabulary.decode(tokens),
        "n_tokens": [len(token_ids) for token_ids in tokens],
        "log_prob": log_prob,
        "log_prob_decoding": [None if math.isnan(value) else value for value in log_prob_decoding],
        "finished": finished,
    }
    return pa.table(columns, TEXT_SAMPLES)


def write_samples(
    path: str | os.PathLike[str],
    documents: Iterable[DrawnDocument],
    count: int,
    vocabulary: Vocabulary,
    record: dict[str, object],
) -> None:
    """Write a shard of samples, a batch of documents at a time, with a progress bar.

    Parameters
    ----------
    path : path
        The Parquet file; it appears when it is complete.
    documents : iterable of DrawnDocument
        In the order of their ids.
    count : int
        How many there will be, for the bar.
    vocabulary : Vocabulary
        Turns tokens into texts.
    record : dict
        The run record of the footer.
    """
    _write(path, documents, count, lambda batch: to_table(batch, vocabulary), record)


def write_simulated(
    path: str | os.PathLike[str],
    documents: Iterable[Simulated],
    count: int,
    record: dict[str, object],
) -> None:
    """Write a shard of documents that a model with latent variables has generated.

    Parameters are those of `write_samples`. ``n_tokens`` counts words; log p of the words alone, a
    sum over all latents, is null, under the model and under the decoding.
    """
    _write(path, documents, count, _to_simulated_table, record)


def _to_simulated_table(documents: Sequence[Simulated]) -> pa.Table:
    columns = {
        "doc_id": [one.instance.instance_id for one in documents],
        "text": [" ".join(one.words) for one in documents],
        "n_tokens": [len(one.words) for one in documents],
        "log_prob": [None] * len(documents),
        "log_prob_decoding": [None] * len(documents),
        "finished": [not one.truncated for one in documents],
    }
    return pa.table(columns, TEXT_SAMPLES)


def _write(
    path: str | os.PathLike[str],
    documents: Iterable[_Document],
    count: int,
    to_rows: Callable[[Sequence[_Document]], pa.Table],
    record: dict[str, object],
) -> None:
    stream = iter(tqdm(documents, total=count, unit="document", mininterval=2))
    with ShardWriter(path, TEXT_SAMPLES, record) as writer:
        while batch := list(islice(stream, ROWS_OF_WRITE)):
            writer.write(to_rows(batch))
