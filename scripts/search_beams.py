"""Write one shard of the latents that beam searches under a proposal end with.

Columns of the shard: see ``beams`` in `beyond_perplexity.schemas`.
"""

from __future__ import annotations

import argparse
import json

from tqdm import tqdm

from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.drawing.job import add_flags, open_cell
from beyond_perplexity.importance.drawing.weights import search
from beyond_perplexity.storage.shards import ShardWriter


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.search_beams", description=__doc__)
    add_flags(parser)
    parser.add_argument("--beams", type=json.loads, required=True, help="JSON: sizes of the beam")
    given = parser.parse_args()
    cell = open_cell(given, "scripts/search_beams.py")
    bar = tqdm(cell.instances, unit="instance", mininterval=2)
    with ShardWriter(given.output, "beams", cell.record) as writer:
        for columns in search(cell.pair, bar, given.beams):
            writer.write(dict(columns))


if __name__ == "__main__":
    run_command(main)
