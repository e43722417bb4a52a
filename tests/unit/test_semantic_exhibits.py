"""Tables, figures and first-page lines of meaning and of all measures together.

Oracles: tables of `semantic_tables`, the paper's sentences, SciPy's average linkage, docutils.
"""

import math
from copy import deepcopy

import numpy as np
import pyarrow as pa
import pytest
import yaml
from docutils.core import publish_doctree
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from scipy.stats import spearmanr

from beyond_perplexity.figures import correlation_matrix, draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import measure_title, sort_measures
from beyond_perplexity.inference.correlations import few_items_interval
from beyond_perplexity.planning import run, validation
from beyond_perplexity.relations.measures import correlate_ranks
from beyond_perplexity.relations.readers import PERPLEXITY
from beyond_perplexity.report import TABLES, latex, overview, published, semantic_tables, tabulate
from beyond_perplexity.report.findings import FIRST_PAGE, read_findings
from beyond_perplexity.report.semantic_findings import beaten
from beyond_perplexity.schemas.relations import RELATION_MEASURES, RELATION_ORDERS
from beyond_perplexity.semantics.differences import (
    compare_semantics,
    correlate_measures,
)
from beyond_perplexity.semantics.paired_scores import read_paired_scores
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.semantic_tables import (
    make_human,
    make_pair_scores,
    make_probes,
    make_semantics,
    sentences,
    write_scores,
)

SKILLS = {"gru": -2.0, "gru-ss": 1.0, "lstm": 0.0, "lstm-ss": 0.2, "transformer": 2.0}
TITLES = {"evaluator/infersent": "InferSent architecture (next sentence)"}
FAMILIES = {"evaluator/glove": "vectors", "evaluator/infersent": "infersent"}
LABELS = Labels(models=list(SKILLS), names=TITLES, families=FAMILIES, published=True)


def described(family, sampling=None):
    training = {"scheduled_sampling": sampling} if sampling else {}
    return {"family": family, "config": {"size": 1}, "training": training, "vocabulary": {}}


MODELS = {"gru": described("gru"), "gru-ss": described("gru", "linear")}
MODELS |= {"lstm": described("lstm", "none"), "lstm-ss": described("lstm", "exponential")}
MODELS |= {"transformer": described("transformer-adaptive-softmax")}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Compare five models whose predictions differ a lot, so that tests are clear."""
    paths = write_scores(tmp_path_factory.mktemp("scores"), SKILLS, sentences(90))
    paired = read_paired_scores(paths, 1_000)
    return {
        "semantic_differences": compare_semantics(paired).to_pandas(),
        "semantic_correlations": correlate_measures(paired).to_pandas(),
    }


def related():
    """Relate five models by perplexity and a tendency of opposite order, two decodings."""
    names = ("decoding", "subject", "measure", "title", "value", "direction")
    length = ("tendencies", "tendencies/length.ks", "Length (KS), excess")
    rows = [
        {
            "model": model,
            "model_family": model,
            "error": 0.01,
            "note": "",
            **dict(zip(names, one, strict=True)),
        }
        for place, model in enumerate(SKILLS)
        for one in (
            (None, "perplexity", "perplexity", "Bits per byte", 2.0 + place / 10, -1),
            (None, "semantics", "semantics/glove.wmd", "WMD", 0.4 + place / 50, 1),
            *((d, *length, 0.5 - place / 10, -1) for d in ("beam", "nucleus")),
        )
    ]
    order = dict.fromkeys(RELATION_ORDERS.names) | {"measure": "tendencies/length.ks", "note": ""}
    order |= {"decoding": "beam", "first": "gru", "difference": 0.2}
    names = ("second", "differs", "p_value", "p_adjusted")
    pairs = (("lstm", True, 0.01, 0.03), ("gru-ss", True, 0.3, 0.6), ("lstm-ss", False, 1, 1))
    orders = [{**order, **dict(zip(names, pair, strict=True))} for pair in pairs]
    return {
        "relation_measures": pa.Table.from_pylist(rows, RELATION_MEASURES).to_pandas(),
        "relation_correlations": correlate_ranks(rows).to_pandas(),
        "relation_orders": pa.Table.from_pylist(orders, RELATION_ORDERS).to_pandas(),
    }


def given(**changed):
    return {
        "semantics": make_semantics(SKILLS),
        "models": MODELS,
        "probes": make_probes(),
        "human_correlations": make_human({("glove", "average"): 0.5, ("glove", "wmd"): 0.4}),
        "human_scores": make_pair_scores({("glove", "average"): 1.7, ("glove", "wmd"): 2.3}),
        "semantic_differences": None,
        "semantic_correlations": None,
        **related(),
        **changed,
    }


def make(name, labels=LABELS, **changed):
    return tabulate(name, given(**changed), labels)


def found_of(table, question):
    return table.tidy[table.tidy["question"].str.contains(question)].reset_index(drop=True)


def test_the_printed_tables_repeat_what_the_note_says():
    """Oracle: all cells against all others of their table."""
    repeated = set()
    for table, rows in published.PUBLISHED_SEMANTICS.items():
        assert tuple(rows) == published.PAPER_MODELS
        assert all(tuple(row) == published.PAPER_MEASURES for row in rows.values())
        cells = [((table, m, k), cell) for m, row in rows.items() for k, cell in row.items()]
        for place, (name, cell) in enumerate(cells):
            repeated |= {(name[1:], other[1:]) for other, c in cells[:place] if c == cell}
    alike = [("LSTM", "GRU"), ("LSTM-SS", "GRU"), ("LSTM-SS", "LSTM")]
    expected = {((one, "bleu_4"), (other, "bleu_4")) for one, other in alike}
    assert repeated == expected | {(("GRU-SS", "transformer"), ("GRU", "skipthought"))}
    assert "15 of 20 cells, below Transformer in 11" in semantic_tables.PUBLISHED_FAULTS
    assert published.published_lower("infersent", "skipthought") == (15, 20)
    assert published.published_lower("infersent", "transformer") == (11, 20)
    # Three cells of WikiText-2 are no improvement by scheduled sampling.
    assert published.published_wins("Table I (Penn Treebank)") == (32, 32)
    assert published.published_wins("Table II (WikiText-2)") == (29, 32)
    printed = published.PUBLISHED_SEMANTICS["Table I (Penn Treebank)"].values()
    assert min(printed, key=lambda row: row["perplexity"])["bleu_2"] == (31.49, 30.29)


def test_models_find_their_counterparts_and_tables_have_our_numbers_above_theirs():
    names = {name: semantic_tables.paper_model(one) for name, one in MODELS.items()}
    assert tuple(names.values()) == published.PAPER_MODELS
    assert semantic_tables.paper_model(described("cnn")) is None
    assert not semantic_tables.is_scheduled(described("gru", "none"))
    assert semantic_tables.scheduled_pairs(MODELS) == [("gru", "gru-ss"), ("lstm", "lstm-ss")]
    table = make("semantics/table_1")
    titles = [column.title for column in table.columns]
    lines = {row[1]: dict(zip(titles, row, strict=True)) for row in table.rows[3:6]}
    tables = ("GRU-SS, Table I (Penn Treebank)", "GRU-SS, Table II (WikiText-2)")
    assert tuple(lines) == ("this run", *tables)
    own = lines["this run"]
    assert own["BLEU-2"] == "60.00 / 60.00"
    assert own["WMD"] == own["InferSent"] == "60.00 / 60.00"
    assert own["SkipThought"] == ""  # no such evaluator
    assert own["Perplexity"] == " / ".join([f"{math.exp(5):.1f}"] * 2)
    assert lines[tables[0]]["WMD"] == "80.93 / 80.16"
    assert semantic_tables.PUBLISHED_FAULTS in table.note
    assert "InferSent by InferSent architecture (next sentence)" in table.note
    row = table.tidy[(table.tidy["model"] == "lstm") & (table.tidy["column"] == "bleu_3")]
    assert row["published_wikitext_2"].tolist() == [7.31, 7.76]


def test_every_measure_has_its_line_and_values_stand_beside_their_baselines():
    lines = {row[0]: row for row in make("semantics/measures").rows}
    assert list(lines)[:3] == ["BLEU-2", "BLEU-3", "BLEU-4"]
    assert lines["WMD"][2:6] == ["glove", "0 to 1.00", "higher", "0.300"]
    assert lines["Cross-entropy"][3:6] == ["0 to ∞", "lower", "none"]
    assert lines["Cosine"][1].endswith("(equation 10)")
    table = make("semantics/values")
    lines = {row[0]: row for row in table.rows}
    gru = [column.group for column in table.columns].index("GRU")
    excess = "0 [-0.030, 0.030]".replace("-", "\N{MINUS SIGN}")
    cells = ["0.300 [0.280, 0.320]", "0.300", excess, *["0.200 [0.180, 0.220]"] * 2]
    assert lines["glove: WMD"][gru : gru + 5] == cells
    assert lines["Cross-entropy"][gru + 1] == ""
    assert "GRU 5.0% and 2.0%" in table.note
    # facts are said once with their models
    semantics = make_semantics(SKILLS)
    semantics.loc[semantics["model"] == "lstm", "note"] = "one thing; another"
    semantics.loc[semantics["model"] == "gru", "note"] = "another"
    note = make("semantics/values", semantics=semantics).note
    assert "LSTM: one thing." in note
    assert "GRU, LSTM: another." in note
    assert note.count("another.") == 1


def test_differences_have_their_stars_and_probes_say_who_notices(compared):
    table = make("semantics/differences", **compared)
    assert len(table.rows) == 2 * 10
    line = next(row for row in table.rows if row[0] == "GRU less Transformer")
    places = {(c.group, c.title): k for k, c in enumerate(table.columns)}
    assert "** [" in line[places["", "BLEU-2"]]
    assert line[places["", "BLEU-2"]].startswith("\N{MINUS SIGN}")
    assert "** [" in line[places["InferSent architecture (next sentence)", "Similarity"]]
    table = make("semantics/probes")
    line = next(row for row in table.rows if row[0] == "glove: average of vectors")
    assert line[1:] == ["1.000", "0.0%", "0.400", "90.0%", "1.000", "0.0%"]


def test_what_does_not_beat_the_average_of_vectors_says_so():
    # The more a measure errs the lower it correlates; as all err alike, a little less is clear.
    errors = {("word2vec", "average"): 0.5, ("glove", "average"): 1.7, ("glove", "wmd"): 1.7}
    errors |= {("glove", "greedy_f1"): 1.9, ("infersent", "similarity"): 1.6999}
    errors |= {("minilm", "similarity"): 1.5}
    scores = make_pair_scores(errors)
    rows = scores.groupby(["evaluator", "measure"])
    human = make_human({key: spearmanr(own["gold"], own["value"])[0] for key, own in rows})
    labels = Labels(families={"evaluator/glove": "vectors", "evaluator/word2vec": "word2vec"})
    said = {name: verdict for _, name, verdict in beaten(human, scores, labels)}
    assert said["glove", "average"] == ""
    assert said["glove", "wmd"] == "does not beat the average of vectors"
    assert said["glove", "greedy_f1"] == "does not beat the average of vectors"
    assert said["infersent", "similarity"] == "above the average of vectors, but not clearly"
    own = human.set_index("evaluator")
    overlap = own.loc["minilm", "spearman_low"], own.loc[["glove"], "spearman_high"].max()
    assert overlap[0] < overlap[1]
    assert said["minilm", "similarity"] == "beats the average of vectors"
    table = make("semantics/human", labels, human_correlations=human, human_scores=scores)
    (pairs,) = (k for k, column in enumerate(table.columns) if column.title == "Pairs")
    assert {row[pairs] for row in table.rows} == {"500"}  # beside three without a value
    assert [row[1] for row in table.rows][:2] == ["word2vec: average of vectors", "minilm"]


def test_findings_of_meaning_and_of_an_order_against_perplexity(compared):
    table = make("semantics/findings", **compared)
    helps = found_of(table, "scheduled sampling help").set_index(["about", "verdict"])
    own = helps.loc["gru-ss against GRU"]
    assert own.loc["higher", ["found", "of"]].tolist() == [11, 11]
    assert own.loc["clearly lower", "found"] == 0
    assert "lstm-ss against LSTM" in helps.index
    chance = found_of(table, "chance")
    assert chance["value"].iloc[0] != chance["value"].iloc[1]
    unnoticed = found_of(table, "unnoticed")
    blind = unnoticed.loc[unnoticed["quantity"].str.endswith(": shuffled"), "about"]
    assert "glove: average of vectors" in set(blind)
    people = found_of(table, "people gave").iloc[0]
    assert people["about"] == "glove: WMD"
    assert people["quantity"].endswith("sts")
    assert found_of(table, "another than perplexity").loc[0, "of"] == 11
    assert found_of(table, "supervised evaluators").empty  # one encoder
    alone = make("semantics/findings", probes=None, human_correlations=None, models={}).tidy
    assert set(alone["question"]) == {"How much is chance"}
    # Cross-entropy turned round: every measure has every pair in another order
    differences = compared["semantic_differences"].copy()
    turned = differences["measure"] == "cross_entropy"
    differences.loc[turned, "value"] *= -1
    question = "another than perplexity"
    was = found_of(make("semantics/findings", **compared), question)
    now = found_of(make("semantics/findings", semantic_differences=differences), question)
    pairs = 11 * 10
    assert was.loc[1, "of"] == now.loc[1, "of"] == pairs
    assert was.loc[1, "found"] + now.loc[1, "found"] == pairs
    assert now["verdict"].eq("both clear").any()


def test_relations_repeat_what_belongs_to_the_model_and_name_what_perplexity_misses():
    table = make("relations/measures")
    assert [row[:2] for row in table.rows[:2]] == [["GRU", "Nucleus"], ["GRU", "Beam"]]
    assert len(table.rows) == 10
    heads = [(column.group, column.title) for column in table.columns[2:]]
    assert heads == [
        ("Perplexity", "Bits per byte ↓"),
        ("Meaning of predictions: glove", "WMD ↑"),
        ("Distance of generated text to human text", "Length (KS), excess ↓"),
    ]
    assert table.rows[1][2:] == ["2.000 ± 0.010", "0.400 ± 0.010", "0.500 ± 0.010"]
    assert r"$\uparrow$" in latex.to_latex(table)
    (row,) = make("relations/orders").rows
    assert row[:5] == ["Length (KS), excess", "Beam", "3", "2", "1"]
    assert row[5] == "LSTM before GRU (0.030); gru-ss before GRU (0.600)"
    table = make("relations/findings")
    missed = found_of(table, "perplexity misses")
    assert (missed["found"].tolist()[:3], missed["of"].tolist()[:2]) == ([2, 1, 1], [3, 3])
    example = missed.iloc[3]
    assert (example["about"], example["value"]) == ("LSTM before GRU", 0.03)
    assert example["quantity"].endswith("under beam")
    orders = related()["relation_orders"].assign(decoding=None)  # of a measure of the models alone
    of_models = found_of(make("relations/findings", relation_orders=orders), "perplexity misses")
    assert "under" not in of_models.loc[3, "quantity"]
    goes = found_of(table, "goes with perplexity")  # of five families no correlation is told
    assert goes[["found", "of"]].values.tolist() == [[2, 2]]
    rows = related()["relation_correlations"].assign(families=8)
    goes = found_of(make("relations/findings", relation_correlations=rows), "goes with perplexity")
    goes = goes.set_index("about").loc["glove: WMD"]
    assert goes["value"].tolist() == pytest.approx([-1, -1])
    low, high = few_items_interval(-1.0, 8, ranks=True)
    assert goes["low"].tolist() == [low, low]
    assert (goes["high"] > high).all()  # chosen of two
    trusted = found_of(table, "trusted")
    assert trusted["found"].tolist() == [5, 5, 15]
    assert "so few" in trusted.loc[0, "verdict"]


@pytest.mark.parametrize("leaves", [2, 3, 7, 20])
def test_the_tree_is_scipys(leaves):
    condensed = np.random.default_rng(leaves).random(leaves * (leaves - 1) // 2)
    merges, order = correlation_matrix.average_linkage(squareform(condensed))
    expected = linkage(condensed, "average")
    assert [m.height for m in merges] == pytest.approx(expected[:, 2])
    assert [{m.first, m.second} for m in merges] == [set(map(int, row[:2])) for row in expected]
    assert sorted(order) == list(range(leaves))
    held = {leaf: {leaf} for leaf in range(leaves)}
    for number, merge in enumerate(merges, start=leaves):  # no branches cross
        held[number] = held[merge.first] | held[merge.second]
        places = [order.index(leaf) for leaf in held[number]]
        assert max(places) - min(places) == len(places) - 1


def test_measures_that_go_together_stand_together_and_clear_cells_are_coloured(compared):
    shown = correlation_matrix.ShownCorrelation
    strong, weak = shown(-0.95, -1, -0.8), shown(0.1, -0.5, 0.6)
    held = {("a", "c"): strong, ("a", "b"): weak, ("b", "c"): weak}
    merges, order = correlation_matrix.cluster_measures(held, ["a", "b", "c"])
    assert merges[0][:2] == (0, 2)
    assert order in ([0, 2, 1], [1, 0, 2])
    figure = draw_figure("semantics/figure_2", given(**compared), LABELS)
    for axis in figure.axes:
        measures = len(axis.get_yticks())
        assert measures == 9  # of 12, less BLEU-3 and two forms of the cosine
        assert len(axis.patches) == measures**2  # all are clear, and the diagonal
    rows = related()["relation_correlations"].assign(families=8)
    few = draw_figure("relations/figure_1", given(relation_correlations=rows), LABELS)
    assert "5 models, 15 rows" in few.axes[1].get_xlabel()


def test_correlations_of_few_models_are_scatters_with_their_rho(compared):
    """Oracle: SciPy's correlation of the values of the table; the points are those values."""
    measures = related()["relation_measures"].sort_values("model")
    texts, bits = (measures["measure"] == n for n in ("tendencies/length.ks", PERPLEXITY))
    measures.loc[texts, "value"] = y = np.random.default_rng(2).random(10)
    measures.loc[bits, "value"] = x = np.array([2.0, 2.1, 2.3, 2.2, np.inf])
    rows = measures.astype(object).where(measures.notna(), None).to_dict("records")
    found = {"relation_correlations": correlate_ranks(rows).to_pandas()}
    figure = draw_figure("relations/figure_1", given(relation_measures=measures, **found), LABELS)
    axis = figure.axes[1]
    rho = f"{spearmanr(np.repeat(x, 2), y)[0]:.2f}".replace("-0", "\N{MINUS SIGN}").lstrip("0")
    assert axis.get_title(loc="left") == f"Length (KS), excess\nρ = {rho}, n = 10 (5)"
    assert {line.get_ydata()[0] for line in axis.lines} == set(y)
    assert {line.get_xdata()[0] for line in axis.lines} - set(x) == {0.03}  # the worse edge
    assert "Transformer ∞" in figure.legends[0].get_title().get_text()
    measures.loc[texts, "value"] = 1 - 1e-7 * y  # labels hold all of their numbers
    figure = draw_figure("relations/figure_1", given(relation_measures=measures, **found), LABELS)
    figure.draw_without_rendering()
    assert {axis.yaxis.get_offset_text().get_text() for axis in figure.axes} == {""}
    shown = [float(tick.get_text()) for tick in figure.axes[1].get_yticklabels()]
    assert shown == pytest.approx([1.0] * len(shown), abs=1e-6)
    axes = draw_figure("semantics/figure_1", given(**compared), LABELS).axes
    assert len(axes) == 8  # 9 measures, against cross-entropy
    own = make_semantics(SKILLS).query("kind == 'predicted'").groupby("measure")["value"]
    points = zip(*(own.get_group(name) for name in ("cross_entropy", "bleu_2")), strict=True)
    assert {tuple(line.get_xydata()[0]) for line in axes[0].lines} == set(points)


@pytest.mark.parametrize(("name", "over"), [("figure_1", "models"), ("figure_2", "sentences")])
def test_both_splits_are_drawn_as_the_paper_has_them(name, over, compared):
    """Oracle: the rows of the table, and the order of rows, which is one for both splits."""
    rows = compared["semantic_correlations"]
    rows = rows.assign(n=np.maximum(rows["n"], 8))  # not few models
    compared = {**compared, "semantic_correlations": rows}
    figure = draw_figure(f"semantics/{name}", given(**compared), LABELS)
    splits = {"validation": "valid", "test": "test"}
    assert len(figure.axes) == len(splits)
    table = compared["semantic_correlations"].query("over == @over and method == 'pearson'")
    orders, drawn = [], []
    for axis, (title, split) in zip(figure.axes, splits.items(), strict=True):
        assert f"of the {title} split" in axis.get_xlabel()
        orders.append([tick.get_text().split("  ")[0] for tick in axis.get_yticklabels()])
        places = [orders[-1].index(one) for one in ("BLEU-2", "Accuracy")]
        pair = (table["first_measure"] == "bleu_2") & (table["second_measure"] == "accuracy")
        (row,) = table[pair & (table["split"] == split)].to_dict("records")
        texts = {t.get_position()[::-1]: t.get_text() for t in axis.texts}
        drawn.append(texts[max(places), min(places)])
        assert drawn[-1] == f"{row['value']:.2f}".lstrip("0")
    assert orders[0] == orders[1]
    alone = {**compared, "semantic_correlations": table.query("split == 'test'")}
    (axis,) = draw_figure(f"semantics/{name}", given(**alone), LABELS).axes
    assert "test split" in axis.get_xlabel()


def test_captions_speak_of_printed_values_that_stand_and_infersents_is_equation_6():
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text())
    for expected in (False, True):
        report = {"published": {"semantics": ["wikipedia"] * expected}}
        held = {**deepcopy(config), "report": report}
        validation.validate(held)
        report = run.Run(held).report
        caption = report.caption(TABLES, "semantics/wikipedia", "table_1")
        labels = Labels(models=["gru"], published=report.of_paper("semantics/wikipedia"))
        table = make("semantics/table_1", labels)
        stand = any("Table I (" in row[1] for row in table.rows)
        assert stand == ("values stand below" in caption) == expected
    semantics = make_semantics(SKILLS)
    head = semantics["measure"] == "head"
    semantics.loc[head, "value"] = 0.25

    def column(rows):
        table = make("semantics/table_1", semantics=rows)
        place = [one.title for one in table.columns].index("InferSent")
        return [row[place] for row in table.rows if row[1] == "this run"], table.note

    cells, note = column(semantics)
    assert cells == ["25.00 / 25.00"] * len(SKILLS)
    assert "(trained head, equation 6)" in note
    cells, note = column(semantics[~head])
    assert cells[1] == "60.00 / 60.00"
    assert "equation 6" not in note


def test_the_curve_is_that_of_equation_13_and_measures_have_titles_and_order():
    figure = draw_figure("semantics/figure_3", given(), LABELS)
    drawn = [np.asarray(line.get_xydata()) for line in figure.axes[0].get_lines()]
    assert float(np.interp(0.8, *drawn[2].T)) == pytest.approx(0.5)
    marks = dict(points[0] for points in drawn if len(points) == 1)
    assert marks[0.7] == pytest.approx(1 / (1 + math.exp(1)))  # the mean cosine of the last model
    names = [("b", "similarity"), ("glove", "wmd"), ("words", "accuracy"), ("glove", "cosine")]
    assert sort_measures(names) == [names[2], names[0], names[3], names[1]]
    assert measure_title(("words", "accuracy"), LABELS) == "Accuracy"
    assert measure_title(("infersent", "similarity"), LABELS) == TITLES["evaluator/infersent"]
    assert measure_title(("infersent", "head"), LABELS).endswith("(next sentence): trained head")


def test_the_first_page_has_the_lines_of_both(tmp_path, compared):
    found = {}
    for paper in ("semantics", "relations"):
        path = tmp_path / paper / "my *corpus*" / "findings.csv"
        path.parent.mkdir(parents=True)
        make(f"{paper}/findings", **compared).tidy.to_csv(path, index=False)
        found[paper] = read_findings([path])
    page = overview.render_overview({}, {}, [], set(), None, [], found)
    tree = publish_doctree(page, settings_overrides={"report_level": 2, "halt_level": 2})
    text = tree.astext()
    assert "Does what the models predict mean what is there?" in text
    assert "How do all these measures go together?" in text
    assert "Of 3 pairs of models, each in a measure and under a decoding, 1 stand" in text
    assert "Of 11 measures of meaning" in text
    assert "What goes unnoticed" not in text
    assert found["semantics"]["my *corpus*"][FIRST_PAGE].sum() == 1
