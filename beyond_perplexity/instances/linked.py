"""Documents whose tokens are linked to the entities of a knowledge graph.

The latents of KGLM are one code a token:

* 0: no mention (`NONE`);
* 1: the mention of the token before goes on (`ONGOING`);
* 2 + 2 e: a mention of entity e begins, which is new (`NEW`);
* 3 + 2 e: a mention of entity e begins, which an edge leads to from a recent entity (`RELATED`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.instances.store import TOKENS, CorpusFiles, Instance
from beyond_perplexity.models.knowledge_graph import KnowledgeGraph
from beyond_perplexity.shards import read_batches
from beyond_perplexity.vocabulary import Vocabulary

NONE, ONGOING, NEW, RELATED = range(4)
LATENTS = "latents"

Span = tuple[int, int, str]


def read_mentions(path: Path) -> Iterator[tuple[int, int, int, str]]:
    """Stream the mentions of a corpus: document, start, end, entity (without newlines).

    Raises
    ------
    InputError
        When they are not in the order of the documents.
    """
    columns = ("doc_id", "start", "end", "entity")
    last = -1
    for batch in read_batches(path, "mentions", columns):
        for doc_id, start, end, entity in zip(
            *(batch.column(name).to_pylist() for name in columns), strict=True
        ):
            if doc_id < last:
                raise InputError(
                    f"{path}: a mention of document {doc_id} comes after one of {last}; "
                    "sort the mentions by doc_id"
                )
            last = doc_id
            yield doc_id, start, end, entity.replace("\n", " ")


def encode_latents(
    spans: Iterable[tuple[int, int, int]], n_tokens: int, edges: np.ndarray, graph: KnowledgeGraph
) -> np.ndarray:
    """Write the mentions of a document as codes.

    A mention is related when an edge leads to its entity from one that was mentioned in the last
    ``graph.cutoff`` tokens (an edge to itself counts), else new. Of mentions that overlap the one
    that starts first counts, or the longer one.

    Parameters
    ----------
    spans : iterable of (start, end, entity)
        Tokens [start, end) and the number of the entity.
    n_tokens : int
        T.
    edges : numpy.ndarray
        ``graph.edge_keys``.
    graph : KnowledgeGraph

    Returns
    -------
    numpy.ndarray
        int64, (T,).
    """
    codes = np.zeros(n_tokens, np.int64)
    last: dict[int, int] = {}  # entity -> its last token
    free = 0
    for start, end, entity in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < free:
            continue
        recent = (e for e, token in last.items() if start - token <= graph.cutoff)
        linked = any(_contains(edges, e * graph.n_entities + entity) for e in recent)
        codes[start:end] = ONGOING
        codes[start] = (RELATED if linked else NEW) + 2 * entity
        last[entity] = end - 1
        free = end
    return codes


def _contains(edges: np.ndarray, key: int) -> bool:
    place = bisect_left(edges, key)
    return place < len(edges) and edges[place] == key


def decode_latents(codes: Iterable[int]) -> Iterator[tuple[int, int, int, int]]:
    """Read codes back: (start, end, entity, kind) of each mention, kind `NEW` or `RELATED`."""
    start, entity, kind, place = -1, -1, NONE, -1
    for place, code in enumerate(codes):
        if code != ONGOING:
            if kind != NONE:
                yield start, place, entity, kind
            kind = NONE if code == NONE else NEW + code % 2
            start, entity = place, (code - NEW) // 2
    if kind != NONE:
        yield start, place + 1, entity, kind


def linked_documents(
    corpus: CorpusFiles, split: str, vocabulary: Vocabulary, graph: KnowledgeGraph
) -> Iterator[Instance]:
    """Stream the documents of a split with ``tokens`` and ``latents``, (T,) each.

    Documents without a mention are instances too: their latents are all `NONE`.

    Parameters
    ----------
    corpus : CorpusFiles
        Documents and mentions rise in ``doc_id``.
    split : str
    vocabulary : Vocabulary
        Closed: mentions are spans of words.
    graph : KnowledgeGraph

    Raises
    ------
    InputError
        When a mention is of an entity that the graph lacks, or lies outside its document, or the
        vocabulary is not of words.
    """
    if vocabulary.kind != "closed":
        raise InputError(
            f"vocabulary: is {vocabulary.kind}, but mentions are spans of words; use a closed one"
        )
    numbers = {name: number for number, name in enumerate(graph.entity_names())}
    edges = graph.edge_keys.cpu().numpy()
    mentions = groupby(read_mentions(corpus.mentions), key=lambda row: row[0])
    waiting = next(mentions, None)
    for batch in read_batches(corpus.documents, "documents", ["doc_id", "split", "text"], 1024):
        ids = batch.column("doc_id").to_pylist()
        splits = batch.column("split").to_pylist()
        encoded = vocabulary.encode(batch.column("text").to_pylist())
        for doc_id, held, tokens in zip(ids, splits, encoded, strict=True):
            spans: list[Span] = []
            if waiting is not None and waiting[0] == doc_id:
                spans = [row[1:] for row in waiting[1]]
                waiting = next(mentions, None)
            if held == split and len(tokens):
                checked = _numbered(corpus, doc_id, spans, len(tokens), numbers)
                codes = encode_latents(checked, len(tokens), edges, graph)
                yield Instance(doc_id, {TOKENS: tokens, LATENTS: codes})
    if waiting is not None:
        raise InputError(
            f"{corpus.mentions}: the mentions of document {waiting[0]} belong to no document or "
            "are not in the order of the documents; sort both files by doc_id"
        )


def _numbered(
    corpus: CorpusFiles, doc_id: int, spans: list[Span], n_tokens: int, numbers: dict[str, int]
) -> list[tuple[int, int, int]]:
    found = []
    for start, end, entity in spans:
        number = numbers.get(entity)
        where = f"{corpus.mentions}: document {doc_id}, mention [{start}, {end}) of {entity!r}"
        if number is None:
            raise InputError(f"{where}: {corpus.graph} has no such entity; make it again")
        if not 0 <= start < end <= n_tokens:
            raise InputError(f"{where}: is outside the document's {n_tokens} tokens")
        found.append((start, end, number))
    return found
