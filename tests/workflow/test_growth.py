"""What runs when the tiny run grows or changes: jobs by rule, counted by hand.

The tiny run has 2 models, 2 decodings, 2 shards of 30 documents counted by one job, one corpus, one
block of predictions, 4 evaluators. Changed draws are in `test_importance`, edits in `test_runs`.
"""

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from tests.unit.planned import load

SHOWN = {"tabulate": 16, "plot": 20, "write_overview": 1}  # all show the names of the models
# One job embeds all that is written; what is written is related to all other measures.
WRITTEN = {"embed": 1, "measure_embeddings": 1, "relate_measures": 1}


CONFIG = load()
TRIGRAM, WIKIPEDIA = CONFIG["models"]["trigram"], CONFIG["corpora"]["wikipedia"]
WORD2VEC = CONFIG["evaluators"]["word2vec"]
GENERATED, DECODED = (CONFIG["generation"][key] for key in ("models", "decodings"))
PREDICTED_BY, SCORED_BY = (CONFIG["semantics"][key] for key in ("models", "evaluators"))
MODEL = {"models.other": TRIGRAM, "generation.models": [*GENERATED, "other"]}
DECODING = {"decodings.nucleus": {"kind": "nucleus"}, "generation.decodings": [*DECODED, "nucleus"]}
DOCUMENTS = {"generation.documents": 75}  # a third shard, of 15
CORPUS = {"corpora.again": WIKIPEDIA}
CORPUS_WITH_MODEL = {**CORPUS, **MODEL, "models.other": {**TRIGRAM, "corpus": "again"}}
EVALUATOR = {"evaluators.narrow": {**WORD2VEC, "width": 8}}
EVALUATOR["semantics.evaluators"] = [*SCORED_BY, "narrow"]


def plan(finished, changes: dict[str, Any]) -> str:
    """Return what a dry run of the changed configuration prints."""
    file = finished.path / "configs" / "changed.yaml"
    file.write_text(yaml.safe_dump(load(changes=changes), sort_keys=False))
    try:
        printed: str = finished.snakemake("--dry-run", "-p", f"--configfile={file}").stdout
    finally:
        file.unlink()
    return printed


def count_jobs(printed: str) -> dict[str, int]:
    jobs = Counter(re.findall(r"^rule (\w+):", printed, re.M))
    return {rule: count for rule, count in jobs.items() if rule != "all"}


def jobs(*others: dict[str, int], **counts: int) -> dict[str, int]:
    return {rule: n for held in (*others, counts) for rule, n in held.items()}


MEASURED = jobs(generate=4, count_samples=2, measure_tendencies=2, measure_words=2)
# What there is of a reference: in the vocabulary, and raw.
REFERENCE = jobs(
    count_reference=2,
    describe_reference=1,
    measure_sensitivity=1,
    count_resample=3,
    measure_resample=3,
)
SCORED = jobs(train=1, measure_perplexity=1, compare_perplexity=1)
READ = jobs(extract_corpus=1, build_vocabulary=1, build_spelling_model=1, choose_words=1)
PREDICTED = jobs(compare_semantics=1, relate_measures=1, tabulate=9, plot=4, write_overview=1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (MODEL, jobs(SCORED, MEASURED, WRITTEN, SHOWN)),
        (DECODING, jobs(MEASURED, WRITTEN, SHOWN)),
        (
            DOCUMENTS,  # 4 shards more, a larger reference; not what shows trainings, models
            jobs(
                REFERENCE,
                WRITTEN,
                generate=4,
                count_samples=4,  # the new shard alone: the job of the first two was full
                merge_statistics=4,
                measure_tendencies=4,
                measure_words=4,
                tabulate=13,
                plot=18,
                write_overview=1,
            ),
        ),
        (CORPUS, jobs(extract_corpus=1, write_overview=1)),
        (
            {"tendencies.judge": {"model": "rnn"}},  # words and embeddings stay as they are
            jobs(
                judge_reference=1,
                judge_samples=4,
                measure_tendencies=4,
                measure_sensitivity=1,
                measure_embeddings=1,
                relate_measures=1,
                tabulate=12,
                plot=17,
                write_overview=1,
            ),
        ),
        (
            {"semantics.models": [*PREDICTED_BY, "kn-3"]},
            jobs(PREDICTED, predict_words=1, score_semantics=4, measure_semantics=1),
        ),
        (
            EVALUATOR,
            jobs(
                PREDICTED,
                train_evaluator=1,
                score_semantics=2,
                probe_evaluator=1,
                measure_semantics=2,
            ),
        ),
        (
            CORPUS_WITH_MODEL,  # a trigram has no training
            jobs(
                jobs(READ, SCORED, MEASURED, REFERENCE, embed=1, measure_embeddings=1),
                tabulate=26,
                plot=37,
                write_overview=1,
            ),
        ),
    ],
)
def test_a_larger_run_makes_what_is_new(finished, changes, expected) -> None:
    assert count_jobs(plan(finished, changes)) == expected


def test_a_seed_draws_everything_anew(finished) -> None:
    """It is that of the order of the documents too, which everything else is made from."""
    printed = plan(finished, {"seed": 2})
    texts = jobs(generate=8, count_samples=4, measure_tendencies=4, measure_words=4)
    texts["compare_perplexity"] = 1
    contrasts = jobs(score_contrast=8, measure_contrast=4, compare_contrast=1, estimate_partition=1)
    meaning = jobs(predict_words=2, score_semantics=8, measure_semantics=2, compare_semantics=1)
    assert count_jobs(printed) == jobs(
        *(READ, REFERENCE, texts, contrasts, meaning, WRITTEN),
        train=5,
        measure_perplexity=4,
        train_evaluator=3,
        probe_evaluator=4,
        tabulate=SHOWN["tabulate"] + 12,
        plot=SHOWN["plot"] + 6,
        write_overview=1,
    )
    blocks = re.findall(r"^rule (\w+):\n(.*?)(?=^rule |\Z)", printed, re.M | re.S)
    drawing = {rule for rule, block in blocks if re.search(r"--seed 2\b", block)}
    assert drawing == {
        *("extract_corpus", "train", "generate", "count_resample"),
        *("measure_tendencies", "measure_words", "measure_sensitivity"),
        *("score_contrast", "estimate_partition"),
        *("train_evaluator", "predict_words", "probe_evaluator", "measure_semantics"),
        *("relate_measures", "embed", "measure_embeddings"),
    }
