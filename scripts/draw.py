"""Draw from a proposal for one block of instances, in one of several ways; write one shard.

The ways, and the schema of the shard of each, are in beyond_perplexity/importance/ways_to_draw.py.
A number depends on (seed, name, options, instance, sample) and the two models alone, not on the
shard.
"""

from __future__ import annotations

from pkgutil import resolve_name

from tqdm import tqdm

from beyond_perplexity.arguments import ITEM, SEED
from beyond_perplexity.importance.model_pair import Costs, open_job
from beyond_perplexity.importance.ways_to_draw import DRAWS
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas import with_columns
from beyond_perplexity.schemas.draws import DRAW_COSTS, penalized_columns, temperature_columns
from beyond_perplexity.storage.shards import ShardWriter, write_shard
from scripts._job import Given, flag, job, json_flag, needed, on_device, output


@job(
    needed("--draw", "the way to draw", choices=DRAWS),
    needed("--model", "folder of the latent model"),
    needed("--proposal", "folder of the proposal; the model's where it is in it"),
    needed("--corpus", "folder with the tables of the corpus"),
    needed("--split", "train, valid or test"),
    needed("--name", "MODEL/PROPOSAL: keys the random streams"),
    needed("--seed", "seed of the run", SEED),
    json_flag("--options", "JSON; see importance/ways_to_draw.py"),
    needed("--instances", "first, number; in a random order", ITEM, nargs=2),
    flag("--samples", "first, number, of samples or runs; empty: none", ITEM, nargs="*"),
    on_device,
    output("--output", "Parquet shard to write"),
    output("--costs", "Parquet file for the seconds of each instance", required=False),
)
def main(given: Given) -> None:
    row = DRAWS[given.draw]
    run = resolve_name(row.run)
    options = parse_options(resolve_name(row.options), given.options, "options")
    pair, instances, record = open_job(given, "scripts/draw.py", row, options)
    block = [range(given.samples[0], sum(given.samples))] if given.samples else []
    bar = tqdm(instances, desc=row.title, unit="instance", mininterval=2)
    columns = temperature_columns(getattr(options, "temperatures", ()))
    schema = with_columns(resolve_name(row.schema), columns)
    if pair.penalized() is not None and row.reduced:
        schema = with_columns(schema, penalized_columns(schema))
    costs = Costs(pair.model.device)
    drawn = run(pair, bar, options, *block)
    with ShardWriter(given.output, schema, record) as writer:
        for rows in costs.timed(drawn):
            writer.write(rows)
    if given.costs:
        degrees = getattr(options, "temperature", None)
        table = costs.table(given.draw, given.name, degrees)
        write_shard(given.costs, DRAW_COSTS, table, record)
