"""Numbers of texts that do not depend on the order, the number or the lengths of the others."""

from __future__ import annotations

import math

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.scoring.documents import DocumentRow, ScoredText

_TEXTS_ORDERED = 8


def check_order(subject: Subject) -> Evidence:
    """Let the scoring program score texts in order, backwards and alone, and compare text by text.

    The deviation is in nats a prediction. Rows are told by ``doc_id``.
    """
    chosen = list(enumerate(subject.texts))[:_TEXTS_ORDERED]
    texts: list[ScoredText | str] = [ScoredText(number, text) for number, text in chosen]
    first = {row.doc_id: row for row in subject.rows(texts)}
    turned = {row.doc_id: row for row in subject.rows(texts[::-1])}
    single = {row.doc_id: row for text in texts for row in subject.rows([text])}
    worst, detail = 0.0, "as in order"
    for how, other in (("backwards", turned), ("alone", single)):
        for number, row in first.items():
            off = _difference(row, other.get(number))
            if math.isnan(off) or off > worst:
                worst, detail = off, f"text {number + 1} has another score {how}"
            if math.isnan(off):
                return Evidence(off, len(texts), detail)
    if len(first) != len(texts):
        return Evidence(math.nan, len(texts), f"{len(texts)} texts give {len(first)} rows")
    return Evidence(worst, 2 * len(texts), detail)


def _difference(one: DocumentRow, two: DocumentRow | None) -> float:
    """Return the difference of two scores of a text, nats a prediction; NaN: it has no second."""
    if two is None or one.text_hash != two.text_hash:
        return math.nan
    if one.log_likelihood == two.log_likelihood:
        return 0.0
    return abs(one.log_likelihood - two.log_likelihood) / (one.tokens + 1)
