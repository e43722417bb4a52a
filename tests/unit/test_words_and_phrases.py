"""Words and phrases that samples over- and under-use.

Oracles: formulas written out in plain Python, closed testing over all subsets and all relabelings,
scipy's false discovery control, plain counts of n-grams, leaving out one unit after the other,
texts in which the truth is planted.
"""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom, false_discovery_control

import beyond_perplexity
from benchmarks import words as simulated
from benchmarks.attributions import Drawing
from benchmarks.calibration import rates
from benchmarks.populations import Topics
from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.inference.log_odds import (
    UnitRates,
    effective_cases,
    log_odds,
    log_odds_limits,
)
from beyond_perplexity.inference.p_values import benjamini_yekutieli, max_t
from beyond_perplexity.report.compare import CompareOptions
from beyond_perplexity.report.comparison_page import comparison_text, run_comparison
from beyond_perplexity.report.examples import named_words_table
from beyond_perplexity.report.inputs import as_rows
from beyond_perplexity.tendencies import frequent_ngrams
from beyond_perplexity.tendencies.frequent_ngrams import count_grams
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import Measuring
from beyond_perplexity.tendencies.tokens import TextView, tokenize_batch
from beyond_perplexity.tendencies.words_and_phrases import compare_words
from scripts import measure_words
from tests.unit.small_corpora import write_documents
from tests.unit.synthetic_tables import make_words
from tests.unit.text_pairs import batched, pair_of, run_script, statistics_of, write_samples

OPTIONS = MeasurementOptions(permutations=199, bootstrap=0, monte_carlo=0)


def compared(first, second, groups=(None, None), *, view=None, options=OPTIONS, seed=0):
    """Compare two lists of texts: the rows by n-gram."""
    read = tokenize_batch if view is None else view.batch
    with pair_of(first, second, groups) as pair:
        texts = (lambda: batched(first, 64)), (lambda: batched(second, 64))
        table = compare_words(Measuring.of(pair, options, seed), texts, read, "external/samples")
    return as_rows(table).set_index("ngram", drop=False)


def named(rows):
    return set(rows.index[rows["verdict"] == "differs"])


def plain_texts(seed, n, words=30):
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, words + 1)
    law /= law.sum()
    lengths = rng.integers(12, 36, n)
    return [" ".join(f"w{k}" for k in rng.choice(words, m, p=law)) for m in lengths]


# ---- arrays ----


def test_log_odds_and_z_are_the_published_formulas_of_a_toy() -> None:
    """Equations for delta, its variance and z of Monroe, Colaresi and Quinn (2008)."""
    y, n, prior = [[3, 40, 0], [9, 40, 4]], [200, 300], 50
    value, z = log_odds(np.array(y), np.array(n)[:, None], prior)
    for w in range(3):
        a = prior * (y[0][w] + y[1][w]) / sum(n)
        omega = [math.log((y[i][w] + a) / (n[i] + prior - y[i][w] - a)) for i in (0, 1)]
        variance = sum(1 / (y[i][w] + a) for i in (0, 1))
        assert value[w] == pytest.approx(omega[1] - omega[0], rel=1e-12)
        assert z[w] == pytest.approx((omega[1] - omega[0]) / math.sqrt(variance), rel=1e-12)
    assert np.isfinite(value).all()  # the last one stands on one side alone
    alone = log_odds(np.array([[7], [9]]), np.array([[7], [9]]))
    assert (alone.value.tolist(), alone.z.tolist()) == ([0.0], [0.0])  # a text of one word


def plain_t(counts, sizes, first):
    rate = sum(counts) / sum(sizes)
    sums, squares, tokens = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    for y, size, own in zip(counts, sizes, first, strict=True):
        side = 0 if own else 1
        sums[side] += y - rate * size
        squares[side] += (y - rate * size) ** 2
        tokens[side] += size
    spread = sum(squares[side] / tokens[side] ** 2 for side in (0, 1))
    return (sums[1] / tokens[1] - sums[0] / tokens[0]) / math.sqrt(spread) if spread else 0.0


def test_t_is_that_of_plain_loops_and_one_unit_cannot_make_it_large() -> None:
    rng = np.random.default_rng(1)
    counts, sizes = rng.poisson(0.7, (12, 5)), rng.integers(5, 60, 12).astype(float)
    counts[:, 3], counts[:, 4] = sizes, 0
    counts[2, 4] = 50  # a word that one unit repeats
    labels = np.stack([rng.permutation(12) < 5 for _ in range(8)], axis=1)
    rate = UnitRates(csr_matrix(counts), sizes)
    t = rate.t(labels)
    for w, b in itertools.product(range(5), range(8)):
        expected = plain_t(counts[:, w], sizes, labels[:, b])
        assert t[w, b] == pytest.approx(expected, abs=1e-9)
    assert (t[3] == 0).all()  # every token of every unit
    assert np.abs(t[4]).max() < 1.3
    # Student's t with the degrees of freedom of the residuals, two-sided.
    residuals = counts[:, 0] - counts[:, 0].sum() / sizes.sum() * sizes
    df = 2 * np.sum(residuals**2) ** 2 / np.sum(residuals**4) - 1
    from scipy.stats import t as student

    held = rate.p_values(np.full(5, 2.5))
    df = min(df, 10)
    assert held[0] == pytest.approx(2 * student.sf(2.5 * math.sqrt(df / (df - 2)), df))
    assert rate.p_values(np.full(5, 2.5), 4.5)[0] > held[0]


def test_max_t_is_closed_testing_over_all_subsets_and_relabelings() -> None:
    rng = np.random.default_rng(5)
    counts, sizes = rng.poisson(1.0, (7, 5)), rng.integers(8, 15, 7).astype(float)
    counts[3:, 1] += 4
    counts[:, 4] = counts[:, 3]  # ties
    sides = [np.isin(np.arange(7), own) for own in itertools.combinations(range(7), 3)]
    sides = [*sides[1:], sides[0]]  # those of the data, 0 to 2, last
    draws = UnitRates(csr_matrix(counts), sizes).t(np.stack(sides, axis=1)).T
    found = max_t(draws)
    standard = np.abs((draws - draws.mean(axis=0)) / draws.std(axis=0))
    for w in range(5):
        subsets = (s for k in range(1, 6) for s in itertools.combinations(range(5), k) if w in s)
        largest = (standard[:, list(subset)].max(axis=1) for subset in subsets)
        closed = max(float(np.mean(own >= own[-1] - 1e-9)) for own in largest)
        assert found.p_adjusted[w] == pytest.approx(closed)
        assert found.p_value[w] == pytest.approx(np.mean(standard[:, w] >= standard[-1, w] - 1e-9))
    assert found.p_adjusted[1] < 0.12 < found.p_adjusted[[0, 2]].min()


def test_benjamini_and_yekutieli_is_scipys() -> None:
    p = np.random.default_rng(2).beta(0.3, 1, 300)
    p[5] = p[7]
    assert benjamini_yekutieli(p) == pytest.approx(false_discovery_control(p, method="by"))


def test_effective_cases_are_those_of_leaving_units_out_and_limits_hold_the_estimate() -> None:
    rng = np.random.default_rng(3)
    sizes = [rng.integers(40, 60, n).astype(float) for n in (300, 200)]
    counts = [rng.negative_binomial(1, 0.3, (len(size), 3)) for size in sizes]
    for own in counts:
        own[:, 1] = rng.random(len(own)) < 0.2  # at most once in a document
    counts[0][:, 2] = 0
    cases, df = effective_cases(tuple(map(csr_matrix, counts)), tuple(sizes))
    # As many for k equal occurrences.
    assert df[1] == pytest.approx(3 * sum(own[:, 1].sum() for own in counts), rel=0.3)
    for w in (0, 1):  # the jackknife of the log of the ratio of rates
        variance = 0.0
        for own, size in zip(counts, sizes, strict=True):
            y, u = own[:, w], len(size)
            without = np.log((y.sum() - y) / (size.sum() - size))
            variance += (u - 1) / u * np.sum((without - without.mean()) ** 2)
        total = [own[:, w].sum() for own in counts]
        share = total[1] / sum(total)
        assert cases[w] == pytest.approx(1 / (share * (1 - share) * variance), rel=0.03)
    assert cases[1] == pytest.approx(sum(own[:, 1].sum() for own in counts), rel=0.3)
    # Pairs that are left out together, as answers to one prompt are.
    both = [own[:200] for own in counts], [size[:200] for size in sizes]
    both[0][1][:, 0] += 3 * both[0][0][:, 0]
    codes = np.arange(200) // 2
    paired, _ = effective_cases(tuple(map(csr_matrix, both[0])), tuple(both[1]), (codes, codes))
    held = [
        [np.bincount(codes, x) for x in (own[:, 0], size)] for own, size in zip(*both, strict=True)
    ]
    without = [np.log((y.sum() - y) / (n.sum() - n)) for y, n in held]
    apart = without[1] - without[0]
    variance = 99 / 100 * np.sum((apart - apart.mean()) ** 2)
    share = held[1][0].sum() / (held[0][0].sum() + held[1][0].sum())
    assert paired[0] == pytest.approx(1 / (share * (1 - share) * variance), rel=0.03)
    y, n = np.stack([own.sum(axis=0) for own in counts]), np.stack([s.sum() for s in sizes])
    low, high = log_odds_limits(y, n[:, None], cases, 100.0)
    value = log_odds(y, n[:, None]).value
    assert (low < value)[:2].all()
    assert (value < high)[:2].all()
    assert low[2] < value[2] == high[2]  # what one text lacks has a lower limit alone


# ---- counting ----


def plain_grams(texts, view):
    found = []
    for text in texts:
        batch = view.batch(pa.array([text]))
        words = [batch.types[k].as_py() for k in batch.ids]
        grams = (words[i : i + n] for n in (1, 2, 3) for i in range(len(words) - n + 1))
        found.append(Counter(" ".join(gram) for gram in grams if "<unk>" not in gram))
    return found


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_frequent_n_grams_are_those_of_plain_counts_in_whatever_batches(batch) -> None:
    sides = plain_texts(1, 40, 8), [*plain_texts(2, 30, 8), "", "w1"]
    view = TextView(pa.array([f"w{k}" for k in range(6)]), 25)
    texts = tuple((lambda own=own: batched(own, batch)) for own in sides)
    found = count_grams(texts, view.batch, 72)
    plain = [plain_grams(own, view) for own in sides]
    documents = Counter(gram for own in (*plain[0], *plain[1]) for gram in own)
    total = sum((Counter(own) for own in (*plain[0], *plain[1])), Counter())
    kept = [gram for gram in documents if documents[gram] >= 10 and total[gram] >= 20]
    assert found.names == sorted(kept, key=lambda gram: (gram.count(" "), gram))
    assert any(gram.count(" ") == 2 for gram in kept)
    for side, counts in enumerate(found.counts):
        expected = [[own[gram] for gram in found.names] for own in plain[side]]
        assert np.array_equal(counts.toarray(), expected)
        lengths = [
            [sum(own[g] for g in own if g.count(" ") == k) for k in range(3)] for own in plain[side]
        ]
        assert np.array_equal(found.sizes[side], lengths)


def test_of_very_many_n_grams_those_in_most_documents_count(monkeypatch) -> None:
    monkeypatch.setattr(frequent_ngrams, "MOST_GRAMS", 5)
    sides = plain_texts(1, 40), plain_texts(2, 40)
    found = count_grams(tuple((lambda own=own: batched(own)) for own in sides), tokenize_batch, 80)
    plain = Counter(gram for own in sides for one in plain_grams(own, TextView()) for gram in one)
    assert set(found.names) == {gram for gram, _ in plain.most_common(5)}


# ---- what is named ----


def test_planted_words_are_named_with_two_quotations_and_nothing_else() -> None:
    first, second = plain_texts(1, 120), plain_texts(2, 120)
    second = [f"{text} in conclusion" if k % 3 else text for k, text in enumerate(second)]
    first = [f"however {text}" if k % 4 == 0 else text for k, text in enumerate(first)]
    rows = compared(first, second)
    assert {"in", "conclusion", "in conclusion", "however"} <= named(rows)
    assert all({"in", "however"} & set(gram.split()) for gram in named(rows) - {"conclusion"})
    row = rows.loc["in conclusion"]
    assert (row["documents"], row["documents_reference"]) == (80, 0)
    assert row["document_share"] == pytest.approx(80 / 120)
    assert 0 < row["low"] < row["log_odds"] == row["high"] < 20
    assert rows.loc["however", "log_odds"] < 0
    places = [k for k, text in enumerate(second) if text.endswith("conclusion")][:2]
    for place, name in zip(places, ("example_1", "example_2"), strict=True):
        words = second[place].split()
        assert row[name] == f"… {' '.join(words[-10:-2])} [in conclusion]"
    assert rows.loc["however", "example_1"].startswith("[however] w")
    assert rows.loc["w1", "example_1"] is None
    assert (rows["family"] == len(rows)).all()
    assert rows["t"].abs().is_monotonic_decreasing


def test_a_text_against_itself_names_nothing_and_says_so() -> None:
    texts = plain_texts(1, 60)
    rows = compared(texts, texts)
    assert (rows["log_odds"].abs() < 1e-12).all()
    assert (rows["p_value"] == 1).all()
    assert (rows["p_adjusted"] == 1).all()
    made = named_words_table(rows.reset_index(drop=True), Labels())
    assert "of which 0 are over-used and 0 under-used" in made.rows[0][0]


def test_one_long_document_and_one_group_make_no_word() -> None:
    first, second = plain_texts(1, 200), plain_texts(2, 200)
    second[5] = " ".join(["again and"] * 100)
    second[20:30] = [f"{text} again" for text in second[20:30]]  # frequent enough to be tested
    # The topic of one group of 24 documents.
    second = [f"{text} topic" if k >= 176 else text for k, text in enumerate(second)]
    topical = np.concatenate([np.arange(176) // 2, np.full(24, 88)])
    alone = compared(first, second)
    assert "topic" in named(alone)  # single documents: a difference
    assert "again" not in named(alone)
    assert alone.loc["again", "z"] > 4
    grouped = compared(first, second, (topical, topical))
    assert "topic" not in named(grouped)
    assert grouped.loc["topic", "documents"] == 24
    assert set(grouped["permuted"]) == {"groups"}
    assert set(grouped["verdict"]) == {"no difference found"}


@pytest.mark.parametrize("groups", [("a", None), (None, "a")])
def test_groups_of_one_text_alone_are_swapped_or_drawn(groups) -> None:
    first, second = plain_texts(1, 120), plain_texts(2, 120)
    second = [f"{text} planted" if k % 2 else text for k, text in enumerate(second)]
    codes = tuple(None if own is None else np.arange(120) // 3 for own in groups)
    rows = compared(first, second, codes)
    assert "planted" in named(rows)
    assert set(rows["permuted"]) == {"one_draw" if codes[0] is None else "swaps"}


def test_answers_to_prompts_are_compared_within_them(tmp_path) -> None:
    """Topics that both answers to a prompt share move no limit and name no word."""
    topics = [f"topic{k % 8} " * 6 for k in range(120)]
    human, model = plain_texts(1, 120), plain_texts(2, 120)
    model = [f"indeed {text}" if k % 2 else text for k, text in enumerate(model)]
    rows = [
        {"prompt": f"p{k}", "human": topics[k] + human[k], "model": topics[k] + model[k]}
        for k in range(120)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    given = {"tokenized": True, "permutations": 199, "bootstrap": 0}
    found = beyond_perplexity.compare(pairs=path, **given).table_of("words").set_index("ngram")
    assert named(found) == {"indeed"}
    assert set(found["permuted"]) == {"prompts"}
    cut = [
        min(len(row[name].split()) for name in ("human", "model")) - 1 for row in rows
    ]  # to equal lengths, one less than the shorter one has
    plain = Counter(w for row, n in zip(rows, cut, strict=True) for w in row["model"].split()[:n])
    for name in ("indeed", "topic3", "w1"):
        assert found.loc[name, "count"] == plain[name]
    texts = [row["human"] for row in rows], [row["model"] for row in rows]
    alone = compared(*texts)
    width = [(own["high"] - own["low"])["topic3"] for own in (found, alone)]
    assert width[0] < 0.5 * width[1]


def test_few_documents_have_no_rows_or_no_verdict_and_few_permutations_cannot_tell() -> None:
    assert compared(["a b c"] * 3, ["a b d"] * 3).empty
    few = compared(plain_texts(1, 12), plain_texts(2, 12), (np.arange(12) // 2, np.arange(12) // 2))
    assert set(few["verdict"]) == {"no verdict"}
    assert few["t"].isna().all()
    assert json.loads(few["reason"].iloc[0])["code"] == "few_groups"
    assert few["log_odds"].notna().all()
    assert few["low"].notna().all()
    texts = plain_texts(1, 40), [f"{text} planted" for text in plain_texts(2, 40)]
    rows = compared(*texts, options=replace(OPTIONS, permutations=9))
    assert set(rows["verdict"]) == {"cannot tell"}
    assert not named(rows)
    rows = compared(*texts, options=replace(OPTIONS, permutations=0))
    assert set(rows["verdict"]) == {"not tested"}
    assert rows["p_adjusted"].isna().all()


def test_levels_and_power_of_a_few_repeats() -> None:
    """What `benchmarks.words` repeats a thousand times."""
    small = Topics(size=5.0)
    sides = Drawing(small, 120, False), Drawing(small, 120, False, 0.6)
    case = simulated.AlikeWords("few", *sides, (False, False), small.classes)
    (rate, _) = rates("words", case, 8)
    assert rate.rate <= 2 / 8
    planted = simulated.Planted("few", small, 120, 0.35, beforehand=5)
    (rate,) = rates("words", planted, 4)
    assert rate.rate == 1
    assert binom.sf(20, 120, 0.35) > 0.99


# ---- what users see ----


def test_words_of_a_user_are_text_on_the_page_in_the_csv_and_on_the_terminal(tmp_path) -> None:
    first, second = plain_texts(1, 60), plain_texts(2, 60)
    strange = ["<b>&amp;", "=1+1", "$x_2$"]
    second = [f"{text} {' '.join(strange)}" for text in second]
    paths = []
    for name, texts in (("first", first), ("second", second)):
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text("\n".join(texts) + "\n")
    options = CompareOptions(*paths, tokenized=True, permutations=199, bootstrap=0)
    found = run_comparison(options, tmp_path / "out")
    page = (tmp_path / "out/compare.html").read_text()
    assert "&lt;b&gt;&amp;amp; =1+1 $x_2$" in page
    assert "<b>&amp;amp;" not in page
    assert "id='words'" in page
    held = pd.read_csv(tmp_path / "out/words.csv", keep_default_na=False)
    assert {"'=1+1", "<b>&amp; '=1+1"} & set(held["ngram"]) == {"'=1+1"}
    assert "Words and phrases that are over- and under-used" in comparison_text(found)
    assert len(held) == len(found.words)


def test_figures_draw_one_sample_set_by_its_intervals_and_several_as_a_matrix() -> None:
    one = make_words("external/samples", ["b", "$c$", "d" * 80], [2.0, -1.0, 0.5])
    figure = draw_figure("tendencies/words", {"words": one}, Labels())
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["b", "d" * 33 + "…", "$c$"]
    assert right.get_xlabel() == "Documents that have it (%)"
    several = pd.concat([one, make_words("lstm/beam", ["b", "e"], [1.0, -2.0])], ignore_index=True)
    figure = draw_figure("tendencies/words", {"words": several}, Labels())
    rows = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert (rows[0], rows[-1]) == ("b", "e")  # by the mean of 2 and 1, and -2
    assert len(figure.axes[0].get_xticklabels()) == 2
    assert len(named_words_table(several, Labels()).rows) == 5


def test_a_word_within_a_longer_one_that_is_named_is_not_shown() -> None:
    table = make_words(
        "external/samples", ["in conclusion", "in", "conclusion", "and in"], [2.0] * 4
    )
    table["words"], table["count"] = [2, 1, 1, 2], [40, 90, 42, 40]
    rows = named_words_table(table, Labels()).rows
    assert [row[0] for row in rows] == ["in conclusion", "in", "and in"]


def test_the_job_finds_what_the_library_does(tmp_path) -> None:
    first, second = plain_texts(1, 60), plain_texts(2, 60)
    second = [f"{text} planted" if k % 2 else text for k, text in enumerate(second)]
    write_documents(tmp_path / "human.parquet", first, ["test"] * 60)
    samples = write_samples(tmp_path / "samples.parquet", second)
    counted = []
    for name, texts in (("first", first), ("second", second)):
        counted.append(tmp_path / f"{name}.statistics")
        statistics_of(texts, path=counted[-1])
    out = tmp_path / "words.parquet"
    given = ["--reference-documents", tmp_path / "human.parquet", "--reference-split", "test"]
    given += ["--reference-statistics", counted[0], "--sample-statistics", counted[1]]
    given += ["--sample-documents", samples, "--source", "external/samples", "--output", out]
    options = json.dumps({"permutations": 199, "bootstrap": 0, "monte_carlo": 0})
    run_script(measure_words, *given, "--options", options)
    made = as_rows(pq.read_table(out)).set_index("ngram", drop=False)
    pd.testing.assert_frame_equal(made, compared(first, second))
    assert Path(out).exists()
