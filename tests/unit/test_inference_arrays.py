"""`beyond_perplexity.inference` on arrays of one's own, without the rest of the package.

Oracles: SciPy's tests; what two equal distributions give; the examples of the docstrings.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from beyond_perplexity import inference

MODULES = [part.name for part in pkgutil.iter_modules(inference.__path__)]
# What the arithmetic may import of the package.
BASE = ("inference", "random_streams", "storage.provenance", "verdicts")


def test_it_imports_numpy_alone_and_shows_examples():
    code = "import sys, beyond_perplexity.inference; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {"pandas", "torch", "pyarrow", "arviz_stats", "scipy"}
    assert not heavy & set(done.stdout.split())
    public = [found for name, found in vars(inference).items() if not name.startswith("_")]
    for found in filter(callable, public):
        assert isinstance(found, type) or ">>>" in str(found.__doc__), found


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name: str) -> None:
    """Examples of the docstrings; and no module looks up to one that is not beneath it."""
    module = importlib.import_module(f"beyond_perplexity.inference.{name}")
    assert not doctest.testmod(module).failed
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("beyond_perplexity."):
            assert str(node.module).partition(".")[2].startswith(BASE), node.module


def test_the_distance_is_that_of_scipy_and_a_signed_one_has_two_sides():
    rng = np.random.default_rng(0)
    x, y = rng.integers(9, size=40), rng.integers(3, 12, size=31)
    found = inference.permutation_test(x, y, permutations=19)
    assert found.statistic == pytest.approx(ks_2samp(x, y).statistic)
    assert inference.ks_of_samples(x, y) == pytest.approx(found.statistic)
    assert found.scheme == "documents"
    x, y = np.arange(30), np.arange(30) - 12
    one, two = (
        inference.permutation_test(x, y, statistic=inference.mean_difference, two_sided=both)
        for both in (False, True)
    )
    assert (one.p_value, two.p_value) == (1, 1 / 2000)
    assert two.statistic == -12


def grouped(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw n groups of five documents that are nearly alike."""
    codes = np.repeat(rng.permutation(n) + 7, 5)
    return rng.normal(size=n).repeat(5) + 0.1 * rng.normal(size=5 * n), codes


@pytest.mark.parametrize("scheme", ["groups", "swaps", "draws"])
def test_groups_of_one_distribution_are_seldom_distinguished(scheme: str) -> None:
    rng = np.random.default_rng(1)
    rejected = {"given": 0, "ignored": 0}
    for seed in range(60):
        (x, first), (y, second) = grouped(rng, 40), grouped(rng, 40)
        if scheme == "swaps":
            y, second = np.sqrt(1.01) * rng.normal(size=200), None
        if scheme == "draws":
            x, first = np.sqrt(1.01) * rng.normal(size=200), None
        for name, groups in (("given", (first, second)), ("ignored", (None, None))):
            found = inference.permutation_test(x, y, groups=groups, permutations=99, seed=seed)
            rejected[name] += found.p_value <= 0.05
            assert found.scheme == (scheme if name == "given" else "documents")
    assert rejected["given"] <= 9  # of 60 with probability .05 each; more in 1 of 1,000 cases
    assert rejected["ignored"] > 15


def test_halves_of_a_text_are_as_far_apart_as_samples_of_its_distribution() -> None:
    rng = np.random.default_rng(0)
    human, alike, other = rng.normal(size=600), rng.normal(size=200), rng.normal(1, size=200)
    measure = inference.ks_of_samples
    first, second = (inference.half_baseline(human, x, measure) for x in (alike, other))
    assert first is not None
    assert second is not None
    assert first.mean == second.mean
    assert abs(first.excess or 1) < first.high - first.low
    assert (second.excess or 0) > 0.2
    assert inference.half_baseline(human[:3], other, measure) is None
    few = np.arange(600) % 30  # groups: halves of 15
    assert inference.half_baseline(human, other, measure, groups=(few, None)) is None


def test_the_held_out_distance_bounds_the_true_one_from_below() -> None:
    rng = np.random.default_rng(0)
    human, alike = (rng.multinomial(40, [0.4, 0.3, 0.2, 0.1], size=80) for _ in range(2))
    other = rng.multinomial(40, [0.1, 0.2, 0.3, 0.4], size=80)  # 0.4 away
    held = inference.held_out_total_variation(human, other)
    assert 0.35 < held.lower_limit(0.95) < 0.4
    assert held.p_value < 1e-6
    assert inference.held_out_total_variation(human, alike).p_value > 0.01


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda x: inference.permutation_test(x, x[:0]), "give a number for each document"),
        (lambda x: inference.permutation_test(x, x, groups=(x[:3], None)), "3 groups of 12"),
        (lambda x: inference.permutation_test(x, x, groups=(x // 2, x // 6)), "not exchangeable"),
        (lambda x: inference.held_out_total_variation(x, x), "documents by the same types"),
        (
            lambda x: inference.half_baseline(x, x, max, groups=(None, x[:2])),
            "2 groups of 12 documents",
        ),
    ],
)
def test_what_does_not_fit_is_said(call, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        call(np.arange(12))
