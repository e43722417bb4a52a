"""Scores of predictions, and what they come to: floors, excesses, intervals, proper scores.

Needs nothing but the package. Oracles: pandas on the rows; loops over sentences; exact enumeration
of a toy language; that shards, batches and order change nothing.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import t as student

from benchmarks.calibration_semantics import coverages
from beyond_perplexity.schemas.semantics import (
    PARTNER_OF,
    PREDICTIONS,
    SEMANTIC_SCORES,
    SEMANTICS,
)
from beyond_perplexity.semantics.bleu import bleu_of
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.evaluators.word_overlap import WordEvaluator
from beyond_perplexity.semantics.evaluators.word_vectors import VECTOR_MEASURES, measure_vectors
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES, MeasureOptions
from beyond_perplexity.semantics.model_measures import summarize_scores
from beyond_perplexity.semantics.scores import score_predictions, score_sentences
from beyond_perplexity.semantics.word_cosines import WordIndex, exponential_scaling
from beyond_perplexity.storage.shards import write_shard
from tests.unit.evaluator_oracles import check_refusals, run_script

NOT_CONTINUED = {"continued": None, "given": None}
WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "in", "mat", "house"]


class Vectors(Evaluator):
    """Word vectors of a few words; "cat" has none."""

    measures = VECTOR_MEASURES
    needs_words = True

    def __init__(self) -> None:
        self._rows = {word: k for k, word in enumerate(WORDS) if word != "cat"}
        self._table = np.random.default_rng(3).normal(0.2, 1, (len(WORDS), 6)).astype(np.float32)

    def score(self, pairs):
        index = WordIndex(self._rows)
        predicted, target = (index.read([pair[side] for pair in pairs]) for side in (0, 1))
        return measure_vectors(self._table, predicted, target, MeasureOptions())

    def describe(self):
        return {"title": "toy"}


def predictions(seed: int = 0, documents: int = 30, *, samples: int = 3, aligned: bool = True):
    """Rows of schema ``predictions``: pages of documents of one to three sentences."""
    rng = np.random.default_rng(seed)
    rows = []
    for unit in range(documents):
        for sentence in range(rng.integers(1, 4)):
            size = int(rng.integers(4, 9))
            words = [*WORDS, "<unk>"]
            texts = [" ".join(rng.choice(words, size).tolist()) for _ in range(samples + 4)]
            split, group = "test" if unit % 3 else "valid", f"page {unit % 4}"
            row = {"split": split, "unit_id": unit, "group": None if unit % 5 else group}
            row |= {"sentence": sentence, "words": size, "target": texts[0], "predicted": texts[1]}
            row |= {"samples": texts[4:], "partner": texts[3], "aligned": aligned}
            row |= {"continued": texts[2], "given": 2} if size > 5 else NOT_CONTINUED
            row |= {"unknown_target": texts[0].count("<unk>")}
            row |= {"unknown_predicted": texts[1].count("<unk>")}
            rows.append(row | {"log_prob": -float(rng.gamma(20))})
    return rows


def scored(rows, evaluator=None, name="words"):
    return score_sentences(evaluator or WordEvaluator(), rows, "lstm", name)


def write_scores(folder, rows, *evaluators):
    """Write predictions and their scores, and return the paths of both."""
    given = folder / "predictions.parquet"
    write_shard(given, PREDICTIONS, pa.Table.from_pylist(rows, PREDICTIONS), {})
    paths = []
    for name, evaluator in evaluators:
        paths.append(folder / f"{name}.parquet")
        write_shard(paths[-1], SEMANTIC_SCORES, scored(rows, evaluator, name), {})
    return paths, [given]


def summary(folder, rows, *evaluators, seed=1):
    folder.mkdir(exist_ok=True)
    paths = write_scores(folder, rows, *(evaluators or [("words", WordEvaluator())]))
    table = summarize_scores(*paths, "lstm", 49, seed)
    assert table.schema.equals(SEMANTICS)
    return table.to_pandas()


def row_of(frame, **wanted):
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


# ---- scores ----


def test_every_sentence_has_every_kind_of_score():
    """Oracle: the evaluator asked pair by pair, means over samples and over their pairs."""
    rows, evaluator = predictions(samples=3), Vectors()
    frame = scored(rows, evaluator, "glove").to_pandas()
    assert set(frame.evaluator) == {"glove"}
    assert set(frame.model) == {"lstm"}
    held = frame.set_index(["unit_id", "sentence", "measure", "kind"]).value
    assert held.index.is_unique

    def mean(pairs, measure):
        return np.mean([evaluator.score([pair])[measure][0] for pair in pairs])

    for row in rows[:12]:
        place = row["unit_id"], row["sentence"]
        told = {
            "predicted": [row["predicted"]],
            "sampled": row["samples"],
            "continued": [] if row["continued"] is None else [row["continued"]],
        }
        for measure, (kind, texts) in itertools.product(("aligned_cosine", "wmd"), told.items()):
            for name, other in ((kind, row["target"]), (PARTNER_OF[kind], row["partner"])):
                if texts:
                    first = 2 if kind == "continued" else 0  # words that were given count nowhere
                    cut = [" ".join(text.split()[first:]) for text in (other, *texts)]
                    pairs = [(text, cut[0]) for text in cut[1:]]
                    assert held[(*place, measure, name)] == pytest.approx(mean(pairs, measure))
                else:
                    assert (*place, measure, name) not in held.index
        spread = mean(itertools.combinations(row["samples"], 2), "aligned_cosine")
        assert held[(*place, "aligned_cosine", "spread")] == pytest.approx(spread)
        assert (*place, "wmd", "spread") not in held.index


def test_statistics_of_words_add_up():
    rows = predictions()
    frame = scored(rows).to_pandas()
    bleu = frame[(frame.measure == "bleu_3") & (frame.kind == "sampled")]
    for row, counts, value in zip(rows, bleu.statistics, bleu.value, strict=True):
        assert counts[:2].tolist() == [3 * row["words"]] * 2
        alone = WordEvaluator().score([(text, row["target"]) for text in row["samples"]])
        assert value == pytest.approx(alone["bleu_3"].mean())
    entropy = frame[frame.measure == "cross_entropy"]
    assert set(entropy.kind) == {"predicted"}
    for row, value, counts in zip(rows, entropy.value, entropy.statistics, strict=True):
        assert value == -row["log_prob"] / row["words"]
        assert counts.tolist() == [row["words"]]


def test_scores_do_not_depend_on_batches():
    """Bit for bit."""
    rows = predictions(documents=40)
    table = pa.Table.from_pylist(rows, PREDICTIONS)
    for evaluator in (WordEvaluator(), Vectors()):
        tables = [
            pa.concat_tables(
                score_predictions(table.to_batches(max_chunksize=size), evaluator, "m", "e")
            ).sort_by([(name, "ascending") for name in ("measure", "unit_id", "sentence", "kind")])
            for size in (1, 7, 1000)
        ]
        assert tables[0].equals(tables[1])
        assert tables[0].equals(tables[2])


def test_words_in_their_places_are_null_where_tokens_are_no_words():
    frame = scored(predictions(aligned=False), Vectors(), "glove").to_pandas()
    frame = pd.concat([frame, scored(predictions(aligned=False)).to_pandas()])
    for measure, part in frame.groupby("measure"):
        assert part.value.isna().all() == MEASURES[measure].aligned, measure


def test_a_prediction_that_says_nothing_counts_and_a_target_that_does_not_is_undefined():
    """Oracle: the rule. "cat" has no vector, so its mean vector is not defined."""
    row = predictions(samples=2)[0]
    texts = {"words": 2, "partner": "dog dog", **NOT_CONTINUED}
    says_nothing = row | texts | {"target": "the dog", "predicted": "<unk> cat"}
    says_nothing["samples"] = ["cat cat", "the dog"]
    unknown = row | texts | {"target": "cat cat", "predicted": "the dog", "sentence": 9}
    unknown["samples"] = ["cat cat", "the dog"]
    frame = scored([says_nothing, unknown], Vectors(), "glove").to_pandas()
    frame = frame[frame.measure == "average"].set_index(["sentence", "kind"]).value
    assert frame[row["sentence"], "predicted"] == MEASURES["average"].nothing == 0
    assert frame[row["sentence"], "sampled"] == pytest.approx((0 + 1) / 2)
    assert np.isnan(frame[9, "predicted"])
    assert np.isnan(frame[9, "sampled"])
    assert frame[9, "partner"] == pytest.approx(frame[row["sentence"], "partner"] + 1, abs=1)


# ---- what they come to ----


def groups_of(rows, split):
    return [row["group"] or f"unit {row['unit_id']}" for row in rows if row["split"] == split]


def jackknife(groups, function):
    """Say value, error and limits of a function of rows, each group left out in turn."""
    groups = pd.Series(groups)
    names = groups.unique()
    without = np.array([function((groups != name).to_numpy()) for name in names])
    value = function(np.ones(len(groups), bool))
    error = math.sqrt((len(names) - 1) / len(names) * np.sum((without - value) ** 2))
    sizes = groups.value_counts().to_numpy()
    return value, error, sizes.sum() ** 2 / (sizes**2).sum()


@pytest.mark.parametrize("kind", ["predicted", "sampled"])
def test_means_floors_and_excesses_are_those_of_the_rows(tmp_path, kind):
    """Oracle: pandas, and groups left out one by one."""
    rows = predictions(documents=90)
    frame = summary(tmp_path, rows, ("glove", Vectors()))
    scores = scored(rows, Vectors(), "glove").to_pandas()
    for measure in ("wmd", "cosine_scaled", "aligned_cosine"):
        part = scores[(scores.measure == measure) & (scores.split == "test")]
        own, floor = (part[part.kind == name].value.to_numpy() for name in (kind, PARTNER_OF[kind]))
        found = row_of(frame, split="test", measure=measure, kind=kind)
        groups = groups_of(rows, "test")
        named = {"value": own, "floor": floor, "excess": own - floor}
        for name, held in named.items():
            value, error, effective = jackknife(groups, lambda kept, held=held: held[kept].mean())
            low, high = (f"{name}_{end}".removeprefix("value_") for end in ("low", "high"))
            half = student.ppf(0.975, effective - 1) * error
            assert found[name] == pytest.approx(value)
            assert (found[low], found[high]) == pytest.approx((value - half, value + half))
        assert found.groups_effective == pytest.approx(effective)
        assert found.sentences == len(own)
        assert found.sentence_mean == pytest.approx(found.value)
        scaled = exponential_scaling(own).mean() if MEASURES[measure].scalable else math.nan
        assert found.scaled == pytest.approx(scaled, nan_ok=True)


def test_bleu_is_of_all_sentences_and_its_mean_stands_beside(tmp_path):
    rows = predictions(documents=90)
    frame, scores = summary(tmp_path, rows), scored(rows).to_pandas()
    for name, order in BLEU_NAMES.items():
        part = scores[(scores.split == "test") & (scores.measure == name)]
        found = row_of(frame, split="test", measure=name, kind="predicted")
        own, floor = (part[part.kind == kind] for kind in ("predicted", "partner"))
        assert found.value == pytest.approx(float(bleu_of(own.statistics.sum(), order)))
        assert found.floor == pytest.approx(float(bleu_of(floor.statistics.sum(), order)))
        assert found.excess == pytest.approx(found.value - found.floor)
        assert found.sentence_mean == pytest.approx(own.value.mean())
        matches = own.statistics.sum()[2 : 2 + order]
        if matches.all():
            assert found.low <= found.value <= found.high
        else:
            assert np.isnan(found.low)
            assert "smoothed, no interval" in found.note
    assert row_of(frame, split="test", measure="bleu_2", kind="predicted").low > 0


def test_words_weigh_alike_in_accuracy_and_cross_entropy(tmp_path):
    rows = [row for row in predictions(documents=90) if row["split"] == "test"]
    frame = summary(tmp_path, rows)
    right = sum(
        one == other != "<unk>"
        for row in rows
        for one, other in zip(row["predicted"].split(), row["target"].split(), strict=True)
    )
    words = sum(row["words"] for row in rows)
    accuracy = row_of(frame, measure="accuracy", kind="predicted")
    assert accuracy.value == pytest.approx(right / words)
    entropy = row_of(frame, measure="cross_entropy")
    assert entropy.value == pytest.approx(-sum(row["log_prob"] for row in rows) / words)
    assert np.isnan(entropy.floor)
    assert "floor" not in entropy.note
    for name in ("target", "predicted"):
        share = sum(row[f"unknown_{name}"] for row in rows) / words
        assert accuracy[f"unknown_{name}"] == pytest.approx(share)


def test_the_summary_does_not_depend_on_shards(tmp_path):
    """Bit for bit: shards of one sentence, a few, all; other row groups."""
    rows, both = predictions(documents=12), (("words", WordEvaluator()), ("glove", Vectors()))
    whole = summary(tmp_path / "whole", rows, *both)
    for size in (1, 11):
        paths = []
        for name, evaluator in both:
            for begin in range(0, len(rows), size):
                paths.append(tmp_path / f"{name}-{size}-{begin:05d}.parquet")
                table = scored(rows[begin : begin + size], evaluator, name)
                write_shard(paths[-1], SEMANTIC_SCORES, table, {})
        given = [tmp_path / "whole" / "predictions.parquet"]
        cut = summarize_scores(paths, given, "lstm", 49, 1).to_pandas()
        pd.testing.assert_frame_equal(cut, whole, check_exact=True)


def test_what_lacks_is_said(tmp_path):
    rows = predictions(documents=12, samples=0, aligned=False)
    for row in rows:
        row["partner"] = None
    rows[0]["log_prob"] = -math.inf
    frame = summary(tmp_path, rows)
    assert not {"sampled", "proper"} & set(frame.kind)
    bleu = row_of(frame, split="test", measure="bleu_2", kind="predicted")
    assert "no unrelated sentences: no floor" in bleu.note
    assert "fewer than 20 effective groups: no interval" in bleu.note
    assert np.isnan([bleu.floor, bleu.excess, bleu.low, bleu.high]).all()
    accuracy = row_of(frame, split="test", measure="accuracy", kind="predicted")
    assert accuracy.note == "not defined: tokens of the model are no words"
    assert (accuracy.sentences, accuracy.undefined) == (0, sum(r["split"] == "test" for r in rows))
    assert np.isnan(accuracy.value)
    impossible = row_of(frame, split="valid", measure="cross_entropy")
    assert "the model finds a sentence impossible: no value" in impossible.note
    assert np.isnan(impossible.value)


# ---- what a score rewards ----


def expected(kind, truth, told):
    """Return what a model expects to score where the next word is A or B, by enumeration."""
    found = 0.0
    for (word, p), (one, q), (other, r) in itertools.product(
        truth.items(), told.items(), told.items()
    ):
        agrees = float(one == word)
        spread = float(one == other)
        found += p * q * r * (agrees - spread / 2 if kind == "proper" else agrees)
    return found


def test_only_the_proper_score_is_best_for_the_truth():
    """A model that always says the likelier word expects more matches than the truth itself."""
    truth = {"A": 0.7, "B": 0.3}
    models = [{"A": q, "B": 1 - q} for q in np.linspace(0, 1, 21).tolist()]
    for kind, best in (("sampled", 1.0), ("proper", 0.7)):
        scores = [expected(kind, truth, told) for told in models]
        assert models[int(np.argmax(scores))]["A"] == pytest.approx(best)


def test_the_proper_score_of_accuracy_is_briers(tmp_path):
    """Oracle: 1/2 − Brier/2 + a constant: E 1(X = y) − E 1(X = X')/2 = q_y − Σ q²/2.

    All pairs of 40 samples stand for the expectation.
    """
    rng = np.random.default_rng(5)
    rows, brier = [], 0.0
    for unit in range(30):
        q = rng.dirichlet([1, 1, 1])
        word = int(rng.integers(0, 3))
        counts = np.round(q * 40).astype(int)
        share = counts / counts.sum()
        samples = [WORDS[k] for k in np.repeat(np.arange(3), counts).tolist()]
        pairs = counts.sum() * (counts.sum() - 1)
        among = (counts * (counts - 1)).sum() / pairs
        brier += share[word] - among / 2
        rows.append(
            predictions()[0]
            | {"unit_id": unit, "group": None, "words": 1, "split": "test", "partner": "mat"}
            | {"target": WORDS[word], "predicted": WORDS[0], "samples": samples}
        )
    frame = summary(tmp_path, rows)
    found = row_of(frame, measure="accuracy", kind="proper")
    assert found.value == pytest.approx(brier / 30)
    sampled = row_of(frame, measure="accuracy", kind="sampled")
    assert found.excess == pytest.approx(sampled.excess)  # the spread is the same in both


def test_intervals_hold_what_they_name():
    """A small case of `benchmarks/calibration_semantics.py`: 100 repeats of 30 pages."""
    found = coverages(100, 30)
    assert min(found) >= 0.86, found  # of 95% less than a thousandth part is below


# ---- commands ----


def test_commands_score_and_measure(tmp_path, one_thread):
    rows = predictions(documents=60)
    _, (given,) = write_scores(tmp_path, rows)
    scores = tmp_path / "scores.parquet"
    flags = ["--predictions", given, "--model", "lstm"]
    run_script("score_semantics", *flags, "--evaluator", "words", "--output", scores)
    assert pq.read_table(scores).sort_by("measure").num_rows == scored(rows).num_rows
    found = tmp_path / "lstm.parquet"
    options = ["--measures", '{"resamples": 49}', "--seed", 1, "--output", found]
    run_script("measure_semantics", scores, *flags, *options)
    frame = pq.read_table(found).to_pandas()
    pd.testing.assert_frame_equal(frame, summary(tmp_path, rows), check_exact=True)


def test_bad_flags_and_scores_that_are_none_are_one_line(tmp_path, one_thread):
    _, (given,) = write_scores(tmp_path, predictions())
    output, empty = tmp_path / "out.parquet", tmp_path / "empty.parquet"
    write_shard(empty, SEMANTIC_SCORES, SEMANTIC_SCORES.empty_table(), {})
    flags = ["--predictions", given, "--model", "m", "--output", output]
    score = ("score_semantics", *flags, "--evaluator")
    cases = {
        "evaluator: family is None; allowed are": (*score, "x"),
        "window: is 0": (*score, "words", "--measures", '{"window": 0}'),
        "measures.bias": (*score, "words", "--measures", '{"bias": "b"}'),
        "no JSON object": (*score, "words", "--options", "[]"),
        "there are no scores": ("measure_semantics", empty, *flags, "--seed", 1),
        "column 'model' is missing": ("measure_semantics", given, *flags, "--seed", 1),
    }
    check_refusals(run_script, cases)
    assert not output.exists()
