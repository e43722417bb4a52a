"""Sentences from plain text: a line each, words joined by blanks, nothing changed.

White space is that of ASCII, as for `lmplz`; empty lines are skipped. The words ``<s>``, ``</s>``
and ``<unk>`` have a meaning for a model, so a text must not hold them, unless it is said what
``<unk>`` shall be.
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
from beyond_perplexity.corpus.readers import Record
from beyond_perplexity.corpus.text_files import HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.accounts import EMPTY_LINE, Account
from beyond_perplexity.storage.inputs import DamagedError, count_lines, open_input
from beyond_perplexity.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK

READ_BYTES = 1 << 24
LONGEST_BYTES = 1 << 26  # of a line
_RESERVED = dict(zip(SPECIAL_TOKENS, (-1, -2, -3), strict=True))


@dataclass(frozen=True)
class UnknownRule:
    """What a literal ``<unk>`` of a text is; by default an error."""

    word: str | None = None  # it is this ordinary word
    unknown: bool = False  # it is the unknown word

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
    """Ids of words, as UTF-8; the special ones have theirs, others begin at 3.

    Words that a text must not hold have negative ids. Where it grows other words get the next id;
    else they are unknown.
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
    """Read a file in blocks of whole lines, of about so many bytes, with the number of the first.

    The account is closed at the end, when whoever takes the blocks has counted their lines there.
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
    """Check a block of lines, the first of which has the given number."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line = number + block.count(b"\n", 0, error.start)
        raise InputError(f"{path}: line {line}: is not UTF-8; convert the file") from error


def _refusal(place: str, word: bytes) -> InputError:
    """Say where a text holds a word that it must not hold."""
    advice = "leave it out or write it in another way"
    if word.decode() == SPECIAL_TOKENS[UNK]:
        advice = "give a word to read it as (unk as), or read it as unknown (unk as unknown)"
    return InputError(
        f"{place}: holds the word {word.decode()}, which has a meaning for the model; {advice}"
    )


def _refuse_block(
    path: str | os.PathLike[str], number: int, block: bytes, reserved: set[bytes]
) -> InputError:
    """Say which line of a block, the first of which has the number, holds such a word."""
    for line, words in enumerate(map(bytes.split, block.split(b"\n")), start=number):
        for word in words:
            if word in reserved:
                return _refusal(f"{path}: line {line}", word)
    raise AssertionError("no reserved word")


def _record_line(record: Record, reserved: set[bytes]) -> bytes:
    """Return a record as a line; an error names the record, which has a reserved word."""
    line = record.as_it_is.replace("\n", " ").encode()
    wrong = next((word for word in line.split() if word in reserved), None)
    if wrong is not None:
        raise _refusal(record.place, wrong)
    return line


def _record_blocks(
    path: Path, size: int, field: str | None, reserved: set[bytes], account: Account
) -> Iterator[tuple[int, bytes]]:
    """Give blocks of lines, a record each, as `read_line_blocks` does; none has a reserved word."""
    waiting: list[bytes] = []
    held = first = count = 0
    for records in read_records(path, field=field, account=account):
        for record in records:
            line = _record_line(record, reserved)
            waiting.append(line + b"\n")
            held += len(line)
            count += 1
            if held >= size:
                yield first, b"".join(waiting)
                waiting, held, first = [], 0, count
    if waiting:
        yield first, b"".join(waiting)


def _blocks(
    path: str | os.PathLike[str], size: int, field: str | None, reserved: set[bytes]
) -> Iterator[tuple[int, bytes, Iterator[list[bytes]]]]:
    """Give the number of a block's first line, the block, and the words of its sentences."""
    check_field(Path(path), field)
    account = Account(path, "sentences")
    if has_named_fields(Path(path)):
        for number, block in _record_blocks(Path(path), size, field, reserved, account):
            yield number, block, _split(block, account, counts=False)
        return
    for number, block in read_line_blocks(path, size, account):
        check_utf8(path, number, block)
        yield number, block, _split(block, account, counts=True)


def _split(block: bytes, account: Account, *, counts: bool) -> Iterator[list[bytes]]:
    """Split the lines of a block into words; those that are empty are left out."""
    for line in block.removesuffix(b"\n").split(b"\n"):
        account.read += counts
        if words := line.split():
            yield words
        else:
            account.left_out[EMPTY_LINE] += 1


def read_sentences(
    paths: Sequence[str | os.PathLike[str]],
    ids: WordIds,
    size: int = READ_BYTES,
    field: str | None = None,
) -> Iterator[np.ndarray]:
    """Read sentences as ids, int64, part by part: each as ``<s>``, its words, ``</s>``.

    Files are text, a sentence a line, or by their suffix JSONL or Parquet, a sentence a record.
    """
    find: Any = ids.__getitem__
    for path in paths:
        for number, block, sentences in _blocks(path, size, field, ids.reserved):
            tokens = array("q")
            for words in sentences:
                tokens.append(BOS)
                tokens.extend(map(find, words))
                tokens.append(EOS)
            found = np.frombuffer(tokens, np.int64)
            if len(found) and found.min() < 0:
                raise _refuse_block(path, number, block, ids.reserved)
            if len(found):
                yield found


def read_sentence_texts(
    paths: Sequence[str | os.PathLike[str]], rule: UnknownRule, field: str | None = None
) -> Iterator[str]:
    """Read the sentences of files as texts: words joined by one blank."""
    reserved = WordIds([], rule, grows=False).reserved
    for path in paths:
        for number, block, sentences in _blocks(path, READ_BYTES, field, reserved):
            for words in sentences:
                if not reserved.isdisjoint(words):
                    raise _refuse_block(path, number, block, reserved)
                yield _sentence(words, rule)


def read_grouped_sentences(
    path: Path | HeldTexts, rule: UnknownRule, groups: GroupField, field: str | None = None
) -> Iterator[tuple[str, str | None]]:
    """Read the sentences of a file as `read_sentence_texts` does, each with its group."""
    check_grouped(path, groups)
    if not has_named_fields(path):
        yield from ((text, None) for text in read_sentence_texts([str(path)], rule, field))
        return
    reserved = WordIds([], rule, grows=False).reserved
    account = Account(path, "sentences")
    for records in read_records(path, groups=groups, field=field, account=account):
        for record in records:
            if words := _record_line(record, reserved).split():
                yield _sentence(words, rule), record.group
            else:
                account.left_out[EMPTY_LINE] += 1


def _sentence(words: Sequence[bytes], rule: UnknownRule) -> str:
    literal = SPECIAL_TOKENS[UNK].encode()
    other = literal if rule.word is None else rule.word.encode()
    return b" ".join(other if word == literal else word for word in words).decode()
