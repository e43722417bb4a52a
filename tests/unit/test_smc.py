"""Sequential Monte Carlo estimates of p(x) with every family; paths, promises, a given z; runs.

Oracles: sums over all z, scores of whole rows of z, plain weights without resampling, the
enumerated posterior (no variance), systematic resampling on a grid, frequencies of simulated
sentences.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance import draw_files, model_pair, particle_runs, weight_files
from beyond_perplexity.importance.particle_runs import FilterSetting, run_smc, smc_log_prob
from beyond_perplexity.importance.reduction import estimates_table, instances_table, reduce_weights
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.invariant_tensors import conditional_systematic, effective_size, systematic
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents import kglm, kglm_tagger, rnng_stack_memory
from beyond_perplexity.models.latents.rnng_discriminative import DiscriminativeRNNG
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.draws import LOG_WEIGHTS, SMC
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit import kglm_reference, rnng_reference, test_kglm, test_rnng, test_rnng_top_down
from tests.unit.entitynlm_reference import all_codes
from tests.unit.evaluator_oracles import check_refused
from tests.unit.rnng_corpus import rows_of
from tests.unit.test_entitynlm import CONTEXTS, make_batch, make_model, make_proposal
from tests.unit.toy_latent import ToyModel, ToyProposal

TEMPERATURES = [0.5, 1.0, 2.0]
VOCABULARY = ClosedVocabulary(["a"], 1)


def numbers(rows, particles, draws, seed=0):
    return torch.from_numpy(stream(seed, "test").random((rows, particles + 1, draws)))


class Family(NamedTuple):
    """How the tests make a tiny model with its proposal, batches, and all z of a text.

    Of the `texts` the first is `short` enough for that. `rounding` bounds how far the scores of
    words of a float32 model are from those of whole rows (KGLM's differ in the order of sums of
    float64 alone), `apart` how far a text alone is from itself in a batch.
    """

    pair: Callable
    batch: Callable
    codes: Callable
    texts: Sequence
    rounding: float
    apart: float = 0.0

    @property
    def short(self):
        return self.texts[0]


def entitynlm_pair(context="peeking", double=True):
    return make_model(double=double), make_proposal(context, double=double)


def kglm_pair(context="peeking", double=True):
    model = test_kglm.make(kglm.KGLM)
    proposal = test_kglm.make(kglm_tagger.KGLMTagger, context=context, seed=3)
    return (model.double(), proposal.double()) if double else (model, proposal)


def binary_pair(context="", vocabulary=9, double=True, **options):
    model = test_rnng.make(vocabulary=vocabulary, double=double, **options)
    return model, test_rnng.make(SpanCRF, vocabulary=vocabulary, double=double)


def labelled_pair(context="", vocabulary=9, double=True, **options):
    own = {"count_eos": options.pop("count_eos", True)}
    common = {"maximum_run": 1, "maximum_open": 3, "vocabulary": vocabulary, **options}
    make = test_rnng_top_down.make
    return make(double=double, **own, **common), make(DiscriminativeRNNG, double=double, **common)


TREES = {
    "binary": Family(
        binary_pair,
        test_rnng.batch_of,
        lambda model, length: rnng_reference.all_trees(length),
        ([4, 3, 8, 8, 5], [6], [7, 2, 5], [3, 5]),
        0.0,
        2e-5,
    ),
    "labelled": Family(
        labelled_pair,
        test_rnng_top_down.batch_of,
        test_rnng_top_down.trees_of,
        ([4, 3, 8], [6]),
        0.0,
        2e-5,
    ),
}
LONG = {"entitynlm": (3, 8, 2, 7, 7, 4, 5, 6, 2), "kglm": (3, 4, 2, 3, 4, 4, 3, 2, 2)}
CODES = {
    "entitynlm": Family(
        entitynlm_pair,
        make_batch,
        lambda _, length: all_codes(length, 3, 2),
        ((3, 4, 8, 5), LONG["entitynlm"], LONG["entitynlm"][:1]),
        1e-4,
    ),
    "kglm": Family(
        kglm_pair,
        test_kglm.batch_of,
        kglm_reference.enumerate_codes,
        ((4, 3, 2), LONG["kglm"], LONG["kglm"][:1]),
        1e-11,
    ),
}
FAMILIES = {**CODES, **TREES}
each_kind = pytest.mark.parametrize("kind", TREES.values(), ids=TREES)
CASES = [pytest.param(*one, id="-".join(one)) for one in itertools.product(CODES, CONTEXTS)]
each_case = pytest.mark.parametrize(("name", "context"), CASES)


@torch.no_grad()
def joint(family, model):
    codes = rows_of(family.codes(model, len(family.short)))
    owner = torch.zeros(len(codes), dtype=torch.int64)
    return codes, model.log_joint(family.batch(family.short), owner, codes)


def enumerated(family, model):
    return float(joint(family, model)[1].logsumexp(0))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 5.0])
@each_case
def test_words_add_up_to_sampled_rows(name, context, temperature):
    """Same numbers, same z; what log p and log q of the words sum to, up to their rounding."""
    family, long = CODES[name], CODES[name].texts[1]
    model, proposal = family.pair(context, double=False)
    batch, owner = family.batch(long), torch.zeros(64, dtype=torch.int64)
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
        log_p = log_p - model.finish(state, len(long))
    torch.testing.assert_close(log_q, torch.zeros_like(log_q), rtol=0, atol=family.rounding)
    torch.testing.assert_close(log_p, torch.zeros_like(log_p), rtol=0, atol=family.rounding)


@each_case
def test_without_resampling_it_is_importance_sampling(name, context):
    """Same numbers, same z: the mean of the plain weights, for documents of two lengths."""
    family = CODES[name]
    model, proposal = family.pair(context)
    batch = family.batch(*family.texts[:2])
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
    ends = [len(text) - 1 for text in family.texts[:2]]
    torch.testing.assert_close(estimate.effective[[0, 1], ends], sizes)
    assert estimate.effective[0, ends[0] + 1 :].isnan().all()


@pytest.mark.parametrize(
    ("name", "context"), [*CASES, *(pytest.param(name, "", id=name) for name in TREES)]
)
def test_an_instance_does_not_depend_on_the_others(name, context):
    family = FAMILIES[name]
    model, proposal = family.pair(context, double=False)
    batch = family.batch(*family.texts)
    uniforms = numbers(len(family.texts), 16, particle_runs.numbers_needed(proposal, batch))
    for threshold in (0.5, 0.9):
        both = smc_log_prob(FilterSetting(model, proposal, batch, 16, 1.0, threshold), uniforms)
        for row, text in enumerate(family.texts):
            setting = FilterSetting(model, proposal, family.batch(text), 16, 1.0, threshold)
            alone = smc_log_prob(setting, uniforms[row : row + 1])
            found, expected = alone.log_prob[0], both.log_prob[row]
            torch.testing.assert_close(found, expected, atol=family.apart, rtol=0)
            if not family.apart:
                assert torch.equal(alone.effective[0], both.effective[row, : len(text)])


def test_systematic_resampling_and_that_it_helps_long_documents():
    """By Jensen's inequality the better estimator has the higher mean logarithm."""
    model, proposal = make_model(), make_proposal()
    tokens = tuple(np.random.default_rng(1).integers(2, 9, 40).tolist())
    batch = make_batch(*[tokens] * 12)
    uniforms = numbers(12, 32, proposal.draws(batch))
    settings = [FilterSetting(model, proposal, batch, 32, 1.0, k) for k in (0.0, 0.5)]
    plain, better = (smc_log_prob(setting, uniforms).log_prob for setting in settings)
    assert better.mean() > plain.mean()
    assert better.std() < plain.std()
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


@pytest.mark.parametrize("name", CODES)
def test_an_instances_runs_depend_on_its_id_their_number_and_the_seed_alone(name):
    """Oracle: the sum over all z, within 15%; the same instances in another order, other runs."""
    family = FAMILIES[name]
    pair, length = model_pair.Pair(*family.pair(), 5, f"{name}/tagger"), len(family.short)
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


def test_models_go_word_by_word_and_classes_of_unknown_words_are_written_by_name(tmp_path):
    pair = model_pair.Pair(ToyModel(7, {}), ToyProposal(7, {}), 5, "toy/toy")
    with pytest.raises(InputError, match="word by word"):
        list(run_smc(pair, [Instance(1, {"tokens": np.array([3])})], SMCOptions(4), range(1)))
    model = test_rnng.RNNG(4, {"size": 5, "dropout": 0.0}, unknown_classes=["<unk-digit>"]).eval()
    with torch.no_grad():
        model.word_bias[4] = 2.0
    words = {word for one in model.simulate(1, "x", range(40), 5, VOCABULARY) for word in one.words}
    assert words == {"<unk>", "a", "<unk-digit>"}


def files_of_runs(folder, log_likelihoods, temperature=1.0):
    """Write weights and runs, (N, F), of N instances of 5 tokens in two shards each."""
    count, runs = log_likelihoods.shape
    labels = draw_files.WeightLabels("p", "q", temperature, "words", None).in_record({})
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
    return weight_files.WeightReader([weights]), paths


def test_runs_are_averaged_like_weights_and_their_error_is_of_the_true_size(tmp_path):
    """Oracle: the mean of the runs' p̂, by numpy."""
    log_likelihoods = np.random.default_rng(0).normal(-20.0, 0.5, (3, 4))
    reader, paths = files_of_runs(tmp_path, log_likelihoods)
    reduction = reduce_weights(reader, draws={"smc": draw_files.SMCRuns(paths[::-1], reader)})
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
    assert [one["log_likelihood"] for one in held] == pytest.approx([*np.log(likelihoods.mean(1))])
    # Oracle: the spread of the estimate over 300 instances that are alike
    log_likelihoods = np.random.default_rng(1).normal(-20.0, 0.3, (300, 4))
    reader, paths = files_of_runs(tmp_path, log_likelihoods)
    reduction = reduce_weights(reader, draws={"smc": draw_files.SMCRuns(paths, reader)})
    true = np.log(np.exp(log_likelihoods).mean(1)).std(ddof=1)
    found = np.sqrt(np.square(dict(reduction.estimators)["smc"].standard_error_samples).mean())
    assert found == pytest.approx(true, rel=0.12)
    assert np.isinf(dict(reduction.estimators)["smc"].variance).all()


def test_runs_that_do_not_belong_together_are_refused(tmp_path):
    wrong = np.full((3, 2), -20.0)
    reader, paths = files_of_runs(tmp_path, wrong)
    for name in ("other", "wrong"):
        (tmp_path / name).mkdir()
    _, others = files_of_runs(tmp_path / "other", wrong, temperature=2.0)
    wrong[2, 1] = np.nan
    _, broken = files_of_runs(tmp_path / "wrong", wrong)
    for some, message in (
        (paths[:1], "a run twice or lacks one"),
        ([*paths, paths[0]], "a run twice or lacks one"),
        ([paths[0], others[1]], "several temperatures"),
        (broken, r"1\.parquet: row 4: log_likelihood is nan"),
    ):
        check_refused(message, draw_files.SMCRuns, some, reader)


class Promising:
    """A proposal with a promise that is arbitrary, and differs from particle to particle."""

    def __init__(self, proposal, scale=1.5):
        self._proposal, self.scale = proposal, scale
        self.word_draws, self.draws = proposal.word_draws, proposal.draws
        self.propose, self.follow, self.start = proposal.propose, proposal.follow, proposal.start

    def log_twist(self, state, time):
        last = state.last if hasattr(state, "last") else state.memory.current  # (K,)
        return self.scale * torch.sin(3.0 * last.double() + time)


@pytest.mark.parametrize(
    ("name", "temperature", "particles", "threshold", "promising"),
    [
        *(("entitynlm-peeking", 1.2, 3, 0.5, False), ("entitynlm-peeking", 1.2, 4, 1.0, False)),
        *(("entitynlm-peeking", 1.2, 4, 1.0, True), ("entitynlm-peeking", 1.2, 8, 0.9, False)),
        *(("entitynlm-peeking", 1.2, 3, 0.0, False), ("entitynlm-peeking", 1.2, 3, 0.0, True)),
        *(("entitynlm-peeking", 1.5, 2, 1.0, False), ("entitynlm-peeking", 1.5, 4, 0.6, True)),
        *(("kglm-peeking", 2.0, 3, 0.5, False), ("kglm-peeking", 2.0, 4, 1.0, False)),
        *(("kglm-peeking", 2.0, 8, 0.9, False), ("kglm-peeking", 2.0, 5, 0.9, True)),
        *(("kglm-peeking", 1.5, 3, 1.0, True), ("kglm-peeking", 1.5, 5, 0.0, False)),
        *(("kglm-causal", 2.0, 4, 1.0, False), ("kglm-bidirectional", 2.0, 4, 1.0, False)),
        *((f"{name}-", 1.0, 3, 1.0, False) for name in TREES),
        *((f"{name}-", 2.0, 4, 1.0, False) for name in TREES),
        *((f"{name}-", 0.5, 8, 0.97, False) for name in TREES),
    ],
)
def test_estimates_their_inverses_and_weighted_paths_are_unbiased(
    name, temperature, particles, threshold, promising
):
    """Against all z, with 2000 filters, or 1200 over trees.

    The mean of p̂ / p, and of p / p̂ where a particle follows a draw from p(z | x), is 1 within 4
    standard errors. The mean weight with which a z comes is p(x, z), within 4.5, for each z.
    """
    name, context = name.split("-")
    count = 1200 if name in TREES else 2000
    family = FAMILIES[name]
    model, proposal = family.pair(context)
    proposal = Promising(proposal) if promising else proposal
    rows, log_p = joint(family, model)
    truth, batch = log_p.logsumexp(0), family.batch(*[family.short] * count)
    needed = particle_runs.numbers_needed(proposal, batch)
    uniforms = numbers(count, particles, needed, seed=particles)
    setting = FilterSetting(model, proposal, batch, particles, temperature, threshold)
    found, again = particle_runs.smc_paths(setting, uniforms), smc_log_prob(setting, uniforms)
    assert torch.equal(found.estimate.log_prob, again.log_prob)
    total = found.log_weights.logsumexp(1) - math.log(particles)
    torch.testing.assert_close(again.log_prob, total, rtol=0, atol=1e-12)
    assert (again.effective[:, :-1] < threshold * particles).any() == bool(threshold)
    generator = torch.Generator().manual_seed(1 + (name in TREES))
    places = torch.multinomial(log_p.softmax(0), count, True, generator=generator)
    if name in CODES:
        uniforms = numbers(count, particles, uniforms.shape[2], seed=particles + 9)
    above = particle_runs.conditional_smc(setting, uniforms, rows[places])
    inverse = 0.1 if name == "kglm" or threshold > 0.5 else 0.12
    for ratios, most in (
        ((again.log_prob - truth).exp(), 0.08 if particles > 2 else 0.12),
        ((truth - above.log_prob).exp(), 0.08 if name in TREES else inverse),
    ):
        error = float(ratios.std()) / math.sqrt(count)
        assert error < most
        assert abs(float(ratios.mean()) - 1) < 4 * error
    assert again.log_prob.mean() < truth < above.log_prob.mean()
    same = (found.latents[:, :, None] == rows[:, : found.latents.shape[2]]).all(3)  # (F, K, Z)
    assert same.any(2).all()
    shares = (found.log_weights - truth).exp() / particles  # (F, K)
    each = (same * shares[..., None]).sum(1)  # (F, Z)
    often = (each > 0).sum(0) > count // 12  # of rare ones the standard error is too small
    assert often.sum() > 3
    error = each.std(0) / math.sqrt(count)
    assert ((each.mean(0) - log_p.softmax(0)).abs() < 4.5 * error)[often].all()


def test_without_resampling_a_given_path_is_one_of_the_samples():
    """p̂ is the mean of the weights of K − 1 draws and of the given z."""
    family = FAMILIES["kglm"]
    model, proposal = family.pair()
    batch, codes = family.batch(family.short), joint(family, model)[0][[5]]
    uniforms = numbers(1, 6, particle_runs.numbers_needed(proposal, batch))
    setting = FilterSetting(model, proposal, batch, 6, 1.5, 0.0)
    found = particle_runs.conditional_smc(setting, uniforms, codes)
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
    given = weights.expand(count, 5), grid, torch.full((count,), kept)
    chosen, found = conditional_systematic(*given)
    assert (chosen.gather(1, found[:, None]) == kept).all()
    assert (chosen.diff(dim=1) >= 0).all()
    shares = torch.bincount(found, minlength=5) / count
    assert shares.tolist() == pytest.approx((expected.sum(1) / len(row)).tolist(), abs=2e-3)
    # How often each particle is in the filter, given the kept one: by both.
    held = torch.stack([(chosen == k).sum(1) for k in range(5)], 1).double().mean(0)
    others = every[row]  # (N, K)
    truth = torch.stack([(others == k).sum(1) for k in range(5)], 1).double().mean(0)
    torch.testing.assert_close(held, truth, rtol=0, atol=5 * width * 0.01)


def everything(kind, model):
    trees = [kind.codes(model, len(words)) for words in kind.texts]
    owner = torch.arange(len(trees)).repeat_interleave(torch.tensor([len(t) for t in trees]))
    return kind.batch(*kind.texts), owner, rows_of([tree for some in trees for tree in some])


@torch.no_grad()
def walk(model, batch, owner, choices):
    """Add up what a model (or a proposal and its temperature) says of the words, (R,)."""
    proposal, temperature = model if isinstance(model, tuple) else (None, None)
    walker = proposal or model
    lengths, rows = batch.lengths[TOKENS][owner], torch.arange(len(owner))
    state, total = walker.start(batch, owner), torch.zeros(len(owner)).double()
    for time in range(int(lengths.max()) + 1):
        if proposal is None:
            total[rows] += walker.finish(state, time)
        going = (lengths[rows] > time).nonzero()[:, 0]
        rows, state = rows[going], state.select(going)
        if not len(rows):
            return total
        arguments = (state, time, choices[rows, time], *([temperature] if proposal else []))
        found, state = (walker.follow if proposal else walker.extend)(*arguments)
        total[rows] += found
    return total


@pytest.mark.parametrize("fewest", [1, 4096])
@pytest.mark.parametrize("options", [{}, {"layers": 2}, {"count_eos": False}])
@each_kind
def test_words_add_up_to_whole_rows(kind, options, fewest, monkeypatch):
    """All trees of sentences of several lengths, also where nodes are thrown away at once."""
    monkeypatch.setattr(rnng_stack_memory, "FEWEST_NODES", fewest)
    model, proposal = kind.pair(**options)
    batch, owner, latents = everything(kind, model)
    lengths = batch.lengths[TOKENS][owner]
    choices = model.split_latents(latents, lengths)
    joined = model.join_choices(choices, lengths)
    assert torch.equal(joined, latents[:, : joined.shape[1]])
    with torch.no_grad():
        log_p = model.log_joint(batch, owner, latents)
        log_q = proposal.log_prob(batch, owner, latents, TEMPERATURES)
    torch.testing.assert_close(walk(model, batch, owner, choices), log_p, atol=1e-10, rtol=0)
    for temperature, column in zip(TEMPERATURES, log_q.T, strict=True):
        found = walk((proposal, temperature), batch, owner, choices)
        torch.testing.assert_close(found, column, atol=1e-10, rtol=0)


def test_a_model_without_ends_has_none_at_the_end_of_a_sentence():
    kind = FAMILIES["binary"]
    model, _ = kind.pair(eos=False)
    batch, owner, latents = everything(kind, model)
    choices = model.split_latents(latents, batch.lengths[TOKENS][owner])
    with torch.no_grad():
        log_p = model.log_joint(batch, owner, latents)
    torch.testing.assert_close(walk(model, batch, owner, choices), log_p, atol=1e-10, rtol=0)
    check_refused("no ends to simulate", model.simulate, 1, "x", range(3), 9, VOCABULARY)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@each_kind
def test_proposed_choices_have_the_probabilities_of_whole_trees(kind, temperature):
    """Frequencies of trees drawn word by word, and log q as it is told on the way."""
    model, proposal = kind.pair()
    count = 4000
    batch, trees = kind.batch(kind.short), kind.codes(model, len(kind.short))
    owner, rows = torch.zeros(count, dtype=torch.int64), rows_of(trees)
    draws = proposal.word_draws
    uniforms = torch.from_numpy(np.random.default_rng(3).random((count, draws * len(kind.short))))
    choices, total, state = [], 0.0, proposal.start(batch, owner)
    with torch.no_grad():
        for time, drawn_by in enumerate(uniforms.split(draws, 1)):
            choice, log_q, state = proposal.propose(state, time, drawn_by, temperature)
            choices.append(choice)
            total = total + log_q
        widest = max(choice.shape[-1] for choice in choices)
        if choices[0].ndim > 1:
            pad = torch.nn.functional.pad
            choices = [pad(one, (0, widest - one.shape[1]), value=PADDING) for one in choices]
        drawn = model.join_choices(torch.stack(choices, 1), batch.lengths[TOKENS][owner])
        expected = proposal.log_prob(batch, owner, drawn, [temperature])[:, 0]
        log_q = proposal.log_prob(batch, owner[: len(rows)], rows, [temperature])[:, 0]
    torch.testing.assert_close(total, expected, atol=1e-10, rtol=0)
    shares = (drawn[:, None] == rows[:, : drawn.shape[1]]).all(2).double().mean(0)
    assert float(shares.sum()) == pytest.approx(1)
    error = (log_q.exp() / count).sqrt()
    assert ((shares - log_q.exp()).abs() < 5 * error + 5e-4).all()


class Posterior:
    """p(z | x) of one sentence by enumeration, word by word; it promises log p(x_t, ... | past)."""

    def __init__(self, model, rows, log_p, choices, walked):
        self._log_p, self._choices, self._walked = log_p, choices, walked
        self.word_draws = 1

    class State(NamedTuple):
        """Which trees particles can still come to, (K, Z), and log p of their words so far."""

        possible: torch.Tensor
        time: int

        def select(self, rows):
            return self._replace(possible=self.possible[rows])

    def start(self, batch, owner):
        return self.State(torch.ones(len(owner), len(self._log_p), dtype=torch.bool), 0)

    def propose(self, state, time, uniforms, temperature):
        shares = self._log_p.exp() * state.possible  # (K, Z)
        tree = torch.searchsorted(shares.cumsum(1), uniforms * shares.sum(1, keepdim=True))[:, 0]
        choice = self._choices[tree, time]  # (K,) or (K, C)
        own = self._choices[:, time]  # (Z,) or (Z, C)
        agree = own == choice[:, None]
        agree = agree.all(2) if agree.ndim > 2 else agree  # (K, Z)
        possible = state.possible & agree
        log_q = (shares * agree).sum(1).log() - shares.sum(1).log()
        return choice, log_q, self.State(possible, time + 1)

    def log_twist(self, state, time):
        log_joint = self._log_p.masked_fill(~state.possible, -math.inf).logsumexp(1)  # (K,)
        first = state.possible.int().argmax(1)  # (K,): a tree that begins so
        return log_joint - self._walked[first, time]


@each_kind
def test_the_posterior_as_proposal_has_no_variance(kind):
    """With the promise that goes with it at any threshold; without it where nothing is redrawn."""
    model, _ = kind.pair()
    words = kind.short
    rows, log_p = joint(kind, model)
    batch, owner = kind.batch(words), torch.zeros(len(rows), dtype=torch.int64)
    choices = model.split_latents(rows, batch.lengths[TOKENS][owner])
    state, walked = model.start(batch, owner), [torch.zeros(len(rows)).double()]
    with torch.no_grad():
        for time in range(len(words)):
            found, state = model.extend(state, time, choices[:, time])
            walked.append(walked[-1] + found)
    posterior = Posterior(model, rows, log_p, choices, torch.stack(walked, 1))
    many = kind.batch(*[words] * 20)
    uniforms = numbers(20, 16, len(words), seed=4)
    truth = log_p.logsumexp(0).expand(20)
    for threshold in (0.0, 0.5, 1.0):
        found = smc_log_prob(FilterSetting(model, posterior, many, 16, 1.0, threshold), uniforms)
        torch.testing.assert_close(found.log_prob, truth, atol=1e-10, rtol=0)
        assert (found.effective.nan_to_num(16.0) > 15.999).all()


@pytest.mark.parametrize(("particles", "few"), [(3, 1), (40, 2), (300, 4)])
@each_kind
def test_a_run_does_not_depend_on_how_many_there_are(kind, particles, few):
    """Bit for bit, in single precision, on a long sentence."""
    sizes = {"size": 24} if kind is FAMILIES["binary"] else {"size": 24, "maximum_run": 2}
    pair = model_pair.Pair(*kind.pair(double=False, **sizes), 5, "p/q")
    words = np.random.default_rng(0).integers(2, 9, 13).tolist()
    instance = Instance(7, {TOKENS: np.array(words), "actions": np.zeros(0, np.int64)})
    asked = [(SMCOptions(particles, runs, 2.0, 0.9), range(runs)) for runs in (25, few)]
    found, fewer = ([list(run_smc(pair, [instance], *given))] for given in asked)
    for name in ("log_likelihood", "ess_min"):
        values, expected = (np.concatenate([b[name] for b in one[0]]) for one in (found, fewer))
        assert np.array_equal(values[:few], expected)
        assert len(set(values)) > 20
