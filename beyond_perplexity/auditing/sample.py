"""Some documents of a text, for checks that look at a few closely."""

from __future__ import annotations

from collections.abc import Iterable

from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream

CUT_AT = 1000  # characters of a document: enough for a window or two


def sample_texts(texts: Iterable[str], documents: int, seed: int) -> list[str]:
    """Draw documents from a stream that is not held, each cut at the last blank within `CUT_AT`.

    Parameters
    ----------
    texts : iterable of str
        Those without a character that is no white space are passed over.
    documents : int
        How many at most.
    seed : int
        Of the draw (a reservoir: each document is as likely as any other).

    Returns
    -------
    list of str
        In the order of the stream.

    Raises
    ------
    InputError
        When there is none.
    """
    kept: list[tuple[int, str]] = []
    generator = stream(seed, "audit/sample")
    for number, text in enumerate(text for text in texts if text.strip()):
        if number < documents:
            kept.append((number, _cut(text)))
            continue
        place = int(generator.integers(number + 1))
        if place < documents:
            kept[place] = (number, _cut(text))
    if not kept:
        raise InputError("the text has no document to audit with; give one with some words")
    return [text for _, text in sorted(kept)]


def _cut(text: str) -> str:
    if len(text) <= CUT_AT:
        return text
    return text[:CUT_AT].rpartition(" ")[0] or text[:CUT_AT]
