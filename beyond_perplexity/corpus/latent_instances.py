"""What latent models read: instances, each a sentence or a document with its annotation as arrays.

B instances of a batch, L entries of the longest array of a name, T words.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from beyond_perplexity.corpus import token_batches
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.corpora import DOCUMENTS, MENTIONS, SENTENCES_OF_A_DOCUMENT
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import UNK, Vocabulary

TOKENS, LATENTS = "tokens", "latents"

T = TypeVar("T")


class CorpusFiles(NamedTuple):
    """The tables of a corpus (see `schemas.corpora`), and the embeddings of its graph, for KGLM."""

    documents: Path
    mentions: Path
    knowledge_graph: Path
    aliases: Path
    trees: Path
    graph: Path

    @classmethod
    def of(cls, folder: token_batches.Folder) -> CorpusFiles:
        """Name the files of a corpus' folder."""
        base = Path(folder)
        tables = ("documents", "mentions", "knowledge_graph", "aliases", "trees")
        paths = {name: base / f"{name}.parquet" for name in tables}
        return cls(**paths, graph=base / "graph.safetensors")


class Instance(NamedTuple):
    """One sentence or document: its number in the corpus, which keys streams, ``tokens``, ids of
    the words without ``<s>`` and ``</s>``, and other arrays of integers, a family's own."""

    instance_id: int
    arrays: Mapping[str, np.ndarray]


def document_of(instance_id: int, unit: str) -> int:
    """Return the ``doc_id`` of the document that an instance is or, as a "sentence", is part of."""
    return instance_id // SENTENCES_OF_A_DOCUMENT if unit == "sentence" else instance_id


@dataclass(frozen=True)
class InstanceBatch:
    """Several instances: ids, int64, (B,), arrays, int64, (B, L), padded with zeros, and lengths,
    (B,), by name; `cache` has what a model worked out for it, keyed by itself."""

    ids: Tensor
    arrays: dict[str, Tensor]
    lengths: dict[str, Tensor]
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, instances: Iterable[Instance]) -> InstanceBatch:
        """Put instances with the same names of arrays into one batch."""
        held = list(instances)
        ids = torch.tensor([instance.instance_id for instance in held])  # (B,)
        arrays, lengths = {}, {}
        for name in held[0].arrays:
            rows = [torch.from_numpy(np.array(i.arrays[name], np.int64)) for i in held]
            lengths[name] = torch.tensor([len(row) for row in rows])  # (B,)
            arrays[name] = pad_sequence(rows, batch_first=True)  # (B, L)
        return cls(ids, arrays, lengths)

    @property
    def tokens(self) -> Tensor:
        """The ids of the words, int64, (B, T)."""
        return self.arrays[TOKENS]

    @property
    def predictions(self) -> int:
        """The words and the ends of all instances: what a loss is divided by."""
        return int(self.lengths[TOKENS].sum()) + len(self.ids)

    def filled(self, name: str, value: int) -> Tensor:
        """Return an array, int64, (B, L), with a value of one's own after the end of each row."""
        array = self.arrays[name]  # (B, L)
        positions = torch.arange(array.shape[1], device=array.device)  # (L,)
        return array.masked_fill(positions >= self.lengths[name][:, None], value)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` gives, made once and held in the cache unless gradients are wanted."""
        if torch.is_grad_enabled():
            return make()
        if key not in self.cache:
            self.cache[key] = make()
        held: T = self.cache[key]
        return held

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device) -> InstanceBatch:
        """Return the batch on a device."""
        held = (self.arrays, self.lengths)
        moved = ({name: part.to(device) for name, part in parts.items()} for parts in held)
        return InstanceBatch(self.ids.to(device), *moved)


class InstanceStore:
    """The instances of one split in memory-mapped files of a folder, as `write` named them."""

    def __init__(self, folder: token_batches.Folder, name: str) -> None:
        base = Path(folder)
        self._ids = np.load(base / f"{name}.ids.npy")  # (instances,)
        names = [path.name.split(".")[-3] for path in sorted(base.glob(f"{name}.*.ends.npy"))]
        self._arrays = {key: token_batches.RaggedRows(base, f"{name}.{key}") for key in names}

    @classmethod
    def write(
        cls, folder: token_batches.Folder, name: str, instances: Iterable[Instance]
    ) -> InstanceStore:
        """Store instances, unless the folder holds them already."""
        whole = Path(folder) / f"{name}.whole.json"
        if not whole.exists():
            whole.parent.mkdir(parents=True, exist_ok=True)
            ids: list[int] = []
            writers: dict[str, token_batches.RowWriter] = {}
            with ExitStack() as stack:
                for instance in instances:
                    ids.append(instance.instance_id)
                    for key, values in instance.arrays.items():
                        if key not in writers:
                            writers[key] = token_batches.RowWriter(
                                folder, f"{name}.{key}", np.int64, stack
                            )
                        writers[key].add(values)
                for writer in writers.values():
                    writer.finish()
            token_batches.save_array(whole.parent / f"{name}.ids.npy", np.array(ids, np.int64))
            if not ids:
                raise InputError(f"the split '{name}' has no instance that the model can read")
            write_json(whole, {"instances": len(ids)})
        return cls(folder, name)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, position: int) -> Instance:
        arrays = {key: rows[position] for key, rows in self._arrays.items()}
        return Instance(int(self._ids[position]), arrays)

    def __iter__(self) -> Iterator[Instance]:
        return (self[position] for position in range(len(self)))

    @property
    def ids(self) -> np.ndarray:
        """Number of each instance, int64."""
        return np.asarray(self._ids)

    @property
    def lengths(self) -> np.ndarray:
        """Words of each instance, int64."""
        return self.lengths_of(TOKENS)

    def lengths_of(self, name: str) -> np.ndarray:
        """Return the entries of an array of each instance, int64."""
        return self._arrays[name].lengths


class WholeInstances(token_batches.BatchSource):
    """Batches of whole instances of like length; padding counts among their positions."""

    def __init__(self, store: InstanceStore, batch_tokens: int) -> None:
        super().__init__(store.lengths + 1, batch_tokens)
        self._store = store

    def batch(self, pieces: np.ndarray) -> InstanceBatch:
        """Fetch one batch."""
        return InstanceBatch.of(self._store[int(position)] for position in pieces)


class MentionSpan(NamedTuple):
    """A mention: words from `start` to before `end`, of an entity of that name."""

    start: int
    end: int
    entity: str


class MentionedDocument(NamedTuple):
    """A row of the documents with the mentions in it."""

    doc_id: int
    split: str
    text: str
    spans: list[MentionSpan]


S = TypeVar("S", bound=tuple[int, int, Any])


def without_overlaps(spans: Iterable[S]) -> Iterator[S]:
    """Choose mentions, words [start, end) and what is mentioned, that do not overlap: of those that
    do the one that begins first stays, of these the longest, of equal spans the first given."""
    free = 0
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if span[0] >= free:
            free = span[1]
            yield span


def _rows(path: Path) -> Iterator[tuple[int, MentionSpan]]:
    last = -1
    columns = ("doc_id", "start", "end", "entity")
    for doc_id, start, end, entity in _values(path, MENTIONS, columns):
        if doc_id < last:
            wrong = f"{path}: a mention of document {doc_id} comes after one of {last}"
            raise InputError(f"{wrong}; sort the mentions by doc_id")
        last = doc_id
        yield doc_id, MentionSpan(start, end, entity.replace("\n", " "))


def _values(path: Path, schema: pa.Schema, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for batch in read_batches(path, schema, columns, 1024):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def read_mentioned(corpus: CorpusFiles) -> Iterator[MentionedDocument]:
    """Stream all documents of a corpus, each with its mentions, if any; both files must rise in
    ``doc_id``, and memory does not grow."""
    mentions = groupby(_rows(corpus.mentions), key=lambda row: row[0])
    waiting = next(mentions, None)
    columns = ("doc_id", "split", "text")
    for doc_id, split, text in _values(corpus.documents, DOCUMENTS, columns):
        spans: list[MentionSpan] = []
        if waiting is not None and waiting[0] == doc_id:
            spans = [span for _, span in waiting[1]]
            waiting = next(mentions, None)
        yield MentionedDocument(doc_id, split, text, spans)
    if waiting is not None:
        fault = "belong to no document or are not in the order of the documents"
        what = f"the mentions of document {waiting[0]} {fault}; sort both files by doc_id"
        raise InputError(f"{corpus.mentions}: {what}")


def encode_with_text(
    corpus: CorpusFiles, split: str, vocabulary: Vocabulary
) -> Iterator[tuple[MentionedDocument, np.ndarray]]:
    """Stream the documents of a split that have words, each with the ids of its words, (T,)."""
    if vocabulary.kind != "closed":
        wrong = f"vocabulary: is {vocabulary.kind}, but mentions are spans of words"
        raise InputError(f"{wrong}; use a closed vocabulary")
    for document in read_mentioned(corpus):
        if document.split != split:
            continue
        tokens = vocabulary.encode([document.text])[0]  # (T,)
        if not len(tokens):
            continue
        for span in document.spans:
            if not 0 <= span.start < span.end <= len(tokens):
                where = name_mention(corpus, document.doc_id, span)
                raise InputError(f"{where}: is outside the document's {len(tokens)} tokens")
        yield document, tokens


def name_mention(corpus: CorpusFiles, doc_id: int, span: MentionSpan) -> str:
    """Say which mention it is, for an error."""
    start, end, entity = span
    return f"{corpus.mentions}: document {doc_id}, mention [{start}, {end}) of {entity!r}"


SUFFIXES = ("ed", "ing", "ion", "er", "est", "ly", "ity", "al", "y", "s")


def word_class(word: str, first: bool) -> str:
    """Name the class of an unknown word, as ``<unk-capital-s>``, by capitals (which say little of
    the `first`), digits, hyphens and endings, as Berkeley's parsers and Dyer et al. (2016)."""
    lower = word.lower()
    endings = (end for end in SUFFIXES if lower.endswith(end) and len(lower) > len(end) + 1)
    capital = ("initial" if first else "capital") if word[:1].isupper() else ""
    parts = (
        "capitals" if word.isupper() and len(word) > 1 else capital,
        "digit" if any(character.isdigit() for character in word) else "",
        "hyphen" if "-" in word else "",
        next(endings, "") if lower.isalpha() else "",
    )
    return "<unk" + "".join(f"-{part}" for part in parts if part) + ">"


def _unknown_classes(ids: np.ndarray, words: Sequence[str]) -> list[tuple[int, str]]:
    positions = np.flatnonzero(ids == UNK).tolist()
    return [(position, word_class(words[position], position == 0)) for position in positions]


def find_classes(sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> tuple[str, ...]:
    """List the classes that the unknown words of some sentences have, sorted, without ``<unk>``."""
    found: set[str] = set()
    for words in sentences:
        ids = vocabulary.encode([" ".join(words)])[0]  # (T,)
        found |= {name for _, name in _unknown_classes(ids, words)}
    return tuple(sorted(found - {"<unk>"}))


def encode_words(
    words: Sequence[str], vocabulary: Vocabulary, classes: Sequence[str]
) -> np.ndarray:
    """Turn the words of a sentence into ids, int64, (T,): class i of unknown words is V + i, and of
    no class ``<unk>``; the vocabulary is closed, of V ids."""
    ids = vocabulary.encode([" ".join(words)])[0].astype(np.int64)  # (T,)
    if classes:
        for position, name in _unknown_classes(ids, words):
            if name in classes:
                ids[position] = vocabulary.size + classes.index(name)
    return ids
