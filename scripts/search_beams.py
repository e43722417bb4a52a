"""Write one shard of the latents that beam searches under a proposal end with.

Columns of the shard: see ``beams`` in `beyond_perplexity.shards`.
"""

from __future__ import annotations

import argparse
import json

import torch
from tqdm import tqdm

from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.weights import choose_instances, load_pair, search
from beyond_perplexity.instances.store import CorpusFiles
from beyond_perplexity.models.checkpoint import WEIGHTS
from beyond_perplexity.provenance import run_record
from beyond_perplexity.shards import ShardWriter


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.search_beams", description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="folder of the latent model")
    add("--proposal", required=True, help="folder of the proposal; the model's where it is in it")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", required=True, help="train, valid or test")
    add("--name", required=True, help="MODEL/PROPOSAL: kept with the shard")
    add("--seed", type=int, required=True, help="seed of the run")
    add("--beams", type=json.loads, required=True, help="JSON: sizes of the beam")
    add("--instances", type=int, help="how many of the split, chosen at random (default all)")
    add("--first-instance", type=int, default=0, help="first of the chosen ones in this shard")
    add("--instance-count", type=int, required=True, help="instances of this shard")
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
        "scripts/search_beams.py", options, seed=given.seed, device=given.device, checkpoint=weights
    )
    record = pair.labels(words, None).in_record(record)
    with ShardWriter(given.output, "beams", record) as writer:
        for columns in search(pair, tqdm(part, unit="instance", mininterval=2), given.beams):
            writer.write(dict(columns))


if __name__ == "__main__":
    run_command(main)
