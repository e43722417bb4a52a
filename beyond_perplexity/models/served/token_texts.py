"""Tokens as servers show them, held against the bytes of the text that they must join to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.served.protocols import SPECIAL, Prompted
from beyond_perplexity.models.token_scores import TokenScores

# As OpenAI shows a part of a character, and as SentencePiece does.
_BYTES = re.compile(r"bytes:((?:[\0-\x5b\x5d-\x7f]|\\x[0-9a-fA-F]{2})*)")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_REPLACED = "\ufffd"  # as others do
_ADDED = 3  # tokens that a server may put before a text
_UNSAID = 64  # bytes of a first token that is not shown


class JoinError(InputError):
    """The tokens of a server are not those of the text that it was sent."""


def token_bytes(token: str) -> bytes | None:
    """Return the bytes of a token; None where a part of a character stands in it."""
    if (found := _BYTES.fullmatch(token)) and "\\x" in token:
        return found[1].encode().decode("unicode_escape").encode("latin-1")
    if found := _BYTE.fullmatch(token):
        return bytes.fromhex(found[1])
    return None if not token or _REPLACED in token else token.encode()


def token_starts(
    text: bytes, tokens: Sequence[str], offsets: Sequence[int] = ()
) -> np.ndarray | None:
    """Return the byte at which each token begins, int64, (n,); None: they do not join to the text.

    A token that is not shown whole may have more bytes than it shows, up to the next that is;
    several such begin at the same byte, or at their character where `offsets` in characters are
    given.
    """
    held = [token_bytes(token) for token in tokens]
    if None not in held[1:] and held:  # the first may be hidden
        lengths = np.array([len(one or b"") for one in held])
        rest = b"".join(one or b"" for one in held[1:])
        lengths[0] = len(text) - len(rest)
        first = text[: max(0, lengths[0])]
        whole = held[0] == first or (held[0] is None and len(first) <= _UNSAID)
        if whole and text.endswith(rest):
            return np.concatenate([[0], np.cumsum(lengths)[:-1]])
    starts, at, loose, room = [], 0, 0, 0
    for token, one in zip(tokens, held, strict=True):
        if one is None:
            loose, room = loose + 1, room + len(token.encode()) + 3
            starts.append(at)
            continue
        place = text.find(one, at + loose, at + room + len(one))
        if place < 0:
            return None
        starts.append(place)
        at, loose, room = place + len(one), 0, 0
    if not loose <= len(text) - at <= room:
        return None
    begins, hidden = np.array(starts, np.int64), np.array([one is None for one in held])
    if len(offsets) == len(tokens):
        bytes_of = np.cumsum([0, *(len(mark.encode()) for mark in text.decode())])
        known = bytes_of[np.clip(np.array(offsets) - offsets[0], 0, len(bytes_of) - 1)]
        if (known == begins)[~hidden].all():  # else they count something else than characters
            begins = np.where(hidden, known, begins)
    return begins


def _is_before(tokens: Sequence[str], before: str) -> bool:
    """Say whether tokens are what stands before a text: what was sent, or special tokens."""
    return "".join(t for t in tokens if t != before and not SPECIAL.fullmatch(t)) in ("", before)


def text_scores(said: Prompted, text: str, before: str = "", after: str = "") -> TokenScores:
    """Return the scores of a text's tokens in a prompt of `before`, `text` and the token `after`.

    A server may show what stands before or hide it; some put a blank before each text. The first
    token is left out where the server gives it no number.
    """
    tokens = list(said.tokens)
    for generated, added, pad in product(
        range(said.generated, -1, -1), range(_ADDED + 1), (b"", b" ")
    ):
        last = len(tokens) - generated - bool(after)
        if last <= added or (after and tokens[last] not in ("", after)):
            continue
        if not _is_before(tokens[:added], before):
            continue
        offsets = said.offsets[added:last] if not pad else ()
        starts = token_starts(pad + text.encode(), tokens[added:last], offsets)
        if starts is None:
            continue
        starts = np.maximum(starts - len(pad), 0)
        if len(starts) > 1 and not tokens[added] and starts[1] == 0:  # hidden, and before the text
            added, starts = added + 1, starts[1:]
        return _scored(said, added, starts, text, after)
    if after and not any(one in ("", after) for one in tokens[-1 - said.generated :]):
        raise JoinError(f"end: the server does not read {after!r:.40} as one token; give its own")
    why = "it is cut, or the tokenizer changes it"
    if special := SPECIAL.search(text):
        why = f"it says {special[0]}, which the server reads as a token and hides"
    elif before:
        why += f", or {before!r:.40} and its beginning share a token"
    raise JoinError(f"its tokens ({''.join(tokens)[:60]!r}) do not join to the text: {why}")


def _scored(said: Prompted, first: int, starts: np.ndarray, text: str, after: str) -> TokenScores:
    count = len(starts) + bool(after)
    values = np.array(said.log_probs[first : first + count], float)
    if after:
        starts = np.append(starts, len(text.encode()))
    shown = [*said.tokens[first : first + len(starts) - bool(after)], *([after] * bool(after))]
    begin = int(np.isnan(values[0]))
    if np.isnan(values[begin:]).any():
        place = begin + int(np.argmax(np.isnan(values[begin:])))
        raise JoinError(f"it has no log-probability of token {place + 1}, {shown[place]!r:.40}")
    return TokenScores(values[begin:], starts[begin:], shown[begin:], bool(after))
