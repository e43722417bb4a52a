"""Score the instances that a latent model is weighed on under a model without latent variables.

Or under its own sampler without latents, and short ones by a sum over all latents where it can.
"""

from __future__ import annotations

from itertools import chain

import torch

from beyond_perplexity.arguments import COUNT, SEED
from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.model_pair import take_instances
from beyond_perplexity.importance.posterior_latents import (
    DeterministicModel,
    group_instances,
    score_beside,
)
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.latent import LatentModel
from beyond_perplexity.models.registry import load_any, load_model
from beyond_perplexity.schemas.draws import EXACT, INSTANCE_SCORES
from beyond_perplexity.storage.shards import ShardWriter
from scripts._job import Given, job, needed, on_device, output


@job(
    needed("--latent", "folder of the latent model"),
    needed(
        "--model",
        "folder of the model without latent variables, or again of one that can do without",
    ),
    needed("--corpus", "folder with the tables of the corpus"),
    needed("--split", "train, valid or test"),
    needed("--split-unit", "what was split", choices=("document", "page")),
    needed("--names", "names of the latent model and of the other", nargs=2),
    needed("--seed", "seed of the run: it chooses the instances", SEED),
    needed("--instances", "number of the instances", COUNT),
    on_device,
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(max(given.threads, 1))
    latent, words, description = load_any(given.latent, "cpu")
    if not isinstance(latent, LatentModel):
        raise InputError(f"{given.latent}: is no model with latent variables")
    load = load_any if given.model == given.latent else load_model
    model, vocabulary, _ = load(given.model, given.device)
    if not isinstance(model, LanguageModel | DeterministicModel):
        raise InputError(f"{given.model}: has no sampler without latent variables; name another")
    if words.hash != vocabulary.hash:
        raise InputError(f"{given.model}: has another vocabulary than {given.latent}")
    corpus = CorpusFiles.of(given.corpus)
    split = latent.instances(corpus, given.split, words)
    taken = take_instances(split, range(given.instances), given.seed)
    held = [one.instance_id for one in taken]
    family = description["config"]["family"]
    groups = group_instances(family, held, str(corpus.documents), given.split_unit)
    flags = {"latent": given.latent, "split": given.split, "instances": given.instances}
    record = given.model_record(model, flags)
    named = {"model": given.names[0], "beside": given.names[1]}
    with ShardWriter(given.output, INSTANCE_SCORES, record) as writer:
        exactly = getattr(model, "exact_rows", None)  # of a latent model that is summed over
        exact = {"beside": f"{given.names[1]}{EXACT}"}
        scored = (named | row for row in score_beside(latent, model, taken))
        summed = (named | exact | row for row in (exactly(taken) if exactly else ()))
        for row in chain(scored, summed):
            one = {**row, "group": groups[row["instance_id"]]}
            writer.write({name: [value] for name, value in one.items()})
