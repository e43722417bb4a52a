"""A small corpus with its vocabulary, as a training reads them."""

from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary


def write_documents(path, texts, splits, titles=(), ids=()):
    """Write documents, without titles and numbered from 0 where nothing else is given."""
    n = len(texts)
    columns = {"doc_id": list(ids or range(n)), "split": list(splits), "text": list(texts)}
    columns |= {"title": list(titles or [""] * n), "n_tokens": [len(t.split()) for t in texts]}
    write_shard(path, DOCUMENTS, columns, {})
    return str(path)


def write_corpus(folder, texts, train, words=(), unknown=0):
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
