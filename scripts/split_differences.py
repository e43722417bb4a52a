"""Split the differences of models, whose tokens are scored, by parts of the text."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.perplexities.parts import compare_tokens
from beyond_perplexity.schemas.perplexity import PERPLEXITY_PARTS
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, output


@job(
    flag("tokens", "scores of tokens (Parquet), a file a model", nargs="+"),
    output("--output", "Parquet file to write, a row a part"),
)
def main(options: Given) -> None:
    names = [Path(path).stem for path in options.tokens]
    parts, _ = compare_tokens(options.tokens, names)
    write_shard(options.output, PERPLEXITY_PARTS, parts, options.record())
