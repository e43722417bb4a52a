"""Compare samples with human text in the space of an encoder; join the rows to other measures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.arguments import COUNT, SEED
from beyond_perplexity.schemas.tendencies import SENSITIVITY, TENDENCY_MEASURES
from beyond_perplexity.signature import changed, refuse_mixed
from beyond_perplexity.storage.shards import read_batches, read_record, write_shard
from beyond_perplexity.tendencies import embedding_measures
from beyond_perplexity.tendencies.embedded_documents import (
    FURTHER,
    HUMAN,
    EmbeddedPair,
    EmbeddedText,
    read_embeddings,
)
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.sensitivity import shift_table
from scripts._job import Given, flag, job, json_flag, needed, output


def _read(paths: list[str], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(list(read_batches(paths, schema, schema.names)), schema)


class _Comparisons:
    """The comparisons of a file of vectors."""

    def __init__(self, given: Given) -> None:
        self._texts = read_embeddings(given.embeddings)
        self._seed, self._sample_sets = given.seed, given.sample_sets
        self._options = MeasurementOptions.from_config(given.options)
        self._how = SensitivityOptions.from_config(given.sensitivity_options)
        self._smallest = cache(self._find_smallest)

    def _human(self, vocabulary: str) -> tuple[EmbeddedText, EmbeddedText]:
        return self._texts[HUMAN, vocabulary], self._texts[FURTHER, vocabulary]

    def joined(self, table: pa.Table) -> pa.Table:
        """Join the rows of embeddings of a sample set to its measures."""
        first, rows = table.slice(0, 1).to_pylist()[0], [embedding_measures.without_vectors()]
        vocabulary = str(first["vocabulary"])
        texts = [self._texts.get((name, vocabulary)) for name in (first["source"], HUMAN, FURTHER)]
        held = [text for text in texts if text is not None and len(text) >= 2]
        if len(held) == len(texts):
            # Documents were drawn from the first shards; the rows tell how many there are in all.
            samples = replace(held[0], n_documents=int(first["n_samples"]))
            reference, further = replace(held[1], n_documents=int(first["n_reference"])), held[2]
            pair = EmbeddedPair.of(reference, samples, further)
            baseline = (
                embedding_measures.further_baseline(further, pair, self._seed)
                if self._options.permutations
                else None
            )
            smallest = self._smallest(vocabulary, pair.n_documents)
            own: Any = {"baseline": baseline, "smallest": smallest}
            rows = list(embedding_measures.embedding_rows(pair, self._options, self._seed, **own))
        return embedding_measures.joined_measures(
            table, rows, self._options.permutations, self._sample_sets
        )

    def _find_smallest(self, vocabulary: str, n_documents: tuple[int, int]) -> tuple[float, float]:
        both = embedding_measures.human_shifts(*self._human(vocabulary), seed=self._seed)
        return embedding_measures.smallest_topic_share(both, n_documents, self._how, self._seed)

    def sensitivity(self) -> pa.Table:
        """Find the minimum detectable effects for the given numbers of documents, in raw text."""
        readings = [vocabulary for source, vocabulary in self._texts if source == HUMAN]
        human = self._human(min(readings, key=lambda name: name != "raw"))
        both = embedding_measures.human_shifts(*human, seed=self._seed)
        grouped = human[0].groups is not None
        return shift_table([both], self._how, self._seed, HUMAN, grouped=grouped)


@job(
    needed("--embeddings", "vectors of all sample sets of a corpus"),
    needed("--measures", "measures of these sample sets", nargs="+"),
    flag("--sensitivity", "minimum detectable effects of the other tendencies of the corpus"),
    flag("--sample-sets", "sample sets that share one family of tests", COUNT, default=1),
    json_flag("--options", "JSON; see tendencies/measurement_options.py"),
    json_flag("--sensitivity-options", "JSON object; likewise"),
    flag("--seed", "seed of all draws", SEED, default=0),
    output("--output", "all measures, with these"),
    output("--output-sensitivity", "all detectable effects, with these", required=False),
)
def main(given: Given) -> None:
    record = given.record()
    signatures: dict[str, Any] = {p: read_record(p).get("signature") for p in given.measures}
    refuse_mixed(signatures)
    encoder: Any = read_record(given.embeddings).get("evaluator", {})
    line = next(filter(None, signatures.values()), "tendencies")
    record["signature"] = changed(line, embedding=encoder.get("title"), holm=given.sample_sets)
    tables = _read(given.measures, TENDENCY_MEASURES)
    measured = _Comparisons(given)
    sources = tables["source"]
    names = sources.unique().to_pylist()
    joined = [measured.joined(tables.filter(pc.equal(sources, name))) for name in names]
    write_shard(given.output, TENDENCY_MEASURES, pa.concat_tables(joined), record)
    if given.output_sensitivity:
        found = [_read([given.sensitivity], SENSITIVITY)] if given.sensitivity else []
        table = pa.concat_tables([*found, measured.sensitivity()])
        write_shard(given.output_sensitivity, SENSITIVITY, table, record)
