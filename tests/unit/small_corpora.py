"""A small corpus with its vocabulary, as a training reads them."""

from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary


def write_corpus(
    folder: Path, texts: Sequence[str], train: int, words: Sequence[str] = (), unknown: int = 0
) -> Path:
    """Write texts, the first `train` of them to train on and the others to validate."""
    columns = {
        "doc_id": list(range(len(texts))),
        "split": ["train"] * train + ["valid"] * (len(texts) - train),
        "title": [""] * len(texts),
        "text": list(texts),
        "n_tokens": [len(text.split()) for text in texts],
    }
    write_shard(folder / "documents.parquet", DOCUMENTS, columns, {})
    if words:
        ClosedVocabulary(list(words), unknown).save(folder / "vocabulary.json")
    return folder


def put(path, content):
    """Write text or bytes to a file; return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
