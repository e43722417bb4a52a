"""A model that is asked as other programs ask it: windows of tokens, each prediction scored once.

They take the softmax over every row of the output layer, also over those that no text has, and know
a model's own ids alone. `Speech` does so too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from beyond_perplexity.auditing.tokenization import said_special
from beyond_perplexity.models import likelihoods
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.perplexities.summary import TextKind, measure, perplexity_of
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, UNK, ClosedVocabulary, Vocabulary

Printed = tuple[str, float, int, str]  # as `checks.PrintedNumber`, without the program
POSITIONS = 4096  # of a batch
LIMITLESS = 2048  # tokens of context where a model has no limit, as lm-evaluation-harness has it


@dataclass(frozen=True)
class Speech:
    """A model, its tokenizer and a text, as another program sees them: `texts` are documents,
    `kind` whether words joined by one blank, and None as `context_length` is the model's."""

    model: LanguageModel
    vocabulary: Vocabulary
    texts: Sequence[str] = field(repr=False)
    kind: TextKind = "cleaned"
    context_length: int | None = None

    @property
    def context(self) -> int:
        """Tokens of a window."""
        return self.context_length or self.model.context_length or LIMITLESS

    @cached_property
    def encoded(self) -> list[np.ndarray]:
        """The ids of each document, int64, without a beginning or an end of text."""
        return [self.encode(text) for text in self.texts]

    def encode(self, text: str, special: bool = False, literal: bool = False) -> np.ndarray:
        """Return the ids of a text, int64; with `special` the tokenizer may add beginning and end,
        with `literal` a special token that the text says is characters."""
        if self.tokenizer is None:
            return np.asarray(self.vocabulary.encode([text])[0], np.int64)
        self.tokenizer.encode_special_tokens = literal
        ids = self.tokenizer.encode(text, add_special_tokens=special).ids
        return np.asarray(ids, np.int64) + N_SPECIAL

    def join(self, between: str, special: bool = False, literal: bool = False) -> np.ndarray:
        """Return the ids of all documents, joined by a string; where they are words, by a blank."""
        if self.kind == "cleaned":
            return np.concatenate([*self.encoded, np.empty(0, np.int64)])
        return self.encode(between.join(self.texts), special, literal)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of an external model as it is; None: it is our own."""
        if not hasattr(getattr(self.model, "output", None), "theirs"):
            return None
        tokenizer = Tokenizer.from_str(json.dumps(self.vocabulary.describe()["tokenizer"]))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def said(self) -> str:
        """The special tokens that the texts say, and how often; empty where they say none."""
        return "" if self.tokenizer is None else said_special(self.vocabulary, self.texts)

    @property
    def adds_beginning(self) -> bool:
        """Whether the tokenizer puts a beginning of text before a text unless told otherwise."""
        plain, added = self.encode("a"), self.encode("a", special=True)
        return len(added) > len(plain) and added[0] != plain[0]

    @cached_property
    def plain(self) -> LanguageModel:
        """The model with a softmax over every row of its output layer."""
        if self.tokenizer is None:
            return self.model
        # Our ids of special tokens are second names of rows: none of them is counted twice.
        model: Any = self.model
        plain: LanguageModel = model.with_impossible([BOS, EOS, UNK])
        return plain

    def score(self, windows: Iterable[likelihoods.ScoreWindow]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of the document of each window, and ln p of its counted predictions."""
        for window, scores in _scored(self.plain, windows, max(1, POSITIONS // self.context)):
            yield window.document, scores


@torch.no_grad()
def _scored(
    model: LanguageModel, windows: Iterable[likelihoods.ScoreWindow], rows: int
) -> Iterator[tuple[likelihoods.ScoreWindow, np.ndarray]]:
    """Yield windows with ln p of their counted predictions; so many are scored at once."""
    stream = iter(windows)
    while batch := list(islice(stream, rows)):
        yield from zip(batch, likelihoods.score_windows(model, batch), strict=True)


def after_beginning(ids: np.ndarray) -> np.ndarray:
    """Return ids after a beginning of text."""
    return np.concatenate([[BOS], ids]).astype(np.int64)


def power_of(log_prob: float, n: int) -> float:
    """Return exp(−log_prob / n); NaN where there is no unit."""
    return perplexity_of(log_prob, n) if n else math.nan


def translate_own(speech: Speech) -> list[Printed]:
    """Return our own perplexities and bits per byte: ends of documents are in log P and in N."""
    given = speech.model, speech.vocabulary, speech.texts
    asked: dict[str, Any] = {"text": speech.kind, "context_length": speech.context_length}
    found: dict[str, Any] = measure(*given, **asked)
    context = found["context_length"]
    windows = f"windows of {context} tokens, half of them new" if context else "no limit of context"
    how = f"<s> is seen, </s> is scored and counts in N; {windows}"
    numbers = {
        "perplexity per token": found["perplexity"]["token"],
        "perplexity per word": found["perplexity"]["word"],
        "bits per byte": found["bits"]["byte"],
    }
    count = found["n"]["token"]
    held = numbers.items()
    return [(name, math.inf if value is None else value, count, how) for name, value in held]


_ROLLING = (
    "windows of {context} tokens that share one token; the beginning of text is seen; the end of a "
    "document is not scored"
)
_TWICE = "; the tokenizer adds another beginning of text, which is scored like a token"


def roll_windows(document: int, ids: np.ndarray, context: int) -> Iterator[likelihoods.ScoreWindow]:
    """Cut a document of n tokens into windows whose predictions are its n tokens."""
    if len(ids):
        first = after_beginning(ids[:context])
        yield likelihoods.ScoreWindow(document, first, len(first) - 1)
    for begin in range(context, len(ids), context):
        end = min(begin + context, len(ids))
        yield likelihoods.ScoreWindow(document, ids[end - context - 1 : end], end - begin)


def translate_rolling(speech: Speech) -> list[Printed]:
    """Return word and byte perplexity and bits per byte of lm-evaluation-harness.

    They are those of tasks with ``loglikelihood_rolling``, such as wikitext. A document of n tokens
    is cut into windows of M predictions, M the context, which share one token: the first begins
    after the beginning of text, each other after the last token of the one before it; the last,
    shorter one is filled up with tokens before it. The end is not scored. A tokenizer that adds a
    beginning of text by itself makes it two, of which the second is scored. Log P of all documents
    is divided by the words, split at white space, or bytes of the task's target, so that white
    space at an end is one more word.

    EleutherAI, lm-evaluation-harness 0.4.13, ``utils.get_rolling_token_windows``,
    ``models.huggingface.HFLM.loglikelihood_rolling``, ``api.task``.
    """
    encoded = [speech.encode(text, special=True) for text in speech.texts]
    parts = (roll_windows(number, ids, speech.context) for number, ids in enumerate(encoded))
    windows = chain.from_iterable(parts)
    log_prob = math.fsum(float(scores.sum()) for _, scores in speech.score(windows))
    words = sum(len(re.split(r"\s+", text)) for text in speech.texts)
    size = sum(len(text.encode()) for text in speech.texts)
    tokens, how = sum(map(len, encoded)), _ROLLING.format(context=speech.context)
    how += _TWICE if speech.adds_beginning else ""
    bits = -log_prob / size / math.log(2) if size else math.nan
    numbers = (
        ("word_perplexity", power_of(log_prob, words), "per word"),
        ("byte_perplexity", power_of(log_prob, size), "per byte, which is 2 to the bits per byte"),
        ("bits_per_byte", bits, "base 2, per byte of UTF-8"),
    )
    return [(name, value, tokens, f"{unit}; {how}") for name, value, unit in numbers]


_BETWEEN = "\n\n"
_STRIDE = 512


def translate_metric(speech: Speech) -> list[Printed]:
    """Return the mean of the perplexities of the texts, as the metric "perplexity" of evaluate.

    Each text is scored after the beginning of text, without its end, and cut off at the model's
    context (``max_length``; without it, the program fails at a longer text). The worst texts decide
    the arithmetic mean, which is never less than the perplexity of all tokens.

    Hugging Face, evaluate 0.4.6, ``metrics/perplexity/perplexity.py`` (add_start_token=True).
    """
    most = speech.context - 1  # max_length leaves room for the beginning of text

    def windows() -> Iterator[likelihoods.ScoreWindow]:
        for number, ids in enumerate(speech.encoded):
            if len(ids) and most:
                kept = ids[:most]
                yield likelihoods.ScoreWindow(number, after_beginning(kept), len(kept))

    found = [(power_of(float(s.sum()), len(s)), len(s)) for _, s in speech.score(windows())]
    refused = not found or len(found) < len(speech.texts)
    mean = math.nan if refused else math.fsum(value for value, _ in found) / len(found)
    cut = sum(len(ids) > most for ids in speech.encoded)
    how = (
        "arithmetic mean of the texts' perplexities per token; the beginning of text is seen, the "
        f"end is not scored; {cut} of {len(speech.texts)} texts are cut off at {most} tokens"
    )
    if refused:
        how = f"the program refuses a text without a token, and a context of one; {how}"
    scored = sum(count for _, count in found)
    return [("mean_perplexity", mean, scored, how)]


def stride_windows(ids: np.ndarray, context: int, stride: int) -> Iterator[likelihoods.ScoreWindow]:
    """Cut one long text into windows; ``document`` is the number of tokens that one adds."""
    before = 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        added = end - before
        yield likelihoods.ScoreWindow(added, ids[begin:end], min(added, end - begin - 1))
        before = end
        if end == len(ids):
            break


def translate_stride(speech: Speech) -> list[Printed]:
    """Return the perplexities of the page "Perplexity of fixed-length models", present and earlier.

    All documents are one string, joined by two line ends; nothing ends it, and only a tokenizer
    that adds a beginning of text by itself begins it. Windows of M tokens, the model's context,
    begin every s tokens, and count the tokens that none before had. The loss is a mean without the
    very first token, which nothing precedes, so that weighting every mean with one token less than
    its window adds is right for the first window alone. An earlier version averaged the windows'
    means.

    Hugging Face, transformers, ``docs/source/en/perplexity.md`` (s = 512 of M = 1,024 for GPT-2).
    """
    context = speech.context
    stride = min(_STRIDE, max(1, context // 2))
    ids = speech.join(_BETWEEN, special=True)
    begins = "the tokenizer's" if speech.adds_beginning else "no"
    room = f"{context} tokens of context, a window every {stride}"
    how = f"{room}; {begins} beginning, no end of text"
    if len(ids) < 2 or context < 2:  # the first token of a window is never scored
        return [("perplexity", math.nan, 0, f"too short a text or context; {how}")]
    losses, weights, scored = [], [], 0
    for added, scores in speech.score(stride_windows(ids, context, stride)):
        losses.append(-float(scores.mean()))
        weights.append(added - 1)
        scored += len(scores)
    total = math.fsum(loss * weight for loss, weight in zip(losses, weights, strict=True))
    joined = f"per token of the documents joined by two line ends, {how}"
    present = f"{joined}; each window's mean counts as one token less than it adds"
    earlier = f"each window's mean counts the same, however few tokens it adds; {how}"
    now, then = power_of(-total, sum(weights)), power_of(-math.fsum(losses), len(losses))
    return [
        ("perplexity", now, scored, present),
        ("perplexity, earlier recipe", then, scored, earlier),
    ]


_WINDOWS_AT_ONCE = 16
_CHUNK = 512


def translate_query(speech: Speech) -> list[Printed]:
    """Return both perplexities of KenLM's program ``query``.

    Each document is a sentence on a line of its own, split at blanks, and its end one more token.
    Logarithms have base 10, the perplexity has none. "OOVs" are scored as ``<unk>``, once among all
    tokens and once left out with their share of N. Of pieces of words nothing is unknown.

    Heafield (2011). KenLM: faster and smaller language model queries. ``lm/ngram_query.hh``.
    """
    encoded = speech.vocabulary.encode(speech.texts)
    context, stride = likelihoods.check_window(speech.model, speech.context_length, None)
    windows = chain.from_iterable(
        likelihoods.cut_windows(number, ids, context, stride) for number, ids in enumerate(encoded)
    )
    closed = isinstance(speech.vocabulary, ClosedVocabulary)
    total = unknown = 0.0
    scored = 0
    for window, scores in _scored(speech.model, windows, _WINDOWS_AT_ONCE):
        total += float(scores.sum())
        scored += len(scores)
        if closed:
            unknown += float(scores[window.tokens[-window.counted :] == UNK].sum())
    oov = sum(int((ids == UNK).sum()) for ids in encoded) if closed else 0
    tokens = sum(len(text.split()) for text in speech.texts) + len(speech.texts)
    how = "per word, the end of each line being a word; each document is a line"
    without = f"{how}; {oov:,} words that the model lacks are left out of log P and of N"
    known = power_of(total - unknown, tokens - oov)
    return [
        ("Perplexity including OOVs", power_of(total, tokens), scored, how),
        ("Perplexity excluding OOVs", known, scored - oov, without),
    ]


def chunk_windows(ids: np.ndarray, context: int, begins: bool) -> Iterator[likelihoods.ScoreWindow]:
    """Cut a text of ids, the beginning of text among them where there is one, into chunks."""
    for number in range(len(ids) // context):
        chunk = ids[number * context : (number + 1) * context].copy()
        if begins:
            chunk[0] = BOS
        yield likelihoods.ScoreWindow(number, chunk, context - context // 2 - 1)


def translate_chunks(speech: Speech) -> list[Printed]:
    """Return the "Final estimate" of llama.cpp's program ``llama-perplexity``.

    The file is one string of tokens, cut into chunks of n_ctx tokens that share nothing; where the
    model adds a beginning of text, it replaces the first token of each. Only the second half of a
    chunk is scored, so that each prediction sees at least n_ctx / 2 tokens; the other half, and
    what is left at the end, never is. Special tokens that the text says are characters to it.

    ggml-org, llama.cpp, ``tools/perplexity/perplexity.cpp``, ``perplexity`` (n_ctx = 512).
    """
    context = min(_CHUNK, speech.context)
    begins = speech.adds_beginning
    ids = speech.join("\n", literal=True)
    ids = after_beginning(ids) if begins else ids
    how = (
        f"per token of the second halves of chunks of {context} tokens; the others are context "
        "alone, and the last, shorter chunk is left out; documents are lines of one text"
    )
    if len(ids) < 2 * context or context < 3:
        refused = f"the program refuses a text of fewer than {2 * context} tokens; {how}"
        return [("PPL", math.nan, 0, refused)]
    scores = [found for _, found in speech.score(chunk_windows(ids, context, begins))]
    scored = sum(map(len, scores))
    log_prob = math.fsum(float(found.sum()) for found in scores)
    return [("PPL", power_of(log_prob, scored), scored, how)]
