"""Score documents of a split and their distortions under a model: one shard, a row a version.

A score depends on the model, the document, the level and the draw alone, not on the shard.
"""

from __future__ import annotations

import torch

from beyond_perplexity.arguments import SEED, real
from beyond_perplexity.contrastive import scores
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.registry import load_any
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary, load_vocabulary
from scripts._job import Given, flag, job, json_flag, needed, on_device, output
from scripts._sentences import SENTENCES, take_shard


def _substitutes(given: Given, source: str) -> scores.Substitutes:
    if source == "text":
        types = scores.types_of_split(given.documents, given.split)
        return scores.Substitutes(types, f"{given.documents} (split {given.split})")
    if len(given.substitutes) != 1:
        raise InputError("--substitutes: name one closed vocabulary, or set substitutes: text")
    vocabulary = load_vocabulary(given.substitutes[0])
    if not isinstance(vocabulary, ClosedVocabulary):
        raise InputError(f"{given.substitutes[0]}: has parts of words; name a closed vocabulary")
    return scores.Substitutes(vocabulary.describe()["words"], given.substitutes[0])


@job(
    needed("--model", "model folder"),
    flag("--split", "split to score (default test)", default="test"),
    *SENTENCES,
    flag("--substitutes", "closed vocabulary that they come from", nargs="*", default=[]),
    json_flag("--distortion", "options, JSON object"),
    json_flag("--versions", '{"level": [first draw, number], ...}', required=True),
    flag("--parts-level", "level of losses that are split", real(above=0), nargs="*", default=[]),
    needed("--seed", "seed of the run", SEED),
    on_device,
    output("--output", "Parquet shard to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(given.threads)
    distortion = parse_options(DistortionOptions, given.distortion, "distortion")
    versions = scores.read_versions(given.versions)
    model, vocabulary, _ = load_any(given.model, given.device)
    scorer = scores.make_scorer(model, vocabulary, given.model)
    units = take_shard(given, given.split, given.sentences, next(iter(given.limit), None))
    substitutes = _substitutes(given, distortion.substitutes)
    if units:
        substitutes.check(units)
    record = given.model_record(model)
    units_of = "document" if given.whole else "sentence"
    record["signature"] = distortion.signature(text="cleaned", units=units_of)
    asked = scorer, units, substitutes, versions, distortion, given.seed
    rows = scores.score_versions(*asked, next(iter(given.parts_level), None))
    write_shard(given.output, CONTRAST_SCORES, rows, record)
