"""The list of estimators: every row says all that is asked, and a row more is an estimator more.

Needs nothing. Oracles: the syntax trees of the package, the samples that were written.
"""

from __future__ import annotations

import ast
from pathlib import Path
from pkgutil import resolve_name

import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.bounds import bounds
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance import estimator as contract
from beyond_perplexity.importance.draw_files import Beams
from beyond_perplexity.importance.estimate_wording import report
from beyond_perplexity.importance.estimator_registry import (
    DRAW_READERS,
    ESTIMATORS,
    estimator_code,
    find_estimator,
    load_estimators,
)
from beyond_perplexity.importance.reduction import estimates_table, reduce_weights
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.report.importance import trust_table
from beyond_perplexity.report.overview import render_overview
from beyond_perplexity.storage.provenance import ROOT
from tests.unit.latent_tables import GRID, model, sample_columns, write_beams, write_weights

P, K = model(n_instances=4, n_latents=6), 30
OPTIONS = ReductionOptions(subsets=5, bootstrap=5, replicate_samples=10)
FOLDER = ROOT / "beyond_perplexity/importance"


@pytest.fixture
def reader(tmp_path):
    columns = {tau: sample_columns(P, tau, K) for tau in GRID}
    return WeightReader([p for tau in GRID for p in write_weights(tmp_path, columns[tau], tau)])


@pytest.mark.parametrize("method", ESTIMATORS)
def test_a_row_says_all_that_is_asked(method):
    estimator = find_estimator(method)
    module = Path(ROOT, *ESTIMATORS[method].partition(":")[0].split(".")).with_suffix(".py")
    assert module.parent == FOLDER
    assert ast.get_docstring(ast.parse(module.read_text()))
    assert estimator.__doc__ != contract.Estimator.__doc__
    assert estimator.title
    assert estimator.words
    assert estimator.bound in contract.BOUNDS
    others = {contract.SAMPLES, contract.ALL_TEMPERATURES, contract.KNOWN_LATENTS}
    assert set(estimator.needs) <= others | DRAW_READERS.keys()
    assert not estimator.__abstractmethods__


def test_every_estimator_has_its_row_and_no_title_stands_twice():
    found = {
        f"{path.stem}:{node.name}"
        for path in FOLDER.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and "Estimator" in map(ast.unparse, node.bases)
    }
    assert {reference.split(".")[-1] for reference in ESTIMATORS.values()} == found
    titles = [estimator.title for estimator in load_estimators().values()]
    assert len(set(titles)) == len(titles)
    with pytest.raises(InputError, match="the estimators are importance_sampling, "):
        find_estimator("none")


def test_the_code_of_a_run_is_that_whose_draws_it_has():
    def named(*kinds: str) -> set[str]:
        return {reference.rpartition(":")[2] for reference in estimator_code(kinds)}

    plain = {"ImportanceSampling", "Jackknife", "Mixture", "Bracket"}
    assert named() == plain
    assert named("beams") == plain | {"Beams", "Beam", "BeamPlusTail"}
    assert named("smc") == plain | {"SMCRuns", "SequentialMonteCarlo"}
    assert set(estimator_code()) == set(estimator_code(["beams", "smc", "bidirectional"]))
    assert all(resolve_name(reference) for reference in estimator_code())


def test_an_estimator_is_made_for_each_setting_of_what_it_needs(reader, tmp_path):
    beams = Beams([write_beams(tmp_path / "beams.parquet", P, (1, 3))], reader)
    inputs = contract.Inputs(reader, {"beams": beams}, OPTIONS, seed=0)
    found = {method: len(kind.of(inputs)) for method, kind in load_estimators().items()}
    taus = len(GRID)
    assert found == {
        "importance_sampling": taus,
        "jackknife": taus,
        "mixture": 1,
        "beam_plus_tail": 2 * taus,
        "smc": 0,
        "beam": 2,
        "bracket": taus + 1,
    }


def test_a_row_more_is_seen_everywhere(reader, monkeypatch):
    """Oracle: NumPy on the same samples; texts of the toy's file."""
    monkeypatch.setitem(ESTIMATORS, "largest", "tests.unit.toy_estimator:Largest")
    table = estimates_table(reduce_weights(reader, options=OPTIONS))
    rows = [row for row in table.to_pylist() if row["method"] == "largest"]
    assert [(row["temperature"], row["measure"]) for row in rows[::2]] == [
        (tau, "perplexity") for tau in GRID
    ]
    for row in rows[::2]:
        drawn = sample_columns(P, row["temperature"], K)
        wanted = (drawn["log_p"] - drawn["log_q"]).reshape(len(P), K).max(1).sum() - 5.0 * len(P)
        assert row["log_likelihood"] == pytest.approx(wanted)
        assert (row["bound"], row["n_samples"]) == ("stochastic", K)

    words = report(table)
    assert f"by the largest weight alone; instance level; temperature {GRID[0]:g}" in words
    assert f"K = {K} draws" in words

    frame = table.to_pandas()
    labels = Labels(families={"tiny": "rnng"}, data={"tiny": "words"})
    shown = trust_table(frame, None, labels)
    assert ("Largest weight", f"{K} !") in {(row[3], row[4]) for row in shown.rows}
    assert "of the largest weight all samples; bounds" in shown.note
    assert "; of the largest weight 1; tokens below 5" in shown.note

    lines = [label.get_text() for label in bounds(frame, None, labels).axes[0].get_yticklabels()]
    assert "Largest weight" in lines

    page = render_overview({}, {}, [], (), frame, [])
    assert "     - largest\n" in page
    assert "and the largest weight." in " ".join(page.split())
    lowest = min(row["value"] for row in rows[::2])
    assert f"     - {lowest:,.1f}" in page


def compared_texts(tree: ast.AST) -> set[object]:
    """Return the texts that something is compared with, also in a list, a pattern or ``isin``."""
    operands: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands += [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            operands.append(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "isin":
            operands += node.args
    operands += [part for one in operands for part in getattr(one, "elts", [])]
    return {one.value for one in operands if isinstance(one, ast.Constant)}


def test_no_code_asks_for_an_estimator_by_its_name():
    """Oracle: the syntax trees of all that sees estimates; decodings have a beam of their own."""
    asking = "a == 'smc' or b in ('beam', c) or d.isin(['mixture']) or e['jackknife'] is None"
    assert compared_texts(ast.parse(asking)) == {"smc", "beam", "mixture", None}
    paths = [ROOT / "beyond_perplexity/commands/estimate.py", ROOT / "scripts/reduce_weights.py"]
    for folder in ("importance", "report", "figures", "planning"):
        paths += (ROOT / "beyond_perplexity" / folder).rglob("*.py")
    seen = 0
    for path in paths:
        asked = compared_texts(ast.parse(path.read_text())) & ESTIMATORS.keys()
        assert not asked or (path.parent == FOLDER and asked <= {path.stem}), path
        seen += 1
    assert seen > 50
