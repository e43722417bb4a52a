"""The perplexity of a text under an ARPA model, as `query` of KenLM gives it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.arpa_reader import ArpaModel
from beyond_perplexity.ngrams.backoff import score_tokens
from beyond_perplexity.ngrams.sentence_files import read_sentences
from beyond_perplexity.ngrams.text import UnknownRule, WordIds
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, UNK


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _perplexity(log10_prob: float, tokens: int) -> float | None:
    """Return 10^(−log10_prob / tokens); None where it is infinite or there is no token."""
    exponent = -log10_prob / tokens if tokens else math.inf
    return 10**exponent if exponent < 308 else None


def summarize_arpa(
    arpa: ArpaModel,
    paths: Sequence[str | os.PathLike[str]],
    rule: UnknownRule,
    field: str | None = None,
) -> dict[str, Any]:
    """Score a text: a sentence a line, words joined by blanks.

    Parameters
    ----------
    arpa : ArpaModel
    paths, field
        As for `read_sentences`.
    rule : UnknownRule
        What a literal ``<unk>`` of the text is.

    Returns
    -------
    dict
        JSON-safe. ``log10_prob``: logarithm of base 10 of the probability of all words and of one
        ``</s>`` a sentence, which are the ``tokens``; unknown words are scored as ``<unk>``, null
        where the model gives something probability 0. ``perplexity`` is of all tokens,
        ``perplexity_without_oov`` without the unknown words, of which there are ``oov``; null where
        infinite. ``sentences``; ``n_counts``: number of the model's n-grams by order.

    Raises
    ------
    InputError
        When a file cannot be read or has no sentence.
    """
    ids = WordIds(arpa.words[N_SPECIAL:], rule, grows=False)
    known = unknown = 0.0
    tokens = oov = sentences = 0
    for part in read_sentences(paths, ids, field=field):
        scores = score_tokens(arpa.model, part)
        strange = part == UNK
        unknown += float(scores[strange].sum())
        known += float(scores[~strange].sum())
        tokens += int(np.count_nonzero(part != BOS))
        oov += int(np.count_nonzero(strange))
        sentences += int(np.count_nonzero(part == EOS))
    if not sentences:
        raise InputError(f"{paths[0]}: holds no sentence; give a text with words")
    known, log10_prob = known / math.log(10), (known + unknown) / math.log(10)
    return {
        "perplexity": _perplexity(log10_prob, tokens),
        "perplexity_without_oov": _perplexity(known, tokens - oov),
        "log10_prob": _finite(log10_prob),
        "tokens": tokens,
        "oov": oov,
        "sentences": sentences,
        "n_counts": arpa.n_counts,
    }
