"""Which sentences of a corpus are distorted: a random subset of its documents, cut into sentences.

Documents come in a random order that the seed and their numbers decide alone, so that those of a
smaller subset are the first of a larger one, and the same for every model.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from beyond_perplexity.corpus.shallow_trees import sentences
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariance.streams import stream_key
from beyond_perplexity.perplexity.documents import texts_of_split
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.vocabulary import split_words

_PLACES = 20  # bits of a sentence's number in its document


class ContrastUnit(NamedTuple):
    """A document that is scored with and without distortions.

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
        The document is one sentence; else one ends after every run of ``.``, ``!`` and ``?``.
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


def types_of_split(path: str, split: str) -> list[str]:
    """List the types of a split in the order of their code points."""
    found: set[str] = set()
    for batch in read_rows([path], ["text"], split):
        for words in pc.split_pattern(batch.column("text"), " ").to_pylist():
            found.update(words)
    return sorted(found - {""})


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
) -> list[ContrastUnit]:
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
    list of ContrastUnit
        Documents without words are left out. Empty, where the split has fewer sentences.

    Raises
    ------
    InputError
        When the split has no words, or its first document is longer than the limit.
    """
    order = _random_order(path, split, first + count, seed)
    sizes = {
        text.doc_id: len(cut_sentences(text.text, whole))
        for text in texts_of_split(path, split)
        if text.doc_id in order
    }
    chosen, start = [], 0
    for unit_id in order:
        if limit is not None and start + sizes[unit_id] > limit:
            break
        if first <= start < first + count:
            chosen.append(unit_id)
        start += sizes[unit_id]
    if not start:
        raise InputError(
            f"{path}: the first document of the split '{split}' (doc_id {next(iter(order))}) has "
            f"{sizes[next(iter(order))]:,} sentences, more than the {limit:,} that are wanted in "
            "all; raise contrastive.sentences"
        )
    wanted = set(chosen)
    held = {
        text.doc_id: ContrastUnit(text.doc_id, text.group, cut_sentences(text.text, whole))
        for text in texts_of_split(path, split, grouped=grouped)
        if text.doc_id in wanted
    }
    return [held[unit_id] for unit_id in chosen]


def _random_order(path: str, split: str, most: int, seed: int) -> dict[int, None]:
    """List the first documents with words, one at least, of the random order."""
    found = heapq.nsmallest(most, _keyed(path, split, seed))
    if not found:
        raise InputError(f"{path}: the split '{split}' has no words; choose another")
    return dict.fromkeys(doc_id for _, doc_id in found)


def _keyed(path: str, split: str, seed: int) -> Iterator[tuple[int, int]]:
    for batch in read_rows([path], ["doc_id", "n_tokens"], split):
        columns = (batch.column(name).to_pylist() for name in ("doc_id", "n_tokens"))
        for doc_id, size in zip(*columns, strict=True):
            if size:
                yield stream_key(seed, f"contrastive/document/{doc_id}"), doc_id
