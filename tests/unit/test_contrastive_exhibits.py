"""Tables, figures and first-page lines of contrastive entropy.

Needs no data: tables come from `synthetic_tables`. Oracles: the numbers of those tables, the
paper's own Table 1 and sentences, SciPy's Kendall correlation, and docutils for the first page.
"""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from docutils.core import publish_doctree
from scipy.stats import kendalltau

from beyond_perplexity.contrastive.differences import read_table_1
from beyond_perplexity.corpus.distortions import EVENT_PARTS
from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures import FIGURES, draw_figure, measure_names, numbers
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report import TABLES, tabulate
from beyond_perplexity.report.contrastive_findings import order_agreement
from beyond_perplexity.report.contrastive_pairs import ordered_readings
from beyond_perplexity.report.contrastive_tables import published_contrasts
from beyond_perplexity.report.findings import FIRST_PAGE, read_findings
from beyond_perplexity.report.inputs import read_input
from beyond_perplexity.report.overview import render_overview
from beyond_perplexity.report.published import COLUMN, PUBLISHED_CONTRASTS
from beyond_perplexity.schemas.contrastive import (
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    PAIR_CONTRASTS,
)
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.verdicts import ALIKE
from tests.unit import evaluator_oracles, planned, synthetic_tables
from tests.unit.synthetic_tables import make_contrasts, make_pair_contrasts, sentence_description

WORDS = ["kn-3", "kn-5", "rnn", "lstm"]
MARGINS = {"s-75-10": (75, 0.1), "s-75-50": (75, 0.5), "s-150-10": (150, 0.1)}
SENTENCES = tuple(MARGINS)
MODELS = [*WORDS, *SENTENCES]
LABELS = Labels(models=MODELS, published=True)


def word_description(family, vocabulary="a", **architecture):
    config = {"architecture": architecture}
    return {"family": family, "config": config, "vocabulary": {"sha256": vocabulary}}


def given():
    """Return what every table and figure of the paper is made of."""
    contrasts = make_contrasts(MODELS, SENTENCES)
    sentence_models = {name: sentence_description(*made) for name, made in MARGINS.items()}
    models = {f"kn-{order}": word_description("kneser-ney", order=order) for order in (3, 5)}
    models |= {"rnn": word_description("rnn", classes=50), "lstm": word_description("lstm")}
    models |= sentence_models
    places = enumerate(WORDS)
    perplexities = {name: {"perplexity": {"word": 150.0 - 3 * place}} for place, name in places}
    bounded = {"perplexity_given_length": 312.4, "interval": [290.1, 330.2], "bound": "lower"}
    bounded |= {"sentences": 500, "sentences_few_effective": 3, "sentences_pareto_k_above": 2}
    return {
        "contrasts": contrasts,
        "contrast_parts": contrasts,
        "contrast_differences": synthetic_tables.make_contrast_differences(contrasts),
        "models": models,
        "perplexities": perplexities,
        "given_lengths": dict.fromkeys(SENTENCES, bounded),
        "sentence_models": sentence_models,
        "training": synthetic_tables.make_margin_training(list(SENTENCES)),
        "pair_contrasts": make_pair_contrasts(MODELS, ["npi", "agreement"]),
        "partitions": synthetic_tables.make_partitions(list(SENTENCES)),
    }


def make(name, labels=LABELS, **changed):
    return tabulate(f"contrastive/{name}", {**given(), **changed}, labels)


def draw(name, labels=LABELS, **changed):
    return draw_figure(f"contrastive/{name}", {**given(), **changed}, labels)


def cell(table, group, title, row):
    (place,) = (at for at, c in enumerate(table.columns) if (c.group, c.title) == (group, title))
    return row[place]


def test_published_ratios_agree_with_the_entropies_but_one_and_the_papers_sentences():
    """The paper prints three decimals of both; what is off by more is a slip of its own."""
    wrong = [
        (paper.title, ratio, round(entropy / paper.entropies[0], 3))
        for paper in PUBLISHED_CONTRASTS.values()
        for ratio, entropy in zip(paper.ratios, paper.entropies[1:], strict=True)
        if abs(ratio - entropy / paper.entropies[0]) > 0.003 * ratio
    ]
    assert wrong[-1:] == [("sRNN-75(10)", 5.257, 4.707)]
    said = make("table_3").note
    assert all(part in said for part in ("sRNN-75(10)", "5.257", "4.707"))
    rows = {paper.title: paper for paper in PUBLISHED_CONTRASTS.values()}
    known = [rows[name] for name in ("3-gram KN", "5-gram KN", "RNN")]
    falling = [paper.perplexity for paper in known]
    assert falling == sorted(falling, reverse=True)
    for place in range(3):  # "correlates negatively with perplexity"
        values = [paper.entropies[place] for paper in known]
        assert values == sorted(values)
    fifty = rows["sRNN-75(50)"].entropies
    assert all(one < other for one, other in zip(fifty, rows["RNN"].entropies, strict=True))
    for name in ("3-gram KN", "5-gram KN"):  # "worse for 10% and 30%"
        worse = [a < b for a, b in zip(fifty, rows[name].entropies, strict=True)]
        assert worse == [True, True, False]
    assert all(a < b for a, b in zip(fifty, rows["sRNN-75(10)"].entropies, strict=True))
    sentences = {title for title in rows if title.startswith("sRNN")}
    assert {paper.title for paper in rows.values() if paper.unit == "sentence"} == sentences


def test_a_model_has_the_row_of_the_paper_that_it_is_made_like():
    models = {"a": word_description("kneser-ney", order=3), "f": word_description("lstm")}
    models |= {"b": word_description("kneser-ney", order=4), "g": word_description("rnn")}
    models |= {"c": sentence_description(75, 0.5), "d": sentence_description(75, 0.3)}
    models |= {"e": sentence_description(150, 0.1)}
    models["h"] = word_description("rnn", classes=50)  # as the toolkit had it
    found = {name: paper.title for name, paper in published_contrasts(models).items()}
    assert found == {"a": "3-gram KN", "c": "sRNN-75(50)", "e": "sRNN-150(10)", "h": "RNN"}
    with pytest.raises(InputError, match="'c' lacks 'size'"):
        measure_names.training_margins({"c": {**models["c"], "config": {"architecture": {}}}})


LIMITS = {"higher": (0.1, 0.2), "similar": (-0.1, 0.2), "lower": (-0.2, -0.1)}
# As the paper prints it: H_C of the row, H_CR of the column.
TABLE_1 = {
    ("higher", "higher"): "superior",
    ("higher", "similar"): "superior",
    ("higher", "lower"): "scaling issues",
    ("lower", "higher"): "indeterminate",
    ("lower", "similar"): "indeterminate",
    ("lower", "lower"): "inferior",
}
MIRROR = {"higher": "lower", "similar": "similar", "lower": "higher"}


@pytest.mark.parametrize(("entropy", "ratio"), [*product(("higher", "lower"), LIMITS)])
def test_readings_are_the_papers_in_both_directions(entropy, ratio):
    value = {"higher": 0.3, "lower": -0.3}[entropy]
    low, high = LIMITS[ratio]
    assert read_table_1(value, 0.01, low, high) == TABLE_1[entropy, ratio]
    assert read_table_1(value, 0.05, low, high) == ALIKE
    assert read_table_1(value, math.nan, low, high) is None
    assert read_table_1(value, 0.01, math.nan, high) is None
    row = {"first": "a", "second": "b", "unit": "word", "level": 0.3, "groups": 60, "note": ""}
    row |= {"base_level": 0.1, "p_value": 0.01, "p_adjusted": 0.01, "value": value, "reading": ""}
    row |= {"low": 0.0, "high": 0.0, "low_adjusted": None, "high_adjusted": None}
    limits = {"low_adjusted": low, "high_adjusted": high, "measure": CONTRASTIVE_RATIO}
    rows = [{**row, "measure": CONTRASTIVE_ENTROPY}, {**row, **limits}]
    found = ordered_readings(pd.DataFrame(rows)).set_index("first")["reading"]
    first, second = TABLE_1[entropy, ratio], TABLE_1[MIRROR[entropy], MIRROR[ratio]]
    assert found.to_dict() == {"a": first, "b": second}


def test_pairs_are_read_in_both_directions_and_never_across_units():
    pairs = ordered_readings(given()["contrast_differences"])
    assert not (pairs["level"] == pairs["base_level"]).any()
    assert set(pairs[pairs["unit"] == "word"]["first"]) == set(WORDS)
    assert set(pairs[pairs["unit"] == "sentence"]["first"]) == set(MODELS)
    at = pairs[(pairs["unit"] == "word") & (pairs["level"] == 0.3)].set_index(["first", "second"])
    assert len(at) == len(WORDS) * (len(WORDS) - 1)
    # H_CR are equal; neighbours show no difference in H_C, which later models have more of.
    assert at.loc[("lstm", "kn-3"), "reading"] == "superior"
    assert at.loc[("kn-3", "lstm"), "reading"] == "indeterminate"
    assert at.loc[("kn-3", "kn-5"), "reading"] == ALIKE
    one, two = at.loc[("lstm", "kn-3")], at.loc[("kn-3", "lstm")]
    for measure in (CONTRASTIVE_ENTROPY, CONTRASTIVE_RATIO):
        assert one[f"{measure}_value"] == -two[f"{measure}_value"]
        assert one[f"{measure}_low"] == -two[f"{measure}_high"]


def test_table_1_has_a_block_for_each_unit_and_level():
    table = make("table_1")
    blocks = [(row[0], row[1]) for row in table.rows if row[0]]
    expected = [(u, d) for u in ("per word", "per sentence") for d in ("30%", "50%")]
    assert blocks == expected + [("accuracy", d) for d in ("10%", "30%", "50%")]
    assert len(table.rows) == 2 * len(WORDS) + 5 * len(MODELS)
    # all later models but the next have a higher accuracy
    assert table.rows[-1][3:] == ["s-150-10", *["higher"] * 5, "–", "·"]
    own = table.tidy[table.tidy["unit"] == "accuracy"]
    at = own[own["level"] == 0.3].set_index(["first", "second"])["accuracy_difference_value"]
    assert (at["kn-3", "lstm"], at["lstm", "kn-3"]) == pytest.approx((-0.03, 0.03))
    first, last = table.rows[0], table.rows[3]
    assert first[2:4] == ["1", "kn-3"]
    assert first[4:] == ["·", "–", "indeterminate", "indeterminate", "", "", ""]
    assert last[3:] == ["LSTM", "superior", "superior", "–", "·", "", "", ""]
    for part in ("no proof of equality", "where scales differ", "holds 0"):
        assert part in table.note
    none = given()["contrast_differences"].query("measure == 'contrastive_entropy'")
    assert make("table_1", contrast_differences=none).rows == []


def test_table_2_has_every_unit_in_three_logarithms():
    table = make("table_2")
    assert [row[0] for row in table.rows if row[0]] == ["per word", "per sentence"]
    names = [row[1] for row in table.rows]
    shown = ["kn-3", "kn-5", "RNN", "LSTM", "s-75-10 ◇", "s-75-50 ◇", "s-150-10 ◇"]
    assert names == shown * 2
    kn = table.rows[0]
    assert cell(table, "Perplexity per word", "this run", kn) == "150"
    assert cell(table, "Perplexity per word", "published", kn) == "148.28"
    value = 3.0 * math.sqrt(0.3)
    assert cell(table, "H_C at 30%", "this run ±", kn) == f"{value:.3f} ± {0.01 * value:.3f}"
    assert cell(table, "H_C at 30%", "published", kn) == "4.179"
    assert cell(table, "H_C at 30%", "published", table.rows[7]) == ""  # which is per word
    sentence = table.rows[11]
    assert cell(table, "H_C at 50%", "published", sentence) == "11.010"
    assert cell(table, "Perplexity per word", "this run", sentence) == "est. 312.4"
    tidy = table.tidy
    assert len(tidy) == 11 * 2 * len(MODELS)
    np.testing.assert_allclose(tidy["value_bits"] * math.log(2), tidy["value_nats"])
    np.testing.assert_allclose(tidy["deviation_log10"] * math.log(10), tidy["deviation_nats"])
    at = tidy[(tidy["model"] == "s-75-10") & (tidy["level"] == 0.5)]
    expected = {"word": math.nan, "sentence": 11.01}
    assert at.set_index("unit")[COLUMN].to_dict() == pytest.approx(expected, nan_ok=True)
    assert set(at["perplexity_is"]) == {"given the lengths, a stochastic lower bound"}


def test_table_2_needs_nothing_but_contrasts():
    bare = make("table_2", models={}, perplexities={}, given_lengths={})
    assert {cell(bare, "Perplexity per word", "this run", row) for row in bare.rows} == {""}
    assert "est." not in bare.note
    for name in ("table_2", "partition"):
        table = make(name)
        assert not any(said in str([*table.rows, table.note]) for said in ("≥", "at least"))
    sure = {**given()["given_lengths"]["s-75-10"], "sentences_few_effective": 0}
    bounded = {**given()["given_lengths"], "s-75-50": sure, "s-150-10": sure}
    said = make("table_2", given_lengths=bounded).note
    assert "with fewer than 10 effective samples of Z: s-75-10 (3 of 500). " in said
    endless = {"kn-3": {"perplexity": {"word": None}}}
    table = make("table_2", given_lengths={})
    assert cell(table, "Perplexity per word", "this run", table.rows[4]) == ""
    table = make("table_2", perplexities=endless)
    assert cell(table, "Perplexity per word", "this run", table.rows[0]) == "∞"
    noted = make_contrasts(["lstm"]).assign(note="2 of 500 sentences have one word")
    assert "LSTM: 2 of 500 sentences have one word." in make("table_2", contrasts=noted).note


def test_table_3_has_a_row_for_each_model_and_those_with_a_likelihood_a_cross_entropy():
    """N cancels: the ratio of a unit is that of the other."""
    table = make("table_3")
    assert [row[0] for row in table.rows] == [LABELS.model(name) for name in MODELS]
    row = table.rows[4]
    assert row[1] == "sRNN-75(10)"
    ratio = math.sqrt(5)
    assert cell(table, "H_CR, 50% to 10%", "this run ±", row) == f"{ratio:.3f} ± {ratio / 100:.3f}"
    assert cell(table, "H_CR, 50% to 10%", "published", row) == "5.257"
    assert cell(table, "Accuracy at 30%", "this run ±", row) == "0.800 ± 0.008"
    assert cell(table, "Accuracy at 30%", "95% interval", row) == "[0.780, 0.820]"
    without = make("table_3", contrasts=given()["contrasts"].query("measure != 'accuracy'"))
    alone = make("table_3", contrasts=given()["contrasts"].query("measure == 'accuracy'"))
    assert len(alone.rows) == len(table.rows)  # of a single level there is no ratio
    assert {column.group.split(" at")[0] for column in alone.columns} == {"", "Accuracy"}
    assert len(without.columns) == len(table.columns) - 6
    table = make("table_3", contrasts=make_contrasts(WORDS).assign(base_level=0.2))
    assert cell(table, "H_CR, 50% to 20%", "published", table.rows[0]) == ""
    table = make("cross_entropy")
    assert [row[0] for row in table.rows] == ["kn-3", "kn-5", "RNN", "LSTM"]
    row, group = table.rows[0], "Cross-entropy per sentence"
    assert cell(table, group, "nats", row) == "120"
    assert cell(table, group, "bits", row) == f"{120 / math.log(2):.1f}"
    assert cell(table, "Cross-entropy per word", "log10", row) == f"{6 / math.log(10):.3f}"
    only = make_contrasts(list(SENTENCES), SENTENCES)
    assert make("cross_entropy", contrasts=only).rows == []


def test_parts_stand_by_event_with_their_share_and_their_loss_a_word() -> None:
    table = make("parts")
    assert [row[0] for row in table.rows if row[0]] == [LABELS.model(name) for name in MODELS]
    assert [row[1] for row in table.rows[:8]] == [
        "substitution",
        "transposition",
        *EVENT_PARTS,
    ]
    value = 20 * 3.0 * math.sqrt(0.3)
    row = table.rows[2]
    assert cell(table, "H_C", "nats a sentence", row) == numbers.shown(0.35 * value)
    assert cell(table, "H_C", "share", row) == "35.0%"
    # 500 sentences, 10 draws, 1,000 words hit
    assert cell(table, "", "nats a word hit", row) == numbers.shown(0.35 * value * 500 * 10 / 1000)
    none = given()["contrasts"].query("measure != 'part'")
    with pytest.raises(NothingToShowError, match="were not split by event"):
        make("parts", contrast_parts=none)


def test_levels_of_a_table_and_of_one_that_was_measured_twice_the_more_draws_count():
    for levels, shown in (
        ([level / 10 for level in range(11)], [0.1, 0.3, 0.5]),
        ([0.0, 0.2, 0.4, 0.2], [0.2, 0.4]),
        ([0.05, 0.15, 0.25, 0.35, 0.45], [0.05, 0.25, 0.45]),
        ([0.0, 0.1, 0.2, 0.3, 0.4, 0.6], [0.1, 0.3]),
    ):
        assert measure_names.table_levels(levels) == shown
    few = make_contrasts(["lstm"]).assign(draws=2, value=-1.0)
    both = pd.concat([few, make_contrasts(["lstm"])], ignore_index=True)
    picked = measure_names.pick_contrasts(both, CONTRASTIVE_ENTROPY)
    assert len(picked) == 2 * 11
    assert (picked["draws"] == 10).all()


def test_pairs_name_their_file_and_stand_by_phenomenon(tmp_path):
    paths = []
    for source, model in product(("blimp", "own"), ("b", "a")):
        rows = make_pair_contrasts([model], ["npi", "agreement_1"]).drop(columns="source")
        path = tmp_path / source / f"{model}.parquet"
        path.parent.mkdir(exist_ok=True)
        write_shard(path, PAIR_CONTRASTS, rows.to_dict("list"), {})
        paths.append(path)
    labels, held = Labels(models=["a", "b"]), read_input("pair_contrasts", paths)
    table = make("pairs", labels, pair_contrasts=held)
    names = [["blimp", "npi", "a"], ["", "", "b"], ["blimp", "agreement 1", "a"], ["", "", "b"]]
    assert [row[:3] for row in table.rows[:4]] == names
    assert [row[0] for row in table.rows[4:]] == ["own", "", "own", ""]
    row = table.rows[0]
    assert cell(table, "Good side", "more words", row) == "−0.25"
    assert cell(table, "Pairs", "identical", row) == "2"
    assert cell(table, "Pairs", "compared", row) == "996"
    assert cell(table, "Accuracy", "95% interval", row) == "[0.570, 0.630]"
    np.testing.assert_allclose(table.tidy["per_word_bits"], 0.2 / math.log(2))


def test_the_lengths_that_are_shown_cover_the_test_sentences():
    table = make("partition")
    lengths = [int(row[2]) for row in table.rows]
    assert lengths[0] == 1
    assert 40 in lengths
    assert len(lengths) <= 3 * 10
    assert (table.rows[0][:2], len(table.tidy)) == (["s-75-10", "LSTM"], 3 * 40)
    told = "s-75-10: perplexity given the lengths, estimated, 312.4 [290.1, 330.2]; of 500"
    assert told in table.note
    assert "3 have a length with fewer than 10 effective samples, 2 one with" in table.note
    runs = {"s-75-10": {**given()["given_lengths"]["s-75-10"], "particles": 8}}
    said = make("partition", given_lengths=runs).note
    assert "estimated, 312.4 [290.1, 330.2], from runs of 8 particles; of 500" in said
    runs["s-75-10"]["interval"] = [None, None]
    assert "estimated, 312.4, from runs" in make("partition", given_lengths=runs).note
    few = make("partition", partitions=synthetic_tables.make_partitions(["x"], 3), given_lengths={})
    assert [row[2] for row in few.rows] == ["1", "2", "3"]


def found(question, **changed):
    tidy = make("findings", **changed).tidy
    return tidy[tidy["question"].str.contains(question)].set_index("about")


@pytest.mark.parametrize("seed", range(20))
def test_orders_agree_as_kendall_says(seed):
    one, other = np.random.default_rng(seed).integers(0, 5, (2, 8)).astype(float)
    tau, agreeing, pairs = order_agreement(list(one), list(other))
    assert tau == pytest.approx(kendalltau(one, other).statistic, nan_ok=True)
    assert pairs == 28
    both = [(i, j) for i in range(8) for j in range(i)]
    assert agreeing == sum((one[i] - one[j]) * (other[i] - other[j]) > 0 for i, j in both)


def test_without_an_order_or_distortion_nothing_is_compared():
    assert math.isnan(order_agreement([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])[0])
    flat = {name: {"perplexity": {"word": 9.0}} for name in WORDS}
    row = found("order models", perplexities=flat).iloc[0]
    assert row[["found", "of", "verdict"]].tolist() == [0, 6, "all alike"]
    flat = make_contrasts(WORDS, levels=(0.0,))
    best = found("best", contrasts=flat).iloc[0]
    assert best[["value", "low", "high"]].tolist() == [0, 0, 0]
    assert "at 0%" in best["quantity"]
    assert found("order models", contrasts=flat)["verdict"].str.contains("fewer than three").all()
    assert make("table_3", contrasts=flat).rows[0][0] == "kn-3"


def test_the_best_model_is_named_with_those_that_it_cannot_be_told_from():
    rows = found("best, per word")
    assert rows.loc["LSTM", "value"] == pytest.approx(3.3 * math.sqrt(0.3))
    assert rows["quantity"].eq("H_C at 30% distortion, nats a word").all()
    assert rows["of"].eq(4).all()
    verdicts = {"LSTM": "the highest", "RNN": "no difference to the highest found"}
    apart = dict.fromkeys(("kn-3", "kn-5"), "differs from the highest")
    assert rows["verdict"].to_dict() == verdicts | apart
    assert rows.index[rows[FIRST_PAGE]].tolist() == ["LSTM"]
    alone = found("best, per word", contrasts=make_contrasts(["lstm"]), contrast_differences=None)
    assert alone["of"].tolist() == [1]
    none = make_contrasts(list(SENTENCES), SENTENCES)
    (said,) = found("best, per word", contrasts=none)["verdict"]
    assert "no model with a likelihood" in said


def test_where_sentences_change_their_length_all_is_told_per_sentence():
    contrasts = make_contrasts(WORDS).query("unit == 'sentence'")
    rows = found("best, per sentence", contrasts=contrasts)
    assert rows.loc["LSTM", "value"] == pytest.approx(20 * 3.3 * math.sqrt(0.3))
    assert rows["quantity"].str.endswith("nats a sentence").all()
    order = found("order models", contrasts=contrasts).iloc[0]
    assert order[["found", "of"]].tolist() == [6, 6]
    assert "H_C per sentence" in order["quantity"]
    assert {row[0] for row in make("table_2", contrasts=contrasts).rows} == {"per sentence", ""}
    assert len(draw("figure_1", contrasts=contrasts).axes) == 1


def test_models_without_a_likelihood_are_read_against_the_others():
    rows = found("Without a likelihood")
    few = rows.loc["s-75-10", ["found", "of", "verdict"]].to_numpy().tolist()
    assert few == [[1, 4, ALIKE], [3, 4, "superior"]]
    assert rows.loc["s-150-10", ["found", "of", "verdict"]].tolist() == [4, 4, "superior"]
    assert found("does not compare").index.tolist() == list(SENTENCES)
    only = make_contrasts(WORDS)
    table = make("findings", contrasts=only, sentence_models={}, training=None)
    assert not any("Without" in row[0] for row in table.rows)


def test_accuracy_reads_models_without_a_likelihood_against_the_others():
    rows = found("Accuracy without a likelihood")
    few = rows.loc["s-75-10", ["found", "of", "verdict"]].to_numpy().tolist()
    assert few == [[3, 4, "higher"], [1, 4, ALIKE]]


def test_orders_are_compared_within_the_commonest_vocabulary():
    def at(place, **changed):
        rows = found("order models", **changed).reset_index()
        return tuple(rows.loc[place, ["about", "value", "found", "of"]])

    assert at(0) == ("4 models with one vocabulary", 1.0, 6, 6)
    models = {**given()["models"], "rnn": word_description("rnn", "b")}
    assert at(0, models=models)[0] == "3 models with one vocabulary"
    turned = {name: {"perplexity": {"word": 1.0 + at}} for at, name in enumerate(WORDS)}
    turned["lstm"]["perplexity"]["word"] = None  # infinite
    assert at(2, perplexities=turned)[1:] == (-1.0, 0, 6)
    models["kn-5"] = word_description("kneser-ney", "c", order=5)
    (said,) = found("order models", models=models)["verdict"]
    assert "fewer than three" in said


@pytest.mark.parametrize(
    ("value", "said", "counts"),
    [(0.0, "does not rise from 70% to 80%", [1, 2]), (math.nan, "not known", [1, 1])],
)
def test_where_entropy_does_not_rise_is_said(value, said, counts):
    assert found("rise with distortion").loc["all models", ["found", "of"]].tolist() == [7, 7]
    table = make_contrasts(["lstm", "kn-3"])
    fallen = (table["model"] == "kn-3") & (table["level"] == 0.8)
    table.loc[fallen & (table["measure"] == CONTRASTIVE_ENTROPY), "value"] = value
    rows = found("rise with distortion", contrasts=table)
    assert rows.loc["all models", ["found", "of"]].tolist() == counts
    assert rows.loc[["LSTM", "kn-3"], "verdict"].tolist() == ["rises at every step", said]


def test_directions_over_training_and_with_its_margin():
    training = synthetic_tables.make_margin_training(["s-75-10", "s-75-50"])
    falls = (training["model"] == "s-75-50") & (training["split"] == "train")
    training.loc[falls, "contrastive_entropy"] *= -1
    rows = found("over training", training=training)
    assert rows["value"].round(3).tolist() == [0.283, 0.931, -0.567, -1.861]
    assert rows["verdict"].tolist() == ["", "rose", "", "fell"]
    rows = found("distortion of the training")
    assert set(rows.index) == {"s-75-10", "s-75-50"}
    assert rows["verdict"].eq("rises").all()
    assert "H_C at 30%; size 75, trained at 10%" in set(rows["quantity"])
    contrasts = make_contrasts(["s-75-50", "s-75-10"], SENTENCES)
    rows = found("distortion of the training", contrasts=contrasts, contrast_differences=None)
    assert rows["verdict"].eq("falls").all()


def test_accuracy_on_external_pairs_is_over_all_phenomena():
    pairs = make_pair_contrasts(["lstm", "rnn"], ["npi", "agreement"])
    first = (pairs["model"] == "lstm") & (pairs["phenomenon"] == "npi")
    pairs.loc[first, ["accuracy", "pairs"]] = [0.9, 2 * 998 + 2]
    rows = found("External", pair_contrasts=pairs)
    assert rows["value"].round(3).to_dict() == {"LSTM": 0.8, "RNN": 0.62}
    assert rows["verdict"].to_dict() == {"LSTM": "highest", "RNN": "lowest"}


def test_the_first_page_has_a_sentence_of_every_corpus(tmp_path):
    paths = []
    for corpus in ("wikipedia", "penn"):
        path = tmp_path / corpus / "findings.csv"
        path.parent.mkdir()
        make("findings").tidy.to_csv(path, index=False)
        paths.append(path)
    found = read_findings(paths)
    assert list(found) == ["wikipedia", "penn"]
    nasty = "*x* `y`_ |z| <b> \\ :role:`a`"
    found["penn"].loc[found["penn"][FIRST_PAGE], "about"] = nasty
    page = render_overview({}, {}, [], set(), None, [], {"contrastive": found})
    tree = publish_doctree(page, settings_overrides={"report_level": 1, "halt_level": 2})
    said = tree.astext()
    assert nasty in said
    assert "Corpus penn:" in said
    assert said.count("the highest of 4 models with a likelihood") == 2
    assert "noise" not in render_overview({}, {}, [], set(), None, [])
    paths[0].write_text("question,found\na,b\n")
    evaluator_oracles.check_refused("lacks the column 'about'", read_findings, paths)


def test_figure_1_has_a_panel_for_each_unit_and_one_without_a_scale():
    figure = draw("figure_1")
    own_scale = "Per sentence: no likelihood, scales of their own"
    assert [a.get_title() for a in figure.axes] == ["Per word", "Per sentence", own_scale]
    assert [len(axis.lines) for axis in figure.axes] == [4, 4, 3]
    rows = given()["contrasts"].query("model == 'kn-3' and unit == 'word'")
    own = rows[rows["measure"] == CONTRASTIVE_ENTROPY]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xdata(), own["level"])
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), own["value"])
    plain = draw("figure_1", contrasts=make_contrasts(WORDS))
    assert len(plain.axes) == 2
    # Lines begin at the undistorted text and leave out what is infinite.
    contrasts = make_contrasts(["lstm"], levels=(0.1, 0.3, 0.5))
    contrasts.loc[contrasts["level"] == 0.5, "value"] = np.inf
    (line,) = draw("figure_1", contrasts=contrasts).axes[0].lines
    assert (line.get_xdata().tolist(), line.get_ydata()[0]) == ([0.0, 0.1, 0.3], 0)
    both = pd.concat([contrasts, make_contrasts(["trigram"]).assign(value=np.nan)])
    (legend,) = draw("figure_1", contrasts=both).legends
    assert [text.get_text() for text in legend.get_texts()] == ["LSTM"]
    with pytest.raises(NothingToShowError, match="no model has a finite contrastive entropy"):
        draw("figure_1", contrasts=contrasts.assign(value=np.inf))


def test_figures_2_and_3_draw_both_splits_and_a_panel_for_each_size():
    axis = draw("figure_2").axes[0]
    assert len(axis.lines) == 2 * len(SENTENCES)
    training = given()["training"]
    first = training[(training["model"] == "s-75-10") & (training["split"] == "train")]
    drawn = [line.get_ydata().tolist() for line in axis.lines]
    assert first["contrastive_entropy"].tolist() in drawn
    with pytest.raises(InputError, match="no contrastive entropy"):
        draw("figure_2", training=training.assign(contrastive_entropy=np.nan))
    figure = draw("figure_3")
    assert [axis.get_title() for axis in figure.axes] == ["Latent size 75", "Latent size 150"]
    assert [len(axis.lines) for axis in figure.axes] == [2, 1]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "s-75-50: trained at 50%" in names
    said = "no model that is trained against distortion"
    evaluator_oracles.check_refused(said, draw, "figure_3", sentence_models={})


def planned_files(**contrastive):
    report = planned.run_of(contrastive=contrastive).report
    return {group: sorted(report.files(group.split("/")[0])) for group in report.groups()}


def test_what_a_run_has_files_for_is_shown_and_no_more():
    without, both = planned_files(models=[]), planned_files()
    assert set(both) - set(without) == {"contrastive/wikipedia"}
    assert all(both[group] == without[group] for group in without)
    none = planned.run_of(contrastive={"models": []}).report
    assert none.inputs(TABLES, "tendencies/wikipedia", "table_1")["models"]

    def shown(**changed):
        paths = planned_files(**changed)["contrastive/wikipedia"]
        return {path.split("/")[-1] for path in paths if path.endswith((".csv", ".svg"))}

    assert "parts.csv" in shown(parts_level=0.5)
    for wrong in ({"substitutes": "text"}, {"substitution": 0.4, "deletion": 0.1}):
        with pytest.raises(InputError, match="parts need substitutes of a vocabulary"):
            shown(parts_level=0.5, distortion=wrong)
    names = shown(partition={"proposal": None}, parts_level=None)
    tables = {"findings", "table_1", "table_2", "table_3", "cross_entropy"}
    figures = {f"figure_{number}.svg" for number in (1, 2, 3)}
    assert names == {f"{name}.csv" for name in tables} | figures
    more = {"pairs": {"own": {"path": "pairs.tsv"}}, "partition": {"proposal": "lstm"}}
    assert shown(**more) - names == {"pairs.csv", "partition.csv"}
    alone = shown(**more, models=["kn-3"])
    assert names - alone == {"table_1.csv", "figure_2.svg", "figure_3.svg"}


def test_inputs_are_those_of_the_models_that_are_listed():
    run = planned.run_of(contrastive={"partition": {"proposal": "lstm"}})
    report, listed = run.report, run.config["contrastive"]["models"]
    group = "contrastive/wikipedia"
    files = report.inputs(TABLES, group, "table_2")
    assert files["contrasts"] == [f"<results>/{group}/{name}.parquet" for name in listed]
    assert files["models"] == [f"<results>/models/{name}/model.json" for name in listed]
    scored = [name for name in listed if name != "sentence-rnn"]
    assert files["perplexities"] == [f"<results>/perplexity/{name}.json" for name in scored]
    assert files["given_lengths"] == ["<results>/partitions/sentence-rnn.json"]
    curves = report.inputs(FIGURES, group, "figure_2")["training"]
    assert curves == ["<results>/models/sentence-rnn/training.parquet"]
    margins = report.inputs(FIGURES, group, "figure_3")["sentence_models"]
    assert margins == ["<results>/models/sentence-rnn/model.json"]
