"""Draws of a pair: weights by blocks and shards, documents simulated and estimated from both sides.

Oracles: sums over all latents, and pairs, of tiny models; the formula; draws cut otherwise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch, InstanceStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance import bidirectional_gaps as gaps
from beyond_perplexity.importance import model_pair as pair_module
from beyond_perplexity.importance.bidirectional_gaps import SimulatedRuns, gap_rows
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.model_pair import (
    Pair,
    hash_latents,
    score_temperatures,
    search,
    take_instances,
    weigh,
)
from beyond_perplexity.importance.reduction import estimates_table, gaps_table, reduce_weights
from beyond_perplexity.importance.simulated_documents import (
    estimate_simulated,
    generate_known,
    log_weight,
)
from beyond_perplexity.importance.ways_to_draw import (
    DRAWS,
    BeamOptions,
    BidirectionalOptions,
    LogQOptions,
    ReductionOptions,
    SMCOptions,
    WeightOptions,
)
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.inference.weight_diagnostics import FITTED, NOT_OF_SAMPLES
from beyond_perplexity.models.latent import PADDING, Simulated
from beyond_perplexity.models.latents import kglm, kglm_tagger
from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas import draws, with_columns
from beyond_perplexity.storage.shards import ShardWriter, write_shard
from beyond_perplexity.vocabulary import EOS, UNK, ClosedVocabulary
from tests.unit import test_kglm
from tests.unit.entitynlm_reference import all_codes
from tests.unit.evaluator_oracles import check_refused
from tests.unit.kglm_reference import enumerate_codes
from tests.unit.latent_tables import model as latent_table
from tests.unit.latent_tables import sample_columns, write_weights
from tests.unit.rnng_corpus import rows_of
from tests.unit.test_smc import FAMILIES
from tests.unit.test_two_sided import lognormal, weight_columns
from tests.unit.toy_latent import ToyModel, ToyProposal

WORDS = ClosedVocabulary(["a", "b", "c", "d"], 0)
OPTIONS = BidirectionalOptions(12, (0.7, 2.0), (20, 5))


@pytest.fixture
def pair():
    torch.manual_seed(0)
    model, proposal = ToyModel(7, {}).eval(), ToyProposal(7, {}).eval()
    return Pair(model.requires_grad_(False), proposal.requires_grad_(False), 5, "toy/toy")


def estimated(pair, documents, options=OPTIONS, runs=0):
    return gather(list(estimate_simulated(pair, documents, options, range(runs))))


def gather(parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def all_bits(length):
    return torch.tensor(list(product(range(2), repeat=length)))


def log_joint(pair, instance, rows):
    """Return log p of an instance with every z."""
    held = torch.as_tensor(rows)
    with torch.no_grad():
        owner = torch.zeros(len(held), dtype=torch.int64)
        return pair.model.log_joint(InstanceBatch.of([instance]), owner, held)


def enumerated(pair, document, rows):
    """Return log p of a simulated document with every z, as it was simulated."""
    return log_joint(pair.as_simulated(), document.instance, rows)


def estimable(documents):
    return [one for one in documents if one.words and not one.truncated]


def test_the_expectations_of_both_sides_enclose_log_p(pair):
    """Oracle: sums over z ~ p(z | x) and both samples of q, in closed form from the tables."""
    document = pair.model.simulate(3, "x", range(40), 4, WORDS)
    document = next(one for one in document if len(one.words) == 3 and not one.truncated)
    rows, batch = all_bits(3), InstanceBatch.of([document.instance])
    owner = torch.zeros(8, dtype=torch.int64)
    log_p = pair.model.log_joint(batch, owner, rows).detach().numpy()
    log_q = pair.proposal.log_prob(batch, owner, rows, [0.7])[:, 0].detach().numpy()
    for place, row in enumerate(rows):
        held = log_weight(pair, document._replace(latents=row), 0.7)
        assert held == pytest.approx((log_p[place] - log_q[place], log_q[place]), rel=1e-12)
    truth, log_w, q = logsumexp(log_p), log_p - log_q, np.exp(log_q)
    posterior = np.exp(log_p - truth)
    one = np.logaddexp(log_w[:, None], log_w) - math.log(2)  # (Z, Z)
    forward, reverse = q @ one @ q, posterior @ one @ q
    assert forward < truth < reverse
    assert posterior @ np.exp(-one) @ q == pytest.approx(math.exp(-truth), rel=1e-12)


def test_both_sides_are_the_formula_on_the_draws_of_weights(pair):
    """Oracle: logsumexp of what `weigh` finds, with the given z in the place of the last."""
    documents = generate_known(pair, range(6), OPTIONS, WORDS)
    found = estimated(pair, documents)
    own = replace(pair, purpose="toy/toy/bidirectional")
    kept = estimable(documents)
    row = 0
    for document in documents:
        for tau in OPTIONS.grid:
            for size in (5, 20):
                assert found["instance_id"][row] == document.instance.instance_id
                assert (found["temperature"][row], found["n_samples"][row]) == (tau, size)
                if document in kept:
                    (block,) = weigh(own, [document.instance], WeightOptions(tau), range(20))
                    log_w = block["log_p"] - block["log_q"]
                    given, log_q = log_weight(pair, document, tau)
                    ends = found["log_forward"][row], found["log_reverse"][row]
                    one = logsumexp(log_w[:size]) - math.log(size)
                    other = logsumexp([given, *log_w[: size - 1]]) - math.log(size)
                    assert ends == pytest.approx((one, other), rel=1e-12)
                    assert found["log_q"][row] == log_q
                else:
                    assert np.isnan(found["log_forward"][row])
                row += 1
    assert row == len(found["instance_id"])
    assert 0 < len(kept) <= 6


def test_many_documents_enclose_the_truth_and_more_samples_close_the_gap(pair):
    """Oracle: log p of each document, a sum over all its latents; 4 standard errors."""
    documents = estimable(generate_known(pair, range(300), OPTIONS, WORDS))
    bits = [all_bits(len(one.words)) for one in documents]
    pairs = zip(documents, bits, strict=True)
    truth = np.array([float(enumerated(pair, *one).logsumexp(0)) for one in pairs])
    found = estimated(pair, documents)
    for tau, size in product(OPTIONS.grid, (5, 20)):
        chosen = (found["temperature"] == tau) & (found["n_samples"] == size)
        below = found["log_forward"][chosen] - truth
        above = found["log_reverse"][chosen] - truth
        for values, sign in ((below, -1), (above, 1)):
            assert sign * values.mean() > -4 * values.std() / math.sqrt(len(values))
        inverse = np.exp(-above)
        assert abs(inverse.mean() - 1) < 4 * inverse.std() / math.sqrt(len(inverse))
    gaps = found["log_reverse"] - found["log_forward"]
    wide, narrow = (gaps[found["n_samples"] == size].mean() for size in (5, 20))
    assert 0 < narrow < wide


def simulated_of(name, count):
    """Give one short text with draws from its enumerated posterior, and log p."""
    family = FAMILIES[name]
    model, proposal = family.pair()
    pair = Pair(model, proposal, 3, "a/b")
    codes = torch.tensor(family.codes(model, len(family.short)))
    owner = torch.zeros(len(codes), dtype=torch.int64)
    with torch.no_grad():
        log_p = pair.as_simulated().model.log_joint(family.batch(family.short), owner, codes)
    generator = torch.Generator().manual_seed(1)
    chosen = torch.multinomial(log_p.softmax(0), count, True, generator=generator)
    batch = family.batch(family.short)
    arrays = {key: value[0].numpy() for key, value in batch.arrays.items()}
    words = [str(token) for token in family.short]
    places = enumerate(chosen.tolist())
    documents = [Simulated(words, Instance(n, arrays), codes[k], False) for n, k in places]
    return pair, documents, float(log_p.logsumexp(0))


def assert_enclosed(found, truth, runs):
    """Of either way and side, p̂ / p or p / p̂ has the mean 1; the runs of a document share its z."""
    for method, count in (("importance_sampling", 1), ("smc", runs)):
        of_method = found["method"] == method
        for column, sign in (("log_forward", 1), ("log_reverse", -1)):
            ratios = np.exp(sign * (found[column][of_method] - truth)).reshape(-1, count).mean(1)
            assert abs(ratios.mean() - 1) < 4 * ratios.std() / math.sqrt(len(ratios)) + 1e-9


@pytest.mark.parametrize("name", ["entitynlm", "kglm"])
def test_particles_enclose_the_truth(name):
    """Oracle: the sum over all z of the text; 4 standard errors."""
    pair, documents, truth = simulated_of(name, 120)
    options = BidirectionalOptions(9, (1.0,), (3,), particles=4, threshold=0.9)
    found = estimated(pair, documents, options, 2)
    assert_enclosed(found, truth, 2)
    assert (found["run"][found["method"] == "smc"].reshape(-1, 2) == [0, 1]).all()


Simulating = tuple[Pair, ClosedVocabulary, Callable[[int], Sequence]]


def trees(name, **options):
    kind = FAMILIES[name]
    model, proposal = kind.pair(vocabulary=4, **options)
    words = ClosedVocabulary(["a"], 1)
    return Pair(model, proposal, 3, "a/b"), words, lambda n: rows_of(kind.codes(model, n))


def labelled():
    made = trees("labelled", labels=("A",), maximum_open=2)
    with torch.no_grad():
        made[0].model.choice.bias[1], made[0].model.choice.bias[2] = 2.0, -1.0
    return made


def entities():
    model, proposal = FAMILIES["entitynlm"].pair()
    words = ClosedVocabulary([f"w{i}" for i in range(6)], 0)
    return Pair(model, proposal, 3, "a/b"), words, lambda length: all_codes(length, 3, 2)


def links():
    words = ClosedVocabulary(["w3", "w4"], 3)
    model = test_kglm.make(kglm.KGLM, seed=1, size=5).double()
    proposal = test_kglm.make(kglm_tagger.KGLMTagger, seed=3, size=5).double()
    ids = [i if i < 5 else UNK for i in range(test_kglm.ALIAS_WORDS)]
    model.word_ids[:] = torch.tensor(ids)
    with torch.no_grad():
        model.bias[EOS] += 4.0
    return Pair(model, proposal, 3, "a/b", 3), words, partial(enumerate_codes, model)


@pytest.mark.parametrize("make", [partial(trees, "binary"), labelled, entities, links])
def test_every_family_is_enclosed_on_what_it_simulates(make):
    """Oracle: log p of each simulated text of up to 3 words, by enumeration; 4 standard errors."""
    pair, words, latents = make()
    options = BidirectionalOptions(3, (1.0,), (3,), particles=3, threshold=0.9)
    documents = estimable(generate_known(pair, range(1200), options, words))[:80]
    assert len(documents) > 40
    joint = [enumerated(pair, one, latents(len(one.words))) for one in documents]
    truth = [float(log_p.logsumexp(0)) for log_p in joint]
    found = estimated(pair, documents, options, 1)
    assert np.isfinite(found["log_q"]).all()
    assert_enclosed(found, truth, 1)


def test_simulated_unknown_words_have_latents_of_the_models_posterior():
    """Oracle: p(z | x) of enumeration; 4 standard errors.

    The words are unknown to the vocabulary, generated or copied from an alias: how often they are
    copied, and p / p̂ of 40 latents of which one is the simulated z, whose mean is 1.
    """
    pair, words, latents = links()
    drawn = pair.model.simulate(3, "x", range(6000), 2, words)
    documents = [d for d in drawn if {"w300", "w301"} & set(d.words) and not d.truncated]
    assert len(documents) >= 11
    random, ratios, surprises = np.random.default_rng(0), [], []
    for one in documents:
        rows = latents(len(one.words))
        posterior = enumerated(pair, one, rows).softmax(0).numpy()
        own, others = rows.index(one.latents.tolist()), random.integers(0, len(rows), 39)
        ratios.append(1 / (posterior[[own, *others]] * len(rows)).mean())
        places = [place for place, word in enumerate(one.words) if word in ("w300", "w301")]
        mentioned = np.array([row[places[0]] > 0 for row in rows])
        expected = posterior @ mentioned
        surprises.append((mentioned[own] - expected) / math.sqrt(expected * (1 - expected)))
    for values, mean in ((ratios, 1.0), (surprises, 0.0)):
        error = np.std(values) / math.sqrt(len(values))
        assert error < 0.15
        assert abs(np.mean(values) - mean) < 4 * error


def test_a_model_that_cannot_be_simulated_goes_without(pair, tmp_path, reader):
    class Endless(ToyModel):
        def simulate(self, *_):
            raise InputError("no ends to simulate")

    pair = replace(pair, model=Endless(7, {}))
    with pytest.warns(UserWarning, match="no documents are simulated: no ends"):
        assert generate_known(pair, range(3), OPTIONS, WORDS) == []
    nothing = {name: [] for name in draws.BIDIRECTIONAL.names}
    write(tmp_path / "none", nothing)
    assert list(gap_rows(SimulatedRuns([tmp_path / "none"], reader))) == []


def test_numbers_do_not_depend_on_how_the_documents_are_cut(pair):
    ranges = range(8), range(3), range(3, 8)
    whole, first, rest = (generate_known(pair, part, OPTIONS, WORDS) for part in ranges)
    parts = first + rest
    assert [one.words for one in whole] == [one.words for one in parts]
    one, other = estimated(pair, whole), estimated(pair, parts[5:] + parts[:5])
    order = np.argsort(other["instance_id"], kind="stable")
    for name, column in one.items():
        np.testing.assert_array_equal(column, other[name][order])


def write(path, columns, labels=("tiny", "table")):
    write_shard(path, draws.BIDIRECTIONAL, columns, WeightLabels(*labels).in_record({}))


@pytest.fixture
def reader(tmp_path):
    return WeightReader(write_weights(tmp_path, sample_columns(latent_table(2), 1.0, 25), 1.0))


def made_up(runs, sigma=0.4, documents=30):
    """Return columns of runs whose p̂ is log-normal with mean 1, from both sides."""
    random = np.random.default_rng(0)
    count = documents * runs
    method = "smc" if runs > 1 else "importance_sampling"
    halves = random.normal(-(sigma**2), sigma * math.sqrt(2), (2, count))
    forward = np.logaddexp(*halves) - math.log(2)
    columns = {"instance_id": np.arange(documents).repeat(runs), "method": np.full(count, method)}
    columns |= {"temperature": np.full(count, 1.0), "n_samples": np.full(count, 50)}
    columns |= {"run": np.tile(np.arange(runs), documents), "log_forward": forward}
    columns |= {"n_tokens": np.arange(documents).repeat(runs) + 5}
    columns |= {"log_reverse": random.normal(sigma**2 / 2, sigma, count)}
    columns |= {"log_first_half": halves[0], "log_second_half": halves[1]}
    columns |= {"log_q": np.full(count, -3.0), "ess": np.full(count, 20.0)}
    tail = FITTED if runs == 1 else NOT_OF_SAMPLES
    return columns | {"k_hat": np.full(count, 0.3), "tail": np.full(count, tail)}


@pytest.mark.parametrize("runs", [1, 4])
def test_gaps_are_those_of_numpy(tmp_path, reader, runs):
    columns = made_up(runs)
    half = len(columns["run"]) // 2 // runs * runs
    for name, part in (("a", slice(half, None)), ("b", slice(None, half))):
        write(tmp_path / name, {key: column[part] for key, column in columns.items()})
    (row,) = gap_rows(SimulatedRuns([tmp_path / "a", tmp_path / "b"], reader))
    forward, reverse = (columns[f"log_{side}"].reshape(30, runs) for side in ("forward", "reverse"))
    forward = logsumexp(forward, 1) - math.log(runs)
    reverse = -(logsumexp(-reverse, 1) - math.log(runs))
    tokens = np.arange(30) + 5
    assert row["forward"] == pytest.approx(-forward.sum() / tokens.sum())
    assert row["reverse"] == pytest.approx(-reverse.sum() / tokens.sum())
    assert row["gap"] == pytest.approx(row["forward"] - row["reverse"])
    assert (row["n_documents"], row["n_cut"], row["n_missed"], row["runs"]) == (30, 0, 0, runs)
    assert row["two_sided_low"] < 0 < row["two_sided_high"]  # log p = 0
    assert row["two_sided_bound"] == "two-sided"


def test_the_error_of_a_gap_is_the_spread_over_sets_of_documents():
    random = np.random.default_rng(3)
    tokens = random.integers(5, 60, 40)
    found = []
    for _ in range(600):
        each = random.normal(0.05 * tokens, 0.4)
        found.append((gaps.gap_error(each, tokens), each.sum() / tokens.sum()))
    errors, values = np.array(found).T
    assert np.sqrt(np.square(errors).mean()) == pytest.approx(values.std(), rel=0.07)
    assert np.isnan(gaps.gap_error(np.ones(1), np.ones(1)))
    assert np.isnan(gaps.gap_error(np.array([1.0, np.inf]), np.ones(2)))


def test_what_is_cut_is_counted_what_q_misses_infinite_and_strange_files_refused(tmp_path, reader):
    columns = made_up(1)
    columns["log_forward"][3] = columns["log_reverse"][3] = np.nan
    columns["log_q"][5], columns["log_reverse"][5] = -np.inf, np.inf
    write(tmp_path / "a", columns)
    (row,) = gap_rows(SimulatedRuns([tmp_path / "a"], reader))
    assert (row["n_documents"], row["n_cut"], row["n_missed"], row["gap"]) == (29, 1, 1, math.inf)
    assert np.isnan(row["gap_error"])
    columns["log_forward"][:] = np.nan
    write(tmp_path / "b", columns)
    (row,) = gap_rows(SimulatedRuns([tmp_path / "b"], reader))
    assert (row["n_documents"], row["n_cut"]) == (0, 30)
    assert "gap" not in row
    columns = made_up(4)
    write(tmp_path / "other", columns, ("other", "table"))
    with pytest.raises(InputError, match="model is 'other', but the log weights are of 'tiny'"):
        SimulatedRuns([tmp_path / "other"], reader)
    write(tmp_path / "a", columns)
    with pytest.raises(InputError, match="a document has a run twice or lacks one"):
        list(SimulatedRuns([tmp_path / "a", tmp_path / "a"], reader))


def test_what_simulated_latents_show_to_be_missing():
    """Oracles: nothing, by independent sides; all that 20 zeros leave open; a mode of mass 0.5."""
    random = np.random.default_rng(8)
    forward, reverse = random.normal(-60.0, 9.0, (2, 20))
    open_left = 1 - 0.025 ** (1 / 20)
    found = gaps.shown_lack(forward, np.full(20, np.inf))
    assert found == pytest.approx(-20 * math.log(open_left))
    assert gaps.shown_lack(forward[:1], reverse[:1]) == 0.0
    assert gaps.shown_lack(np.append(forward, -np.inf), np.append(reverse, 0.0)) == 0.0
    for sigma in (0.1, 0.5, 1.0):  # p̂ is log-normal with mean p, 1/p̂ with mean 1/p
        sides = [random.normal(sign * sigma**2 / 2, sigma, (300, 20)) for sign in (-1, 1)]
        pairs = zip(*sides, strict=True)
        above = [gaps.shown_lack(one, other) - max(0.0, -one.sum()) for one, other in pairs]
        assert np.mean(np.array(above) > 0) <= 0.05
    for others in (8, 10, 12):  # draws see half of p, and of the z about half are in the other
        held = np.where(np.arange(20) < others, math.log(5.0), math.log(0.5))
        assert 2.0 < gaps.shown_lack(np.full(20, math.log(0.5)), held) < 20 * math.log(2)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_a_setting_that_simulated_documents_refute_claims_nothing(tmp_path, missing):
    """The estimates of the proposal know of it; of two temperatures the mixture has the other."""
    record = WeightLabels("tiny", "table", 1.0, "words", 50).in_record({})
    columns = weight_columns(lognormal(0.7, k=50))
    columns |= {"n_unknown": columns["n_tokens"] * 0, "latent_hash": columns["sample_id"]}
    write_shard(tmp_path / "w.parquet", draws.LOG_WEIGHTS, columns, record)
    reader = WeightReader([tmp_path / "w.parquet"])
    simulated = made_up(1, 0.1)
    simulated["log_reverse"] += missing
    write(tmp_path / "a", simulated)
    drawn = {"bidirectional": SimulatedRuns([tmp_path / "a"], reader)}
    options = ReductionOptions(subsets=0, bootstrap=0)
    for held, expected in (({}, "two-sided"), (drawn, "two-sided?" if missing else "two-sided")):
        table = estimates_table(reduce_weights(reader, held, options)).to_pylist()
        rows = [row for row in table if row["method"] == "two_sided"]
        assert [row["bound"] for row in rows] == [expected] * 2  # penalized or not
        said = "on 30 simulated documents the two-sided bounds of this setting are"
        assert all(row["note"].startswith(said) == expected.endswith("?") for row in rows)
    assert gaps_table(reduce_weights(reader, options=options)).num_rows == 0
    (gap,) = gaps_table(reduce_weights(reader, drawn, options)).to_pylist()
    assert (gap["at_most"] < gap["two_sided_low"]) == bool(missing)
    named = ("tiny", "table", "importance_sampling")
    assert (gap["model"], gap["proposal"], gap["method"]) == named
    assert gap["gap"] == pytest.approx(gap["forward"] - gap["reverse"])


def configured(**changed):
    smc = {"particles": 7, "runs": 2, "temperature": 1.5}  # what is not given has its default
    given = {"samples": 9, "smc": smc, "bidirectional": {"documents": 20, "maximum_words": 30}}
    for options in DRAWS["bidirectional"].settings(given | changed, [0.5, 2.0]).values():
        yield parse_options(BidirectionalOptions, options, "options")


def test_the_options_of_a_job_are_those_of_the_run():
    samples, particles = configured()
    assert (list(samples.grid), list(samples.sizes)) == ([0.5, 2.0], [9])
    assert samples.maximum_words == particles.maximum_words == 30
    assert particles.smc == SMCOptions(7, temperature=1.5)
    assert not particles.grid
    (without,) = configured(smc=None)
    assert without == samples
    assert not list(configured(bidirectional=None))


GRID = [0.5, 1.0, 2.0]


def instances(*lengths):
    generator = np.random.default_rng(0)
    tokens = [generator.integers(2, 7, length) for length in lengths]
    return [Instance(n, {"tokens": row, "bits": row % 2}) for n, row in enumerate(tokens, 10)]


def test_a_weight_does_not_depend_on_blocks_or_shards(pair, monkeypatch):
    # Oracle: the same samples drawn in one block.
    data = instances(5, 3, 8)
    whole = gather(list(weigh(pair, data, WeightOptions(0.5), range(70))))
    monkeypatch.setitem(pair_module.LATENTS_AT_ONCE, "cpu", 9)
    blocks = gather(list(weigh(pair, data, WeightOptions(0.5), range(70))))
    monkeypatch.setattr(pair_module, "together", lambda *_: [data[:2], data[2:]])  # as on a GPU
    several = gather(list(weigh(pair, data, WeightOptions(0.5), range(9))))
    monkeypatch.undo()
    alone = gather(list(weigh(pair, data, WeightOptions(0.5), range(9))))
    assert all(np.array_equal(several[name], values) for name, values in alone.items())
    cut = [(one, part) for one in data for part in (range(31), range(31, 70))]
    shards = [gather(list(weigh(pair, [one], WeightOptions(0.5), part))) for one, part in cut]
    for name, values in whole.items():
        assert np.array_equal(values, blocks[name]), name
        assert np.array_equal(values, gather(shards)[name]), name


def test_the_mean_weight_and_beams_at_full_support_are_the_likelihood(pair):
    # Oracle: p(x) by enumeration; 4 standard errors.
    (instance,) = instances(4)
    log_p = float(log_joint(pair, instance, all_bits(4)).logsumexp(0))
    for temperature in GRID:
        columns = gather(list(weigh(pair, [instance], WeightOptions(temperature), range(4000))))
        ratio = np.exp(columns["log_p"] - columns["log_q"])
        assert abs(ratio.mean() - math.exp(log_p)) < 4 * ratio.std() / math.sqrt(4000)
        assert set(columns["n_tokens"]) == {5}
    # A beam of fewer latents gives less.
    found = list(search(pair, [instance], BeamOptions((1, 5, 100))))
    sums = [np.logaddexp.reduce(columns["log_p"]) for columns in found]
    assert [len(columns["rank"]) for columns in found] == [1, 5, 16]
    assert sums[0] < sums[1] < sums[2]
    assert sums[2] == pytest.approx(log_p, abs=1e-12)


def test_equal_latents_have_equal_hashes_whatever_the_padding():
    # Oracle: equality of the rows themselves.
    rows = torch.randint(0, 3, (500, 6), generator=torch.Generator().manual_seed(0))
    wide = torch.cat([rows, torch.full((500, 3), PADDING)], 1)
    assert np.array_equal(hash_latents(rows), hash_latents(wide))
    assert len(np.unique(hash_latents(rows))) == len(torch.unique(rows, dim=0))


def test_fewer_instances_are_the_first_of_more_and_blocks_do_not_overlap():
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


def kglm_pair():
    model, proposal = test_kglm.make(kglm.KGLM), test_kglm.make(kglm_tagger.KGLMTagger, seed=3)
    tokens = np.array([4, 3, 2, 3, 4, 4, 3, 2, 2])
    arrays = {"tokens": tokens, "latents": np.zeros(len(tokens), int)}
    arrays["spellings"] = np.full(len(tokens), -1)  # no word of an alias
    return Pair(model, proposal, 5, "kglm/tagger"), [Instance(3, arrays), Instance(8, arrays)]


@pytest.mark.parametrize("name", ["toy", "kglm"])
def test_log_q_at_all_temperatures_is_of_the_samples_that_were_weighed(pair, name):
    # Oracles: the weights themselves, bit for bit, whose sums KGLM rounds; one temperature alone.
    pair, data = (pair, instances(5, 3)) if name == "toy" else kglm_pair()
    found = gather(list(score_temperatures(pair, data, LogQOptions((0.5, 1.0, 2.0)), range(30))))
    assert len(found["sample_id"]) == 2 * 3 * 30
    for temperature in GRID:
        weighed = gather(list(weigh(pair, data, WeightOptions(temperature), range(30))))
        own = {key: v[found["temperature"] == temperature] for key, v in found.items()}
        for key in ("instance_id", "sample_id", "latent_hash"):
            assert np.array_equal(own[key], weighed[key]), key
        assert np.array_equal(own[draws.temperature_column(temperature)], weighed["log_q"])
    more = LogQOptions((0.5, 0.9, 1.0, 1.1, 2.0, 5.0))
    again = gather(list(score_temperatures(pair, data, more, range(30))))
    kept = np.isin(again["temperature"], GRID)
    for column in map(draws.temperature_column, GRID):
        assert np.array_equal(again[column][kept], found[column])


def write_both(pair, folder):
    """Write weights at all temperatures and their log q, a shard an instance."""
    weights, log_q = [], []
    for place, instance in enumerate(instances(5, 3, 4)):
        for temperature in GRID:
            weights.append(folder / f"{place}-{temperature}.parquet")
            record = WeightLabels("toy", "toy", temperature, "words").in_record({})
            with ShardWriter(weights[-1], draws.LOG_WEIGHTS, record) as writer:
                for rows in weigh(pair, [instance], WeightOptions(temperature), range(9)):
                    writer.write(dict(rows))
        log_q.append(folder / f"{place}.parquet")
        columns = draws.temperature_columns(GRID)
        record = WeightLabels("toy", "toy").in_record({})
        with ShardWriter(log_q[-1], with_columns(draws.LOG_Q, columns), record) as writer:
            for rows in score_temperatures(pair, [instance], LogQOptions(tuple(GRID)), range(9)):
                writer.write(dict(rows))
    return weights, log_q


def test_a_reader_joins_weights_and_their_log_q_and_refuses_that_of_others(pair, tmp_path):
    # Oracle: log q of the drawn latents by the proposal, from one call with all temperatures.
    weights, log_q = write_both(pair, tmp_path)
    for block_rows in (1, 10_000):
        reader = WeightReader(weights, log_q=log_q[::-1], block_rows=block_rows)
        assert reader.has_grid
        for held, instance in zip(reader, instances(5, 3, 4), strict=True):
            options = LogQOptions(tuple(GRID))
            scored = score_temperatures(pair, [instance], options, range(9))
            for rows, samples in zip(scored, held.samples, strict=True):
                expected = np.stack([rows[draws.temperature_column(value)] for value in GRID], 1)
                assert np.array_equal(samples.log_q_grid, expected)
    assert not WeightReader(weights).has_grid
    for instance, files in ((12, log_q[:2]), (10, [*log_q, log_q[0]])):
        words = rf"instance {instance}, sample 0 at temperature 0\.5 is not in both"
        check_refused(words, lambda files=files: list(WeightReader(weights, log_q=files)))
    (tmp_path / "other").mkdir()
    other = Pair(pair.model, pair.proposal, 6, pair.purpose)
    with pytest.raises(InputError, match="is another latent than was weighed"):
        list(WeightReader(weights, log_q=write_both(other, tmp_path / "other")[1]))
    with pytest.raises(InputError, match=r"proposal is 'toy', but the log weights are of 'mine'"):
        WeightReader(weights, WeightLabels(proposal="mine"), log_q=log_q)
    with pytest.raises(InputError, match=r"column 'log_q_tau_3\.0' is missing"):
        WeightReader(weights[:1], WeightLabels(temperature=3.0), log_q=log_q)


def test_a_store_gives_back_what_was_written(tmp_path_factory):
    # Oracle: the instances themselves; an empty array among them.
    folder = tmp_path_factory.mktemp("store")
    data = instances(3, 0, 5)
    store = InstanceStore.write(folder, "test", iter(data))
    again = InstanceStore.write(folder, "test", iter([]))
    for held in (store, again):
        assert [i.instance_id for i in held] == [10, 11, 12]
        for found, expected in zip(held, data, strict=True):
            plain = [{n: a.tolist() for n, a in one.arrays.items()} for one in (found, expected)]
            assert plain[0] == plain[1]
        assert held.lengths.tolist() == [3, 0, 5]
