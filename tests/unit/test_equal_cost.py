"""Estimates at equal cost: seconds, evaluations, errors; their tables and their figure.

Needs no data: tables written here. Oracles: counts and sums by hand, a clock that is set by hand,
the closed form of the error of a mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.importance import SMALLEST_GAP, gap_by_cost
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.importance.estimate_wording import bounds_with_costs
from beyond_perplexity.importance.model_pair import Costs, clock_of
from beyond_perplexity.report.importance_choice import advice_table, costs_table
from beyond_perplexity.schemas.draws import DRAW_COSTS
from beyond_perplexity.schemas.estimates import ESTIMATES, IMPORTANCE_CURVES
from tests.unit.synthetic_tables import HOSTILE, check_drawn_as_it_stands

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


def estimates(**changes: Any) -> pd.DataFrame:
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
    table = bounds_with_costs(estimates(**changes), costs())
    return {(row["method"], row["temperature"]): row for row in table.to_dict("records")}


def test_every_estimator_is_charged_with_the_draws_that_it_is_made_of():
    held = list(found().values())
    # of 1 and 2 seconds an instance: the mean is 1.5 of what the first costs
    seconds = [1.5 * s for s in (1.0, 2.0, 1.0 + 2.0 + 0.25, 2.0 + 4.0, 8.0, 4.0)]
    assert [row["seconds"] for row in held] == pytest.approx(seconds)
    assert [row["evaluations_p"] for row in held] == [100, 100, 200, 110, 80, 10]
    assert [row["evaluations_q"] for row in held] == [100, 100, 400, 110, 80, 10]


def test_the_gap_is_to_the_best_bound_in_nats_a_token():
    gaps = [row["gap"] for row in found().values()]
    assert gaps == pytest.approx([0.2, 0.4, 0.1, 0.3, 0.0, 1.2])


def test_a_standard_error_of_a_hundredth_needs_four_times_the_samples_of_a_fiftieth():
    held = found()
    assert held["importance_sampling", 0.5]["error"] == pytest.approx(0.02)
    assert held["importance_sampling", 0.5]["needed"] == pytest.approx(400, abs=1)
    assert held["smc", 1.0]["needed"] == pytest.approx(16, abs=1)  # runs, of which there were 4
    unknown = found(standard_error=None)
    assert math.isnan(unknown["smc", 1.0]["needed"])


def test_missing_costs_and_no_finite_bounds_are_errors():
    with pytest.raises(InputError, match="q: what its draws cost is missing"):
        bounds_with_costs(estimates(), costs("other"))
    with pytest.raises(InputError, match="no finite bound"):
        bounds_with_costs(estimates(value=math.inf), costs())


def test_seconds_are_charged_to_the_instance_that_is_made_and_not_to_its_taker(monkeypatch):
    now = [0.0]
    held = Costs(torch.device("cpu"))
    monkeypatch.setattr(held, "_now", lambda: now[0])

    def make():
        for instance, seconds in ((7, 2.0), (7, 1.0), (9, 4.0)):
            now[0] += seconds
            yield instance

    for _ in held.timed(make(), lambda chunk: chunk):
        now[0] += 100.0  # writing
    assert held.seconds == {7: 3.0, 9: 4.0}
    table = pa.table(held.table("weights", "m/q", 0.5), DRAW_COSTS)
    assert table.num_rows == 2
    row = table.to_pylist()[0]
    assert (row["model"], row["proposal"], row["temperature"]) == ("m", "q", 0.5)
    assert (row["instance_id"], row["seconds"], row["seconds_of"]) == (7, 3.0, "core")


def test_seconds_of_a_cpu_are_those_of_its_cores():
    name, now = clock_of(torch.device("cpu"))
    assert name == "core"
    begun = now()
    total = sum(range(10**6))
    assert total
    assert 0 < now() - begun < 60


def test_the_tables_say_what_to_use_and_what_an_error_takes():
    table = costs_table(estimates(), costs(), Labels())
    assert table.rows[0][3] == "Sequential Monte Carlo"
    assert table.rows[0][4] == "20 × 4"
    bootstrap = estimates(standard_error=None, standard_error_samples=1.0)
    assert costs_table(bootstrap, costs(), Labels()).rows[0][-1].startswith("≥ ")
    advice = advice_table(estimates(), costs(), None, Labels())
    (row,) = advice.rows
    assert row[1].startswith("Sequential Monte Carlo with q at τ = 1, K = 20 × 4; ± 0.01")
    assert row[1].endswith("runs")
    assert row[-1] == "itself, the lowest of 2"
    valid = estimates()
    valid.loc[0, ["value", "log_likelihood"]] = [1.5, -math.log(1.5) * TOKENS]
    (row,) = advice_table(estimates(), costs(), valid, Labels()).rows
    assert row[1].startswith("Importance sampling with q at τ = 0.5, K = 100; ± 0.01")
    assert row[1].endswith("samples")


def curves() -> pd.DataFrame:
    rows = [
        {"model": "m", "proposal": "q", "temperature": t, "aggregation": "instance"}
        | {"n_samples": n, "mean": math.exp(nats) * (1 + 1 / n - 0.01)}
        for t, nats in ((0.5, 4.0), (2.0, 4.2))
        for n in (1, 10, 100)
    ]
    return pd.DataFrame(rows, columns=IMPORTANCE_CURVES.names)


def test_the_figure_has_seconds_and_evaluations_side_by_side():
    figure = gap_by_cost(estimates(), curves(), costs(), Labels())
    left, right = figure.axes
    points = {
        tuple(np.round(line.get_xydata()[0], 6))
        for line in right.lines
        if len(line.get_xdata()) == 1
    }
    assert (160.0, SMALLEST_GAP) in points  # the best, by 80 evaluations of p and of q
    assert (600.0, 0.1) in points
    (line,) = [
        one for one in left.lines if len(one.get_xdata()) == 3 and one.get_xdata()[-1] == 1.5
    ]
    assert list(line.get_xdata()) == pytest.approx([0.015, 0.15, 1.5])
    assert line.get_ydata()[-1] == pytest.approx(0.2)
    assert line.get_ydata()[0] == pytest.approx(0.2 + math.log(1.99))
    assert "core" in left.get_xlabel()


def test_text_of_users_is_drawn_as_it_stands(tmp_path):
    table, line = estimates(proposal=HOSTILE), curves().assign(proposal=HOSTILE)
    figure = gap_by_cost(table, line, costs(HOSTILE), Labels())
    save(figure, [tmp_path / "costs.svg"])
    check_drawn_as_it_stands((tmp_path / "costs.svg").read_text(), at_least=1)
