"""What a model predicts in sentences: texts that can be compared with what was written.

A model is asked word by word in its document, with the context that its perplexity has. A brought
model is asked about the tokens of the corpus as well, so that all models read the same text.

n tokens of a document, S draws at each place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from beyond_perplexity.corpus.sentences import CutDocument, sentence_item
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import LOGIT_ROWS
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.semantics import PREDICTIONS
from beyond_perplexity.semantics.next_words import Prompt, continue_prompts, predict_tokens
from beyond_perplexity.semantics.options import PredictionOptions
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, UNK, ClosedVocabulary, Vocabulary

_PURPOSE = "semantics/sample"  # of the random streams


class _Place(NamedTuple):
    """A sentence: where it is among documents, and in the tokens of its own."""

    document: int
    sentence: int
    words: list[str]
    tokens: slice
    given: int | None  # tokens of its first words, where it is continued


def print_tokens(vocabulary: Vocabulary, texts: Sequence[np.ndarray]) -> list[str]:
    """Turn ids (n,) into words joined by one blank, ``</s>`` and ``<unk>`` printed so."""
    cuts = [np.flatnonzero(ids <= UNK) for ids in texts]
    parts = [
        ids[start:end]
        for ids, places in zip(texts, cuts, strict=True)
        for start, end in zip([0, *(places + 1)], [*places, len(ids)], strict=True)
    ]
    words = iter(vocabulary.decode(parts))
    found = []
    for ids, places in zip(texts, cuts, strict=True):
        special = (SPECIAL_TOKENS[number] for number in ids[places])
        between = chain.from_iterable((name, next(words)) for name in special)
        found.append(" ".join(part for part in (next(words), *between) if part))
    return found


def _place_sentences(
    units: Sequence[CutDocument], vocabulary: Vocabulary, prefix: int | None
) -> tuple[list[np.ndarray], list[_Place]]:
    """Encode documents: the ids of each, and where their sentences are."""
    pieces, continued = [], []
    for unit in units:
        long = [prefix is not None and len(words) > prefix for words in unit.sentences]
        cut = [
            (words[:prefix], words[prefix:]) if two else (words,)
            for words, two in zip(unit.sentences, long, strict=True)
        ]
        pieces.append([" ".join(part) for parts in cut for part in parts])
        continued.append(long)
    texts, places = [], []
    encoded = vocabulary.encode_pieces(pieces)
    for document, (unit, ids, long) in enumerate(zip(units, encoded, continued, strict=True)):
        texts.append(np.concatenate(ids))
        sizes = iter([len(part) for part in ids])
        end = 0
        for sentence, (words, two) in enumerate(zip(unit.sentences, long, strict=True)):
            start, first = end, next(sizes)
            end += first + (next(sizes) if two else 0)
            given = first if two and start + first < end else None
            places.append(_Place(document, sentence, words, slice(start, end), given))
    return texts, places


def _numbers(
    units: Sequence[CutDocument],
    texts: Sequence[np.ndarray],
    places: Sequence[_Place],
    samples: int,
    seed: int,
) -> list[np.ndarray]:
    """Return the uniform numbers of every document, (n, S): streams of the sentence and draw."""
    found = [np.empty((len(ids), samples)) for ids in texts]
    for place in places:
        item = sentence_item(units[place.document].unit_id, place.sentence)
        count = place.tokens.stop - place.tokens.start
        for draw in range(samples):
            numbers = stream(seed, f"{_PURPOSE}/{draw}", item).random(count)
            found[place.document][place.tokens, draw] = numbers
    return found


def _continue(
    model: LanguageModel,
    units: Sequence[CutDocument],
    texts: Sequence[np.ndarray],
    places: Sequence[_Place],
    sampled: bool,
    seed: int,
) -> list[np.ndarray | None]:
    """Return the ids of continued sentences, their first words included; None: not continued."""
    asked = [(number, place) for number, place in enumerate(places) if place.given is not None]
    prompts = []
    for _, place in asked:
        assert place.given is not None
        begin = place.tokens.start + place.given
        item = sentence_item(units[place.document].unit_id, place.sentence)
        wanted = place.tokens.stop - begin
        prompts.append(Prompt(texts[place.document][:begin], wanted, item))
    found: list[np.ndarray | None] = [None] * len(places)
    written = continue_prompts(model, prompts, sampled, seed)
    for (number, place), prompt, ids in zip(asked, prompts, written, strict=True):
        if ids is not None:
            found[number] = np.concatenate([prompt.ids[place.tokens.start :], ids])
    return found


def predict_sentences(
    model: LanguageModel,
    vocabulary: Vocabulary,
    units: Sequence[CutDocument],
    options: PredictionOptions,
    *,
    seed: int,
    batch_positions: int = LOGIT_ROWS,
) -> dict[str, list[object]]:
    """Predict the sentences of documents, in their order; models share random numbers.

    Columns of schema ``predictions``, less split and partner.
    """
    asked = options.continuation
    texts, places = _place_sentences(units, vocabulary, asked.prefix if asked else None)
    numbers = _numbers(units, texts, places, options.samples, seed)
    words = predict_tokens(model, texts, numbers, batch_positions)
    told: list[np.ndarray] = []  # of each sentence the likeliest tokens, then each draw
    for place in places:
        held = words[place.document]
        told += [held.best[place.tokens], *held.drawn[place.tokens].T]
    printed = print_tokens(vocabulary, told)
    each = 1 + options.samples
    continued: list[str | None] = [None] * len(places)
    if asked is not None:
        sampled = asked.decoding == "sample"
        found = _continue(model, units, texts, places, sampled, seed)
        lines = iter(print_tokens(vocabulary, [ids for ids in found if ids is not None]))
        continued = [None if ids is None else next(lines) for ids in found]
    rows = [
        {
            "unit_id": units[place.document].unit_id,
            "group": units[place.document].group,
            "sentence": place.sentence,
            "words": len(place.words),
            "target": " ".join(place.words),
            "predicted": printed[each * number],
            "samples": printed[each * number + 1 : each * (number + 1)],
            "continued": continued[number],
            "given": None if asked is None or continued[number] is None else asked.prefix,
            "unknown_target": int((texts[place.document][place.tokens] == UNK).sum()),
            "unknown_predicted": int((words[place.document].best[place.tokens] == UNK).sum()),
            "log_prob": float(words[place.document].log_prob[place.tokens].sum()),
            "aligned": isinstance(vocabulary, ClosedVocabulary),
        }
        for number, place in enumerate(places)
    ]
    names = [name for name in PREDICTIONS.names if name not in ("split", "partner")]
    return {name: [row[name] for row in rows] for name in names}
