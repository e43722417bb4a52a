"""Documents with their mentions of entities, as the tables of a corpus have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.instances.store import CorpusFiles
from beyond_perplexity.schemas.corpora import DOCUMENTS, MENTIONS
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import Vocabulary


class MentionSpan(NamedTuple):
    """A mention: words from `start` to before `end`, of an entity of that name."""

    start: int
    end: int
    entity: str


class MentionedDocument(NamedTuple):
    """A row of the documents with the mentions in it."""

    doc_id: int
    split: str
    text: str
    spans: list[MentionSpan]


S = TypeVar("S", bound=tuple[int, int, Any])


def without_overlaps(spans: Iterable[S]) -> Iterator[S]:
    """Choose mentions that do not overlap, in the order of the text.

    Of those that overlap, the one that begins first stays, of those the longest (so the outermost),
    of equal spans the first one given.

    Parameters
    ----------
    spans : iterable of tuple
        Words [start, end) and what is mentioned.
    """
    free = 0
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if span[0] >= free:
            free = span[1]
            yield span


def _rows(path: Path) -> Iterator[tuple[int, MentionSpan]]:
    columns = ("doc_id", "start", "end", "entity")
    last = -1
    for batch in read_batches(path, MENTIONS, columns):
        values = (batch.column(name).to_pylist() for name in columns)
        for doc_id, start, end, entity in zip(*values, strict=True):
            if doc_id < last:
                raise InputError(
                    f"{path}: a mention of document {doc_id} comes after one of {last}; "
                    "sort the mentions by doc_id"
                )
            last = doc_id
            yield doc_id, MentionSpan(start, end, entity.replace("\n", " "))


def read_mentioned(corpus: CorpusFiles) -> Iterator[MentionedDocument]:
    """Stream all documents of a corpus, each with its mentions, of which it may have none.

    Names of entities have no newlines. Memory does not grow with the corpus.

    Raises
    ------
    InputError
        When documents or mentions do not rise in ``doc_id``, or a mention is of no document.
    """
    mentions = groupby(_rows(corpus.mentions), key=lambda row: row[0])
    columns = ("doc_id", "split", "text")
    waiting = next(mentions, None)
    for batch in read_batches(corpus.documents, DOCUMENTS, columns, 1024):
        values = (batch.column(name).to_pylist() for name in columns)
        for doc_id, split, text in zip(*values, strict=True):
            spans: list[MentionSpan] = []
            if waiting is not None and waiting[0] == doc_id:
                spans = [span for _, span in waiting[1]]
                waiting = next(mentions, None)
            yield MentionedDocument(doc_id, split, text, spans)
    if waiting is not None:
        raise InputError(
            f"{corpus.mentions}: the mentions of document {waiting[0]} belong to no document or "
            "are not in the order of the documents; sort both files by doc_id"
        )


def encode_mentioned(
    corpus: CorpusFiles, split: str, vocabulary: Vocabulary
) -> Iterator[tuple[int, np.ndarray, list[MentionSpan]]]:
    """Stream the documents of a split that have words: id, ids of the words (T,), mentions.

    Parameters and errors are those of `encode_with_text`.
    """
    for document, tokens in encode_with_text(corpus, split, vocabulary):
        yield document.doc_id, tokens, document.spans


def encode_with_text(
    corpus: CorpusFiles, split: str, vocabulary: Vocabulary
) -> Iterator[tuple[MentionedDocument, np.ndarray]]:
    """Stream the documents of a split that have words, each with the ids of its words, (T,).

    Parameters
    ----------
    corpus : CorpusFiles
        Documents and mentions rise in ``doc_id``.
    split : str
    vocabulary : Vocabulary
        Closed: mentions are spans of words.

    Raises
    ------
    InputError
        As `read_mentioned`, when the vocabulary is not of words, or when a mention is outside its
        document.
    """
    if vocabulary.kind != "closed":
        raise InputError(
            f"vocabulary: is {vocabulary.kind}, but mentions are spans of words; use a closed "
            "vocabulary"
        )
    for document in read_mentioned(corpus):
        if document.split != split:
            continue
        tokens = vocabulary.encode([document.text])[0]  # (T,)
        if not len(tokens):
            continue
        for span in document.spans:
            if not 0 <= span.start < span.end <= len(tokens):
                where = name_mention(corpus, document.doc_id, span)
                raise InputError(f"{where}: is outside the document's {len(tokens)} tokens")
        yield document, tokens


def name_mention(corpus: CorpusFiles, doc_id: int, span: MentionSpan) -> str:
    """Say which mention it is, for an error."""
    start, end, entity = span
    return f"{corpus.mentions}: document {doc_id}, mention [{start}, {end}) of {entity!r}"
