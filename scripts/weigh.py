"""Draw latents from a proposal and write one shard of importance weights.

Columns of the shard: see ``log_weights`` in `beyond_perplexity.shards`. A weight depends on
(seed, name, temperature, instance, sample) and the two models alone, not on the shard.
"""

from __future__ import annotations

import argparse
import json

import torch
from tqdm import tqdm

from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.weights import choose_instances, load_pair, weigh
from beyond_perplexity.instances.store import CorpusFiles
from beyond_perplexity.models.checkpoint import WEIGHTS
from beyond_perplexity.provenance import run_record
from beyond_perplexity.shards import ShardWriter, temperature_columns


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.weigh", description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="folder of the latent model")
    add("--proposal", required=True, help="folder of the proposal; the model's where it is in it")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", required=True, help="train, valid or test")
    add("--name", required=True, help="MODEL/PROPOSAL: keys the random streams")
    add("--seed", type=int, required=True, help="seed of the run")
    add("--temperature", type=float, required=True, help="of the proposal that is drawn from")
    add("--grid", type=json.loads, required=True, help="JSON: temperatures whose log q is kept")
    add("--instances", type=int, help="how many of the split, chosen at random (default all)")
    add("--first-instance", type=int, default=0, help="first of the chosen ones in this shard")
    add("--instance-count", type=int, required=True, help="instances of this shard")
    add("--first-sample", type=int, default=0, help="number of the first sample")
    add("--samples", type=int, required=True, help="samples of each instance in this shard")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--output", required=True, help="Parquet shard to write")
    given = parser.parse_args()
    torch.set_num_threads(max(given.threads, 1))
    pair, words = load_pair(given.model, given.proposal, given.device, given.seed, given.name)
    split = pair.model.instances(CorpusFiles.of(given.corpus), given.split, words)
    chosen = choose_instances(split, given.instances, given.seed)
    part = chosen[given.first_instance :][: given.instance_count]
    options = {key: value for key, value in vars(given).items() if key not in ("output", "threads")}
    weights = f"{given.model}/{WEIGHTS}"
    record = run_record(
        "scripts/weigh.py", options, seed=given.seed, device=given.device, checkpoint=weights
    )
    record = pair.labels(words, given.temperature).in_record(record)
    samples = range(given.first_sample, given.first_sample + given.samples)
    bar = tqdm(part, unit="instance", mininterval=2)
    with ShardWriter(given.output, "log_weights", record, temperature_columns(given.grid)) as out:
        for rows in weigh(pair, bar, samples, given.temperature, given.grid):
            out.write(dict(rows))


if __name__ == "__main__":
    run_command(main)
