"""Write the sentences of a corpus that have a tree as documents of their own."""

from __future__ import annotations

from beyond_perplexity.corpus.sentences import sentence_documents
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import ShardWriter
from scripts._job import Given, job, needed, output


@job(
    needed("--documents", "documents of the corpus, Parquet"),
    needed("--trees", "trees of the corpus, Parquet"),
    needed("--split-unit", "what was split", choices=("document", "page")),
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    record = given.record({"split_unit": given.split_unit})
    with ShardWriter(given.output, DOCUMENTS, record) as writer:
        for table in sentence_documents(given.documents, given.trees, given.split_unit):
            writer.write(table)
