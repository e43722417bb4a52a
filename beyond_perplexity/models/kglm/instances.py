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

import numpy as np

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    CorpusFiles,
    Instance,
    encode_with_text,
    name_mention,
    without_overlaps,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kglm.knowledge_graph import KnowledgeGraph, Spellings
from beyond_perplexity.vocabulary import Vocabulary, split_words

# Of each token the number of the alias word that it is, `UNSPELLED` where no alias has it.
SPELLINGS, UNSPELLED = "spellings", -1
NONE, ONGOING, NEW, RELATED = range(4)


def encode_latents(
    spans: Iterable[tuple[int, int, int]], n_tokens: int, edges: np.ndarray, graph: KnowledgeGraph
) -> np.ndarray:
    """Write the mentions of a document as codes.

    A mention is related when an edge leads to its entity from one that was mentioned in the last
    ``graph.cutoff`` tokens (an edge to itself counts), else new. Of those that overlap one counts
    (see `without_overlaps`).

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
    for start, end, entity in without_overlaps(spans):
        recent = (e for e, token in last.items() if start - token <= graph.cutoff)
        linked = any(_contains(edges, e * graph.n_entities + entity) for e in recent)
        codes[start:end] = ONGOING
        codes[start] = (RELATED if linked else NEW) + 2 * entity
        last[entity] = end - 1
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
    """Stream the documents of a split with ``tokens``, ``spellings`` and ``latents``, (T,) each.

    Documents without a mention are instances too: their latents are all `NONE`.

    Parameters
    ----------
    corpus, split, vocabulary
        See `encode_with_text`.
    graph : KnowledgeGraph

    Raises
    ------
    InputError
        As `encode_with_text`, or when a mention is of an entity that the graph lacks.
    """
    numbers = {name: number for number, name in enumerate(graph.entity_names())}
    edges, spellings = graph.edge_keys.cpu().numpy(), Spellings(graph)
    for document, tokens in encode_with_text(corpus, split, vocabulary):
        for span in document.spans:
            if span.entity not in numbers:
                where = name_mention(corpus, document.doc_id, span)
                raise InputError(f"{where}: {corpus.graph} has no such entity; make it again")
        numbered = ((start, end, numbers[entity]) for start, end, entity in document.spans)
        arrays = {
            TOKENS: tokens,
            SPELLINGS: spellings.of(split_words(document.text), UNSPELLED),
            LATENTS: encode_latents(numbered, len(tokens), edges, graph),
        }
        yield Instance(document.doc_id, arrays)
