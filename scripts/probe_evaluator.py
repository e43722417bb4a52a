"""Say what an evaluator notices in sentences of a corpus, and how it agrees with people.

Sentences are compared with themselves, with changed versions and with unrelated sentences. Pairs of
texts that people scored are scored too: rank and linear correlations, and the scores themselves.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from beyond_perplexity.arguments import COUNT, SEED, THREADS, CommandParser, output_file
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.schemas.semantics import (
    HUMAN_CORRELATIONS,
    HUMAN_SCORES,
    PROBES,
    WORDS_EVALUATOR,
)
from beyond_perplexity.semantics.evaluators.contract import Evaluator, open_evaluator, set_threads
from beyond_perplexity.semantics.probes import probe_evaluator, probe_sentences
from beyond_perplexity.semantics.scored_pairs import (
    correlate_people,
    list_pair_scores,
    read_scored_pairs,
    score_pairs,
)
from beyond_perplexity.semantics.scores import find_partners
from beyond_perplexity.storage.accounts import accounts_told
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter, write_shard
from scripts._sentences import add_split_unit, take_shard

UNDETERMINING = ("output", "correlations", "pair_scores", "threads")  # change no number


def _parser() -> CommandParser:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet)")
    add("--split", default="test", help="split whose sentences are changed (default test)")
    add_split_unit(parser)
    add("--whole", action="store_true", help="every document is one sentence")
    add("--sentences", type=COUNT, required=True, help="how many at most, in the random order")
    add("--evaluator", required=True, help=f"name of the evaluator; {WORDS_EVALUATOR} needs none")
    add("--options", type=json_object, default={}, help="of the evaluator, JSON object")
    add("--measures", type=json_object, default={}, help="constants of measures, JSON object")
    add("--human", type=json_object, default={}, help='pairs: {"name": ["path", "column"], ...}')
    add("--seed", type=SEED, required=True, help="seed of the run")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_file, required=True, help="Parquet file of what is noticed")
    add("--correlations", type=output_file, required=True, help="file of correlations with people")
    add("--pair-scores", type=output_file, required=True, help="file of the scores of these pairs")
    return parser


def _probe(given: argparse.Namespace, evaluator: Evaluator, record: dict[str, object]) -> None:
    units = take_shard(given, given.split, (0, given.sentences), given.sentences)
    arguments = given.documents, given.split
    partners = find_partners(units, *arguments, seed=given.seed, whole=given.whole)
    sentences = probe_sentences(units, partners, given.seed)
    table = probe_evaluator(evaluator, sentences, given.evaluator)
    record["evaluator"] = evaluator.describe()  # which has read words by now
    write_shard(given.output, PROBES, table, record)


def _ask_people(given: argparse.Namespace, evaluator: Evaluator, record: dict[str, object]) -> None:
    with (
        ShardWriter(given.correlations, HUMAN_CORRELATIONS, record) as correlations,
        ShardWriter(given.pair_scores, HUMAN_SCORES, record) as scores,
    ):
        for name, held in given.human.items():
            if not (isinstance(held, list) and [type(part) for part in held] == [str, str]):
                raise InputError(f"--human.{name}: is {held!r}, expected [path, column of scores]")
            scored = score_pairs(evaluator, read_scored_pairs(Path(held[0]), held[1]))
            correlations.write(correlate_people(scored, given.evaluator, name))
            scores.write(list_pair_scores(scored, given.evaluator, name))


def main() -> None:
    given = _parser().parse_args()
    evaluator = open_evaluator(given.evaluator, given.options, given.measures, given.device)
    set_threads(given.threads)
    flags = {key: value for key, value in vars(given).items() if key not in UNDETERMINING}
    record = run_record("scripts/probe_evaluator.py", flags, seed=given.seed)
    _probe(given, evaluator, record)
    with accounts_told():
        _ask_people(given, evaluator, record)


if __name__ == "__main__":
    run_command(main)
