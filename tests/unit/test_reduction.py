"""The reduction of shards of log weights, whose cut is no matter, and the list of estimators.

Oracles: SciPy's logsumexp, enumeration, whole tables of files cut otherwise, the syntax trees.
"""

import ast
import json
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import logsumexp

from beyond_perplexity.figures.bounds import bounds
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance import estimator as contract
from beyond_perplexity.importance import ways_to_draw as ways
from beyond_perplexity.importance.draw_files import Beams, WeightLabels
from beyond_perplexity.importance.estimate_wording import report
from beyond_perplexity.importance.reduction import (
    band,
    curves_table,
    estimates_table,
    instances_table,
    reduce_weights,
    replicates_table,
)
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.report import importance, overview
from beyond_perplexity.schemas.draws import temperature_columns
from beyond_perplexity.storage.provenance import ROOT
from beyond_perplexity.storage.shards import read_batches
from scripts import reduce_weights as command
from tests.unit.evaluator_oracles import check_refused
from tests.unit.latent_tables import GRID, model, sample_columns, write_beams, write_weights
from tests.unit.text_pairs import run_script

P = model(n_instances=4, n_latents=6)
TRUE = float(np.log(P.sum(1)).sum())
T = int(sum(range(2, 6)))
K = 60
OPTIONS = ways.ReductionOptions(subsets=40, bootstrap=50, replicate_samples=20)
COLUMNS = {tau: sample_columns(P, tau, K) for tau in GRID}
TABLES = (estimates_table, curves_table, replicates_table, instances_table)
SAMPLING = {"method": "importance_sampling", "measure": "perplexity"}
INSTANCE = {**SAMPLING, "aggregation": "instance"}


def weights(tau):
    columns = COLUMNS[tau]
    return (columns["log_p"] - columns["log_q"]).reshape(len(P), K)


@pytest.fixture(scope="module")
def reduction(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    paths = [path for tau in GRID for path in write_weights(folder, COLUMNS[tau], tau)]
    reader = WeightReader(paths)
    beams = Beams([write_beams(folder / "beams.parquet", P, (1, 3, 6))], reader)
    return reduce_weights(reader, {"beams": beams}, OPTIONS, seed=3)


def select(table, **wanted):
    rows = table.to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def one(table, **wanted):
    (row,) = select(table, **wanted)
    return row


@pytest.mark.parametrize("tau", GRID)
def test_the_two_levels_are_those_of_scipy(reduction, tau):
    table = estimates_table(reduction)
    instance = one(table, **INSTANCE, temperature=tau)
    log_p = (logsumexp(weights(tau), 1) - np.log(K)).sum()
    assert instance["log_likelihood"] == pytest.approx(log_p, rel=1e-13)
    assert instance["value"] == pytest.approx(np.exp(-log_p / T), rel=1e-13)
    corpus = one(table, **SAMPLING, temperature=tau, pairing="sample_id")
    log_p = logsumexp(weights(tau).sum(0)) - np.log(K)
    assert corpus["value"] == pytest.approx(np.exp(-log_p / T), rel=1e-13)
    random = one(table, **SAMPLING, temperature=tau, pairing="random")
    assert random["low"] < random["value"] < random["high"]
    assert random["replicates"] == 40
    assert {row["bound"] for row in (instance, corpus, random)} == {"stochastic"}
    for row in (instance, corpus, random):
        assert (row["n_samples"], row["n_instances"], row["n_tokens"]) == (K, 4, T)
        assert (row["model"], row["proposal"], row["t_definition"]) == ("tiny", "table", "words")


def test_unknown_words_are_charged(reduction):
    table = estimates_table(reduction)
    keys = ("method", "basis", "temperature", "pairing", "beam_size")
    for plain in select(table, measure="perplexity"):
        others = select(table, measure="unknown_penalized_perplexity")
        charged = [row for row in others if all(row[k] == plain[k] for k in keys)]
        assert len(charged) == 1
        factor = np.exp(6 * np.log(50) / T)  # 0 + 1 + 2 + 3 unknown tokens of 50 types
        for name in ("low", "high") if plain["basis"] else ("value",):
            assert charged[0][name] == pytest.approx(plain[name] * factor, rel=1e-12)
        assert charged[0]["bound"] == plain["bound"]


def test_the_standard_errors_are_of_the_same_size_as_the_spread_of_replicates(reduction):
    row = one(estimates_table(reduction), **INSTANCE, temperature=1.0)
    found = []
    for seed in range(200):
        columns = sample_columns(P, 1.0, K, seed=100 + seed)
        log_w = (columns["log_p"] - columns["log_q"]).reshape(len(P), K)
        found.append(np.exp(-(logsumexp(log_w, 1) - np.log(K)).sum() / T))
    assert row["standard_error"] == pytest.approx(np.std(found), rel=0.35)
    assert row["standard_error_samples"] == pytest.approx(row["standard_error"], rel=0.35)
    assert row["standard_error_instances"] > 0


def test_the_mixture_uses_every_temperature(reduction):
    rows = one(estimates_table(reduction), method="mixture", measure="perplexity")
    names = temperature_columns(GRID).names
    log_p = np.concatenate([COLUMNS[tau]["log_p"].reshape(len(P), K) for tau in GRID], 1)
    parts = [np.stack([COLUMNS[tau][c].reshape(len(P), K) for c in names], 2) for tau in GRID]
    grid = np.concatenate(parts, 1)  # (N, 3 K, J)
    log_w = log_p - (logsumexp(grid, 2) - np.log(3))
    wanted = (logsumexp(log_w, 1) - np.log(3 * K)).sum()
    assert (rows["log_likelihood"], rows["n_samples"]) == (pytest.approx(wanted, rel=1e-13), 3 * K)
    assert rows["temperature"] is None


def test_beams_rise_to_the_truth_their_tail_is_not_below_and_the_jackknife_is_debiased(reduction):
    table = estimates_table(reduction)
    beams = [one(table, method="beam", beam_size=k, measure="perplexity") for k in (1, 3, 6)]
    values = [row["value"] for row in beams]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(np.exp(-TRUE / T), rel=1e-13)
    assert {row["bound"] for row in beams} == {"strict"}
    for row in beams:
        beam = {"method": "beam_plus_tail", "beam_size": row["beam_size"]}
        tails = select(table, **beam, measure="perplexity")
        assert [tail["temperature"] for tail in tails] == list(GRID)
        assert all(tail["value"] <= row["value"] for tail in tails)
        assert all(tail["standard_error_samples"] >= 0 for tail in tails)
        assert {tail["bound"] for tail in tails} == {"stochastic"}
    assert tails[0]["value"] == beams[-1]["value"]  # nothing is outside of the whole support
    rows = select(table, method="jackknife", measure="perplexity")
    assert [(row["bound"], row["temperature"]) for row in rows] == [("debiased", t) for t in GRID]


def test_curves_fall_and_end_at_the_estimates(reduction):
    curves, table = curves_table(reduction), estimates_table(reduction)
    for tau in GRID:
        instance = select(curves, temperature=tau, aggregation="instance")
        assert [row["n_samples"] for row in instance] == [1, 2, 5, 10, 20, 50, K]
        means = [row["mean"] for row in instance]
        assert means[0] > means[2] > means[-1]
        assert (np.diff(means) < 0.02).all()  # the subsets are drawn: falling up to that
        end = one(table, **INSTANCE, temperature=tau)
        for name in ("mean", "low", "high"):
            assert instance[-1][name] == pytest.approx(end["value"], rel=1e-12)
        corpus = select(curves, temperature=tau, aggregation="corpus")
        end = one(table, temperature=tau, pairing="random", measure="perplexity")
        assert [corpus[-1][name] for name in ("mean", "low", "high")] == pytest.approx(
            [end[name] for name in ("value", "low", "high")], rel=1e-12
        )
        # One sample for each instance: nothing is averaged, the two levels are the same.
        assert corpus[0]["mean"] == pytest.approx(instance[0]["mean"], rel=1e-12)
        assert all(row["low"] <= row["mean"] <= row["high"] for row in corpus)


def test_replicates_are_the_estimates_of_disjoint_blocks(reduction):
    rows = select(replicates_table(reduction), temperature=1.0)
    log_w = weights(1.0).reshape(len(P), 3, 20)
    wanted = np.exp(-(logsumexp(log_w, 2) - np.log(20)).sum(0) / T)
    found = [row["value"] for row in rows if row["aggregation"] == "instance"]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    corpus = [row["value"] for row in rows if row["aggregation"] == "corpus"]
    wanted = np.exp(-(logsumexp(log_w.sum(0), 1) - np.log(20)) / T)
    np.testing.assert_allclose(corpus, wanted, rtol=1e-13)


def test_diagnostics_name_instances_and_estimators(reduction):
    table = instances_table(reduction)
    assert set(table["instance_id"].to_pylist()) == {3, 10, 17, 24}
    assert len(select(table, method="mixture")) == 4
    row = one(table, method="importance_sampling", temperature=0.5, instance_id=17)
    log_w = weights(0.5)[2]
    w = np.exp(log_w - log_w.max())
    assert row["ess"] == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-12)
    assert row["largest_weight"] == pytest.approx(1 / w.sum(), rel=1e-12)
    hashes = COLUMNS[0.5]["latent_hash"].reshape(len(P), K)[2]
    assert row["unique_share"] == len(set(hashes.tolist())) / K
    assert row["log_likelihood"] == pytest.approx(np.log(np.mean(w)) + log_w.max(), rel=1e-12)
    summary = one(estimates_table(reduction), **INSTANCE, temperature=0.5)
    rows = select(table, method="importance_sampling", temperature=0.5)
    assert summary["ess_min"] == min(row["ess"] for row in rows)
    assert summary["largest_weight_max"] == max(row["largest_weight"] for row in rows)


def cuts(folder, name):
    """Write the same samples in one of several ways; the last is the rows held at once."""
    random = np.random.default_rng(0)
    paths = []
    for tau in GRID:
        columns = COLUMNS[tau]
        parts = []
        if name == "blocks of samples":
            by_sample = np.argsort(columns["sample_id"], kind="stable")
            columns = {key: column[by_sample] for key, column in columns.items()}
            parts = [slice(0, 100), slice(100, 101), slice(101, None)]
        elif name == "a few rows, reversed":
            columns = {key: column[::-1] for key, column in columns.items()}
            parts = [slice(row, row + 11) for row in range(0, len(P) * K, 11)]
        elif name == "shuffled":
            order = random.permutation(len(P) * K)
            columns = {key: column[order] for key, column in columns.items()}
            parts = [slice(0, 37), slice(37, None)]
        paths += write_weights(folder, columns, tau, parts)
    held = {"blocks of samples": 1, "shuffled": 2 * K}.get(name, 2**19)
    return paths[::-1], held


@pytest.mark.parametrize("name", ["blocks of samples", "a few rows, reversed", "shuffled"])
def test_no_number_depends_on_the_cut_the_order_or_the_memory(reduction, tmp_path, name):
    paths, held = cuts(tmp_path, name)
    reader = WeightReader(paths, block_rows=held)
    beams = Beams([write_beams(tmp_path / "beams.parquet", P, (6, 1, 3))], reader)
    other = reduce_weights(reader, {"beams": beams}, OPTIONS, seed=3)
    for table in TABLES:
        assert table(other).equals(table(reduction))


def test_row_groups_are_read_only_where_an_instance_is(tmp_path):
    (path,) = write_weights(tmp_path, COLUMNS[1.0], 1.0)
    pq.write_table(pq.read_table(path), tmp_path / "groups.parquet", row_group_size=K)
    labels = WeightLabels(temperature=1.0)
    reader = WeightReader([tmp_path / "groups.parquet"], labels, block_rows=K)
    file = reader._groups[0][0].file
    read = []
    batches = file.batches
    file.batches = lambda columns, group=0: read.append(group) or batches(columns, group)  # type: ignore[method-assign,func-returns-value]
    assert [instance.instance_id for instance in reader] == [3, 10, 17, 24]
    assert read == [0, 1, 2, 3]


def reduced(tmp_path, columns, options=OPTIONS, seed=0):
    pq.write_table(pa.table(columns), tmp_path / "weights.parquet")
    reader = WeightReader([tmp_path / "weights.parquet"])
    return reduce_weights(reader, options=options, seed=seed)


def estimated(tmp_path, columns):
    return estimates_table(reduced(tmp_path, columns))


def test_zero_weights_are_infinite_and_the_posterior_gives_the_truth_without_spread(tmp_path):
    columns = {**COLUMNS[1.0]}
    columns["log_p"] = np.where(columns["instance_id"] == 10, -np.inf, columns["log_p"])
    table = estimated(tmp_path, columns)
    for row in select(table, **SAMPLING):
        assert row["value"] == np.inf
        assert row["standard_error"] is None
    row = one(table, **INSTANCE)
    assert row["n_infinite"] == 1
    assert "(10): the perplexity is infinite" in row["note"]
    assert "p̂ is 0 for 1 instances" in row["note"]
    assert row["ess_min"] == 0
    jackknife = one(table, method="jackknife", measure="perplexity")
    assert jackknife["value"] is None
    assert "undefined: 1 instances" in jackknife["note"]
    columns, posterior = {**COLUMNS[1.0]}, np.log(P / P.sum(1, keepdims=True))
    columns["log_q"] = posterior[columns["instance_id"] // 7, (columns["latent_hash"] + 5) // 1000]
    columns = {name: column for name, column in columns.items() if "tau" not in name}
    for row in select(estimated(tmp_path, columns), measure="perplexity"):
        for name in ("low", "high") if row["basis"] else ("value",):
            assert row[name] == pytest.approx(np.exp(-TRUE / T), rel=1e-12)
        spread = ("standard_error", "standard_error_samples", "standard_deviation")
        assert all(row[name] is None or row[name] < 1e-10 for name in spread)
        if row["ess_min"] is not None:
            assert row["ess_min"] == pytest.approx(K, rel=1e-9)


def test_with_unequal_numbers_the_corpus_level_uses_those_that_all_have(tmp_path):
    kept = (COLUMNS[1.0]["instance_id"] != 10) | (COLUMNS[1.0]["sample_id"] < 25)
    table = estimated(tmp_path, {name: column[kept] for name, column in COLUMNS[1.0].items()})
    log_w = weights(1.0)
    instance = one(table, **INSTANCE)
    wanted = sum(logsumexp(w[:n]) - np.log(n) for w, n in zip(log_w, (60, 25, 60, 60), strict=True))
    assert instance["log_likelihood"] == pytest.approx(wanted, rel=1e-13)
    assert "25 to 60 samples: all count" in instance["note"]
    corpus = one(table, pairing="sample_id", measure="perplexity")
    wanted = logsumexp(log_w[:, :25].sum(0)) - np.log(25)
    assert (corpus["log_likelihood"], corpus["n_samples"]) == (pytest.approx(wanted, rel=1e-13), 25)
    assert "of each, 25 count" in corpus["note"]


def test_one_sample_of_one_instance_is_enough_and_nothing_is_drawn_unless_wanted(tmp_path):
    columns = {name: column[:1] for name, column in COLUMNS[1.0].items()}
    row = one(estimated(tmp_path, columns), **INSTANCE)
    assert row["value"] == pytest.approx(np.exp(-weights(1.0)[0, 0] / 2), rel=1e-13)
    errors = ("standard_error", "standard_error_instances", "k_hat_threshold")
    assert [row[name] for name in errors] == [None, None, None]
    found = reduced(tmp_path, COLUMNS[1.0], ways.ReductionOptions(subsets=0, bootstrap=0))
    assert not curves_table(found).num_rows
    rows = select(estimates_table(found), measure="perplexity")
    assert {row["pairing"] for row in rows} == {None, "sample_id"}
    assert {row["standard_error_samples"] for row in rows} == {None}


def weight_columns(counts, log_p):
    """Return columns of so many samples of each instance, of 5 tokens; log q is 0."""
    ids = np.arange(len(counts)).repeat(counts)
    numbers = np.concatenate([np.arange(count) for count in counts])
    columns = {"instance_id": ids, "sample_id": numbers, "n_tokens": np.full(len(ids), 5)}
    return columns | {"log_p": log_p, "log_q": np.zeros(len(ids))}


def log_normal(tmp_path, sigma, seed):
    """Return the estimates from 8 instances with 100 log-normal weights of mean 1 each."""
    drawn = np.random.default_rng([9, seed]).normal(-(sigma**2) / 2, sigma, 800)
    columns = weight_columns([100] * 8, drawn)
    return estimates_table(reduced(tmp_path, columns, ways.ReductionOptions(30, 60), seed))


ERRORS = ("standard_error", "standard_error_samples", "standard_deviation")


@pytest.mark.parametrize("sigma", [0.4, 3.0])
def test_the_errors_that_are_given_are_those_of_independent_repetitions(tmp_path, sigma):
    """Oracle: the spread of log perplexity over repetitions, and its true value, which is 0."""
    tables = [log_normal(tmp_path, sigma, seed) for seed in range(60)]
    levels = {"instance": INSTANCE}
    levels |= {name: {"pairing": name, **SAMPLING} for name in ("sample_id", "random")}
    given, spread = {}, {}
    for level, wanted in levels.items():
        rows = [one(table, **wanted) for table in tables]
        values = np.log([row["value"] for row in rows])
        known = [name for name in ERRORS if rows[0][name] is not None]
        errors = {name: np.array([row[name] / row["value"] for row in rows]) for name in known}
        given[level] = set(errors)
        # The deviation over pairings is of one pairing, such as that by ids; of good weights it
        # leaves out much of the spread, as the samples stay the same.
        spread[level] = spread.get("sample_id", values.std(ddof=1))
        least = 0.3 if level == "random" and sigma < 1 else 0.6
        for error in errors.values():
            assert least < np.sqrt(np.mean(error**2)) / spread[level] < 1.5
        if "standard_error" in errors:
            assert (np.abs(values) < 2 * errors["standard_error"]).mean() > 0.85
        else:
            assert level == "random" or all("delta method" in row["note"] for row in rows)
    delta = {"standard_error"} if sigma < 1 else set()
    assert given["instance"] == {"standard_error_samples"} | delta
    assert given["random"] == {"standard_deviation"}


def test_each_instance_has_the_threshold_of_its_own_samples(tmp_path):
    """Oracle: the thresholds of the table of diagnostics, an instance a row."""
    log_p = np.random.default_rng(3).normal(-20, 2.0, 4031)
    found = reduced(tmp_path, weight_columns([1, 30, *[400] * 10], log_p))
    held = instances_table(found).to_pylist()
    above = [row["k_hat"] is not None and row["k_hat"] > row["k_hat_threshold"] for row in held]
    row = one(estimates_table(found), **INSTANCE)
    assert row["k_hat_above"] == sum(above)
    assert 0 < sum(above) < 11
    assert (row["k_hat_undefined"], row["k_hat_threshold"]) == (1, None)
    assert "k̂ is undefined for 1 of 12 instances (0; short tail 1)" in row["note"]
    assert "1 instances (0) have a single sample" in row["note"]
    assert row["standard_error"] is None
    assert row["standard_error_samples"] > 0
    corpus = one(estimates_table(found), pairing="sample_id", measure="perplexity")
    assert corpus["standard_error_samples"] is None
    assert "a single sample of all instances" in corpus["note"]


def test_resamples_without_a_positive_weight_are_noted(tmp_path):
    first = (COLUMNS[1.0]["instance_id"] != 10) | (COLUMNS[1.0]["sample_id"] == 0)
    columns = {**COLUMNS[1.0], "log_p": np.where(first, COLUMNS[1.0]["log_p"], -np.inf)}
    rows = select(estimated(tmp_path, columns), **SAMPLING)
    for row in rows[:2]:  # both levels; a resample misses the one weight in 0.37 of the cases
        assert row["standard_error"] is row["standard_error_samples"] is None
        assert "of 50 resamples have no positive weight left" in row["note"]


def test_a_probability_above_1_is_noted_and_bands_hold_infinite_replicates(tmp_path):
    negated = {**COLUMNS[1.0], "log_p": -COLUMNS[1.0]["log_p"]}
    row = select(estimated(tmp_path, negated), aggregation="instance", measure="perplexity")[0]
    assert "p̂ is above 1 for 4 instances (3, 10, 17 and 1 more)" in row["note"]
    low, high = band(np.array([[1.0], [np.inf], [2.0], [3.0]]), 0.5)
    assert (low[0], high[0]) == (1.0, np.inf)


def test_another_seed_gives_other_subsets_and_the_same_estimates(reduction):
    other = reduce_weights(reduction.inputs.reader, None, OPTIONS, seed=4)
    ours, theirs = curves_table(reduction).to_pylist(), curves_table(other).to_pylist()
    assert ours[0]["mean"] != theirs[0]["mean"]
    assert ours[6]["mean"] == pytest.approx(theirs[6]["mean"], rel=1e-13)


def test_beams_must_be_of_the_same_instances(tmp_path):
    reader = WeightReader(write_weights(tmp_path, COLUMNS[1.0], 1.0))
    other = write_beams(tmp_path / "more.parquet", model(5, 6), (1,))
    check_refused(r"more\.parquet: row 5: instance_id is 31", Beams, [other], reader)
    fewer = write_beams(tmp_path / "fewer.parquet", P[:3], (2,))
    check_refused("instance 24 has no beam of size 2", Beams, [fewer], reader)
    check_refused("instance 3, beam size 2, rank 0 is there twice", Beams, [fewer, fewer], reader)


def test_the_command_writes_every_table_with_its_schema(tmp_path):
    paths = [path for tau in GRID for path in write_weights(tmp_path, COLUMNS[tau], tau)]
    beams = write_beams(tmp_path / "beams.parquet", P, (1, 3))
    outputs = {name: tmp_path / "out" / f"{name}.parquet" for name in command.REDUCED_TABLES}
    flags = ["--weights", *paths, "--beams", beams, "--seed", 5]
    flags += ["--options", json.dumps({"subsets": 10, "bootstrap": 10})]
    flags += ["--labels", json.dumps({"model": "named"})]
    flags += [part for name, path in outputs.items() for part in (f"--{name}", path)]
    run_script(command, *flags)
    for name, (schema, _) in command.REDUCED_TABLES.items():
        rows = sum(len(batch) for batch in read_batches(outputs[name], schema, schema.names))
        assert (rows > 0) == (name != "replicates")  # K is below the samples of a replicate
    assert set(pq.read_table(outputs["estimates"])["model"].to_pylist()) == {"named"}


FOLDER = ROOT / "beyond_perplexity/importance"


@pytest.fixture
def reader(tmp_path):
    return WeightReader([p for tau in GRID for p in write_weights(tmp_path, COLUMNS[tau], tau)])


@pytest.mark.parametrize("method", ways.ESTIMATORS)
def test_a_row_says_all_that_is_asked(method):
    estimator = ways.find_estimator(method)
    module = Path(ROOT, *ways.ESTIMATORS[method].partition(":")[0].split(".")).with_suffix(".py")
    assert module.parent == FOLDER
    assert ast.get_docstring(ast.parse(module.read_text()))
    assert estimator.__doc__ != contract.Estimator.__doc__
    assert estimator.title
    assert estimator.words
    assert estimator.bound in contract.BOUNDS
    others = {contract.SAMPLES, contract.ALL_TEMPERATURES, contract.KNOWN_LATENTS}
    assert set(estimator.needs) <= others | ways.DRAW_READERS.keys()
    assert not estimator.__abstractmethods__


def test_every_estimator_has_its_row_and_no_title_stands_twice():
    nodes = [(p.stem, node) for p in FOLDER.glob("*.py") for node in ast.parse(p.read_text()).body]
    classes = [(stem, node) for stem, node in nodes if isinstance(node, ast.ClassDef)]
    bases = {f"{stem}:{node.name}": [*map(ast.unparse, node.bases)] for stem, node in classes}
    found = {name for name, held in bases.items() if any(b.endswith("Estimator") for b in held)}
    assert {reference.split(".")[-1] for reference in ways.ESTIMATORS.values()} == found
    titles = [estimator.title for estimator in ways.load_estimators().values()]
    assert len(set(titles)) == len(titles)
    check_refused("the estimators are importance_sampling, ", ways.find_estimator, "none")


def test_the_code_of_a_run_is_that_whose_draws_it_has():
    def named(*kinds):
        return {reference.rpartition(":")[2] for reference in ways.estimator_code(kinds)}

    plain = {"ImportanceSampling", "Jackknife", "Mixture", "TwoSided"}
    assert (named(), named("beams")) == (plain, plain | {"Beams", "Beam", "BeamPlusTail"})
    assert named("smc") == plain | {"SMCRuns", "SequentialMonteCarlo"}
    assert set(ways.estimator_code()) == set(ways.estimator_code(["beams", "smc", "bidirectional"]))
    assert all(resolve_name(reference) for reference in ways.estimator_code())


def test_an_estimator_is_made_for_each_setting_of_what_it_needs(reader, tmp_path):
    beams = Beams([write_beams(tmp_path / "beams.parquet", P, (1, 3))], reader)
    inputs = contract.Inputs(reader, {"beams": beams}, OPTIONS, seed=0)
    found = {method: len(kind.of(inputs)) for method, kind in ways.load_estimators().items()}
    expected = {"importance_sampling": 3, "jackknife": 3, "mixture": 1, "beam_plus_tail": 6}
    assert found == expected | {"smc": 0, "beam": 2, "two_sided": 4}


class Largest(contract.Estimator):
    """log max_k w_k / e⁵, below log p̂ of importance sampling."""

    title, words, bound = "Largest weight", "the largest weight alone", contract.STOCHASTIC
    needs = (contract.SAMPLES,)
    stream = "{temperature}/bootstrap over samples of the largest"
    drawn, times = "draws", " !"
    size_note = "of the largest weight all samples"
    trust_note = "of the largest weight 1"
    heading, summary = "largest", "the largest weight"

    def estimate(self, instance):
        log_weights = self.samples(instance).log_weights
        return contract.InstanceEstimate(float(log_weights.max()) - 5.0, len(log_weights))


def test_a_row_more_is_seen_everywhere(reader, monkeypatch):
    """Oracle: NumPy on the same samples; texts of the toy."""
    monkeypatch.setitem(ways.ESTIMATORS, "largest", "tests.unit.test_reduction:Largest")
    table = estimates_table(reduce_weights(reader, options=OPTIONS))
    rows = [row for row in table.to_pylist() if row["method"] == "largest"]
    settings = [(tau, "perplexity") for tau in GRID]
    assert [(row["temperature"], row["measure"]) for row in rows[::2]] == settings
    for row in rows[::2]:
        wanted = weights(row["temperature"]).max(1).sum() - 5.0 * len(P)
        assert row["log_likelihood"] == pytest.approx(wanted)
        assert (row["bound"], row["n_samples"]) == ("stochastic", K)

    words = report(table)
    assert f"by the largest weight alone; instance level; temperature {GRID[0]:g}" in words
    assert f"K = {K} draws" in words

    frame = table.to_pandas()
    labels = Labels(families={"tiny": "rnng"}, data={"tiny": "words"})
    shown = importance.trust_table(frame, None, labels)
    assert ("Largest weight", f"{K} !") in {(row[3], row[4]) for row in shown.rows}
    assert "of the largest weight all samples; bounds" in shown.note
    assert "; of the largest weight 1; tokens below 5" in shown.note

    lines = [label.get_text() for label in bounds(frame, None, labels).axes[0].get_yticklabels()]
    assert "Largest weight" in lines

    page = overview.render_overview({}, {}, [], (), frame, [])
    assert "     - largest\n" in page
    assert "and the largest weight." in " ".join(page.split())
    lowest = min(row["value"] for row in rows[::2])
    assert f"     - {lowest:,.1f}" in page


def compared_texts(tree):
    """Return the texts that something is compared with, also in a list, a pattern or ``isin``."""
    operands = []
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
    paths = [ROOT / "beyond_perplexity/library/estimate.py", ROOT / "scripts/reduce_weights.py"]
    for folder in ("importance", "report", "figures", "planning"):
        paths += (ROOT / "beyond_perplexity" / folder).rglob("*.py")
    seen = 0
    for path in paths:
        asked = compared_texts(ast.parse(path.read_text())) & ways.ESTIMATORS.keys()
        assert not asked or (path.parent == FOLDER and asked <= {path.stem}), path
        seen += 1
    assert seen > 50
