"""Tables and figures of importance sampling; latents under the posterior, their spans and means.

Oracles: the numbers that went in, the published ones, the drawn axes, NLTK's trees; of the
posterior: hidden bits whose latents are enumerated, counts by hand.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from nltk.tree import Tree
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch, document_of
from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures import importance
from beyond_perplexity.figures.bounds import bounds
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.latents import LEVEL, TITLE, latent_states
from beyond_perplexity.importance import posterior_latents as latents
from beyond_perplexity.importance.estimate_wording import bounds_with_costs
from beyond_perplexity.importance.model_pair import Costs, Pair, clock_of
from beyond_perplexity.importance.posterior_latents import group_instances, score_beside
from beyond_perplexity.importance.ways_to_draw import PosteriorOptions
from beyond_perplexity.models import likelihoods, recurrent
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import RADIX
from beyond_perplexity.report import importance_choice, tabulate
from beyond_perplexity.report.importance import beam_table, sampling_table, trust_table
from beyond_perplexity.report.importance_latents import beside_table, latents_table, words_table
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.schemas.draws import DRAW_COSTS, POSTERIOR
from beyond_perplexity.schemas.estimates import (
    ESTIMATES,
    IMPORTANCE_CURVES,
    IMPORTANCE_DIAGNOSTICS,
    IMPORTANCE_REPLICATES,
)
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import BOS, ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.test_entitynlm import make_model, make_proposal
from tests.unit.toy_latent import STOP, ToyModel, ToyProposal

FAMILIES = {"mine": "entitynlm", "other": "rnng"}
LABELS = Labels(families=FAMILIES, data={"mine": "books (test)", "other": "trees"})
OWN = {"mine-peeking": (0.5, 1.0), "mine-no-peeking": (1.0,)}
PROPOSALS = {"mine": OWN, "other": {"crf": (1.0,)}}


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
        common |= {"n_instances": 40, "n_tokens": 3914, "t_definition": "words"}
        drawn = {**common, "method": "importance_sampling", "temperature": temperature}
        drawn |= {"n_samples": 100, "bound": "stochastic", "ess_median": 5.25, "k_hat_above": 3}
        drawn |= {"k_hat_undefined": 10, "k_hat_threshold": 0.5, "standard_error_samples": 2.5}
        penalized = {"measure": "unknown_penalized_perplexity", "value": 700.0 + place}
        random = {"pairing": "random", "value": 210.0 + place, "standard_deviation": 4.5}
        rows += [
            {**drawn, "aggregation": "instance", "value": 100.0 + place},
            {**drawn, "aggregation": "instance", **penalized},
            {**drawn, "aggregation": "corpus", "pairing": "sample_id", "value": 200.0 + place},
            {**drawn, "aggregation": "corpus", **random},
        ]
        beam = {**common, "method": "beam", "aggregation": "instance", "bound": "strict"}
        values = {size: 400.0 - 10 * size + place for size in (1, 10)}
        rows += [{**beam, "beam_size": size, "value": value} for size, value in values.items()]
    return pd.DataFrame(rows, columns=ESTIMATES.names)


KEYS = ["model", "proposal", "temperature"]


def curves() -> pd.DataFrame:
    keys = product(settings(), ("instance", "corpus"), (1, 10, 100))
    rows = [(*setting, level, n, 100.0 + 50 / n, 90.0, 160.0) for setting, level, n in keys]
    names = [*KEYS, "aggregation", "n_samples", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=names).reindex(columns=IMPORTANCE_CURVES.names)


def replicates(count: int = 12) -> pd.DataFrame:
    keys = product(enumerate(settings()), range(count))
    rows = [(*s, "instance", 10, n, 100.0 + place + 0.1 * n) for (place, s), n in keys]
    names = [*KEYS, "aggregation", "n_samples", "replicate", "value"]
    return pd.DataFrame(rows, columns=names).reindex(columns=IMPORTANCE_REPLICATES.names)


def test_the_main_proposal_goes_by_its_temperature_the_others_by_their_names():
    """Of several with all temperatures the first goes by them."""
    held = importance.Settings(estimates().query("method == 'importance_sampling'"))
    assert held.order == ["τ = 0.5", "τ = 1", "no peeking"]
    assert held.label("other", "crf", 1.0) == "τ = 1"
    assert len({held.colour(label) for label in held.order}) == 3
    keys = [("m", "m-peeking"), ("m", "m-bidirectional")]
    rows = [(*key, temperature) for key in keys for temperature in (2.0, 10.0, 0.5)]
    held = importance.Settings(pd.DataFrame(rows, columns=KEYS))
    assert held.order[:3] == ["τ = 0.5", "τ = 2", "τ = 10"]
    assert held.label("m", "m-peeking", 2.0) == "τ = 2"
    assert held.label("m", "m-bidirectional", 2.0) == "bidirectional, τ = 2"


def test_table_1_holds_each_estimate_beside_the_published_one():
    table = sampling_table(estimates(), None, LABELS)
    titles = [(column.group, column.title) for column in table.columns]
    assert titles[2:] == [*product(("mine", "other"), ("this run", "paper"))]
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
    table = sampling_table(estimates(), None, Labels())
    assert [column.group for column in table.columns][2:] == ["mine", "other"]
    assert "mine: 40 instances" in table.note


def test_table_2_shows_the_lowest_strict_bounds_and_table_1_ends_with_plain_models():
    table = beam_table(estimates(), LABELS)
    assert [list(row) for row in table.rows] == [
        ["k = 1", "390.0", "150.2", "393.0", "96.3"],
        ["k = 10", "300.0", "147.1", "303.0", "87.0"],
    ]
    assert "the lowest bound is shown" in table.note
    _, scores = paired(4, 0.0, 0.1)
    table = sampling_table(bits_estimates(TEST), scores, Labels(names={"lstm": "My LSTM"}))
    assert list(table.rows[-1][1:]) == ["My LSTM", f"{math.exp(5.0):,.1f}"]
    assert "same instances" in table.rows[-1][0]


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
    # of particles
    row = {"model": "mine", "proposal": "p", "method": "smc", "aggregation": "instance"}
    row |= {"measure": "perplexity", "value": 90.0, "bound": "stochastic", "n_samples": 50}
    row |= {"replicates": 4, "n_instances": 40, "standard_error": 1.5, "temperature": 1.0}
    (shown,) = trust_table(pd.DataFrame([row], columns=ESTIMATES.names), None, LABELS).rows
    assert (shown[4], list(shown[8:10])) == ("50 × 4", ["1.5", "delta method"])


@pytest.mark.parametrize(
    "make", [partial(sampling_table, beside=None), beam_table, partial(trust_table, gaps=None)]
)
def test_no_estimates_are_an_error(make):
    check_refused("the estimates hold none", make, estimates().iloc[:0], labels=LABELS)


def visible(figure):
    return [axis for axis in figure.axes if axis.get_visible()]


def test_the_curves_fall_and_seconds_and_evaluations_stand_side_by_side():
    shown = visible(importance.perplexity_by_samples(curves(), LABELS))
    assert [axis.get_title() for axis in shown] == ["mine", "other"]
    assert [len(axis.lines) for axis in shown] == [3, 1]
    for line in shown[0].lines:
        assert list(line.get_ydata()) == [150.0, 105.0, 100.5]
    levels = [axis.get_title() for axis in visible(importance.aggregation(curves(), LABELS))]
    assert levels == ["mine, instance level", "mine, corpus level"]
    check_refused("no curves", importance.aggregation, curves().iloc[:0], LABELS)
    figure = importance.gap_by_cost(costly_estimates(), costly_curves(), costs(), Labels())
    left, right = figure.axes
    single = [line for line in right.lines if len(line.get_xdata()) == 1]
    points = {tuple(np.round(line.get_xydata()[0], 6)) for line in single}
    assert (160.0, importance.SMALLEST_GAP) in points  # the best, by 80 evaluations of p and of q
    assert (600.0, 0.1) in points
    (line,) = [c for c in left.lines if len(c.get_xdata()) == 3 and c.get_xdata()[-1] == 1.5]
    assert list(line.get_xdata()) == pytest.approx([0.015, 0.15, 1.5])
    assert line.get_ydata()[-1] == pytest.approx(0.2)
    assert line.get_ydata()[0] == pytest.approx(0.2 + math.log(1.99))
    assert "core" in left.get_xlabel()


def test_densities_need_eight_replicates_and_levels_are_of_the_model_with_most_proposals():
    many = replicates()
    many.loc[0, "value"] = float("inf")
    few = visible(importance.densities(replicates(7), LABELS))
    full = visible(importance.densities(many, LABELS))
    assert [len(axis.lines) for axis in few] == [3, 1]  # ticks alone
    assert [len(axis.lines) for axis in full] == [6, 2]
    for line in full[0].lines[1::2]:
        assert max(line.get_ydata()) == pytest.approx(1.0)
    check_refused("replicates", importance.densities, many.iloc[:0], LABELS)

    def shown(rows):
        return importance.aggregation(rows, LABELS).axes[0].get_title().split(",")[0]

    table = curves()
    assert shown(table) == shown(table.iloc[::-1]) == "mine"
    crf = table[table["proposal"] == "crf"]
    second, third = (crf.assign(proposal=name) for name in ("second", "third"))
    assert shown(pd.concat([table, second])) == "mine"  # as many: the first
    assert shown(pd.concat([second, table])) == "other"
    assert shown(pd.concat([table, second, third])) == "other"


@pytest.mark.parametrize("tree", ["(S #0)", "(S (X #0 #1) #2)", "(S (A #0 (B (C #1))) (D #2))"])
def test_a_tree_has_the_room_of_its_height(tree):
    """The oracle is NLTK."""
    words = ["a"] * tree.count("#")
    figure = latent_states([{"model": "a", "title": "b", "tokens": words, "tree": tree}], LABELS)
    height = Tree.fromstring(tree).height()
    assert figure.get_figheight() == pytest.approx(TITLE + LEVEL * (height + 0.6))
    assert figure.axes[0].get_ylim()[1] == height - 1 + 0.5


def test_what_a_panel_cuts_off_is_said_and_no_tag_meets_the_names_below():
    high, far = curves(), replicates()
    high["mean"] = high["mean"].where(high["temperature"] != 0.5, 1000 * high["mean"])
    first, second = visible(importance.perplexity_by_samples(high, LABELS))
    assert [text.get_text() for text in first.texts] == ["cut at 10,050"]  # 100 x 100.5
    assert first.get_ylim()[1] == pytest.approx(10_050 * 1.1)
    assert not second.texts
    far["value"] = far["value"].where(far["temperature"] != 0.5, 9 * far["value"])
    first, second = visible(importance.densities(far, LABELS))
    assert [text.get_text() for text in first.texts] == ["τ = 0.5: 905 →"]  # 9 x 100.55
    assert first.get_xlim()[1] < 200
    assert not second.texts
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
    names = [f"Beam marginalization, k = {size}" for size in (1, 10)]
    names += ["Importance sampling", "Sequential Monte Carlo"]
    assert [label.get_text() for label in mine.get_yticklabels()] == names
    points = [line.get_xydata()[0] for line in mine.lines]
    drawn = {(round(y), x) for x, y in points}
    assert (3, 90.0) in drawn
    assert {values for place, values in drawn if place == 2} == {100.0, 102.0}
    legend = [text.get_text() for text in mine.figure.legends[0].get_texts()]
    assert "stochastic upper bound (the lowest over τ)" in legend
    alone = bounds(table[table["temperature"] != 0.5], None, LABELS).legends[0].get_texts()
    assert "stochastic upper bound" in [text.get_text() for text in alone]
    # Two errors on each side: by the delta method where it is known, else by bootstrap.
    segments = [segment for bars in mine.collections for segment in bars.get_segments()]
    ends = {round(float(segment[1][0] - segment[0][0]), 6) for segment in segments}
    assert {8.0, 10.0} <= ends
    assert len(other.lines) == 3
    assert len(bounds(table[table["method"] != "beam"], None, LABELS).axes) == 2
    check_refused("no finite bound", bounds, table.iloc[:0], None, LABELS)


def test_latents_are_drawn_word_by_word():
    text = "the old man saw a dog that he had known since he was young and it was small"
    words = text.split()
    again = {"entity": "Man", "kind": "related", "relation": "@@REFLEXIVE@@"}
    dog = {"entity": "Dog", "kind": "related", "relation": "pet", "parent": "Man"}
    mentions = [{"start": 0, "end": 3, "entity": "Man", "kind": "new"}]
    mentions += [{"start": 4, "end": 6, **dog}, {"start": 7, "end": 8, **again}]
    tree = {"model": "a", "title": "b", "tokens": words[:4], "tree": "(S (NP #0 #1 #2) (X #3))"}
    chain = {"model": "c", "title": "d", "tokens": words, "mentions": mentions}
    figure = latent_states([tree, chain], LABELS)
    first, second = ([text.get_text() for text in axis.texts] for axis in figure.axes)
    assert first == ["the", "old", "man", "NP", "saw", "S"]
    assert second[: len(words)] == words
    assert second[len(words) :] == ["1 new", "2 pet of 1", "1 again", "1 Man   2 Dog"]
    with pytest.raises(NothingToShowError, match="can be shown"):
        latent_states([], LABELS)


TOKENS = 50


def costs(proposal: str = "q", of: str = "core") -> pd.DataFrame:
    """Two instances; the second costs twice as much as the first."""
    spent = {("weights", 0.5): 1.0, ("weights", 2.0): 2.0, ("log_q", None): 0.25}
    spent |= {("beams", None): 4.0, ("smc", 1.0): 8.0}
    rows = [
        {"draw": draw, "temperature": degrees, "instance_id": place, "seconds": place * seconds}
        for (draw, degrees), seconds in spent.items()
        for place in (1, 2)
    ]
    table = pd.DataFrame(rows, columns=DRAW_COSTS.names)
    return table.assign(model="m", proposal=proposal, seconds_of=of)


ROWS: list[dict[str, Any]] = [
    {"method": "importance_sampling", "temperature": 0.5, "n_samples": 100, "nats": 4.0},
    {"method": "importance_sampling", "temperature": 2.0, "n_samples": 100, "nats": 4.2},
    {"method": "mixture", "n_samples": 200, "nats": 3.9},
    {"method": "beam_plus_tail", "temperature": 2.0, "n_samples": 100, "beam_size": 10},
    {"method": "smc", "temperature": 1.0, "n_samples": 20, "replicates": 4, "nats": 3.8},
    {"method": "beam", "beam_size": 10, "bound": "strict", "nats": 5.0},
]


def costly_estimates(**changes: Any) -> pd.DataFrame:
    rows = []
    for row in ROWS:
        nats = row.get("nats", 4.1)
        held = {"model": "m", "proposal": "q", "aggregation": "instance", "bound": "stochastic"}
        held |= {"measure": "perplexity", "n_tokens": TOKENS, "n_instances": 2}
        held |= {"value": math.exp(nats), "log_likelihood": -nats * TOKENS}
        held |= {"standard_error": 0.02 * math.exp(nats)}
        held["ess_median"] = None if "beam_size" in row else 5.0
        rows.append({**held, **row, **changes})
    return pd.DataFrame(rows, columns=ESTIMATES.names)


def found(**changes: Any) -> dict[tuple[str, float], dict[Any, Any]]:
    table = bounds_with_costs(costly_estimates(**changes), costs())
    return {(row["method"], row["temperature"]): row for row in table.to_dict("records")}


def test_estimators_are_charged_with_their_draws_and_errors_need_samples_by_their_square():
    held = list(found().values())
    # of 1 and 2 seconds an instance: the mean is 1.5 of what the first costs
    seconds = [1.5 * s for s in (1.0, 2.0, 1.0 + 2.0 + 0.25, 2.0 + 4.0, 8.0, 4.0)]
    assert [row["seconds"] for row in held] == pytest.approx(seconds)
    assert [row["evaluations_p"] for row in held] == [100, 100, 200, 110, 80, 10]
    assert [row["evaluations_q"] for row in held] == [100, 100, 400, 110, 80, 10]
    # to the best bound, nats a token
    assert [row["gap"] for row in held] == pytest.approx([0.2, 0.4, 0.1, 0.3, 0.0, 1.2])
    held = found()
    assert held["importance_sampling", 0.5]["error"] == pytest.approx(0.02)
    assert held["importance_sampling", 0.5]["needed"] == pytest.approx(400, abs=1)
    assert held["smc", 1.0]["needed"] == pytest.approx(16, abs=1)  # runs, of which there were 4
    assert math.isnan(found(standard_error=None)["smc", 1.0]["needed"])


def test_tables_say_what_to_use_and_what_an_error_takes_or_that_costs_are_missing():
    with pytest.raises(InputError, match="q: what its draws cost is missing"):
        bounds_with_costs(costly_estimates(), costs("other"))
    check_refused("no finite bound", bounds_with_costs, costly_estimates(value=math.inf), costs())
    table = importance_choice.costs_table(costly_estimates(), costs(), Labels())
    assert (table.rows[0][3], table.rows[0][4]) == ("Sequential Monte Carlo", "20 × 4")
    bootstrap = costly_estimates(standard_error=None, standard_error_samples=1.0)
    assert importance_choice.costs_table(bootstrap, costs(), Labels()).rows[0][-1].startswith("≥ ")
    advice = importance_choice.advice_table(costly_estimates(), costs(), None, Labels())
    (row,) = advice.rows
    assert row[1].startswith("Sequential Monte Carlo with q at τ = 1, K = 20 × 4; ± 0.01")
    assert row[1].endswith("runs")
    assert row[-1] == "itself, the lowest of 2"
    valid = costly_estimates()
    valid.loc[0, ["value", "log_likelihood"]] = [1.5, -math.log(1.5) * TOKENS]
    (row,) = importance_choice.advice_table(costly_estimates(), costs(), valid, Labels()).rows
    assert row[1].startswith("Importance sampling with q at τ = 0.5, K = 100; ± 0.01")
    assert row[1].endswith("samples")


def test_seconds_are_charged_to_the_instance_that_is_made_and_not_to_its_taker(monkeypatch):
    now = [0.0]
    held = Costs(torch.device("cpu"))
    monkeypatch.setattr(held, "_now", lambda: now[0])

    def make():
        for instance, seconds in ((7, 2.0), (7, 1.0), (9, 4.0)):
            now[0] += seconds
            yield {"instance_id": np.full(5, instance)}
        now[0] += 8.0
        yield {"instance_id": np.array([7, 7, 7, 9])}

    for _ in held.timed(make()):
        now[0] += 100.0  # writing
    assert held.seconds == {7: 9.0, 9: 6.0}
    table = pa.table(held.table("weights", "m/q", 0.5), DRAW_COSTS)
    assert table.num_rows == 2
    row = table.to_pylist()[0]
    assert (row["model"], row["proposal"], row["temperature"]) == ("m", "q", 0.5)
    assert (row["instance_id"], row["seconds"], row["seconds_of"]) == (7, 9.0, "core")
    # of the cores of a CPU
    name, now = clock_of(torch.device("cpu"))
    assert name == "core"
    begun = now()
    total = sum(range(10**6))
    assert total
    assert 0 < now() - begun < 60


def costly_curves() -> pd.DataFrame:
    rows = [
        {"model": "m", "proposal": "q", "temperature": t, "aggregation": "instance"}
        | {"n_samples": n, "mean": math.exp(nats) * (1 + 1 / n - 0.01)}
        for t, nats in ((0.5, 4.0), (2.0, 4.2))
        for n in (1, 10, 100)
    ]
    return pd.DataFrame(rows, columns=IMPORTANCE_CURVES.names)


V = 11
TEXTS = [np.array(text) for text in ([4, 5, 6, 10, 3], [7], [9, 9, 3, 4, 5, 6, 7, 8])]


class Mentioning(ToyModel):
    """Words with a hidden bit of 1 are mentions; the end counts or not."""

    end = 1

    def n_tokens(self, batch: InstanceBatch) -> Tensor:
        return batch.lengths["tokens"] + self.end

    def readable(self, instance, latent):
        places = [place for place, bit in enumerate(latent.tolist()) if bit == 1]
        return {"mentions": [{"start": p, "end": p + 1, "entity": 0} for p in places]}


class Parsing(ToyModel):
    """Its latents are no mentions."""

    def readable(self, instance, latent):
        return {"tree": "(S #0)"}


def instances() -> list[Instance]:
    return [Instance(n, {"tokens": t, "bits": t % 2}) for n, t in enumerate(TEXTS, 7)]


@pytest.fixture(scope="module")
def lstm() -> recurrent.LSTM:
    torch.manual_seed(1)
    return recurrent.LSTM(V, {"embedding_size": 8, "hidden_size": 8}).eval()


@pytest.mark.parametrize("end", [0, 1])
def test_scores_are_of_the_words_of_the_end_and_of_mentions(lstm, end):
    latent = Mentioning(V, {})
    latent.end = end
    rows = list(score_beside(latent, lstm, instances()))
    whole = list(likelihoods.score_encoded(lstm, TEXTS))
    for row, text, score in zip(rows, TEXTS, whole, strict=True):
        without = 0.0 if end else row["log_likelihood_end"]
        assert row["log_likelihood"] + without == pytest.approx(score.log_prob, abs=1e-5)
        assert row["n_tokens"] == len(text) + end
        assert (row["n_words"], row["n_inside"]) == (len(text), int((text % 2).sum()))
        ids = torch.tensor([[BOS, *text]])
        logits = lstm(ids).log_softmax(2)[0, :-1].double()  # (T, V)
        by_word = logits[torch.arange(len(text)), torch.tensor(text)].detach().numpy()
        assert row["log_likelihood_inside"] == pytest.approx(by_word[text % 2 == 1].sum(), abs=1e-5)


def test_scores_do_not_depend_on_other_instances_and_trees_have_no_words_inside_mentions(lstm):
    latent = Mentioning(V, {})
    together = list(score_beside(latent, lstm, instances()))
    alone = [row for one in instances() for row in score_beside(latent, lstm, [one])]
    assert together == alone
    latent.end = 2
    with pytest.raises(InputError, match="instance 7: the latent model counts 7 tokens of 5"):
        list(score_beside(latent, lstm, instances()))
    latent = Parsing(V + 2, {})
    odd = Instance(1, {"tokens": np.array([4, V, V + 1]), "bits": np.array([0, 1, 0])})
    plain = Instance(1, {"tokens": np.array([4, 2, 2]), "bits": np.array([0, 1, 0])})
    (found,), (expected,) = (list(score_beside(latent, lstm, [one])) for one in (odd, plain))
    assert found["n_inside"] is None
    assert found["log_likelihood_inside"] is None
    assert found["log_likelihood"] == expected["log_likelihood"]


def test_sentences_are_of_their_document_and_documents_of_their_page(tmp_path):
    assert (document_of(3 * 65_536 + 2, "sentence"), document_of(3, "document")) == (3, 3)
    path = str(tmp_path / "documents.parquet")
    titles = {3: "Ant", 4: "Ant", 5: "", 6: "", 7: "Bee"}
    columns = {"doc_id": list(titles), "title": list(titles.values()), "split": ["test"] * 5}
    columns |= {"text": ["a"] * 5, "n_tokens": [1] * 5}
    pq.write_table(pa.table({name: columns[name] for name in DOCUMENTS.names}, DOCUMENTS), path)
    pages = group_instances("entitynlm", titles, path, "page")
    assert pages[3] == pages[4]
    assert len(set(pages.values())) == 4  # a document without a title is a page of its own
    assert len(set(group_instances("entitynlm", titles, path, "document").values())) == 5
    sentences = [3 * 65_536, 3 * 65_536 + 1, 4 * 65_536, 7 * 65_536]
    documents = group_instances("rnng", sentences, path, "document")
    assert documents[sentences[0]] == documents[sentences[1]] != documents[sentences[2]]
    assert len(set(group_instances("rnng", sentences, path, "page").values())) == 2


BASE = {"aggregation": "instance", "measure": "perplexity", "bound": "stochastic"}
BASE |= {"ess_median": 5.0}
SIZES = {"n_instances": 3, "n_tokens": 60, "n_samples": 100, "t_definition": "words"}


def bits_estimates(values: dict[tuple, float], model: str = "bits") -> pd.DataFrame:
    rows = [
        {"model": model, "proposal": p, "method": m, "temperature": t, "value": v, **BASE, **SIZES}
        for (p, m, t), v in values.items()
    ]
    return pd.DataFrame(rows, columns=ESTIMATES.names)


SAMPLING, SMC = "importance_sampling", "smc"
TEST = {("q", SAMPLING, 0.5): 90.0, ("q", SAMPLING, 1.0): 95.0, ("q", SMC, 1.0): 93.0}
TEST[("q", "mixture", None)] = 97.0


def test_validation_chooses_and_without_it_no_temperature_is_chosen():
    (row,) = importance_choice.choose_estimates(bits_estimates(TEST), None).to_dict("records")
    assert (row["method"], row["value"], row["chosen_by"]) == (SMC, 93.0, "itself, the lowest of 2")
    alone = {key: value for key, value in TEST.items() if key[1] != "mixture"}
    (row,) = importance_choice.choose_estimates(bits_estimates(alone), None).to_dict("records")
    assert row["chosen_by"] == importance_choice.BY_NOTHING
    valid = bits_estimates({**TEST, ("q", SAMPLING, 1.0): 80.0, ("q", SAMPLING, 0.5): 85.0})
    (row,) = importance_choice.choose_estimates(bits_estimates(TEST), valid).to_dict("records")
    assert (row["temperature"], row["value"]) == (1.0, 95.0)
    assert row["chosen_by"] == importance_choice.BY_VALIDATION
    other = bits_estimates({("r", SMC, 1.0): 1.0})
    with pytest.raises(InputError, match="bits: no estimate has a finite bound"):
        importance_choice.choose_estimates(bits_estimates(TEST), other)


def test_what_needs_no_choice_comes_first_then_the_least_strict_bound():
    table = bits_estimates(TEST)
    beam = {**BASE, **SIZES, "model": "bits", "proposal": "q", "method": "beam", "bound": "strict"}
    strict = [{**beam, "beam_size": k, "value": value} for k, value in ((1, 120.0), (10, 110.0))]
    whole = pd.concat([table, pd.DataFrame(strict, columns=ESTIMATES.names)], ignore_index=True)
    shown = importance_choice.choice_table(whole, bits_estimates(TEST), Labels())
    parts = ["Needs no choice", "", "Speaks for the model", "Least strict bound"]
    assert [row[0] for row in shown.rows] == parts
    values = [row[6] for row in shown.rows]
    assert values == ["93.0", "97.0", "90.0", "110.0"]
    assert shown.rows[2][9] == importance_choice.BY_VALIDATION
    assert "k = 10" in shown.rows[3][3]
    assert list(shown.tidy["part"]) == ["no choice", "no choice", "speaks", "strict"]


def paired(groups: int, gap: float, spread: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Instances of 10 tokens whose difference is `gap` ± `spread`, in turn."""
    scores, own, method = [], [], {"proposal": "q", "method": SMC, "temperature": 1.0}
    beside = {"beside": "lstm", "log_likelihood": -50.0, "n_unknown": 2}
    for place in range(groups):
        less = gap + (spread if place % 2 else -spread)
        common = {"model": "bits", "instance_id": place, "n_tokens": 10}
        scores.append({**common, **beside, "group": place})
        own.append({**common, **method, "log_likelihood": -50.0 - 10 * less})
    return pd.DataFrame(own, columns=IMPORTANCE_DIAGNOSTICS.names), pd.DataFrame(scores)


def test_the_difference_is_paired_and_its_interval_that_of_students_t():
    """Oracle: the mean of equal groups and its interval in closed form."""
    own, scores = paired(40, -0.2, 0.1)
    chosen = bits_estimates({("q", SMC, 1.0): 93.0})
    (row,) = beside_table(chosen, own, scores, None, Labels()).tidy.to_dict("records")
    assert row["difference"] == pytest.approx(-0.2)
    error = 0.1 * math.sqrt(40 / 39) / math.sqrt(40)
    assert row["standard_error"] == pytest.approx(error)
    assert row["high"] == pytest.approx(-0.2 + 2.0227 * error, rel=1e-4)  # t of 39 at .975
    assert row["perplexity_beside"] == pytest.approx(math.exp(5.0))
    assert row["perplexity"] == pytest.approx(math.exp(4.8))
    few = beside_table(chosen, *paired(10, -0.2, 0.1), None, Labels())
    assert few.rows[0][8] == "–"
    # 2 of 10 words are unknown and may be any of 7 types: charged on both sides
    chosen = chosen.assign(unknown_types=7)
    measure = {"measure": "unknown_penalized_perplexity", "value": 130.0}
    whole = pd.concat([chosen, chosen.assign(**measure)], ignore_index=True)
    (row,) = beside_table(whole, own, scores, None, Labels()).tidy.to_dict("records")
    assert row["penalized"] == 130.0
    assert row["penalized_beside"] == pytest.approx(math.exp(5.0 + 0.2 * math.log(7)))
    # What is summed over all latents is of short texts alone, and so is what stands beside it.
    exact = scores.iloc[:30].assign(beside="bits/exact", log_likelihood=-49.0)
    table = beside_table(whole, own, pd.concat([scores, exact]), None, Labels())
    other, row = table.tidy.to_dict("records")
    assert (other["n_instances"], row["n_instances"], row["n_tokens"]) == (40, 30, 300)
    assert row["perplexity_beside"] == pytest.approx(math.exp(4.9))
    assert row["difference"] == pytest.approx(-0.1)
    assert row["penalized"] == pytest.approx(math.exp(4.8 + 0.2 * math.log(7)))
    assert table.rows[1][4].endswith("sum over all latents, of short texts")
    sampled = whole.assign(method="importance_sampling")
    shown = [sampling_table(sampled, one, Labels()).rows for one in (exact, None)]
    assert shown[0] == shown[1]
    own, scores = paired(5, 0.0, 0.1)
    chosen = bits_estimates({("q", SMC, 1.0): 93.0})
    with pytest.raises(InputError, match=r"bits and lstm are of different instances \(4 and 5\)"):
        beside_table(chosen, own.iloc[1:], scores, None, Labels())
    own.loc[0, "n_tokens"] = 11
    check_refused("count different tokens", beside_table, chosen, own, scores, None, Labels())


SIZE = 6


class State(NamedTuple):
    batch: InstanceBatch
    last: Tensor

    def select(self, rows: Tensor) -> State:
        return self._replace(last=self.last[rows])


class WalkedBits(Mentioning):
    """The same, word by word."""

    def start(self, batch: InstanceBatch, owner: Tensor) -> State:
        return State(batch, torch.full_like(owner, 2))

    def extend(self, state: State, time: int, choice: Tensor) -> tuple[Tensor, State]:
        token = state.batch.tokens[0, time]
        bits = self.bits.log_softmax(1)[state.last, choice]
        words = self.words.log_softmax(1)[choice, token]
        return bits + words + math.log(1 - STOP), state._replace(last=choice)

    def finish(self, state: State, time: int) -> Tensor:
        return torch.full_like(state.last, math.log(STOP), dtype=torch.float64)


class WalkedProposal(ToyProposal):
    """The same, word by word."""

    word_draws = 1

    def start(self, batch: InstanceBatch, owner: Tensor) -> State:
        return State(batch, owner)

    def propose(self, state: State, time: int, uniforms: Tensor, temperature: float):
        log_q = (self.logits[state.batch.tokens[0, time]] / temperature).log_softmax(0)  # (2,)
        choice = (uniforms[:, 0] >= log_q[0].exp()).long()
        return choice, log_q[choice], state


def make(model: type[ToyModel], proposal: type[ToyProposal]) -> Pair:
    torch.manual_seed(3)
    return Pair(model(SIZE, {}).eval(), proposal(SIZE, {}).eval(), 1, "bits/q")


def compared(pair: Pair, samples: int) -> list[dict[Any, Any]]:
    (columns,) = latents.compare_latents(pair, [instance()], PosteriorOptions(samples=samples))
    return pd.DataFrame(columns).to_dict("records")


def instance() -> Instance:
    tokens = np.array([3, 4, 5, 2, 5])
    return Instance(7, {"tokens": tokens, "bits": tokens % 2})


def enumerated(pair: Pair) -> tuple[Tensor, Tensor]:
    """Return all latents, (32, 5), and log p(x, z) of each."""
    every = torch.tensor(list(product((0, 1), repeat=5)))
    batch = InstanceBatch.of([instance()])
    return every, pair.model.log_joint(batch, torch.zeros(32, dtype=torch.int64), every).detach()


def expected(shares: np.ndarray, every: np.ndarray) -> list[float]:
    """Count by hand: words are spans; an entity is right that refers back to the same word."""
    gold = instance().arrays["bits"]
    found, matched, same = (np.zeros(len(every)) for _ in range(3))
    for row, bits in enumerate(every):
        last_gold = last = None
        for place in range(5):
            both = bits[place] and gold[place]
            matched[row] += both
            same[row] += both and last == last_gold
            last_gold = place if gold[place] else last_gold
            last = place if bits[place] else last
        found[row] = bits.sum()
    return [float(shares @ values) for values in (found, matched, same)]


@pytest.mark.parametrize("kinds", [(Mentioning, ToyProposal), (WalkedBits, WalkedProposal)])
def test_means_over_weighted_latents_are_those_of_the_posterior(kinds):
    pair = make(*kinds)
    every, log_p = enumerated(pair)
    found = compared(pair, 20_000)
    posterior = expected(log_p.softmax(0).numpy(), every.numpy())
    batch, owner = InstanceBatch.of([instance()]), torch.zeros(32, dtype=torch.int64)
    log_q = pair.proposal.log_prob(batch, owner, every, [1.0])[:, 0].detach()
    proposal = expected(log_q.exp().numpy(), every.numpy())
    sides = zip(found, ("posterior", "proposal"), (posterior, proposal), strict=True)
    for row, source, oracle in sides:
        assert (row["source"], row["annotated"]) == (source, 3)
        for name, value in zip(("found", "matched", "same_entity"), oracle, strict=True):
            assert row[name] == pytest.approx(value, abs=0.06)
    way = "smc" if kinds[0] is WalkedBits else "importance_sampling"
    assert [row["method"] for row in found] == [way, "samples"]


def test_impossible_texts_have_no_latents_and_entities_are_names_or_what_they_refer_to():
    pair = make(Mentioning, ToyProposal)
    with torch.no_grad():
        pair.model.words[:, 5] = -math.inf
    believed, drawn = compared(pair, 8)
    assert math.isnan(believed["found"])
    assert drawn["annotated"] == 3
    gold = mentions((0, 1, 0), (2, 4, 1), (5, 6, 0), (7, 8, 1))
    other = mentions((0, 1, 5), (2, 4, 5), (5, 6, 5), (7, 9, 2))
    counts = latents.count_spans(latents.entities_by_span(gold), latents.entities_by_span(other))
    # (0, 1) is new in both; (2, 4) is new in one alone; (5, 6) refers back to other mentions
    assert counts == latents.SpanCounts(4, 4, 3, 1)
    named = mentions((0, 1, "a"), (2, 4, "b"), (5, 6, "a"))
    wrong = mentions((0, 1, "a"), (2, 4, "a"), (5, 6, "a"))
    spans = [latents.entities_by_span(one) for one in (named, wrong)]
    assert latents.count_spans(*spans) == latents.SpanCounts(3, 3, 3, 2)


def test_what_words_add_is_the_forward_probability_of_each_and_parts_add_up(tmp_path):
    """Oracle: the forward algorithm, by summing over all latents of every prefix."""
    pair = make(WalkedBits, WalkedProposal)
    tokens, gold = instance().arrays["tokens"], instance().arrays["bits"]
    forward, logs = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), [0.0]
    emit, move = pair.model.words.softmax(1), pair.model.bits.softmax(1)
    for token in tokens:
        held = (forward[:, None] * move).sum(0) * emit[:, token] * (1 - STOP)  # (2,)
        logs.append(math.log(held.sum().item()))
        forward = torch.tensor([*held.tolist(), 0.0], dtype=torch.float64)
    added = np.diff(logs)
    row, _ = compared(pair, 20_000)
    assert row["log_likelihood"] == pytest.approx(logs[-1] + math.log(STOP), abs=0.03)
    assert row["log_likelihood_inside"] == pytest.approx(added[gold == 1].sum(), abs=0.03)
    assert row["log_likelihood_end"] == pytest.approx(math.log(STOP), abs=1e-9)
    assert (row["n_words"], row["n_tokens"], row["n_inside"]) == (5, 6, 3)
    (columns,) = latents.compare_latents(pair, [instance()], PosteriorOptions(samples=8))
    (row, other) = pd.DataFrame(columns).to_dict("records")
    outside = instance().arrays["bits"] == 0
    assert outside.sum() == row["n_words"] - row["n_inside"]
    assert row["log_likelihood_inside"] + row["log_likelihood_end"] > row["log_likelihood"]
    assert other["log_likelihood"] is None
    with ShardWriter(tmp_path / "a.parquet", POSTERIOR, {}) as writer:
        writer.write(columns)


def mentions(*spans: tuple[int, int, Any]) -> dict[str, Any]:
    return {"mentions": [dict(zip(("start", "end", "entity"), s, strict=True)) for s in spans]}


TREES_OF = ["(S #0)", "#0", "(S (X #0 #1) #2)", "(# (NP #0 (# (C #1 #2))) (D #3 #4))"]


@pytest.mark.parametrize("tree", [*TREES_OF, "(X (X (X #0 #1) #2) #3)"])
def test_phrases_are_those_of_nltk(tree):
    whole = Tree.fromstring(tree if tree.startswith("(") else f"(S {tree})")
    words = len(whole.leaves())
    found = set()
    for position in whole.treepositions():
        if isinstance(whole[position], Tree):
            inside = [p for p in whole.treepositions("leaves") if p[: len(position)] == position]
            places = [whole.treepositions("leaves").index(p) for p in inside]
            found.add((places[0], places[-1] + 1))
    assert latents.tree_spans(tree) == {(a, b) for a, b in found if 1 < b - a < words}


def posterior_rows(**changes: Any) -> pd.DataFrame:
    base = {"model": "bits", "proposal": "q", "source": "posterior", "structure": "mentions"}
    base |= {"method": "smc", "n_samples": 9, "effective": 4.0, "annotated": 4.0, "found": 2.0}
    base |= {"matched": 1.0, "same_entity": 0.5, "n_words": 10, "n_tokens": 11, "n_inside": 4}
    base |= {"log_likelihood": -50.0, "log_likelihood_inside": -30.0, "log_likelihood_end": -2.0}
    rows = [{**base, "instance_id": place, **changes} for place in range(2)]
    return pd.DataFrame(rows, columns=POSTERIOR.names)


def test_precision_and_recall_are_of_sums_and_words_of_mentions_stand_apart():
    table = latents_table(posterior_rows(), Labels())
    (found,) = table.tidy.to_dict("records")
    assert (found["precision"], found["recall"]) == (pytest.approx(1 / 2), pytest.approx(1 / 4))
    assert found["f1"] == pytest.approx(2 * (1 / 2 * 1 / 4) / (1 / 2 + 1 / 4))
    assert found["entity_accuracy"] == pytest.approx(1 / 2)
    trees = latents_table(posterior_rows(structure="trees"), Labels())
    assert trees.rows[0][-1] == "–"
    unannotated = posterior_rows()
    unannotated.loc[1, ["annotated", "found", "matched", "same_entity"]] = np.nan
    assert latents_table(unannotated, Labels()).tidy["n_instances"][0] == 1
    with pytest.raises(NothingToShowError, match="the files of 'posteriors' have no row"):
        tabulate("importance/table_latents", {"posteriors": posterior_rows().iloc[:0]}, Labels())
    held = {"model": "bits", "beside": "lstm", "instance_id": [0, 1, 2], "n_words": 10}
    held |= {"n_tokens": 10, "n_inside": 4, "log_likelihood": -48.0}  # the end does not count there
    held |= {"log_likelihood_inside": -30.0, "log_likelihood_end": -3.0}
    table = words_table(posterior_rows(), pd.DataFrame(held), Labels())
    latent, plain = table.tidy.to_dict("records")
    assert latent["perplexity_inside"] == pytest.approx(math.exp(30 / 4))
    assert latent["perplexity_outside"] == pytest.approx(math.exp(18 / 6))
    assert latent["perplexity_words"] == pytest.approx(math.exp(48 / 10))
    assert latent["n_end"] == plain["n_end"] == 2  # an instance without a run is left out
    assert plain["perplexity_outside"] == pytest.approx(math.exp(18 / 6))
    assert table.rows[1][-1] == "3.00"
    trees = words_table(posterior_rows(n_inside=None, log_likelihood_inside=None), None, Labels())
    assert trees.rows[0][3] == "–"


WORDS = [f"w{number}" for number in range(6)]


def document(length: int, mentions: list[tuple[int, int]], number: int = 7) -> Instance:
    codes = np.zeros(length, np.int64)
    for place, entity in mentions:
        codes[place] = 1 + RADIX * entity
    return Instance(number, {"tokens": 3 + np.arange(length) % 6, "latents": codes})


def shown(instance: Instance) -> list[dict]:
    pair = Pair(make_model(), make_proposal(), 1, "m/q")
    vocabulary = ClosedVocabulary.build([WORDS], 1, None)
    assert vocabulary.size == pair.model.vocabulary_size
    return latents.describe(pair, "m", [document(3, []), instance], vocabulary)


def test_the_part_of_a_document_with_most_mentions_is_shown_or_a_short_one_whole():
    places = [(5, 0), (130, 1), (133, 0), (139, 1), (150, 1)]
    annotation, most_probable = shown(document(400, places))
    assert len(annotation["tokens"]) == latents.MOST_WORDS
    _, _, first, _, last, _, whole = annotation["title"].split()  # ..., words 1 to 2 of 3
    start = int(first) - 1
    assert (int(last) - start, int(whole)) == (latents.MOST_WORDS, 400)
    assert annotation["tokens"] == [WORDS[(start + i) % 6] for i in range(latents.MOST_WORDS)]
    found = [start + mention["start"] for mention in annotation["mentions"]]
    assert found == [130, 133, 139, 150]
    assert all(0 <= m["start"] < m["end"] <= latents.MOST_WORDS for m in most_probable["mentions"])
    annotation, _ = shown(document(9, [(2, 0), (4, 0)]))
    assert annotation["title"] == "annotation"
    assert [mention["start"] for mention in annotation["mentions"]] == [2, 4]
    assert shown(document(4, [])) == []


class Finding:
    """A proposal whose most probable latent has the mentions of one document, of others none."""

    def __init__(self, number: int) -> None:
        self.number = number

    def beam(self, batch, size):
        codes = pair_of(self).model.annotated(batch)  # (1, W)
        if batch.ids.tolist() != [self.number]:
            codes = torch.where(codes == PADDING, codes, 0)
        return torch.stack([codes, torch.full_like(codes, PADDING)], 1)  # (1, 2, W)


def pair_of(proposal) -> Pair:
    return Pair(make_model(), proposal, 1, "m/q")


def test_the_document_is_shown_in_which_the_proposal_finds_most():
    """The others have more mentions, which this proposal does not find."""
    held = [document(9, [(k, 0) for k in range(9 - number)], number) for number in range(3)]
    vocabulary = ClosedVocabulary.build([WORDS], 1, None)
    annotation, most_probable = latents.describe(pair_of(Finding(2)), "m", held, vocabulary)
    assert annotation["instance_id"] == 2
    assert [m["start"] for m in most_probable["mentions"]] == [*range(7)]
    nothing = latents.describe(pair_of(Finding(-1)), "m", held, vocabulary)
    assert nothing[0]["instance_id"] == 0  # the one with most to see
