"""The sentences of a corpus: what one is, and a random subset of documents that are cut into them.

The seed and the documents' numbers decide their order, so that a smaller subset is the first part
of a larger one, and the same for every model and every paper.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.corpus.penn import leaves
from beyond_perplexity.corpus.shallow_trees import sentences
from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.schemas.corpora import DOCUMENTS, SENTENCES_OF_A_DOCUMENT, TREES
from beyond_perplexity.storage.shards import read_batches, read_rows
from beyond_perplexity.vocabulary import split_words

_PLACES = 20  # bits of a sentence's number in its document
_ORDER = "contrastive/document"  # of the paper that needed an order first; all share it
_PARTNER = "semantics/partner"
_FOLLOWERS = 64  # documents that partners of a document's sentences are taken from


class CutDocument(NamedTuple):
    """A document and its sentences."""

    unit_id: int  # its ``doc_id``
    group: str | None  # what it belongs to, such as its page; None: a group of its own
    sentences: list[list[str]]  # words; at least one sentence, none of them empty


def cut_sentences(text: str, whole: bool) -> list[list[str]]:
    """Cut a document into sentences, or into one of all its words."""
    words = split_words(text)
    return [words] if whole and words else list(sentences(words))


def sentence_item(unit_id: int, position: int) -> int:
    """Return the number that keys the random stream of a sentence of a document."""
    if position >> _PLACES:
        raise InputError(f"doc_id {unit_id}: has more than {1 << _PLACES:,} sentences; cut it")
    return unit_id << _PLACES | position


def order_documents(path: str, split: str, seed: int) -> np.ndarray:
    """Return the numbers of all documents of a split that have words, int64, in random order."""
    ids, keys = array("q"), array("Q")
    for batch in read_rows([path], ["doc_id", "n_tokens"], split):
        for doc_id in batch.filter(pc.greater(batch.column("n_tokens"), 0)).column(0).to_pylist():
            ids.append(doc_id)
            keys.append(stream_key(seed, f"{_ORDER}/{doc_id}"))
    if not ids:
        raise InputError(f"{path}: the split '{split}' has no words; choose another")
    held = np.asarray(ids)
    return held[np.lexsort((held, np.asarray(keys)))]


def read_documents(
    path: str, split: str, wanted: Collection[int], *, grouped: bool = False, whole: bool = False
) -> Iterator[CutDocument]:
    """Stream the wanted documents of a split, cut, in the order of the file."""
    columns = ["doc_id", "title", "text"] if grouped else ["doc_id", "text"]
    for batch in read_rows([path], columns, split):
        for row in batch.select(columns).to_pylist():
            if row["doc_id"] in wanted:
                group = row["title"] or None if grouped else None
                yield CutDocument(row["doc_id"], group, cut_sentences(row["text"], whole))


def take_units(
    path: str,
    split: str,
    first: int,
    count: int,
    *,
    seed: int,
    limit: int | None = None,
    grouped: bool = False,
    whole: bool = False,
) -> list[CutDocument]:
    """Take the documents that begin in a range of sentences, numbered through in random order, up
    to the first document that would bring them above the limit; see `read_documents`."""
    # a document has a sentence at least
    order = order_documents(path, split, seed)[: first + count]
    sizes = _count_sentences(path, split, order, whole)
    ends = np.cumsum(sizes)
    begin = (ends - sizes >= first) & (ends - sizes < first + count)
    if limit is not None:
        begin &= ends <= limit
        if ends[0] > limit:
            raise InputError(
                f"{path}: the first document of the split '{split}' (doc_id {order[0]}) has "
                f"{ends[0]:,} sentences, more than the {limit:,} that are wanted in all; raise "
                "`sentences` in the configuration"
            )
    chosen = order[begin].tolist()
    found = read_documents(path, split, set(chosen), grouped=grouped, whole=whole)
    held = {unit.unit_id: unit for unit in found}
    return [held[unit_id] for unit_id in chosen]


def _count_sentences(path: str, split: str, order: np.ndarray, whole: bool) -> np.ndarray:
    """Count the sentences of documents, int64, in the order of their numbers."""
    sizes, positions = np.zeros(len(order), np.int64), np.argsort(order)
    ordered = order[positions]
    for batch in read_rows([path], ["doc_id", "text"], split):
        ids = batch.column("doc_id").to_numpy()
        found = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        for row in np.flatnonzero(ordered[found] == ids).tolist():
            text = batch.column("text")[row].as_py()
            sizes[positions[found[row]]] = len(cut_sentences(text, whole))
    return sizes


def sentence_documents(documents: str, trees: str, split_unit: str) -> Iterator[pa.Table]:
    """Stream the sentences that have a tree, schema ``documents``, in order; ``doc_id`` is ``65536
    doc_id + sentence``, ``title`` the page where pages were split, else the document."""
    batches = read_batches(documents, DOCUMENTS, ["doc_id", "split", "title"])
    owners = (row for batch in batches for row in batch.to_pylist())
    owner: dict[str, Any] = {"doc_id": None}
    for batch in read_batches(trees, TREES, ["doc_id", "sentence", "tree"], 1024):
        rows: list[dict[str, Any]] = []
        for doc_id, sentence, tree in (row.values() for row in batch.to_pylist()):
            while owner["doc_id"] != doc_id:
                try:
                    owner = next(owners)
                except StopIteration:
                    wrong = f"{trees}: document {doc_id} is not in {documents}, or out of its order"
                    raise InputError(f"{wrong}; extract the corpus again") from None
            words = leaves(tree)
            page = owner["title"] if split_unit == "page" else ""
            row = {"title": page or f"document {doc_id}", "text": " ".join(words)}
            row |= {"doc_id": doc_id * SENTENCES_OF_A_DOCUMENT + sentence, "split": owner["split"]}
            rows.append({**row, "n_tokens": len(words)})
        yield pa.Table.from_pylist(rows, DOCUMENTS)


def find_partners(
    units: Sequence[CutDocument], path: str, split: str, *, seed: int, whole: bool = False
) -> list[list[str | None]]:
    """Find an unrelated sentence of like length for every sentence of documents, by the seed among
    equal ones; None where no other document has a sentence that differs."""
    if not units:
        return []
    order = order_documents(path, split, seed)
    positions = {unit_id: position for position, unit_id in enumerate(order.tolist())}
    count = min(_FOLLOWERS, len(order) - 1)
    shifts, begins = 1 + np.arange(count), {u.unit_id: positions[u.unit_id] for u in units}
    after = {k: order[(begin + shifts) % len(order)].tolist() for k, begin in begins.items()}
    wanted = {*after, *chain.from_iterable(after.values())}
    found = read_documents(path, split, wanted, grouped=True, whole=whole)
    held = {unit.unit_id: unit for unit in found}
    return [
        _partners(unit, held[unit.unit_id].group, [held[k] for k in after[unit.unit_id]], seed)
        for unit in units
    ]


def _partners(
    unit: CutDocument, title: str | None, others: Sequence[CutDocument], seed: int
) -> list[str | None]:
    unrelated = [other for other in others if title is None or other.group != title]
    pool = [words for other in unrelated for words in other.sentences]
    lengths = np.array([len(words) for words in pool])
    found: list[str | None] = []
    for position, words in enumerate(unit.sentences):
        # another sentence may say the very same
        differs = np.array([other != words for other in pool], bool)
        if not differs.any():
            found.append(None)
            continue
        distances = np.where(differs, np.abs(lengths - len(words)), np.iinfo(np.int64).max)
        nearest = np.flatnonzero(distances == distances.min())
        number = stream(seed, _PARTNER, sentence_item(unit.unit_id, position)).random()
        found.append(" ".join(pool[nearest[int(number * len(nearest))]]))
    return found
