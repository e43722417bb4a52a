"""Importance weights by blocks and shards, on a model that can be enumerated.

Oracles: the sums over all latents; properties (a weight does not depend on how the work was cut).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch, InstanceStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance import model_pair as pair_module
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.model_pair import Pair, hash_latents, take_instances
from beyond_perplexity.importance.sample_draws import score_temperatures, search, weigh
from beyond_perplexity.importance.ways_to_draw import BeamOptions, LogQOptions, WeightOptions
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.schemas.columns import with_columns
from beyond_perplexity.schemas.draws import (
    LOG_Q,
    LOG_WEIGHTS,
    temperature_column,
    temperature_columns,
)
from beyond_perplexity.storage.shards import ShardWriter
from tests.unit import test_kglm
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
    whole = gather(list(weigh(pair, data, WeightOptions(0.5), range(70))))
    monkeypatch.setattr(pair_module, "SAMPLES_AT_ONCE", 9)
    blocks = gather(list(weigh(pair, data, WeightOptions(0.5), range(70))))
    shards = [
        gather(list(weigh(pair, [instance], WeightOptions(0.5), part)))
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
        columns = gather(list(weigh(pair, [instance], WeightOptions(temperature), range(4000))))
        ratio = np.exp(columns["log_p"] - columns["log_q"])
        assert abs(ratio.mean() - exact) < 4 * ratio.std() / math.sqrt(4000)
        assert set(columns["n_tokens"]) == {5}


def test_beams_at_full_support_give_the_likelihood(pair: Pair) -> None:
    # Oracle: p(x) by enumeration; a beam of fewer latents gives less.
    (instance,) = instances(4)
    batch = InstanceBatch.of([instance])
    every = torch.cartesian_prod(*[torch.arange(2)] * 4)  # (16, 4)
    exact = pair.model.log_joint(batch, torch.zeros(16, dtype=torch.int64), every).logsumexp(0)
    found = list(search(pair, [instance], BeamOptions((1, 5, 100))))
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


def test_fewer_instances_are_the_first_of_more_and_blocks_do_not_overlap() -> None:
    # Oracle: the whole order, taken at once.
    data = instances(*[2] * 50)
    every = take_instances(iter(data), range(50), 1)
    assert sorted(one.instance_id for one in every) == [one.instance_id for one in data]
    assert every != data
    assert take_instances(data[::-1], range(10), 1) == every[:10]
    blocks = [take_instances(data, range(start, start + 20), 1) for start in (0, 20, 40, 60)]
    assert [one for block in blocks for one in block] == every
    assert [len(block) for block in blocks] == [20, 20, 10, 0]
    assert take_instances(data, range(50), 2) != every


def kglm_pair() -> tuple[Pair, list[Instance]]:
    model, proposal = test_kglm.make(KGLM), test_kglm.make(KGLMTagger, seed=3)
    tokens = np.array([4, 3, 2, 3, 4, 4, 3, 2, 2])
    arrays = {"tokens": tokens, "latents": np.zeros(len(tokens), int)}
    arrays["spellings"] = np.full(len(tokens), -1)  # no word of an alias
    return Pair(model, proposal, 5, "kglm/tagger"), [Instance(3, arrays), Instance(8, arrays)]


@pytest.mark.parametrize("name", ["toy", "kglm"])
def test_log_q_at_all_temperatures_is_of_the_samples_that_were_weighed(
    pair: Pair, name: str
) -> None:
    # Oracles: the weights themselves, bit for bit, whose sums KGLM rounds; one temperature alone.
    pair, data = (pair, instances(5, 3)) if name == "toy" else kglm_pair()
    found = gather(list(score_temperatures(pair, data, LogQOptions((0.5, 1.0, 2.0)), range(30))))
    assert len(found["sample_id"]) == 2 * 3 * 30
    for temperature in GRID:
        weighed = gather(list(weigh(pair, data, WeightOptions(temperature), range(30))))
        own = {key: v[found["temperature"] == temperature] for key, v in found.items()}
        for key in ("instance_id", "sample_id", "latent_hash"):
            assert np.array_equal(own[key], weighed[key]), key
        assert np.array_equal(own[temperature_column(temperature)], weighed["log_q"])
    more = LogQOptions((0.5, 0.9, 1.0, 1.1, 2.0, 5.0))
    again = gather(list(score_temperatures(pair, data, more, range(30))))
    kept = np.isin(again["temperature"], GRID)
    for column in map(temperature_column, GRID):
        assert np.array_equal(again[column][kept], found[column])


def write_both(pair: Pair, folder: Path) -> tuple[list[Path], list[Path]]:
    """Write weights at all temperatures and their log q, a shard an instance."""
    weights, log_q = [], []
    for place, instance in enumerate(instances(5, 3, 4)):
        for temperature in GRID:
            weights.append(folder / f"{place}-{temperature}.parquet")
            record = WeightLabels("toy", "toy", temperature, "words").in_record({})
            with ShardWriter(weights[-1], LOG_WEIGHTS, record) as writer:
                for rows in weigh(pair, [instance], WeightOptions(temperature), range(9)):
                    writer.write(dict(rows))
        log_q.append(folder / f"{place}.parquet")
        columns = temperature_columns(GRID)
        record = WeightLabels("toy", "toy").in_record({})
        with ShardWriter(log_q[-1], with_columns(LOG_Q, columns), record) as writer:
            for rows in score_temperatures(pair, [instance], LogQOptions(tuple(GRID)), range(9)):
                writer.write(dict(rows))
    return weights, log_q


def test_a_reader_joins_weights_and_their_log_q(pair: Pair, tmp_path: Path) -> None:
    # Oracle: log q of the drawn latents by the proposal, from one call with all temperatures.
    weights, log_q = write_both(pair, tmp_path)
    for block_rows in (1, 10_000):
        reader = WeightReader(weights, log_q=log_q[::-1], block_rows=block_rows)
        assert reader.has_grid
        for held, instance in zip(reader, instances(5, 3, 4), strict=True):
            options = LogQOptions(tuple(GRID))
            for rows, samples in zip(
                score_temperatures(pair, [instance], options, range(9)), held.samples, strict=True
            ):
                expected = np.stack([rows[temperature_column(value)] for value in GRID], 1)
                assert np.array_equal(samples.log_q_grid, expected)
    assert not WeightReader(weights).has_grid


def test_log_q_of_other_samples_is_refused(pair: Pair, tmp_path: Path) -> None:
    weights, log_q = write_both(pair, tmp_path)
    with pytest.raises(
        InputError, match=r"instance 12, sample 0 at temperature 0\.5 is not in both"
    ):
        list(WeightReader(weights, log_q=log_q[:2]))
    with pytest.raises(
        InputError, match=r"instance 10, sample 0 at temperature 0\.5 is not in both"
    ):
        list(WeightReader(weights, log_q=[*log_q, log_q[0]]))
    (tmp_path / "other").mkdir()
    other = Pair(pair.model, pair.proposal, 6, pair.purpose)
    with pytest.raises(InputError, match="is another latent than was weighed"):
        list(WeightReader(weights, log_q=write_both(other, tmp_path / "other")[1]))
    with pytest.raises(InputError, match=r"proposal is 'toy', but the log weights are of 'mine'"):
        WeightReader(weights, WeightLabels(proposal="mine"), log_q=log_q)
    with pytest.raises(InputError, match=r"column 'log_q_tau_3\.0' is missing"):
        WeightReader(weights[:1], WeightLabels(temperature=3.0), log_q=log_q)


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
