"""Turn the scores of a model, shard by shard, into contrastive entropies, ratios, cross-entropy."""

from __future__ import annotations

from beyond_perplexity.arguments import real
from beyond_perplexity.contrastive.entropy import measure_contrasts, read_sums
from beyond_perplexity.schemas.contrastive import CONTRASTS
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, needed, output, shards


@job(
    shards("scores", "all shards of the model, in order"),
    needed("--model", "name of the model"),
    flag("--base-level", "what ratios divide by (default 0.1)", real(above=0), default=0.1),
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    sums = read_sums(given.scores)
    table = measure_contrasts(sums, given.model, given.base_level)
    record = given.record({"base_level": given.base_level})
    record["signature"] = sums.signature(base=given.base_level)
    write_shard(given.output, CONTRASTS, table, record)
