"""The sentences of a corpus: what one is, and a random subset of documents that are cut into them.

Documents come in a random order that the seed and their numbers decide alone, so that those of a
smaller subset are the first of a larger one, and the same for every model and every paper.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from beyond_perplexity.corpus.shallow_trees import sentences
from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.vocabulary import split_words

_PLACES = 20  # bits of a sentence's number in its document
_ORDER = "contrastive/document"  # of the paper that needed an order first; all share it


class CutDocument(NamedTuple):
    """A document and its sentences.

    Attributes
    ----------
    unit_id : int
        Its ``doc_id``.
    group : str or None
        What it belongs to, such as its page; None: a group of its own.
    sentences : list of list of str
        Words; at least one sentence, none of them empty.
    """

    unit_id: int
    group: str | None
    sentences: list[list[str]]


def cut_sentences(text: str, whole: bool) -> list[list[str]]:
    """Cut a document into sentences.

    Parameters
    ----------
    text : str
        Tokens joined by blanks.
    whole : bool
        The document is one sentence; else one ends as `shallow_trees.sentences` says.
    """
    words = split_words(text)
    return [words] if whole and words else list(sentences(words))


def sentence_item(unit_id: int, place: int) -> int:
    """Return the number that keys the random stream of a sentence of a document.

    Raises
    ------
    InputError
        When the document has more sentences than numbers; 2^20.
    """
    if place >> _PLACES:
        raise InputError(f"doc_id {unit_id}: has more than {1 << _PLACES:,} sentences; cut it")
    return unit_id << _PLACES | place


def order_documents(path: str, split: str, seed: int) -> np.ndarray:
    """Return the numbers of all documents of a split that have words, in the random order.

    Parameters
    ----------
    path : str
        Parquet file, schema ``documents``.
    split : str
    seed : int
        Of the run.

    Returns
    -------
    ndarray of int64

    Raises
    ------
    InputError
        When the split has no words.
    """
    ids, keys = array("q"), array("Q")
    for batch in read_rows([path], ["doc_id", "n_tokens"], split):
        for doc_id in batch.filter(pc.greater(batch.column("n_tokens"), 0)).column(0).to_pylist():
            ids.append(doc_id)
            keys.append(stream_key(seed, f"{_ORDER}/{doc_id}"))
    if not ids:
        raise InputError(f"{path}: the split '{split}' has no words; choose another")
    held = np.asarray(ids)
    return held[np.lexsort((held, np.asarray(keys)))]


def read_documents(
    path: str, split: str, wanted: Collection[int], *, grouped: bool = False, whole: bool = False
) -> Iterator[CutDocument]:
    """Stream some documents of a split, cut, in the order of the file.

    Parameters
    ----------
    path : str
        Parquet file, schema ``documents``.
    split : str
    wanted : collection of int
        Their numbers; what is not there is left out.
    grouped : bool
        Whether the documents of a title are a group.
    whole : bool
        See `cut_sentences`.
    """
    columns = ["doc_id", "title", "text"] if grouped else ["doc_id", "text"]
    for batch in read_rows([path], columns, split):
        held = [row for row in batch.select(columns).to_pylist() if row["doc_id"] in wanted]
        for row in held:
            group = row["title"] or None if grouped else None
            yield CutDocument(row["doc_id"], group, cut_sentences(row["text"], whole))


def take_units(
    path: str,
    split: str,
    first: int,
    count: int,
    *,
    seed: int,
    limit: int | None = None,
    grouped: bool = False,
    whole: bool = False,
) -> list[CutDocument]:
    """Take the documents, in their random order, that begin in a range of sentences.

    Parameters
    ----------
    path : str
        Parquet file, schema ``documents``.
    split : str
    first, count : int
        The range: sentences are numbered through in the order of their documents.
    seed : int
        Of the run; it decides on the order.
    limit : int, optional
        The order ends before the first document that would bring it above so many sentences.
    grouped : bool
        Whether the documents of a title are a group.
    whole : bool
        See `cut_sentences`.

    Returns
    -------
    list of CutDocument
        Documents without words are left out. Empty, where the split has fewer sentences.

    Raises
    ------
    InputError
        When the split has no words, or its first document is longer than the limit.
    """
    order = order_documents(path, split, seed)[
        : first + count
    ]  # a document has a sentence at least
    sizes = _count_sentences(path, split, order, whole)
    ends = np.cumsum(sizes)
    begin = (ends - sizes >= first) & (ends - sizes < first + count)
    if limit is not None:
        begin &= ends <= limit
        if ends[0] > limit:
            raise InputError(
                f"{path}: the first document of the split '{split}' (doc_id {order[0]}) has "
                f"{ends[0]:,} sentences, more than the {limit:,} that are wanted in all; raise "
                "`sentences` in the configuration"
            )
    chosen = order[begin].tolist()
    held = {
        unit.unit_id: unit
        for unit in read_documents(path, split, set(chosen), grouped=grouped, whole=whole)
    }
    return [held[unit_id] for unit_id in chosen]


def _count_sentences(path: str, split: str, order: np.ndarray, whole: bool) -> np.ndarray:
    """Count the sentences of documents, int64, in the order of their numbers."""
    sizes, places = np.zeros(len(order), np.int64), np.argsort(order)
    ordered = order[places]
    for batch in read_rows([path], ["doc_id", "text"], split):
        ids = batch.column("doc_id").to_numpy()
        found = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        for row in np.flatnonzero(ordered[found] == ids).tolist():
            text = batch.column("text")[row].as_py()
            sizes[places[found[row]]] = len(cut_sentences(text, whole))
    return sizes
