"""Tables and figures of importance sampling.

Needs no data: small tables are written here. Oracles: the numbers that went in, the published
numbers as the paper prints them, properties of the drawn axes, SciPy's density, NLTK's trees.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from nltk.tree import Tree
from scipy.stats import gaussian_kde

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.bounds import bounds
from beyond_perplexity.figures.importance import (
    Settings,
    aggregation,
    densities,
    kernel_density,
    perplexity_by_samples,
)
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.latents import LEVEL, TITLE, latent_states
from beyond_perplexity.figures.style import save
from beyond_perplexity.report.importance import beam_table, sampling_table, trust_table
from beyond_perplexity.schemas.estimates import ESTIMATES, IMPORTANCE_CURVES, IMPORTANCE_REPLICATES
from tests.unit.synthetic_tables import HOSTILE, check_drawn_as_it_stands

LABELS = Labels(
    families={"mine": "entitynlm", "other": "rnng"}, data={"mine": "books (test)", "other": "trees"}
)
PROPOSALS = {
    "mine": {"mine-peeking": (0.5, 1.0), "mine-no-peeking": (1.0,)},
    "other": {"crf": (1.0,)},
}


def settings():
    return [
        (model, proposal, temperature)
        for model, proposals in PROPOSALS.items()
        for proposal, temperatures in proposals.items()
        for temperature in temperatures
    ]


def estimates() -> pd.DataFrame:
    rows = []
    for place, (model, proposal, temperature) in enumerate(settings()):
        common = {"model": model, "proposal": proposal, "measure": "perplexity"}
        common |= {"n_samples": 100, "n_instances": 40, "n_tokens": 3914, "t_definition": "words"}
        drawn = {**common, "method": "importance_sampling", "temperature": temperature}
        drawn |= {"bound": "stochastic", "ess_median": 5.25, "k_hat_above": 3}
        drawn |= {"k_hat_undefined": 10, "k_hat_threshold": 0.5, "standard_error_samples": 2.5}
        rows += [
            {**drawn, "aggregation": "instance", "value": 100.0 + place},
            {
                **drawn,
                "aggregation": "instance",
                "measure": "unknown_penalized_perplexity",
                "value": 700.0 + place,
            },
            {**drawn, "aggregation": "corpus", "pairing": "sample_id", "value": 200.0 + place},
            {
                **drawn,
                "aggregation": "corpus",
                "pairing": "random",
                "value": 210.0 + place,
                "standard_deviation": 4.5,
            },
        ]
        for size in (1, 10):
            beam = {**common, "method": "beam", "aggregation": "instance", "bound": "strict"}
            beam["n_samples"] = None
            rows.append({**beam, "beam_size": size, "value": 400.0 - 10 * size + place})
    return pd.DataFrame(rows, columns=ESTIMATES.names)


def curves() -> pd.DataFrame:
    names = ("model", "proposal", "temperature", "aggregation", "n_samples", "mean", "low", "high")
    rows = [
        dict(zip(names, (*setting, level, n, 100.0 + 50 / n, 90.0, 160.0), strict=True))
        for setting in settings()
        for level in ("instance", "corpus")
        for n in (1, 10, 100)
    ]
    return pd.DataFrame(rows, columns=IMPORTANCE_CURVES.names)


def replicates(count: int = 12) -> pd.DataFrame:
    names = ("model", "proposal", "temperature", "aggregation", "n_samples", "replicate", "value")
    rows = [
        dict(
            zip(
                names,
                (*setting, "instance", 10, replicate, 100.0 + place + 0.1 * replicate),
                strict=True,
            )
        )
        for place, setting in enumerate(settings())
        for replicate in range(count)
    ]
    return pd.DataFrame(rows, columns=IMPORTANCE_REPLICATES.names)


def test_the_main_proposal_goes_by_its_temperature_the_others_by_their_names():
    held = Settings(estimates().query("method == 'importance_sampling'"))
    assert held.order == ["τ = 0.5", "τ = 1", "no peeking"]
    assert held.label("other", "crf", 1.0) == "τ = 1"
    assert len({held.colour(label) for label in held.order}) == 3


def test_of_several_proposals_with_all_temperatures_the_first_goes_by_them():
    keys = [("m", "m-peeking"), ("m", "m-bidirectional")]
    rows = [(*key, temperature) for key in keys for temperature in (2.0, 10.0, 0.5)]
    held = Settings(pd.DataFrame(rows, columns=["model", "proposal", "temperature"]))
    assert held.order[:3] == ["τ = 0.5", "τ = 2", "τ = 10"]
    assert held.label("m", "m-peeking", 2.0) == "τ = 2"
    assert held.label("m", "m-bidirectional", 2.0) == "bidirectional, τ = 2"


def test_table_1_holds_each_estimate_beside_the_published_one():
    table = sampling_table(estimates(), None, LABELS)
    titles = [(column.group, column.title) for column in table.columns]
    assert titles[2:] == [
        ("mine", "this run"), ("mine", "paper"), ("other", "this run"), ("other", "paper"),
    ]  # fmt: skip
    cells = {}
    level = ""
    for row in table.rows:
        level = row[0] or level
        cells[level.split(",")[0], level.count("mean"), row[1]] = list(row[2:])
    # Table 1 of the paper: EntityNLM 113.5 and 122.6 at τ = 0.5, 113.9 and 131.7 without peeking
    assert cells["Instance level", 0, "τ = 0.5"] == ["100.0", "113.5", "–", "85.3"]
    assert cells["Instance level", 0, "τ = 1"] == ["101.0", "110.0", "103.0", "84.2"]
    assert cells["Instance level", 0, "no peeking"] == ["102.0", "113.9", "–", "–"]
    assert cells["Corpus level", 0, "τ = 0.5"] == ["200.0", "122.6", "–", "94.4"]
    assert cells["Corpus level", 1, "τ = 0.5"][0] == "210.0 ± 4.5"
    assert "40 instances, 3,914 tokens (T counts words)" in table.note
    assert table.note.startswith("K = 100 samples of an instance")
    assert len(table.tidy) == len(estimates())


def test_table_2_shows_the_lowest_strict_bound_of_each_size():
    table = beam_table(estimates(), LABELS)
    assert [list(row) for row in table.rows] == [
        ["k = 1", "390.0", "150.2", "393.0", "96.3"],
        ["k = 10", "300.0", "147.1", "303.0", "87.0"],
    ]
    assert "the lowest bound is shown" in table.note


def test_the_diagnostics_name_the_bound_of_every_estimate():
    table = trust_table(estimates(), None, LABELS)
    titles = [f"{column.group} {column.title}".strip() for column in table.columns]
    rows = {(row[1], row[2], row[3]): dict(zip(titles, row, strict=True)) for row in table.rows}
    sampled = rows["mine-peeking", "0.5", "Importance sampling"]
    assert (sampled["K"], sampled["Bound"]) == ("100", "stochastic")
    assert (sampled["Perplexity"], sampled["unknown penalized"]) == ("100.0", "700.0")
    assert sampled["Effective samples median"] == "5.2"
    assert (sampled["k̂ limit"], sampled["k̂ above limit"]) == ("0.50", "3/30 (10 undefined)")
    error = sampled["Standard error over samples"], sampled["Standard error by"]
    assert error == ("2.5", "bootstrap")  # that by the delta method is null
    beam = rows["crf", "–", "Beam marginalization, k = 10"]
    assert (beam["K"], beam["Bound"], beam["k̂ above limit"]) == ("–", "strict", "–")


def test_the_diagnostics_show_particles_and_runs():
    row = {"model": "mine", "proposal": "p", "method": "smc", "aggregation": "instance"}
    row |= {"measure": "perplexity", "value": 90.0, "bound": "stochastic", "n_samples": 50}
    row |= {"replicates": 4, "n_instances": 40, "standard_error": 1.5, "temperature": 1.0}
    (shown,) = trust_table(pd.DataFrame([row], columns=ESTIMATES.names), None, LABELS).rows
    assert shown[4] == "50 × 4"
    assert list(shown[8:10]) == ["1.5", "delta method"]


@pytest.mark.parametrize(
    "make", [partial(sampling_table, beside=None), beam_table, partial(trust_table, gaps=None)]
)
def test_no_estimates_are_an_error(make):
    with pytest.raises(InputError, match="the estimates hold none"):
        make(estimates().iloc[:0], labels=LABELS)


def test_the_curves_fall_and_have_a_panel_per_model():
    figure = perplexity_by_samples(curves(), LABELS)
    visible = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in visible] == ["mine", "other"]
    assert [len(axis.lines) for axis in visible] == [3, 1]
    for line in visible[0].lines:
        assert list(line.get_ydata()) == [150.0, 105.0, 100.5]
    levels = [axis.get_title() for axis in aggregation(curves(), LABELS).axes if axis.get_visible()]
    assert levels == ["mine, instance level", "mine, corpus level"]
    with pytest.raises(InputError, match="no curves"):
        aggregation(curves().iloc[:0], LABELS)


def test_both_levels_are_shown_of_the_model_with_the_most_proposals():
    def shown(rows):
        return aggregation(rows, LABELS).axes[0].get_title().split(",")[0]

    table = curves()
    assert shown(table) == shown(table.iloc[::-1]) == "mine"
    crf = table[table["proposal"] == "crf"]
    second, third = (crf.assign(proposal=name) for name in ("second", "third"))
    assert shown(pd.concat([table, second])) == "mine"  # as many: the first
    assert shown(pd.concat([second, table])) == "other"
    assert shown(pd.concat([table, second, third])) == "other"


def test_the_tables_need_no_labels():
    table = sampling_table(estimates(), None, Labels())
    assert [column.group for column in table.columns][2:] == ["mine", "other"]
    assert "mine: 40 instances" in table.note


def test_densities_need_eight_replicates_and_skip_the_infinite():
    many = replicates()
    many.loc[0, "value"] = float("inf")
    few = [axis for axis in densities(replicates(7), LABELS).axes if axis.get_visible()]
    full = [axis for axis in densities(many, LABELS).axes if axis.get_visible()]
    assert [len(axis.lines) for axis in few] == [3, 1]  # ticks alone
    assert [len(axis.lines) for axis in full] == [6, 2]
    for line in full[0].lines[1::2]:
        assert max(line.get_ydata()) == pytest.approx(1.0)
    with pytest.raises(InputError, match="replicates"):
        densities(many.iloc[:0], LABELS)


@pytest.mark.parametrize("n", [8, 300])
def test_the_density_is_that_of_scipy(n):
    values = np.random.default_rng(n).gamma(3, 20, n)
    at = np.linspace(values.min() - 30, values.max() + 30, 200)
    found, expected = kernel_density(values, at), gaussian_kde(values)(at)
    assert found / found.max() == pytest.approx(expected / expected.max(), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("tree", ["(S #0)", "(S (X #0 #1) #2)", "(S (A #0 (B (C #1))) (D #2))"])
def test_a_tree_has_the_room_of_its_height(tree):
    """The oracle is NLTK."""
    words = ["a"] * tree.count("#")
    figure = latent_states([{"model": "a", "title": "b", "tokens": words, "tree": tree}], LABELS)
    height = Tree.fromstring(tree).height()
    assert figure.get_figheight() == pytest.approx(TITLE + LEVEL * (height + 0.6))
    assert figure.axes[0].get_ylim()[1] == height - 1 + 0.5


def test_what_a_panel_cuts_off_is_said_in_it():
    high, far = curves(), replicates()
    high["mean"] = high["mean"].where(high["temperature"] != 0.5, 1000 * high["mean"])
    first, second = (
        axis for axis in perplexity_by_samples(high, LABELS).axes if axis.get_visible()
    )
    assert [text.get_text() for text in first.texts] == ["cut at 10,050"]  # 100 x 100.5
    assert first.get_ylim()[1] == pytest.approx(10_050 * 1.1)
    assert not second.texts
    far["value"] = far["value"].where(far["temperature"] != 0.5, 9 * far["value"])
    first, second = (axis for axis in densities(far, LABELS).axes if axis.get_visible())
    assert [text.get_text() for text in first.texts] == ["τ = 0.5: 905 →"]  # 9 x 100.55
    assert first.get_xlim()[1] < 200
    assert not second.texts


def test_no_tag_of_a_mention_meets_the_names_below():
    mention = {"start": 0, "end": 1, "entity": "Man", "kind": "new"}
    close = {"start": 1, "end": 2, "entity": "Dog", "kind": "new"}
    chain = {"model": "c", "title": "d", "tokens": ["he", "it"], "mentions": [mention, close]}
    figure = latent_states([chain], LABELS)
    figure.draw_without_rendering()
    *_, tag, lower, names = (text.get_window_extent() for text in figure.axes[0].texts)
    assert lower.y1 < tag.y1
    assert names.y1 < lower.y0


def test_the_figure_of_bounds_shows_the_lowest_of_each_proposal():
    table = estimates()
    smc = {"method": "smc", "aggregation": "instance", "measure": "perplexity", "value": 90.0}
    smc |= {"model": "mine", "proposal": "mine-no-peeking", "bound": "stochastic"}
    smc["standard_error"] = 2.0
    table.loc[len(table)] = pd.Series(smc)
    mine, other = bounds(table, None, LABELS).axes
    names = [label.get_text() for label in mine.get_yticklabels()]
    assert names == [
        "Beam marginalization, k = 1",
        "Beam marginalization, k = 10",
        "Importance sampling",
        "Sequential Monte Carlo",
    ]
    points = [line.get_xydata()[0] for line in mine.lines]
    drawn = {(round(y), x) for x, y in points}
    assert (3, 90.0) in drawn
    assert {values for place, values in drawn if place == 2} == {100.0, 102.0}
    legend = [text.get_text() for text in mine.figure.legends[0].get_texts()]
    assert "stochastic upper bound (the lowest over τ)" in legend
    alone = bounds(table[table["temperature"] != 0.5], None, LABELS).legends[0].get_texts()
    assert "stochastic upper bound" in [text.get_text() for text in alone]
    # Two errors on each side: by the delta method where it is known, else by bootstrap.
    ends = {
        round(float(segment[1][0] - segment[0][0]), 6)
        for bars in mine.collections
        for segment in bars.get_segments()
    }
    assert {8.0, 10.0} <= ends
    assert len(other.lines) == 3
    assert len(bounds(table[table["method"] != "beam"], None, LABELS).axes) == 2
    with pytest.raises(InputError, match="no finite bound"):
        bounds(table.iloc[:0], None, LABELS)


def test_latents_are_drawn_word_by_word_and_give_the_same_bytes(tmp_path):
    words = [
        "the",
        "old",
        "man",
        "saw",
        "a",
        "dog",
        "that",
        "he",
        "had",
        "known",
        "since",
        "he",
        "was",
        "young",
        "and",
        "it",
        "was",
        "small",
    ]
    mentions = [
        {"start": 0, "end": 3, "entity": "Man", "kind": "new"},
        {
            "start": 4,
            "end": 6,
            "entity": "Dog",
            "kind": "related",
            "relation": "pet",
            "parent": "Man",
        },
        {"start": 7, "end": 8, "entity": "Man", "kind": "related", "relation": "@@REFLEXIVE@@"},
    ]
    tree = {"model": "a", "title": "b", "tokens": words[:4], "tree": "(S (NP #0 #1 #2) (X #3))"}
    chain = {"model": "c", "title": "d", "tokens": words, "mentions": mentions}
    figure = latent_states([tree, chain], LABELS)
    first, second = ([text.get_text() for text in axis.texts] for axis in figure.axes)
    assert first == ["the", "old", "man", "NP", "saw", "S"]
    assert second[: len(words)] == words
    assert second[len(words) :] == ["1 new", "2 pet of 1", "1 again", "1 Man   2 Dog"]
    save(figure, [tmp_path / "one.svg"])
    save(latent_states([tree, chain], LABELS), [tmp_path / "two.svg"])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    (note,) = latent_states([], LABELS).texts
    assert "can be shown" in note.get_text()


def hostile(table: pd.DataFrame) -> pd.DataFrame:
    return table.replace({name: f"{name} {HOSTILE}" for name in ("mine", "mine-no-peeking")})


def test_names_tokens_and_entities_are_drawn_as_they_stand(tmp_path):
    words = [HOSTILE, "$", "US$", "it"]
    other = {"entity": f"E {HOSTILE}", "kind": "related", "parent": HOSTILE}
    mentions = [
        {"start": 0, "end": 2, "entity": HOSTILE, "kind": HOSTILE},
        {"start": 2, "end": 3, "relation": HOSTILE, **other},
    ]
    chain = {"model": HOSTILE, "title": "d", "tokens": words, "mentions": mentions}
    tree = {"model": HOSTILE, "title": "b", "tokens": words}
    tree["tree"] = "($ (PRP$ #0 #1 #2) ($x^$ #3))"
    named = Labels(families={f"mine {HOSTILE}": "entitynlm"})
    figures = {
        "1": (latent_states([tree, chain], LABELS), 8),
        "2": (perplexity_by_samples(hostile(curves()), LABELS), 2),
        "3": (aggregation(hostile(curves()), named), 3),
        "4": (densities(hostile(replicates()), LABELS), 2),
        "bounds": (bounds(hostile(estimates()), None, LABELS), 2),
    }
    for name, (figure, at_least) in figures.items():
        paths = [tmp_path / f"{name}.{suffix}" for suffix in ("svg", "pdf")]
        save(figure, paths)
        check_drawn_as_it_stands(paths[0].read_text(), at_least=at_least)
