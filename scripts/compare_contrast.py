"""Compare models on the same distorted texts: differences of H_C and H_CR, and how they read.

The shards of a model are in a folder that has its name.
"""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.arguments import COUNT, SEED, CommandParser, output_file, real
from beyond_perplexity.contrastive.differences import ContrastTests, compare_contrasts
from beyond_perplexity.contrastive.entropy import read_sums
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.schemas.contrastive import CONTRAST_DIFFERENCES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import FileRanges, write_shard


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


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("scores", nargs="+", action=FileRanges, help="all shards of every model, in order")
    add("--base-level", type=real(above=0), default=0.1, help="what ratios divide by (default 0.1)")
    add("--flips", type=COUNT, default=9_999, help="drawn sign-flips of each test (default 9999)")
    add("--seed", type=SEED, default=1, help="seed of the flips (default 1)")
    add("--output", type=output_file, required=True, help="Parquet file to write")
    given = parser.parse_args()
    sums = {name: read_sums(held) for name, held in _by_model(given.scores).items()}
    tests = ContrastTests(given.base_level, given.flips, given.seed)
    table = compare_contrasts(sums, tests)
    record = run_record("scripts/compare_contrast.py", tests._asdict(), seed=given.seed)
    write_shard(given.output, CONTRAST_DIFFERENCES, table, record)


if __name__ == "__main__":
    run_command(main)
