"""Documents with their mentions of entities, as one code a word.

A code is 0 outside mentions, else 1 + `RADIX` · entity + remaining: entities are numbered from 0 by
their first mention in the document, `remaining` words of the mention are still to come. A string of
codes is a canonical form of the latent variables of EntityNLM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.instances.store import TOKENS, CorpusFiles, Instance
from beyond_perplexity.shards import read_batches
from beyond_perplexity.vocabulary import ClosedVocabulary, Vocabulary, split_words

LATENTS = "latents"
RADIX = 1024


class Span(NamedTuple):
    """A mention: words from `start` to before `end`, of an entity of that name."""

    start: int
    end: int
    entity: str


def chosen_mentions(
    spans: Iterable[Span], maximum_length: int, maximum_entities: int
) -> list[Span]:
    """Choose mentions that do not overlap.

    Mentions longer than `maximum_length` words are left out first. Of those that overlap, the one
    that begins first stays, of those the longest (so the outermost), of equal spans the first one
    given. At last the mentions of an entity that would be one more than `maximum_entities` of the
    document are left out.

    Returns
    -------
    list of Span
        In the order of the text.
    """
    short = [span for span in spans if span.end - span.start <= maximum_length]
    chosen: list[Span] = []
    entities: set[str] = set()
    free = 0
    for span in sorted(short, key=lambda span: (span.start, -span.end)):
        if span.start < free:
            continue
        free = span.end
        if span.entity in entities or len(entities) < maximum_entities:
            entities.add(span.entity)
            chosen.append(span)
    return chosen


def mention_codes(mentions: Sequence[Span], length: int) -> np.ndarray:
    """Write mentions that do not overlap, in the order of the text, as codes, int64, (length,)."""
    codes = np.zeros(length, np.int64)
    numbers: dict[str, int] = {}
    for span in mentions:
        entity = numbers.setdefault(span.entity, len(numbers))
        remaining = np.arange(span.end - span.start - 1, -1, -1)
        codes[span.start : span.end] = 1 + RADIX * entity + remaining
    return codes


def read_mentions(corpus: CorpusFiles) -> Iterator[tuple[int, list[Span]]]:
    """Stream the mentions of a corpus, a document at a time: its doc_id and its spans."""
    current, spans = -1, list[Span]()
    columns = ["doc_id", "start", "end", "entity"]
    for batch in read_batches(corpus.mentions, "mentions", columns):
        rows = (batch.column(name).to_pylist() for name in columns)
        for doc_id, start, end, entity in zip(*rows, strict=True):
            if doc_id != current and spans:
                yield current, spans
                spans = []
            current = doc_id
            spans.append(Span(start, end, entity))
    if spans:
        yield current, spans


def entity_documents(
    corpus: CorpusFiles,
    split: str,
    vocabulary: Vocabulary,
    maximum_length: int,
    maximum_entities: int,
) -> Iterator[Instance]:
    """Read the documents of a split with ``tokens`` and ``latents``, the codes of their mentions.

    Documents without mentions count like others, those without words are left out. Memory does not
    grow with the corpus.

    Parameters
    ----------
    corpus : CorpusFiles
        Its mentions come in the order of its documents.
    split : str
    vocabulary : Vocabulary
        Closed: mentions are spans of words.
    maximum_length, maximum_entities : int
        See `chosen_mentions`.

    Raises
    ------
    InputError
        When the vocabulary is not closed, a mention is outside its document, or the mentions are
        not in the order of the documents.
    """
    if not isinstance(vocabulary, ClosedVocabulary):
        raise InputError("mentions are spans of words; this model takes a closed vocabulary only")
    mentions = read_mentions(corpus)
    doc_id, spans = next(mentions, (-1, []))
    for batch in read_batches(corpus.documents, "documents", ["doc_id", "split", "text"], 1024):
        rows = (batch.column(name).to_pylist() for name in ("doc_id", "split", "text"))
        for number, part, text in zip(*rows, strict=True):
            own: list[Span] = []
            if number == doc_id:
                own = spans
                doc_id, spans = next(mentions, (-1, []))
            words = split_words(text)
            if part != split or not words:
                continue
            _check(corpus, number, own, len(words))
            codes = mention_codes(
                chosen_mentions(own, maximum_length, maximum_entities), len(words)
            )
            tokens = vocabulary.encode([text])[0]
            yield Instance(number, {TOKENS: tokens, LATENTS: codes})
    if spans:
        raise InputError(
            f"{corpus.mentions}: the mentions of document {doc_id} belong to no document or are "
            "not in the order of the documents; sort both files by doc_id"
        )


def _check(corpus: CorpusFiles, doc_id: int, spans: Sequence[Span], length: int) -> None:
    for span in spans:
        if not 0 <= span.start < span.end <= length:
            raise InputError(
                f"{corpus.mentions}: the mention {span.start} to {span.end} of "
                f"{span.entity!r} is not inside document {doc_id} of {length} words"
            )
