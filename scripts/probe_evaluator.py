"""Say what an evaluator notices in sentences of a corpus, and how it agrees with people.

Sentences are compared with themselves, with changed versions and with unrelated sentences. Pairs of
texts that people scored are scored too: rank and linear correlations, and the scores themselves.
"""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.arguments import COUNT, SEED
from beyond_perplexity.corpus.sentences import find_partners
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas import semantics
from beyond_perplexity.semantics import scored_pairs
from beyond_perplexity.semantics.evaluators.contract import Evaluator, open_evaluator, set_threads
from beyond_perplexity.semantics.probes import probe_evaluator, probe_sentences
from beyond_perplexity.storage.accounts import accounts_told
from beyond_perplexity.storage.shards import ShardWriter, write_shard
from scripts._job import Given, flag, job, json_flag, needed, on_device, output
from scripts._sentences import SPLIT_UNIT, WHOLE, take_shard


def _probe(given: Given, evaluator: Evaluator, record: dict[str, object]) -> None:
    units = take_shard(given, given.split, (0, given.sentences), given.sentences)
    arguments = given.documents, given.split
    partners = find_partners(units, *arguments, seed=given.seed, whole=given.whole)
    sentences = probe_sentences(units, partners, given.seed)
    table = probe_evaluator(evaluator, sentences, given.evaluator)
    record["evaluator"] = evaluator.describe()  # which has read words by now
    write_shard(given.output, semantics.PROBES, table, record)


def _ask_people(given: Given, evaluator: Evaluator, record: dict[str, object]) -> None:
    with (
        ShardWriter(given.correlations, semantics.HUMAN_CORRELATIONS, record) as correlations,
        ShardWriter(given.pair_scores, semantics.HUMAN_SCORES, record) as scores,
    ):
        for name, held in given.human.items():
            if not (isinstance(held, list) and [type(part) for part in held] == [str, str]):
                raise InputError(f"--human.{name}: is {held!r}, expected [path, column of scores]")
            pairs = scored_pairs.read_scored_pairs(Path(held[0]), held[1])
            scored = scored_pairs.score_pairs(evaluator, pairs, name=held[0])
            correlations.write(scored_pairs.correlate_people(scored, given.evaluator, name))
            scores.write(scored_pairs.list_pair_scores(scored, given.evaluator, name))


@job(
    needed("--documents", "documents file (Parquet)"),
    flag("--split", "split whose sentences are changed (default test)", default="test"),
    SPLIT_UNIT,
    WHOLE,
    needed("--sentences", "how many at most, in the random order", COUNT),
    needed("--evaluator", f"name of the evaluator; {semantics.WORDS_EVALUATOR} needs none"),
    json_flag("--options", "of the evaluator, JSON object"),
    json_flag("--measures", "constants of measures, JSON object"),
    json_flag("--human", 'pairs: {"name": ["path", "column"], ...}'),
    needed("--seed", "seed of the run", SEED),
    on_device,
    output("--output", "Parquet file of what is noticed"),
    output("--correlations", "file of correlations with people"),
    output("--pair-scores", "file of the scores of these pairs"),
)
def main(given: Given) -> None:
    evaluator = open_evaluator(given.evaluator, given.options, given.measures, given.device)
    set_threads(given.threads)
    record = given.record(given.determining())
    _probe(given, evaluator, record)
    with accounts_told():
        _ask_people(given, evaluator, record)
