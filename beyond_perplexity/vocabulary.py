"""Closed (word) and open (byte-level BPE) vocabularies.

Texts are documents of the corpus: tokens joined by one blank. Ids 0, 1 and 2 are ``<s>``, ``</s>``
and ``<unk>``; no text yields 0 or 1: a literal ``</s>`` in a text is a word like any other.
"""

from __future__ import annotations

import dataclasses
import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Count, Limit, Section, parse_options
from beyond_perplexity.storage.inputs import brief_repr, read_json
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import value_hash

# Rust threads do not survive a fork, so they are used only where a script asks for them. Set before
# tokenizers is imported, which is late: words alone do not need it.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

BOS, EOS, UNK = 0, 1, 2
SPECIAL_TOKENS = ("<s>", "</s>", "<unk>")
N_SPECIAL = len(SPECIAL_TOKENS)


class Vocabulary(ABC):
    """A map between texts and sequences of token ids.

    Attributes
    ----------
    kind : str
        A key of `VOCABULARY_KINDS`.
    """

    BOS, EOS, UNK = BOS, EOS, UNK
    kind: str

    @property
    @abstractmethod
    def size(self) -> int:
        """V, the number of ids, the three special ones included."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Turn texts into ids, int32, one array a text, without ``<s>`` and ``</s>``."""

    def encode_pieces(self, texts: Sequence[Sequence[str]]) -> list[list[np.ndarray]]:
        """Turn texts that are cut between words into ids, int32, one array a piece, none empty."""
        ids = iter(self.encode([piece for text in texts for piece in text]))
        return [[next(ids) for _ in text] for text in texts]

    @abstractmethod
    def decode(self, batch: Sequence[np.ndarray]) -> list[str]:
        """Turn ids into texts of words joined by one blank; ``<s>``, ``</s>`` leave no trace."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return everything that `load_vocabulary` needs, JSON-serializable."""

    @property
    def hash(self) -> str:
        """SHA-256 of the description: equal vocabularies have equal hashes."""
        return value_hash(self.describe())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary to a JSON file, atomically."""
        write_json(path, self.describe())


class ClosedVocabulary(Vocabulary):
    """A list of words; every other word is ``<unk>``.

    Parameters
    ----------
    words : sequence of str
        The words of ids 3, 4, ..., without repetition.
    unknown_types : int
        Number of types of the training text that are not in the list: the size of the class that
        ``<unk>`` stands for (the unknown-penalized perplexity divides its mass among them).
    """

    kind = "closed"

    def __init__(self, words: Sequence[str], unknown_types: int) -> None:
        self._words = list(words)
        self.unknown_types = unknown_types
        self._tokens = np.array([*SPECIAL_TOKENS, *self._words], dtype=object)
        self._ids = {word: index for index, word in enumerate(self._words, start=N_SPECIAL)}
        if len(self._ids) != len(self._words):
            raise InputError("the vocabulary names a word twice; build it again")

    @classmethod
    def build(
        cls,
        texts: Iterable[Sequence[str] | pa.Array],
        minimum_count: int = 1,
        maximum_size: int | None = None,
    ) -> ClosedVocabulary:
        """Keep the most frequent words of a stream of texts."""
        counts = count_words(texts)
        for token in SPECIAL_TOKENS:
            counts.pop(token, None)
        order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        room = len(order) if maximum_size is None else maximum_size
        kept = [word for word, count in order[:room] if count >= minimum_count]
        return cls(kept, len(order) - len(kept))

    @property
    def size(self) -> int:
        """V, the number of ids, the three special ones included."""
        return len(self._tokens)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Turn texts into ids, int32, one array a text, without ``<s>`` and ``</s>``."""
        lookup = self._ids.get
        words = map(split_words, texts)
        return [np.array([lookup(word, UNK) for word in text], np.int32) for text in words]

    def decode(self, batch: Sequence[np.ndarray]) -> list[str]:
        """Turn ids into texts of words joined by one blank; ``<s>``, ``</s>`` leave no trace."""
        return [" ".join(self._tokens[ids[ids > EOS]]) for ids in map(np.asarray, batch)]

    def describe(self) -> dict[str, Any]:
        """Return everything that `load_vocabulary` needs, JSON-serializable."""
        return {"kind": self.kind, "unknown_types": self.unknown_types, "words": self._words}

    @classmethod
    def from_description(cls, held: Mapping[str, Any]) -> ClosedVocabulary:
        """Make the vocabulary that `describe` described."""
        words, unknown = held["words"], held["unknown_types"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError("its words are no list of strings")
        if type(unknown) is not int or not 0 <= unknown < 1 << 63:
            raise InputError("unknown_types is no number of types")
        return cls(words, unknown)


class BPEVocabulary(Vocabulary):
    """Byte-level byte pair encoding: every text has an encoding, there is no ``<unk>``.

    Merges stay inside a word and its leading blank; a text is encoded as if a blank came before it,
    so that its first word is like any other. Ids are those of the Hugging Face tokenizer + 3: the
    tokenizer itself knows no special token, so that none can be written in a text.
    """

    kind = "bpe"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def build(cls, texts: Iterable[Sequence[str] | pa.Array], size: int) -> BPEVocabulary:
        """Learn merges from a stream of texts."""
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        alphabet = pre_tokenizers.ByteLevel.alphabet()
        if size < N_SPECIAL + len(alphabet):
            least = N_SPECIAL + len(alphabet)
            raise InputError(f"size: is {size}; a BPE vocabulary has at least {least} tokens")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(" ", "merged_with_next"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - N_SPECIAL, initial_alphabet=sorted(alphabet), show_progress=False
        )
        lists = (batch.to_pylist() if isinstance(batch, pa.Array) else batch for batch in texts)
        stream = ([" " + text for text in batch] for batch in lists)
        tokenizer.train_from_iterator(stream, trainer)
        return cls(tokenizer)

    @property
    def size(self) -> int:
        """V, the number of ids, the three special ones included."""
        return int(self._tokenizer.get_vocab_size()) + N_SPECIAL

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Turn texts into ids, int32, one array a text, without ``<s>`` and ``</s>``."""
        spaced = [" " + text if text else "" for text in texts]
        encodings = self._tokenizer.encode_batch_fast(spaced, add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) + np.int32(N_SPECIAL) for encoding in encodings]

    def decode(self, batch: Sequence[np.ndarray]) -> list[str]:
        """Turn ids into texts of words joined by one blank; special tokens leave no trace.

        Bytes that are no UTF-8 (a model may generate them) become U+FFFD, several blanks one.
        """
        shifted = [(ids[ids >= N_SPECIAL] - N_SPECIAL).tolist() for ids in map(np.asarray, batch)]
        texts = self._tokenizer.decode_batch(shifted, skip_special_tokens=False)
        return [" ".join(split_words(text)) for text in texts]

    def describe(self) -> dict[str, Any]:
        """Return everything that `load_vocabulary` needs, JSON-serializable."""
        return {"kind": self.kind, "tokenizer": json.loads(self._tokenizer.to_str())}

    @classmethod
    def from_description(cls, held: Mapping[str, Any]) -> BPEVocabulary:
        """Make the vocabulary that `describe` described."""
        from tokenizers import Tokenizer

        return cls(Tokenizer.from_str(json.dumps(held["tokenizer"])))


def split_words(text: str) -> list[str]:
    """Split a text at blanks; repeated blanks and blanks at the ends make no words."""
    words = text.split(" ")
    return [word for word in words if word] if "" in words else words


def count_words(texts: Iterable[Sequence[str] | pa.Array]) -> Counter[str]:
    """Count the words of batches of texts."""
    counts: Counter[str] = Counter()
    for batch in texts:
        array = batch if isinstance(batch, pa.Array) else pa.array(batch, pa.string())
        words = pc.list_flatten(pc.split_pattern(array, " "))
        for entry in pc.value_counts(words).to_pylist():
            counts[entry["values"]] += entry["counts"]
    counts.pop("", None)
    return counts


@dataclass(frozen=True)
class ClosedOptions(Section):
    """Options of a closed vocabulary.

    Attributes
    ----------
    kind : "closed"
        Words; the rest is ``<unk>``.
    minimum_count : int
        A word seen less often in training becomes ``<unk>``.
    maximum_size : int or None
        Most frequent words kept; null keeps all.
    """

    kind: Literal["closed"]
    minimum_count: Count = 1
    maximum_size: Count | None = None


@dataclass(frozen=True)
class BPEOptions(Section):
    """Options of a BPE vocabulary.

    Attributes
    ----------
    kind : "bpe"
        Open: every text has an encoding.
    size : int
        Number of tokens, the three special ones and the 256 bytes included.
    """

    kind: Literal["bpe"]
    size: Annotated[int, Limit(minimum=259)]


class VocabularyKind(NamedTuple):
    """What is known of a kind of vocabulary."""

    # A class with ``from_description``, and ``build`` where it is built. As ``module:class`` it is
    # imported late, and counts for the code of those jobs alone to which its family names it
    reference: type[Any] | str
    # What ``build`` is given besides the texts; None for one that comes with a model
    options: type[Any] | None = None

    def load(self) -> type[Any]:
        """Return the class."""
        if isinstance(self.reference, type):
            return self.reference
        found: type[Any] = resolve_name(self.reference)
        return found


VOCABULARY_KINDS = {
    "closed": VocabularyKind(ClosedVocabulary, ClosedOptions),
    "bpe": VocabularyKind(BPEVocabulary, BPEOptions),
    "huggingface": VocabularyKind(
        "beyond_perplexity.models.huggingface_vocabulary:HuggingFaceVocabulary"
    ),
}
BUILT_KINDS = {kind: row for kind, row in VOCABULARY_KINDS.items() if row.options}


def build_vocabulary(texts: Iterable[Sequence[str] | pa.Array], config: object) -> Vocabulary:
    """Build a vocabulary from a stream of batches of training texts."""
    kind = str(config.get("kind")) if isinstance(config, dict) else ""
    row = BUILT_KINDS[kind if kind in BUILT_KINDS else "closed"]
    assert row.options
    options = dataclasses.asdict(parse_options(row.options, config, "vocabulary"))
    del options["kind"]
    built: Vocabulary = row.load().build(texts, **options)
    if built.size == N_SPECIAL:
        reason = "the training split is empty or minimum_count too high"
        raise InputError(f"vocabulary: no word is left; {reason}")
    return built


def load_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read a vocabulary that `Vocabulary.save` wrote."""
    held = read_json(path, "vocabulary file", "build the vocabulary again")
    kind = held.get("kind") if isinstance(held, dict) else None
    if not isinstance(kind, str):
        raise InputError(f"{path}: is no vocabulary file (it has no kind); build it again")
    if kind not in VOCABULARY_KINDS:
        raise InputError(f"{path}: unknown kind of vocabulary {kind!r:.80}; build it again")
    try:
        return VOCABULARY_KINDS[kind].load().from_description(held)
    except Exception as error:  # tokenizers raises plain Exception for a foreign description
        reason = brief_repr(error if isinstance(error, KeyError) else str(error))
        raise InputError(f"{path}: is no vocabulary file ({reason}); build it again") from error
