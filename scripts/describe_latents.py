"""Describe the latent variables of one instance of a split, for people, as JSON."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.errors import run_command
from beyond_perplexity.importance.model_pair import load_pair
from beyond_perplexity.importance.posterior_latents import describe
from beyond_perplexity.storage.outputs import write_json


def main() -> None:
    parser = CommandParser(prog="python -m scripts.describe_latents", description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="folder of the latent model")
    add("--proposal", required=True, help="folder of the proposal; the model's where it is in it")
    add("--corpus", required=True, help="folder with the tables of the corpus")
    add("--split", required=True, help="train, valid or test")
    add("--name", required=True, help="what the model is called")
    add("--output", type=output_file, required=True, help="JSON file to write")
    given = parser.parse_args()
    pair, words = load_pair(given.model, given.proposal, "cpu", 0, "")
    instances = pair.model.instances(CorpusFiles.of(given.corpus), given.split, words)
    write_json(given.output, describe(pair, given.name, instances, words))


if __name__ == "__main__":
    run_command(main)
