"""Write one shard of sequential Monte Carlo estimates of log p(x), several runs an instance.

For models that go through a text word by word (EntityNLM, KGLM). Columns of the shard: see
``smc`` in `beyond_perplexity.schemas`.
"""

from __future__ import annotations

import argparse

from tqdm import tqdm

from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.drawing.job import add_flags, open_cell
from beyond_perplexity.importance.drawing.smc import run_smc
from beyond_perplexity.importance.options import SMCOptions
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.storage.shards import ShardWriter


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.smc", description=__doc__)
    add_flags(parser)
    parser.add_argument(
        "--options", type=json_object, default={}, help="JSON object; see importance/options.py"
    )
    given = parser.parse_args()
    options = parse_options(SMCOptions, given.options, "options")
    cell = open_cell(given, "scripts/smc.py", options.temperature)
    bar = tqdm(cell.instances, unit="instance", mininterval=2)
    with ShardWriter(given.output, "smc", cell.record) as writer:
        for columns in run_smc(cell.pair, bar, options):
            writer.write(dict(columns))


if __name__ == "__main__":
    run_command(main)
