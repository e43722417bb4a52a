"""Gaps on simulated documents, laid out and drawn; strict bounds beside the others; marks.

Needs pandas and matplotlib. Oracles: settings made up so that what is known of them can be told by
hand, texts of the tables, lines of the figure.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.bounds import LEAST_SHOWN, bounds, true_gaps
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.bidirectional_gaps import gap_ranges
from beyond_perplexity.importance.bound_claims import is_above_strict, least_strict, withdraw_claims
from beyond_perplexity.importance.estimate_wording import report
from beyond_perplexity.importance.reduction import estimates_table, reduce_weights
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.report.importance_choice import gaps_report
from tests.unit.test_bracket import lognormal, weight_columns


def setting(forward: float, reverse: float, **changed: object) -> dict[str, object]:
    row = {"model": "m", "proposal": "m-one", "method": "importance_sampling", "temperature": 1.0}
    row |= {"n_samples": 100, "runs": 1, "n_documents": 20, "n_cut": 2, "n_missed": 0}
    row |= {"n_tokens": 900, "forward": forward, "reverse": reverse, "gap": forward - reverse}
    row |= {"gap_error": 0.01, "bracket_low": 4.0, "bracket_high": 6.0, "at_most": 6.0}
    row |= {"bracket_bound": "two-sided", "ess_median": 9.0, "ess_low_share": 0.1}
    return row | changed


ROWS = [
    setting(5.5, 4.0, bracket_low=5.3, bracket_high=5.6),
    setting(5.2, 4.9, proposal="m-two", bracket_low=4.8, bracket_high=5.3, at_most=5.25),
    setting(5.3, -math.inf, method="smc", runs=4, bracket_low=5.0, bracket_high=5.4, n_missed=1),
    setting(9.0, 1.0, model="other", bracket_low=math.nan, bracket_bound=None, at_most=math.nan),
]


def test_a_setting_lacks_what_the_best_of_its_model_show():
    """Oracle: by hand; the truth of m is between 4.9 and 5.2."""
    found = gap_ranges(ROWS)
    assert [(one.below, one.above) for one in found] == [(4.9, 5.2)] * 3 + [(1.0, 9.0)]
    np.testing.assert_allclose([one.least for one in found], [0.3, 0.0, 0.1, 0.0])
    np.testing.assert_allclose([one.most for one in found], [0.6, 0.3, 0.4, 8.0])
    assert [(one.surely_above, one.surely_below) for one in found[1:]] == [
        (pytest.approx(4.9 - 1.96 * 0.01), 5.25),
        (pytest.approx(4.9 - 1.96 * 0.01), 5.25),
        (pytest.approx(1.0 - 1.96 * 0.01), math.inf),
    ]
    assert found[0].verdict(5.3, 5.6) == "fails"
    assert found[0].verdict(5.22, 5.6) == "open: at most 0.320 short"  # within the errors
    assert found[0].verdict(4.0, 4.8) == "fails"
    assert found[0].verdict(4.0, 4.89) == "open: at most 0.310 short"
    assert found[0].verdict(4.8, 5.3) == "holds"
    assert found[0].verdict(5.0, 5.4) == "open: at most 0.100 short"
    others = gap_ranges([*ROWS, setting(4.0, 3.9, n_tokens=800)])
    assert others[:4] == found  # other documents do not compare


def test_the_table_says_what_is_known_of_every_setting():
    cut = setting(math.nan, math.nan, model="long", n_cut=20)
    table = gaps_report(pd.DataFrame([*ROWS, cut]), Labels())
    assert [row[-1] for row in table.rows] == ["fails", "holds", "open: at most 0.100 short", "–"]
    assert table.rows[0][4:10] == ["100", "20/2", "4.000", "5.500", "1.500 ± 0.010", "0.300"]
    assert table.rows[2][3:7] == ["Sequential Monte Carlo", "100 × 4", "20/2", "–"]
    assert "Proposals gave q = 0 to the latents of 1 documents" in table.note
    assert "Every document of long was cut or empty." in table.note
    with pytest.raises(InputError, match="maximum_words; raise it"):
        gaps_report(pd.DataFrame([cut]), Labels())


def test_the_figure_has_a_bar_for_every_setting():
    figure = true_gaps(pd.DataFrame(ROWS), Labels())
    first, second = figure.axes
    bars = [line.get_xdata() for line in first.get_lines() if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(bars, [[0.3, 0.6], [LEAST_SHOWN, 0.3], [0.1, 0.4]])
    assert all(axis.get_xlim()[1] > 0.6 for axis in figure.axes)
    assert [text.get_text() for text in first.get_yticklabels()][2] == "τ = 1, K = 100 × 4 runs"
    assert second.get_title() == "other"
    with pytest.raises(InputError, match="no simulated document was estimated"):
        true_gaps(pd.DataFrame([setting(math.nan, math.nan)]), Labels())


def bound(value: float | None, kind: str, **changed: object) -> dict[str, object]:
    row = {"model": "m", "measure": "perplexity", "value": value, "bound": kind}
    return {**row, "proposal": "q", "beam_size": 3 if kind == "strict" else None} | changed


def test_what_lies_above_the_least_strict_bound_is_found():
    rows = [
        bound(282.5, "strict", beam_size=1, proposal="a"),
        bound(math.inf, "strict", beam_size=10),
        bound(290.0, "strict"),
        bound(100.0, "strict", model="n"),
        bound(304.8, "stochastic"),
        bound(228.3, "stochastic"),
        bound(math.inf, "stochastic"),
        bound(304.8, "debiased"),
        bound(None, "stochastic"),
    ]
    least = least_strict(rows)
    assert least["m", "perplexity"].value == 282.5
    assert least["m", "perplexity"].words == "the beam of 1 of a"
    above = [is_above_strict(row, least) is not None for row in rows]
    assert above == [False] * 4 + [True, False, True, False, False]
    assert is_above_strict(bound(1.0, "stochastic", measure="other"), least) is None


def estimates(path: Path, log_weights: np.ndarray) -> pa.Table:
    pyarrow.csv.write_csv(pa.table(weight_columns(log_weights)), path)
    options = ReductionOptions(subsets=0, bootstrap=0)
    return estimates_table(reduce_weights(WeightReader([path]), options=options))


@pytest.mark.parametrize(("sigma", "label"), [(0.5, "debiased"), (3.0, "debiased?")])
def test_the_jackknife_is_marked_where_it_may_err(tmp_path, sigma, label):
    rows = estimates(tmp_path / "w.csv", lognormal(sigma)).to_pylist()
    (row,) = (one for one in rows if one["method"] == "jackknife" and one["value"] is not None)
    assert row["bound"] == label
    assert ("fewer than 10 effective samples" in (row["note"] or "")) == (label != "debiased")


def test_the_share_of_tokens_with_few_effective_samples_is_said(tmp_path):
    """Oracle: 10 of 40 documents of equal length have one weight above all others."""
    log_w = lognormal(0.5)
    log_w[:10, 0] += 50.0
    table = estimates(tmp_path / "w.csv", log_w)
    for row in table.to_pylist():
        if row["ess_median"] is not None and row["aggregation"] == "instance":
            assert row["ess_low_share"] == 0.25
            assert row["ess_median"] > 50
    assert "25% of the tokens in instances with fewer than 5" in report(table)
    bracket = next(row for row in table.to_pylist() if row["basis"])
    assert bracket["bound"] == "two-sided?"
    assert "25% of the tokens, above 10%" in bracket["note"]


def test_the_figure_of_bounds_has_the_brackets_that_need_no_choice(tmp_path):
    frame = estimates(tmp_path / "w.csv", lognormal(1.0)).to_pandas()
    frame = frame.assign(model="m", proposal="m-q")
    (axis,) = bounds(frame, None, Labels()).axes
    lines = [text.get_text() for text in axis.get_yticklabels()]
    assert "Bracket: Importance sampling" in lines
    row = frame[frame["basis"].notna() & frame["low"].notna()].iloc[0]
    drawn = [line.get_xdata().tolist() for line in axis.get_lines() if len(line.get_xdata()) == 2]
    assert [row["low"], row["high"]] in drawn
    several = pd.concat([frame.assign(temperature=1.0), frame.assign(temperature=2.0)])
    (axis,) = bounds(several, None, Labels()).axes
    assert "Bracket: importance sampling" not in [t.get_text() for t in axis.get_yticklabels()]


def test_a_bracket_that_simulated_documents_refute_claims_nothing():
    """Oracle: m-one's bracket ends at 5.3; m-two shows the truth to be at most 5.25, by errors."""
    row = {"model": "m", "bound": "two-sided", "note": "rests on samples", "temperature": 1.0}
    row |= {"basis": "importance_sampling", "n_samples": 100}
    refuted = row | {"proposal": "m-one"}
    rows = [
        refuted,
        refuted | {"n_samples": 101},
        refuted | {"n_samples": 50},
        refuted | {"temperature": 2.0},
        refuted | {"basis": "smc"},
        refuted | {"bound": "stochastic", "basis": None},
        row | {"proposal": "m-two"},
    ]
    frame, gaps = pd.DataFrame(rows), pd.DataFrame(ROWS)
    found = withdraw_claims(frame, gaps)
    withdrawn = [place in (0, 2) for place in range(len(rows))]
    assert [bound == "two-sided?" for bound in found["bound"]] == withdrawn
    assert [note != "rests on samples" for note in found["note"]] == withdrawn
    assert "5.300 to 5.600 nats a token and the truth is at most 5.250" in found["note"][0]
    assert found["note"][0].endswith("; rests on samples")
    assert frame["bound"].tolist() == [one["bound"] for one in rows]
    pd.testing.assert_frame_equal(withdraw_claims(frame, None), frame)
    pd.testing.assert_frame_equal(withdraw_claims(found, gaps), found)  # said once
    mixture = {"basis": "mixture", "temperature": math.nan}
    mixtures = pd.DataFrame([refuted | mixture | {"n_samples": size} for size in (100, 200, 201)])
    both = pd.DataFrame([ROWS[0], ROWS[0] | {"temperature": 2.0}, *ROWS[1:]])
    for held, withdrawn in ((gaps, [True, False, False]), (both, [True, True, False])):
        bounds_found = withdraw_claims(mixtures, held)["bound"]
        assert [one == "two-sided?" for one in bounds_found] == withdrawn
