"""The training of InferSent's architecture: on the next sentence, or on a file of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceStore
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.token_batches import BatchSource
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.semantics.evaluators import contract, families, infersent, networks
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob, PairTraining
from beyond_perplexity.semantics.evaluators.sentence_training import (
    following,
    ordered_sentences,
    train_network,
)
from beyond_perplexity.semantics.evaluators.vectors import VectorTable, load_table
from beyond_perplexity.semantics.scored_pairs import (
    LabelledTexts,
    PairColumns,
    finite_number,
    read_labelled_texts,
)
from beyond_perplexity.semantics.word_cosines import Vectors
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.vocabulary import N_SPECIAL, UNK, ClosedVocabulary, count_words

NO_LABEL = frozenset({"", "-"})  # of pairs that people did not agree on
VALID_SHARE = 10  # one pair in so many is watched, where no file is given for that
_BATCH = 4096  # texts that are cleaned at once
SECOND, LABEL = "second", "label"
LABEL_UNIT = 1_000_000  # labels are kept as integers


def fit_infersent(job: EvaluatorJob) -> None:
    """Train InferSent's architecture: without pairs it tells a document's next sentence from
    another's, and cosines compare its vectors; with official weights only the classifier learns."""
    options = job.options
    training = parse_options(PairTraining, options.get("training", {}), "training")
    if not options.get("vectors"):
        raise InputError("infersent: give vectors, of the table of word vectors that it reads")
    table = load_table(infersent.table_options(options["vectors"]))
    prepare = _labelled_pairs if options.get("pairs") else _next_sentences
    held = prepare(job, training, table)
    official, outputs = options.get("path"), max(1, len(held.about["classes"] or ()))

    def make() -> infersent.InferSentNetwork:
        architecture = options.get("architecture", {})
        if not official:
            return infersent.InferSentNetwork(table.width, outputs, architecture)
        network = infersent.official_network(official, table.width, outputs, architecture)
        network.reader.requires_grad_(False)
        return network

    vectors = {"vectors": dict(options["vectors"]), "vectors_sha256": table.sha256}
    train_network(held.job, make, held.sources, training, held.folder, vectors | held.about)


class _Prepared(NamedTuple):
    """What is learned from, the folder of its checkpoints, what a description says of it."""

    job: EvaluatorJob
    sources: tuple[BatchSource, BatchSource]
    folder: Path
    about: dict[str, Any]


def _next_sentences(job: EvaluatorJob, training: PairTraining, table: VectorTable) -> _Prepared:
    documents = job.corpus()
    folder = job.folder(documents, table.path)
    words = count_words(read_texts([documents], "train"))
    vocabulary, vectors = known_words(sorted(words), table)

    def source(split: str) -> NextSentences:
        found = ordered_sentences(documents, split, vocabulary, training, keep_unknown=False)
        store = InstanceStore.write(folder, split, found)
        return NextSentences(store, vectors, training.batch_tokens, job.seed, split)

    about = {"title": "InferSent architecture (next sentence)", "classes": None}
    return _Prepared(job, (source("train"), source("valid")), folder, about)


def known_words(words: list[str], table: VectorTable) -> tuple[ClosedVocabulary, np.ndarray]:
    """Return the words that have a vector as a vocabulary, and the vectors by id, (V, E)."""
    found = table.find(words)  # (words, E)
    known = np.flatnonzero(contract.has_vector(found))
    if not len(known):
        raise InputError(f"{table.path}: has a vector of no word of the training text")
    vocabulary = ClosedVocabulary([words[index] for index in known], len(words) - len(known))
    special = np.zeros((N_SPECIAL, table.width), np.float32)
    return vocabulary, np.concatenate([special, found[known]])


def _labelled_pairs(job: EvaluatorJob, training: PairTraining, table: VectorTable) -> _Prepared:
    options = job.options
    paths = [Path(options[key]) for key in ("pairs", "valid_pairs") if options.get(key)]
    weights = [Path(options["path"])] if options.get("path") else []
    folder = job.folder(*paths, *weights, table.path)
    if weights:
        job = replace(job, preprocessing=infersent.OFFICIAL_CLEANING)
    columns = PairColumns(*(options.get(name) for name in ("first", "second", "label")))
    cleaning = Preprocessing.from_config(job.preprocessing)
    words: set[str] = set()
    labels: set[str] = set()
    for pair in _cleaned(paths[0], columns, cleaning):
        words.update(pair.first.split(), pair.second.split())
        labels.add(pair.label)
    vocabulary, vectors = known_words(sorted(words), table)
    meaning = LabelMeaning.of(paths[0], labels, training)
    around = _put_symbols(options, table, vectors) if weights else ([], [])

    def source(name: str) -> LabelledPairs:
        path = paths[-1] if name == "valid" else paths[0]
        pairs = _cleaned(path, columns, cleaning)
        if len(paths) == 1:
            # whether a pair is watched and not trained on is a matter of its line alone
            keyed = ((stream_key(job.seed, f"train/watched/{pair.line}"), pair) for pair in pairs)
            wanted = name == "valid"
            pairs = (pair for key, pair in keyed if (key % VALID_SHARE == 0) == wanted)
        instances = _encoded(path, pairs, vocabulary, meaning, training.maximum_length, around)
        store = InstanceStore.write(folder, name, instances)
        return LabelledPairs(store, vectors, training.batch_tokens, not meaning.classes)

    about: dict[str, Any] = {"title": meaning.title, "classes": list(meaning.classes)}
    if weights:
        version = options.get("version", 1)
        title = meaning.title.replace("architecture", str(version))
        about |= {"title": title, "version": version}
    return _Prepared(job, (source("train"), source("valid")), folder, about)


def _put_symbols(
    options: families.Options, table: VectorTable, vectors: np.ndarray
) -> tuple[list[int], list[int]]:
    """Give the marks of official weights the vectors of <s> and </s>; return their ids."""
    found: tuple[list[int], list[int]] = ([], [])
    for index, word in enumerate(infersent.SYMBOLS[options.get("version", 1)]):
        vector = table.symbol(word)
        if vector is not None:
            vectors[index] = vector
            found[index].append(index)
    return found


def _cleaned(path: Path, columns: PairColumns, cleaning: Preprocessing) -> Iterator[LabelledTexts]:
    """Read pairs with a label, and clean their texts."""
    account = Account(path, "pairs")
    stream = read_labelled_texts(path, columns, account)
    while read := list(islice(stream, _BATCH)):
        held = [pair for pair in read if pair.label not in NO_LABEL]
        account.left_out["without a label"] += len(read) - len(held)
        texts = cleaning.apply([text for pair in held for text in (pair.first, pair.second)])
        for pair, first, second in zip(held, texts[::2], texts[1::2], strict=True):
            yield pair._replace(first=first, second=second)


@dataclass(frozen=True)
class LabelMeaning:
    """What the labels of a file of pairs are."""

    classes: tuple[str, ...] = ()  # empty where labels are scores
    low: float = 0.0  # the least and the greatest score of the training pairs, which become 0 and 1
    high: float = 1.0

    @classmethod
    def of(cls, path: Path, labels: set[str], training: PairTraining) -> LabelMeaning:
        """Tell scores from classes."""
        if len(labels) < 2:
            raise InputError(f"{path}: has {len(labels)} different labels; nothing can be learned")
        numbers = {label: finite_number(label) for label in sorted(labels)}
        wrong = [label for label, number in numbers.items() if number is None]
        if training.labels == "scores" and wrong:
            raise InputError(f"{path}: the score {wrong[0]!r} is no finite number")
        if not wrong and training.labels != "classes":
            held = [number for number in numbers.values() if number is not None]
            return cls((), min(held), max(held))
        if infersent.ENTAILMENT not in labels:
            shown = ", ".join(sorted(labels))[:80]
            fault = f"none of its labels ({shown}) is {infersent.ENTAILMENT}"
            advice = "no class says that texts are alike; give scores, or pairs of inference"
            raise InputError(f"{path}: {fault}, so that {advice}")
        return cls(tuple(sorted(labels)))

    @property
    def title(self) -> str:
        """How tables call what was learned from them."""
        return f"InferSent architecture ({'inference' if self.classes else 'scored'} pairs)"

    def read(self, path: Path, pair: LabelledTexts) -> int:
        """Return a label as an integer: its class, or `LABEL_UNIT` times a score from 0 to 1."""
        if self.classes:
            if pair.label in self.classes:
                return self.classes.index(pair.label)
            raise InputError(f"{path}: line {pair.line}: no training pair has label {pair.label!r}")
        number = finite_number(pair.label)
        if number is None:
            raise InputError(f"{path}: line {pair.line}: the score {pair.label!r} is no number")
        share = (number - self.low) / (self.high - self.low)
        return round(LABEL_UNIT * min(1.0, max(0.0, share)))


def _encoded(
    path: Path,
    pairs: Iterable[LabelledTexts],
    vocabulary: ClosedVocabulary,
    meaning: LabelMeaning,
    longest: int,
    around: tuple[list[int], list[int]],
) -> Iterator[Instance]:
    """Encode pairs, their texts between marks; one without a known word leaves its pair out."""
    before, after = around
    for pair in pairs:
        both = vocabulary.encode([pair.first, pair.second])
        first, second = (ids[ids != UNK][:longest] for ids in both)
        if len(first) and len(second):
            label = np.array([meaning.read(path, pair)])
            texts = [np.array([*before, *ids, *after], np.int32) for ids in (first, second)]
            yield Instance(pair.line, {TOKENS: texts[0], SECOND: texts[1], LABEL: label})


class _PairSource(BatchSource):
    """Pairs of sentences; `vectors` are float32 (V, E), by the id of a word; none is unknown."""

    def __init__(
        self, store: InstanceStore, vectors: Vectors, longest: np.ndarray, tokens: int
    ) -> None:
        self._store, self._vectors = store, vectors
        super().__init__(2 * longest, tokens)

    def _batch(
        self, rows: Sequence[np.ndarray], first: Tensor, second: Tensor, labels: Tensor
    ) -> infersent.PairBatch:
        tokens, lengths = networks.padded(rows)
        vectors = torch.from_numpy(self._vectors[tokens.numpy()])  # (2 B, T, E)
        return infersent.PairBatch(vectors, lengths, first, second, labels)


class NextSentences(_PairSource):
    """Pairs of a sentence and the next, and as many with that of another, drawn in each epoch."""

    def __init__(
        self,
        store: InstanceStore,
        vectors: Vectors,
        batch_tokens: int,
        seed: int,
        purpose: str,
    ) -> None:
        self._seed, self._purpose = seed, purpose
        self._indices = following(store)
        both = store.lengths[self._indices], store.lengths[self._indices + 1]
        super().__init__(store, vectors, np.maximum(*both), batch_tokens)

    def shuffled(self, seed: int, epoch: int) -> list[Any]:
        """Cut the sentences into batches in the order of one epoch."""
        return [(epoch, number, rows) for number, rows in enumerate(super().shuffled(seed, epoch))]

    def ordered(self) -> list[Any]:
        """Cut the sentences, sorted by length, into batches, always with the same others."""
        return [(0, number, rows) for number, rows in enumerate(super().ordered())]

    def batch(self, pieces: Any) -> infersent.PairBatch:
        """Fetch one batch: the sentences, below them the next ones."""
        epoch, number, rows = pieces
        indices = self._indices[rows]
        held = [self._store[int(index)].arrays[TOKENS] for index in (*indices, *(indices + 1))]
        count = len(indices)
        here = torch.arange(count)
        there = here + count
        if count > 1:
            item = (epoch << 32) | number
            random = stream(self._seed, f"train/other/{self._purpose}", item)
            order = torch.from_numpy(random.permutation(count))
            others = torch.empty_like(order)
            others[order] = order.roll(1)  # nobody's other is its own
            first, second = torch.cat([here, here]), torch.cat([there, others + count])
        else:
            first, second = here, there
        labels = torch.zeros(len(first))
        labels[:count] = 1.0
        return self._batch(held, first, second, labels)


class LabelledPairs(_PairSource):
    """Pairs of sentences with a label: a class, or `LABEL_UNIT` times a score from 0 to 1."""

    def __init__(
        self, store: InstanceStore, vectors: Vectors, batch_tokens: int, scores: bool
    ) -> None:
        self._scores = scores
        longest = np.maximum(store.lengths, store.lengths_of(SECOND))
        super().__init__(store, vectors, longest, batch_tokens)

    def batch(self, pieces: Any) -> infersent.PairBatch:
        """Fetch one batch: the first sentences, below them the second ones."""
        held = [self._store[int(index)].arrays for index in pieces]
        rows = [np.asarray(arrays[side]) for side in (TOKENS, SECOND) for arrays in held]
        here = torch.arange(len(held))
        labels = torch.tensor([int(arrays[LABEL][0]) for arrays in held])
        if self._scores:
            labels = labels.float() / LABEL_UNIT
        return self._batch(rows, here, here + len(held), labels)
