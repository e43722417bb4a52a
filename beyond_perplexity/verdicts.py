"""The note of a measured row: facts that are written one after the other and told apart again.

A fact holds no separator: words that it names have no blanks.
"""

from __future__ import annotations

_BETWEEN = "; "
REASON_FOLLOWS = "no verdict: "  # a reason follows
EXCHANGE = "exchanged: "  # what a test exchanged follows
_NAMED = 'word "'  # of a largest difference
_TOO_FEW = " cannot give p < "  # what draws are too few for


def joined_facts(*facts: str) -> str:
    """Write a note of facts; empty ones are left out."""
    return _BETWEEN.join(filter(None, facts))


def facts_of(note: str) -> list[str]:
    """Take a note apart."""
    return note.split(_BETWEEN) if note else []


def names_word(fact: str) -> bool:
    """Tell the word of a largest difference."""
    return fact.startswith(_NAMED)


def is_exchange(fact: str) -> bool:
    """Tell what a test exchanged."""
    return fact.startswith(EXCHANGE)


def draws_too_few(fact: str) -> bool:
    """Tell that a star needs more draws."""
    return _TOO_FEW in fact and not names_word(fact)
