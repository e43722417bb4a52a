"""Embed documents of the samples that are compared with a corpus, and of its human text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from beyond_perplexity.arguments import COUNT, SEED
from beyond_perplexity.schemas.tendencies import EMBEDDINGS
from beyond_perplexity.semantics.evaluators.contract import encoder_of, load_evaluator
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.embedded_documents import (
    FURTHER,
    HUMAN,
    EmbeddedText,
    TextEncoder,
    TextKey,
    chosen_documents,
    embedded_documents,
    further_documents,
    vectors_table,
)
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView, vocabulary_words
from scripts._job import OF_REFERENCE, READING, Given, flag, job, json_flag, needed, output, shards


def _texts(given: Given, encoder: TextEncoder) -> Iterator[tuple[TextKey, EmbeddedText]]:
    raw = TextView(None, given.maximum_tokens, given.minimum_tokens)
    paths = {Path(path).stem: path for path in given.vocabularies}
    views = {name: replace(raw, words=vocabulary_words(path)) for name, path in paths.items()}
    views[RAW_TEXT] = raw
    files = DocumentFiles(
        given.reference_documents, given.reference_split, given.first, raw, given.group_column
    )
    groups = files.groups()
    n = sum(batch.num_rows for batch in files.rows("text"))
    places = chosen_documents((n, 0), (groups, None), given.documents, given.seed)[0]
    further = further_documents(
        files, given.pool_split, len(places), given.documents, grouped=groups is not None
    )
    sources = _sources(given.samples)
    read_in = {source: str(given.readings.get(source, RAW_TEXT)) for source in sources}
    for vocabulary in dict.fromkeys(read_in.values()):
        read = views[vocabulary].batch
        yield (HUMAN, vocabulary), embedded_documents(files, places, n, groups, read, encoder)
        others, chosen, own = further
        text = embedded_documents(others, chosen, len(chosen), own, read, encoder)
        yield (FURTHER, vocabulary), text
    for source, held in sources.items():
        samples = DocumentFiles(tuple(held), view=raw)
        m = sum(batch.num_rows for batch in samples.rows("text"))
        chosen = chosen_documents((0, m), (None, None), given.documents, given.seed)[1]
        read = views[read_in[source]].batch
        text = embedded_documents(samples, chosen, m, None, read, encoder)
        yield (source, read_in[source]), text


def _sources(shards: list[str]) -> dict[str, list[str]]:
    """Gather shards by the sample set that their folders name."""
    found: dict[str, list[str]] = {}
    for path in shards:
        found.setdefault("/".join(Path(path).resolve().parts[-3:-1]), []).append(path)
    return found


@job(
    json_flag("--encoder", "JSON object: an evaluator with vectors", required=True),
    needed("--reference-documents", "Parquet files of the corpus", nargs="+"),
    flag("--reference-split", "split that is the reference", default="test"),
    flag("--pool-split", "split with further human documents, for baselines", default="train"),
    *OF_REFERENCE,
    shards("--samples", "shards, {model}/{decoding}/{shard}.parquet"),
    json_flag("--readings", "JSON: vocabulary by model/decoding"),
    flag("--vocabularies", "files {vocabulary}.txt, one word a line", nargs="*", default=[]),
    *READING,
    needed("--documents", "documents of each text, at most", COUNT),
    flag("--seed", "seed of the choice of documents", SEED, default=0),
    flag("--device", "auto, cpu or cuda", default="auto"),
    output("--output", "vectors to write"),
)
def main(given: Given) -> None:
    evaluator = load_evaluator(given.encoder, device=given.device)
    record = given.record()
    record["evaluator"] = evaluator.describe()
    with ShardWriter(given.output, EMBEDDINGS, record) as writer:
        for key, text in _texts(given, encoder_of(evaluator)):
            writer.write(vectors_table(key, text))
