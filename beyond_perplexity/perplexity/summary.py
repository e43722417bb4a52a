"""Perplexity in every definition that it is quoted in, never one number alone.

PP = exp(−log P / N) (001; base-free). What differs between programs is N and P: so each perplexity
stands beside its N, what N counts, the share of unknown words, and the context.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.perplexity.scores import (
    POOL,
    DocumentScore,
    check_window,
    score_documents,
)
from beyond_perplexity.vocabulary import ClosedVocabulary, Vocabulary, split_words


@dataclass
class Totals:
    """Sums over documents, of which every perplexity is made.

    Attributes
    ----------
    log_prob : float
        Sum of log P, nats.
    documents, tokens, words, characters, bytes : int
        What the texts have, without ``<s>`` and ``</s>``; bytes are those of UTF-8, and blanks
        between words are characters.
    unknown : int
        ``<unk>`` tokens.
    impossible_tokens, impossible_documents : int
        Predictions of probability zero, and documents with one.
    """

    log_prob: float = 0.0
    documents: int = 0
    tokens: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    unknown: int = 0
    impossible_tokens: int = 0
    impossible_documents: int = 0

    def add(self, text: str, score: DocumentScore) -> None:
        """Add one document.

        Raises
        ------
        InputError
            When its score is no number: that is no infinite perplexity, but a broken model.
        """
        if math.isnan(score.log_prob):
            raise InputError(
                f"document {self.documents + 1}: the model gives it the log-probability NaN; its "
                "weights are damaged or its numbers overflow: train or bring the model again"
            )
        words = split_words(text)
        joined = " ".join(words)
        self.log_prob += score.log_prob
        self.documents += 1
        self.tokens += score.tokens
        self.words += len(words)
        self.characters += len(joined)
        self.bytes += len(joined.encode())
        self.unknown += score.unknown
        self.impossible_tokens += score.impossible
        self.impossible_documents += score.impossible > 0


def perplexity(log_prob: float, n: int) -> float:
    """Return exp(−log_prob / n), infinite where log_prob is −inf or the power overflows."""
    exponent = -log_prob / n
    return math.inf if exponent >= 709 else math.exp(exponent)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def summarize(
    totals: Totals,
    vocabulary: Vocabulary,
    *,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Turn totals into the perplexities and what they mean.

    Parameters
    ----------
    totals : Totals
        Of at least one document.
    vocabulary : Vocabulary
        The model's.
    count_eos, count_bos : bool
        Whether ``</s>`` and ``<s>`` count in every N: as a token, a word, a character (the line
        feed of a file with one document a line) and a byte. log P always has ``</s>`` and never
        ``<s>``. The perplexity tutorial (001) counts both; KenLM and the default only ``</s>``.

    Returns
    -------
    dict
        JSON-safe: an infinite perplexity is null, and ``infinite`` is true; nothing is given over
        the documents that are left. ``perplexity`` and ``n`` have the keys ``token``, ``word``,
        ``character``, ``byte``. ``bits`` (per character, per byte) are base 2; ``log_prob`` is in
        nats. ``unknown_penalized`` is given for a closed vocabulary: log P minus ln U for each
        unknown token, U the number of training types that are not in the vocabulary (at least 1),
        as if ``<unk>`` shared its probability evenly among them.

    Raises
    ------
    InputError
        When there are no documents, or N is zero.
    """
    extra = totals.documents * (count_eos + count_bos)
    n = {
        "token": totals.tokens + extra,
        "word": totals.words + extra,
        "character": totals.characters + extra,
        "byte": totals.bytes + extra,
    }
    if not totals.documents or not n["token"]:
        raise InputError("there is nothing to score: no documents, or all of them are empty")
    values = {unit: perplexity(totals.log_prob, count) for unit, count in n.items()}
    counted = [name for name, on in (("</s>", count_eos), ("<s>", count_bos)) if on]
    summary: dict[str, Any] = {
        "perplexity": {unit: _number(value) for unit, value in values.items()},
        "infinite": not math.isfinite(totals.log_prob),
        "bits": {
            unit: _number(-totals.log_prob / n[unit] / math.log(2))
            for unit in ("character", "byte")
        },
        "log_prob": _number(totals.log_prob),
        "n": n,
        "n_counts": " and ".join(["units of the text", *counted]),
        "documents": totals.documents,
        "tokens": totals.tokens,
        "unknown": totals.unknown,
        "unknown_share": totals.unknown / max(1, totals.tokens),
        "impossible_tokens": totals.impossible_tokens,
        "impossible_documents": totals.impossible_documents,
        "vocabulary": {"kind": vocabulary.kind, "size": vocabulary.size},
    }
    if isinstance(vocabulary, ClosedVocabulary):
        types = max(1, vocabulary.unknown_types)
        penalized = totals.log_prob - totals.unknown * math.log(types)
        summary["unknown_penalized"] = {
            "unknown_types": vocabulary.unknown_types,
            "log_prob": _number(penalized),
            "perplexity": {unit: _number(perplexity(penalized, n[unit])) for unit in n},
        }
    return summary


def measure(
    model: LanguageModel,
    vocabulary: Vocabulary,
    texts: Iterable[str],
    *,
    context_length: int | None = None,
    stride: int | None = None,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Score a stream of texts and summarize it.

    Parameters
    ----------
    model, vocabulary
        From `models.checkpoint.load_model`.
    texts : iterable of str
        Tokens joined by one blank.
    context_length, stride : int, optional
        See `check_window`.
    count_eos, count_bos : bool
        See `summarize`.

    Returns
    -------
    dict
        As `summarize`, and ``context_length`` and ``stride`` (null: no limit).
    """
    context, step = check_window(model, context_length, stride)
    totals = Totals()
    stream = iter(texts)
    options = {"context_length": context_length, "stride": stride}
    while part := list(islice(stream, POOL)):
        for text, score in zip(
            part, score_documents(model, vocabulary, part, **options), strict=True
        ):
            totals.add(text, score)
    summary = summarize(totals, vocabulary, count_eos=count_eos, count_bos=count_bos)
    return {**summary, "context_length": context, "stride": step}
