"""Draw thoughts of a model for one block of prompts and score their answers; write one shard.

A number depends on (seed, options, prompt, sample) and the model alone, not on the shard.
"""

from __future__ import annotations

from dataclasses import asdict

from beyond_perplexity.arguments import ITEM, SEED
from beyond_perplexity.importance.thought_draws import AskingOptions
from beyond_perplexity.library.call_options import DrawThoughtsOptions
from beyond_perplexity.library.thoughts import draw_shard, open_model, read_prompts, thought_record
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.draws import THOUGHTS
from beyond_perplexity.storage.shards import write_shard
from scripts._job import Given, job, json_flag, needed, on_device, output


@job(
    needed("--model", "folder of the model"),
    needed("--prompts", "JSONL, Parquet or CSV file with a prompt and its answer in a row"),
    needed("--fields", "field of the prompt, of the answer", nargs=2),
    needed("--seed", "seed of the run", SEED),
    json_flag("--options", "JSON; see importance/thought_draws.py"),
    needed("--instances", "first, number, of the prompts", ITEM, nargs=2),
    on_device,
    output("--output", "Parquet shard to write"),
)
def main(given: Given) -> None:
    how = parse_options(AskingOptions, given.options, "options")
    named = {key: getattr(given, key) for key in ("model", "seed", "threads", "device")}
    named |= dict(zip(("prompt", "answer"), given.fields, strict=True))
    asked = DrawThoughtsOptions(given.prompts, "", **named, **asdict(how))
    first, number = given.instances
    # All are read, so that a row that cannot be used is told by the first job.
    part = list(read_prompts(asked))[first : first + number]
    with open_model(asked) as (dialogue, about, draw):
        record = thought_record(asked, about, "scripts/draw_thoughts.py")
        write_shard(given.output, THOUGHTS, draw_shard(dialogue, draw, asked, first, part), record)
