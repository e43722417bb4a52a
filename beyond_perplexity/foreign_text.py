"""Text of users, models and libraries where it is shown: as text alone, never as markup."""

from __future__ import annotations

import re

LONGEST_MESSAGE = 2_000

# Control characters, line separators, marks that turn or isolate the direction of writing, and
# surrogates, which stand for bytes that are no text.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def one_line(message: str) -> str:
    """Return a message as one line of bounded length that a terminal takes as text alone.

    Line ends become blanks; other control characters, and those that turn the direction of
    writing, are shown as escapes. Of a message of more than `LONGEST_MESSAGE` characters the
    middle is left out.
    """
    text = re.sub(r"\s*[\r\n]+\s*", " ", message.strip())
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} […] {text[-half:]}"
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
