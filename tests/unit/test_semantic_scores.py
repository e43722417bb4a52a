"""Scores of predictions and what they come to; what measures notice; agreement with people.

Oracles: pandas; loops over sentences; exact enumeration of a toy language; other shards, batches
and orders; changes by hand; an evaluator with known answers; SciPy's correlations; deletion.
"""

import gzip
import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from scipy.stats import t as student

from benchmarks.calibration_semantics import coverages, levels
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY
from beyond_perplexity.corpus.sentences import CutDocument
from beyond_perplexity.inference.correlations import correlation_difference, pearson, spearman
from beyond_perplexity.schemas import semantics
from beyond_perplexity.semantics import model_measures, scored_pairs
from beyond_perplexity.semantics import probes as probing
from beyond_perplexity.semantics.bleu import bleu_of
from beyond_perplexity.semantics.evaluators import contract, word_vectors
from beyond_perplexity.semantics.evaluators.word_overlap import WordEvaluator
from beyond_perplexity.semantics.measures import BLEU_NAMES, MEASURES, MeasureOptions
from beyond_perplexity.semantics.scores import score_predictions, score_sentences
from beyond_perplexity.semantics.word_cosines import WordIndex, exponential_scaling
from beyond_perplexity.storage.shards import write_shard
from tests.unit.evaluator_oracles import check_refusals, run_script, some_texts, write_documents

NOT_CONTINUED = {"continued": None, "given": None}
WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "in", "mat", "house"]


class Vectors(contract.Evaluator):
    """Word vectors of a few words; "cat" has none."""

    measures = word_vectors.WordVectorEvaluator.measures

    def __init__(self) -> None:
        self._rows = {word: k for k, word in enumerate(WORDS) if word != "cat"}
        self._table = np.random.default_rng(3).normal(0.2, 1, (len(WORDS), 6)).astype(np.float32)

    def score(self, pairs):
        index = WordIndex(self._rows)
        predicted, target = (index.read([pair[side] for pair in pairs]) for side in (0, 1))
        return word_vectors.measure_vectors(self._table, predicted, target, MeasureOptions())

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
    given = folder / "predictions.parquet"
    write_shard(given, semantics.PREDICTIONS, pa.Table.from_pylist(rows, semantics.PREDICTIONS), {})
    paths = []
    for name, evaluator in evaluators:
        paths.append(folder / f"{name}.parquet")
        write_shard(paths[-1], semantics.SEMANTIC_SCORES, scored(rows, evaluator, name), {})
    return paths, [given]


def summary(folder, rows, *evaluators, seed=1):
    folder.mkdir(exist_ok=True)
    paths = write_scores(folder, rows, *(evaluators or [("words", WordEvaluator())]))
    table = model_measures.summarize_scores(*paths, "lstm", 49, seed)
    assert table.schema.equals(semantics.SEMANTICS)
    return table.to_pandas()


def row_of(frame, **wanted):
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_every_sentence_has_every_kind_of_score_and_statistics_of_words_add_up():
    """Oracle: the evaluator asked pair by pair, means over samples and over their pairs."""
    rows, evaluator = predictions(samples=3), Vectors()
    frame = scored(rows, evaluator, "glove").to_pandas()
    assert (set(frame.evaluator), set(frame.model)) == ({"glove"}, {"lstm"})
    held = frame.set_index(["unit_id", "sentence", "measure", "kind"]).value
    assert held.index.is_unique

    def mean(pairs, measure):
        return np.mean([evaluator.score([pair])[measure][0] for pair in pairs])

    for row in rows[:12]:
        place = row["unit_id"], row["sentence"]
        told = {"predicted": [row["predicted"]], "sampled": row["samples"]}
        told["continued"] = [] if row["continued"] is None else [row["continued"]]
        for measure, (kind, texts) in itertools.product(("aligned_cosine", "wmd"), told.items()):
            partner = semantics.PARTNER_OF[kind], row["partner"]
            for name, other in ((kind, row["target"]), partner):
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


def test_scores_do_not_depend_on_batches_and_are_null_where_tokens_are_no_words():
    """Bit for bit."""
    table = pa.Table.from_pylist(predictions(documents=12), semantics.PREDICTIONS)
    for evaluator in (WordEvaluator(), Vectors()):
        order = [(name, "ascending") for name in ("measure", "unit_id", "sentence", "kind")]
        batches = [table.to_batches(max_chunksize=size) for size in (1, 7, 1000)]
        parts = [score_predictions(some, evaluator, "m", "e") for some in batches]
        tables = [pa.concat_tables(part).sort_by(order) for part in parts]
        assert tables[0].equals(tables[1])
        assert tables[0].equals(tables[2])
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


class Table:
    """Vectors of w1 to w5 alone, at right angles to one another."""

    def find(self, words):
        known = {f"w{k}": row for k, row in enumerate(np.eye(5, dtype=np.float32), 1)}
        return np.array([known.get(word, np.full(5, np.nan)) for word in words], np.float32)


def test_a_prediction_of_words_without_a_vector_matches_the_same_words_of_the_target():
    """Oracle: three of four words are alike; beside a word with a vector the others count too."""
    evaluator = word_vectors.WordVectorEvaluator(Table(), {}, {}, WHITE_SPACE_ONLY)
    target = "zz zz zz w1"
    given = [("zz zz zz yy", target), ("zz zz zz w5", target), ("yy yy", target), ("", target)]
    found = evaluator.score([*given, ("zz", "zz zz")])
    for name in ("aligned_cosine", "greedy_precision", "greedy_recall", "greedy_f1"):
        assert found[name][0] == found[name][1] == pytest.approx(0.75)
        assert (found[name][2], found[name][3]) == (0, 0)
    for name in ("wmd", "pairwise_cosine", "cosine"):
        assert found[name][0] > found[name][2] == found[name][3]
    assert found["average"][:4].tolist() == [0, 0, 0, 0]  # means have no direction, or w5 and w1
    assert all(np.isnan(values[4]) for values in found.values())  # no target that it knows


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
def test_means_baselines_and_excesses_are_those_of_the_rows(tmp_path, kind):
    """Oracle: pandas, and groups left out one by one."""
    rows = predictions(documents=90)
    frame = summary(tmp_path, rows, ("glove", Vectors()))
    scores = scored(rows, Vectors(), "glove").to_pandas()
    for measure in ("wmd", "cosine_scaled", "aligned_cosine"):
        part = scores[(scores.measure == measure) & (scores.split == "test")]
        names = kind, semantics.PARTNER_OF[kind]
        own, baseline = (part[part.kind == name].value.to_numpy() for name in names)
        found = row_of(frame, split="test", measure=measure, kind=kind)
        groups = groups_of(rows, "test")
        named = {"value": own, "baseline": baseline, "excess": own - baseline}
        for name, held in named.items():
            value, error, effective = jackknife(groups, lambda kept, held=held: held[kept].mean())
            low, high = (f"{name}_{end}".removeprefix("value_") for end in ("low", "high"))
            half = student.ppf(0.975, effective - 1) * error
            assert found[name] == pytest.approx(value)
            assert (found[low], found[high]) == pytest.approx((value - half, value + half))
        assert (found.groups_effective, found.sentences) == (pytest.approx(effective), len(own))
        assert found.sentence_mean == pytest.approx(found.value)
        scaled = exponential_scaling(own).mean() if MEASURES[measure].scalable else math.nan
        assert found.scaled == pytest.approx(scaled, nan_ok=True)


def test_bleu_is_of_all_sentences_and_its_mean_stands_beside(tmp_path):
    rows = predictions(documents=90)
    frame, scores = summary(tmp_path, rows), scored(rows).to_pandas()
    for name, order in BLEU_NAMES.items():
        part = scores[(scores.split == "test") & (scores.measure == name)]
        found = row_of(frame, split="test", measure=name, kind="predicted")
        own, baseline = (part[part.kind == kind] for kind in ("predicted", "partner"))
        assert found.value == pytest.approx(float(bleu_of(own.statistics.sum(), order)))
        assert found.baseline == pytest.approx(float(bleu_of(baseline.statistics.sum(), order)))
        assert found.excess == pytest.approx(found.value - found.baseline)
        assert found.sentence_mean == pytest.approx(own.value.mean())
        matches = own.statistics.sum()[2 : 2 + order]
        if matches.all():
            assert found.low <= found.value <= found.high
        else:
            assert np.isnan(found.low)
            assert "smoothed, no interval" in found.note
    assert row_of(frame, split="test", measure="bleu_2", kind="predicted").low > 0


def test_words_weigh_alike_in_accuracy_and_cross_entropy_and_what_lacks_is_said(tmp_path):
    rows = [row for row in predictions(documents=90) if row["split"] == "test"]
    frame = summary(tmp_path, rows)
    pairs = [zip(row["predicted"].split(), row["target"].split(), strict=True) for row in rows]
    right = sum(one == other != "<unk>" for pair in pairs for one, other in pair)
    words = sum(row["words"] for row in rows)
    accuracy = row_of(frame, measure="accuracy", kind="predicted")
    assert accuracy.value == pytest.approx(right / words)
    entropy = row_of(frame, measure="cross_entropy")
    assert entropy.value == pytest.approx(-sum(row["log_prob"] for row in rows) / words)
    assert np.isnan(entropy.baseline)
    assert "baseline" not in entropy.note
    for name in ("target", "predicted"):
        share = sum(row[f"unknown_{name}"] for row in rows) / words
        assert accuracy[f"unknown_{name}"] == pytest.approx(share)
    rows = predictions(documents=12, samples=0, aligned=False)
    for row in rows:
        row["partner"] = None
    rows[0]["log_prob"] = -math.inf
    frame = summary(tmp_path, rows)
    assert not {"sampled", "proper"} & set(frame.kind)
    bleu = row_of(frame, split="test", measure="bleu_2", kind="predicted")
    assert "no unrelated sentences: no baseline" in bleu.note
    assert "fewer than 20 effective groups: no interval" in bleu.note
    assert np.isnan([bleu.baseline, bleu.excess, bleu.low, bleu.high]).all()
    accuracy = row_of(frame, split="test", measure="accuracy", kind="predicted")
    assert accuracy.note == "not defined: tokens of the model are no words"
    assert (accuracy.sentences, accuracy.undefined) == (0, sum(r["split"] == "test" for r in rows))
    assert np.isnan(accuracy.value)
    impossible = row_of(frame, split="valid", measure="cross_entropy")
    assert "the model finds a sentence impossible: no value" in impossible.note
    assert np.isnan(impossible.value)


def expected(kind, truth, told):
    """Return what a model expects to score where the next word is A or B, by enumeration."""
    found = 0.0
    triples = itertools.product(truth.items(), told.items(), told.items())
    for (word, p), (one, q), (other, r) in triples:
        agrees = float(one == word)
        spread = float(one == other)
        found += p * q * r * (agrees - spread / 2 if kind == "proper" else agrees)
    return found


def test_only_the_proper_score_is_best_for_the_truth_and_of_accuracy_is_briers(tmp_path):
    """A model that always says the likelier word expects more matches than the truth itself.

    Oracle: 1/2 − Brier/2 + a constant: E 1(X = y) − E 1(X = X')/2 = q_y − Σ q²/2. All pairs of 40
    samples stand for the expectation.
    """
    truth = {"A": 0.7, "B": 0.3}
    models = [{"A": q, "B": 1 - q} for q in np.linspace(0, 1, 21).tolist()]
    for kind, best in (("sampled", 1.0), ("proper", 0.7)):
        scores = [expected(kind, truth, told) for told in models]
        assert models[int(np.argmax(scores))]["A"] == pytest.approx(best)
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
        row = predictions()[0] | {"unit_id": unit, "group": None, "words": 1, "split": "test"}
        row |= {"partner": "mat", "target": WORDS[word], "predicted": WORDS[0]}
        rows.append(row | {"samples": samples})
    frame = summary(tmp_path, rows)
    found = row_of(frame, measure="accuracy", kind="proper")
    assert found.value == pytest.approx(brier / 30)
    sampled = row_of(frame, measure="accuracy", kind="sampled")
    assert found.excess == pytest.approx(sampled.excess)  # the spread is the same in both


def test_the_summary_does_not_depend_on_shards_and_intervals_hold_what_they_name(tmp_path):
    """A small case of `benchmarks/calibration_semantics.py`: 100 repeats of 30 pages."""
    found = coverages(100, 30)
    assert min(found) >= 0.86, found  # of 95% less than a thousandth part is below
    assert max(levels(150, 40)) <= 0.11  # of 5% about a thousandth part is above
    # Bit for bit: shards of one sentence, a few, all; other row groups
    rows, both = predictions(documents=12), (("words", WordEvaluator()), ("glove", Vectors()))
    whole = summary(tmp_path / "whole", rows, *both)
    for size in (1, 11):
        paths = []
        for name, evaluator in both:
            for begin in range(0, len(rows), size):
                paths.append(tmp_path / f"{name}-{size}-{begin:05d}.parquet")
                table = scored(rows[begin : begin + size], evaluator, name)
                write_shard(paths[-1], semantics.SEMANTIC_SCORES, table, {})
        given = [tmp_path / "whole" / "predictions.parquet"]
        cut = model_measures.summarize_scores(paths, given, "lstm", 49, 1).to_pandas()
        pd.testing.assert_frame_equal(cut, whole, check_exact=True)


def test_commands_score_and_measure_and_bad_flags_are_one_line(tmp_path, one_thread):
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
    output, empty = tmp_path / "out.parquet", tmp_path / "empty.parquet"
    write_shard(empty, semantics.SEMANTIC_SCORES, semantics.SEMANTIC_SCORES.empty_table(), {})
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


class SharedWords(contract.Evaluator):
    """Share of words, whatever their order: |A ∩ B| / |A ∪ B|; nothing of texts with "x"."""

    measures = ("average",)

    def score(self, pairs):
        found = []
        for pair in pairs:
            one, other = (set(text.split()) for text in pair)
            known = "x" not in one | other
            found.append(len(one & other) / len(one | other) if known else math.nan)
        return {"average": np.array(found)}

    def describe(self):
        return {"title": "toy"}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("he was old and is dead", "he was not old and is dead"),
        *(("It Is not so", "It Is so"), ("they did n't go", "they did go"), ("it runs", None)),
        *(("so it is", None), ("", None)),
    ],
)
def test_negations(text, changed):
    found = probing.negate(text.split(), np.random.default_rng(0))
    assert found == (changed and changed.split())


def test_two_words_change_places_and_shuffled_ones_are_in_another_order():
    rng = np.random.default_rng(1)
    words = ["a", "b", "a", "<unk>", "c", "a"]
    seen = set()
    for _ in range(300):
        changed = probing.swap_words(words, rng)
        moved = [place for place in range(6) if words[place] != changed[place]]
        assert len(moved) == 2
        one, other = moved
        assert (changed[one], changed[other]) == (words[other], words[one])
        seen.add((one, other))
    # every pair of different words, none with what is no word
    assert seen == {(0, 1), (0, 4), (1, 2), (1, 4), (1, 5), (2, 4), (4, 5)}
    assert probing.swap_words(["a", "a", "<unk>"], rng) is None
    rng = np.random.default_rng(2)
    found = {tuple(probing.shuffle_words(["a", "b", "c"], rng)) for _ in range(200)}
    assert len(found) == 5
    assert probing.shuffle_words(["a", "a"], rng) is None


def documents(count: int = 60):
    """Documents of two sentences: one that can be negated, one of one word."""
    texts = [[f"w{k} is here .".split(), [f"w{k}"]] for k in range(count)]
    units = [CutDocument(k, f"page {k // 2}", text) for k, text in enumerate(texts)]
    partners = [[f"w{k + 1} was there !", None] for k in range(count)]
    return units, partners


def test_changes_are_of_the_sentence_alone_and_what_is_noticed_is_said():
    units, partners = documents()
    whole = probing.probe_sentences(units, partners, 7)
    part = probing.probe_sentences(units[::-1][:9], partners[::-1][:9], 7)
    for name, versions in part.versions.items():
        backward = [versions[k : k + 2] for k in range(0, 18, 2)][::-1]
        assert [text for pair in backward for text in pair] == whole.versions[name][-18:]
    another = probing.probe_sentences(units, partners, 8)
    assert another.versions["shuffled"] != whole.versions["shuffled"]
    # Oracle: shared words of 4 of 5, of 4 of 4, of 0 of 8
    table = probed(units, partners)
    assert table.schema.equals(semantics.PROBES)
    rows = {row["probe"]: row for row in table.to_pylist()}
    assert [rows[name]["value"] for name in rows] == pytest.approx([1, 0.8, 1, 1, 0])
    assert list(rows) == ["identical", "negated", "swapped", "shuffled", "unrelated"]
    assert [row["sentences"] for row in rows.values()] == [120, 60, 60, 60, 60]
    assert [row["noticed"] for row in rows.values()] == [None, 1, 0, 0, 1]
    assert [row["effect"] for row in rows.values()] == pytest.approx([None, 0.2, 0, 0, 1])
    # Wilson's limits at 30 groups of 2: what no sentence notices may be noticed by one of ten
    z = stats.t.ppf(0.975, 29)
    limits = rows["swapped"]["noticed_low"], rows["swapped"]["noticed_high"]
    assert limits == pytest.approx((0, z**2 / (30 + z**2)), abs=1e-12)
    assert rows["negated"]["noticed_low"] == pytest.approx(30 / (30 + z**2))
    assert rows["negated"]["groups"] == 30
    units = [CutDocument(k, None, [["x", "is", "b"]]) for k in range(5)]
    for row in probed(units, [[None]] * 5).to_pylist():
        assert row["value"] is None
        assert row["undefined"] == (0 if row["probe"] == "unrelated" else 5)
        assert row["note"] == "no sentence can be changed so and has a value"
    rows = probed(*documents(6)).to_pylist()
    assert {row["note"] for row in rows} == {"fewer than 20 effective groups: no interval"}
    assert {row["low"] for row in rows} == {None}


def probed(units, partners, evaluator=None):
    sentences = probing.probe_sentences(units, partners, 7)
    return probing.probe_evaluator(evaluator or SharedWords(), sentences, "toy")


def test_intervals_of_probes_are_over_groups():
    """Oracle: 40 pages whose sentences share their fate vary as 40 sentences do."""
    hidden = np.random.default_rng(3).random(40) < 0.5
    units = [
        CutDocument(3 * k + n, f"page {k}", [["x" if hidden[k] else "a", "is", "b", f"n{n}"]])
        for k in range(40)
        for n in range(3)
    ]

    class Blind(SharedWords):
        def score(self, pairs):
            seen = [float(one == other or "x" in one) for one, other in pairs]
            return {"average": np.array(seen)}

    table = probed(units, [["c d e f"]] * 120, Blind())
    row = next(row for row in table.to_pylist() if row["probe"] == "negated")
    share = 1 - hidden.mean()
    assert row["noticed"] == pytest.approx(share)
    # the effective size is that of pages, by 39 of 40 degrees of freedom
    size, z = 39.0, stats.t.ppf(0.975, 38)
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    limits = middle - half, middle + half
    assert (row["noticed_low"], row["noticed_high"]) == pytest.approx(limits)


def tied(seed: int, size: int):
    """Scores of people in steps, and of a measure, with ties in both."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 6, size) / 2
    return gold, np.round(gold + rng.normal(0, 1.5, size), 1)


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_correlations_are_scipys_and_their_errors_those_of_left_out_items(correlate):
    x, y = tied(1, 400)
    theirs = {pearson: stats.pearsonr, spearman: stats.spearmanr}[correlate]
    found = correlate(x, y)
    assert found.value == pytest.approx(theirs(x, y)[0])
    keep = ~np.eye(400, dtype=bool)
    without = np.array([theirs(x[row], y[row])[0] for row in keep])
    assert found.influences == pytest.approx(399 * (found.value - without), abs=0.05)
    error = math.sqrt(399 / 400 * np.sum((without - without.mean()) ** 2))
    assert found.standard_error == pytest.approx(error, rel=0.02)
    assert found.influences.sum() == pytest.approx(0, abs=1e-9)
    assert correlate(-x, y).value == pytest.approx(-found.value)
    half = stats.t.ppf(0.975, 399) * found.standard_error / (1 - found.value**2)
    assert found.low == pytest.approx(math.tanh(math.atanh(found.value) - half))


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_items_of_a_group_are_no_news_and_what_is_not_defined_is_none(correlate):
    """Oracle: every item said three times has the interval of once, up to 1/(G − 1)."""
    x, y = tied(2, 200)
    once = correlate(x, y)
    thrice = correlate(np.tile(x, 3), np.tile(y, 3), np.tile(np.arange(200), 3))
    assert (thrice[:4], thrice.effective) == (pytest.approx(once[:4]), 200)
    assert correlate(np.tile(x, 3), np.tile(y, 3)).standard_error < 0.6 * once.standard_error
    for x, y in (([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [5, 5, 5])):
        found = correlate(x, y)
        assert math.isnan(found.value)
        assert math.isnan(found.low)
    few = correlate(np.arange(19.0), np.arange(19.0) ** 2)
    assert few.value > 0.9
    assert math.isnan(few.low)
    assert correlate(np.arange(50.0), 3 * np.arange(50.0))[:3] == pytest.approx((1, 1, 1))


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_differences_of_correlations_are_of_the_same_items(correlate):
    """Oracle: items left out one by one; two measures that err alike differ for sure."""
    rng = np.random.default_rng(5)
    gold, first = tied(3, 300)
    second = first + rng.normal(0, 1, 300)
    found = [correlate(gold, scores) for scores in (first, second)]
    value, low, high = correlation_difference(*found)
    keep = ~np.eye(300, dtype=bool)
    both = ([correlate(gold[row], y[row]).value for row in keep] for y in (first, second))
    without = np.subtract(*map(np.array, both))
    error = math.sqrt(299 / 300 * np.sum((without - without.mean()) ** 2))
    assert value == found[0].value - found[1].value
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 299) * error, rel=0.03)
    assert low > 0
    assert found[0].low < found[1].high  # which would leave it open
    assert correlation_difference(found[0], found[0]) == (0, 0, 0)
    few = [correlate(gold[:10], scores[:10]) for scores in (first, second)]
    assert np.isnan(correlation_difference(*few)[1:]).all()


def test_pairs_are_read_from_tabs_and_commas(tmp_path):
    tabs = tmp_path / "pairs.tsv.gz"
    lines = ["one\ttwo\tid\tscore\r\n", '"a\tb, c\tk\t1.5\r\n', "\n", "d\té\tl\t-2\n"]
    tabs.write_bytes(gzip.compress("".join(lines).encode("utf-8-sig")))
    wanted = [('"a', "b, c", 1.5), ("d", "é", -2.0)]
    assert list(scored_pairs.read_scored_pairs(tabs, "score")) == wanted
    commas = tmp_path / "pairs.csv"
    commas.write_text('one,two,score\n"a ""x"", b",c,3\n')
    assert list(scored_pairs.read_scored_pairs(commas, "score")) == [('a "x", b', "c", 3.0)]
    assert math.isnan(next(scored_pairs.read_scored_pairs(commas)).gold)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("one\ttwo\tscore\n", "has no pairs below the header row"),
        (" \n\n", "has no pairs below the header row"),
        ("one\n", "line 1: has the one column 'one'"),
        ("one\ttwo\nx\ty\n", "line 1: has no column 'score' after the two texts; there is none"),
        ("score\ttwo\tz\nx\ty\t1\n", "has no column 'score' after the two texts; there is z"),
        ("one\ttwo\tscore\nx\ty\n", "line 2: has 2 fields, expected 3 (one, two, score)"),
        ("one\ttwo\tscore\nx\ty\thigh\n", "line 2: score is 'high', expected a finite number"),
        ("one\ttwo\tscore\nx\ty\tnan\n", "line 2: score is 'nan', expected a finite number"),
        ("one\ttwo\tscore\nx\t \t1\n", "line 2: two is empty; give both texts"),
        ('one,two,score\n"x,y,1\n', "line 2: is no line of CSV"),
        ("one\ttwo\tscore\nx\t\0\t1\n", "line 2: holds NUL characters"),
    ],
)
def test_bad_pairs_are_named(tmp_path, text, message):
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    words = rf"pairs\.tsv.*{re.escape(message)}"
    check_refusals(lambda: list(scored_pairs.read_scored_pairs(path, "score")), {words: ()})


def test_agreement_with_people_is_scipys(tmp_path):
    rng = np.random.default_rng(4)
    lines = []
    for _ in range(700):  # of more than one batch
        words = [" ".join(rng.choice(list("abcdefgh"), 5)) for _ in "12"]
        lines.append("\t".join([*words, f"{rng.integers(0, 6)}"]))
    lines[3] = "x\ta\t2"
    path = tmp_path / "pairs.tsv"
    path.write_text("one\ttwo\tscore\n" + "\n".join(lines))
    scored = scored_pairs.score_pairs(SharedWords(), scored_pairs.read_scored_pairs(path, "score"))
    table = scored_pairs.correlate_people(scored, "toy", "mine")
    assert table.schema.equals(semantics.HUMAN_CORRELATIONS)
    (row,) = table.to_pylist()
    kept = np.delete(np.arange(700), 3)
    gold, values = scored.gold[kept], scored.values["average"][kept]
    assert ((row["pairs"], row["undefined"]), row["note"]) == ((699, 1), "1 pairs have no value")
    assert row["pearson"] == pytest.approx(stats.pearsonr(gold, values)[0])
    assert row["spearman"] == pytest.approx(stats.spearmanr(gold, values)[0])
    assert row["spearman_low"] < row["spearman"] < row["spearman_high"]
    pairs = scored_pairs.list_pair_scores(scored, "toy", "mine")
    assert pairs.schema.equals(semantics.HUMAN_SCORES)
    assert pairs.column("value").null_count == 1
    assert pairs.column("gold").to_pylist() == scored.gold.tolist()


def test_the_command_writes_all_three_tables(tmp_path, one_thread):
    corpus, pairs = tmp_path / "documents.parquet", tmp_path / "pairs.tsv"
    words = [*"abcdefghij", "is", "."]
    texts = [f"{text} ." for text in some_texts(40, 20, words)]
    write_documents(corpus, texts, ("test", "test"))
    pairs.write_text("one\ttwo\tscore\n" + "a b c\ta b d\t1\n" + "a b\ta b\t2\n")
    names = ("output", "correlations", "pair-scores")
    outputs = {f"--{name}": tmp_path / f"{name}.parquet" for name in names}
    flags = [part for pair in outputs.items() for part in pair]
    flags += ["--documents", corpus, "--sentences", 50, "--evaluator", "words", "--seed", 1]
    run_script("probe_evaluator", *flags, "--human", json.dumps({"mine": [str(pairs), "score"]}))
    probes, correlations, scores = (pq.read_table(path) for path in outputs.values())
    assert set(probes.column("measure").to_pylist()) == set(WordEvaluator.measures)
    assert probes.num_rows == 5 * 4
    assert correlations.column("pairs").to_pylist() == [2] * 4
    assert scores.num_rows == 8
    run_script("probe_evaluator", *flags)
    assert pq.read_table(outputs["--correlations"]).num_rows == 0
    assert pq.read_table(outputs["--output"]).equals(probes)
    wrong = ("probe_evaluator", *flags, "--human", '{"mine": "path"}')
    words = r"--human.mine: is 'path', expected \[path, column of scores\]"
    check_refusals(run_script, {words: wrong})
