"""Sequential Monte Carlo estimates of p(x), with EntityNLM and KGLM; paths, promises, a given z.

Oracles: the sum over all z of a short document and their joint probabilities, the scores of whole
rows of z, plain importance weights where nothing is resampled, the distribution of systematic
resampling, on a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import Instance
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import SMCRuns
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.importance.particle_filters import FilterSetting
from beyond_perplexity.importance.particle_runs import (
    conditional_smc,
    numbers_needed,
    run_smc,
    smc_log_prob,
    smc_paths,
)
from beyond_perplexity.importance.reduction import estimates_table, instances_table, reduce_weights
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.importance.weight_labels import WeightLabels
from beyond_perplexity.invariant_tensors import conditional_systematic, effective_size, systematic
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.draws import LOG_WEIGHTS, SMC
from beyond_perplexity.storage.shards import ShardWriter
from tests.unit import kglm_reference, test_kglm
from tests.unit.entitynlm_reference import all_codes
from tests.unit.test_entitynlm import CONTEXTS, TOKENS, make_batch, make_model, make_proposal
from tests.unit.toy_latent import ToyModel, ToyProposal


def numbers(rows, particles, draws, seed=0):
    return torch.from_numpy(stream(seed, "test").random((rows, particles + 1, draws)))


class Family(NamedTuple):
    """How the tests make a tiny model with its proposal, batches, and all z of a document.

    `rounding` bounds how far the scores of words of a float32 model are from those of whole rows.
    KGLM's differ in the order of sums of float64 alone.
    """

    pair: Callable
    batch: Callable
    codes: Callable
    short: tuple[int, ...]
    long: tuple[int, ...]
    rounding: float


def entitynlm_pair(context="peeking", double=True):
    return make_model(double=double), make_proposal(context, double=double)


def kglm_pair(context="peeking", double=True):
    model = test_kglm.make(KGLM)
    proposal = test_kglm.make(KGLMTagger, context=context, seed=3)
    return (model.double(), proposal.double()) if double else (model, proposal)


FAMILIES = {
    "entitynlm": Family(
        entitynlm_pair,
        make_batch,
        lambda _, length: all_codes(length, 3, 2),
        TOKENS,
        (3, 8, 2, 7, 7, 4, 5, 6, 2),
        1e-4,
    ),
    "kglm": Family(
        kglm_pair,
        test_kglm.batch_of,
        kglm_reference.enumerate_codes,
        (4, 3, 2),
        (3, 4, 2, 3, 4, 4, 3, 2, 2),
        1e-11,
    ),
}
each_case = pytest.mark.parametrize(
    ("family", "context"),
    [
        pytest.param(family, context, id=f"{name}-{context}")
        for name, family in FAMILIES.items()
        for context in CONTEXTS
    ],
)


@torch.no_grad()
def joint(family, model):
    """Return all z of the short document and log p(x, z) of each."""
    codes = torch.tensor(family.codes(model, len(family.short)))
    owner = torch.zeros(len(codes), dtype=torch.int64)
    return codes, model.log_joint(family.batch(family.short), owner, codes)


def enumerated(family, model):
    """Return log p of the short document, a sum over all its z."""
    return float(joint(family, model)[1].logsumexp(0))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 5.0])
@each_case
def test_words_add_up_to_whole_rows(family, context, temperature):
    """Same numbers, same z; what log p and log q of the words sum to, up to their rounding."""
    model, proposal = family.pair(context, double=False)
    batch, owner = family.batch(family.long), torch.zeros(64, dtype=torch.int64)
    uniforms = numbers(1, 63, proposal.draws(batch), seed=1)[0]  # (64, U)
    with torch.no_grad():
        expected = proposal.sample(batch, owner, uniforms, temperature)
        log_q = proposal.log_prob(batch, owner, expected, [temperature])[:, 0]
        log_p = model.log_joint(batch, owner, expected)
        followed, state = proposal.start(batch, owner), model.start(batch, owner)
        for time, drawn_by in enumerate(uniforms.split(proposal.word_draws, 1)):
            drawn = proposal.propose(followed, time, drawn_by, temperature)
            codes, word_q, followed = drawn
            word_p, state = model.extend(state, time, codes)
            assert torch.equal(codes, expected[:, time])
            log_q, log_p = log_q - word_q, log_p - word_p
        log_p = log_p - model.finish(state, len(family.long))
    torch.testing.assert_close(log_q, torch.zeros_like(log_q), rtol=0, atol=family.rounding)
    torch.testing.assert_close(log_p, torch.zeros_like(log_p), rtol=0, atol=family.rounding)


@each_case
def test_without_resampling_it_is_importance_sampling(family, context):
    """Same numbers, same z: the mean of the plain weights, for documents of two lengths."""
    model, proposal = family.pair(context)
    batch = family.batch(family.short, family.long)
    uniforms = numbers(2, 48, proposal.draws(batch))
    estimate = smc_log_prob(FilterSetting(model, proposal, batch, 48, 1.5, threshold=0.0), uniforms)
    owner = torch.arange(2).repeat_interleave(48)
    flat = uniforms[:, :48].flatten(0, 1)
    with torch.no_grad():
        codes = proposal.sample(batch, owner, flat, 1.5)
        log_q = proposal.log_prob(batch, owner, codes, [1.5])[:, 0]
        weights = (model.log_joint(batch, owner, codes) - log_q).view(2, 48)
    expected = weights.logsumexp(1) - math.log(48)
    torch.testing.assert_close(estimate.log_prob, expected, rtol=0, atol=1e-10)
    sizes = weights.exp().sum(1) ** 2 / (2 * weights).exp().sum(1)
    ends = [len(family.short) - 1, len(family.long) - 1]
    torch.testing.assert_close(estimate.effective[[0, 1], ends], sizes)
    assert estimate.effective[0, ends[0] + 1 :].isnan().all()


@pytest.mark.parametrize(
    ("name", "context", "temperature", "particles", "threshold"),
    [
        ("entitynlm", "peeking", 1.2, 3, 0.5),
        ("entitynlm", "peeking", 1.2, 4, 1.0),
        ("entitynlm", "peeking", 1.2, 8, 0.9),
        ("kglm", "peeking", 2.0, 3, 0.5),
        ("kglm", "peeking", 2.0, 4, 1.0),
        ("kglm", "peeking", 2.0, 8, 0.9),
        ("kglm", "causal", 2.0, 4, 1.0),
        ("kglm", "bidirectional", 2.0, 4, 1.0),
    ],
)
def test_estimates_are_unbiased(name, context, temperature, particles, threshold):
    """The mean of 1500 estimates is p(x), as enumerated, within 4 standard errors."""
    family = FAMILIES[name]
    model, proposal = family.pair(context)
    batch = family.batch(*[family.short] * 1500)
    uniforms = numbers(1500, particles, proposal.draws(batch), seed=particles)
    estimate = smc_log_prob(
        FilterSetting(model, proposal, batch, particles, temperature, threshold), uniforms
    )
    ratios = (estimate.log_prob - enumerated(family, model)).exp().numpy()
    assert (estimate.effective[:, :-1] < threshold * particles).any()
    error = ratios.std(ddof=1) / math.sqrt(len(ratios))
    assert error < 0.08
    assert abs(ratios.mean() - 1) < 4 * error


@each_case
def test_an_instance_does_not_depend_on_the_others(family, context):
    model, proposal = family.pair(context, double=False)
    documents = family.short, family.long, family.long[:1]
    uniforms = numbers(3, 16, 27)
    both = smc_log_prob(FilterSetting(model, proposal, family.batch(*documents), 16), uniforms)
    for row, tokens in enumerate(documents):
        own = uniforms[row : row + 1]
        alone = smc_log_prob(FilterSetting(model, proposal, family.batch(tokens), 16), own)
        assert torch.equal(alone.log_prob[0], both.log_prob[row])
        assert torch.equal(alone.effective[0], both.effective[row, : len(tokens)])


def test_resampling_helps_long_documents():
    """By Jensen's inequality the better estimator has the higher mean logarithm."""
    model, proposal = make_model(), make_proposal()
    tokens = tuple(np.random.default_rng(1).integers(2, 9, 40).tolist())
    batch = make_batch(*[tokens] * 12)
    uniforms = numbers(12, 32, proposal.draws(batch))
    plain, better = (
        smc_log_prob(FilterSetting(model, proposal, batch, 32, 1.0, threshold), uniforms).log_prob
        for threshold in (0.0, 0.5)
    )
    assert better.mean() > plain.mean()
    assert better.std() < plain.std()


def test_systematic_resampling():
    weights = torch.tensor([0.1, 0.0, 0.45, 0.2, 0.25]).double()
    starts = torch.linspace(0, 1, 1001).double()[:-1]
    chosen = systematic(weights.log().expand(1000, 5), starts)
    counts = (chosen[:, :, None] == torch.arange(5)).sum(1).double()
    assert ((counts - 5 * weights).abs() < 1 + 1e-9).all()
    torch.testing.assert_close(counts.mean(0), 5 * weights, rtol=0, atol=2e-3)
    edge = torch.tensor([[0.0, -math.inf], [0.0, 0.0]]).double()
    highest = torch.full((2,), 1 - 2.0**-53, dtype=torch.float64)
    assert systematic(edge, highest).tolist() == [[0, 0], [0, 1]]
    assert effective_size(edge).tolist() == pytest.approx([1, 2])
    assert effective_size(torch.full((1, 3), -math.inf).double()).tolist() == [0]


def columns_of(pair, instance, options):
    blocks = list(run_smc(pair, [instance], options, range(options.runs)))
    assert len(blocks) > 1
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


@pytest.mark.parametrize("name", FAMILIES)
def test_an_instances_runs_depend_on_its_id_their_number_and_the_seed_alone(name):
    """Oracle: the sum over all z, within 15%; the same instances in another order, other runs."""
    family = FAMILIES[name]
    pair, length = Pair(*family.pair(), 5, f"{name}/tagger"), len(family.short)
    one = family.batch(family.short)
    arrays = {key: rows[0].numpy() for key, rows in one.arrays.items()}
    data = [Instance(number, arrays) for number in (3, 4)]
    found = [columns_of(pair, one, SMCOptions(300, 20)) for one in data]  # blocks of 3 runs
    for some in (range(2), range(5, 8)):  # whole blocks, and some that are cut otherwise
        again = list(run_smc(pair, data[::-1], SMCOptions(300), some))[::-1]
        for columns, fewer in zip(found, again, strict=True):
            for column, values in columns.items():
                assert np.array_equal(values[some.start : some.stop], fewer[column])
    truth = enumerated(family, pair.model)
    estimates = np.concatenate([columns["log_likelihood"] for columns in found])
    assert np.exp(estimates - truth).mean() == pytest.approx(1.0, abs=0.15)
    assert len(set(estimates)) == 40
    assert found[0]["run"].tolist() == list(range(20))
    assert found[0]["n_tokens"].tolist() == [length + 1] * 20
    assert (found[0]["ess_min"] >= 1).all()


def test_a_model_that_does_not_go_word_by_word_is_refused():
    pair = Pair(ToyModel(7, {}), ToyProposal(7, {}), 5, "toy/toy")
    with pytest.raises(InputError, match="word by word"):
        list(run_smc(pair, [Instance(1, {"tokens": np.array([3])})], SMCOptions(4), range(1)))


# ---- reading and averaging runs ----


def files_of_runs(folder, log_likelihoods, temperature=1.0):
    """Write weights and runs, (N, F), of N instances of 5 tokens in two shards each."""
    count, runs = log_likelihoods.shape
    labels = WeightLabels("p", "q", temperature, "words", None).in_record({})
    weights, paths = folder / "weights.parquet", [folder / "0.parquet", folder / "1.parquet"]
    common = {"n_tokens": np.full(count * 2, 5), "n_unknown": np.zeros(count * 2, int)}
    with ShardWriter(weights, LOG_WEIGHTS, labels) as writer:
        rows = {"instance_id": np.repeat(np.arange(count), 2), "sample_id": [0, 1] * count}
        flat = dict.fromkeys(("log_p", "log_q"), np.full(count * 2, -3.0))
        writer.write({**common, **rows, **flat, "latent_hash": np.arange(count * 2)})
    for path, part in zip(paths, (range(1), range(1, count)), strict=True):
        with ShardWriter(path, SMC, labels) as writer:
            for instance in part:
                whole = dict.fromkeys(("n_tokens", "n_particles"), np.full(runs, 5))
                whole |= {"instance_id": np.full(runs, instance), "run": np.arange(runs)}
                whole |= {"n_unknown": np.zeros(runs, int), "ess_min": 1.5 + np.arange(runs)}
                writer.write({**whole, "log_likelihood": log_likelihoods[instance]})
    return WeightReader([weights]), paths


def test_runs_are_averaged_like_weights(tmp_path):
    """Oracle: the mean of the runs' p̂, by numpy."""
    log_likelihoods = np.random.default_rng(0).normal(-20.0, 0.5, (3, 4))
    reader, paths = files_of_runs(tmp_path, log_likelihoods)
    reduction = reduce_weights(reader, draws={"smc": SMCRuns(paths[::-1], reader)})
    rows = [row for row in estimates_table(reduction).to_pylist() if row["method"] == "smc"]
    row = rows[0]
    likelihoods = np.exp(log_likelihoods)
    expected = np.log(likelihoods.mean(1)).sum()
    assert row["log_likelihood"] == pytest.approx(expected)
    assert row["value"] == pytest.approx(np.exp(-expected / 15))
    assert row["standard_error"] is None  # 4 runs are too few for the delta method
    assert (row["n_samples"], row["replicates"], row["temperature"]) == (5, 4, 1.0)
    assert (row["bound"], row["ess_min"], row["k_hat_above"]) == ("stochastic", 1.5, None)
    held = [row for row in instances_table(reduction).to_pylist() if row["method"] == "smc"]
    assert [one["log_likelihood"] for one in held] == pytest.approx(
        np.log(likelihoods.mean(1)).tolist()
    )


def test_the_error_of_few_runs_is_of_the_size_of_the_true_one(tmp_path):
    """Oracle: the spread of the estimate over 300 instances that are alike."""
    log_likelihoods = np.random.default_rng(1).normal(-20.0, 0.3, (300, 4))
    reader, paths = files_of_runs(tmp_path, log_likelihoods)
    reduction = reduce_weights(reader, draws={"smc": SMCRuns(paths, reader)})
    true = np.log(np.exp(log_likelihoods).mean(1)).std(ddof=1)
    found = np.sqrt(np.square(dict(reduction.estimators)["smc"].standard_error_samples).mean())
    assert found == pytest.approx(true, rel=0.12)
    assert np.isinf(dict(reduction.estimators)["smc"].variance).all()


def test_runs_that_do_not_belong_together_are_refused(tmp_path):
    values = np.full((3, 2), -20.0)
    reader, paths = files_of_runs(tmp_path, values)
    with pytest.raises(InputError, match="a run twice or lacks one"):
        SMCRuns(paths[:1], reader)
    with pytest.raises(InputError, match="a run twice or lacks one"):
        SMCRuns([*paths, paths[0]], reader)
    (tmp_path / "other").mkdir()
    _, others = files_of_runs(tmp_path / "other", values, temperature=2.0)
    with pytest.raises(InputError, match="several temperatures"):
        SMCRuns([paths[0], others[1]], reader)
    wrong = values.copy()
    wrong[2, 1] = np.nan
    (tmp_path / "wrong").mkdir()
    reader, paths = files_of_runs(tmp_path / "wrong", wrong)
    with pytest.raises(InputError, match=r"1\.parquet: row 4: log_likelihood is nan"):
        SMCRuns(paths, reader)


class Promising:
    """A proposal with a promise that is arbitrary, and differs from particle to particle."""

    def __init__(self, proposal, scale=1.5):
        self._proposal, self.scale = proposal, scale
        self.word_draws, self.draws = proposal.word_draws, proposal.draws
        self.propose, self.follow, self.start = proposal.propose, proposal.follow, proposal.start

    def log_twist(self, state, time):
        last = state.last if hasattr(state, "last") else state.memory.current  # (K,)
        return self.scale * torch.sin(3.0 * last.double() + time)


@pytest.mark.parametrize("promising", [False, True])
@pytest.mark.parametrize(
    ("name", "temperature", "particles", "threshold"),
    [("entitynlm", 1.2, 4, 1.0), ("kglm", 2.0, 5, 0.9), ("entitynlm", 1.2, 3, 0.0)],
)
def test_weighted_paths_have_the_joint_probabilities(
    name, temperature, particles, threshold, promising
):
    """The mean weight with which a z comes is p(x, z), within 4.5 standard errors, for each z."""
    family, count = FAMILIES[name], 2000
    model, proposal = family.pair()
    proposal = Promising(proposal) if promising else proposal
    batch = family.batch(*[family.short] * count)
    uniforms = numbers(count, particles, numbers_needed(proposal, batch), seed=particles)
    setting = FilterSetting(model, proposal, batch, particles, temperature, threshold)
    found, again = smc_paths(setting, uniforms), smc_log_prob(setting, uniforms)
    assert torch.equal(found.estimate.log_prob, again.log_prob)
    total = found.log_weights.logsumexp(1) - math.log(particles)
    torch.testing.assert_close(found.estimate.log_prob, total, rtol=0, atol=1e-12)
    if threshold:
        assert (again.effective[:, :-1] < threshold * particles).any()
    codes, log_p = joint(family, model)
    truth = log_p.exp() / log_p.exp().sum()
    same = (found.latents[:, :, None] == codes).all(3)  # (F, K, Z)
    assert same.any(2).all()
    shares = (found.log_weights - log_p.logsumexp(0)).exp() / particles  # (F, K)
    each = (same * shares[..., None]).sum(1)  # (F, Z)
    error = each.std(0) / math.sqrt(count)
    often = (each > 0).sum(0) > 150  # of rare ones the standard error is too small
    assert often.sum() > 3
    assert ((each.mean(0) - truth).abs() < 4.5 * error)[often].all()
    mean = each.sum(1).mean()
    assert abs(mean - 1) < 4 * each.sum(1).std() / math.sqrt(count)


@pytest.mark.parametrize(
    ("name", "particles", "threshold", "promising"),
    [
        ("entitynlm", 2, 1.0, False),
        ("entitynlm", 4, 1.0, False),
        ("entitynlm", 4, 0.6, True),
        ("kglm", 5, 0.9, False),
        ("kglm", 3, 1.0, True),
        ("kglm", 5, 0.0, False),
    ],
)
def test_the_inverse_is_unbiased_where_the_given_path_is_of_the_posterior(
    name, particles, threshold, promising
):
    """The mean of p(x) / p̂(x) over draws from the enumerated p(z | x) is 1."""
    family, count = FAMILIES[name], 2000
    model, proposal = family.pair()
    proposal = Promising(proposal) if promising else proposal
    codes, log_p = joint(family, model)
    generator = torch.Generator().manual_seed(1)
    places = torch.multinomial(log_p.softmax(0), count, True, generator=generator)
    batch = family.batch(*[family.short] * count)
    uniforms = numbers(count, particles, numbers_needed(proposal, batch), seed=particles + 9)
    setting = FilterSetting(model, proposal, batch, particles, 1.5, threshold)
    found = conditional_smc(setting, uniforms, codes[places])
    ratios = (log_p.logsumexp(0) - found.log_prob).exp().numpy()
    error = ratios.std(ddof=1) / math.sqrt(count)
    assert error < 0.1
    assert abs(ratios.mean() - 1) < 4 * error
    free = smc_log_prob(setting, uniforms).log_prob
    assert found.log_prob.mean() > log_p.logsumexp(0) > free.mean()


def test_without_resampling_a_given_path_is_one_of_the_samples():
    """p̂ is the mean of the weights of K − 1 draws and of the given z."""
    family = FAMILIES["kglm"]
    model, proposal = family.pair()
    batch, codes = family.batch(family.short), joint(family, model)[0][[5]]
    uniforms = numbers(1, 6, numbers_needed(proposal, batch))
    found = conditional_smc(FilterSetting(model, proposal, batch, 6, 1.5, 0.0), uniforms, codes)
    place = int(6 * uniforms[0, 6, len(family.short) - 1])
    owner = torch.zeros(6, dtype=torch.int64)
    with torch.no_grad():
        latents = proposal.sample(batch, owner, uniforms[0, :6], 1.5)
        latents[place] = codes[0]
        log_q = proposal.log_prob(batch, owner, latents, [1.5])[:, 0]
        weights = model.log_joint(batch, owner, latents) - log_q
    expected = weights.logsumexp(0) - math.log(6)
    torch.testing.assert_close(found.log_prob[0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kept", range(5))
def test_conditional_resampling_has_the_law_of_systematic_resampling(kept):
    """Oracle: all (u, place) of a fine grid of u whose place falls to the kept particle."""
    weights = torch.tensor([0.1, 0.31, 0.02, 0.36, 0.21]).double().log()[None]
    grid = (torch.arange(20_000).double() + 0.5) / 20_000
    every = systematic(weights.expand(len(grid), 5), grid)  # (U, K)
    row, place = (every == kept).nonzero(as_tuple=True)
    width = 0.05
    expected = np.histogram2d(place, grid[row], bins=[5, 20], range=[[0, 5], [0, 1]])[0]
    count = 20_000
    chosen, found = conditional_systematic(
        weights.expand(count, 5), grid, torch.full((count,), kept)
    )
    assert (chosen.gather(1, found[:, None]) == kept).all()
    assert (chosen.diff(dim=1) >= 0).all()
    shares = torch.bincount(found, minlength=5) / count
    assert shares.tolist() == pytest.approx((expected.sum(1) / len(row)).tolist(), abs=2e-3)
    # How often each particle is in the filter, given the kept one: by both.
    held = torch.stack([(chosen == k).sum(1) for k in range(5)], 1).double().mean(0)
    others = every[row]  # (N, K)
    truth = torch.stack([(others == k).sum(1) for k in range(5)], 1).double().mean(0)
    torch.testing.assert_close(held, truth, rtol=0, atol=5 * width * 0.01)
