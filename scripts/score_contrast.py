"""Score documents of a split and their distortions under a model: one shard, a row a version.

A score depends on the model, the document, the level and the draw alone, not on the shard.
"""

from __future__ import annotations

import argparse

import torch

from beyond_perplexity.arguments import SEED, THREADS, CommandParser, output_file
from beyond_perplexity.contrastive.scores import (
    Substitutes,
    make_scorer,
    read_versions,
    score_versions,
    types_of_split,
)
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.models.registry import WEIGHTS, load_any
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary, load_vocabulary
from scripts._sentences import add_sentences, take_shard

UNDETERMINING = ("output", "threads")  # flags that do not change a number


def _parser() -> CommandParser:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="model folder")
    add("--split", default="test", help="split to score (default test)")
    add_sentences(parser)
    add("--substitutes", nargs="*", default=[], help="closed vocabulary that they come from")
    add("--distortion", type=json_object, default={}, help="options, JSON object")
    add("--versions", type=json_object, required=True, help='{"level": [first draw, number], ...}')
    add("--seed", type=SEED, required=True, help="seed of the run")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_file, required=True, help="Parquet shard to write")
    return parser


def _substitutes(given: argparse.Namespace, source: str) -> Substitutes:
    if source == "text":
        types = types_of_split(given.documents, given.split)
        return Substitutes(types, f"{given.documents} (split {given.split})")
    if len(given.substitutes) != 1:
        raise InputError("--substitutes: name one closed vocabulary, or set substitutes: text")
    vocabulary = load_vocabulary(given.substitutes[0])
    if not isinstance(vocabulary, ClosedVocabulary):
        raise InputError(f"{given.substitutes[0]}: has parts of words; name a closed vocabulary")
    return Substitutes(vocabulary.describe()["words"], given.substitutes[0])


def main() -> None:
    given = _parser().parse_args()
    torch.set_num_threads(given.threads)
    distortion = parse_options(DistortionOptions, given.distortion, "distortion")
    versions = read_versions(given.versions)
    model, vocabulary, _ = load_any(given.model, given.device)
    scorer = make_scorer(model, vocabulary, given.model)
    units = take_shard(given, given.split, given.sentences, next(iter(given.limit), None))
    substitutes = _substitutes(given, distortion.substitutes)
    if units:
        substitutes.check(units)
    flags = {key: value for key, value in vars(given).items() if key not in UNDETERMINING}
    record = run_record(
        "scripts/score_contrast.py",
        flags,
        seed=given.seed,
        device=str(model.device),
        checkpoint=f"{given.model}/{WEIGHTS}",
    )
    rows = score_versions(scorer, units, substitutes, versions, distortion, given.seed)
    write_shard(given.output, CONTRAST_SCORES, rows, record)


if __name__ == "__main__":
    run_command(main)
