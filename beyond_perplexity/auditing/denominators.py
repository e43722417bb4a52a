"""What log P is divided by: tokens, words, characters and bytes, counted anew."""

from __future__ import annotations

import math
import re

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.perplexities.summary import DocumentRow

# Letters of one to four bytes, so that characters taken for bytes show in any language.
_PROBES = ("a b", "caf\u00e9 \u20ac", "\U0001f600 \u00fc", "one two three four")


def check_denominators(subject: Subject) -> Evidence:
    """Compare the counts in the rows of the scoring program with counts of the texts themselves.

    Tokens are those of the tokenizer; words are what stands between blanks (any white space in raw
    texts); bytes are those of UTF-8. The deviation is the largest share by which one is off, and so
    that of the logarithm of a perplexity.
    """
    texts = [*subject.texts, *_PROBES]
    if subject.kind == "cleaned":
        texts = [re.sub(" +", " ", text).strip(" ") for text in texts]
    rows = {row.doc_id: row for row in subject.rows(texts)}
    encoded = subject.vocabulary.encode(texts)
    worst, detail = 0.0, "as counted"
    for number, text in enumerate(texts):
        row = rows.get(number)
        if row is None:
            return Evidence(math.nan, len(texts), f"text {number + 1} has no row")
        for unit, count in _counts(text, len(encoded[number]), subject.kind).items():
            said = int(getattr(row, unit))
            off = abs(said - count) / max(1, count)
            if off > worst:
                worst = off
                detail = f"{text[:40]!r} has {count} {unit}, the row says {said}"
                detail += _other_unit(said, row, unit, text)
    return Evidence(worst, 4 * len(texts), detail)


def _counts(text: str, tokens: int, kind: str) -> dict[str, int]:
    """Count the units of a text."""
    words = re.findall(r"[^ ]+" if kind == "cleaned" else r"\S+", text)
    return {
        "tokens": tokens,
        "words": len(words),
        "characters": len(text),
        "bytes": sum(1 + (mark > "\x7f") + (mark > "\u07ff") + (mark > "\uffff") for mark in text),
    }


def _other_unit(said: int, row: DocumentRow, unit: str, text: str) -> str:
    """Say which other unit the count is of, where it is that of one."""
    of = {"characters": len(text), "bytes": len(text.encode()), "words": len(text.split())}
    held = [name for name, count in of.items() if name != unit and count == said]
    return f": these are its {held[0]}" if held else ""
