"""Random subsets and pairings of samples.

Needs nothing. Oracles: every subset enumerated, SciPy's logsumexp.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import logsumexp

from beyond_perplexity.importance import importance_sampling as subsets
from beyond_perplexity.importance.importance_sampling import (
    ImportanceSampling,
    n_orders,
    prefix_log_means,
    random_orders,
    rows_at_once,
    subset_sizes,
)
from beyond_perplexity.importance.reduction import reduce_weights
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.inference.log_space import log_mean_exp


def reduced(path):
    found = reduce_weights(WeightReader([path])).estimators
    return next(one for _, one in found if type(one) is ImportanceSampling)


@pytest.mark.parametrize(
    ("wanted", "n_samples", "expected"),
    [(200, 1, 200), (200, 160_000, 200), (200, 1_000_000, 33), (200, 10**8, 8), (5, 10**8, 5)],
)
def test_orders_of_very_many_samples_are_fewer(wanted, n_samples, expected):
    """A million samples of one instance took 4.2 GB; no more than 2^25 weights are held now."""
    assert n_orders(wanted, n_samples) == expected
    assert rows_at_once(n_samples) * n_samples <= 2**22 or rows_at_once(n_samples) == 1


@pytest.mark.parametrize("values", [1, 700, 10**9])
def test_orders_held_at_once_change_no_number(tmp_path, monkeypatch, values):
    """Oracle: all at once."""
    reader, random = tmp_path / "w.parquet", np.random.default_rng(1)
    columns = {"instance_id": np.repeat([1, 2], 60), "sample_id": np.tile(np.arange(60), 2)}
    columns |= {"n_tokens": np.full(120, 4), "log_q": np.zeros(120)}
    pq.write_table(pa.table({**columns, "log_p": random.normal(size=120) - 9}), reader)
    monkeypatch.setattr(subsets, "_VALUES_AT_ONCE", 10**9)
    whole = reduced(reader)
    monkeypatch.setattr(subsets, "_VALUES_AT_ONCE", values)
    again = reduced(reader)
    assert np.array_equal(whole.ordered, again.ordered)
    assert np.array_equal(whole.prefixes, again.prefixes)


@pytest.mark.parametrize(
    ("n_samples", "sizes"),
    [
        (1, [1]),
        (2, [1, 2]),
        (7, [1, 2, 5, 7]),
        (10, [1, 2, 5, 10]),
        (100, [1, 2, 5, 10, 20, 50, 100]),
        (1100, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1100]),
    ],
)
def test_sizes_of_the_curves(n_samples, sizes):
    assert subset_sizes(n_samples).tolist() == sizes


def test_orders_are_permutations_and_all_alike_in_probability():
    values = np.array([3.0, -np.inf, 1.0])
    orders = random_orders(values, 6000, np.random.default_rng(0))
    counts = Counter(map(tuple, orders.tolist()))
    assert len(counts) == 6
    assert all(abs(count - 1000) < 5 * np.sqrt(1000) for count in counts.values())


def test_prefixes_are_those_of_scipy():
    weights = np.random.default_rng(1).normal(0, 400, (4, 30))
    weights[0, :5] = -np.inf
    sizes = subset_sizes(30)
    found = prefix_log_means(weights, sizes)
    for column, size in enumerate(sizes):
        wanted = logsumexp(weights[:, :size], 1) - np.log(size)
        np.testing.assert_allclose(found[:, column], wanted, rtol=1e-13)


def test_the_mean_over_random_subsets_is_that_over_all_subsets():
    weights = np.random.default_rng(2).normal(0, 2, 6)
    orders = random_orders(weights, 20_000, np.random.default_rng(3))
    found = prefix_log_means(orders, np.array([2, 4]))
    for column, size in enumerate((2, 4)):
        every = [float(log_mean_exp(weights[list(c)])) for c in combinations(range(6), size)]
        error = found[:, column].std() / np.sqrt(len(found))
        assert abs(found[:, column].mean() - np.mean(every)) < 4 * error
