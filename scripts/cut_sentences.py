"""Write the sentences of a corpus that have a tree as documents of their own."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.corpus.sentences import sentence_documents
from beyond_perplexity.errors import run_command
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents of the corpus, Parquet")
    add("--trees", required=True, help="trees of the corpus, Parquet")
    add("--split-unit", required=True, choices=("document", "page"), help="what was split")
    add("--output", type=output_file, required=True, help="Parquet file to write")
    given = parser.parse_args()
    record = run_record("scripts/cut_sentences.py", {"split_unit": given.split_unit})
    with ShardWriter(given.output, DOCUMENTS, record) as writer:
        for table in sentence_documents(given.documents, given.trees, given.split_unit):
            writer.write(table)


if __name__ == "__main__":
    run_command(main)
