"""Estimate a latent model's perplexity by sequential Monte Carlo: tighter on long documents.

For models that go through a text word by word (EntityNLM). Prints the perplexity at the level of
instances, a stochastic upper bound, and writes log p of each instance.
"""

from __future__ import annotations

import argparse
import math

import pandas as pd
from tqdm import tqdm

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.importance.smc import smc_instances
from beyond_perplexity.importance.weights import choose_instances, load_pair
from beyond_perplexity.instances.store import CorpusFiles
from beyond_perplexity.shards import atomic_path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.smc", description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="folder of the latent model")
    add("--proposal", required=True, help="folder of the proposal")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", default="test", help="train, valid or test (default test)")
    add("--instances", type=int, help="how many of the split, chosen at random (default all)")
    add("--particles", type=int, default=100, help="K (default 100)")
    add("--temperature", type=float, default=1.0, help="of the proposal (default 1)")
    add("--seed", type=int, default=1, help="of the particles (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--output", required=True, help="CSV to write, a row per instance")
    given = parser.parse_args()
    if given.particles < 1:
        raise InputError(f"--particles: is {given.particles}, expected at least 1")
    pair, words = load_pair(given.model, given.proposal, given.device, given.seed, "smc")
    split = pair.model.instances(CorpusFiles.of(given.corpus), given.split, words)
    chosen = tqdm(choose_instances(split, given.instances, given.seed), mininterval=2)
    rows = list(smc_instances(pair, chosen, given.particles, given.temperature))
    if not rows:
        raise InputError(f"{given.corpus}: the split '{given.split}' has no instances")
    table = pd.DataFrame(rows)
    with atomic_path(given.output) as temporary:
        table.to_csv(temporary, index=False)
    perplexity = math.exp(-table["log_prob"].sum() / table["n_tokens"].sum())
    print(
        f"perplexity {perplexity:.2f}, a stochastic upper bound ({len(table)} instances, "
        f"{given.particles} particles; T counts {pair.model.t_definition})"
    )


if __name__ == "__main__":
    run_command(main)
