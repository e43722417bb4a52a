"""Sentences of files: a line of text each, or a record of JSONL or Parquet; nothing is cleaned."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beyond_perplexity.corpus.external import GroupField, check_grouped, read_records
from beyond_perplexity.corpus.held_texts import HeldTexts
from beyond_perplexity.corpus.readers import Record
from beyond_perplexity.corpus.suffixes import check_field, has_named_fields
from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.text import (
    READ_BYTES,
    UnknownRule,
    WordIds,
    check_utf8,
    read_line_blocks,
)
from beyond_perplexity.storage.accounts import EMPTY_LINE, Account
from beyond_perplexity.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK


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
    """Read the sentences of files as ids, part by part.

    Parameters
    ----------
    paths : sequence of path
        Text, a sentence a line, or by their suffix JSONL or Parquet, a sentence a record.
    ids : WordIds
        It may grow.
    size : int
        Bytes of a part, about.
    field : str, optional
        The field or column of the sentences; without it ``text``.

    Yields
    ------
    numpy.ndarray
        int64: each sentence as ``<s>``, its words and ``</s>``, behind each other.

    Raises
    ------
    InputError
        When a file cannot be read, is no UTF-8, or holds a word that has a meaning for the model.
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
    """Read the sentences of files as texts: words joined by one blank.

    Parameters
    ----------
    paths, field
        As for `read_sentences`.
    rule : UnknownRule
        What a literal ``<unk>`` is; the unknown word stays as it is.

    Raises
    ------
    InputError
        As `read_sentences`.
    """
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
    """Read the sentences of a file as `read_sentence_texts` does, each with its group.

    Parameters
    ----------
    path : pathlib.Path
    rule, field
        As for `read_sentence_texts`.
    groups : GroupField
        Where the group of a sentence stands; lines of text have none.

    Yields
    ------
    text, group : str, str or None

    Raises
    ------
    InputError
        As `read_sentences`, and when just some sentences have a group.
    """
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
