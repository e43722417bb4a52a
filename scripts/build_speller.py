"""Build the speller of a closed vocabulary from the documents that it was built from."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.ngrams.spelling_model import build_speller
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.vocabulary import ClosedVocabulary, count_words, load_vocabulary


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet) with splits train and valid")
    add("--vocabulary", required=True, help="closed vocabulary of its training split (JSON)")
    add("--output", type=output_file, required=True, help="speller file (JSON) to write")
    options = parser.parse_args()
    vocabulary = load_vocabulary(options.vocabulary)
    if not isinstance(vocabulary, ClosedVocabulary):
        raise InputError(
            f"{options.vocabulary}: is an open vocabulary ({vocabulary.kind}), which has no "
            "unknown words to spell; give a closed one"
        )
    trained, validated = (
        count_words(read_texts([options.documents], split)) for split in ("train", "valid")
    )
    build_speller(trained, validated, vocabulary).save(options.output)


if __name__ == "__main__":
    run_command(main)
