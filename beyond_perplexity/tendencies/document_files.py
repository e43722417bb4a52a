"""The documents of a sample set where they lie: which are read, and in which words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.permuted_units import whole_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage import shards
from beyond_perplexity.tendencies import tokens
from beyond_perplexity.tendencies.tokens import TextView, TokenBatch, tokenize_batch


class GroupNumbers:
    """Numbers of groups in the order in which they come, from names added batch after batch.

    By hashes of 64 bits; a document with an empty name is a group of its own.
    """

    def __init__(self) -> None:
        self._keys = [np.zeros(0, np.uint64)]
        self._n = 0

    def add(self, names: pa.Array) -> None:
        """Add the names (string, shape (D,)) of the groups of documents; null is empty."""
        filled = pc.fill_null(names, "")
        keys = tokens.string_hashes(filled)
        nameless = np.flatnonzero(np.asarray(pc.equal(filled, "")))
        keys[nameless] = self._n + nameless  # the place of a document is as good as a hash
        self._keys.append(keys)
        self._n += len(keys)

    def codes(self) -> np.ndarray:
        """Return the group of every document from 0 on: int32, shape (D,)."""
        return pa.array(np.concatenate(self._keys)).dictionary_encode().indices.to_numpy()

    def with_others(self, other: GroupNumbers) -> tuple[np.ndarray, np.ndarray]:
        """Return those of the documents of two texts, numbered together: (D,) and (E,)."""
        both = GroupNumbers()
        both._keys = [*self._keys, *other._keys]
        codes = both.codes().astype(np.int64)
        return codes[: self._n], codes[self._n :]


def found_groups(numbers: GroupNumbers, place: str) -> np.ndarray | None:
    """Return the group of every document (int32, (D,)); None where none has two documents.

    A single group, of which nothing can be said, is an InputError.
    """
    codes = numbers.codes()
    n_groups = codes.max(initial=-1) + 1
    if n_groups == 1 < len(codes):
        raise InputError(
            f"{place} holds one single group; leave the group column out or name another one: "
            "nothing can be said of how groups differ"
        )
    return codes if n_groups < len(codes) else None


def read_resample(
    paths: Sequence[str | Path], split: str | None, size: int, resample: int, seed: int
) -> Iterator[pa.Array]:
    """Stream `size` random documents, drawn without replacement, in the order of the files.

    From the stream (`seed`, ``"resample"``, `resample`); fewer than `size` are an InputError.
    """
    total = shards.count_documents(paths, split)
    if not 0 < size <= total:
        raise InputError(
            f"{paths[0]}: a resample of {size} documents cannot be drawn from {total}; "
            f"give a size from 1 to {total}"
        )
    yield from draw_documents(shards.read_texts(paths, split), total, size, resample, seed)


def draw_documents(
    texts: Iterable[pa.Array], total: int, size: int, resample: int, seed: int
) -> Iterator[pa.Array]:
    """Keep `size` of `total` documents, drawn as for `read_resample`, of a stream."""
    drawn = np.zeros(total, bool)
    drawn[stream(seed, "resample", resample).choice(total, size, replace=False)] = True
    yield from choose_documents(texts, drawn)


def choose_documents(texts: Iterable[pa.Array], chosen: np.ndarray) -> Iterator[pa.Array]:
    """Keep the documents of a stream that are chosen (bool, shape (D,))."""
    start = 0
    for batch in texts:
        start += len(batch)
        yield batch.filter(pa.array(chosen[start - len(batch) : start]))


@dataclass(frozen=True)
class DocumentFiles:
    """Documents of Parquet files of kind ``documents`` or ``samples``, in order.

    Only those of a `split`, only the `first` ones (which lie in random order), and none of fewer
    tokens than the minimum of `view`; `group_column` names groups, such as ``title``.
    """

    paths: tuple[str | Path, ...]
    split: str | None = None
    first: int | None = None
    view: TextView = tokens.WHOLE_TEXT
    group_column: str | None = None

    def rows(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """Stream columns of the documents, in batches of at least one."""
        wanted = list(dict.fromkeys(["text", *columns]))
        for batch in shards.read_rows(self.paths, wanted, self.split, self.first):
            if self.view.minimum_tokens:
                batch = batch.filter(pa.array(self.view.admits(batch.column("text"))))
            if batch.num_rows:
                yield batch.select(list(columns))

    def texts(self) -> Iterator[pa.Array]:
        """Stream the texts in batches."""
        return (batch.column("text") for batch in self.rows("text"))

    def drawn(self, most: int, seed: int) -> Iterator[pa.Array]:
        """Stream the texts of a random subset of so many documents at most."""
        total = sum(batch.num_rows for batch in self.rows("text"))
        return draw_documents(self.texts(), total, min(most, total), 0, seed)

    def are_generated(self) -> bool:
        """Say whether a model of the run wrote them, so that it is known which are finished."""
        with shards.ParquetInput(self.paths[0]) as file:
            names, footer = file.schema_arrow.names, file.metadata.metadata or {}
        if "log_prob" not in names:
            return False
        first = next(self.rows("log_prob"), None)
        if first is None or first.column("log_prob").null_count < first.num_rows:
            return first is not None
        # Of models with latent variables log p is not known; but in which precision they ran is.
        return shards.RECORD_KEY in footer and "precision" in shards.read_record(self.paths[0])

    def groups(self) -> np.ndarray | None:
        """Return the group of every document, (D,); None where that is not known or says nothing.

        So where no two documents share a group, or all are of one (without pages but with a title).
        """
        numbers = self.group_numbers()
        codes = np.zeros(0, np.int32) if numbers is None else numbers.codes()
        return codes if 1 < codes.max(initial=-1) + 1 < len(codes) else None

    def note_on_groups(self, groups: np.ndarray | None) -> str:
        """Say that documents are the units though a column should name groups; else nothing."""
        if groups is not None or self.group_column is None:
            return ""
        return (
            f"note: {self.paths[0]}: column '{self.group_column}' names no groups of documents "
            "(empty, one single one, or one each): documents are taken for independent"
        )

    def group_numbers(self) -> GroupNumbers | None:
        """Read the groups of the documents, one group alone as well; None without a column."""
        if self.group_column is None:
            return None
        numbers = GroupNumbers()
        for batch in self.rows(self.group_column):
            numbers.add(batch.column(self.group_column))
        return numbers

    def other_split(self, split: str, *, as_thin: bool = False) -> DocumentFiles:
        """Return the documents of another split of the same files.

        `as_thin`: the same share that `first` takes of this one, so that groups lose as many.
        """
        first = None
        if as_thin and self.first is not None:
            held = shards.count_documents(self.paths, self.split)
            if self.first < held:
                first = math.ceil(self.first * shards.count_documents(self.paths, split) / held)
        return replace(self, split=split, first=first)


_DEVIATIONS = 3
_UNIT_BITS = 32
_WAITING = 4_000_000  # pairs of word and unit that wait in memory, at least, to be put in order


class UnitCounts:
    """Count in how many units of text (documents or groups of them) each of V words stands.

    Of a word in `enough` units no further ones are counted: memory does not grow with the text.
    """

    def __init__(self, words: pa.Array, enough: int) -> None:
        self._words, self._enough = words, enough
        self._keys = np.zeros(0, np.int64)  # word and unit, rising
        self._waiting: list[np.ndarray] = []
        self._rare = np.ones(len(words), bool)

    def add(self, batch: TokenBatch, units: np.ndarray) -> None:
        """Count D documents, each of the unit of its number: int64, shape (D,)."""
        known = np.asarray(pc.index_in(batch.types, value_set=self._words).fill_null(-1))
        places = known[batch.ids].astype(np.int64)  # (T,)
        keys = places << _UNIT_BITS | np.repeat(units, batch.lengths)
        self._waiting.append(np.unique(keys[(places >= 0) & self._rare[places]]))
        if sum(map(len, self._waiting)) > max(len(self._keys), _WAITING):
            self.counts()

    def counts(self) -> np.ndarray:
        """Return the units of each word, int64, (V,): at least `enough` where there are more."""
        self._keys = np.unique(np.concatenate([self._keys, *self._waiting]))
        self._waiting = []
        found = np.bincount(self._keys >> _UNIT_BITS, minlength=len(self._words))
        self._rare = found < self._enough
        return found


def _occurrences(words: pa.Array, texts: Iterator[pa.Array]) -> np.ndarray:
    found = np.zeros(len(words), np.int64)
    for batch in map(tokenize_batch, texts):
        places = np.asarray(pc.index_in(batch.types, value_set=words).fill_null(-1))
        held = np.bincount(batch.ids, minlength=len(batch.types))
        np.add.at(found, places[places >= 0], held[places >= 0])
    return found


def least_units(occurrences: np.ndarray, training_share: float) -> int:
    """Return K of `shared_words`, from the occurrences (V,) in training, and its share of units."""
    least = int(occurrences[occurrences > 0].min()) if occurrences.any() else 1
    return math.ceil((least + _DEVIATIONS * math.sqrt(least)) / training_share)


def shared_words(words: pa.Array, training: DocumentFiles, reference: DocumentFiles) -> pa.Array:
    """Choose the words of a vocabulary that a model's texts and human text are compared in.

    A vocabulary is chosen on the training text: its rare words stand more often there than in any
    other text, and what it lacks more seldom. Read in it, the training text itself differs from
    human text, and so does every model that has learned it well. Both sides are therefore read in
    those words that stand in at least K documents (pages, where these were split) of the training
    and the test split *together*, a choice that knows no difference between them. K is so large
    that the vocabulary can hardly lack a word that reaches it: with m the fewest occurrences in
    training of a word of the vocabulary, K is m + 3 sqrt(m), the occurrences that fall below m by
    chance in one of 740 cases, divided by the training split's share. Where no word reaches K,
    those that stand in as many documents as any.
    """
    sides = (training, reference)
    codes = [_units(files) for files in sides]
    sizes = [int(units.max(initial=-1)) + 1 for units in codes]
    if not sizes[0]:
        raise InputError(f"{training.paths[0]}: the split '{training.split}' has no documents")
    enough = least_units(_occurrences(words, training.texts()), sizes[0] / max(1, sum(sizes)))
    counter = UnitCounts(words, enough)
    for files, units, offset in zip(sides, codes, (0, sizes[0]), strict=True):
        start = 0
        for batch in map(tokenize_batch, files.texts()):
            end = start + len(batch.lengths)
            counter.add(batch, units[start:end] + offset)
            start = end
    counts = counter.counts()
    return words.filter(pa.array(counts >= min(enough, max(1, counts.max(initial=1)))))


def _units(files: DocumentFiles) -> np.ndarray:
    """Return the group of every document, or its own number where there are none."""
    groups = files.groups()
    if groups is not None:
        return groups.astype(np.int64)
    return np.arange(sum(len(texts) for texts in files.texts()))


def draw_groups(groups: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Draw whole groups, one at least, with at most so many documents: bool, (D,)."""
    sizes = np.bincount(groups)
    order = stream(seed, "sensitivity/groups").permutation(len(sizes))
    return whole_groups(groups, order, max(most, int(sizes[order[0]])))


def population_texts(
    files: DocumentFiles, groups: np.ndarray | None, most: int, seed: int
) -> tuple[Iterator[pa.Array], np.ndarray | None]:
    """Draw at most so many documents of a text, or whole groups (D,), and name their groups."""
    if groups is None:
        return files.drawn(most, seed), None
    chosen = draw_groups(groups, most, seed)
    return choose_documents(files.texts(), chosen), groups[chosen]
