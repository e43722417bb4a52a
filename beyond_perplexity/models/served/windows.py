"""Documents longer than a server's context, in windows: by token ids, or by parts of the string.

By ids the windows are `likelihoods.cut_windows`; of strings they begin at a token and end before a
blank where there is one, and their tokens must meet those that were scored before.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from beyond_perplexity.models.served.client import RefusedError
from beyond_perplexity.models.served.protocols import Prompted
from beyond_perplexity.models.served.token_texts import JoinError, text_scores
from beyond_perplexity.models.token_scores import TokenScores

# Asks a server for a prompt, a string or token ids.
Ask = Callable[[str | Sequence[int]], Awaitable[Prompted]]

_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|too (?:long|many tokens)|maximum.{0,40}(?:length|tokens)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"(?:context (?:length|window)|model length|n_ctx)\D{0,20}(\d+)", re.IGNORECASE)
_FIRST_GUESS = 3  # bytes of a token
_UNSURE = 8  # tokens before a cut that is no blank, which more text might change


def is_too_long(error: RefusedError) -> bool:
    """Say whether a server refuses a prompt for its length."""
    return bool(_TOO_LONG.search(str(error)))


def limit_said(error: RefusedError) -> int | None:
    """Return the context that a refusal names, in tokens; None: it names none."""
    found = _LIMIT.search(str(error))
    return int(found[1]) if found else None


async def score_by_ids(
    ask: Ask, ids: Sequence[int], context: int, stride: int, parts: tuple[str, str, str]
) -> TokenScores:
    """Score a document by the ids of its prompt, whose `parts` are what the server puts before the
    text, the text, and its end."""
    before, text, after = parts
    end, last = min(context, len(ids) - 1), len(ids) - 1
    tokens, numbers = list[str](), list[float]()
    counted = end + 1  # of the first window also the first token, which has no number
    while True:
        said = await ask(ids[max(0, end - context) : end + 1])
        many = len(said.tokens) - said.generated
        if many != min(end, context) + 1:
            raise JoinError(f"it gives {many} tokens for {min(end, context) + 1} ids")
        tokens += said.tokens[many - counted : many]
        numbers += said.log_probs[many - counted : many]
        if end == last:
            return text_scores(Prompted(tokens, numbers, (), 0), text, before, after)
        counted = min(stride, last - end)
        end += counted


async def score_by_strings(
    ask: Ask, context: int, stride: int, parts: tuple[str, str, str]
) -> TokenScores:
    """Score a document by parts of its string: each prediction sees `context` − `stride` tokens or
    more; a window has the bytes that the tokens so far let expect, fewer if these are too many."""
    before, text, after = parts
    raw, size = text.encode(), _FIRST_GUESS * context  # bytes of a window
    done = TokenScores(np.zeros(0), np.zeros(0, np.int64), [], False)
    frontier = 0  # up to which byte tokens are scored
    least, most = 0, len(raw) + 1  # of bytes: what is too short, and too long
    while frontier < len(raw):
        back = len(done.starts) - max(1, context - stride)
        begin = _character(raw, int(done.starts[back])) if frontier and back > 0 else 0
        stop = _cut(raw, frontier, begin + size)
        if most - least < 2 or stop - begin >= most:
            raise JoinError(f"no window of {context} tokens goes on from byte {frontier}")
        ends, piece = stop == len(raw), raw[begin:stop].decode()
        around = "" if begin else before, after if ends else ""
        found = await _fitting(ask, piece, around, context)
        if found is None:
            most = stop - begin
            size = (max(least, frontier - begin) + most) // 2
            continue
        starts = found.starts + begin
        first = int(np.searchsorted(starts, frontier)) if frontier else 0
        sure = len(starts) - _UNSURE * (not ends and not raw[stop : stop + 1].isspace())
        while 0 < sure < len(starts) and starts[sure] == starts[sure - 1]:  # parts of a character
            sure -= 1
        if sure <= first:
            least = max(size, stop - begin)  # no more was cut off at a blank
            size = min(2 * least, (least + most) // 2)
            continue
        if frontier and starts[first] != frontier:
            raise JoinError(f"the tokens of two windows do not meet at byte {frontier}")
        done = TokenScores(
            np.append(done.log_probs, found.log_probs[first:sure]),
            np.append(done.starts, starts[first:sure]),
            done.tokens + found.tokens[first:sure],
            found.ended,
        )
        size, least, most = (
            max(1, (stop - begin) * context * 9 // (10 * len(starts))),
            0,
            len(raw) + 1,
        )
        frontier = int(starts[sure]) if sure < len(starts) else stop
    return done


async def _fitting(
    ask: Ask, piece: str, around: tuple[str, str], context: int
) -> TokenScores | None:
    """Score a part of a text; None where it is too long."""
    try:
        found = text_scores(await ask(f"{around[0]}{piece}{around[1]}"), piece, *around)
    except RefusedError as error:
        if not is_too_long(error):
            raise
        return None
    return found if len(found.tokens) <= context else None


def _character(raw: bytes, place: int) -> int:
    """Return the byte at which the character of a byte begins."""
    while 0 < place < len(raw) and raw[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _cut(raw: bytes, frontier: int, stop: int) -> int:
    """Return where a window ends: at the last blank after the frontier, else between characters."""
    if stop >= len(raw):
        return len(raw)
    blank = max(raw.rfind(mark, frontier + 1, stop) for mark in (b" ", b"\n"))
    stop = blank if blank > frontier else _character(raw, stop)
    while stop <= frontier or (stop < len(raw) and raw[stop] & 0xC0 == 0x80):
        stop += 1
    return stop
