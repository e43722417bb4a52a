"""Score the instances that a latent model is weighed on under a model without latent variables."""

from __future__ import annotations

import torch

from beyond_perplexity.arguments import COUNT, SEED, THREADS, CommandParser, output_file
from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.importance.model_pair import take_instances
from beyond_perplexity.importance.posterior_latents import group_instances, score_beside
from beyond_perplexity.models.latent import LatentModel
from beyond_perplexity.models.registry import WEIGHTS, load_any, load_model
from beyond_perplexity.schemas.draws import INSTANCE_SCORES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter


def main() -> None:
    parser = CommandParser(prog="python -m scripts.score_beside", description=__doc__)
    add = parser.add_argument
    add("--latent", required=True, help="folder of the latent model")
    add("--model", required=True, help="folder of the model without latent variables")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", required=True, help="train, valid or test")
    add("--split-unit", required=True, choices=("document", "page"), help="what was split")
    add("--names", required=True, nargs=2, help="names of the latent model and of the other")
    add("--seed", type=SEED, required=True, help="seed of the run: it chooses the instances")
    add("--instances", type=COUNT, required=True, help="number of the instances")
    add("--threads", type=THREADS, default=1, help="CPU threads")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--output", type=output_file, required=True, help="Parquet file to write")
    given = parser.parse_args()
    torch.set_num_threads(max(given.threads, 1))
    latent, words, description = load_any(given.latent, "cpu")
    model, vocabulary, _ = load_model(given.model, given.device)
    if not isinstance(latent, LatentModel):
        raise InputError(f"{given.latent}: is no model with latent variables")
    if words.hash != vocabulary.hash:
        raise InputError(f"{given.model}: has another vocabulary than {given.latent}")
    corpus = CorpusFiles.of(given.corpus)
    split = latent.instances(corpus, given.split, words)
    taken = take_instances(split, range(given.instances), given.seed)
    held = [one.instance_id for one in taken]
    family = description["config"]["family"]
    groups = group_instances(family, held, str(corpus.documents), given.split_unit)
    checkpoint = f"{given.model}/{WEIGHTS}"
    flags = {"latent": given.latent, "split": given.split, "instances": given.instances}
    device = str(model.device)
    record = run_record(
        "scripts/score_beside.py", flags, seed=given.seed, device=device, checkpoint=checkpoint
    )
    named = {"model": given.names[0], "beside": given.names[1]}
    with ShardWriter(given.output, INSTANCE_SCORES, record) as writer:
        for row in score_beside(latent, model, taken):
            one = {**named, **row, "group": groups[row["instance_id"]]}
            writer.write({name: [value] for name, value in one.items()})


if __name__ == "__main__":
    run_command(main)
