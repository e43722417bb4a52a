"""Numbers of texts that do not depend on the order, the number or the lengths of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.perplexities.summary import DocumentRow, ScoredText

_TEXTS_ORDERED = 8
_MANY = 96  # short texts: batches and buffers hold some dozens, and a second may be mixed up
_WORDS_OF_MANY = 5


def check_order(subject: Subject) -> Evidence:
    """Let the scoring program score texts in order, backwards and alone, and compare text by text.

    Many short texts are scored in order and backwards as well. The deviation is in nats a
    prediction. Rows are told by ``doc_id``.
    """
    few = _scored_texts(subject.texts[:_TEXTS_ORDERED])
    first = {row.doc_id: row for row in subject.rows(few)}
    turned = {row.doc_id: row for row in subject.rows(few[::-1])}
    single = {row.doc_id: row for text in few for row in subject.rows([text])}
    found = _compare(first, {"backwards": turned, "alone": single}, len(few))
    if math.isnan(found.worst):
        return found
    many = _scored_texts(_short_texts(subject))
    first = {row.doc_id: row for row in subject.rows(many)}
    turned = {row.doc_id: row for row in subject.rows(many[::-1])}
    other = _compare(first, {f"backwards, one of {len(many)}": turned}, len(many))
    worse = found if other.worst <= found.worst else other
    return worse._replace(places=found.places + other.places)


def _scored_texts(texts: Sequence[str]) -> list[ScoredText | str]:
    return [ScoredText(number, text) for number, text in enumerate(texts)]


def _short_texts(subject: Subject) -> list[str]:
    """Return parts of the texts of a word to some, of lengths in turn."""
    words = [word for text in subject.texts for word in text.split()]
    begins = [3 * number % len(words) for number in range(_MANY)]
    lengths = [1 + number % _WORDS_OF_MANY for number in range(_MANY)]
    return [" ".join(words[i : i + n]) for i, n in zip(begins, lengths, strict=True)]


def _compare(
    first: Mapping[int, DocumentRow], others: Mapping[str, Mapping[int, DocumentRow]], texts: int
) -> Evidence:
    worst, detail = 0.0, "as in order"
    for how, other in others.items():
        for number, row in first.items():
            off = _difference(row, other.get(number))
            if math.isnan(off) or off > worst:
                worst, detail = off, f"text {number + 1} has another score {how}"
            if math.isnan(off):
                return Evidence(off, texts, detail)
    if len(first) != texts:
        return Evidence(math.nan, texts, f"{texts} texts give {len(first)} rows")
    return Evidence(worst, len(others) * texts, detail)


def _difference(one: DocumentRow, two: DocumentRow | None) -> float:
    """Return the difference of two scores of a text, nats a prediction; NaN: it has no second."""
    if two is None or one.text_hash != two.text_hash:
        return math.nan
    if one.log_likelihood == two.log_likelihood:
        return 0.0
    return abs(one.log_likelihood - two.log_likelihood) / (one.tokens + 1)
