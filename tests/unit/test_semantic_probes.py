"""What measures notice in changed sentences, and how evaluators agree with people.

Needs nothing but the package. Oracles: changes worked out by hand; an evaluator whose answers are
known; SciPy's correlations; deletion of items one by one; the coverage of a normal law.
"""

from __future__ import annotations

import gzip
import json
import math
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from beyond_perplexity.corpus.sentences import CutDocument
from beyond_perplexity.inference.correlations import (
    correlation_difference,
    pearson,
    spearman,
)
from beyond_perplexity.schemas.semantics import HUMAN_CORRELATIONS, HUMAN_SCORES, PROBES
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.evaluators.word_overlap import WordEvaluator
from beyond_perplexity.semantics.probes import (
    exchange_words,
    negate,
    probe_evaluator,
    probe_sentences,
    shuffle_words,
)
from beyond_perplexity.semantics.scored_pairs import (
    correlate_people,
    list_pair_scores,
    read_scored_pairs,
    score_pairs,
)
from tests.unit.evaluator_oracles import check_refusals, run_script, some_texts, write_documents


class SharedWords(Evaluator):
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


# ---- changes ----


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("he was old and is dead", "he was not old and is dead"),
        ("It Is not so", "It Is so"),
        ("they did n't go", "they did go"),
        ("it runs", None),
        ("so it is", None),
        ("", None),
    ],
)
def test_negations(text, changed):
    found = negate(text.split(), np.random.default_rng(0))
    assert found == (changed and changed.split())


def test_two_different_words_change_places_and_nothing_else():
    rng = np.random.default_rng(1)
    words = ["a", "b", "a", "<unk>", "c", "a"]
    seen = set()
    for _ in range(300):
        changed = exchange_words(words, rng)
        moved = [place for place in range(6) if words[place] != changed[place]]
        assert len(moved) == 2
        one, other = moved
        assert (changed[one], changed[other]) == (words[other], words[one])
        seen.add((one, other))
    # every pair of different words, none with what is no word
    assert seen == {(0, 1), (0, 4), (1, 2), (1, 4), (1, 5), (2, 4), (4, 5)}
    assert exchange_words(["a", "a", "<unk>"], rng) is None


def test_shuffled_words_are_in_another_order():
    rng = np.random.default_rng(2)
    found = {tuple(shuffle_words(["a", "b", "c"], rng)) for _ in range(200)}
    assert len(found) == 5
    assert shuffle_words(["a", "a"], rng) is None


def documents(count: int = 60):
    """Documents of two sentences: one that can be negated, one of one word."""
    texts = [[f"w{k} is here .".split(), [f"w{k}"]] for k in range(count)]
    units = [CutDocument(k, f"page {k // 2}", text) for k, text in enumerate(texts)]
    partners = [[f"w{k + 1} was there !", None] for k in range(count)]
    return units, partners


def test_changes_are_those_of_the_sentence_alone():
    units, partners = documents()
    whole = probe_sentences(units, partners, 7)
    part = probe_sentences(units[::-1][:9], partners[::-1][:9], 7)
    for name, versions in part.versions.items():
        backward = [versions[k : k + 2] for k in range(0, 18, 2)][::-1]
        assert [text for pair in backward for text in pair] == whole.versions[name][-18:]
    another = probe_sentences(units, partners, 8)
    assert another.versions["shuffled"] != whole.versions["shuffled"]


def test_what_is_noticed_is_said():
    """Oracle: shared words of 4 of 5, of 4 of 4, of 0 of 8."""
    units, partners = documents()
    table = probe_evaluator(SharedWords(), probe_sentences(units, partners, 7), "toy")
    assert table.schema.equals(PROBES)
    rows = {row["probe"]: row for row in table.to_pylist()}
    assert [rows[name]["value"] for name in rows] == pytest.approx([1, 0.8, 1, 1, 0])
    assert list(rows) == ["identical", "negated", "exchanged", "shuffled", "unrelated"]
    assert [row["sentences"] for row in rows.values()] == [120, 60, 60, 60, 60]
    assert [row["noticed"] for row in rows.values()] == [None, 1, 0, 0, 1]
    assert [row["effect"] for row in rows.values()] == pytest.approx([None, 0.2, 0, 0, 1])
    # Wilson's limits at 30 groups of 2: what no sentence notices may be noticed by one of ten
    z = stats.t.ppf(0.975, 29)
    limits = rows["exchanged"]["noticed_low"], rows["exchanged"]["noticed_high"]
    assert limits == pytest.approx((0, z**2 / (30 + z**2)), abs=1e-12)
    assert rows["negated"]["noticed_low"] == pytest.approx(30 / (30 + z**2))
    assert rows["negated"]["groups"] == 30


def test_intervals_of_probes_are_over_groups():
    """Oracle: 40 pages whose sentences share their fate vary as 40 sentences do."""
    rng = np.random.default_rng(3)
    hidden = rng.random(40) < 0.5
    units = [
        CutDocument(3 * k + n, f"page {k}", [["x" if hidden[k] else "a", "is", "b", f"n{n}"]])
        for k in range(40)
        for n in range(3)
    ]

    class Blind(SharedWords):
        def score(self, pairs):
            seen = [float(one == other or "x" in one) for one, other in pairs]
            return {"average": np.array(seen)}

    partners = [["c d e f"]] * 120
    table = probe_evaluator(Blind(), probe_sentences(units, partners, 7), "toy")
    row = next(row for row in table.to_pylist() if row["probe"] == "negated")
    share = 1 - hidden.mean()
    assert row["noticed"] == pytest.approx(share)
    # the effective size is that of pages, by 39 of 40 degrees of freedom
    size, z = 39.0, stats.t.ppf(0.975, 38)
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    assert (row["noticed_low"], row["noticed_high"]) == pytest.approx(
        (middle - half, middle + half)
    )


def test_undefined_and_few_are_said():
    units = [CutDocument(k, None, [["x", "is", "b"]]) for k in range(5)]
    table = probe_evaluator(SharedWords(), probe_sentences(units, [[None]] * 5, 7), "toy")
    for row in table.to_pylist():
        assert row["value"] is None
        assert row["undefined"] == (0 if row["probe"] == "unrelated" else 5)
        assert row["note"] == "no sentence can be changed so and has a value"
    few, partners = documents(6)
    table = probe_evaluator(SharedWords(), probe_sentences(few, partners, 7), "toy")
    notes = {row["note"] for row in table.to_pylist()}
    assert notes == {"fewer than 20 effective groups: no interval"}
    assert {row["low"] for row in table.to_pylist()} == {None}


# ---- correlations ----


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
def test_items_of_a_group_are_no_news(correlate):
    """Oracle: every item said three times has the interval of once, up to 1/(G − 1)."""
    x, y = tied(2, 200)
    once = correlate(x, y)
    thrice = correlate(np.tile(x, 3), np.tile(y, 3), np.tile(np.arange(200), 3))
    assert thrice[:4] == pytest.approx(once[:4])
    assert thrice.effective == 200
    assert correlate(np.tile(x, 3), np.tile(y, 3)).standard_error < 0.6 * once.standard_error


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_correlations_that_are_not_defined(correlate):
    for x, y in (([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [5, 5, 5])):
        found = correlate(x, y)
        assert math.isnan(found.value)
        assert math.isnan(found.low)
    few = correlate(np.arange(19.0), np.arange(19.0) ** 2)
    assert few.value > 0.9
    assert math.isnan(few.low)
    perfect = correlate(np.arange(50.0), 3 * np.arange(50.0))
    assert perfect[:3] == pytest.approx((1, 1, 1))


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


# ---- pairs that people scored ----


def test_pairs_are_read_from_tabs_and_commas(tmp_path):
    tabs = tmp_path / "pairs.tsv.gz"
    lines = ["one\ttwo\tid\tscore\r\n", '"a\tb, c\tk\t1.5\r\n', "\n", "d\té\tl\t-2\n"]
    tabs.write_bytes(gzip.compress("".join(lines).encode("utf-8-sig")))
    wanted = [('"a', "b, c", 1.5), ("d", "é", -2.0)]
    assert list(read_scored_pairs(tabs, "score")) == wanted
    commas = tmp_path / "pairs.csv"
    commas.write_text('one,two,score\n"a ""x"", b",c,3\n')
    assert list(read_scored_pairs(commas, "score")) == [('a "x", b', "c", 3.0)]
    assert math.isnan(next(read_scored_pairs(commas)).gold)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("one\ttwo\tscore\n", "has no pairs below the line of names"),
        (" \n\n", "has no pairs below the line of names"),
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
    check_refusals(lambda: list(read_scored_pairs(path, "score")), {words: ()})


def test_agreement_with_people_is_scipys(tmp_path):
    rng = np.random.default_rng(4)
    lines = []
    for _ in range(700):  # of more than one batch
        words = [" ".join(rng.choice(list("abcdefgh"), 5)) for _ in "12"]
        lines.append("\t".join([*words, f"{rng.integers(0, 6)}"]))
    lines[3] = "x\ta\t2"
    path = tmp_path / "pairs.tsv"
    path.write_text("one\ttwo\tscore\n" + "\n".join(lines))
    scored = score_pairs(SharedWords(), read_scored_pairs(path, "score"))
    table = correlate_people(scored, "toy", "mine")
    assert table.schema.equals(HUMAN_CORRELATIONS)
    (row,) = table.to_pylist()
    kept = np.delete(np.arange(700), 3)
    gold, values = scored.gold[kept], scored.values["average"][kept]
    assert (row["pairs"], row["undefined"]) == (699, 1)
    assert row["note"] == "1 pairs have no value"
    assert row["pearson"] == pytest.approx(stats.pearsonr(gold, values)[0])
    assert row["spearman"] == pytest.approx(stats.spearmanr(gold, values)[0])
    assert row["spearman_low"] < row["spearman"] < row["spearman_high"]
    pairs = list_pair_scores(scored, "toy", "mine")
    assert pairs.schema.equals(HUMAN_SCORES)
    assert pairs.column("value").null_count == 1
    assert pairs.column("gold").to_pylist() == scored.gold.tolist()


# ---- command ----


def test_the_command_writes_all_three_tables(tmp_path, one_thread):
    corpus, pairs = tmp_path / "documents.parquet", tmp_path / "pairs.tsv"
    words = [*"abcdefghij", "is", "."]
    texts = [f"{text} ." for text in some_texts(40, 20, words)]
    write_documents(corpus, texts, ("test", "test"))
    pairs.write_text("one\ttwo\tscore\n" + "a b c\ta b d\t1\n" + "a b\ta b\t2\n")
    outputs = {
        f"--{name}": tmp_path / f"{name}.parquet"
        for name in ("output", "correlations", "pair-scores")
    }
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
