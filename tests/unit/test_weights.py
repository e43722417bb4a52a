"""Importance weights by blocks and shards, on a model that can be enumerated.

Oracles: the sums over all latents; properties (a weight does not depend on how the work was cut).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from beyond_perplexity.importance.drawing import weights
from beyond_perplexity.importance.drawing.weights import (
    Pair,
    choose_instances,
    hash_latents,
    search,
    weigh,
)
from beyond_perplexity.instances.store import Instance, InstanceBatch, InstanceStore
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.schemas import temperature_column
from tests.unit.toy_latent import ToyModel, ToyProposal

GRID = [0.5, 1.0, 2.0]


@pytest.fixture
def pair() -> Pair:
    torch.manual_seed(3)
    model, proposal = ToyModel(7, {}).eval(), ToyProposal(7, {}).eval()
    return Pair(model.requires_grad_(False), proposal.requires_grad_(False), 5, "toy/toy")


def instances(*lengths: int) -> list[Instance]:
    generator = np.random.default_rng(0)
    tokens = [generator.integers(2, 7, length) for length in lengths]
    return [
        Instance(place + 10, {"tokens": row, "bits": row % 2}) for place, row in enumerate(tokens)
    ]


def gather(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_a_weight_does_not_depend_on_blocks_or_shards(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Oracle: the same samples drawn in one block.
    data = instances(5, 3, 8)
    whole = gather(list(weigh(pair, data, range(70), 0.5, GRID)))
    monkeypatch.setattr(weights, "BLOCK", 9)
    blocks = gather(list(weigh(pair, data, range(70), 0.5, GRID)))
    shards = [
        gather(list(weigh(pair, [instance], part, 0.5, GRID)))
        for instance in data
        for part in (range(31), range(31, 70))
    ]
    for name, values in whole.items():
        assert np.array_equal(values, blocks[name]), name
        assert np.array_equal(values, gather(shards)[name]), name


def test_the_mean_weight_is_the_likelihood(pair: Pair) -> None:
    # Oracle: p(x) by enumeration; 4 standard errors.
    (instance,) = instances(4)
    batch = InstanceBatch.of([instance])
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)  # (16, 4)
    owner = torch.zeros(16, dtype=torch.int64)
    exact = float(pair.model.log_joint(batch, owner, every).logsumexp(0).exp())
    for temperature in GRID:
        columns = gather(list(weigh(pair, [instance], range(4000), temperature, GRID)))
        ratio = np.exp(columns["log_p"] - columns["log_q"])
        assert abs(ratio.mean() - exact) < 4 * ratio.std() / math.sqrt(4000)
        assert np.array_equal(columns["log_q"], columns[temperature_column(temperature)])
        assert set(columns["n_tokens"]) == {5}


def test_beams_at_full_support_give_the_likelihood(pair: Pair) -> None:
    # Oracle: p(x) by enumeration; a beam of fewer latents gives less.
    (instance,) = instances(4)
    batch = InstanceBatch.of([instance])
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)  # (16, 4)
    exact = pair.model.log_joint(batch, torch.zeros(16, dtype=torch.int64), every).logsumexp(0)
    found = list(search(pair, [instance], [1, 5, 100]))
    sums = [np.logaddexp.reduce(columns["log_p"]) for columns in found]
    assert [len(columns["rank"]) for columns in found] == [1, 5, 16]
    assert sums[0] < sums[1] < sums[2]
    assert sums[2] == pytest.approx(float(exact), abs=1e-12)


def test_equal_latents_have_equal_hashes_whatever_the_filling() -> None:
    # Oracle: equality of the rows themselves.
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 3, (500, 6), generator=generator)
    wide = torch.cat([rows, torch.full((500, 3), FILLING)], 1)
    assert np.array_equal(hash_latents(rows), hash_latents(wide))
    distinct = len(torch.unique(rows, dim=0))
    assert len(np.unique(hash_latents(rows))) == distinct


def test_fewer_instances_are_a_subset_of_more_in_the_order_of_the_corpus() -> None:
    data = instances(*[2] * 50)
    some, more = choose_instances(data, 10, 1), choose_instances(iter(data), 20, 1)
    assert [i.instance_id for i in some] == sorted(i.instance_id for i in some)
    assert {i.instance_id for i in some} < {i.instance_id for i in more}
    assert choose_instances(data, None, 1) == data
    assert choose_instances(data, 10, 1) != choose_instances(data, 10, 2)


def test_a_store_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Oracle: the instances themselves; an empty array among them.
    folder = tmp_path_factory.mktemp("store")
    data = instances(3, 0, 5)
    store = InstanceStore.write(folder, "test", iter(data))
    again = InstanceStore.write(folder, "test", iter([]))
    for held in (store, again):
        assert [i.instance_id for i in held] == [10, 11, 12]
        for found, expected in zip(held, data, strict=True):
            assert {n: a.tolist() for n, a in found.arrays.items()} == {
                n: a.tolist() for n, a in expected.arrays.items()
            }
        assert held.lengths.tolist() == [3, 0, 5]
