"""Embed the knowledge graph of a corpus by TransE, with the aliases of its entities."""

from __future__ import annotations

from pathlib import Path

import torch

from beyond_perplexity.arguments import SEED, output_path
from beyond_perplexity.corpus.latent_instances import CorpusFiles
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.models.latents.kglm_embedding import GraphOptions, embed_corpus_graph
from beyond_perplexity.options import parse_options
from scripts._job import Given, flag, job, json_flag, needed


@job(
    needed("--corpus", "folder of the corpus' tables (Parquet)", Path),
    json_flag("--options", "JSON: dimension, epochs, cutoff, ..."),
    json_flag("--preprocessing", "JSON; aliases are cleaned so"),
    flag("--seed", "seed of vectors, order and negatives (default 1)", SEED, default=1),
    needed("--output", "safetensors file to write", output_path),
)
def main(arguments: Given) -> None:
    torch.set_num_threads(1)  # the steps are small
    options = parse_options(GraphOptions, arguments.options, "options")
    cleaning = Preprocessing.from_config(arguments.preprocessing)
    given = {"options": arguments.options, "preprocessing": arguments.preprocessing}
    record = arguments.record(given)
    corpus = CorpusFiles.of(arguments.corpus)
    embed_corpus_graph(corpus, options, cleaning, arguments.seed, record, arguments.output)
