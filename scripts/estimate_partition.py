"""Estimate the perplexity, given the lengths, of a model of sentences that has no likelihood.

Its partition function of each length is estimated with sequences of words that a proposal draws: a
model of the same vocabulary, or without one the uniform distribution. The result is a stochastic
lower bound of the perplexity; standard error says how far the estimate is to be trusted.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from beyond_perplexity.arguments import COUNT, SEED, CommandParser, output_file
from beyond_perplexity.contrastive import PartitionOptions, partition
from beyond_perplexity.contrastive.scores import Scorer, score_texts, sentence_scorer
from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.corpus.sentences import CutDocument, cut_sentences
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark, say
from beyond_perplexity.models.latent import UnnormalizedModel
from beyond_perplexity.models.registry import load_any, load_model
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.contrastive import PARTITIONS
from beyond_perplexity.storage.accounts import NO_TOKEN, Account, accounts, accounts_told
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import finished
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import Vocabulary
from scripts._job import Given, flag, job, json_flag, needed, on_device, output
from scripts._sentences import SPLIT_UNIT, WHOLE, take_shard

UNIFORM = "uniform"  # the name of a proposal that is no model
AT_ONCE = 100_000  # sentences of a split that are held


def one_text(parser: CommandParser) -> None:
    """Declare the flags that say what is scored: one of them must be given."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--documents", help="documents file (Parquet)")
    source.add_argument("--text", help="text, JSONL or Parquet file, one document a line or row")


def _load_scored(
    given: Given,
) -> tuple[UnnormalizedModel, Vocabulary, Mapping[str, Any]]:
    model, vocabulary, description = load_any(given.model, given.device)
    if not isinstance(model, UnnormalizedModel):
        family = description["config"]["family"]
        raise InputError(
            f"{given.model}: a {family} has a partition function that is known or none; use "
            "beyond-perplexity perplexity, or with latent variables beyond-perplexity estimate"
        )
    return model, vocabulary, description


def _load_proposal(
    given: Given, options: PartitionOptions, vocabulary: Vocabulary
) -> partition.WordProposal:
    if not given.proposal:
        return partition.WordProposal(None, vocabulary.size, 1.0, UNIFORM)
    if len(given.proposal) > 1:
        raise InputError("--proposal: names several folders; give one")
    model, other, _ = load_model(given.proposal[0], given.device)
    if other.hash != vocabulary.hash:
        advice = f"than {given.model}; choose a model that was trained with the same"
        raise InputError(f"{given.proposal[0]}: has another vocabulary {advice}")
    return partition.WordProposal(model, vocabulary.size, options.uniform, given.proposal[0])


def _units(given: Given, description: Mapping[str, Any]) -> Iterable[CutDocument]:
    if given.documents:
        total = given.sentences
        shards = ((n, min(AT_ONCE, total - n)) for n in range(0, total, AT_ONCE))
        taken = (take_shard(given, given.split, shard, total) for shard in shards)
        return chain.from_iterable(taken)
    cleaning = WHITE_SPACE_ONLY
    if not given.tokenized:
        cleaning = Preprocessing.from_config(description.get("preprocessing", {}))
    return _units_of_text(Path(given.text), cleaning, given.whole)


def _units_of_text(path: Path, cleaning: Preprocessing, whole: bool) -> Iterator[CutDocument]:
    account = Account(path, "documents")
    lines = (text for part in read_cleaned(path, cleaning, account=account) for text in part)
    for place, text in enumerate(lines):
        cut = cut_sentences(text, whole)
        account.left_out[NO_TOKEN] += not cut
        yield CutDocument(place, None, cut)


def _score(scorer: Scorer, units: Iterable[CutDocument]) -> partition.ScoredSentences:
    """Score sentences; of their words nothing is held but how many there are."""
    lengths, groups = array("q"), array("q")
    keys: dict[str | int, int] = {}

    def texts() -> Iterator[list[str]]:
        for unit in units:
            key = unit.unit_id if unit.group is None else unit.group
            for words in unit.sentences:
                lengths.append(len(words))
                groups.append(keys.setdefault(key, len(keys)))
                yield [" ".join(words)]

    scores = score_texts(scorer, texts())
    if not lengths:
        raise InputError("the text has no words; give one with sentences")
    columns = np.asarray(lengths), np.asarray(groups)
    return partition.ScoredSentences(scores.log_score, *columns, int(scores.unknown.sum()))


def _perplexity_of_proposal(
    proposal: partition.WordProposal,
    vocabulary: Vocabulary,
    units: Iterable[CutDocument],
    words: int,
) -> float | None:
    """Return the perplexity of the proposal's model under the same condition; None: infinite."""
    if proposal.model is None:
        return float(proposal.words)
    encoded = (
        ids
        for unit in units
        for ids in vocabulary.encode([" ".join(part) for part in unit.sentences])
    )
    total = math.fsum(partition.endless_log_probs(proposal.model, encoded))
    return math.exp(-total / words) if total > -700 * words else None


@job(
    needed("--model", "folder of the model of sentences"),
    flag("--proposal", "folder of a model; none: words are uniform", nargs="*", default=[]),
    one_text,
    flag("--split", "split of the documents (default test)", default="test"),
    SPLIT_UNIT,
    flag("--sentences", "at most so many of a split (default 500)", COUNT, default=500),
    flag("--tokenized", "the text is cleaned already", action="store_true"),
    WHOLE,
    json_flag("--options", "JSON: samples, particles, uniform"),
    flag("--name", "what the table calls the model (default model)", default="model"),
    flag("--seed", "seed of the run (default 1)", SEED, default=1),
    on_device,
    output("--output", "Parquet file to write, one row a length", required=False),
    flag("--summary", "JSON file to write (default: to standard output)", output_file),
)
def main(given: Given) -> None:
    torch.set_num_threads(given.threads)
    options = parse_options(PartitionOptions, given.options, "options")
    model, vocabulary, description = _load_scored(given)
    proposal = _load_proposal(given, options, vocabulary)
    with accounts_told() as read:
        held = _score(sentence_scorer(model, vocabulary), _units(given, description))
    name = Path(given.proposal[0]).name if given.proposal else UNIFORM
    purpose = f"contrastive/partition/{given.name}/{name}"
    wanted = np.unique(held.lengths)
    weights = partition.draw_log_partitions(model, proposal, wanted, options, given.seed, purpose)
    found = partition.GivenLength(held, weights, given.seed, purpose)
    record = given.model_record(model)
    if given.output:
        write_shard(given.output, PARTITIONS, found.columns(given.name, name), record)
    summary = found.summary()
    for line in partition.describe_given_length(summary):
        remark(line)
    summary |= {"model": given.name, "proposal": name, "particles": options.particles}
    summary |= {"uniform": proposal.uniform, "record": finished(record)}
    with accounts():
        summary["proposal_perplexity_given_length"] = _perplexity_of_proposal(
            proposal, vocabulary, _units(given, description), summary["words"]
        )
    summary["files"] = read
    if given.summary:
        write_json(given.summary, summary)
    else:
        json.dump(summary, sys.stdout, indent=2, sort_keys=True)
        say()
