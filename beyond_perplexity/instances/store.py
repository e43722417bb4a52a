"""Instances on disk and in batches: named arrays of integers of any length, one of them the tokens.

An instance is what a latent model gives one probability: a sentence or a document. B instances of
a batch, L entries of the longest array of a name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.instances.batches import BatchSource, save_raw
from beyond_perplexity.schemas.corpora import SENTENCES_OF_A_DOCUMENT
from beyond_perplexity.storage.outputs import atomic_path, scratch_path, write_json

TOKENS, LATENTS = "tokens", "latents"

T = TypeVar("T")


class CorpusFiles(NamedTuple):
    """The tables of one corpus (see `schemas.corpora`) and what was made of them.

    Attributes
    ----------
    documents, mentions, knowledge_graph, aliases, trees : pathlib.Path
    graph : pathlib.Path
        Embeddings of the knowledge graph; only KGLM has a use for it.
    """

    documents: Path
    mentions: Path
    knowledge_graph: Path
    aliases: Path
    trees: Path
    graph: Path

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> CorpusFiles:
        """Name the files of a corpus' folder."""
        base = Path(folder)
        tables = ("documents", "mentions", "knowledge_graph", "aliases", "trees")
        paths = {name: base / f"{name}.parquet" for name in tables}
        return cls(**paths, graph=base / "graph.safetensors")


class Instance(NamedTuple):
    """One sentence or document with its annotation.

    Attributes
    ----------
    instance_id : int
        Unique in the corpus and stable: it keys the random streams.
    arrays : dict of str to numpy.ndarray
        One-dimensional, integer. ``tokens`` are the ids of the words, without ``<s>`` and
        ``</s>``; the others are a family's own.
    """

    instance_id: int
    arrays: Mapping[str, np.ndarray]


def document_of(instance_id: int, unit: str) -> int:
    """Return the ``doc_id`` of the document that an instance is, or is a sentence of.

    Parameters
    ----------
    instance_id : int
        Of a sentence ``doc_id * 65536 + sentence``, else the ``doc_id`` itself.
    unit : "document" or "sentence"
        Of the model's family.
    """
    return instance_id // SENTENCES_OF_A_DOCUMENT if unit == "sentence" else instance_id


@dataclass(frozen=True)
class InstanceBatch:
    """Several instances, filled up with zeros at their ends.

    Attributes
    ----------
    ids : Tensor
        int64, (B,).
    arrays : dict of str to Tensor
        int64, (B, L) each.
    lengths : dict of str to Tensor
        int64, (B,) each: entries that are no filling.
    cache : dict
        What a model has worked out for this batch (keyed by itself), so that it need not be done
        again for the next block of samples.
    """

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
            rows = [np.asarray(instance.arrays[name], np.int64) for instance in held]
            lengths[name] = torch.tensor([len(row) for row in rows])  # (B,)
            padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
            for place, row in enumerate(rows):
                padded[place, : len(row)] = row
            arrays[name] = torch.from_numpy(padded)  # (B, L)
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
        places = torch.arange(array.shape[1], device=array.device)  # (L,)
        return array.masked_fill(places >= self.lengths[name][:, None], value)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` gives: made once and held in the cache, unless gradients are wanted.

        Parameters
        ----------
        key : hashable
            Begins with the module that it belongs to.
        make : callable
        """
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
        return InstanceBatch(
            self.ids.to(device),
            {name: array.to(device) for name, array in self.arrays.items()},
            {name: lengths.to(device) for name, lengths in self.lengths.items()},
        )


class InstanceStore:
    """The instances of one split in memory-mapped files.

    Parameters
    ----------
    folder : path
        Where `write` put ``{name}.ids.npy`` and, per array, ``{name}.{array}.values.npy`` and
        ``{name}.{array}.ends.npy``.
    name : str
        The name given to `write`.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        base = Path(folder)
        self._ids = np.load(base / f"{name}.ids.npy")  # (instances,)
        names = [path.name.split(".")[-3] for path in sorted(base.glob(f"{name}.*.ends.npy"))]
        self._values = {n: np.load(base / f"{name}.{n}.values.npy", mmap_mode="r") for n in names}
        self._ends = {n: np.load(base / f"{name}.{n}.ends.npy") for n in names}

    @classmethod
    def write(
        cls, folder: str | os.PathLike[str], name: str, instances: Iterable[Instance]
    ) -> InstanceStore:
        """Store instances, unless the folder holds them already.

        Memory does not grow with the entries; an interrupted write leaves nothing that counts.

        Raises
        ------
        InputError
            When there are none.
        """
        base = Path(folder)
        whole = base / f"{name}.whole.json"
        if not whole.exists():
            base.mkdir(parents=True, exist_ok=True)
            count = _write_arrays(base, name, instances)
            if not count:
                raise InputError(f"the split '{name}' has no instance that the model can read")
            write_json(whole, {"instances": count})
        return cls(folder, name)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, place: int) -> Instance:
        arrays = {}
        for name, ends in self._ends.items():
            start = ends[place - 1] if place else 0
            arrays[name] = np.asarray(self._values[name][start : ends[place]])
        return Instance(int(self._ids[place]), arrays)

    def __iter__(self) -> Iterator[Instance]:
        return (self[place] for place in range(len(self)))

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
        return np.diff(self._ends[name], prepend=0)


def _write_arrays(base: Path, name: str, instances: Iterable[Instance]) -> int:
    ids: list[int] = []
    lengths: dict[str, list[int]] = {}
    raw: dict[str, Path] = {}
    with ExitStack() as scratch:
        with ExitStack() as opened:
            files: dict[str, IO[bytes]] = {}
            for instance in instances:
                ids.append(instance.instance_id)
                for key, values in instance.arrays.items():
                    if key not in raw:
                        own = scratch.enter_context(scratch_path(base / f"{name}.{key}.raw"))
                        raw[key] = own
                        files[key] = opened.enter_context(own.open("wb"))
                    files[key].write(np.asarray(values, np.int64).tobytes())
                    lengths.setdefault(key, []).append(len(values))
        for key, counts in lengths.items():
            save_raw(raw[key], base / f"{name}.{key}.values.npy", np.int64)
            _save(base / f"{name}.{key}.ends.npy", np.cumsum(counts))
    _save(base / f"{name}.ids.npy", np.array(ids, np.int64))
    return len(ids)


def _save(path: Path, values: np.ndarray) -> None:
    with atomic_path(path) as temporary:
        np.save(temporary, values)


class WholeInstances(BatchSource):
    """Batches of whole instances of like length.

    Parameters
    ----------
    store : InstanceStore
    batch_tokens : int
        Positions of a batch at most, filling included (a single instance may be longer).
    """

    def __init__(self, store: InstanceStore, batch_tokens: int) -> None:
        super().__init__(store.lengths + 1, batch_tokens)
        self._store = store

    def batch(self, pieces: np.ndarray) -> InstanceBatch:
        """Fetch one batch."""
        return InstanceBatch.of(self._store[int(place)] for place in pieces)
