"""Draw from a proposal for one block of instances, in one of several ways; write one shard.

The ways, and the schema of the shard of each, are in beyond_perplexity/importance/ways_to_draw.py.
A number depends on (seed, name, options, instance, sample) and the two models alone, not on the
shard.
"""

from __future__ import annotations

from pkgutil import resolve_name

from tqdm import tqdm

from beyond_perplexity.arguments import ITEM, SEED, THREADS, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.model_pair import Costs, open_job
from beyond_perplexity.importance.ways_to_draw import DRAWS
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.schemas import with_columns
from beyond_perplexity.schemas.draws import DRAW_COSTS, penalized_columns, temperature_columns
from beyond_perplexity.storage.shards import ShardWriter, write_shard


def main() -> None:
    parser = CommandParser(prog="python -m scripts.draw", description=__doc__)
    add = parser.add_argument
    add("--draw", required=True, choices=list(DRAWS), help="the way to draw")
    add("--model", required=True, help="folder of the latent model")
    add("--proposal", required=True, help="folder of the proposal; the model's where it is in it")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", required=True, help="train, valid or test")
    add("--name", required=True, help="MODEL/PROPOSAL: keys the random streams")
    add("--seed", type=SEED, required=True, help="seed of the run")
    add("--options", type=json_object, default={}, help="JSON; see importance/ways_to_draw.py")
    add("--instances", type=ITEM, nargs=2, required=True, help="first, number; in a random order")
    add("--samples", type=ITEM, nargs="*", help="first, number, of samples or runs; empty: none")
    add("--threads", type=THREADS, default=1, help="CPU threads")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--output", type=output_file, required=True, help="Parquet shard to write")
    add("--costs", type=output_file, help="Parquet file for the seconds of each instance")
    given = parser.parse_args()
    row = DRAWS[given.draw]
    run = resolve_name(row.run)
    options = parse_options(resolve_name(row.options), given.options, "options")
    job = open_job(given, "scripts/draw.py", row, options)
    block = [range(given.samples[0], sum(given.samples))] if given.samples else []
    bar = tqdm(job.instances, desc=row.title, unit="instance", mininterval=2)
    columns = temperature_columns(getattr(options, "temperatures", ()))
    schema = with_columns(resolve_name(row.schema), columns)
    if job.pair.penalized() is not None and row.reduced:
        schema = with_columns(schema, penalized_columns(schema))
    costs = Costs(job.pair.model.device)
    drawn = run(job.pair, bar, options, *block)
    with ShardWriter(given.output, schema, job.record) as writer:
        for rows in costs.timed(drawn, lambda rows: int(rows["instance_id"][0])):
            writer.write(rows)
    if given.costs:
        degrees = getattr(options, "temperature", None)
        table = costs.table(given.draw, given.name, degrees)
        write_shard(given.costs, DRAW_COSTS, table, job.record)


if __name__ == "__main__":
    run_command(main)
