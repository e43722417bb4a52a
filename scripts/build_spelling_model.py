"""Build the spelling model of a closed vocabulary from the documents that it was built from."""

from __future__ import annotations

from beyond_perplexity.arguments import output_file
from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.spelling_model import build_spelling_model
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.vocabulary import ClosedVocabulary, count_words, load_vocabulary
from scripts._job import Given, job, needed


@job(
    needed("--documents", "documents file (Parquet) with splits train and valid"),
    needed("--vocabulary", "closed vocabulary of its training split (JSON)"),
    needed("--output", "spelling model file (JSON) to write", output_file),
)
def main(options: Given) -> None:
    vocabulary = load_vocabulary(options.vocabulary)
    if not isinstance(vocabulary, ClosedVocabulary):
        fault = f"is an open vocabulary ({vocabulary.kind}), which has no unknown words to spell"
        raise InputError(f"{options.vocabulary}: {fault}; give a closed one")
    trained, validated = (
        count_words(read_texts([options.documents], split)) for split in ("train", "valid")
    )
    build_spelling_model(trained, validated, vocabulary).save(options.output)
