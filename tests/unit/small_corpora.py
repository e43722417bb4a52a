"""A small corpus with its vocabulary, as a training reads them."""

from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary


def write_documents(path, texts, splits, titles=None, ids=None) -> str:
    """Write documents; their ids are their places, and their titles empty, where none are given."""
    columns = {"doc_id": list(ids or range(len(texts))), "split": list(splits)}
    columns |= {"title": list(titles or [""] * len(texts)), "text": list(texts)}
    columns["n_tokens"] = [len(text.split()) for text in texts]
    write_shard(path, DOCUMENTS, columns, {})
    return str(path)


def write_corpus(
    folder: Path, texts: Sequence[str], train: int, words: Sequence[str] = (), unknown: int = 0
) -> Path:
    """Write texts, the first `train` of them to train on and the others to validate."""
    splits = ["train"] * train + ["valid"] * (len(texts) - train)
    write_documents(folder / "documents.parquet", texts, splits)
    if words:
        ClosedVocabulary(list(words), unknown).save(folder / "vocabulary.json")
    return folder


def put(path, content):
    """Write text or bytes to a file; return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
