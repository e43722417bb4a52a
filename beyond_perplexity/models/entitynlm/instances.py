"""Documents with their mentions of entities, as one code a word.

A code is 0 outside mentions, else 1 + `RADIX` · entity + remaining: entities are numbered from 0 by
their first mention in the document, `remaining` words of the mention are still to come. A string of
codes is a canonical form of the latent variables of EntityNLM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    CorpusFiles,
    Instance,
    MentionSpan,
    encode_mentioned,
    without_overlaps,
)
from beyond_perplexity.vocabulary import Vocabulary

RADIX = 1024


def chosen_mentions(
    spans: Iterable[MentionSpan], maximum_length: int, maximum_entities: int
) -> list[MentionSpan]:
    """Choose mentions that do not overlap.

    Mentions longer than `maximum_length` words are left out first, then those that overlap others
    (see `without_overlaps`). At last the mentions of an entity that would be one more than
    `maximum_entities` of the document are left out.

    Returns
    -------
    list of MentionSpan
        In the order of the text.
    """
    short = [span for span in spans if span.end - span.start <= maximum_length]
    chosen: list[MentionSpan] = []
    entities: set[str] = set()
    for span in without_overlaps(short):
        if span.entity in entities or len(entities) < maximum_entities:
            entities.add(span.entity)
            chosen.append(span)
    return chosen


def mention_codes(mentions: Sequence[MentionSpan], length: int) -> np.ndarray:
    """Write mentions that do not overlap, in the order of the text, as codes, int64, (length,)."""
    codes = np.zeros(length, np.int64)
    numbers: dict[str, int] = {}
    for span in mentions:
        entity = numbers.setdefault(span.entity, len(numbers))
        remaining = np.arange(span.end - span.start - 1, -1, -1)
        codes[span.start : span.end] = 1 + RADIX * entity + remaining
    return codes


def entity_documents(
    corpus: CorpusFiles,
    split: str,
    vocabulary: Vocabulary,
    maximum_length: int,
    maximum_entities: int,
) -> Iterator[Instance]:
    """Read the documents of a split with ``tokens`` and ``latents``, the codes of their mentions.

    Documents without mentions count like others, those without words are left out.

    Parameters
    ----------
    corpus, split, vocabulary
        See `encode_mentioned`.
    maximum_length, maximum_entities : int
        See `chosen_mentions`.

    Raises
    ------
    InputError
        As `encode_mentioned`.
    """
    for doc_id, tokens, spans in encode_mentioned(corpus, split, vocabulary):
        chosen = chosen_mentions(spans, maximum_length, maximum_entities)
        yield Instance(doc_id, {TOKENS: tokens, LATENTS: mention_codes(chosen, len(tokens))})
