"""Describe the latent variables of one instance of a split, for people, as JSON."""

from __future__ import annotations

from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.importance.model_pair import load_pair
from beyond_perplexity.importance.posterior_latents import describe
from beyond_perplexity.storage.outputs import write_json
from scripts._job import Given, job, needed, output


@job(
    needed("--model", "folder of the latent model"),
    needed("--proposal", "folder of the proposal; the model's where it is in it"),
    needed("--corpus", "folder with the tables of the corpus"),
    needed("--split", "train, valid or test"),
    needed("--name", "what the model is called"),
    output("--output", "JSON file to write"),
)
def main(given: Given) -> None:
    pair, words = load_pair(given.model, given.proposal, "cpu", 0, "")
    instances = pair.model.instances(CorpusFiles.of(given.corpus), given.split, words)
    write_json(given.output, describe(pair, given.name, instances, words))
