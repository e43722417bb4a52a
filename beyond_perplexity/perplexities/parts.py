"""Where models differ: bits of the same documents, split by what they are spent on.

Every split has all bits and bytes once, so that its parts add up to the whole; the end of a
document counts as a byte, as in all bits per byte.

Words, numbers, punctuation, code and white space tile the bytes of a text; a blank belongs to the
piece behind it. Kinds are told by letters alone: a number has a digit, a name is capitalised inside
a sentence, code is what stands between two blanks with a mark that prose lacks (such as ``_``,
``{``, ``::``). A token's bits are shared out by its bytes that are no white space, or by all where
it is white space alone.
"""

from __future__ import annotations

import heapq
import math
import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import intervals
from beyond_perplexity.inference.p_values import adjust_rows
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS, effective_groups
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.perplexities.score_files import TokenDocument, begin_of, read_tokens
from beyond_perplexity.perplexities.summary import unit_key
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES, PERPLEXITY_PARTS
from beyond_perplexity.signature import refuse_mixed, signature_in
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.shards import ParquetInput

PIECE_KINDS = ("word", "name", "number", "punctuation", "code", "white space")
WORD, NAME, _NUMBER, _PUNCTUATION, _CODE, _SPACE = range(len(PIECE_KINDS))
_CHUNK = re.compile(r"(\s*)(\S+)|\s+$")
_MARKS = re.compile(r"[_{}<>=\\|~^`]|::|://|->|\(\)|\w\[")
_ENDS = re.compile(r"[.!?:…。！？][\"'”’»)\]]*$")
_OPENS = re.compile(r"[\"'“‘«„¿¡(\[]+")
_BLANKS = np.isin(np.arange(256), [*b" \t\n\r\v\f"])

END_PART, NOT_A_WORD = "end of the document", "no word"
WHOLE_PART, DOCUMENT = "whole", "document"  # rows of no split by classes
_RANKS = (100, 1_000, 10_000)
_BYTES = (64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768)  # before a piece
PART_SPLITS: dict[str, tuple[str, ...]] = {
    "kind": (*PIECE_KINDS, END_PART),
    "frequency": (
        *("100 most frequent words", "words of rank 101 to 1,000", "words of rank 1,001 to 10,000"),
        *("less frequent words", "words not in the reference", NOT_A_WORD, END_PART),
    ),
    "repetition": ("first in the document", "repeated in the document", NOT_A_WORD, END_PART),
    "position": (
        *("bytes 1 to 64", *(f"bytes {n + 1:,} to {2 * n:,}" for n in _BYTES[:-1])),
        f"bytes from {_BYTES[-1] + 1:,} on",
    ),
}
MOST_DOCUMENTS = 10  # that carry most of a difference
_SHOWN = 60  # characters of their beginning
_OFFSETS = np.cumsum([0, *map(len, PART_SPLITS.values())])


def word_ranks(texts: Iterable[str]) -> dict[str, int]:
    """Rank the words of texts by frequency, from 0; words of one frequency by the alphabet."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(cut_pieces(text).words)
    del counts[""]
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: rank for rank, word in enumerate(order)}


def _classes(pieces: TextPieces, ranks: Mapping[str, int]) -> np.ndarray:
    """Return the class of each piece, and of the end, in every split: int64, (S, P + 1)."""
    kinds, last = pieces.kinds, len(pieces.kinds)
    is_word = (kinds == WORD) | (kinds == NAME)
    found = np.empty((len(PART_SPLITS), last + 1), np.int64)
    for row, names in zip(found, PART_SPLITS.values(), strict=True):
        row[-1] = len(names) - 1
    found[0, :-1] = kinds
    known = np.array([ranks.get(word, -1) for word in pieces.words], np.int64)
    by_rank = np.where(known < 0, len(_RANKS) + 1, np.searchsorted(_RANKS, known, "right"))
    found[1, :-1] = np.where(is_word, by_rank, len(_RANKS) + 2)
    first = {word: place for place, word in reversed([*enumerate(pieces.words)])}
    again = [first[word] < place for place, word in enumerate(pieces.words)]
    found[2, :-1] = np.where(is_word, again, 2)
    begins = np.append(0, pieces.ends)
    found[3] = np.searchsorted(_BYTES, begins, "right")
    return found + _OFFSETS[:-1, None]


_Row = dict[str, Any]


class Parts:
    """Bits of documents under some models, by class; a few numbers a document are held."""

    def __init__(self, names: Sequence[str], ranks: Mapping[str, int], group_size: int = 1) -> None:
        self.names, self._ranks, self._group_size = list(names), ranks, group_size
        self._bits = [array("d") for _ in names]  # by document, then class
        self._sizes = array("q")
        self._groups = array("q")
        # Of each pair the documents that carry most: bits, place (negated), name
        self._carriers: dict[tuple[int, int], list[tuple[float, int, str]]] = {
            pair: [] for pair in combinations(range(len(names)), 2)
        }
        self.kind = ""

    def add(self, documents: Sequence[TokenDocument]) -> None:
        """Add a document, as every model scores it."""
        item, self.kind = documents[0].item, documents[0].kind
        begin = begin_of(documents[0].scores)
        for one, name in zip(documents, self.names, strict=True):
            same = begin_of(one.scores) == begin and one.scores.ended == documents[0].scores.ended
            if one.item[:2] != item[:2] or not same:
                raise InputError(
                    f"{name}: doc_id {one.item.doc_id} is another document, text or end than "
                    f"doc_id {item.doc_id} of {self.names[0]}; score the same text in the same way"
                )
            if not np.isfinite(one.scores.log_probs).all():
                place = int(np.argmin(one.scores.log_probs))
                raise InputError(
                    f"{name}: finds token {place} ({one.scores.tokens[place]!r:.40}) of doc_id "
                    f"{item.doc_id} impossible: its bits are infinite, and so is the difference; "
                    "leave the model out"
                )
        content, pieces = item.text.encode(), cut_pieces(item.text)
        classes = _classes(pieces, self._ranks)
        scored = np.diff(np.maximum(pieces.ends, begin), prepend=begin)
        sizes = np.append(scored, int(documents[0].scores.ended))
        self._sizes.extend(self._by_class(classes, sizes).astype(np.int64).tolist())
        totals = []
        for held, one in zip(self._bits, documents, strict=True):
            bits = share_out(one.scores, content, pieces.ends)
            held.extend(self._by_class(classes, bits).tolist())
            totals.append(float(bits.sum()))
        for (i, j), carriers in self._carriers.items():
            name = f"{item.title or f'doc_id {item.doc_id}'}: {item.text[:_SHOWN]}"
            heapq.heappush(carriers, (abs(totals[i] - totals[j]), -len(self._groups), name))
            if len(carriers) > MOST_DOCUMENTS:
                heapq.heappop(carriers)
        self._groups.append(unit_key(item, len(self._groups) // self._group_size))

    @staticmethod
    def _by_class(classes: np.ndarray, values: np.ndarray) -> np.ndarray:
        repeated = np.broadcast_to(values, classes.shape)
        return np.bincount(classes.ravel(), repeated.ravel(), int(_OFFSETS[-1]))

    def table(self) -> pa.Table:
        """Return the parts of all pairs, schema ``perplexity_parts``; p adjusted within a split."""
        if not self._groups:
            raise InputError("there is nothing to compare: no documents")
        rows = [row for pair in self._carriers for row in self._rows(*pair)]
        return pa.Table.from_pylist(rows, PERPLEXITY_PARTS)

    def _rows(self, first: int, second: int) -> list[_Row]:
        shape, groups = (len(self._groups), int(_OFFSETS[-1])), np.asarray(self._groups)
        held = (self._sizes, self._bits[first], self._bits[second])
        columns = [np.asarray(one).reshape(shape).T for one in held]  # (C, D) each
        # Every split has all of the text, the first as any other.
        whole = np.stack([one[: _OFFSETS[1]].sum(0) for one in columns])  # (3, D)
        rows = [_row(whole, whole[0], groups, WHOLE_PART, "")]
        for (split, names), start in zip(PART_SPLITS.items(), _OFFSETS, strict=False):
            for place, name in enumerate(names, start):
                part = np.stack([one[place] for one in columns])
                rows += [_row(part, whole[0], groups, split, name)] if part.any() else []
        others = whole
        for _, number, name in sorted(self._carriers[first, second], reverse=True):
            alone = whole * (np.arange(shape[0]) == -number)
            rows.append(_row(alone, whole[0], groups, DOCUMENT, name))
            others = others - alone
        rows += [_row(others, whole[0], groups, DOCUMENT, "all others")] if others.any() else []
        _add_up(rows)
        for split in PART_SPLITS | {WHOLE_PART: ()}:
            adjust_rows([row for row in rows if row["split"] == split])
        named = {"scored_text": self.kind, "first": self.names[first], "second": self.names[second]}
        return [row | named for row in rows]


def _row(part: np.ndarray, whole: np.ndarray, groups: np.ndarray, split: str, name: str) -> _Row:
    """Make the row of a part: its bytes and bits under both models, (3, D); `whole`: all bytes."""
    sizes, one, two = part
    row: _Row = dict.fromkeys(PERPLEXITY_PARTS.names) | {"split": split, "part": name}
    row |= {"bytes": int(sizes.sum()), "documents": int(np.count_nonzero(sizes))}
    row |= {"first_bits": one.sum() / whole.sum(), "second_bits": two.sum() / whole.sum()}
    row["within"] = float((one - two).sum() / sizes.sum()) if sizes.any() else None
    difference, size, all_bytes = intervals.sum_groups(groups, one - two, sizes, whole)
    has = size > 0
    row["groups"] = int(has.sum())
    if split == DOCUMENT:
        return row | {"note": "chosen for its size: no test"}
    test = intervals.ratio_test(difference, all_bytes)
    row["p_value"] = intervals.finite(test.p_value)
    few = effective_groups(size[has]) < EFFECTIVE_GROUPS or math.isnan(test.interval.low)
    if few:
        return row | {"note": f"fewer than {EFFECTIVE_GROUPS} effective groups: no interval"}
    inside = intervals.ratio_test(difference[has], size[has]).interval
    row |= {"low": test.interval.low, "high": test.interval.high, "note": ""}
    return row | {"within_low": inside.low, "within_high": inside.high}


def _add_up(rows: Sequence[_Row]) -> None:
    """Round bits per byte to multiples of a power of two, 2⁻⁴⁵ of the largest or finer, so that
    those of a split add up exactly; the rest goes to the part of the most bytes."""
    names = "first_bits", "second_bits"
    largest = max(abs(row[name]) for row in rows for name in names)
    scale = 2.0 ** (45 - math.frexp(largest)[1])
    for name in names:
        for row in rows:
            row[name] = float(np.rint(row[name] * scale))
        for split in {row["split"] for row in rows}:
            own = [row for row in rows if row["split"] == split]
            most = max(own, key=lambda row: row["bytes"])
            most[name] += rows[0][name] - sum(row[name] for row in own)
        for row in rows:
            row[name] /= scale
    for row in rows:
        row["value"] = row["first_bits"] - row["second_bits"]


def compare_tokens(
    paths: Sequence[str],
    names: Sequence[str],
    reference: Iterable[str] | None = None,
    accounts: Sequence[Account | None] = (),
    group_size: int = 1,
) -> tuple[pa.Table, list[pa.Table]]:
    """Compare files of ``token_scores``, of the same documents in order: the parts of differences,
    by how frequent words are in `reference` (None: the text), and each file's documents, of which
    `group_size` in a row are a group where they name none."""
    texts = reference or (document.item.text for document in read_tokens(paths[0]))
    parts = Parts(names, word_ranks(texts), group_size)
    rows: list[list[_Row]] = [[] for _ in paths]
    readers = [read_tokens(*each) for each in zip_longest(paths, accounts)]
    for documents in zip_longest(*readers):
        if None in documents:
            raise InputError(
                f"{names[documents.index(None)]}: has fewer documents than another; score the same "
                "text under every model"
            )
        parts.add(documents)
        for held, (item, kind, scores) in zip(rows, documents, strict=True):
            row = {"doc_id": item.doc_id, "group": item.group, "title": item.title}
            size = len(item.text.encode()) - begin_of(scores)
            row |= {"scored_text": kind, "bytes": size, "ended": scores.ended}
            row |= {"log_likelihood": float(scores.log_probs.sum())}
            held.append(row | {"unknown": scores.tokens.count("<unk>")})
    signed = {}
    for path, name in zip(paths, names, strict=True):
        with ParquetInput(path) as file:
            signed[name] = signature_in(path, file.metadata.metadata, parts.kind)
    refuse_mixed(signed)
    kept = [field for field in DOCUMENT_SCORES if field.name in rows[0][0]]
    return parts.table(), [pa.Table.from_pylist(held, pa.schema(kept)) for held in rows]


class TextPieces(NamedTuple):
    """The pieces of a text, P of them."""

    ends: np.ndarray  # int64, (P,): byte of the UTF-8 at which each ends
    kinds: np.ndarray  # int64, (P,): places in `PIECE_KINDS`
    # In lower case, so that a word is one wherever it stands; empty for what is no word or name
    words: list[str]


@cache
def _inside() -> re.Pattern[str]:
    """Return what cuts a chunk; letters may have combining marks, which are no letters to `re`."""
    points = map(chr, range(sys.maxunicode + 1))
    marks = "".join(one for one in points if unicodedata.category(one)[0] == "M")
    letter = f"(?:[^\\W\\d_]|[{marks}])"
    return re.compile(
        rf"([^\W_]*\d[^\W_]*(?:[.,:/'-]\d[^\W_]*)*)|({letter}+(?:['’-]{letter}+)*)|(?:[^\w{marks}]|_)+"
    )


def cut_pieces(text: str) -> TextPieces:
    """Cut a text into pieces."""
    ends, kinds, words = list[int](), list[int](), list[str]()

    def add(end: int, kind: int, word: str = "") -> None:
        ends.append(end)
        kinds.append(kind)
        words.append(word.lower())

    begins = True  # a sentence
    for chunk in _CHUNK.finditer(text):
        blank, held = chunk.groups()
        if not held or blank not in ("", " "):
            add(chunk.start(2) if held else chunk.end(), _SPACE)
            begins = begins or "\n" in (blank or "")
        if not held:
            break
        if held != "<unk>" and len(held) > 1 and _MARKS.search(held):
            add(chunk.end(), _CODE)
            begins = False
            continue
        for part in _inside().finditer(text, chunk.start(2), chunk.end()):
            number, word = part.groups()
            if word:
                named = not begins and word[0].isupper() and not re.match(r"I\b", word)
                add(part.end(), NAME if named else WORD, word)
            else:
                add(part.end(), _NUMBER if number else _PUNCTUATION)
            mark = "" if number or word else part[0]
            begins = bool(_ENDS.search(mark)) or (begins and bool(_OPENS.fullmatch(mark)))
    places = np.array(ends, np.int64)
    if not text.isascii():
        places = np.cumsum([0, *(len(letter.encode()) for letter in text)])[places]
    return TextPieces(places, np.array(kinds, np.int64), words)


def share_out(scores: TokenScores, content: bytes, ends: np.ndarray) -> np.ndarray:
    """Return the bits of pieces, which end at bytes (P,), and of the end: float64, (P + 1,)."""
    bits = -scores.log_probs / np.log(2)
    n, size, found = len(bits) - scores.ended, len(content), np.zeros(len(ends) + 1)
    if scores.ended:
        found[-1] = bits[n]
    if not n:
        return found
    starts, bits = scores.starts[:n], bits[:n]
    lengths, begin = np.diff(np.append(starts, size)), int(starts[0])  # what is before has none
    token = np.repeat(np.arange(n), lengths)  # of each byte
    piece = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))[begin:]
    weights = 1.0 - _BLANKS[np.frombuffer(content, np.uint8)[begin:]]
    whole = np.bincount(token, weights, n)
    weights[whole[token] == 0] = 1.0
    whole = np.where(whole > 0, whole, lengths)
    has = lengths > 0
    each = np.divide(bits, whole, out=np.zeros(n), where=has)  # bits of a byte that counts
    found[:-1] = np.bincount(piece, weights * each[token], len(ends))
    where = np.searchsorted(ends, np.minimum(starts[~has], size - 1), "right")
    np.add.at(found, np.where(size > 0, where, len(ends)), bits[~has])
    return found
