"""Embed the knowledge graph of a corpus by TransE, with the aliases of its entities."""

from __future__ import annotations

from pathlib import Path

import torch

from beyond_perplexity.arguments import SEED, CommandParser, output_path
from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.latents.kglm_embedding import GraphOptions, embed_corpus_graph
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.storage.provenance import run_record


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--corpus", type=Path, required=True, help="folder of the corpus' tables (Parquet)")
    add("--options", type=json_object, default={}, help="JSON: dimension, epochs, cutoff, ...")
    add("--preprocessing", type=json_object, default={}, help="JSON; aliases are cleaned so")
    add("--seed", type=SEED, default=1, help="seed of vectors, order and negatives (default 1)")
    add("--output", type=output_path, required=True, help="safetensors file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the steps are small
    options = parse_options(GraphOptions, arguments.options, "options")
    cleaning = Preprocessing.from_config(arguments.preprocessing)
    given = {"options": arguments.options, "preprocessing": arguments.preprocessing}
    record = run_record("scripts/embed_graph.py", given, seed=arguments.seed)
    corpus = CorpusFiles.of(arguments.corpus)
    embed_corpus_graph(corpus, options, cleaning, arguments.seed, record, arguments.output)


if __name__ == "__main__":
    run_command(main)
