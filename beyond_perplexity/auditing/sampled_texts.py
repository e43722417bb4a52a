"""The documents of a text that an audit looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.accounts import NO_TOKEN, Account

CUT_AT = 1000  # characters of a document: enough for a window or two


def sample_texts(texts: Iterable[str], documents: int, seed: int) -> list[str]:
    """Draw documents from a stream that is not held, each cut at the last blank within `CUT_AT`.

    A reservoir: each document with a character that is no white space is as likely as any other.
    They come in the order of the stream.
    """
    kept: dict[int, tuple[int, str]] = {}
    generator = stream(seed, "audit/sample")
    for number, text in enumerate(text for text in texts if text.strip()):
        slot = number if number < documents else int(generator.integers(number + 1))
        if slot < documents:
            kept[slot] = (number, _cut(text))
    if not kept:
        raise InputError("the text has no document to audit with; give one with some words")
    return [text for _, text in sorted(kept.values())]


def choose_texts(
    texts: Iterable[str], account: Account, documents: int, seed: int, *, whole: bool
) -> tuple[list[str], list[str] | None]:
    """Draw documents of a stream and, where the whole of it is wanted, hold that beside them."""
    held = list(texts) if whole else None
    sample = sample_texts(texts if held is None else held, documents, seed)
    if held is None:
        account.left_out["not drawn for the checks"] = account.used - len(sample)
    return sample, held


def _cut(text: str) -> str:
    held = text[:CUT_AT]
    return text if held == text else held.rpartition(" ")[0] or held


def filled_texts(batches: Iterable[list[str]], account: Account) -> Iterator[str]:
    """Stream the documents of batches; empty ones are left out."""
    for batch in batches:
        filled = [text for text in batch if text.strip()]
        account.left_out[NO_TOKEN] += len(batch) - len(filled)
        yield from filled
