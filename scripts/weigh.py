"""Draw latents from a proposal and write one shard of importance weights.

Columns of the shard: see ``log_weights`` in `beyond_perplexity.schemas`. A weight depends on
(seed, name, temperature, instance, sample) and the two models alone, not on the shard.
"""

from __future__ import annotations

import argparse
import json

from tqdm import tqdm

from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.drawing.job import add_flags, open_cell
from beyond_perplexity.importance.drawing.weights import weigh
from beyond_perplexity.schemas import temperature_columns
from beyond_perplexity.storage.shards import ShardWriter


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.weigh", description=__doc__)
    add_flags(parser)
    add = parser.add_argument
    add("--temperature", type=float, required=True, help="of the proposal that is drawn from")
    add("--grid", type=json.loads, required=True, help="JSON: temperatures whose log q is kept")
    add("--first-sample", type=int, default=0, help="number of the first sample")
    add("--samples", type=int, required=True, help="samples of each instance in this shard")
    given = parser.parse_args()
    cell = open_cell(given, "scripts/weigh.py", given.temperature)
    samples = range(given.first_sample, given.first_sample + given.samples)
    bar = tqdm(cell.instances, unit="instance", mininterval=2)
    columns = temperature_columns(given.grid)
    with ShardWriter(given.output, "log_weights", cell.record, columns) as writer:
        for rows in weigh(cell.pair, bar, samples, given.temperature, given.grid):
            writer.write(dict(rows))


if __name__ == "__main__":
    run_command(main)
