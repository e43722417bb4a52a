"""Put the measures of all papers side by side, correlate them, and say what perplexity misses.

Files are distinguished by their folders: `{model}.parquet` of perplexity, `{model}/{decoding}/` of
tendencies, `{model}/` of contrastive scores, `{model}/{evaluator}/` of semantic scores.
"""

from __future__ import annotations

from beyond_perplexity.arguments import COUNT, SEED, real
from beyond_perplexity.relations import measures
from beyond_perplexity.schemas import relations
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, json_flag, output, shards


@job(
    flag("--perplexities", "scores of documents of every model", nargs="*", default=[]),
    flag("--tendencies", "measures of every sample set", nargs="*", default=[]),
    shards("--contrasts", "contrastive scores, all shards", required=False),
    shards("--semantics", "semantic scores, all shards", required=False),
    flag("--split", "split of the semantic scores (default test)", default="test"),
    flag("--level", "of contrastive entropy (default 0.3)", real(above=0), default=0.3),
    json_flag("--families", "JSON object: the family of each model that may have siblings"),
    flag("--confidence", "of upper limits", real(above=0.5, below=1), default=0.95),
    flag("--resamples", "resamples of documents (default 1999)", COUNT, default=1_999),
    flag("--seed", "seed of the resamples (default 1)", SEED, default=1),
    *(
        output(f"--{name}", "Parquet file to write")
        for name in ("measures", "correlations", "orders")
    ),
)
def main(given: Given) -> None:
    files = measures.RelatedFiles(
        given.perplexities, given.tendencies, given.contrasts, given.semantics
    )
    options = measures.RelationOptions(
        given.split, given.level, given.confidence, given.resamples, given.seed
    )
    found = measures.gather_measures(files, options, given.families)
    record = given.record(options._asdict())
    outputs = (
        (given.measures, relations.RELATION_MEASURES, found.table()),
        (given.correlations, relations.RELATION_CORRELATIONS, measures.correlate_ranks(found.rows)),
        (given.orders, relations.RELATION_ORDERS, measures.compare_orders(found)),
    )
    for path, schema, table in outputs:
        write_shard(path, schema, table, record)
