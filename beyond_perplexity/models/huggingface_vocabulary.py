"""The tokenizer of a Hugging Face model as a vocabulary of this package.

The model's N ids (rows of its output layer) are our ids + 3. Its beginning and end of a document
and its unknown token are our ids 0, 1 and 2, and only there have they a probability: V = N + 3, and
its special tokens + 3 are impossible, like rows that stand for no token. A model whose ``<unk>`` is
missing, or is its end of a document, has an open vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, UNK, Vocabulary, split_words

LINE_SPACE = dict.fromkeys(range(ord("\t"), ord("\r") + 1), " ")


class HuggingFaceVocabulary(Vocabulary):
    """A fast tokenizer of a model with N `rows` of its output layer, kept as its JSON.

    Special tokens in a text are encoded like any string. `special` has the model's ids ``bos``,
    ``eos``, ``unk`` (or None) and ``all``. `cleaning` None: decoded texts only get single blanks,
    for models that write plain text and not the corpus' tokens.
    """

    kind = "huggingface"

    def __init__(
        self,
        tokenizer: Mapping[str, Any],
        rows: int,
        special: Mapping[str, Any],
        cleaning: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = Tokenizer.from_str(json.dumps(tokenizer))
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._json = dict(tokenizer)
        self._rows = rows
        self._special = dict(special)
        self._cleaning = None if cleaning is None else dict(cleaning)
        self._steps = None if cleaning is None else Preprocessing.from_config(cleaning)
        known = np.array(sorted(self._tokenizer.get_vocab().values()))
        if not len(known):
            raise InputError("the tokenizer has no tokens")
        largest = max(int(known[-1]), special["bos"], special["eos"], *special["all"])
        if largest >= rows:
            raise InputError(self._say_beyond(largest))
        unknown = [] if special["unk"] is None else [special["unk"]]
        self._impossible = np.ones(rows, bool)
        self._impossible[known] = False
        self._impossible[[*special["all"], special["bos"], special["eos"], *unknown]] = True
        ours = np.arange(rows, dtype=np.int32) + N_SPECIAL
        # No text has a special token: where a model of words has one as a word, it is unknown.
        self._ours = np.where(self._impossible, np.int32(UNK), ours)

    def _say_beyond(self, largest: int) -> str:
        """Say what to do where the tokenizer has an id that the model has not."""
        added = {n: one.content for n, one in self._tokenizer.get_added_tokens_decoder().items()}
        beyond = sorted(n for n in self._tokenizer.get_vocab().values() if n >= self._rows)
        said = f"the tokenizer has the id {largest}, but the model has only {self._rows} ids; "
        if not beyond or not set(beyond) <= set(added):
            return f"{said}they do not belong together"
        names = ", ".join(repr(added[n]) for n in beyond[:3]) + ", ..." * (len(beyond) > 3)
        return (
            f"{said}{names} was added to the tokenizer alone: save the tokenizer without it, or "
            "the model after model.resize_token_embeddings(len(tokenizer))"
        )

    @classmethod
    def from_description(cls, held: Mapping[str, Any]) -> HuggingFaceVocabulary:
        """Make the vocabulary that `describe` described."""
        return cls(held["tokenizer"], held["rows"], held["special"], held["cleaning"])

    @property
    def size(self) -> int:
        """V, the number of ids, the three special ones included."""
        return self._rows + N_SPECIAL

    @property
    def special_ids(self) -> tuple[int, int, int | None]:
        """The model's ids of ``<s>``, ``</s>`` and ``<unk>`` (None: it has none)."""
        return self._special["bos"], self._special["eos"], self._special["unk"]

    @property
    def special_tokens(self) -> dict[str, int]:
        """Strings that its tokenizer reads as special tokens by default, with their ids here."""
        held = self._tokenizer.get_added_tokens_decoder()
        return {one.content: n + N_SPECIAL for n, one in held.items() if one.special}

    def with_special_tokens(self) -> HuggingFaceVocabulary:
        """Return the vocabulary that reads special tokens in a text, as other programs do, whose
        softmax is over every row of the output layer: each id of the model is possible, once."""
        found = HuggingFaceVocabulary(self._json, self._rows, self._special, self._cleaning)
        found._tokenizer.encode_special_tokens = False
        found._ours = np.arange(self._rows, dtype=np.int32) + np.int32(N_SPECIAL)
        found._impossible = np.zeros(self._rows, bool)
        for name, ours in (("eos", EOS), ("unk", UNK)):
            if self._special[name] is not None:
                found._ours[self._special[name]] = ours
                found._impossible[self._special[name]] = True
        return found

    @property
    def impossible(self) -> list[int]:
        """Our ids that no text has and that get no probability, rising."""
        own = [BOS] if self._special["unk"] is not None else [BOS, UNK]
        return own + (np.flatnonzero(self._impossible) + N_SPECIAL).tolist()

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Turn texts into ids, int32, one array a text, without ``<s>`` and ``</s>``."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._ours[np.array(encoding.ids, np.int64)] for encoding in encodings]

    def encode_pieces(self, texts: Sequence[Sequence[str]]) -> list[list[np.ndarray]]:
        """Encode texts cut between words; a token is of the piece that has its last character."""
        joined = [" ".join(text) for text in texts]
        encodings = self._tokenizer.encode_batch(joined, add_special_tokens=False)
        found = []
        for text, encoding in zip(texts, encodings, strict=True):
            ids = self._ours[np.array(encoding.ids, np.int64)]
            ends = np.array([end for _, end in encoding.offsets], np.int64)
            # a blank between two pieces belongs to the second
            borders = np.cumsum([len(piece) + 1 for piece in text])[:-1] - 1
            found.append(np.split(ids, np.searchsorted(ends, borders, side="right")))
        return found

    def decode(self, batch: Sequence[np.ndarray]) -> list[str]:
        """Turn ids into texts of words joined by one blank; ``<s>``, ``</s>`` leave no trace."""
        theirs = [self._to_theirs(np.asarray(ids)) for ids in batch]
        texts = self._tokenizer.decode_batch(theirs, skip_special_tokens=False)
        if self._steps is not None:
            return self._steps.apply(texts)
        return [" ".join(split_words(text.translate(LINE_SPACE))) for text in texts]

    def _to_theirs(self, ids: np.ndarray) -> list[int]:
        unknown = self._special["unk"]
        kept = ids[ids > (UNK if unknown is None else EOS)].astype(np.int64)
        shifted: list[int] = np.where(kept == UNK, unknown or 0, kept - N_SPECIAL).tolist()
        return shifted

    def describe(self) -> dict[str, Any]:
        """Return everything that `load_vocabulary` needs, JSON-serializable."""
        held = {"rows": self._rows, "special": self._special, "cleaning": self._cleaning}
        return {"kind": self.kind, **held, "tokenizer": self._json}


def encodings_of(vocabulary: Any, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, Any, bool]]:
    """Encode texts: of each the ids, the tokenizer's encoding, and whether letters are bytes."""
    is_bytes = "ByteLevel" in json.dumps(vocabulary._json.get("decoder"))
    for encoding in vocabulary._tokenizer.encode_batch(list(texts), add_special_tokens=False):
        yield vocabulary._ours[np.array(encoding.ids, np.int64)], encoding, is_bytes


def tokens_of(vocabulary: Any) -> tuple[dict[str, int], str]:
    """Return the model's ids of its tokens, and what continues a word where that is marked."""
    model = vocabulary._json["model"]
    prefix = model.get("continuing_subword_prefix") if model.get("type") == "WordPiece" else ""
    return vocabulary._tokenizer.get_vocab(), prefix or ""
