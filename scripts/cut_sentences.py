"""Write the sentences of a corpus that have a tree as documents of their own."""

from __future__ import annotations

from beyond_perplexity.arguments import output_file
from beyond_perplexity.corpus.sentences import sentence_documents
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter
from scripts._job import Given, job, needed


@job(
    needed("--documents", "documents of the corpus, Parquet"),
    needed("--trees", "trees of the corpus, Parquet"),
    needed("--split-unit", "what was split", choices=("document", "page")),
    needed("--output", "Parquet file to write", output_file),
)
def main(given: Given) -> None:
    record = run_record("scripts/cut_sentences.py", {"split_unit": given.split_unit})
    with ShardWriter(given.output, DOCUMENTS, record) as writer:
        for table in sentence_documents(given.documents, given.trees, given.split_unit):
            writer.write(table)
