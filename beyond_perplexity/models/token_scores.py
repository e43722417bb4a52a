"""What a model says of each token of a document, and where in a text its tokens begin.

Tokens tile a text: what stands between two, as a blank, is of the second, what is left at the end
of the last. A token that has only some bytes of a character begins inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.vocabulary import EOS, N_SPECIAL, UNK, BPEVocabulary, Vocabulary


class TokenScores(NamedTuple):
    """What a model says of the tokens of one document, in their order."""

    log_probs: np.ndarray  # float64, (n,), nats, the end last where it is scored
    # int64, (n,): byte of the scored UTF-8 text at which each begins (end of the text: its length)
    starts: np.ndarray
    tokens: list[str]  # as shown
    ended: bool  # whether the last one is the end of the document


_WORDS = re.compile(rb"[^ ]+")
# White space as byte-level tokenizers, SentencePiece and its bytes write it, or as it is.
_BEGINS = re.compile(r"[ĉĊċČčĠ▁\s]|<0x(0[9A-D]|20)>")


def encode_with_starts(
    vocabulary: Vocabulary, texts: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encode texts: of each the ids, (n,), and the byte where each token begins, int64, (n,)."""
    if hasattr(vocabulary, "with_special_tokens"):  # a tokenizer of Hugging Face
        from beyond_perplexity.models.huggingface_vocabulary import encodings_of

        for text, (ids, encoding, is_bytes) in zip(
            texts, encodings_of(vocabulary, texts), strict=True
        ):
            yield ids, _starts(text, encoding, is_bytes)
        return
    encoded = vocabulary.encode(texts)
    if isinstance(vocabulary, BPEVocabulary):
        known = vocabulary.describe()["tokenizer"]["model"]["vocab"]
        sizes = np.zeros(len(known) + N_SPECIAL, np.int64)  # bytes of each id
        sizes[np.fromiter(known.values(), int) + N_SPECIAL] = [*map(len, known)]
        for ids in encoded:  # a blank was put before the text
            yield ids, np.maximum(np.cumsum(sizes[ids]) - sizes[ids] - 1, 0)
        return
    for text, ids in zip(texts, encoded, strict=True):
        ends = [match.end() for match in _WORDS.finditer(text.encode())]
        yield ids, np.array([0, *ends[:-1]][: len(ids)], np.int64)


def _starts(text: str, encoding: Any, is_bytes: bool) -> np.ndarray:
    """Return where the tokens of an encoding begin; `is_bytes`: its letters stand for bytes."""
    ends = np.cumsum([len(token) for token in encoding.tokens], dtype=np.int64)
    extra = int(ends[-1]) - len(text.encode()) if len(ends) else 0
    if is_bytes and extra in (0, 1):  # the tokenizer may put a blank before the text
        return np.maximum(np.append(0, ends[:-1])[: len(ends)] - extra, 0)
    sizes = np.array([len(letter.encode()) for letter in text], np.int64)
    letters = np.array([end for _, end in encoding.offsets], np.int64)
    ends = np.maximum.accumulate(np.append(0, np.cumsum(sizes))[letters])
    # Tokens that end with the same character share the bytes that they have together.
    is_first = np.diff(ends, prepend=-1) != 0
    first, run = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    begins = np.append(0, ends[first])[:-1]
    within = (np.arange(len(ends)) - first[run]) * (ends[first] - begins)[run]
    return begins[run] + within // np.bincount(run)[run]


def shown_tokens(text: str, ids: np.ndarray, starts: np.ndarray) -> list[str]:
    r"""Return each token as it is in the text, bytes that are no character as ``\xe2``, an unknown
    word as ``<unk>``, an end of a document inside a text as ``</s>``."""
    content, begins = text.encode(), starts.tolist()
    ends = [*begins, len(content)][1:]
    special = {UNK: "<unk>", EOS: "</s>"}
    return [
        special.get(index) or content[start:end].decode("utf-8", "backslashreplace")
        for index, start, end in zip(ids.tolist(), begins, ends, strict=True)
    ]


def word_beginnings(vocabulary: Vocabulary) -> np.ndarray | None:
    """Return which ids begin a word or end a document, bool, (V,); None where tokens are words."""
    if hasattr(vocabulary, "with_special_tokens"):  # a tokenizer of Hugging Face
        from beyond_perplexity.models.huggingface_vocabulary import tokens_of

        tokens, prefix = tokens_of(vocabulary)
    elif isinstance(vocabulary, BPEVocabulary):
        tokens, prefix = vocabulary.describe()["tokenizer"]["model"]["vocab"], ""
    else:
        return None
    found = np.zeros(vocabulary.size, bool)
    for token, index in tokens.items():
        # with a prefix, which continues a word, all others begin one
        begins = not token.startswith(prefix) if prefix else bool(_BEGINS.match(token))
        found[index + N_SPECIAL] = begins
    found[EOS] = True
    return found
