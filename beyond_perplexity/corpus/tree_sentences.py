"""The sentences of a corpus as documents of their own, for models that write sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from beyond_perplexity.corpus.penn import leaves
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.corpora import DOCUMENTS, SENTENCES_OF_A_DOCUMENT, TREES
from beyond_perplexity.storage.shards import read_batches

_READ = 1024  # rows at once


class _Owner(NamedTuple):
    """The document of a sentence."""

    doc_id: int
    split: str
    title: str


def _owners(documents: str) -> Iterator[_Owner]:
    for batch in read_batches(documents, DOCUMENTS, ["doc_id", "split", "title"]):
        for row in batch.to_pylist():
            yield _Owner(row["doc_id"], row["split"], row["title"])


def sentence_documents(documents: str, trees: str, split_unit: str) -> Iterator[pa.Table]:
    """Stream the sentences that have a tree, in the order of the corpus.

    Parameters
    ----------
    documents, trees : str
        Parquet files of a corpus, schemas ``documents`` and ``trees``.
    split_unit : "document" or "page"
        What the splits keep whole.

    Yields
    ------
    pyarrow.Table
        Schema ``documents``. ``doc_id`` is ``65536 doc_id + sentence``, as instances of trees are
        numbered. ``title`` names what sentences belong together with: the page where whole pages
        were split, else the document; texts of the same title are no independent ones.

    Raises
    ------
    InputError
        When the trees are not of these documents in their order.
    """
    owners = _owners(documents)
    owner: _Owner | None = None
    for batch in read_batches(trees, TREES, ["doc_id", "sentence", "tree"], _READ):
        rows: list[dict[str, Any]] = []
        for row in batch.to_pylist():
            while owner is None or owner.doc_id != row["doc_id"]:
                owner = next(owners, None)
                if owner is None:
                    raise InputError(
                        f"{trees}: document {row['doc_id']} is not in {documents}, or out of its "
                        "order; extract the corpus again"
                    )
            rows.append(_sentence(row, owner, split_unit))
        yield pa.Table.from_pylist(rows, DOCUMENTS)


def _sentence(row: dict[str, Any], owner: _Owner, split_unit: str) -> dict[str, Any]:
    words = leaves(row["tree"])
    page = owner.title if split_unit == "page" else ""
    return {
        "doc_id": owner.doc_id * SENTENCES_OF_A_DOCUMENT + row["sentence"],
        "split": owner.split,
        "title": page or f"document {owner.doc_id}",
        "text": " ".join(words),
        "n_tokens": len(words),
    }
