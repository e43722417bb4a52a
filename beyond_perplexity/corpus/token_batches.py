"""Token stores on disk and batches of like-long pieces of documents, in an order of a seed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.outputs import atomic_path, scratch_path
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

# Not a target: the position holds no prediction (the end of a row shorter than its batch).
IGNORED = -100
# Batches are cut from pools of this many batches, sorted by length, so that rows are nearly equal.
POOL_BATCHES = 50


Folder = str | os.PathLike[str]


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an .npy file that appears whole."""
    with atomic_path(path) as temporary:
        np.save(temporary, values)


class RowWriter:
    """Writes rows of integers of any lengths for `RaggedRows`; none is held in memory."""

    def __init__(self, folder: Folder, name: str, kind: type[Any], stack: ExitStack) -> None:
        self._base, self._name, self._kind = Path(folder), name, kind
        self._raw = stack.enter_context(scratch_path(self._base / f"{name}.raw"))
        self._file = stack.enter_context(self._raw.open("wb"))
        self._lengths: list[int] = []

    def add(self, row: np.ndarray | Sequence[int]) -> None:
        """Add a row."""
        self._file.write(np.asarray(row, self._kind).tobytes())
        self._lengths.append(len(row))

    def finish(self) -> None:
        """Write values and then ends: where these are, both are whole."""
        self._file.close()
        with atomic_path(self._base / f"{self._name}.values.npy") as temporary:
            shape = (sum(self._lengths),)
            held = np.lib.format.open_memmap(temporary, "w+", self._kind, shape)
            if shape[0]:
                held[:] = np.memmap(self._raw, self._kind, "r")
            held.flush()
        save_array(self._base / f"{self._name}.ends.npy", np.cumsum(self._lengths))


class RaggedRows:
    """Rows of integers of any lengths, memory-mapped, as a `RowWriter` named their files."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._values = np.load(Path(folder) / f"{name}.values.npy", mmap_mode="r")
        self._ends = np.load(Path(folder) / f"{name}.ends.npy")  # (rows,)

    @property
    def lengths(self) -> np.ndarray:
        """The length of each row, int64: of a document without ``<s>`` and ``</s>``."""
        return np.diff(self._ends, prepend=0)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> np.ndarray:
        start = self._ends[index - 1] if index else 0
        return np.asarray(self._values[start : self._ends[index]])

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))


class TokenStore(RaggedRows):
    """The token ids of many documents."""

    @classmethod
    def write(
        cls, folder: Folder, documents: Folder, split: str, vocabulary: Vocabulary
    ) -> TokenStore:
        """Encode one split of a documents file, unless the folder holds it already."""
        if not (Path(folder) / f"{split}.ends.npy").exists():
            Path(folder).mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                writer, found = RowWriter(folder, split, np.int32, stack), False
                for texts in read_texts([documents], split):
                    for ids in vocabulary.encode(texts.to_pylist()):
                        writer.add(ids)
                        found = True
                if not found:
                    raise InputError(f"{documents}: the split '{split}' has no documents")
                writer.finish()
        return cls(folder, split)

    def batches(self, size: int = 4096) -> Iterator[list[np.ndarray]]:
        """Iterate over the documents, `size` at a time."""
        for start in range(0, len(self), size):
            yield [self[document] for document in range(start, min(start + size, len(self)))]


@dataclass(frozen=True)
class Batch:
    """Rows of prefixes and what follows each, int64, (B, T); `IGNORED` where a row has ended."""

    inputs: Tensor
    targets: Tensor

    @property
    def predictions(self) -> int:
        """How many targets there are."""
        return int((self.targets != IGNORED).sum())

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(self.inputs.to(device), self.targets.to(device))


class BatchSource(ABC):
    """What a split is trained on: batches of rows of like length, int64 positions each, of at most
    `batch_tokens` positions unless a single row has more."""

    def __init__(self, lengths: np.ndarray, batch_tokens: int) -> None:
        self._lengths = lengths
        self._batch_tokens = batch_tokens

    def ordered(self) -> list[Any]:
        """Cut the pieces, sorted by length, into batches: arrays of piece numbers."""
        return self._cut(np.argsort(self._lengths, kind="stable"))

    def shuffled(self, seed: int, epoch: int) -> list[Any]:
        """Cut the pieces into batches in the order of one epoch, given by (seed, epoch) alone."""
        generator = stream(seed, "train/order", epoch)
        order = generator.permutation(len(self._lengths))
        pool = max(1, int(POOL_BATCHES * self._batch_tokens / self._lengths.mean()))
        batches: list[np.ndarray] = []
        for start in range(0, len(order), pool):
            part = order[start : start + pool]
            batches += self._cut(part[np.argsort(self._lengths[part], kind="stable")])
        return [batches[index] for index in generator.permutation(len(batches))]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        """Cut pieces of rising length into batches, from the longest down."""
        batches = []
        end = len(order)
        while end:
            rows = max(1, self._batch_tokens // int(self._lengths[order[end - 1]]))
            batches.append(order[max(0, end - rows) : end])
            end = max(0, end - rows)
        return batches

    @abstractmethod
    def batch(self, pieces: Any) -> Any:
        """Fetch a batch of an item of `ordered` or `shuffled`, with ``predictions``, a number, and
        ``to(device)``; a source that plans more has its own."""


class Pieces(BatchSource):
    """Batches of pieces of documents, of at most `maximum_length` predictions (n tokens have n +
    1); a later piece starts with the token before it in place of ``<s>``."""

    def __init__(self, store: TokenStore, maximum_length: int, batch_tokens: int) -> None:
        self._store = store
        predictions = store.lengths + 1
        counts = -(-predictions // maximum_length)
        self._documents = np.repeat(np.arange(len(store)), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        self._starts = (np.arange(len(first)) - first) * maximum_length
        lengths = np.minimum(predictions[self._documents] - self._starts, maximum_length)
        super().__init__(lengths, batch_tokens)

    def batch(self, pieces: np.ndarray) -> Batch:
        """Fetch the tokens of one batch."""
        width = int(self._lengths[pieces].max())
        inputs = np.full((len(pieces), width), EOS, np.int64)
        targets = np.full((len(pieces), width), IGNORED, np.int64)
        for row, piece in enumerate(pieces):
            start, length = self._starts[piece], self._lengths[piece]
            document = np.concatenate([[BOS], self._store[self._documents[piece]], [EOS]])
            inputs[row, :length] = document[start : start + length]
            targets[row, :length] = document[start + 1 : start + length + 1]
        return Batch(torch.from_numpy(inputs), torch.from_numpy(targets))
