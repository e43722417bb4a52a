"""Turn the scores of a model, shard by shard, into contrastive entropies, ratios, cross-entropy."""

from __future__ import annotations

from beyond_perplexity.arguments import output_file, real
from beyond_perplexity.contrastive.entropy import measure_contrasts, read_sums
from beyond_perplexity.schemas.contrastive import CONTRASTS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard
from scripts._job import Given, flag, job, needed


@job(
    flag("scores", "all shards of the model, in order", nargs="+", action=FileRanges),
    needed("--model", "name of the model"),
    flag("--base-level", "what ratios divide by (default 0.1)", real(above=0), default=0.1),
    needed("--output", "Parquet file to write", output_file),
)
def main(given: Given) -> None:
    sums = read_sums(given.scores)
    table = measure_contrasts(sums, given.model, given.base_level)
    record = run_record("scripts/measure_contrast.py", {"base_level": given.base_level})
    record["signature"] = sums.signature(base=given.base_level)
    write_shard(given.output, CONTRASTS, table, record)
