"""Compare models on the same distorted texts: differences of H_C and H_CR, and how they read.

The shards of a model are in a folder that has its name.
"""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.arguments import real
from beyond_perplexity.contrastive.differences import compare_contrasts
from beyond_perplexity.contrastive.entropy import read_sums
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.contrastive import CONTRAST_DIFFERENCES
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, flag, job, output, shards


def _by_model(paths: list[str]) -> dict[str, list[str]]:
    """Sort shards by the folder that they are in; folders of one name are an error."""
    folders: dict[Path, list[str]] = {}
    for path in paths:
        folders.setdefault(Path(path).parent, []).append(path)
    names = [folder.name for folder in folders]
    for folder in folders:
        if names.count(folder.name) > 1:
            raise InputError(f"{folder}: two folders have this name; rename one of them")
    return {folder.name: held for folder, held in folders.items()}


@job(
    shards("scores", "all shards of every model, in order"),
    flag("--base-level", "what ratios divide by (default 0.1)", real(above=0), default=0.1),
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    sums = {name: read_sums(held) for name, held in _by_model(given.scores).items()}
    table = compare_contrasts(sums, given.base_level)
    first = next(iter(sums.values()))
    signature = first.signature(base=given.base_level)
    record = given.record({"base_level": given.base_level}) | {"signature": signature}
    write_shard(given.output, CONTRAST_DIFFERENCES, table, record)
