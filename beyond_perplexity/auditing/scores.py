"""Scores of texts by the program that scores them: what each counts, and in what units.

A `Witness`, no model of language, tells how often each token is scored, and after what: ln p of a
marked word is −1, of others the same small number, so that the program is tried without looking
inside.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.models.contract import LanguageModel, State, TensorState
from beyond_perplexity.perplexities.external import special_ids
from beyond_perplexity.perplexities.summary import DocumentRow, ScoredText
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, UNK, ClosedVocabulary

_SHORT, _LONG = 6, 23
# Contexts and strides of the long text: none, the default, and strides that do not fit its length.
_WINDOWS = ((None, None), (8, None), (8, 8), (8, 3), (5, 1), (1, None), (23, 5), (24, None))


class Witness(LanguageModel):
    """Unigrams with one `marked` id, whose ln p is −1; the others but ``<s>`` share the rest
    evenly; it keeps the rows that it was given in `inputs`."""

    def __init__(self, vocabulary_size: int, context_length: int | None) -> None:
        super().__init__()
        self.vocabulary_size, self.context_length = vocabulary_size, context_length
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.marked = N_SPECIAL
        self.inputs: list[list[int]] = []

    @property
    def config(self) -> dict[str, Any]:
        """It cannot be built again."""
        return {}

    @property
    def other(self) -> float:
        """Ln p of an id that is not marked."""
        return math.log((1 - math.exp(-1)) / (self.vocabulary_size - 2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return log probabilities, float32, (B, T, V), and keep the rows (B, T)."""
        self.inputs += tokens.tolist()
        return self._row().float().expand(*tokens.shape, self.vocabulary_size)

    def _row(self) -> Tensor:
        row = torch.full((self.vocabulary_size,), self.other, dtype=torch.float64)  # (V,)
        row[self.marked], row[BOS] = -1.0, -torch.inf
        return row

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat, and keep the rows."""
        self.inputs += inputs.tolist()
        yield self._row()[targets.flatten()]

    def initial_state(self, batch_size: int, maximum_length: int) -> State:
        """Return a state that remembers nothing."""
        return TensorState(())

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return log probabilities, float32, (B, V)."""
        self.inputs += [[token] for token in tokens.tolist()]
        return self._row().float().expand(len(tokens), self.vocabulary_size), state


class Coverage(NamedTuple):
    """How often each prediction of a text was scored."""

    counts: np.ndarray  # float64, (n + 1,): of its n tokens and of its end
    inputs: list[list[int]]  # rows given to the model for the text whose first word is the marked


@torch.no_grad()
def count_scored(
    subject: Subject, tokens: int, context: int | None, stride: int | None
) -> Coverage:
    """Let the scoring program score texts of different words by a `Witness`.

    In text i the word at position i is marked, in one more the end. With N predictions scored, c of
    them of what is marked, ln P is −c + (N − c) ln q; the sum over all positions gives N, and so
    every c.
    """
    words = [f"w{number}" for number in range(tokens)]
    vocabulary = ClosedVocabulary(words, 0)
    witness = Witness(vocabulary.size, context)
    marked, *others = words
    texts = [" ".join([*others[:i], marked, *others[i:]]) for i in range(tokens)]
    options = {} if stride is None else {"stride": stride}
    said = np.full(tokens + 1, np.nan)  # −c + (N − c) ln q
    for mark, positions, some in ((N_SPECIAL, range(tokens), texts), (EOS, [tokens], texts[:1])):
        witness.marked, witness.inputs = mark, []
        parts = subject.score(witness, vocabulary, some, text="cleaned", **options)
        for row in chain.from_iterable(parts):
            said[positions[row.doc_id]] = row.log_likelihood
    q = witness.other
    n = said.sum() / (len(said) * q - 1 - q)
    return Coverage(((said - n * q) / (-1 - q)).round(9) + 0.0, witness.inputs)


def scale_of(subject: Subject) -> float:
    """Return how often a token is counted where nothing is cut: not 1 for another base."""
    return float(np.median(count_scored(subject, _SHORT, None, None).counts)) or 1.0


def check_beginning(subject: Subject) -> Evidence:
    """See that the first token is scored once, after ``<s>`` and nothing else."""
    literal = sum(int(np.isin(ids, (BOS, EOS)).sum()) for ids in subject.encoded)
    if literal:
        detail = f"the tokenizer itself adds <s> or </s>, {literal} times: they count twice"
        return Evidence(float(literal), len(subject.encoded), detail)
    if added := _added(subject):
        detail = f"the tokenizer itself puts a special token at the {added} of every text: it "
        return Evidence(1.0, len(subject.encoded), detail + "counts twice")
    found = count_scored(subject, _SHORT, None, None)
    times = float(found.counts[0]) / scale_of(subject)
    off = abs(times - 1)
    detail = f"the first token is scored {times:.3g} times"
    wrong = _wrong_starts(found.inputs)
    if wrong is not None and off < 0.5:
        return Evidence(1.0, _SHORT, f"the first token is scored after {wrong}")
    return Evidence(off, _SHORT, detail)


def _added(subject: Subject) -> str:
    """Say at which end the tokenizer puts a special token, even of no text; empty: at none."""
    empty, some = subject.vocabulary.encode(["", "a"])
    special = [BOS, EOS, UNK, *special_ids(subject.vocabulary).values()]
    if not len(empty) or not np.isin(empty, special).all():
        return ""
    ends = {"beginning": some[0] == empty[0], "end": some[-1] == empty[-1]}
    return " and the ".join(name for name, added in ends.items() if added)


def _wrong_starts(inputs: Sequence[Sequence[int]]) -> str | None:
    """Say what comes before the first token where that is not ``<s>`` alone."""
    for row in inputs:
        if N_SPECIAL in row:
            position = list(row).index(N_SPECIAL)
            before = list(row[:position])
            if before != [BOS]:
                return f"{before.count(BOS)} times <s>" if before else "nothing"
    return None


def check_end(subject: Subject) -> Evidence:
    """See that the end of a text is scored once."""
    times = float(count_scored(subject, _SHORT, None, None).counts[-1]) / scale_of(subject)
    return Evidence(abs(times - 1), 1, f"</s> is scored {times:.3g} times")


def check_windows(subject: Subject) -> Evidence:
    """See that windows score each token once, in several contexts and strides."""
    worst, detail, compared = 0.0, "each token once", 0
    scale = scale_of(subject)
    for context, stride in _WINDOWS:
        counts, inputs = count_scored(subject, _LONG, context, stride)
        inner = counts[1:-1] / scale
        off = np.abs(inner - 1)
        compared += len(inner)
        longest = max(map(len, inputs), default=0)
        how = f"context {context}, stride {stride or 'default'}"
        if context is not None and longest > context:
            return Evidence(1.0, compared, f"{how}: {longest} tokens are given to the model")
        if not off.max() <= worst:
            worst, position = float(off.max()), int(off.argmax())
            many = f"{int(np.sum(off > 0.5))} of {_LONG} tokens wrongly"
            detail = f"{how}: token {position + 2} is scored {inner[position]:.3g} times ({many})"
    return Evidence(worst, compared, detail)


_TEXTS_ORDERED = 8
_MANY = 96  # short texts: batches and buffers hold some dozens, and a second may be mixed up
_WORDS_OF_MANY = 5


def check_order(subject: Subject) -> Evidence:
    """Score texts in order, backwards and alone by the scoring program, and compare them."""
    found = _compare_orders(subject, subject.texts[:_TEXTS_ORDERED], alone=True)
    if math.isnan(found.worst):
        return found
    # parts of the texts of a word to some, of lengths in turn
    words = [word for text in subject.texts for word in text.split()]
    begins = [3 * number % len(words) for number in range(_MANY)]
    lengths = [1 + number % _WORDS_OF_MANY for number in range(_MANY)]
    short = [" ".join(words[i : i + n]) for i, n in zip(begins, lengths, strict=True)]
    other = _compare_orders(subject, short, alone=False)
    worse = found if other.worst <= found.worst else other
    return worse._replace(compared=found.compared + other.compared)


def _compare_orders(subject: Subject, texts: Sequence[str], alone: bool) -> Evidence:
    """Score texts in order, backwards and, if asked, alone."""
    numbered = [ScoredText(number, text) for number, text in enumerate(texts)]
    orders = (numbered, numbered[::-1])
    first, turned = ({row.doc_id: row for row in subject.rows(held)} for held in orders)
    others = {"backwards" if alone else f"backwards, one of {len(texts)}": turned}
    if alone:
        others["alone"] = {row.doc_id: row for text in numbered for row in subject.rows([text])}
    worst, detail = 0.0, "as in order"
    for how, other in others.items():
        for number, row in first.items():
            off = _difference(row, other.get(number))
            if math.isnan(off) or off > worst:
                worst, detail = off, f"text {number + 1} has another score {how}"
            if math.isnan(off):
                return Evidence(off, len(texts), detail)
    if len(first) != len(texts):
        return Evidence(math.nan, len(texts), f"{len(texts)} texts give {len(first)} rows")
    return Evidence(worst, len(others) * len(texts), detail)


def _difference(one: DocumentRow, two: DocumentRow | None) -> float:
    """Return the difference of two scores of a text, nats a prediction; NaN: it has no second."""
    if two is None or one.text_hash != two.text_hash:
        return math.nan
    if one.log_likelihood == two.log_likelihood:
        return 0.0
    return abs(one.log_likelihood - two.log_likelihood) / (one.tokens + 1)


# Letters of one to four bytes, so that characters taken for bytes show in any language.
_PROBES = ("a b", "caf\u00e9 \u20ac", "\U0001f600 \u00fc", "one two three four")


def check_denominators(subject: Subject) -> Evidence:
    """Compare counts of the scoring program's rows with the texts' tokens, words (between blanks,
    or white space in raw texts) and UTF-8 bytes, by the largest share that one is off."""
    texts = [*subject.texts, *_PROBES]
    if subject.kind == "cleaned":
        texts = [re.sub(" +", " ", text).strip(" ") for text in texts]
    rows = {row.doc_id: row for row in subject.rows(texts)}
    encoded = subject.vocabulary.encode(texts)
    worst, detail = 0.0, "as counted"
    for number, text in enumerate(texts):
        row = rows.get(number)
        if row is None:
            return Evidence(math.nan, len(texts), f"text {number + 1} has no row")
        for unit, count in _counts(text, len(encoded[number]), subject.kind).items():
            said = int(getattr(row, unit))
            off = abs(said - count) / max(1, count)
            if off > worst:
                worst = off
                detail = f"{text[:40]!r} has {count} {unit}, the row says {said}"
                detail += _other_unit(said, row, unit, text)
    return Evidence(worst, 4 * len(texts), detail)


def _counts(text: str, tokens: int, kind: str) -> dict[str, int]:
    """Count the units of a text."""
    words = re.findall(r"[^ ]+" if kind == "cleaned" else r"\S+", text)
    return {
        "tokens": tokens,
        "words": len(words),
        "characters": len(text),
        "bytes": sum(1 + (mark > "\x7f") + (mark > "\u07ff") + (mark > "\uffff") for mark in text),
    }


def _other_unit(said: int, row: DocumentRow, unit: str, text: str) -> str:
    """Say which other unit the count is of, where it is that of one."""
    of = {"characters": len(text), "bytes": len(text.encode()), "words": len(text.split())}
    held = [name for name, count in of.items() if name != unit and count == said]
    return f": these are its {held[0]}" if held else ""
