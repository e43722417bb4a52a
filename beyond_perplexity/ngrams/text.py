"""Sentences from plain text: a line each, words joined by blanks, nothing changed.

White space is that of ASCII, as for `lmplz`; empty lines are skipped. The words ``<s>``, ``</s>``
and ``<unk>`` have a meaning for a model, so a text must not hold them, unless it is said what
``<unk>`` shall be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.inputs import DamagedError, count_lines, open_input
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, UNK

READ_BYTES = 1 << 24
LONGEST_BYTES = 1 << 26  # of a line
_RESERVED = dict(zip(SPECIAL_TOKENS, (-1, -2, -3), strict=True))


@dataclass(frozen=True)
class UnknownRule:
    """What a literal ``<unk>`` of a text is; by default an error.

    Attributes
    ----------
    word : str or None
        It is this ordinary word.
    unknown : bool
        It is the unknown word.
    """

    word: str | None = None
    unknown: bool = False

    def __post_init__(self) -> None:
        if self.word is None:
            return
        if self.unknown:
            raise InputError("unk as: goes not with unk as unknown; give one of them")
        if [self.word.encode()] != self.word.encode().split() or self.word in SPECIAL_TOKENS:
            raise InputError(
                f"unk as: is {self.word!r}; give a word without blanks that is none of "
                + ", ".join(SPECIAL_TOKENS)
            )


class WordIds(dict[bytes, int]):
    """Ids of words, as UTF-8; the special ones have theirs, other words begin at 3.

    Parameters
    ----------
    words : iterable of str
        The words of ids 3, 4, ...
    rule : UnknownRule
        What a literal ``<unk>`` is. Those that a text must not hold have negative ids.
    grows : bool
        Whether other words get the next id; else they are unknown.
    """

    def __init__(self, words: Iterable[str], rule: UnknownRule, grows: bool) -> None:
        super().__init__((word.encode(), place) for place, word in enumerate(words, start=UNK + 1))
        self.size = UNK + 1 + len(self)
        self.grows = grows
        self.update((word.encode(), place) for word, place in _RESERVED.items())
        literal = SPECIAL_TOKENS[UNK].encode()
        if rule.unknown:
            self[literal] = UNK
        elif rule.word is not None:
            self[literal] = self[rule.word.encode()]

    def __missing__(self, word: bytes) -> int:
        if not self.grows:
            return UNK
        self[word] = place = self.size
        self.size += 1
        return place

    @property
    def reserved(self) -> set[bytes]:
        """The words that a text must not hold."""
        return {word for word, place in self.items() if place < 0}

    @property
    def words(self) -> list[str]:
        """All words by their ids, the special ones first."""
        held = [*SPECIAL_TOKENS, *[""] * (self.size - len(SPECIAL_TOKENS))]
        literals = {word.encode() for word in SPECIAL_TOKENS}
        for word, place in self.items():
            if word not in literals:
                held[place] = word.decode()
        return held


def _count_lines(path: str | os.PathLike[str]) -> int:
    """Count the whole lines of a file that cannot be read to its end."""
    whole = 0
    with suppress(InputError), open_input(path) as file:
        for _ in file:
            whole += 1
    return whole


def read_line_blocks(
    path: str | os.PathLike[str], size: int = READ_BYTES, account: Account | None = None
) -> Iterator[tuple[int, bytes]]:
    """Read a file in blocks of whole lines.

    Parameters
    ----------
    path : path
        Plain or packed; see `inputs.open_input`.
    size : int
        Bytes of a block, about.
    account : Account, optional
        Closed at the end, when whoever takes the blocks has counted their lines there.

    Yields
    ------
    number : int
        Of the block's first line, from 1.
    block : bytes
        Each line with its line feed, but for the last of the file, which may have none.

    Raises
    ------
    InputError
        When the file cannot be read, ends before its compression does, or has a line that is longer
        than `LONGEST_BYTES`.
    """
    number = 1
    with open_input(path) as file:
        while True:
            try:
                block, rest = file.read(size), file.readline(LONGEST_BYTES)
            except DamagedError as error:
                raise InputError(
                    f"{path}: line {_count_lines(path) + 1}: the file is damaged or cut off here "
                    f"({error.detail}); make it again"
                ) from error
            if len(rest) == LONGEST_BYTES:
                line = number + block.count(b"\n")
                raise InputError(
                    f"{path}: line {line}: has more than {LONGEST_BYTES:,} bytes; cut it"
                )
            block += rest
            if not block:
                break
            yield number, block
            number += block.count(b"\n")
        if account:
            account.close(count_lines(file))


def check_utf8(path: str | os.PathLike[str], number: int, block: bytes) -> None:
    """Check a block of lines, the first of which has the given number.

    Raises
    ------
    InputError
        Names the line that is no UTF-8.
    """
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line = number + block.count(b"\n", 0, error.start)
        raise InputError(f"{path}: line {line}: is not UTF-8; convert the file") from error
