"""Weigh latents in batches, beside a plain loop over instances and samples with the same weights.

    python -m benchmarks.importance [--device auto] [--samples 100] [--instances 5]

Needs the models of the default run (`snakemake importance`). The loops are those that the tests
take as oracles, written the way the published programs work: one sample of one instance at a time.
They draw (or are given) few samples, and are checked to give the same log p and log q. Both are as
the paper has it: samples at six temperatures, and log q of each at all six, which the package finds
in a second pass that draws the latents again. Both have warmed up on an instance. The loops run on
a CPU. The second table is the peak memory of a process that weighs one instance K times, or what it
holds of the GPU.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.importance.model_pair import (
    Pair,
    clock_of,
    load_pair,
    score_temperatures,
    take_instances,
    weigh,
)
from beyond_perplexity.importance.ways_to_draw import LogQOptions, WeightOptions
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.kglm_instances import SPELLINGS
from beyond_perplexity.models.registry import choose_device
from tests.unit import (
    entitynlm_reference,
    kglm_reference,
    masked_diffusion_reference,
    rnng_reference,
)

GRID = (0.5, 0.9, 1.0, 1.1, 2.0, 5.0)
# The orders of masked diffusion are drawn by the model itself.
PAIRS = {"rnng": "rnng-crf", "entitynlm": "entitynlm-peeking", "kglm": "kglm-peeking"}
PAIRS["masked-diffusion"] = "masked-diffusion"
LOOPED = 2  # samples of an instance that the plain loop weighs
Looped = tuple[np.ndarray, np.ndarray, list[list[int]]]  # log p, log q, latents


def load(name: str, device: str, given: argparse.Namespace) -> tuple[Pair, list[Instance]]:
    """Read a pair of the default run and choose instances of the test split."""
    models, proposal = given.results / "models", PAIRS[name]
    pair, words = load_pair(models / name, models / proposal, device, 1, f"{name}/{proposal}")
    files = CorpusFiles.of(given.results / "corpora" / given.corpus)
    every = pair.model.instances(files, "test", words)
    return pair, take_instances(every, range(given.instances), 1)


def draw(pair: Pair, instance: Instance) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a few latents: the random numbers and the rows."""
    batch = InstanceBatch.of([instance])
    generator = torch.Generator().manual_seed(0)
    uniforms = torch.rand(16, pair.proposal.draws(batch), generator=generator, dtype=torch.float64)
    owner = torch.zeros(16, dtype=torch.int64)
    return uniforms[:LOOPED], pair.proposal.sample(batch, owner, uniforms, 1.0)[:LOOPED]


def ours_on(
    pair: Pair, instance: Instance, latents: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Weigh given latents with the package."""
    batch, device = pair.batch(instance), pair.model.device
    rows = torch.tensor(latents, device=device).repeat(16 // LOOPED, 1)
    owner = torch.zeros(16, dtype=torch.int64, device=device)
    log_p = pair.model.log_joint(batch, owner, rows)[:LOOPED]
    log_q = pair.proposal.log_prob(batch, owner, rows, GRID)[:LOOPED]
    return log_p.cpu().numpy(), log_q.cpu().numpy()


def loop_rnng(
    pair: Pair, instance: Instance, uniforms: torch.Tensor, latents: torch.Tensor
) -> Looped:
    tokens = instance.arrays[TOKENS].tolist()
    found = rnng_reference.weigh_by_loops(
        pair.model, pair.proposal, tokens, uniforms.tolist(), 1.0, list(GRID)
    )
    log_p, log_q = (np.array([row[place] for row in found]) for place in (1, 2))
    return log_p, log_q, [list(row[0]) for row in found]


def loop_entitynlm(
    pair: Pair, instance: Instance, uniforms: torch.Tensor, latents: torch.Tensor
) -> Looped:
    tokens = instance.arrays[TOKENS].tolist()
    codes = [[code for code in row if code != PADDING] for row in latents.tolist()]
    found = entitynlm_reference.plain_log_weights(pair.model, pair.proposal, tokens, codes, GRID)
    log_p, log_q = (np.array([row[place] for row in found]) for place in (0, 1))
    return log_p, log_q, codes


def loop_kglm(
    pair: Pair, instance: Instance, uniforms: torch.Tensor, latents: torch.Tensor
) -> Looped:
    tokens, spellings = (instance.arrays[name].tolist() for name in (TOKENS, SPELLINGS))
    found = [
        kglm_reference.weigh(pair.model, pair.proposal, tokens, row, GRID, spellings=spellings)
        for row in uniforms.tolist()
    ]
    log_p = np.array([float(row[1]) for row in found])
    log_q = np.array([[float(value) for value in row[2]] for row in found])
    return log_p, log_q, [list(row[0]) for row in found]


def loop_masked_diffusion(
    pair: Pair, instance: Instance, uniforms: torch.Tensor, latents: torch.Tensor
) -> Looped:
    model: Any = pair.model
    tokens = instance.arrays[TOKENS].tolist()
    weights, heads = masked_diffusion_reference.weights_of(model), model.options.heads
    length = float(model.lengths.log_prob(np.array(len(tokens))))
    found = [
        masked_diffusion_reference.weigh(weights, heads, tokens, order, GRID)
        for order in latents.tolist()
    ]
    log_p = np.array([row[0] for row in found]) + length - math.lgamma(len(tokens) + 1)
    return log_p, np.array([row[1] for row in found]), latents.tolist()


LOOPS: dict[str, Callable[..., Looped]] = {
    "rnng": loop_rnng,
    "entitynlm": loop_entitynlm,
    "kglm": loop_kglm,
    "masked-diffusion": loop_masked_diffusion,
}


def weigh_all(pair: Pair, instances: Sequence[Instance], samples: int) -> None:
    """Draw and weigh samples at all temperatures, then log q of each at all of them."""
    for temperature in GRID:
        for _ in weigh(pair, instances, WeightOptions(temperature), range(samples)):
            pass
    for _ in score_temperatures(pair, instances, LogQOptions(GRID), range(samples)):
        pass


@torch.inference_mode()
def compare(
    pair: Pair, looped: Pair, instances: Sequence[Instance], samples: int, loop: Any
) -> str:
    """Time both and check that they agree; return a row of the table."""
    weigh_all(pair, instances[:1], samples)
    _, now = clock_of(pair.model.device)
    begun = now()
    weigh_all(pair, instances, samples)
    ours = samples * len(GRID) * len(instances) / (now() - begun)
    loop(looped, instances[0], *draw(looped, instances[0]))
    seconds = 0.0
    for instance in instances:
        uniforms, latents = draw(looped, instance)
        start = time.process_time()
        log_p, log_q, held = loop(looped, instance, uniforms, latents)
        seconds += time.process_time() - start
        for found, expected in zip((log_p, log_q), ours_on(pair, instance, held), strict=True):
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-2), (found, expected)
    theirs = LOOPED * len(instances) / seconds
    words = np.mean([len(instance.arrays[TOKENS]) for instance in instances])
    return f"{words:8.0f} {ours:14,.0f} {theirs:12,.2f} {ours / theirs:8,.0f}"


def measure_memory(name: str, given: argparse.Namespace) -> None:
    """Weigh the longest instance; print the peak memory in MiB."""
    pair, instances = load(name, given.device, given)
    longest = max(instances, key=lambda instance: len(instance.arrays[TOKENS]))
    for _ in weigh(pair, [longest], WeightOptions(1.0), range(given.samples)):
        pass
    if pair.model.device.type == "cuda":
        print(torch.cuda.max_memory_reserved() // 2**20)
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="of a run")
    parser.add_argument("--corpus", default="wikipedia", help="that the models are trained on")
    parser.add_argument("--device", default="auto", help="of the package: auto, cpu or cuda")
    parser.add_argument("--samples", type=int, default=100, help="K")
    parser.add_argument("--instances", type=int, default=5, help="of the test split")
    parser.add_argument("--pairs", nargs="+", choices=list(PAIRS), default=list(PAIRS))
    parser.add_argument("--memory", choices=list(PAIRS), help="only weigh, print the peak MiB")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.memory:
        measure_memory(given.memory, given)
        return
    unit, _ = clock_of(choose_device(given.device))
    header = "model               words  ours samples/s  loop sam./s    ratio"
    print(f"{header}   (a second of one {unit})")
    for name in given.pairs:
        pair, instances = load(name, given.device, given)
        looped, _ = load(name, "cpu", given)
        row = compare(pair, looped, instances, given.samples, LOOPS[name])
        print(f"{name:16}", row, flush=True)
    print("peak MiB of a process by K")
    for name in given.pairs:
        peaks = {}
        for samples in (100, 1000, 5000):
            command = [sys.executable, "-m", "benchmarks.importance", "--memory", name]
            command += ["--results", str(given.results), "--corpus", given.corpus]
            command += ["--device", given.device]
            command += ["--samples", str(samples), "--instances", str(given.instances)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks[samples] = int(done.stdout)
        print(f"{name:16}", peaks, flush=True)


if __name__ == "__main__":
    main()
