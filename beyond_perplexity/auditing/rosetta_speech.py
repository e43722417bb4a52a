"""A model that is asked as other programs ask it: windows of tokens, each prediction scored once.

Other programs take the softmax over every row of the output layer, also over those that no text
has, and know a model's own ids alone. `Speech` does so too.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from beyond_perplexity.auditing.rosetta_programs import PROGRAMS, PrintedNumber
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import ScoreWindow, score_windows
from beyond_perplexity.perplexities.brought import finder, said_words
from beyond_perplexity.perplexities.summary import TextKind, measure, perplexity_of
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, UNK, Vocabulary

POSITIONS = 4096  # of a batch
LIMITLESS = 2048  # tokens of context where a model has no limit, as lm-evaluation-harness has it


@dataclass(frozen=True)
class Speech:
    """A model, its tokenizer and a text, as another program sees them.

    `texts` are documents, held as the other programs hold them; `kind` tells whether they are words
    joined by one blank; `context_length` limits what a prediction sees, None: as the model does.
    """

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
        """Return the ids of a text, int64.

        With `special` the model's tokenizer may add a beginning and an end of text, as it does
        unless told otherwise; with `literal` a special token that the text says is characters.
        """
        if self.tokenizer is None:
            return np.asarray(self.vocabulary.encode([text])[0], np.int64)
        self.tokenizer.encode_special_tokens = literal
        ids = self.tokenizer.encode(text, add_special_tokens=special).ids
        return np.asarray(ids, np.int64) + N_SPECIAL

    def join(self, between: str, special: bool = False, literal: bool = False) -> np.ndarray:
        """Return the ids of the whole text, the documents joined by a string.

        Where texts are words joined by blanks, a blank joins them: the model knows nothing else.
        """
        if self.kind == "cleaned":
            return np.concatenate([*self.encoded, np.empty(0, np.int64)])
        return self.encode(between.join(self.texts), special, literal)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of a model that was brought, as it was brought; None: it is our own."""
        if not hasattr(getattr(self.model, "output", None), "theirs"):
            return None
        tokenizer = Tokenizer.from_str(json.dumps(self.vocabulary.describe()["tokenizer"]))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def said(self) -> str:
        """The special tokens that the texts say, and how often; empty where they say none."""
        if self.tokenizer is None:
            return ""
        find = finder(self.vocabulary).findall
        return said_words(Counter(token for text in self.texts for token in find(text)))

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

    @torch.no_grad()
    def score(self, windows: Iterator[ScoreWindow]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of the document of each window, and ln p of its counted predictions."""
        rows = max(1, POSITIONS // self.context)
        stream = iter(windows)
        while batch := list(islice(stream, rows)):
            found = score_windows(self.plain, batch)
            for window, scores in zip(batch, found, strict=True):
                yield window.document, scores


def after_beginning(ids: np.ndarray) -> np.ndarray:
    """Return ids after a beginning of text."""
    return np.concatenate([[BOS], ids]).astype(np.int64)


def power_of(log_prob: float, n: int) -> float:
    """Return exp(−log_prob / n); NaN where there is no unit."""
    return perplexity_of(log_prob, n) if n else math.nan


def translate_own(speech: Speech) -> list[PrintedNumber]:
    """Return our own perplexities and bits per byte: ends of documents are in log P and in N."""
    found: dict[str, Any] = measure(
        speech.model,
        speech.vocabulary,
        speech.texts,
        text=speech.kind,
        context_length=speech.context_length,
    )
    context = found["context_length"]
    windows = f"windows of {context} tokens, half of them new" if context else "no limit of context"
    how = f"<s> is seen, </s> is scored and counts in N; {windows}"
    numbers = {
        "perplexity per token": found["perplexity"]["token"],
        "perplexity per word": found["perplexity"]["word"],
        "bits per byte": found["bits"]["byte"],
    }
    numbers = {name: math.inf if value is None else value for name, value in numbers.items()}
    return [
        PrintedNumber(
            "beyond-perplexity",
            name,
            math.inf if value is None else value,
            found["n"]["token"],
            how,
        )
        for name, value in numbers.items()
    ]


def translate(speech: Speech, programs: Sequence[str] | None = None) -> list[PrintedNumber]:
    """Return the numbers that the programs, or some of them, would print.

    A definition also names special tokens that the text says, where the program reads them as
    tokens: ours does not.
    """
    numbers: list[PrintedNumber] = []
    for name, row in PROGRAMS.items():
        if programs is not None and name not in programs:
            continue
        function: Callable[[Speech], list[PrintedNumber]] = resolve_name(row.reference)
        cause = ""
        if speech.said and row.reads_special:
            cause = f"; the text says {speech.said}: a token to this program, characters to ours"
        numbers += [one._replace(definition=one.definition + cause) for one in function(speech)]
    return numbers
