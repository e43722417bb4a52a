"""Write a back-off model as an ARPA file: logarithms of base 10, back-off weights behind.

As of SRILM and KenLM, tabs separate fields, blanks words; ``<s>`` has −99; every n-gram below the
highest order has its back-off weight; lines are in the order of the trie, with float32's digits.
"""

from __future__ import annotations

import gzip
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams import kneser_ney, sentence_files
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, SPECIAL_TOKENS, UNK

IMPOSSIBLE = -99.0  # SRILM's logarithm of zero
LINES = 1 << 18  # that are made at once
COMPRESSION = 1  # a fifth larger than the usual level and four times faster


def _decimal(values: np.ndarray) -> pa.Array:
    """Print natural logarithms as such of base 10."""
    common = np.maximum(values / math.log(10), IMPOSSIBLE).astype(np.float32)
    return pc.cast(pa.array(common + np.float32(0)), pa.string())  # with 0 for −0


def _lines(model: kneser_ney.BackoffModel, words: pa.Array, order: int) -> Iterator[pa.Buffer]:
    """Make the lines of an order, in blocks."""
    level = model.levels[order - 1]
    positions = np.arange(len(level.keys))
    if order == 1:
        positions = positions[np.isfinite(level.log_probs) | (positions == BOS)]
    for start in range(0, len(positions), LINES):
        block = positions[start : start + LINES]
        rows, columns = block, []
        for lower in reversed(model.levels[:order]):
            keys = lower.keys[rows]
            columns.append(words.take(pa.array(kneser_ney.last_words(keys))))
            rows = kneser_ney.prefix_places(keys)
        text = pc.binary_join_element_wise(*reversed(columns), " ")
        fields = [_decimal(np.minimum(level.log_probs[block], 0)), text]
        if len(level.backoffs):
            fields.append(_decimal(level.backoffs[block]))
        lines = pc.binary_join_element_wise(*fields, "\t")
        ended = pc.binary_join_element_wise(lines, "", "\n")
        yield ended.buffers()[2].slice(0, pc.sum(pc.binary_length(ended)).as_py())


def _open(path: Path, zipped: bool, stack: ExitStack) -> IO[bytes]:
    """Open a file to write; gzip without name and time, so that equal models give equal bytes."""
    file = stack.enter_context(path.open("wb"))
    if not zipped:
        return file
    made = gzip.GzipFile("", "wb", COMPRESSION, file, mtime=0)
    return cast(IO[bytes], stack.enter_context(made))


def write_arpa(
    path: str | os.PathLike[str], model: kneser_ney.BackoffModel, words: Sequence[str]
) -> None:
    """Write a model, atomically."""
    held = pa.array(words, pa.string())
    with atomic_path(path) as temporary, ExitStack() as stack:
        file = _open(temporary, Path(path).suffix == ".gz", stack)
        counts = "".join(f"ngram {n}={count}\n" for n, count in enumerate(model.n_counts, start=1))
        file.write(f"\\data\\\n{counts}".encode())
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            for block in _lines(model, held, order):
                file.write(block)
        file.write(b"\n\\end\\\n")


BLOCK_BYTES = 1 << 23
_OTHER_UNKNOWN = "<UNK>"  # what some programs write


class ArpaModel(NamedTuple):
    """What an ARPA file holds."""

    # Ids 0, 1 and 2 are ``<s>``, ``</s>`` and ``<unk>``; the third has no probability where the
    # file has no such word
    model: kneser_ney.BackoffModel
    words: list[str]  # by id
    n_counts: list[int]  # number of n-grams of every order


class _Lines(NamedTuple):
    """The tokens of L lines that are not empty."""

    tokens: pa.ListArray  # of strings, (L,)
    numbers: np.ndarray  # int64, (L,): of the lines in the file, from 1

    @classmethod
    def split(cls, block: str, number: int) -> _Lines:
        """Split a block of lines into tokens; the number is that of its first line."""
        lines = pc.ascii_trim_whitespace(pc.split_pattern(pa.array([block]), "\n").flatten())
        full = np.flatnonzero(pc.binary_length(lines))  # (L,)
        return cls(pc.ascii_split_whitespace(lines.take(pa.array(full))), number + full)

    @property
    def begins(self) -> np.ndarray:
        """Where each line's first token is among all tokens, int64, (L + 1,), and their end."""
        return self.tokens.offsets.to_numpy().astype(np.int64)

    def part(self, start: int, stop: int) -> _Lines:
        """Return the lines from `start` to `stop`."""
        return _Lines(self.tokens[start:stop], self.numbers[start:stop])

    def take(self, positions: np.ndarray) -> pa.StringArray:
        """Return some tokens."""
        return self.tokens.values.take(pa.array(positions))

    def text(self, line: int) -> str:
        """Return the tokens of a line, joined by blanks."""
        return " ".join(self.tokens[line].as_py())


class _Rows(NamedTuple):
    """n-grams of an order, as they stand in the file: M each."""

    keys: np.ndarray
    log_probs: np.ndarray
    backoffs: np.ndarray
    numbers: np.ndarray


class _Reading:
    """What has been read of a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._declared: list[int] = []
        self._order = -1  # −1: before the header; 0: in it; then that of the section
        self._rows: list[_Rows] = []
        self._words: list[str] = []
        self._lookup = pa.array([], pa.string())
        self._levels: list[kneser_ney.BackoffLevel] = []
        self._last = 0  # line
        self.done = False

    def _fail(self, number: int, reason: str) -> NoReturn:
        raise InputError(f"{self._path}: line {number}: {reason}")

    def take(self, number: int, block: bytes) -> None:
        """Read a block of lines; the number is that of its first line."""
        lines = _Lines.split(sentence_files.decoded(self._path, number, block), number)
        marks = np.flatnonzero(pc.starts_with(lines.take(lines.begins[:-1]), "\\"))
        for start, stop in zip([-1, *marks], [*marks, len(lines.numbers)], strict=True):
            if start >= 0:
                self._mark(lines.text(start), int(lines.numbers[start]))
            if start + 1 < stop and not self.done:
                self._take_rows(lines.part(start + 1, stop))
        self._last = number + block.count(b"\n")

    def _mark(self, text: str, number: int) -> None:
        """Begin a section, or end the last."""
        section = re.fullmatch(r"\\(\d{1,3})-grams:", text)
        if self.done or (self._order < 0 and text != "\\data\\"):
            return
        if self._order < 0:
            self._order = 0
        elif section and int(section[1]) == self._order + 1 <= len(self._declared):
            self._close(number)
            self._order += 1
        elif text == "\\end\\" and self._order == len(self._declared) > 0:
            self._close(number)
            self.done = True
        else:
            self._fail(number, f"{text!r:.80} is not what follows here; make the file again")

    def _take_rows(self, lines: _Lines) -> None:
        if self._order == 0:
            for line, number in enumerate(lines.numbers):
                found = re.fullmatch(r"ngram (\d{1,3}) ?= ?(\d{1,18})", lines.text(line))
                if not found or int(found[1]) != len(self._declared) + 1:
                    following = f"ngram {len(self._declared) + 1}=..."
                    self._fail(int(number), f"is {lines.text(line)!r:.80}, expected {following}")
                self._declared.append(int(found[2]))
        elif self._order > 0:
            self._rows.append(self._read_rows(lines))

    def _read_rows(self, lines: _Lines) -> _Rows:
        order, begins = self._order, lines.begins[:-1]
        extra = np.diff(lines.begins) - order - 1  # (L,): 1 with a back-off weight
        most = 1 if order < len(self._declared) else 0
        fields = " or ".join(str(order + 1 + more) for more in range(most + 1))
        for line in np.flatnonzero((extra < 0) | (extra > most)):
            has = f"has {extra[line] + order + 1} fields, a {order}-gram has {fields}"
            self._fail(lines.numbers[line], has)
        log_probs = self._numbers(lines, begins, lines.numbers)
        for number in lines.numbers[log_probs > 0]:
            self._fail(number, "the logarithm of a probability is above 0")
        backoffs = np.zeros(len(begins))
        weighted = extra == 1
        last = begins[weighted] + order + 1
        backoffs[weighted] = self._numbers(lines, last, lines.numbers[weighted])
        if order > 1:
            keys = self._find_places(lines)
        else:  # `_settle_words` gives the words their ids
            self._words += lines.take(begins + 1).to_pylist()
            keys = np.arange(len(self._words) - len(begins), len(self._words))
        return _Rows(keys, log_probs, backoffs, lines.numbers)

    def _numbers(self, lines: _Lines, positions: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return natural logarithms."""
        tokens = lines.take(positions)
        try:
            values = tokens.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            values = np.array([_parse(token) for token in tokens.to_pylist()])
        for row in np.flatnonzero(np.isnan(values) | (values == np.inf)):
            token = tokens[int(row)].as_py()
            self._fail(numbers[row], f"{token!r:.80} is no logarithm of a probability")
        return np.where(values <= IMPOSSIBLE, -np.inf, values * math.log(10))

    def _find_places(self, lines: _Lines) -> np.ndarray:
        """Return the keys of n-grams, whose prefixes have been read."""
        keys = np.zeros(0, dtype=np.int64)
        for position in range(self._order):
            tokens = lines.take(lines.begins[:-1] + 1 + position)
            ids = pc.fill_null(pc.index_in(tokens, value_set=self._lookup), -1)
            words = ids.to_numpy().astype(np.int64)
            for line in np.flatnonzero(words < 0):
                reason = f"the word {tokens[int(line)].as_py()!r:.80} is not among the 1-grams"
                self._fail(lines.numbers[line], reason)
            keys = kneser_ney.pack(keys, words) if position else words
            if 0 < position < self._order - 1:
                keys = kneser_ney.find_keys(self._levels[position].keys, keys)
                for number in lines.numbers[keys < 0]:
                    reason = (
                        f"its first {position + 1} words are not among the {position + 1}-grams"
                    )
                    self._fail(number, reason)
        return keys

    def _close(self, number: int) -> None:
        """Make a level of the section that ends at a line."""
        if self._order == 0:
            if not self._declared:
                self._fail(number, "no 'ngram 1=...' stands before it")
            return
        none = np.zeros(0, np.int64)
        rows, self._rows = [_Rows(none, np.zeros(0), np.zeros(0), none), *self._rows], []
        held = _Rows(*(np.concatenate(columns) for columns in zip(*rows, strict=True)))
        expected = self._declared[self._order - 1]
        if len(held.keys) != expected:
            self._fail(
                number,
                f"{len(held.keys)} {self._order}-grams stand before it, the header says "
                f"{expected}: the file is damaged or cut off; make it again",
            )
        if self._order == 1:
            held = self._settle_words(held, number)
        order = np.argsort(held.keys, kind="stable")
        keys = held.keys[order]
        for number in held.numbers[order[1:]][keys[1:] == keys[:-1]]:
            self._fail(number, "the n-gram stands there twice")
        backoffs = held.backoffs[order] if self._order < len(self._declared) else np.zeros(0)
        self._levels.append(kneser_ney.BackoffLevel(keys, held.log_probs[order], backoffs))

    def _settle_words(self, held: _Rows, number: int) -> _Rows:
        """Give the words their ids: the special ones the first three."""
        names = list(SPECIAL_TOKENS)
        if names[UNK] not in self._words and _OTHER_UNKNOWN in self._words:
            names[UNK] = _OTHER_UNKNOWN
        for name in (names[BOS], names[EOS]):
            if name not in self._words:
                self._fail(number, f"the 1-grams before it lack {name}; every sentence has it")
        others = [word for word in self._words if word not in names]
        known = names[UNK] in self._words
        lookup = pa.array([*names, *others], pa.string())
        keys = pc.index_in(pa.array(self._words, pa.string()), value_set=lookup)
        keys = keys.to_numpy(zero_copy_only=False).astype(np.int64)
        log_probs = np.where(keys == BOS, -np.inf, held.log_probs)
        rows = _Rows(keys, log_probs, held.backoffs, held.numbers)
        self._words, self._lookup = [*names, *others], lookup
        if not known:
            more = _Rows(np.array([UNK]), np.array([-np.inf]), np.zeros(1), np.array([number]))
            rows = _Rows(*(np.append(a, b) for a, b in zip(rows, more, strict=True)))
        return rows

    def finish(self) -> ArpaModel:
        """Return the model."""
        if not self.done:
            self._fail(self._last, "the file ends before \\end\\: it is cut off; make it again")
        words = [*SPECIAL_TOKENS, *self._words[N_SPECIAL:]]
        return ArpaModel(kneser_ney.BackoffModel(self._levels), words, self._declared)


def _parse(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return math.nan


def read_arpa(path: str | os.PathLike[str], block_bytes: int = BLOCK_BYTES) -> ArpaModel:
    """Read a model."""
    reading = _Reading(path)
    for number, block in sentence_files.read_line_blocks(path, block_bytes):
        reading.take(number, block)
    return reading.finish()


def _perplexity(log10_prob: float, tokens: int) -> float | None:
    """Return 10^(−log10_prob / tokens); None where it is infinite or there is no token."""
    exponent = -log10_prob / tokens if tokens else math.inf
    return 10**exponent if exponent < 308 else None


def summarize_arpa(
    arpa: ArpaModel,
    paths: Sequence[str | os.PathLike[str]],
    rule: sentence_files.UnknownRule,
    field: str | None = None,
) -> dict[str, Any]:
    """Score sentences, JSON-safe: unknown words as ``<unk>``, null where a number is not finite.

    ``tokens`` and ``log10_prob`` are of all words and one ``</s>`` a sentence;
    ``perplexity_without_oov`` leaves out the ``oov`` unknown words; ``n_counts`` are the model's
    n-grams by order.
    """
    ids = sentence_files.WordIds(arpa.words[N_SPECIAL:], rule, grows=False)
    known = unknown = 0.0
    tokens = oov = sentences = 0
    for part in sentence_files.read_sentences(paths, ids, field=field):
        scores = kneser_ney.score_tokens(arpa.model, part)
        strange = part == UNK
        unknown += float(scores[strange].sum())
        known += float(scores[~strange].sum())
        tokens += int(np.count_nonzero(part != BOS))
        oov += int(np.count_nonzero(strange))
        sentences += int(np.count_nonzero(part == EOS))
    if not sentences:
        raise InputError(f"{paths[0]}: holds no sentence; give a text with words")
    known, log10_prob = known / math.log(10), (known + unknown) / math.log(10)
    told: dict[str, Any] = {"perplexity": _perplexity(log10_prob, tokens)}
    told |= {"perplexity_without_oov": _perplexity(known, tokens - oov)}
    told |= {"log10_prob": log10_prob if math.isfinite(log10_prob) else None, "tokens": tokens}
    return told | {"oov": oov, "sentences": sentences, "n_counts": arpa.n_counts}
