"""Special tokens that a text says, such as ``<|endoftext|>``: characters to us, tokens to others.

A text is any string, and its probability that of its characters. The tokenizers of transformers,
and so lm-evaluation-harness and others, read what looks like a special token as that token, which
is another text: one with an end in its middle. Bits per byte of the two differ.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.perplexities.documents import ScoredText, score_rows
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

_AT_ONCE = 64  # texts that are scored again
_NAMED = 3  # tokens that are named at most


def special_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the strings that other programs may read as special tokens, with our ids of these."""
    return getattr(vocabulary, "special_tokens", {"<s>": BOS, "</s>": EOS})


def finder(vocabulary: Vocabulary) -> re.Pattern[str]:
    """Return the pattern of the special tokens of a tokenizer, the longest first."""
    known = sorted(special_ids(vocabulary), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, known)) or "(?!)")


def said_words(counts: Counter[str]) -> str:
    """Return which tokens were said, and how often; empty where there is none."""
    named = ", ".join(token for token, _ in counts.most_common(_NAMED))
    named += ", ..." if len(counts) > _NAMED else ""
    return f"{named} ({counts.total():,} times)" if counts else ""


def read_special(model: Any, vocabulary: Any) -> tuple[LanguageModel, Vocabulary] | None:
    """Return a model and its tokenizer as other programs use them; None: it is no other's.

    Special tokens of a text are those tokens, and the softmax is over every row of the output.
    """
    if not hasattr(vocabulary, "with_special_tokens"):
        return None
    found: Any = vocabulary.with_special_tokens()
    return model.with_impossible(found.impossible), found


class SpecialReading:
    """Watches texts on their way, and scores those that say special tokens again.

    `options` are those of `documents.score_rows`; with `as_tokens` the model and vocabulary are
    those of `read_special`, and nothing is scored again.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        options: Mapping[str, Any],
        as_tokens: bool,
    ) -> None:
        self._own, self._options, self._as_tokens = (model, vocabulary), options, as_tokens
        self._other = read_special(model, vocabulary)
        self._said: Counter[str] = Counter()
        self._documents = 0
        self._nats = {"characters": 0.0, "tokens": 0.0}
        self._bytes = 0

    def watch(self, texts: Iterable[ScoredText]) -> Iterator[ScoredText]:
        """Let texts pass."""
        find, held = finder(self._own[1]).findall, list[ScoredText]()
        for item in texts:
            if self._other and (found := find(item.text)):
                self._said.update(found)
                self._documents += 1
                held.append(item)
            if len(held) == _AT_ONCE:
                self._score(held)
                held.clear()
            yield item
        self._score(held)

    def _score(self, held: list[ScoredText]) -> None:
        if self._as_tokens or not held or self._other is None:
            return
        for name, (model, vocabulary) in (("characters", self._own), ("tokens", self._other)):
            for rows in score_rows(model, vocabulary, held, **self._options):
                self._nats[name] -= sum(row.log_likelihood for row in rows)
                self._bytes += sum(row.bytes + row.ended for row in rows) * (name == "tokens")

    def describe(self) -> dict[str, Any] | None:
        """Return what was found, JSON-safe; None where no text says one.

        ``bits_per_byte`` is that of the documents that say one, either way; null where it is
        infinite, or was not asked for.
        """
        if not self._documents:
            return None
        bits = {
            name: nats / self._bytes / math.log(2)
            for name, nats in self._nats.items()
            if self._bytes and math.isfinite(nats)
        }
        return {
            "read_as": "tokens" if self._as_tokens else "characters",
            "said": dict(self._said),
            "documents": self._documents,
            "bits_per_byte": {name: bits.get(name) for name in self._nats},
        }

    @property
    def remark(self) -> str:
        """What there is to say; empty: nothing."""
        found = self.describe()
        if found is None or self._as_tokens:
            return ""
        characters, tokens = (
            "infinite" if bits is None else f"{bits:.3f}"
            for bits in found["bits_per_byte"].values()
        )
        return (
            f"{self._documents:,} documents say {said_words(self._said)}, which is read as "
            f"characters: {characters} bits per byte in them, {tokens} as a token, as transformers "
            "and lm-evaluation-harness read it; give special tokens for that"
        )


def require_special(
    model: LanguageModel, vocabulary: Vocabulary
) -> tuple[LanguageModel, Vocabulary]:
    """Return `read_special` of a model, whose tokenizer must know special tokens."""
    found = read_special(model, vocabulary)
    if found is None:
        raise InputError(
            "special tokens: is for models of Hugging Face; the tokenizer of this one knows no "
            "special tokens in a text: leave it out"
        )
    return found
