"""Sentences from plain text: a line each, words joined by blanks, nothing changed.

White space is that of ASCII, as for `lmplz`; empty lines are skipped. A text must not hold ``<s>``,
``</s>`` and ``<unk>``, unless it is said what ``<unk>`` shall be.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beyond_perplexity.corpus.external import GroupField, check_grouped, read_records
from beyond_perplexity.corpus.formats import check_field, has_named_fields
from beyond_perplexity.corpus.text_files import HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.kneser_ney import PART_TOKENS
from beyond_perplexity.storage.accounts import EMPTY_LINE, Account
from beyond_perplexity.storage.inputs import DamagedError, count_lines, open_input
from beyond_perplexity.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK

READ_BYTES = 1 << 24
LONGEST_BYTES = 1 << 26  # of a line
_LITERAL = SPECIAL_TOKENS[UNK].encode()


@dataclass(frozen=True)
class UnknownRule:
    """What a literal ``<unk>`` of a text is; by default an error."""

    word: str | None = None  # it is this ordinary word
    unknown: bool = False  # it is the unknown word

    def __post_init__(self) -> None:
        if self.word is None:
            return
        if self.unknown:
            raise InputError("unk as: cannot be combined with unk as unknown; give one of them")
        if [self.word.encode()] != self.word.encode().split() or self.word in SPECIAL_TOKENS:
            raise InputError(
                f"unk as: is {self.word!r}; give a word without blanks that is none of "
                + ", ".join(SPECIAL_TOKENS)
            )


class ReservedWordError(Exception):
    """A text holds a word that it must not hold."""


class WordIds(dict[bytes, int]):
    """Ids of words, as UTF-8, from 3 on, and special ones; others get the next id where it grows,
    else are unknown, and `reserved` ones must not be in a text."""

    def __init__(self, words: Iterable[str], rule: UnknownRule, grows: bool) -> None:
        super().__init__((word.encode(), place) for place, word in enumerate(words, start=UNK + 1))
        self.size = UNK + 1 + len(self)
        self.grows = grows
        self.reserved = {word.encode() for word in SPECIAL_TOKENS}
        if rule.unknown or rule.word is not None:
            self.reserved.remove(_LITERAL)
            self[_LITERAL] = UNK if rule.word is None else self[rule.word.encode()]

    def __missing__(self, word: bytes) -> int:
        if word in self.reserved:
            raise ReservedWordError(word.decode())
        if not self.grows:
            return UNK
        self[word] = place = self.size
        self.size += 1
        return place

    @property
    def words(self) -> list[str]:
        """All words by their ids, the special ones first."""
        held = [*SPECIAL_TOKENS, *[""] * (self.size - len(SPECIAL_TOKENS))]
        for word, place in self.items():
            if word != _LITERAL:
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
    """Read a file in blocks of whole lines, of about so many bytes, with the number of the first;
    the account is closed at the end, with the lines that were counted there."""
    number = 1
    with open_input(path) as file:
        while True:
            try:
                block, rest = file.read(size), file.readline(LONGEST_BYTES)
            except DamagedError as error:
                fault = f"the file is damaged or cut off here ({error.detail}); make it again"
                raise InputError(f"{path}: line {_count_lines(path) + 1}: {fault}") from error
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


def decoded(path: str | os.PathLike[str], number: int, block: bytes) -> str:
    """Decode a block of lines, the first of which has the given number."""
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line = number + block.count(b"\n", 0, error.start)
        raise InputError(f"{path}: line {line}: is not UTF-8; convert the file") from error


# Where it stands: a record, or the line of plain text; its words; its group.
Sentence = tuple[str | int, list[bytes], str | None]


def _lines(
    path: Path | HeldTexts, field: str | None, groups: GroupField | None, account: Account
) -> Iterator[tuple[str | int, bytes, str | None]]:
    """Give every line or record: where it stands, the line, and its group."""
    check_field(path, field)
    if has_named_fields(path):
        for records in read_records(path, groups=groups, field=field, account=account):
            for record in records:
                yield record.place, record.as_it_is.replace("\n", " ").encode(), record.group
        return
    for number, block in read_line_blocks(str(path), READ_BYTES, account):
        decoded(str(path), number, block)
        lines = block.removesuffix(b"\n").split(b"\n")
        account.read += len(lines)
        yield from ((place, line, None) for place, line in enumerate(lines, start=number))


def _sentences(
    path: Path | HeldTexts, field: str | None, groups: GroupField | None = None
) -> Iterator[Sentence]:
    """Give the sentences of a file; lines that are empty are left out."""
    account = Account(path, "sentences")
    for place, line, group in _lines(path, field, groups, account):
        if words := line.split():
            yield place, words, group
        else:
            account.left_out[EMPTY_LINE] += 1


def _refusal(path: Path | HeldTexts, place: str | int, word: str) -> InputError:
    """Say where a text holds a word that it must not hold."""
    where = place if isinstance(place, str) else f"{path}: line {place}"
    advice = "leave it out or write it in another way"
    if word == SPECIAL_TOKENS[UNK]:
        advice = "give a word to read it as (unk as), or read it as unknown (unk as unknown)"
    return InputError(
        f"{where}: holds the word {word}, which has a meaning for the model; {advice}"
    )


def read_sentences(
    paths: Sequence[str | os.PathLike[str]],
    ids: WordIds,
    size: int = PART_TOKENS,
    field: str | None = None,
) -> Iterator[np.ndarray]:
    """Read sentences as ids, int64, each as ``<s>``, its words, ``</s>``, in parts of `size`, from
    text, a line each, or by suffix JSONL or Parquet, a record each."""
    find: Any = ids.__getitem__
    for path in map(Path, paths):
        tokens = array("q")
        for place, words, _ in _sentences(path, field):
            try:
                tokens.append(BOS)
                tokens.extend(map(find, words))
                tokens.append(EOS)
            except ReservedWordError as error:
                raise _refusal(path, place, str(error)) from None
            if len(tokens) >= size:
                yield np.frombuffer(tokens, np.int64)
                tokens = array("q")
        if tokens:
            yield np.frombuffer(tokens, np.int64)


def read_sentence_texts(
    paths: Sequence[str | os.PathLike[str]], rule: UnknownRule, field: str | None = None
) -> Iterator[str]:
    """Read the sentences of files as texts: words joined by one blank."""
    for path in map(Path, paths):
        yield from (text for text, _ in read_grouped_sentences(path, rule, None, field))


def read_grouped_sentences(
    path: Path | HeldTexts, rule: UnknownRule, groups: GroupField | None, field: str | None = None
) -> Iterator[tuple[str, str | None]]:
    """Read the sentences of a file as `read_sentence_texts` does, each with its group."""
    if groups:
        check_grouped(path, groups)
    reserved = WordIds([], rule, grows=False).reserved
    other = _LITERAL if rule.word is None else rule.word.encode()
    for place, words, group in _sentences(path, field, groups):
        if not reserved.isdisjoint(words):
            wrong = next(word for word in words if word in reserved)
            raise _refusal(path, place, wrong.decode())
        yield b" ".join(other if word == _LITERAL else word for word in words).decode(), group
